"""What compute-sanitizer finds in the kernels that run on a GPU.

Each of its four tools watches its own process of the op, during the fewest calls that launch every kernel instance,
forward and backward. Results are compared with the reference as in other checks. A call that does not return under a
tool is made again in another process, since the tools have hung with right kernels. After one that hangs there too,
the other tools are not tried: they would wait for it as long.
"""

from __future__ import annotations

import functools
import re
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from trifold import compute_sanitizer
from trifold.acceptance import Acceptance, accepted, configured_suppressions, read_comments, read_suppressions
from trifold.build.sources import included_sources
from trifold.compute_sanitizer.report import ToolReport, parse
from trifold.errors import ToolchainError
from trifold.findings import Finding
from trifold.isolation.device_guard import WHOLE_VECTORS
from trifold.spec import Call
from trifold.verification.cell import Cell, Remote
from trifold.verification.checks.accepted import list_accepted
from trifold.verification.checks.differentiation import forward
from trifold.verification.checks.instances import launching_calls
from trifold.verification.checks.memory import require_undamaged
from trifold.verification.checks.values import compare
from trifold.verification.observations import Observations
from trifold.verification.outcomes import Absence, CheckFailed, NotRun
from trifold.verification.remote import OpProcess
from trifold.verification.remote_errors import OpDied, OpHangs

_SLOWER = 2.0  # factor for time limits: kernels are up to a hundred times slower, but take milliseconds at most
_OPTIONS = {
    # Later kernels run even so. API errors are ignored: torch calls functions that a driver may lack.
    "memcheck": ("--destroy-on-device-error=kernel", "--report-api-errors=no"),
    "racecheck": (),
    "initcheck": ("--destroy-on-device-error=kernel",),
    "synccheck": ("--destroy-on-device-error=kernel",),
}
# Each tensor is a separate allocation, which starts uninitialised.
_ENVIRONMENT = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1", WHOLE_VECTORS: "1"}
_OF_TORCH = ("at::", "c10::", "at_cuda_detail::")
_ADDRESS = re.compile(r"\b0x[0-9a-f]{7,}\b")  # global memory; addresses of shared memory are shorter
_SHOWN = 3  # findings in a message
_PROBE = "import torch; torch.ones(8, device='cuda').add_(1); torch.cuda.synchronize()"


@dataclass
class _Made:
    """A call under a tool.

    Attributes:
        observed: what the op's process observed, with the addresses of the memory.
        log_bytes: the length of the log after the call; None: it did not return.
    """

    call: Call
    observed: Observations
    log_bytes: int | None = None

    def names(self, cell: Cell) -> Iterator[tuple[int, int, str]]:
        """Address, bytes and name of each tensor's memory."""
        arguments = [cell.name(path) for path, _ in self.call.cases()]
        for memory in self.observed.addresses:
            for number, (address, size) in enumerate(memory.arguments):
                yield address, size, arguments[number] if number < len(arguments) else "an upstream gradient"
            for address, size in memory.results:
                yield address, size, "a result"


@dataclass
class _Watched:
    """The op's process under one tool.

    Attributes:
        log: the file that the tool writes.
        made: the calls that were begun.
        failure: what ended the calls early.
        end: how the process ended, if not with status 0.
        text: the log, after the tool has ended.
        missed: the kernel instances that no call has launched.
    """

    tool: str
    process: OpProcess
    log: Path
    made: list[_Made] = field(default_factory=list)
    failure: Exception | OpDied | None = None
    end: str = ""
    text: bytes = b""
    missed: list[str] = field(default_factory=list)


