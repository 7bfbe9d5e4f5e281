"""Exports PyTorch models for ExecuTorch's Metal delegate, on macOS and on Linux; runs them.

Experimental. ``MetalBackend`` and ``MetalPartitioner`` need torch and executorch; ``load`` and
``run`` need neither of the two to be imported.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from etmetal.backend import MetalBackend
    from etmetal.errors import EtmetalError
    from etmetal.partitioner import MetalPartitioner
    from etmetal.runtime import Module, load, run
    from etmetal.targets import Target

__version__ = "0.1.0"

_PLACES = {
    "EtmetalError": "etmetal.errors",
    "MetalBackend": "etmetal.backend",
    "MetalPartitioner": "etmetal.partitioner",
    "Module": "etmetal.runtime",
    "Target": "etmetal.targets",
    "load": "etmetal.runtime",
    "run": "etmetal.runtime",
}

__all__ = ["EtmetalError", "MetalBackend", "MetalPartitioner", "Module", "Target", "load", "run"]


def __getattr__(name: str) -> Any:
    """Imports what is asked for, and so torch only for those who need it."""
    place = _PLACES.get(name)
    if place is None:
        raise AttributeError(f"module `etmetal` has no attribute `{name}`")
    return getattr(importlib.import_module(place), name)
