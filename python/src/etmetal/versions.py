"""Which versions of PyTorch and ExecuTorch export is known to work with."""

from __future__ import annotations

from importlib import metadata

from etmetal.errors import UnsupportedVersionError

#: Versions that the tests ran with. Export on Linux reaches into torch, so that another version
#: is refused instead of tried.
TESTED = {"torch": ("2.13.0",), "executorch": ("1.5.1",)}


def release(version: str) -> str:
    """``version`` without its local part: ``2.13.0+cpu`` is 2.13.0."""
    return version.partition("+")[0]


def require(package: str, installed: str | None = None) -> str:
    """The installed version of ``package``.

    Raises:
        UnsupportedVersionError: It is not installed, or not one of the tested versions.

    """
    works = " or ".join(TESTED[package])
    if installed is None:
        try:
            installed = metadata.version(package)
        except metadata.PackageNotFoundError:
            raise UnsupportedVersionError(
                f"{package} is not installed: exporting needs {package} {works}"
            ) from None
    if release(installed) not in TESTED[package]:
        raise UnsupportedVersionError(
            f"{package} {installed} is not supported: exporting works with {package} {works}"
        )
    return installed
