"""Exporting a model: ``python -m etmetal.export``, or :func:`export` from a program."""

from __future__ import annotations

from etmetal.export.api import Options, Program, export, trace

__all__ = ["Options", "Program", "export", "trace"]
