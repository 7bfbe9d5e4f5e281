"""The folder where this package keeps what it compiles once."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path


def folder() -> Path:
    """``ETMETAL_CACHE``, else the user's cache folder: the same that the runtime uses."""
    named = os.environ.get("ETMETAL_CACHE")
    if named:
        return Path(named)
    if sys.platform == "darwin":
        return Path.home() / "Library/Caches/etmetal"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "etmetal"


def made_once(path: Path, make: Callable[[Path], None]) -> Path:
    """``path``, made by ``make`` if it is not there yet.

    ``make`` writes to a file beside it, which is then renamed: of several processes that do the
    same at once each ends up with a whole file.
    """
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".new-", dir=path.parent) as new:
        made = Path(new) / path.name
        make(made)
        made.replace(path)
    return path
