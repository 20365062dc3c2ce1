"""The matrix on the screen: checks down, ops across, four marks for the four cells; failures and reasons below."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from trifold.verification.checks import CHECKS
from trifold.verification.examples import fewer
from trifold.verification.report import BUILD, Failure, OpReport, Report
from trifold.verification.verify import ALL_CHECKS, CELLS

_MARKS = {"passed": ("✓", "green"), "failed": ("✗", "bold red"), "not run": ("·", "dim")}
_LEGEND = f"each four: {', '.join(f'{kind} {device}' for kind, device in CELLS)}; ✓ passed  ✗ failed  · not run"


def render(report: Report) -> RenderableType:
    """The whole report."""
    legend = Text(_LEGEND, style="dim")
    return Group(_table(report), legend, *failures(report), *_reasons(report), *_coverage(report), _summary(report))


def _table(report: Report) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("check", no_wrap=True)
    for op in report.ops:
        table.add_column(op.op, no_wrap=True)
    for check in _checks(report):
        table.add_row(check, *(_marks(op, check) for op in report.ops))
    return table


def _checks(report: Report) -> list[str]:
    """The names of all checks that have a mark, in the order in which they ran; properties last."""
    known = [BUILD, *(check.name for check in CHECKS)]
    seen = {row.check for op in report.ops for row in op.rows if row.check != ALL_CHECKS}
    return [*(name for name in known if name in seen), *sorted(seen - set(known))]


def _marks(op: OpReport, check: str) -> Text:
    """A mark for each cell, in the order of the legend."""
    marks = Text()
    for cell in CELLS:
        row = op.row(check, *cell)
        mark, style = _MARKS["not run" if row is None else row.outcome]
        marks.append(mark, style=style)
    return marks


def failures(report: Report) -> Iterator[RenderableType]:
    """Each cause of failures with the rows that it fails, and with what reproduces the first."""
    for op in report.ops:
        for cause in op.causes:
            yield Text()
            yield Text(f"✗ {op.op} {cause.implementation}·{cause.device} {', '.join(cause.checks)}", style="bold red")
            yield Padding(_explanation(cause.failure), (0, 0, 0, 2))


def _explanation(failure: Failure) -> RenderableType:
    text = Text(failure.message)
    if failure.sample:
        text.append(f"\ncase: {failure.sample}")
    if failure.seed is not None:
        text.append(f"\nseed: {failure.seed}")
    if not failure.code:
        return text
    return Group(text, Text(), Padding(Text(failure.code, style="cyan", no_wrap=True, overflow="ignore"), (0, 0, 0, 4)))


def _reasons(report: Report) -> Iterator[RenderableType]:
    """Why something was not run, and what qualifies a pass; each reason once, with the cells that it concerns."""
    cells: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for op in report.ops:
        for row in op.rows:
            if row.reason and (row.outcome == "not run" or row.check == BUILD or "surrogate" in row.reason):
                cells[row.outcome, row.check, row.reason].append(f"{op.op} {row.implementation}·{row.device}")
    if cells:
        yield Text()
    for (outcome, check, reason), where in cells.items():
        names = ", ".join(where) if len(where) <= 2 else f"{len(where)} cells"
        yield Text(f"{_MARKS[outcome][0]} {check} ({names}): {reason}", style="dim")


def _coverage(report: Report) -> Iterator[RenderableType]:
    """What the inputs reached on the CPU, a file a row, and below it what they did not."""
    files = [file for op in report.ops for file in op.coverage or ()]
    if not files:
        return
    table = Table("reached on the cpu", "lines", "branches", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for file in files:
        table.add_row(file.file, _share(file.lines_reached, file.lines), _share(file.branches_reached, file.branches))
    yield Text()
    yield table
    for file in files:
        for missed in file.missed:
            what = "a branch is not taken" if missed.branch else "not reached"
            yield Text(f"{file.file}:{missed.line}: {what}: {missed.text}", style="dim")


def _share(part: int, whole: int) -> str:
    """Rounded down: 100% is all.

    >>> _share(199, 200)
    '99%'
    """
    return f"{100 * part // whole}%" if whole else "none"


def _summary(report: Report) -> Text:
    cases = sum(row.cases for op in report.ops for row in op.rows)
    parts = []
    for op in report.ops:
        on = f" on {' and '.join(op.devices)}" if op.verdict == "verified" else ""
        few = fewer(op.drawn)
        kept = ", and its certificate stays that of a fuller run" if op.fuller else ""
        parts.append(f"{op.op} {op.verdict}{on}{f' with {few}' if few else ''}{kept}")
    style = {"verified": "bold green", "failed": "bold red", "incomplete": "bold yellow"}[report.verdict]
    text = Text(f"\n{'; '.join(parts)}\n")
    text.append(report.verdict, style=style)
    text.append(f": {cases} cases in {report.seconds:.0f} s on {report.device}, torch {report.torch}")
    return text
