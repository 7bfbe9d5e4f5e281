"""Where a model is to run, and how its library is compiled for that."""

from __future__ import annotations

import enum
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from etmetal.errors import EtmetalError

if TYPE_CHECKING:
    from etmetal.specs import Settings


class Target(enum.Enum):
    """A system that libraries are compiled for."""

    #: This machine's system and architecture; any processor that has the architecture's baseline.
    HOST = "host"
    #: macOS 14 or newer on Apple silicon.
    MACOS_ARM64 = "macos-arm64"

    @classmethod
    def named(cls, name: str) -> Target:
        """The target that is called ``name``.

        Raises:
            EtmetalError: There is none; the text names those that there are.

        """
        try:
            return cls(name)
        except ValueError:
            names = ", ".join(target.value for target in cls)
            raise EtmetalError(f"there is no target `{name}`: there are {names}") from None

    @classmethod
    def default(cls) -> Target:
        """The one that this machine can run."""
        return cls.HOST


def check(settings: Settings) -> None:
    """Refuses settings that cannot be met, before anything is compiled.

    Raises:
        EtmetalError: An identity is to sign a library, and there is no ``codesign`` here.

    """
    identity = settings.codesign_identity
    if identity is None or sys.platform == "darwin":
        return
    if settings.target is Target.HOST:
        raise EtmetalError(
            f"codesign_identity={identity!r}: only libraries for macOS are signed, and the target "
            f"is {settings.target.value}"
        )
    if identity != "-":
        raise EtmetalError(
            f"codesign_identity={identity!r}: only a Mac can sign with an identity. Export there, "
            'or use "-": libraries for macOS are always signed ad hoc by the linker'
        )


def compile_library(settings: Settings, source: Path, weights_size: int, to: Path) -> None:
    """Compiles the C++ ``source`` that Inductor generated to the shared library ``to``.

    Args:
        weights_size: Bytes of the weights' file; the library is asked for them.

    Raises:
        ToolError: A compiler or linker is missing, or fails.
        LibraryError: What came out would not load everywhere.

    """
    from etmetal.targets import host, macos

    native = settings.target is Target.HOST or sys.platform == "darwin"
    if native and sys.platform != "darwin":
        host.compile_library(source, weights_size, to)
    elif native:
        macos.compile_on_a_mac(source, weights_size, to, settings.codesign_identity)
    else:
        macos.cross_compile(source, weights_size, to)
