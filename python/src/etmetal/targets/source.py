"""What is the same for all targets: Inductor's C++ and the flags that it is meant for."""

from __future__ import annotations

from pathlib import Path

import torch

#: The functions by which a runtime drives a model's library; nothing else is exported.
EXPORTS = "AOTInductor*"

DEFINES = (
    "-DTORCH_INDUCTOR_CPP_WRAPPER",
    "-DSTANDALONE_TORCH_HEADER",
    "-DC10_USING_CUSTOM_GENERATED_MACROS",
    "-DUSE_MMAP_EXTERNAL",
    "-DUSE_MPS",
    "-DNDEBUG",
)

#: As Inductor compiles its wrapper: shapes are computed in it, not elements.
FLAGS = (
    "-std=c++20",
    "-O1",
    "-g0",
    "-fPIC",
    "-ffp-contract=off",
    "-fvisibility=hidden",
    "-fvisibility-inlines-hidden",
    "-w",
)


def include_folder() -> Path:
    """Where torch's headers are."""
    return Path(torch.__file__).parent / "include"


def path_flags(source: Path) -> list[str]:
    """Flags that keep the places of files out of what is compiled."""
    return [
        f"-ffile-prefix-map={source.parent}=model",
        f"-ffile-prefix-map={include_folder()}=torch",
        f"-I{include_folder()}",
    ]


def weights_source(weights_size: int, to: Path) -> Path:
    """C++ that defines what Inductor's headers ask the size of the weights' file from."""
    to.write_text(
        "#include <cstdint>\n"
        'extern "C" {\n'
        "alignas(64) extern const uint64_t _binary_constants_bin_start[] = "
        f"{{{weights_size}u}};\n"
        "extern const uint8_t _binary_constants_bin_end[] = {0};\n"
        "}\n"
    )
    return to
