"""The matrix on the screen: a mark for each check of each cell; failures and reasons below.

If all ops fit the width, checks are rows and ops are columns. Otherwise ops are rows, and each check is a column of one
mark. Names are never truncated.
"""

from __future__ import annotations

import textwrap
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from trifold import tables
from trifold.cells import CELLS, Device, ImplementationKind
from trifold.verification.checks import CHECKS
from trifold.verification.examples import fewer
from trifold.verification.report import ALL_CHECKS, BUILD, PROPERTY, Failure, OpReport, OutcomeName, Report, Row

_MARKS = {"passed": ("✓", "green"), "failed": ("✗", "bold red"), "not run": ("·", "dim")}
_MEANING = "✓ passed  ✗ failed  · not run"
_PROPERTIES = "properties"  # all properties of a spec, in one mark
_SLOW = 120.0  # seconds that a check takes the simulator for reasonable calls, at most, on a slow machine
_BOTH = "both"  # both implementations, in one line

_Line = tuple[str, str, list[OutcomeName]]  # an op, one or two cells, and a mark for each check


def render(report: Report) -> RenderableType:
    """The whole report, for ``console.print(..., crop=False)``: lines of code may be wider than the console."""
    parts = (*_properties(report), *failures(report), *_reasons(report), *_slow(report), *_coverage(report))
    return Group(_Matrix(report), *parts, _summary(report))


class _Matrix:
    """The marks and their legend, as a table that fits the console."""

    def __init__(self, report: Report) -> None:
        self._report = report

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        checks = _checks(self._report)
        columns = (max(len(op.op), len(CELLS)) for op in self._report.ops)
        if sum((max(map(len, ("check", *checks))), *(tables.GAP + column for column in columns))) <= options.max_width:
            yield _ops_across(self._report, checks)
            cells = ", ".join(f"{kind} {device}" for kind, device in CELLS)
            yield Text(f"each four: {cells}\n{_MEANING}", style="dim")
            return
        lines = [(op.op, *line) for op in self._report.ops for line in _lines(op, checks)]
        yield from _ops_down(lines, checks, options.max_width)
        merged = any(cell.startswith(_BOTH) for _, cell, _ in lines)
        yield Text(f"{_BOTH}: prototype and port have the same marks\n" * merged + _MEANING, style="dim")


def _ops_across(report: Report, checks: Sequence[str]) -> Table:
    """A row per check, with four marks per op: its cells in the order of the legend."""
    table = tables.plain("check", *(op.op for op in report.ops))
    for check in checks:
        marks = (Text.assemble(*(_MARKS[_outcome(op, check, *cell)] for cell in CELLS)) for op in report.ops)
        table.add_row(check, *marks)
    return table


