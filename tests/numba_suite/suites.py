"""The suites of tests, and the environment in which a process runs one of them."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal

from trifold.errors import TrifoldError

Simulator = Literal["trifold", "numba"]

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]


class SuiteError(TrifoldError):
    """A suite cannot run here."""


@dataclass(frozen=True)
class Suite:
    """One package of tests, and the installed distribution that has it, whose version names the baseline.

    ``folders`` come first where its processes look for modules.
    """

    name: str
    distribution: str
    package: str = "numba.cuda.tests"
    folders: tuple[Path, ...] = ()

    def version(self) -> str:
        """The installed version; raises SuiteError where there is none."""
        try:
            return version(self.distribution)
        except PackageNotFoundError:
            raise SuiteError(f"{self.distribution} is not installed", "pip install -e '.[suite]'") from None

    def environment(self, simulator: Simulator, seed: int = 0, compiled: bool = False) -> dict[str, str]:
        """The environment in which a process, and those that its tests start, run the tests under ``simulator``.

        ``seed`` is the order in which trifold's runs threads; ``compiled``: it runs what it can as native code.
        """
        environment = {
            **_without(os.environ, "TRIFOLD_"),
            "NUMBA_ENABLE_CUDASIM": "1",
            "PYTHONPATH": os.pathsep.join(map(str, (*self.folders, ROOT))),
            # Numba's tests compare with NumPy, whose threads would only disturb the processes beside this one.
            "OPENBLAS_NUM_THREADS": "1",
            "OMP_NUM_THREADS": "1",
        }
        if simulator == "trifold":
            environment |= {"TRIFOLD_SIMULATOR": "1", "TRIFOLD_SEED": str(seed), "TRIFOLD_COMPILED": str(int(compiled))}
        return environment

    def command(self, simulator: Simulator) -> list[str]:
        """Starts a worker (worker.py)."""
        return [sys.executable, "-m", "tests.numba_suite.worker", self.package, simulator]


SUITES = (Suite("numba", "numba", folders=(HERE / "builtin",)), Suite("numba-cuda", "numba-cuda"))


def _without(environment: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {name: value for name, value in environment.items() if not name.startswith(prefix)}