def findings_on_gpu(cell: Cell) -> str:
    """Any finding in a kernel of the op fails the row, including racecheck's warnings, such as a missing
    ``__syncwarp``. Findings that the user accepts (:mod:`trifold.acceptance`) are exempt, and listed in the row."""
    try:
        sanitizer = compute_sanitizer.find()
    except ToolchainError as error:
        raise NotRun(Absence.NO_SANITIZER, error.remedy) from None
    cell.process.load(build=True)  # build before a tool runs, which would also watch the compilers
    calls = _calls(cell)
    remarks = [f"compute-sanitizer {compute_sanitizer.version(sanitizer) or 'of unknown version'}"]
    remarks.append(f"{len(calls)} call{'s' if len(calls) != 1 else ''}")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="trifold-findings-")))
        watched = [_watched(cell, sanitizer, tool, folder, stack) for tool in compute_sanitizer.TOOLS]
        for one in watched:  # they import torch in parallel, which takes longer than the calls
            one.process.start()
        for number, one in enumerate(watched):  # one by one: each needs memory of the GPU for a context
            _run(cell, one, calls)
            if isinstance(one.failure, OpHangs):
                remarks.append(f"under {one.tool}, a call did not return, and was made again")
                one = watched[number] = _watched(cell, sanitizer, one.tool, folder, stack)
                _run(cell, one, calls)
            if isinstance(one.failure, OpHangs):
                del watched[number + 1 :]
                break
        acceptances = _acceptances(cell)
        found = [finding for one in watched for finding in _only_accepted(cell, one, acceptances)]
        for one in watched:
            remarks += _judge(sanitizer, one)
        remarks += list_accepted(cell, found)
    missed = {name for one in watched for name in one.missed}
    remarks += [f"not launched: {', '.join(sorted(missed))}"] if missed else []
    return "; ".join(dict.fromkeys(remarks))


def _acceptances(cell: Cell) -> list[Acceptance]:
    """Those of comments in the sources of the kernels, and of the workspace's suppressions file."""
    assert isinstance(cell.implementation, Remote)
    files = cell.implementation.files
    sources = included_sources(files.binding) if cell.kind == "port" else (files.prototype,)
    suppressions = configured_suppressions(files.prototype.parent)
    return [
        *(one for source in sources for one in read_comments(source)),
        *(read_suppressions(suppressions) if suppressions else ()),
    ]


def _calls(cell: Cell) -> list[tuple[str, Call]]:
    """The calls that launch every kernel instance; if trying a call raises, that call alone."""
    try:
        return list(launching_calls(cell))
    except CheckFailed as error:
        if error.call is None:
            raise
        return [(error.sample, error.call)]


def _in(cell: Cell, process: OpProcess) -> Cell:
    """The cell with its op in another process."""
    assert isinstance(cell.implementation, Remote)
    return replace(cell, implementation=replace(cell.implementation, process=process))


def _watched(cell: Cell, sanitizer: Path, tool: str, folder: Path, stack: ExitStack) -> _Watched:
    log = folder / f"{tool}.txt"
    under = compute_sanitizer.prefix(sanitizer, tool, log, _OPTIONS[tool])
    return _Watched(tool, stack.enter_context(cell.process.another(under, _ENVIRONMENT, slower=_SLOWER)), log)


def _run(cell: Cell, one: _Watched, calls: Iterable[tuple[str, Call]]) -> None:
    """Make the calls under a tool until one fails. Then the process ends, and the tool with it."""
    seen = _in(cell, one.process)
    try:
        one.process.start()  # the one to be ended with the judge: the others only wait
        one.process.load(build=True)
        for name, call in calls:
            cell.begin(call, f"{name}, under {one.tool}" if name else f"under {one.tool}")
            with one.process.running() as observed:
                one.made.append(_Made(call, observed))
                compare(seen, call)
                forward(seen, call, seen.implementation.function).values_and_gradients()
            one.made[-1].log_bytes = _size(one.log)
            require_undamaged(observed, call)
        one.missed = [name for name, count in one.process.branches().items() if count == 0]
    except (Exception, OpDied) as error:
        one.failure = error
    one.end = one.process.close()
    one.text = one.log.read_bytes() if one.log.exists() else b""


def _size(log: Path) -> int:
    return log.stat().st_size if log.exists() else 0


def _only_accepted(cell: Cell, one: _Watched, acceptances: Collection[Acceptance]) -> list[Finding]:
    """The findings in kernels of the op, all of which the user accepts. Raises ``CheckFailed`` for others, with the
    first call that has one."""

    def judged(report: ToolReport) -> list[Finding]:
        return accepted(_of_op(report), acceptances)

    def until(made: _Made) -> ToolReport:
        return _parse(one.text[: made.log_bytes], one.tool)

    report = _parse(one.text, one.tool)
    every = judged(report)
    found = [finding for finding in every if not finding.accepted]
    if not found:
        return every
    at = next((made for made in one.made if not all(finding.accepted for finding in judged(until(made)))), None)
    if at is not None:
        memory = list(at.names(cell))
        found = [replace(finding, message=_with_names(finding.message, memory)) for finding in found]
    call = at.call if at is not None else None
    raise CheckFailed(_message(found, report.problems, one.tool), call, findings=tuple(found))


