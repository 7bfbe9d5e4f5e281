"""The test modules in ExecuTorch's wheel, as they are, with etmetal in the place of what they test:
its backend and partitioner, and the host device instead of a Mac with ``executor_runner``.
"""

from __future__ import annotations

import dataclasses
import unittest.mock
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
import torch.backends.mps

import etmetal
from etmetal import quantize


@dataclasses.dataclass
class Row:
    """What became of a module."""

    name: str
    dtype: str
    exported: bool = False
    right: bool = False
    error: float | None = None


#: In the order of running.
TABLE: dict[str, Row] = {}


def _load() -> ModuleType:
    quantize.declare_operators()
    # Decides which tests there are; nothing of it runs on MPS.
    with unittest.mock.patch.object(torch.backends.mps, "is_available", lambda: True):
        from executorch.backends.apple.metal.tests import test_modules
    assert test_modules.TORCHAO_AVAILABLE, "the modules with quantised weights would be left out"
    export, compare = test_modules.export_model_to_pte, test_modules.compare_outputs

    def row(directory: Path) -> Row:
        name, _, dtype = directory.name.rpartition("_")
        return TABLE.setdefault(directory.name, Row(name, dtype))

    def export_model_to_pte(
        model: Any, inputs: Any, output_dir: Path, *rest: Any, **more: Any
    ) -> Any:
        entry = row(output_dir)
        # Weights and reference are random.
        result = export(model, inputs, output_dir, *rest, **more)
        entry.exported = True
        return result

    def compare_outputs(expected: Any, output: Path, *rest: Any, **more: Any) -> Any:
        close, absolute, relative = compare(expected, output, *rest, **more)
        entry = row(output.parent)
        entry.right, entry.error = bool(close), float(absolute)
        return close, absolute, relative

    test_modules.export_model_to_pte = export_model_to_pte
    test_modules.compare_outputs = compare_outputs
    test_modules.run_executor_runner = run_executor_runner
    test_modules.MetalBackend = etmetal.MetalBackend
    test_modules.MetalPartitioner = etmetal.MetalPartitioner
    # References are computed on the CPU: there is no MPS here.
    test_modules.MPS_AVAILABLE = False
    test_modules.SKIP_EXPORT_TESTS = False
    test_modules.SKIP_RUNTIME_TESTS = False
    return test_modules


def run_executor_runner(pte_path: Path, output_path: Path) -> tuple[bool, str | None]:
    """As ``executor_runner``: runs the model on inputs of ones and writes its outputs raw."""
    try:
        with etmetal.Module(pte_path) as module:
            specs = module.inputs()
            ones = [np.ones(spec.shape, _numpy(spec.dtype)) for spec in specs]
            outputs = module.execute(*ones)
            kinds = [spec.dtype for spec in module.outputs()]
    except etmetal.EtmetalError as error:
        return False, str(error)
    for index, (output, kind) in enumerate(zip(outputs, kinds, strict=True)):
        tensor = torch.from_numpy(output)
        raw = tensor.to(torch.bfloat16).view(torch.uint16) if kind == "bfloat16" else tensor
        Path(f"{output_path}-{index}.bin").write_bytes(raw.numpy().tobytes())
    return True, None


def _numpy(dtype: str | None) -> Any:
    return np.dtype("float32" if dtype == "bfloat16" else dtype)


modules = _load()
