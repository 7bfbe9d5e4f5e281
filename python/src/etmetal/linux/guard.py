"""The C++ part of :mod:`etmetal.linux`, compiled on first use and kept in the cache."""

from __future__ import annotations

import ctypes
import functools
import hashlib
from pathlib import Path

import torch

from etmetal import cache, tools

_SOURCE = Path(__file__).with_name("guard.cpp")


@functools.cache
def load() -> ctypes.CDLL:
    """The library of ``guard.cpp`` for this torch."""
    source = _SOURCE.read_bytes()
    root = Path(torch.__file__).parent
    # The same version of torch can be built with another ABI: its own files tell.
    core = root / "lib/libc10.so"
    state = f"{torch.__version__} {core.stat().st_size} {torch._C._GLIBCXX_USE_CXX11_ABI}"
    key = hashlib.sha256(source + state.encode()).hexdigest()[:16]
    path = cache.folder() / f"guard-{key}.so"
    return ctypes.CDLL(str(cache.made_once(path, functools.partial(_compile, root))))


def _compile(root: Path, to: Path) -> None:
    flags = ["-std=c++20", "-O1", "-fPIC", "-shared"]
    flags.append(f"-D_GLIBCXX_USE_CXX11_ABI={int(torch._C._GLIBCXX_USE_CXX11_ABI)}")
    paths = [f"-I{root / 'include'}", str(_SOURCE), "-o", str(to), f"-L{root / 'lib'}", "-lc10"]
    tools.run([*tools.cxx(), *flags, *paths])