def _ops_down(lines: Sequence[_Line], checks: Sequence[str], width: int) -> Iterator[Text]:
    """A line for each op and cell, or for two cells that do not differ, with a column of one mark for each check.

    A check's name ends above its column, on its own line, from which a vertical line leads down. Checks that do not fit
    the width are in further tables.
    """
    names, cells = max(len(op) for op, _, _ in lines), max(len(cell) for _, cell, _ in lines)
    left = max(names + cells + 4, 1 + max(map(len, checks), default=0))
    room = max(1, (width - left + 1) // 2)
    for first in range(0, len(checks), room):
        shown = range(first, min(first + room, len(checks)))
        if first:
            yield Text()
        for position in reversed(shown):
            before = left + 2 * (position - first)
            label = f"{checks[position]} ┐".rjust(before + 1)
            yield _whole(label + " │" * (shown[-1] - position))
        for op, cell, outcomes in lines:
            line = Text(f"{op:{names}}  {cell}".ljust(left))
            for position in shown:
                mark, style = _MARKS[outcomes[position]]
                line.append(mark, style=style).append(" " if position != shown[-1] else "")
            yield _whole(line)


def _whole(line: Text | str) -> Text:
    """A line that is printed without wrapping."""
    text = Text(line) if isinstance(line, str) else line
    text.no_wrap, text.overflow = True, "ignore"
    return text


def _lines(op: OpReport, checks: Sequence[str]) -> list[tuple[str, list[OutcomeName]]]:
    """The cells of an op that ran, with their outcomes; one line where prototype and port of a device do not differ.

    A cell that did not run at all is listed in the reasons below the table; an op without any other has one line.
    """
    lines: list[tuple[str, list[OutcomeName]]] = []
    for device in dict.fromkeys(device for _, device in CELLS):
        of_device = {
            kind: [_outcome(op, check, kind, device) for check in checks]
            for kind in dict.fromkeys(kind for kind, _ in CELLS)
            if any((row.implementation, row.device) == (kind, device) and row.check != ALL_CHECKS for row in op.rows)
        }
        first, *others = of_device.values() or [[]]
        if others == [first]:
            lines.append((f"{_BOTH}·{device}", first))
        else:
            lines += [(f"{kind}·{device}", outcomes) for kind, outcomes in of_device.items()]
    nothing: list[OutcomeName] = ["not run"] * len(checks)
    return lines or [("no cell", nothing)]


def _checks(report: Report) -> list[str]:
    """The names of all checks that have a mark, in the order in which they ran; all properties are one."""
    known = [BUILD, *(check.name for check in CHECKS), _PROPERTIES]
    seen = {_column(row) for op in report.ops for row in op.rows if row.check != ALL_CHECKS}
    return [*(name for name in known if name in seen), *sorted(seen - set(known))]


def _column(row: Row) -> str:
    return _PROPERTIES if row.check.startswith(PROPERTY) else row.check


def _outcome(op: OpReport, check: str, kind: ImplementationKind, device: Device) -> OutcomeName:
    """The outcome of a check in a cell; of several properties, the worst."""
    cell = (check, kind, device)
    outcomes = {row.outcome for row in op.rows if (_column(row), row.implementation, row.device) == cell}
    return "failed" if "failed" in outcomes else "passed" if outcomes == {"passed"} else "not run"


def _properties(report: Report) -> Iterator[Text]:
    """The properties of each op of which one fails, by name: they share one mark."""
    for op in report.ops:
        rows = [row for row in op.rows if row.check.startswith(PROPERTY)]
        if not any(row.outcome == "failed" for row in rows):
            continue
        yield Text(f"\nproperties of {op.op}")
        for check in dict.fromkeys(row.check for row in rows):
            failed = [
                f"{row.implementation}·{row.device}" for row in rows if (row.check, row.outcome) == (check, "failed")
            ]
            ran = all(row.outcome == "passed" for row in rows if row.check == check)
            mark, style = _MARKS["failed" if failed else "passed" if ran else "not run"]
            where = f" ({', '.join(failed)})" if failed else ""
            yield Text.assemble("  ", (mark, style), f" {check.removeprefix(PROPERTY)}{where}")


def failures(report: Report) -> Iterator[RenderableType]:
    """Each cause of failures with the rows that it fails, and a program that reproduces the first; for
    ``console.print(..., crop=False)``."""
    for op in report.ops:
        for cause in op.causes:
            yield Text()
            yield Text(f"✗ {op.op} {cause.implementation}·{cause.device} {', '.join(cause.checks)}", style="bold red")
            yield Padding(_explanation(cause.failure), (0, 0, 0, 2))
            if cause.failure.code:
                yield Text()
                yield _whole(Text(textwrap.indent(cause.failure.code, " " * 6), style="cyan"))


def _explanation(failure: Failure) -> Text:
    text = Text(failure.message)
    if failure.sample:
        text.append(f"\ncase: {failure.sample}")
    if failure.seed is not None:
        text.append(f"\nseed: {failure.seed}")
    return text


def _reasons(report: Report) -> Iterator[RenderableType]:
    """Why something was not run, and remarks on passed checks; each reason once, with its cells."""
    cells: dict[tuple[str, str, str], dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for op in report.ops:
        for row in op.rows:
            shown = row.outcome == "not run" or row.check == BUILD or bool(row.accepted) or "surrogate" in row.reason
            if row.reason and shown:
                cells[row.outcome, row.check, row.reason][f"{row.implementation}·{row.device}"].append(op.op)
    if cells:
        yield Text()
    for (outcome, check, reason), where in cells.items():
        yield Text(f"{_MARKS[outcome][0]} {check} ({_places(where, len(report.ops))}): {reason}", style="dim")


def _places(ops_of_cell: Mapping[str, Sequence[str]], all_ops: int) -> str:
    """Groups cells that have the same ops, with these.

    >>> _places({"prototype·cuda": ["add", "mul"], "port·cuda": ["add", "mul"], "port·cpu": ["mul"]}, 2)
    'prototype·cuda and port·cuda of all 2 ops; port·cpu of mul'
    """
    cells_of_ops: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for cell, ops in ops_of_cell.items():
        cells_of_ops[tuple(dict.fromkeys(ops))].append(cell)
    return "; ".join(
        f"{' and '.join(cells)} of {', '.join(ops) if len(ops) < max(2, all_ops) else f'all {all_ops} ops'}"
        for ops, cells in cells_of_ops.items()
    )


def _slow(report: Report) -> Iterator[Text]:
    """The checks that took the simulator long, by op."""
    for op in report.ops:
        simulated = (row for row in op.rows if (row.implementation, row.device) == ("prototype", "cpu"))
        slow = [f"{row.check} {row.seconds:.0f} s" for row in simulated if row.seconds > _SLOW]
        if slow:
            yield Text(
                f"· {op.op} takes the simulator long ({', '.join(slow)}), where each statement runs for each thread in "
                "turn: let Spec(calls=...) draw less work than its limits allow elements",
                style="dim",
            )


def _coverage(report: Report) -> Iterator[RenderableType]:
    """The coverage on the CPU: a row per file, and below it what was not reached."""
    files = [file for op in report.ops for file in op.coverage or ()]
    if not files:
        return
    table = tables.plain("reached on the cpu", "lines", "branches")
    for file in files:
        table.add_row(file.file, _share(file.lines_reached, file.lines), _share(file.branches_reached, file.branches))
    yield Text()
    yield table
    for file in files:
        for missed in file.missed:
            what = "a branch is not taken" if missed.branch else "not reached"
            yield Text(f"{file.file}:{missed.line}: {what}: {missed.text}", style="dim")


def _share(part: int, whole: int) -> str:
    """A percentage, rounded down: 100% is all.

    >>> _share(199, 200)
    '99%'
    """
    return f"{100 * part // whole}%" if whole else "none"


def _summary(report: Report) -> Text:
    cases = sum(row.cases for op in report.ops for row in op.rows)
    ops: dict[str, list[str]] = defaultdict(list)
    for op in report.ops:
        on = f" on {' and '.join(op.devices)}" if op.verdict == "verified" else ""
        few = fewer(op.drawn)
        kept = ", and its certificate stays that of a fuller run" if op.fuller else ""
        ops[f"{op.verdict}{on}{f' with {few}' if few else ''}{kept}"].append(op.op)
    parts = [f"{', '.join(names)} {verdict}" for verdict, names in ops.items()]
    style = {"verified": "bold green", "failed": "bold red", "incomplete": "bold yellow"}[report.verdict]
    text = Text(f"\n{'; '.join(parts)}\n")
    text.append(report.verdict, style=style)
    text.append(f": {cases} cases in {report.seconds:.0f} s on {report.device}, torch {report.torch}")
    return text
