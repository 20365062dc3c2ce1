"""Files of trifold in a graduated package: unchanged, except for the modules that they import from."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

# The location of trifold's modules in a graduated package, relative to the files that import them.
IN_BACKEND = {
    "trifold.build": ".",
    "trifold.build.cpp_text": ".cpp_text",
    "trifold.build.device_code": ".device_code",
    "trifold.build.ptx_table": ".ptx_table",
    "trifold.build.ptx_text": ".ptx_text",
    "trifold.errors": ".errors",
    "trifold.graduate.backend": ".",
    "trifold.graduate.backend.elf": ".elf",
    "trifold.graduate.backend.plan": ".plan",
}
IN_TESTS = {
    "trifold.graduate.wheel_tests": ".",
    "trifold.spec.call": ".call",
    "trifold.spec.case": ".case",
    "trifold.spec.choices": ".choices",
    "trifold.spec.fills": ".fills",
    "trifold.isolation.recorder": ".recorder",
}
OF_PORT = frozenset(f"trifold.port.{path.stem}" for path in (ROOT / "port").glob("*.py")) | {"trifold.port"}

# Modules of trifold.build in the backend: those that rewrite sources for g++, and find compilers.
_OF_BUILD = (
    "cpp_text",
    "device_code",
    "inline_ptx",
    "launch_bounds",
    "port_text",
    "ptx_table",
    "ptx_text",
    "shared_arrays",
    "toolchain",
)

_IMPORT = re.compile(r"^(?P<before>\s*from )(?P<module>trifold[\w.]*)(?P<after> import )", re.MULTILINE)


def in_ports(depth: int = 0) -> dict[str, str]:
    """The location of ``trifold.port``, relative to a file this many folders below the package's ``ports``."""
    return {module: module.replace("trifold.port", f"{'.' * (depth + 2)}_port") for module in OF_PORT}


def vendored(text: str, modules: Mapping[str, str]) -> str:
    """``text`` with its imports of trifold's modules replaced by imports of ``modules``.

    Raises:
        ValueError: it imports another module of trifold.
    """

    def replaced(match: re.Match[str]) -> str:
        module = match["module"]
        if module not in modules:
            raise ValueError(f"{module} is not in the graduated package")
        return f"{match['before']}{modules[module]}{match['after']}"

    return _IMPORT.sub(replaced, text)


def backend_files() -> dict[str, str]:
    """The build backend, by file name."""
    modules = [*(ROOT / "graduate" / "backend").glob("*.py"), ROOT / "errors.py"]
    modules += [ROOT / "build" / f"{name}.py" for name in _OF_BUILD]
    files = {path.name: vendored(path.read_text(encoding="utf-8"), IN_BACKEND) for path in modules}
    shims = ROOT / "graduate" / "backend" / "stable_abi_2_11.txt"
    return files | {shims.name: shims.read_text(encoding="utf-8")}


def runtime_files() -> dict[str, str]:
    """``trifold.port``, which imports nothing of trifold's."""
    return {path.name: vendored(path.read_text(encoding="utf-8"), {}) for path in (ROOT / "port").glob("*.py")}


def test_files(*, random: bool) -> dict[str, str]:
    """The tests in a graduated package; those for random numbers only if it has an op that draws them."""
    modules = list((ROOT / "graduate" / "wheel_tests").glob("*.py"))
    modules += [ROOT / "spec" / name for name in ("call.py", "case.py", "choices.py", "fills.py")]
    if not random:
        modules.remove(ROOT / "graduate" / "wheel_tests" / "test_random.py")
    modules.append(ROOT / "isolation" / "recorder.py")
    return {path.name: vendored(path.read_text(encoding="utf-8"), IN_TESTS) for path in modules}
