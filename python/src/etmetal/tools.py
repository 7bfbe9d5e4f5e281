"""Finding and running compilers and linkers."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from etmetal.errors import ToolError

#: Lines of a tool's output that an error shows.
_TAIL = 30


def find(variables: Sequence[str], names: Sequence[str], purpose: str, install: str) -> list[str]:
    """The command that the first set variable of ``variables`` holds, else the first program of
    ``names`` in ``PATH``.

    Raises:
        ToolError: There is none; ``purpose`` and ``install`` tell what it is for and how to get it.

    """
    for variable in variables:
        command = shlex.split(os.environ.get(variable, ""))
        if command:
            program = shutil.which(command[0])
            if program is None:
                raise ToolError(f"{variable}={command[0]}: there is no such program")
            return [program, *command[1:]]
    for name in names:
        program = shutil.which(name)
        if program is not None:
            return [program]
    raise ToolError(
        f"{purpose} was not found: {', '.join(names)} are not in PATH. Install it "
        f"({install}) or name it with {' or '.join(variables)}"
    )


def cxx() -> list[str]:
    """The C++ compiler of this machine."""
    return find(
        ("ETMETAL_CXX", "CXX"),
        ("g++", "clang++", "c++", *(f"clang++-{n}" for n in range(22, 14, -1))),
        "a C++ compiler",
        "Debian, Ubuntu: apt-get install g++; macOS: xcode-select --install",
    )


def run(command: Sequence[str | Path], cwd: Path | None = None, **env: str) -> str:
    """Runs ``command`` and gives back its standard output.

    Raises:
        ToolError: It cannot be started, or it fails: with the end of what it wrote.

    """
    words = [str(word) for word in command]
    shown = shlex.join(words)
    try:
        ended = subprocess.run(
            words,
            cwd=cwd,
            env={**os.environ, **env},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
    except OSError as error:
        raise ToolError(f"cannot start `{shown}`: {error}") from error
    if ended.returncode != 0:
        lines = (ended.stdout + ended.stderr).strip().splitlines()
        text = "\n".join(f"  | {line}" for line in lines[-_TAIL:])
        raise ToolError(f"`{shown}` failed (exit status {ended.returncode}):\n{text}")
    return ended.stdout


def only(environment: Mapping[str, str], *names: str) -> dict[str, str]:
    """The variables ``names`` of ``environment`` that are set."""
    return {name: environment[name] for name in names if name in environment}
