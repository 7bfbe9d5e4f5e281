"""Mach-O libraries for Apple silicon: on a Mac with its own tools, elsewhere with zig and lld.

Elsewhere, zig's clang compiles against the headers of libc++ and Darwin that zig carries, and
lld links against stubs that are written here from a table of symbols. zig's own linker would not
do: it links a libc++ of its own into the library, and exports it.
"""

from __future__ import annotations

import functools
import importlib.util
import tempfile
from collections import defaultdict
from pathlib import Path

import lief

from etmetal import tools
from etmetal.errors import ToolError
from etmetal.targets import cxx, verify

#: The oldest macOS that libraries are for: that of torch's own wheel.
OLDEST = "14.0"

_INSTALL_NAME = "@rpath/model.dylib"

#: What the libraries of the table are called on a Mac.
_INSTALLED = {"libc++": "/usr/lib/libc++.1.dylib", "libSystem": "/usr/lib/libSystem.B.dylib"}

#: zig compiles for a libc++ of its own, of which it would use the newest; this is about the
#: system's, from whose headers then only what the oldest macOS has is used.
_SYSTEM_LIBCXX = (
    "-U_LIBCPP_HAS_VENDOR_AVAILABILITY_ANNOTATIONS",
    "-D_LIBCPP_HAS_VENDOR_AVAILABILITY_ANNOTATIONS=1",
    "-U_LIBCPP_DISABLE_VISIBILITY_ANNOTATIONS",
    "-U_LIBCXXABI_DISABLE_VISIBILITY_ANNOTATIONS",
    "-fno-sized-deallocation",
)


def compile_on_a_mac(source: Path, weights_size: int, to: Path, identity: str | None) -> None:
    """Compiles with the tools of the Mac that this runs on, and signs."""
    command = (*tools.cxx(), "-target", f"arm64-apple-macos{OLDEST}")
    compiler = cxx.Compiler(command, tools.run([*tools.cxx(), "--version"]))
    objects = cxx.objects(compiler, source, weights_size)
    flags = [
        "-dylib",
        "-dead_strip",
        "-x",
        f"-exported_symbol,_{cxx.EXPORTS}*",
        f"-install_name,{_INSTALL_NAME}",
        *(f"-U,{symbol}" for symbol in _runtime_symbols(objects)),
    ]
    flags = [f"-Wl,{flag}" for flag in flags if flag != "-dylib"]
    tools.run([*command, "-dynamiclib", *objects, *flags, "-o", to], cwd=source.parent)
    if identity is not None:
        tools.run(["codesign", "--force", "--sign", identity, to])
    verify.macho(to.read_bytes(), [source.parent, cxx.include_folder()])


def cross_compile(source: Path, weights_size: int, to: Path) -> None:
    """Compiles with zig and links with lld, which signs ad hoc."""
    objects = cxx.objects(_zig(), source, weights_size)
    with tempfile.TemporaryDirectory(prefix="etmetal-sdk-") as sdk:
        write_stubs(Path(sdk))
        tools.run(
            [
                *_lld(),
                *("-arch", "arm64"),
                *("-platform_version", "macos", OLDEST, OLDEST),
                "-dylib",
                "-dead_strip",
                "-adhoc_codesign",
                "-S",
                "-x",
                *("-exported_symbol", f"_{cxx.EXPORTS}*"),
                *("-install_name", _INSTALL_NAME),
                *(word for symbol in _runtime_symbols(objects) for word in ("-U", symbol)),
                *objects,
                f"-L{sdk}",
                "-lc++",
                "-lSystem",
                *("-o", to),
            ],
            cwd=source.parent,
        )
    verify.macho(to.read_bytes(), [source.parent, cxx.include_folder()])


def _runtime_symbols(objects: list[Path]) -> list[str]:
    """What the runtime will provide, and no library that the linker sees.

    Everything else has to be found: a function that a newer libc++ has is an error here, and not
    one at load on an older Mac.
    """
    symbols = set()
    for path in objects:
        fat = lief.MachO.parse(str(path))
        if fat is None:
            raise ToolError(f"the compiler made no Mach-O object: {path}")
        names = (str(symbol.name) for symbol in fat.at(0).symbols)
        symbols |= {name for name in names if name.startswith("_aoti_torch_")}
    return sorted(symbols)


@functools.cache
def _zig() -> cxx.Compiler:
    found = importlib.util.find_spec("ziglang")
    if found is None or not found.submodule_search_locations:
        raise ToolError(
            "the target macos-arm64 needs zig's compiler and headers on this system: "
            "pip install ziglang==0.17.1"
        )
    zig = Path(found.submodule_search_locations[0]) / "zig"
    command = (str(zig), "c++", "-target", f"aarch64-macos.{OLDEST}", "-mcpu=apple_m1")
    version = f"zig's clang, zig {tools.run([zig, 'version']).strip()}"
    return cxx.Compiler((*command, *_SYSTEM_LIBCXX), version)


@functools.cache
def _lld() -> list[str]:
    names = ("ld64.lld", *(f"ld64.lld-{n}" for n in range(22, 14, -1)))
    install = "Debian, Ubuntu: apt-get install lld; Rust brings one too, if rustc is in PATH"
    try:
        return tools.find(("ETMETAL_LD64",), names, "LLVM's linker for Mach-O", install)
    except ToolError:
        found = _rust_lld()
        if found is None:
            raise
        return [str(found), "-flavor", "darwin"]


def _rust_lld() -> Path | None:
    """The lld that the Rust toolchain links with."""
    try:
        root = Path(tools.run(["rustc", "--print", "sysroot"]).strip())
    except ToolError:
        return None
    return next(root.glob("lib/rustlib/*/bin/rust-lld"), None)


def symbols() -> dict[str, list[str]]:
    """The table of symbols, by library."""
    table = defaultdict(list)
    for line in Path(__file__).with_name("macos_symbols.txt").read_text().splitlines():
        if not line.startswith("#"):
            symbol, library = line.split()
            table[library].append(symbol)
    return dict(table)


def write_stubs(folder: Path) -> None:
    """Writes a text stub (``.tbd``) for each library of the table: all that a linker needs."""
    for library, names in symbols().items():
        text = (
            "--- !tapi-tbd\n"
            "tbd-version: 4\n"
            "targets: [ arm64-macos ]\n"
            f"install-name: '{_INSTALLED[library]}'\n"
            "exports:\n"
            "  - targets: [ arm64-macos ]\n"
            f"    symbols: [ {', '.join(repr(name) for name in names)} ]\n"
            "...\n"
        )
        (folder / f"{library}.tbd").write_text(text)
