"""Whether a compiled library loads everywhere: read from its bytes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import lief

from etmetal.errors import LibraryError

#: What every Linux with a C++ program on it has.
_ELF_LIBRARIES = re.compile(
    r"lib(stdc\+\+\.so\.6|gcc_s\.so\.1|c\.so\.6|m\.so\.6|dl\.so\.2|pthread\.so\.0)"
    r"|ld-linux[-\w]*\.so\.\d"
)
_MACHO_LIBRARIES = re.compile(r"/usr/lib/lib(c\+\+\.1|c\+\+abi|System\.B|objc\.A)\.dylib")

#: A few that every runtime calls: a library without them is none of Inductor's.
_MUST_EXPORT = (
    "AOTInductorModelContainerCreateWithDevice",
    "AOTInductorModelContainerDelete",
    "AOTInductorModelContainerRun",
    "AOTInductorModelUpdateConstantsFromBlob",
)


def elf(library: bytes, places: Sequence[Path]) -> None:
    """Checks an ELF library; ``places`` are folders whose names must not be in it.

    Raises:
        LibraryError: What is wrong with it, all at once.

    """
    lief.logging.disable()
    binary = lief.ELF.parse(list(library))
    if not isinstance(binary, lief.ELF.Binary):
        raise LibraryError("the compiled library is no ELF file")
    faults = _libraries(binary.libraries, _ELF_LIBRARIES)
    faults += _exports(symbol.name for symbol in binary.exported_symbols)
    faults += _paths(library, places)
    if any(
        tag in binary
        for tag in (lief.ELF.DynamicEntry.TAG.RPATH, lief.ELF.DynamicEntry.TAG.RUNPATH)
    ):
        faults.append("it has a search path of its own")
    stack = [s for s in binary.segments if s.type == lief.ELF.Segment.TYPE.GNU_STACK]
    if not stack or lief.ELF.Segment.FLAGS.X in lief.ELF.Segment.FLAGS(stack[0].flags):
        faults.append("it asks for an executable stack, which newer systems refuse")
    if binary.has_section(".symtab") or any(s.name.startswith(".debug") for s in binary.sections):
        faults.append("it is not stripped")
    _refuse(faults)


def macho(library: bytes, places: Sequence[Path]) -> None:
    """Checks an arm64 Mach-O library; see :func:`elf`.

    Raises:
        LibraryError: What is wrong with it, all at once.

    """
    lief.logging.disable()
    fat = lief.MachO.parse(list(library))
    if fat is None or fat.size != 1:
        raise LibraryError("the compiled library is no Mach-O file for one architecture")
    binary = fat.at(0)
    faults = []
    if binary.header.cpu_type != lief.MachO.Header.CPU_TYPE.ARM64:
        faults.append(f"it is for {binary.header.cpu_type.name}, not for arm64")
    if binary.header.file_type != lief.MachO.Header.FILE_TYPE.DYLIB:
        faults.append("it is no dynamic library")
    loaded = [
        command.name
        for command in binary.commands
        if isinstance(command, lief.MachO.DylibCommand)
        and command.command != lief.MachO.LoadCommand.TYPE.ID_DYLIB
    ]
    faults += _libraries(loaded, _MACHO_LIBRARIES)
    faults += _exports(symbol.name.removeprefix("_") for symbol in binary.exported_symbols)
    faults += _paths(library, places)
    if binary.has_rpath:
        faults.append("it has a search path of its own")
    if not binary.has_code_signature:
        faults.append("it is not signed, not even ad hoc: Apple silicon refuses it")
    _refuse(faults)


def _libraries(named: Iterable[str], system: re.Pattern[str]) -> list[str]:
    return [
        f"it needs {name}, which is no system library"
        for name in named
        if not system.fullmatch(name)
    ]


def _exports(names: Iterable[str]) -> list[str]:
    exported = set(names)
    missing = [name for name in _MUST_EXPORT if name not in exported]
    stray = sorted(name for name in exported if not name.startswith("AOTInductor"))
    faults = [f"it does not export {name}" for name in missing]
    if stray:
        more = f" and {len(stray) - 3} more" if len(stray) > 3 else ""
        faults.append(f"it exports {', '.join(stray[:3])}{more}, which is nobody's business")
    return faults


def _paths(library: bytes, places: Sequence[Path]) -> list[str]:
    return [f"it tells the path {place}" for place in places if str(place).encode() in library]


def _refuse(faults: Sequence[str]) -> None:
    if faults:
        text = "\n  - ".join(faults)
        raise LibraryError(
            f"the compiled library would not load everywhere:\n  - {text}\n"
            "What to do: another compiler or linker may be at fault; ETMETAL_CXX names one."
        )
