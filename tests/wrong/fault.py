"""A fault of synchronisation or of bounds in code that only a GPU runs, as data, and the rows that reject it there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from tests.wrong import few_dtypes
from tests.wrong.entry import Edit, File, Wrong, edited_copy
from trifold.spec import Call
from trifold.verification.checks import CHECKS
from trifold.verification.report import Row
from trifold.verification.verify import verify
from trifold.workspace import Workspace

#: The part of the code that has the fault:
#:
#: - ``wait``: for copies, for an earlier kernel, or for the other blocks of a cluster;
#: - ``arrive``: the arrivals and bytes that a barrier in shared memory (mbarrier) is to expect;
#: - ``fence``: a fence, or the order of accesses before and after it;
#: - ``copy``: from global to shared memory, by cp.async or in bulk;
#: - ``mailbox``: reading what other warps and blocks have sent;
#: - ``ring``: the slots of shared memory that rows or sums reuse;
#: - ``edge``: the beginning or the end of a row or of a tensor;
#: - ``barrier``: of a block, or of some of its warps or lanes.
Kind = Literal["wait", "arrive", "fence", "copy", "mailbox", "ring", "edge", "barrier"]
KINDS: tuple[Kind, ...] = get_args(Kind)
Pass = Literal["forward", "backward"]

#: Rows that may reject such a fault, besides ``values`` or ``gradients``.
OF_THE_GPU = ("bounds", "findings", "jitter", "repeatable")

#: Why an H200 does not show messages to a block that has not yet initialised its mailbox.
EARLY_MESSAGES = (
    "results stay the same even with blocks that begin up to 18 µs late: a message that arrives before its mailbox is "
    "initialised appears to count all the same; compute-sanitizer reports it in some runs and not in others"
)


@dataclass(frozen=True, kw_only=True)
class Fault(Wrong):
    """A fault in the code that only a GPU runs, planted in the port.

    Attributes:
        kind: see :data:`Kind`.
        in_pass: the pass of the op that shows the fault.
        calls: those that reach it, as the only samples of the op's spec, which has no edges, so that a row takes
            seconds. Only their dtypes are compiled and drawn.
        seconds: limit for a case. A fault that makes a kernel wait forever takes all of it.
        small: the call that reaches it on the CPU, which emulates few multiprocessors and checks each access; default:
            the first of ``calls``.
        at: files and parts of lines, each of which occurs in one line, at which the CPU's findings may be besides the
            lines and functions of the edits: accesses that the edits make unordered, early or out of bounds, or waits
            that never end.
    """

    kind: Kind
    in_pass: Pass
    calls: tuple[Call, ...]
    seconds: float = 60.0
    small: Call | None = None
    at: tuple[tuple[File, str], ...] = ()

    @property
    def cpu_call(self) -> Call:
        """The call that reaches it on the CPU."""
        return self.small or self.calls[0]

    def write(self, root: Path) -> Workspace:
        """A workspace in ``root`` that contains only the faulty op, of the dtypes of ``calls``, its samples."""
        return _only(self.op, self.edits, self.calls, root)

    def rows(self) -> tuple[str, ...]:
        """The rows that may reject it; first the one that must."""
        of_pass = "values" if self.in_pass == "forward" else "gradients"
        return tuple(dict.fromkeys((self.row, of_pass, *OF_THE_GPU)))


def _only(op: str, edits: tuple[Edit, ...], calls: Sequence[Call], root: Path) -> Workspace:
    """A workspace in ``root`` that contains the edited op, whose spec has these calls as samples and no edges, and
    which draws and compiles only their dtypes."""
    workspace = edited_copy(op, (*edits, *few_dtypes.of_dtypes(few_dtypes.dtypes_of(calls))), root)
    with workspace.files(op).spec.open("a", encoding="utf-8") as spec:
        spec.write(few_dtypes.only(calls))
    return workspace


def right_op(op: str, row: str, faults: Iterable[Fault], root: Path) -> Workspace:
    """A workspace in ``root`` that contains the unchanged op, with the calls of those of its faults that ``row`` must
    reject as samples."""
    calls = {repr(call): call for one in faults if (one.op, one.row) == (op, row) for call in one.calls}
    return _only(op, (), tuple(calls.values()), root)


def rows_of(op: str, faults: Iterable[Fault]) -> list[str]:
    """The rows that must reject faults of the op."""
    return sorted({planted.row for planted in faults if planted.op == op})


def fault(
    name: str,
    why: str,
    op: str,
    edit: Edit,
    kind: Kind,
    in_pass: Pass,
    row: str,
    *calls: Call,
    seconds: float = 60.0,
    missed: str = "",
    small: Call | None = None,
    at: tuple[tuple[File, str], ...] = (),
) -> Fault:
    """A fault of one edit."""
    return Fault(
        name=name,
        why=why,
        op=op,
        edits=(edit,),
        row=row,
        implementation="port",
        device="cuda",
        missed=missed,
        kind=kind,
        in_pass=in_pass,
        calls=calls,
        seconds=seconds,
        small=small,
        at=at,
    )


@dataclass(frozen=True)
class Outcome:
    """The outcome of a row for a port.

    Attributes:
        verdict: ``rejected`` by this row; ``broken`` if something else failed, such as the build.
        message: of the failure, or the reason why the row was not run.
    """

    verdict: Literal["rejected", "passed", "not run", "broken"]
    message: str


#: Words of failures that are not due to the fault.
_ELSE = ("NameError", "SyntaxError", "ImportError", "AttributeError", "BuildError", few_dtypes.NOT_COMPILED)


def outcome(op: str, row: str, workspace: Workspace, *, seconds: float = 60.0) -> Outcome:
    """The outcome of ``row`` for the op's port in ``workspace`` on the GPU, with a limit in seconds for a case."""
    (report,) = verify(
        op,
        workspace=workspace,
        implementations=["port"],
        devices=["cuda"],
        checks=[row],
        examples=1,
        timeout=seconds,
    ).ops
    return _of_row(row, report.rows)


def _of_row(row: str, reported: Sequence[Row]) -> Outcome:
    """The outcome of the row, from its report and those of rows that were not requested, such as the build."""
    failed = [one for one in reported if one.outcome == "failed"]
    words = [
        " ".join((one.check, one.outcome, one.reason, *(each.message for each in one.failures)))
        for one in failed or reported
    ]
    message = "; ".join(words)
    if failed:
        fit = [one.check for one in failed] == [row] and not any(word in message for word in _ELSE)
        return Outcome("rejected" if fit else "broken", message)
    passed = any(one.check == row and one.outcome == "passed" for one in reported)
    return Outcome("passed" if passed else "not run", message)


def there_are(rows: Iterable[str]) -> list[str]:
    """The rows among these that a verification on a GPU has."""
    known = {check.name for check in CHECKS if "cuda" in check.devices}
    return [row for row in rows if row in known]
