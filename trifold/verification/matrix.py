"""The matrix on the screen: checks down, ops across, a mark for each cell; failures and reasons below."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from trifold.verification.checks import CHECKS
from trifold.verification.report import Failure, OpReport, Report, Row
from trifold.verification.verify import CELLS
from trifold.verification.worker import BUILD, FINDINGS

_MARKS = {"passed": ("✓", "green"), "failed": ("✗", "bold red"), "not run": ("-", "dim")}
_SHORT = {"prototype": "proto", "port": "port"}


def render(report: Report) -> RenderableType:
    """The whole report."""
    return Group(_table(report), *_failures(report), *_reasons(report), _summary(report))


def _table(report: Report) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("check", no_wrap=True)
    cells = [cell for cell in CELLS if any(_has_run(op, *cell) for op in report.ops)]
    for op in report.ops:
        for kind, device in cells:
            table.add_column(f"{op.op}\n{_SHORT[kind]}\n{device}", justify="center", no_wrap=True)
    for check in _checks(report):
        marks = [_mark(op.row(check, kind, device)) for op in report.ops for kind, device in cells]
        table.add_row(check, *marks)
    return table


def _checks(report: Report) -> list[str]:
    """The names of all checks that have a mark, in the order in which they ran; properties before the last ones."""
    known = [BUILD, *(check.name for check in CHECKS)]
    seen = {row.check for op in report.ops for row in op.rows if row.check != "all checks"}
    properties = sorted(seen - set(known) - {FINDINGS})
    return [name for name in [*known, *properties, FINDINGS] if name in seen]


def _has_run(op: OpReport, kind: str, device: str) -> bool:
    rows = [row for row in op.rows if (row.implementation, row.device) == (kind, device)]
    return any(row.outcome != "not run" for row in rows)


def _mark(row: Row | None) -> Text:
    if row is None:
        return Text("")
    mark, style = _MARKS[row.outcome]
    return Text(mark, style=style)


def _failures(report: Report) -> Iterator[RenderableType]:
    for op in report.ops:
        for row in op.rows:
            for failure in row.failures:
                yield Text()
                yield Text(f"✗ {op.op} {row.implementation}·{row.device} {row.check}", style="bold red")
                yield Padding(_explanation(failure), (0, 0, 0, 2))


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


def _summary(report: Report) -> Text:
    cases = sum(row.cases for op in report.ops for row in op.rows)
    parts = []
    for op in report.ops:
        on = f" on {' and '.join(op.devices)}" if op.verdict == "verified" else ""
        parts.append(f"{op.op} {op.verdict}{on}")
    style = {"verified": "bold green", "failed": "bold red", "incomplete": "bold yellow"}[report.verdict]
    text = Text(f"\n{'; '.join(parts)}\n")
    text.append(report.verdict, style=style)
    text.append(f": {cases} cases in {report.seconds:.0f} s on {report.device}, torch {report.torch}")
    return text
