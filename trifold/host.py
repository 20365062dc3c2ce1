"""The former name of :mod:`trifold.cpu`, kept for programs that import ``RawKernel`` from here."""

from __future__ import annotations

from trifold.cpu import RawKernel

__all__ = ["RawKernel"]
