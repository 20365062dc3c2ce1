"""trifold: GPU kernels from a PyTorch reference to a Numba prototype to a C++ CUDA port, verified to agree.

    trifold.load("sigmoid")      the public function of a workspace's port; builds on first use
    trifold.verify("sigmoid")    the matrix: every check of prototype and port, on every device here

Submodules by stage: :mod:`trifold.prototype` for ``prototypes/*.py``, :mod:`trifold.port` for ``ports/*.py``,
:mod:`trifold.spec` for ``verify/*.py``. Kernels outside a workspace: :mod:`trifold.simulator` (Numba),
:mod:`trifold.cpu` (C++). ``import trifold`` is enough to use each as an attribute.
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
    from trifold import cpu, host, simulator
    from trifold import device as device
    from trifold import draft as draft
    from trifold import port as port
    from trifold import prototype as prototype
    from trifold import spec as spec
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
    "__version__",
    "cpu",
    "gradients",
    "host",
    "load",
    "reference",
    "show",
    "simulator",
    "verify",
]

# Imported on first use: most import torch, which the command line does not need for --help. Those that import numba are
# not in __all__: `from trifold import *` must leave numba to trifold.simulator.install().
_MODULES = ("cpu", "device", "draft", "host", "port", "prototype", "simulator", "spec")
_LAZY = {
    "load": "trifold.implementation",
    "verify": "trifold.verification.verify",
    **dict.fromkeys(("gradients", "reference", "show"), "trifold.repeat"),
    "Report": "trifold.verification.report",
    **dict.fromkeys(("Access", "Finding", "KernelFault", "KernelWarning", "OutOfBounds"), "trifold.findings"),
}


def __getattr__(name: str) -> Any:
    if name == "_simulator":
        return _compiled(name)
    if name not in (*_LAZY, *_MODULES, "__version__"):
        raise AttributeError(f"module 'trifold' has no attribute '{name}'")
    import importlib

    if name == "__version__":
        from importlib.metadata import version

        value: Any = version("trifold")
    elif name in _MODULES:
        value = importlib.import_module(f"trifold.{name}")
    else:
        value = getattr(importlib.import_module(_LAZY[name]), name)
    globals()[name] = value
    return value


def _compiled(name: str) -> Any:
    """The compiled module: folders with trifold's sources alone, such as a clone of its repository, do not have it."""
    import importlib

    try:
        return importlib.import_module(f"trifold.{name}")
    except ModuleNotFoundError as error:
        folder = __path__[0]
        raise ImportError(
            f"trifold was imported from {folder}, which has its sources without the compiled parts; build them with "
            f"pip install -e {folder.rpartition('/')[0]}, or start Python in another folder"
        ) from error


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES})
