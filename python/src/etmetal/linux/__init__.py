"""Teaches torch on Linux to compile for ``mps``, while a model is exported and no longer."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack

import torch

from etmetal import versions

_lock = threading.RLock()
_depth = 0


@contextlib.contextmanager
def exporting() -> Iterator[None]:
    """Inside, torch compiles for ``mps``; afterwards it is as it was.

    On a Mac this only makes kernels independent of those compiled before. Other threads that use
    torch meanwhile see the patches too; those that export wait for each other.

    Raises:
        UnsupportedVersionError: The patches do not know this version of torch.

    """
    global _depth
    versions.require("torch", torch.__version__)
    # Only a torch that is known has everything that the patches reach for.
    from etmetal.linux import patches

    chosen = patches.EVERYWHERE if sys.platform == "darwin" else patches.LINUX + patches.EVERYWHERE
    with _lock, ExitStack() as undo:
        if _depth == 0:
            for patch in chosen:
                patch(undo)
        _depth += 1
        try:
            yield
        finally:
            _depth -= 1
