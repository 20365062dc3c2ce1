"""trifold: GPU kernels from a PyTorch reference to a Numba prototype to a C++ CUDA port, proven to agree.

    trifold.load("sigmoid")      the public function of a workspace's port; builds on first use
    trifold.verify("sigmoid")    the matrix: every check of prototype and port, on every device here

Submodules by stage: :mod:`trifold.prototype` for ``prototypes/*.py``, :mod:`trifold.port` for ``ports/*.py``,
:mod:`trifold.spec` for ``verify/*.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trifold.errors import (
    BuildError,
    PrototypeError,
    SchemaError,
    SpecError,
    ToolchainError,
    TrifoldError,
    WorkspaceError,
)

if TYPE_CHECKING:
    from trifold.findings import Access, Finding, KernelFault, KernelWarning, OutOfBounds
    from trifold.implementation import load
    from trifold.verification.report import Report
    from trifold.verification.verify import verify

__all__ = [
    "Access",
    "BuildError",
    "Finding",
    "KernelFault",
    "KernelWarning",
    "OutOfBounds",
    "PrototypeError",
    "Report",
    "SchemaError",
    "SpecError",
    "ToolchainError",
    "TrifoldError",
    "WorkspaceError",
    "load",
    "verify",
]

# Imported when they are first used: they import torch, which the command line does without for --help.
_LAZY = {
    "load": "trifold.implementation",
    "verify": "trifold.verification.verify",
    "Report": "trifold.verification.report",
    **dict.fromkeys(("Access", "Finding", "KernelFault", "KernelWarning", "OutOfBounds"), "trifold.findings"),
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'trifold' has no attribute '{name}'")
    import importlib

    value = getattr(importlib.import_module(_LAZY[name]), name)
    globals()[name] = value
    return value
