"""Every module that ExecuTorch tests its own Metal backend with; see ``wheel.py``."""

from __future__ import annotations

import pytest
import torch

import wheel

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}

#: Modules whose bfloat16 form is run every time; the others are run with ``--tier full``.
QUICK_BFLOAT16 = {"add", "addmm", "conv1d_nobias", "linear_bias", "linear_bias_int4", "sdpa"}


class TestModules(wheel.modules.TestMetalBackendModules):
    """The wheel's own test class, collected here: export, and outputs."""


def pytest_generate_names() -> list[str]:
    return [name for name in dir(TestModules) if name.startswith("test_")]


for _name in pytest_generate_names():
    _module, _, _kind = _name.removeprefix("test_").partition("_float32_")
    if not _kind:
        _module, _, _kind = _name.removeprefix("test_").partition("_bfloat16_")
        _quick = _module in QUICK_BFLOAT16
    else:
        _quick = True
    if _kind == "export" or (_kind and not _quick):
        setattr(TestModules, _name, pytest.mark.full(getattr(TestModules, _name)))
