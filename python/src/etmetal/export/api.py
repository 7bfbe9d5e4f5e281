"""From a model to the files of a program."""

from __future__ import annotations

import copy
import dataclasses
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from executorch.exir import EdgeCompileConfig, ExecutorchBackendConfig, to_edge_transform_and_lower
from torch.export import ExportedProgram

from etmetal import versions
from etmetal.backend import WEIGHTS_ALIGNMENT, MetalBackend
from etmetal.partitioner import Fallback, MetalPartitioner
from etmetal.specs import CODESIGN_IDENTITY, spec
from etmetal.targets import Target

Progress = Callable[[str], None]


@dataclasses.dataclass(frozen=True)
class Options:
    """How to export."""

    #: The systems to export for; each gets a file.
    targets: tuple[Target, ...] = (Target.HOST, Target.MACOS_ARM64)
    #: Weights into a ``.ptd`` beside the ``.pte``.
    external_weights: bool = False
    #: What becomes of operators without a kernel.
    fallback: Fallback = "error"
    #: Who signs libraries for macOS.
    codesign_identity: str | None = None


@dataclasses.dataclass(frozen=True)
class Program:
    """A written program."""

    #: What it is for.
    target: Target
    #: Its ``.pte``.
    path: Path
    #: The ``.ptd`` files with its weights, if they are not in it.
    data: tuple[Path, ...]
    #: Delegates in it: Metal's, one for each part that is left whole.
    delegates: int
    #: Operators that ExecuTorch's own kernels run.
    portable: tuple[str, ...]

    @property
    def size(self) -> int:
        """Bytes of all its files."""
        return sum(path.stat().st_size for path in (self.path, *self.data))


def export(
    methods: Mapping[str, ExportedProgram],
    out: Path,
    options: Options | None = None,
    progress: Progress = lambda _: None,
) -> list[Program]:
    """Writes the program of ``methods`` for each target.

    With one target the file is ``out``; with several, those beside ``macos-arm64`` have the
    target in front of the suffix: ``model.host.pte``.

    Raises:
        EtmetalError: The model or the options are such that it cannot be done.

    """
    options = options or Options()
    versions.require("executorch")
    versions.require("torch", torch.__version__)
    programs = []
    for target in options.targets:
        path = _path(out, target, alone=len(options.targets) == 1)
        progress(f"compiling for {target.value}")
        programs.append(_export_one(methods, target, path, options))
    return programs


def _path(out: Path, target: Target, alone: bool) -> Path:
    if alone or target is Target.MACOS_ARM64:
        return out
    return out.with_suffix(f".{target.value}{out.suffix}")


def _export_one(
    methods: Mapping[str, ExportedProgram], target: Target, path: Path, options: Options
) -> Program:
    partitioners = {name: [_partitioner(name, target, path, options)] for name in methods}
    edge = to_edge_transform_and_lower(
        {name: copy.deepcopy(program) for name, program in methods.items()},
        partitioner=partitioners,
        # Operators outside of Core ATen may have kernels all the same; those that have none are
        # told by the backend, with the lines that call them.
        compile_config=EdgeCompileConfig(_check_ir_validity=False),
    )
    # Segments begin at multiples of this in the file, so that weights can begin at a page.
    config = ExecutorchBackendConfig(segment_alignment=WEIGHTS_ALIGNMENT)
    program = edge.to_executorch(config)
    plans = program.executorch_program.execution_plan
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".etmetal-", dir=path.parent) as folder:
        new = Path(folder) / path.name
        with new.open("wb") as file:
            program.write_to_file(file)
        program.write_tensor_data_to_file(folder)
        data = sorted(file for file in Path(folder).iterdir() if file != new)
        for file in (*data, new):
            file.replace(path.parent / file.name)
    return Program(
        target=target,
        path=path,
        data=tuple(path.parent / file.name for file in data),
        delegates=sum(len(plan.delegates) for plan in plans),
        portable=tuple(sorted({_name(op) for plan in plans for op in plan.operators})),
    )


def _name(operator: Any) -> str:
    return f"{operator.name}.{operator.overload}" if operator.overload else str(operator.name)


def _partitioner(name: str, target: Target, path: Path, options: Options) -> MetalPartitioner:
    specs = [MetalBackend.generate_method_name_compile_spec(name)]
    if options.codesign_identity is not None and target is Target.MACOS_ARM64:
        specs.append(spec(CODESIGN_IDENTITY, options.codesign_identity))
    return MetalPartitioner(
        specs,
        target=target,
        external_weights=path.stem if options.external_weights else False,
        fallback=options.fallback,
    )


def trace(
    model: torch.nn.Module,
    inputs: Sequence[Any],
    dynamic_shapes: Any = None,
) -> ExportedProgram:
    """The graph of ``model``, with ``inputs`` for an example."""
    with torch.no_grad():
        return torch.export.export(
            model, tuple(inputs), dynamic_shapes=dynamic_shapes, strict=False
        )
