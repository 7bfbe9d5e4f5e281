"""Exporting in tests, and what comes out."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import torch
from executorch.exir._serialize._program import deserialize_pte_binary

from etmetal.export import Options, Program, export, trace
from etmetal.export.check import Comparison, compare, run
from etmetal.targets import Target


def made(
    model: torch.nn.Module, inputs: tuple[Any, ...], folder: Path, **options: Any
) -> list[Program]:
    """The programs of a model; for the host alone, if nothing else is said."""
    options.setdefault("targets", (Target.HOST,))
    program = trace(model, inputs, options.pop("dynamic_shapes", None))
    return export({"forward": program}, folder / "model.pte", Options(**options))


def compared(program: Program, model: torch.nn.Module, *calls: tuple[Any, ...]) -> list[Comparison]:
    """Runs a program beside its model, once for each of ``calls``."""
    results = []
    for inputs in calls:
        with torch.no_grad():
            expected = copy.deepcopy(model)(*copy.deepcopy(inputs))
        results += compare(expected, run(program.path, program.data, inputs, "forward"))
    return results


def library_of(path: Path) -> bytes:
    """The library in a program with one delegate."""
    pte = deserialize_pte_binary(path.read_bytes())
    (data,) = [
        bytes(pte.named_data.buffers[entry.buffer_index])
        for key, entry in pte.named_data.pte_data.items()
        if key.endswith("_so_blob")
    ]
    return data
