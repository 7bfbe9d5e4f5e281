"""ELF libraries for this machine."""

from __future__ import annotations

import functools
import platform
from pathlib import Path

from etmetal import tools
from etmetal.errors import EtmetalError
from etmetal.targets import cxx, verify

#: The least that a processor of each architecture must have. Not what this one has: a model that
#: is exported here runs elsewhere.
MARCH = {"x86_64": "x86-64-v2", "aarch64": "armv8-a"}


def compile_library(source: Path, weights_size: int, to: Path) -> None:
    """See :func:`etmetal.targets.compile_library`."""
    compiler = _compiler()
    objects = cxx.objects(compiler, source, weights_size)
    exports = source.with_name("exports.map")
    exports.write_text(f"{{ global: {cxx.EXPORTS}*; local: *; }};\n")
    link = ["-s", "--build-id=none", "-z,noexecstack", "--as-needed", "--gc-sections"]
    tools.run(
        [
            *compiler.command,
            "-shared",
            *objects,
            *(f"-Wl,{flag}" for flag in link),
            f"-Wl,--version-script={exports}",
            "-o",
            to,
        ],
        cwd=source.parent,
    )
    verify.elf(to.read_bytes(), [source.parent, cxx.include_folder()])


@functools.cache
def _compiler() -> cxx.Compiler:
    machine = platform.machine()
    if machine not in MARCH:
        known = " and ".join(MARCH)
        raise EtmetalError(f"models are compiled for {known}, and this machine is {machine}")
    command = tools.cxx()
    return cxx.Compiler((*command, f"-march={MARCH[machine]}"), tools.run([*command, "--version"]))
