"""Whole architectures export and give what eager PyTorch gives."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import architectures
from etmetal import Module
from etmetal.export import Program
from programs import compared, made


@pytest.mark.parametrize("name", architectures.ALL)
def test_results_are_those_of_the_model(name: str, tmp_path: Path) -> None:
    torch.manual_seed(1)
    model, inputs = architectures.ALL[name]()
    (program,) = made(model, inputs, tmp_path)
    assert program.delegates == 1
    assert program.portable == ()
    comparisons = compared(program, model, inputs)
    assert all(c.right for c in comparisons), "\n".join(map(str, comparisons))
    if name == "llama_decoder":
        _decodes(program, model)


def _decodes(program: Program, model: torch.nn.Module) -> None:
    """The cache of keys and values stays from call to call."""
    tokens = [5, 90, 17, 3]
    with Module(program.path) as module, torch.no_grad():
        for place, token in enumerate(tokens):
            call = (torch.tensor([[token]]), torch.tensor([place]))
            (logits,) = module.execute(*(t.numpy() for t in call))
            torch.testing.assert_close(torch.from_numpy(logits), model(*call), rtol=1e-4, atol=1e-4)
