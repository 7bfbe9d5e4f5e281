"""Compiling Inductor's C++ to objects, the same for all targets.

Of the C++ that Inductor generates for a model, a large part is the same for every model: the C
functions by which a runtime drives it, and the container behind them. That part is compiled once
and kept in the cache; what is left takes a third of the time.
"""

from __future__ import annotations

import dataclasses
import functools
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

#: Models that one process compiles before headers are compiled ahead.
_FEW = 2


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

    def compile(self, source: Path, to: Path, *flags: str) -> Path:
        """Compiles ``source`` to the object ``to``; their folders leave no trace in it."""
        tools.run(
            [
                *self.command,
                *_FLAGS,
                *_DEFINES,
                f"-ffile-prefix-map={source.parent}=model",
                f"-ffile-prefix-map={include_folder()}=torch",
                f"-I{include_folder()}",
                *flags,
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
    text = f"{model}\n{_weights(weights_size)}"
    written = source.with_name("model.cpp")
    flags = _precompiled(compiler, prefix)
    if not flags:
        text = prefix + text
    written.write_text(text)
    return [
        compiler.compile(written, source.with_name("model.o"), *flags),
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


@dataclasses.dataclass
class _Headers:
    """The headers of models, compiled ahead for this process alone."""

    models: int = 0
    folder: tempfile.TemporaryDirectory[str] | None = None


@functools.cache
def _headers(compiler: Compiler, prefix: str) -> _Headers:
    return _Headers()


def _precompiled(compiler: Compiler, prefix: str) -> list[str]:
    """The flags that put ``prefix`` in front of a model; none while it is not worth it."""
    headers = _headers(compiler, prefix)
    headers.models += 1
    if headers.models <= _FEW:
        return []
    if headers.folder is None:
        headers.folder = tempfile.TemporaryDirectory(prefix="etmetal-headers-")
        header = Path(headers.folder.name) / "prefix.h"
        header.write_text(prefix)
        gcc = "clang" not in compiler.version
        compiler.compile(header, header.with_suffix(".h.gch" if gcc else ".h.pch"), "-xc++-header")
    return ["-include", str(Path(headers.folder.name) / "prefix.h")]