def _with_names(message: str, memory: Iterable[tuple[int, int, str]]) -> str:
    """The message with the tensor's name after each address of global memory.

    >>> _with_names("1 bytes after the allocation at 0x7f0000000", [(0x7f0000000, 40, "x")])
    '1 bytes after the allocation at 0x7f0000000 (x)'
    """

    def named(match: re.Match[str]) -> str:
        address = int(match[0], 16)
        for begin, size, name in memory:
            if begin <= address < begin + size:
                return f"{match[0]} ({name})" if address == begin else f"{match[0]} (byte {address - begin} of {name})"
        return match[0]

    return _ADDRESS.sub(named, message)


def _judge(sanitizer: Path, one: _Watched) -> list[str]:
    """Remarks on a run without findings. Raises ``CheckFailed`` if a call failed, or the tool did not finish."""
    report = _parse(one.text, one.tool)
    if not report.complete:
        _require_working(sanitizer, one.tool)
    problems = "; ".join(report.problems)
    if one.failure is not None:
        last = one.made[-1].call if one.made else None
        raise CheckFailed(f"under {one.tool}: {_words(one.failure)}{f' ({problems})' if problems else ''}", last)
    if not report.complete:
        raise CheckFailed(f"{one.tool} ended without a summary{f': {problems}' if problems else ''}")
    unknown = [problem for problem in report.problems if not problem.startswith(("Warning", "Info", one.tool))]
    if unknown:
        ended = f"; after the last call, {one.end}" if one.end else ""
        raise CheckFailed(f"{one.tool} reports: {'; '.join(unknown)}{ended}")
    of_torch = sorted({finding.kernel for finding in report.findings if _is_of_torch(finding)})
    remarks = [f"{one.tool} reports torch's own kernels: {', '.join(of_torch)}"] if of_torch else []
    return [*remarks, *(f"{one.tool} reports: {problem}" for problem in report.problems)]


def _parse(data: bytes, tool: str) -> ToolReport:
    return parse(data.decode("utf-8", errors="replace"), tool)


def _of_op(report: ToolReport) -> list[Finding]:
    """The findings without those in torch's kernels, which have no line numbers; all code compiled for an op has
    them."""
    return [finding for finding in report.findings if not _is_of_torch(finding) and finding.severity != "lint"]


def _is_of_torch(finding: Finding) -> bool:
    return finding.kernel.startswith(_OF_TORCH) and not any(access.file for access in finding.accesses)


def _message(found: list[Finding], problems: tuple[str, ...], tool: str) -> str:
    parts = [finding.message for finding in found[:_SHOWN]]
    if len(found) > _SHOWN:
        parts.append(f"and {len(found) - _SHOWN} more findings")
    parts += problems
    parts.append(f"to repeat it: PYTORCH_NO_CUDA_MEMORY_CACHING=1 compute-sanitizer --tool {tool} python FILE.py")
    return "\n".join(parts)


def _words(error: BaseException) -> str:
    return str(error) if isinstance(error, CheckFailed | OpDied) else f"{type(error).__name__}: {error}"


def _require_working(sanitizer: Path, tool: str) -> None:
    """Raises ``NotRun`` if the tool does not work even on a kernel of torch."""
    problem = _probe(sanitizer, tool)
    if problem:
        raise NotRun(Absence.SANITIZER_FAILS, problem)


@functools.cache
def _probe(sanitizer: Path, tool: str) -> str:
    """What is wrong with the tool on this machine; "" if it works."""
    silent = subprocess.DEVNULL
    run = compute_sanitizer.run(
        sanitizer,
        tool,
        [sys.executable, "-c", _PROBE],
        options=_OPTIONS[tool],
        timeout=120.0,
        stdin=silent,
        stdout=silent,
        stderr=silent,
    )
    return "; ".join(run.problems)
