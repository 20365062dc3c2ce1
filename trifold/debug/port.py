"""``trifold debug --port``: gdb in a CUDA thread of a port on the CPU, on one of the op's samples."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trifold import own_process
from trifold.build.sources import local_sources
from trifold.debug import sample as samples
from trifold.debug.gdb_script import GDB_SCRIPT
from trifold.debug.sample import DebugError, NamedCall
from trifold.debug.target import Launch, never_came
from trifold.errors import ToolchainError
from trifold.implementation import Implementation, load_port
from trifold.simulator.coordinates import Place
from trifold.spec.load import load_spec
from trifold.workspace import OpFiles

INSTALL_GDB = "apt-get install gdb"

_LAUNCH_BOUNDS = re.compile(r"__launch_bounds__\s*\([^)]*\)")
_FUNCTION = re.compile(r"__(?:global|device)__[^;{}()=]*?\b(\w+)\s*\(")
_OPERATOR = re.compile(r'implement<&?(?:\w+::)*(\w+)>\(\s*\w+\s*,\s*"(\w+)"')


@dataclass(frozen=True)
class PortSession:
    """A run under gdb, and where to stop.

    Attributes:
        function: a launch function, kernel or device function; a launch function stands for the kernel that it
            launches.
        number: the sample's, from 1.
        operators: if ``function`` is a launch function, its name in C++; otherwise empty.
        place: the CUDA thread to stop in.
        line: of the header; None: the function's first.
    """

    implementation: Implementation
    function: str
    operators: tuple[str, ...]
    sample: NamedCall
    number: int
    place: Place
    line: int | None
    library: Path
    gdb: Path

    @classmethod
    def open(cls, files: OpFiles, function: str, sample: str | None, place: Place, line: int | None) -> PortSession:
        """Build the port for gdb.

        Raises:
            TrifoldError: gdb is missing; the op cannot be built; it has no such function, sample or line.
        """
        gdb = find_gdb()
        if line is not None:
            require_in_function(files.header, line)
        implementation = load_port(files, "debug")
        operators = operators_of(files, implementation, function)
        calls = samples.named_calls(load_spec(files))
        chosen = samples.choose(calls, sample, files.spec)
        library = implementation.kernels("cpu")
        assert library is not None  # a port is built
        return cls(implementation, function, operators, chosen, calls.index(chosen) + 1, place, line, library.path, gdb)

    def run(self) -> int:
        """Run gdb at this process's terminal; return its exit status.

        Raises:
            DebugError: the sample ended without reaching the place; the text lists its launches.
        """
        files = self.implementation.files
        with tempfile.TemporaryDirectory(prefix="trifold-debug-") as folder:
            outcome = Path(folder) / "outcome.json"
            wanted = {
                "command": self._command(),
                "library": str(self.library),
                "header": str(files.header.resolve()),
                "functions": self.operators,
                "function": None if self.operators else self.function,
                "line": self.line,
                "thread": self.place[0],
                "block": self.place[1],
                "sample": str(self.sample),
                "outcome": str(outcome),
            }
            environment = os.environ | {"TRIFOLD_DEBUG": json.dumps(wanted), "NUMBA_ENABLE_CUDASIM": "1"}
            before = signal.signal(signal.SIGINT, lambda *_: None)  # Ctrl-C is gdb's
            try:
                options = ["-q", "-iex", "set auto-load python-scripts off", "-ex", f"source {GDB_SCRIPT}"]
                status = subprocess.run([str(self.gdb), *options], env=environment).returncode
            finally:
                signal.signal(signal.SIGINT, before)
            met = json.loads(outcome.read_text(encoding="utf-8")) if outcome.exists() else {"arrived": False}
        if not met["arrived"] and "launches" in met:
            raise self._missed(met)
        return status if met["arrived"] else 1

    def _command(self) -> list[str]:
        files = self.implementation.files
        workspace = files.header.parent.parent
        call = [files.name, "--workspace", str(workspace), "--sample", str(self.number)]
        if self.operators and self.function == files.name:
            call.append("--forward")
        return own_process.command("trifold.debug.driver", *call)

    def _missed(self, met: dict[str, Any]) -> DebugError:
        if met["next_line"] is not None:
            header = self.implementation.files.header
            return DebugError(
                f"no statement begins at {header}:{self.line}", f"the next one: --line {met['next_line']}"
            )
        launches = [Launch(kernel, tuple(grid), tuple(block)) for kernel, grid, block in met["launches"]]
        return never_came(self.function, self.line, self.place, self.sample, launches)


def find_gdb() -> Path:
    """gdb on PATH.

    Raises:
        ToolchainError: there is none.
    """
    found = shutil.which("gdb")
    if found is None:
        raise ToolchainError("debugging a port needs gdb, which is not on PATH", INSTALL_GDB)
    return Path(found)


def device_functions(source: Path) -> dict[str, tuple[int, int]]:
    """The kernels and device functions that a C++ file defines, each with its first and last line."""
    text = source.read_text(encoding="utf-8")
    bounded = _LAUNCH_BOUNDS.sub(lambda match: " " * len(match[0]), text)
    functions: dict[str, tuple[int, int]] = {}
    for match in _FUNCTION.finditer(bounded):
        begin = bounded.find("{", match.end())
        if begin < 0:
            continue
        functions.setdefault(match[1], (_line(text, match.start(1)), _line(text, _closing(bounded, begin))))
    return functions


def kernels(source: Path) -> list[str]:
    """The :func:`device_functions` that are launched."""
    text = _LAUNCH_BOUNDS.sub("", source.read_text(encoding="utf-8"))
    return [match[1] for match in _FUNCTION.finditer(text) if "__global__" in match[0]]


def _closing(text: str, begin: int) -> int:
    """The position of the brace that closes the one at ``begin``."""
    depth = 0
    for at in range(begin, len(text)):
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        if depth == 0:
            return at
    return len(text)


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1


def require_in_function(header: Path, line: int) -> None:
    """Raise :class:`DebugError` unless ``line`` is one of a kernel or device function."""
    functions = device_functions(header)
    if any(first <= line <= last for first, last in functions.values()):
        return
    listing = ", ".join(f"{name} {first}-{last}" for name, (first, last) in functions.items())
    raise DebugError(f"{header}:{line} is not in a kernel", f"the lines of its kernels: {listing}")


def operators_of(files: OpFiles, implementation: Implementation, name: str) -> tuple[str, ...]:
    """The C++ function of the operator ``name``; empty for a kernel or device function of that name."""
    schemas = list(implementation.operators.schemas)
    if name in schemas:
        written = {op: function for function, op in _OPERATOR.findall(files.binding.read_text(encoding="utf-8"))}
        return (written.get(name, name),)
    known = [function for source in local_sources(files.binding) for function in device_functions(source)]
    if name in known:
        return ()
    own = [*device_functions(files.header)]
    raise DebugError(
        f"the op '{files.name}' has no function '{name}'",
        f"its launch functions are: {', '.join(schemas)}; its kernels and device functions: {', '.join(own)}",
    )
