"""Switches the simulator on: at once, when ``numba.cuda`` is first imported, or in every child process."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from trifold.acceptance import configured_suppressions
from trifold.errors import TrifoldError
from trifold.simulator import settings


class InstallError(TrifoldError):
    """The simulator can no longer be switched on in this process."""


def install(**changes: Any) -> None:
    """Run kernels of ``numba.cuda`` in this simulator from now on; imports ``numba.cuda``.

    Args:
        changes: options, as accepted by :func:`trifold.simulator.options`.

    Raises:
        InstallError: numba.cuda is imported already, for a GPU.
        OptionError: an option has a wrong value.
    """
    settings.change(**_of_project(changes))
    _enable()
    # The seam imports numba.cuda itself, and would otherwise be installed while it is half loaded.
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, _Finder)]
    from trifold.simulator import seam

    seam.put_in()


def uninstall() -> None:
    """Let Numba's own simulator run kernels again."""
    if "trifold.simulator.seam" in sys.modules:
        from trifold.simulator import seam

        seam.take_out()


def activate(**changes: Any) -> None:
    """As :func:`install`, but when ``numba.cuda`` is first imported; child processes are simulated too.

    Raises as :func:`install`.
    """
    settings.change(**_of_project(changes))
    if "numba.cuda" in sys.modules:
        install()
    else:
        _enable()
        if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
            sys.meta_path.insert(0, _Finder())
    os.environ.update(settings.to_environment(settings.current()))


def _of_project(changes: dict[str, Any]) -> dict[str, Any]:
    """The options with the project's suppressions, unless they or an earlier call name some."""
    if changes.get("suppressions") is None and settings.current().suppressions is None:
        return changes | {"suppressions": configured_suppressions(Path.cwd())}
    return changes


def activate_from_environment() -> None:
    """Called by the installed package's start-up file if TRIFOLD_SIMULATOR is set."""
    try:
        activate(**settings.from_environment(os.environ))
    except TrifoldError as error:
        print(f"trifold.simulator: {error}", file=sys.stderr, flush=True)
        os._exit(2)  # Python is still starting: it would report an exception as a failure of its own


def _enable() -> None:
    """Switch on Numba's simulator mode, whether or not numba has been imported."""
    os.environ["NUMBA_ENABLE_CUDASIM"] = "1"
    if "numba.cuda.device_init" in sys.modules:
        raise InstallError(
            "numba.cuda was imported for a GPU before the simulator was switched on",
            "call trifold.simulator.install() before anything imports numba.cuda, or set NUMBA_ENABLE_CUDASIM=1",
        )
    for name in ("numba.core.config", "numba.cuda.core.config"):
        if name in sys.modules:
            sys.modules[name].ENABLE_CUDASIM = 1  # type: ignore[attr-defined]


class _Finder(MetaPathFinder):
    """Finds ``numba.cuda`` as other finders do, and installs the seam once it is loaded."""

    _searching = False

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != "numba.cuda" or self._searching:
            return None
        self._searching = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._searching = False
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


class _Loader(Loader):
    """Another loader, followed by the seam."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        from trifold.simulator import seam

        seam.put_in()
