"""ELF libraries for this machine."""

from __future__ import annotations

import platform
from pathlib import Path

from etmetal import tools
from etmetal.errors import EtmetalError
from etmetal.targets import source as generated
from etmetal.targets import verify

#: The least that a processor of each architecture must have. Not what this one has: a model that
#: is exported here runs elsewhere.
MARCH = {"x86_64": "x86-64-v2", "aarch64": "armv8-a"}


def compile_library(source: Path, weights_size: int, to: Path) -> None:
    """See :func:`etmetal.targets.compile_library`."""
    machine = platform.machine()
    if machine not in MARCH:
        known = " and ".join(MARCH)
        raise EtmetalError(f"models are compiled for {known}, and this machine is {machine}")
    weights = generated.weights_source(weights_size, source.with_name("weights.cpp"))
    exports = source.with_name("exports.map")
    exports.write_text(f"{{ global: {generated.EXPORTS}; local: *; }};\n")
    link = ["-s", "--build-id=none", "-z,noexecstack", "--as-needed", "--gc-sections"]
    tools.run(
        [
            *tools.cxx(),
            *generated.FLAGS,
            *generated.DEFINES,
            *generated.path_flags(source),
            f"-march={MARCH[machine]}",
            "-ffunction-sections",
            "-fdata-sections",
            "-shared",
            source,
            weights,
            *(f"-Wl,{flag}" for flag in link),
            f"-Wl,--version-script={exports}",
            "-o",
            to,
        ],
        cwd=source.parent,
    )
    verify.elf(to.read_bytes(), [source.parent, generated.include_folder()])
