"""The command line of ``python -m etmetal.export``."""

from __future__ import annotations

import argparse
import copy
import importlib
import logging
import re
import sys
import time
import traceback
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from etmetal.errors import EtmetalError

DTYPES = ("float32", "float16", "bfloat16")


def parser() -> argparse.ArgumentParser:
    """The options."""
    described = argparse.ArgumentParser(
        prog="python -m etmetal.export",
        description="Export a PyTorch model for ExecuTorch's Metal delegate (experimental).",
    )
    add = described.add_argument
    add(
        "model",
        metavar="MODULE:FACTORY",
        help="a function that returns the model and a tuple of example inputs",
    )
    add("--out", type=Path, metavar="FILE", help="the program to write (default: MODULE.pte)")
    add("--dtype", choices=DTYPES, help="convert weights and floating-point inputs first")
    add(
        "--quantize",
        choices=[f"int{bits}" for bits in range(1, 8)],
        help="quantise the weights of linear layers",
    )
    add("--group-size", type=int, default=32, choices=(32, 64, 128, 256), help="of --quantize")
    add(
        "--dynamic",
        action="append",
        default=[],
        metavar="INPUT.DIM=NAME[:MIN..MAX]",
        help="this dimension of this input has any size; the same name is the same size",
    )
    add(
        "--target",
        choices=("host", "macos-arm64", "both"),
        default="both" if sys.platform != "darwin" else "macos-arm64",
        help="where it is to run (default: %(default)s; `both` writes FILE for macOS and "
        "FILE.host.pte for this machine)",
    )
    add("--external-weights", action="store_true", help="weights into a .ptd beside the program")
    add(
        "--fallback",
        choices=("error", "portable"),
        default="error",
        help="operators without a kernel: refuse the model, or leave them to ExecuTorch's own",
    )
    add("--codesign-identity", metavar="NAME", help="sign the library (on a Mac); `-`: ad hoc")
    add("--check", action="store_true", help="run it on the host device, compare with the model")
    add("--verbose", "-v", action="store_true", help="show what torch says; whole tracebacks")
    return described


def main(arguments: Sequence[str] | None = None) -> int:
    """Exports; 0 if all is well, 1 if not, 2 if the command line is wrong."""
    options = parser().parse_args(arguments)
    try:
        return _main(options)
    except EtmetalError as error:
        if options.verbose:
            traceback.print_exc()
        print(f"error: {error}", file=sys.stderr)
        return 1


def _silence() -> None:
    """Torch's warnings are about torch."""
    warnings.filterwarnings("ignore")
    import torch._logging

    torch._logging.set_logs(all=logging.ERROR)


def _say(text: str) -> None:
    print(f"  {text}", file=sys.stderr, flush=True)


def _main(options: argparse.Namespace) -> int:
    start = time.monotonic()
    module, function = _factory_name(options.model)
    dynamic = [_dynamic(text) for text in options.dynamic]
    _say("loading torch")
    import torch

    if not options.verbose:
        _silence()
    from etmetal.export import api, check
    from etmetal.targets import Target

    both = (Target.HOST, Target.MACOS_ARM64)
    targets = both if options.target == "both" else (Target.named(options.target),)
    if options.check and Target.HOST not in targets and sys.platform != "darwin":
        raise EtmetalError("--check runs the model on this machine: it needs --target host or both")
    model, inputs = _model(module, function)
    if options.dtype:
        model, inputs = _converted(model, inputs, getattr(torch, options.dtype))
    if options.quantize:
        from etmetal.quantize import quantize

        names = quantize(model, int(options.quantize.removeprefix("int")), options.group_size)
        _say(f"quantised {len(names)} linear layers")
    with torch.no_grad():
        expected = copy.deepcopy(model)(*copy.deepcopy(inputs)) if options.check else None
    _say("tracing")
    program = api.trace(model, inputs, _dynamic_shapes(dynamic, inputs))
    out = options.out or Path(f"{module.rpartition('.')[2]}.pte")
    settings = api.Options(
        targets=targets,
        external_weights=options.external_weights,
        fallback=options.fallback,
        codesign_identity=options.codesign_identity,
    )
    programs = api.export({"forward": program}, out, settings, _say)
    print(_table(programs))
    good = True
    if options.check:
        _say("running")
        chosen = next(p for p in programs if p.target is Target.HOST or sys.platform == "darwin")
        results = check.run(chosen.path, chosen.data, inputs, "forward")
        comparisons = check.compare(expected, results)
        for index, comparison in enumerate(comparisons):
            print(f"output {index}  {comparison}")
        good = all(comparison.right for comparison in comparisons)
        worst = max((comparison.error for comparison in comparisons), default=0.0)
        print(f"{'PASS' if good else 'FAIL'}  max error {worst:.2e}")
    _say(f"done in {time.monotonic() - start:.1f} s")
    return 0 if good else 1


