"""``verify --coverage``: the lines and branches of an op's kernels that no input of the verification reached.

The workers of the two CPU cells count, each into its own folder: coverage.py for the prototype, g++'s counters for the
port (:mod:`trifold.verification.gcov` reads them). What runs on a GPU is not counted.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from trifold.cells import ImplementationKind
from trifold.errors import ToolchainError
from trifold.isolation.source import REFERENCE
from trifold.verification import gcov
from trifold.workspace import OpFiles


@dataclass(frozen=True)
class Missed:
    """A line that no input reached; with ``branch``, a reached line of which a branch was not taken."""

    line: int
    text: str
    branch: bool = False


@dataclass(frozen=True)
class FileCoverage:
    """What the inputs reached in one source file of an op.

    Attributes:
        file: relative to the workspace.
        lines, branches: how many it has; each outcome of a condition is a branch.
        missed: in the order of their lines.
    """

    file: str
    implementation: ImplementationKind
    lines: int
    lines_reached: int
    branches: int
    branches_reached: int
    missed: tuple[Missed, ...]


def require_tools(implementations: Sequence[str]) -> None:
    """Raise :class:`ToolchainError` if coverage.py or gcov is missing."""
    if "prototype" in implementations and importlib.util.find_spec("coverage") is None:
        raise ToolchainError(
            "the coverage of prototypes needs coverage.py, which is not installed", "pip install coverage"
        )
    if "port" in implementations:
        gcov.find_gcov()


def measured(root: Path, files: OpFiles, prototype: Path, port: Path) -> tuple[FileCoverage, ...]:
    """The coverage of each source file of the op for which anything was counted.

    Args:
        root: of the workspace.
        files: the op's.
        prototype, port: the folders into which the workers of the CPU cells counted; they need not exist.
    """
    found = []
    if any(prototype.glob("data.*")):
        found.append(_of_prototype(root, files.prototype, prototype))
    counts = gcov.counts(port, (files.header, files.binding)) if any(port.glob("*.gcda")) else {}
    for path, lines in counts.items():
        missed = tuple(
            Missed(number, _text(path, number), line.reached)
            for number, line in sorted(lines.items())
            if not line.reached or line.branches_reached < line.branches
        )
        found.append(
            FileCoverage(
                str(path.relative_to(root)),
                "port",
                len(lines),
                sum(line.reached for line in lines.values()),
                sum(line.branches for line in lines.values()),
                sum(line.branches_reached for line in lines.values()),
                missed,
            )
        )
    return tuple(found)


def _of_prototype(root: Path, path: Path, folder: Path) -> FileCoverage:
    import coverage

    combined = coverage.Coverage(data_file=str(folder / "combined"), branch=True, config_file=False)
    combined.combine([str(part) for part in folder.glob("data.*")])
    combined.exclude(rf"^def {REFERENCE}\(")  # it runs in the judge, not in the op
    report = folder / "report.json"
    combined.json_report(morfs=[str(path)], outfile=str(report))
    (file,) = json.loads(report.read_text(encoding="utf-8"))["files"].values()
    # The simulator's code of a function begins at its def, Python's at its first decorator. coverage.py names a
    # function's exit by that line, and so takes it for another exit.
    left = {source for source, target in combined.get_data().arcs(str(path)) or () if target < 0}
    untaken = [source for source, target in file["missing_branches"] if target >= 0 or source not in left]
    summary, partial = file["summary"], set(untaken)
    missed = dict.fromkeys(partial - set(file["missing_lines"]), True) | dict.fromkeys(file["missing_lines"], False)
    return FileCoverage(
        str(path.relative_to(root)),
        "prototype",
        summary["num_statements"],
        summary["covered_lines"],
        summary["num_branches"],
        summary["num_branches"] - len(untaken),
        tuple(Missed(line, _text(path, line), branch) for line, branch in sorted(missed.items())),
    )


def _text(path: Path, line: int) -> str:
    lines = path.read_text(encoding="utf-8").splitlines()
    return lines[line - 1].strip() if line <= len(lines) else ""
