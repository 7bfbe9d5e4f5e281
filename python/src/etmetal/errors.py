"""The errors of this package."""

from __future__ import annotations


class EtmetalError(RuntimeError):
    """Anything that this package refuses or fails at; the text says what to do."""


class UnsupportedVersionError(EtmetalError):
    """An installed package has a version that export is not known to work with."""


class ToolError(EtmetalError):
    """A compiler or linker is missing, or failed."""


class LibraryError(EtmetalError):
    """A compiled library is not one that loads everywhere."""