def _factory_name(text: str) -> tuple[str, str]:
    module, _, function = text.partition(":")
    if not module or not function:
        raise EtmetalError(f"{text!r} is not of the form MODULE:FACTORY, as in examples.mlp:model")
    return module, function


def _model(module: str, function: str) -> tuple[Any, tuple[Any, ...]]:
    """What the factory returns."""
    import torch

    sys.path.insert(0, str(Path.cwd()))
    try:
        factory = getattr(importlib.import_module(module), function)
    except ModuleNotFoundError as error:
        if error.name is None or not (module == error.name or module.startswith(f"{error.name}.")):
            raise
        raise EtmetalError(
            f"there is no module {module}: it is looked for in this folder and in PYTHONPATH"
        ) from error
    except AttributeError as error:
        raise EtmetalError(f"the module {module} has no {function}") from error
    made = factory()
    if not (isinstance(made, tuple) and len(made) == 2):
        raise EtmetalError(f"{module}:{function} returns no pair of a model and its inputs")
    model, inputs = made
    if isinstance(inputs, torch.Tensor):
        inputs = (inputs,)
    if not isinstance(model, torch.nn.Module) or not isinstance(inputs, tuple | list):
        raise EtmetalError(
            f"{module}:{function} returns {type(model).__name__} and {type(inputs).__name__}, "
            "not a torch.nn.Module and a tuple of inputs"
        )
    return model.eval(), tuple(inputs)


def _converted(model: Any, inputs: tuple[Any, ...], dtype: Any) -> tuple[Any, tuple[Any, ...]]:
    import torch

    def converted(value: Any) -> Any:
        floating = isinstance(value, torch.Tensor) and value.is_floating_point()
        return value.to(dtype) if floating else value

    return model.to(dtype), tuple(converted(value) for value in inputs)


_DYNAMIC = re.compile(r"(\d+)\.(\d+)=([A-Za-z_]\w*)(?::(\d+)\.\.(\d+))?")


def _dynamic(text: str) -> tuple[int, int, str, tuple[int, int] | None]:
    found = _DYNAMIC.fullmatch(text)
    if found is None:
        raise EtmetalError(
            f"--dynamic {text}: INPUT.DIM=NAME[:MIN..MAX] is meant, as in 0.0=batch:1..64"
        )
    index, dim, name, low, high = found.groups()
    bounds = None if low is None else (int(low), int(high))
    if bounds is not None and bounds[0] >= bounds[1]:
        raise EtmetalError(f"--dynamic {text}: {low} is not less than {high}")
    return int(index), int(dim), name, bounds


def _dynamic_shapes(
    dynamic: Sequence[tuple[int, int, str, tuple[int, int] | None]], inputs: tuple[Any, ...]
) -> Any:
    """The dimensions as ``torch.export`` takes them."""
    import torch

    if not dynamic:
        return None
    bounds = {name: limits for _, _, name, limits in dynamic if limits is not None}
    made = {}
    for _, _, name, _ in dynamic:
        low, high = bounds.get(name, (None, None))
        made[name] = torch.export.Dim(name, min=low, max=high)
    shapes: list[dict[int, Any]] = [{} for _ in inputs]
    for index, dim, name, _ in dynamic:
        if index >= len(inputs):
            raise EtmetalError(f"--dynamic {index}.{dim}: the model has {len(inputs)} inputs")
        value = inputs[index]
        if not isinstance(value, torch.Tensor) or dim >= value.dim():
            raise EtmetalError(f"--dynamic {index}.{dim}: input {index} has no such dimension")
        shapes[index][dim] = made[name]
    return tuple(shapes)


def _table(programs: Sequence[Any]) -> str:
    """The programs, a row each."""
    rows = [("target", "file", "bytes", "delegates", "operators on the CPU")]
    for program in programs:
        files = " + ".join(str(path) for path in (program.path, *program.data))
        left = ", ".join(program.portable) or "none"
        rows.append(
            (program.target.value, files, f"{program.size:,}", str(program.delegates), left)
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ("  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)
