"""Compiling Inductor's C++ to objects, the same for all targets.

Of the C++ that Inductor generates for a model, a large part is the same for every model: the C
functions by which a runtime drives it, and the container behind them. That part is compiled once
and kept in the cache; what is left takes a third of the time.
"""

from __future__ import annotations

import dataclasses
import hashlib
import tempfile
from pathlib import Path

import torch
import torch._inductor

from etmetal import cache, tools
from etmetal.errors import EtmetalError

#: The functions by which a runtime drives a model's library; nothing else is exported.
EXPORTS = "AOTInductor"

_DEFINES = (
    "-DTORCH_INDUCTOR_CPP_WRAPPER",
    "-DSTANDALONE_TORCH_HEADER",
    "-DC10_USING_CUSTOM_GENERATED_MACROS",
    "-DUSE_MMAP_EXTERNAL",
    "-DUSE_MPS",
    "-DNDEBUG",
)

#: As Inductor compiles its wrapper: it computes with shapes, not with elements.
_FLAGS = (
    "-std=c++20",
    "-O1",
    "-g0",
    "-fPIC",
    "-ffp-contract=off",
    "-ffunction-sections",
    "-fdata-sections",
    "-fvisibility=hidden",
    "-fvisibility-inlines-hidden",
    "-w",
)

#: The code of a class template that every model has in the same form.
_SHARED_CLASS = (
    "template class torch::aot_inductor::AOTInductorModelBase<"
    "torch::aot_inductor::AOTInductorModel>;\n"
)


def include_folder() -> Path:
    """Where torch's headers are."""
    return Path(torch.__file__).parent / "include"


@dataclasses.dataclass(frozen=True)
class Compiler:
    """A C++ compiler for a target."""

    #: The command with the flags that make it compile for the target.
    command: tuple[str, ...]
    #: What it says of itself.
    version: str

    def compile(self, source: Path, to: Path) -> Path:
        """Compiles ``source`` to the object ``to``; their folders leave no trace in it."""
        tools.run(
            [
                *self.command,
                *_FLAGS,
                *_DEFINES,
                f"-ffile-prefix-map={source.parent}=model",
                f"-ffile-prefix-map={include_folder()}=torch",
                f"-I{include_folder()}",
                "-c",
                source.name,
                "-o",
                to,
            ],
            cwd=source.parent,
        )
        return to


def objects(compiler: Compiler, source: Path, weights_size: int) -> list[Path]:
    """Compiles the C++ ``source`` of a model whose weights' file has ``weights_size`` bytes."""
    head, interface, model = split(source.read_text())
    includes = "".join(
        f"{line}\n" for line in interface.splitlines() if line.startswith("#include")
    )
    prefix = f"{head}{includes}extern {_SHARED_CLASS}"
    written = source.with_name("model.cpp")
    # Headers compiled ahead would save half of the time, and change the order of the code.
    written.write_text(f"{prefix}{model}\n{_weights(weights_size)}")
    return [
        compiler.compile(written, source.with_name("model.o")),
        _interface(compiler, f"{head}{interface}\n{_SHARED_CLASS}"),
    ]


def split(text: str) -> tuple[str, str, str]:
    """The C++ of a model in three: the first includes, the part that is the same for all models,
    the model.
    """
    path = Path(torch._inductor.__file__).parent / "codegen/aoti_runtime/interface.cpp"
    head, interface, model = text.partition(path.read_text())
    if not interface:
        raise EtmetalError(f"Inductor's C++ does not contain {path}")
    return head, interface, model


def _weights(size: int) -> str:
    """C++ that defines what Inductor's headers read the size of the weights' file from."""
    return (
        "alignas(64) unsigned char _binary_constants_bin_start[8] = {"
        f"{', '.join(str(byte) for byte in size.to_bytes(8, 'little'))}}};\n"
        "unsigned char _binary_constants_bin_end[1] = {0};\n"
    )


def _interface(compiler: Compiler, text: str) -> Path:
    state = (*compiler.command, compiler.version, *_FLAGS, *_DEFINES, torch.__version__, text)
    key = hashlib.sha256("\0".join(state).encode()).hexdigest()[:24]

    def make(to: Path) -> None:
        with tempfile.TemporaryDirectory(prefix="etmetal-interface-") as folder:
            source = Path(folder) / "interface.cpp"
            source.write_text(text)
            compiler.compile(source, to)

    return cache.made_once(cache.folder() / f"interface-{key}.o", make)
