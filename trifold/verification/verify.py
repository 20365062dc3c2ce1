"""``trifold.verify``: the matrix of a workspace."""

from __future__ import annotations

import difflib
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

from trifold import record_sources
from trifold.cells import CELLS, CellName, Device
from trifold.errors import TrifoldError
from trifold.isolation import nursery
from trifold.machine.cells import Machine
from trifold.machine.environment import environment
from trifold.source_hashes import changed_sources, source_hashes
from trifold.verification.certificate import remove_certificate, toolkit_digest, write_certificate
from trifold.verification.checks import CHECKS
from trifold.verification.coverage import FileCoverage, measured, require_tools
from trifold.verification.durations import durations, keep_durations
from trifold.verification.job import Job
from trifold.verification.report import ALL_CHECKS, BUILD, INTERRUPTED, PROPERTY, Failure, OpReport, Report, Row
from trifold.verification.runner import Stop, asked_checks, run_cell
from trifold.verification.schedule import in_order, worker_pool
from trifold.verification.watch import Watch
from trifold.workspace import OpFiles, Workspace

SOURCES = "sources"  # the row of an op whose files changed during the run


def verify(
    *ops: str,
    workspace: Workspace | Path | str | None = None,
    implementations: Sequence[str] = ("prototype", "port"),
    devices: Sequence[str] = ("cpu", "cuda"),
    checks: Sequence[str] = (),
    examples: int | None = None,
    seed: int | None = None,
    timeout: float = 120.0,
    coverage: bool = False,
    watch: Watch | None = None,
) -> Report:
    """Check prototype and port of each op against its reference, on every device of this machine.

    Args:
        ops: names; none means all ops of the workspace.
        workspace: the workspace or its folder; default: the nearest one at or above the current folder.
        implementations: which to check.
        devices: which to check on.
        checks: names of checks, such as ``"gradcheck"``; none means all.
        examples: how many calls hypothesis draws for each check that draws; default: depends on the cell.
        seed: of the draws; default: the same calls in every run.
        timeout: seconds after which a case counts as hanging.
        coverage: count the lines and branches of the sources that the inputs reach on the CPU (``OpReport.coverage``).
            The port is then built with counters, which is slower; such a run writes no certificate.
        watch: is notified of what is planned, what runs, and what has ended.

    Returns:
        A report that is true if all ops are verified. For each op with a complete run, or a failure, a certificate is
            written to ``.trifold/certificates`` in the workspace; one with more examples of the same sources is kept,
            unless the op has failed.

    Raises:
        WorkspaceError: no workspace, no such op, or a file of it is missing.
        TypeError: an op is not a name.
        ValueError: an unknown implementation, device or check.
        ToolchainError: coverage was requested, and its tool is not installed.
        Interrupted: by Ctrl-C. It has the report of what ran until then.

    >>> import trifold
    >>> trifold.verify("sigmoid", checks=["errors"], implementations=["port"], devices=["cpu"]).verdict
    'incomplete'
    """
    if wrong := [op for op in ops if not isinstance(op, str)]:
        raise TypeError(f"ops must be names, as in verify('add', 'mul'), not {type(wrong[0]).__name__}")
    _require(implementations, "implementations", ("prototype", "port"))
    _require(devices, "devices", ("cpu", "cuda"))
    known = (BUILD, *(check.name for check in CHECKS))
    _require([name for name in checks if not name.startswith(PROPERTY)], "checks", (*known, f"{PROPERTY}<name>"))
    if examples is not None and examples < 1:
        raise ValueError(f"examples must be at least 1, not {examples}")
    if timeout <= 0:
        raise ValueError(f"timeout must be positive, not {timeout}")
    if coverage:
        require_tools(implementations)
    import torch

    started, trifold = time.monotonic(), version("trifold")
    if not isinstance(workspace, Workspace):
        workspace = Workspace.find() if workspace is None else Workspace.at(workspace)
    files = workspace.select(ops)
    machine = Machine.here()
    place: Device = "cpu" if machine.cuda else "cuda"
    about = record_sources.of_ops(workspace, [op.name for op in files], place, checked=True)
    sources, toolkit = {op.name: source_hashes(workspace, op) for op in files}, toolkit_digest()
    cells = [
        CellName(op.name, kind, device)
        for kind, device in CELLS
        for op in files
        if kind in implementations and device in devices
    ]
    with tempfile.TemporaryDirectory(prefix="trifold-coverage-") as counted:
        jobs = [
            Job(str(workspace.root), cell, tuple(checks), (), examples, seed, _folder(counted, cell, coverage))
            for cell in cells
        ]
        rows, complete = _run(workspace, jobs, machine, timeout, watch or Watch())
        reports = tuple(
            OpReport(
                op.name,
                tuple(row for job, some in zip(jobs, rows, strict=True) if job.cell.op == op.name for row in some),
                partial=bool(checks),
                examples=examples,
                coverage=_coverage(workspace, op, Path(counted)) if coverage and complete else None,
            )
            for op in files
        )
    changed = {op.name: changed_sources(sources[op.name], source_hashes(workspace, op)) for op in files}
    if toolkit != toolkit_digest():
        changed = {op: [*names, "trifold itself"] for op, names in changed.items()}
    reports = tuple(_require_unchanged(result, changed[result.op]) for result in reports)
    seconds = time.monotonic() - started
    facts = environment(workspace.root, torch.device(place)) | {"sources": about}
    report = Report(trifold, torch.__version__, machine.device_name, reports, seconds, facts, seed)
    if complete:
        _require_properties(checks, reports)
    if not coverage:
        whole = complete and not checks
        if whole and examples is None:
            took = {job.cell: sum(row.seconds for row in some) for job, some in zip(jobs, rows, strict=True)}
            keep_durations(workspace, {cell: seconds for cell, seconds in took.items() if not machine.lacks(cell)})
        report = _certified(workspace, report, sources, changed, toolkit=toolkit, seed=seed, whole=whole)
    if not complete:
        raise Interrupted(report)
    return report


def _certified(
    workspace: Workspace,
    report: Report,
    sources: Mapping[str, Mapping[str, str]],
    changed: Mapping[str, Sequence[str]],
    *,
    toolkit: str,
    seed: int | None,
    whole: bool,
) -> Report:
    """Write the certificates; returns the report, which then says where a fuller one has been kept.

    A partial run writes a certificate only for ops that failed, so that none is still called verified.
    """
    results = []
    for result in report.ops:
        kept = False
        if changed[result.op]:
            if whole:
                remove_certificate(workspace, result.op)
        elif whole or result.verdict == "failed":
            of_op = sources[result.op]
            kept = not write_certificate(workspace, result, report, sources=of_op, toolkit=toolkit, seed=seed)
        results.append(replace(result, fuller=kept))
    return replace(report, ops=tuple(results))


def _require_unchanged(result: OpReport, changed: Sequence[str]) -> OpReport:
    """Add a failed row if files on which the op depends changed during the run."""
    if not changed:
        return result
    message = f"{', '.join(changed)} changed while it was verified: what ran is unknown; run it again"
    implementation, device = next(((row.implementation, row.device) for row in result.rows), ("port", "cpu"))
    row = Row(SOURCES, implementation, device, "failed", failures=(Failure(message),))
    return replace(result, rows=(*result.rows, row))


def _folder(root: str, cell: CellName, coverage: bool) -> str | None:
    """The folder into which a cell counts its lines; None if it does not."""
    if not coverage or cell.device != "cpu":
        return None
    folder = Path(root) / cell.op / cell.implementation
    folder.mkdir(parents=True)
    return str(folder)


def _coverage(workspace: Workspace, files: OpFiles, root: Path) -> tuple[FileCoverage, ...]:
    folder = root / files.name
    return measured(workspace.root, files, folder / "prototype", folder / "port")


def _require(given: Iterable[str], name: str, known: Sequence[str]) -> None:
    for value in given:
        if value in known:
            continue
        near = difflib.get_close_matches(value, known, n=1)
        hint = f"; did you mean '{near[0]}'?" if near else ""
        if "," in value:
            option = f"--{name.removesuffix('s')}"
            hint = "; on the command line, " + " ".join(f"{option} '{each.strip()}'" for each in value.split(","))
        raise ValueError(f"{name}: {value} is none of {', '.join(known)}{hint}")


def _require_properties(checks: Sequence[str], reports: Sequence[OpReport]) -> None:
    """Raises if a requested property is a property of no op. Only the specs know; one that does not load has failed
    already."""
    rows = {row.check for op in reports for row in op.rows}
    unknown = [name for name in checks if name.startswith(PROPERTY) and name not in rows]
    if unknown and not any(row.outcome == "failed" or row.check == ALL_CHECKS for op in reports for row in op.rows):
        raise ValueError(f"checks: no op has {', '.join(unknown)}")


class Interrupted(KeyboardInterrupt):
    """A verification was ended by Ctrl-C, or by another :class:`KeyboardInterrupt`.

    Attributes:
        report: of what ran until then; other rows were not run.
    """

    def __init__(self, report: Report) -> None:
        super().__init__("interrupted")
        self.report = report


def _run(
    workspace: Workspace, jobs: list[Job], machine: Machine, timeout: float, watch: Watch
) -> tuple[list[list[Row]], bool]:
    """The rows of each job, and whether all have run; if not, the run was interrupted."""
    for job in jobs:
        watch.planned(job.cell, () if machine.lacks(job.cell) else asked_checks(job))
    cells = [job.cell for job in jobs if not machine.lacks(job.cell)]
    with Stop() as stop, nursery.opened_for(cells), worker_pool(machine) as pool:
        started = {
            job.cell: pool.submit(rows_of_cell, workspace, job, machine, timeout, watch, stop)
            for job in in_order(workspace, jobs, durations(workspace), with_priorities=not machine.cuda)
        }
        futures = [started[job.cell] for job in jobs]
        try:
            return [future.result() for future in futures], True
        except BaseException as error:
            stop.set()
            for future in futures:
                future.cancel()
            if not isinstance(error, KeyboardInterrupt):
                raise
        both = zip(futures, jobs, strict=True)
        return [_interrupted(job) if future.cancelled() else future.result() for future, job in both], False


def _interrupted(job: Job) -> list[Row]:
    return [Row(ALL_CHECKS, job.cell.implementation, job.cell.device, "not run", reason=INTERRUPTED)]


def rows_of_cell(
    workspace: Workspace,
    job: Job,
    machine: Machine,
    timeout: float,
    watch: Watch | None = None,
    stop: Stop | None = None,
) -> list[Row]:
    """All rows of one cell: those that its worker reports, or the reason why the machine cannot run it."""
    if stop is not None and stop.is_set:
        return _interrupted(job)
    watch = watch or Watch()
    watch.began(job.cell, "")
    rows = _rows_of_cell(workspace, job, machine, timeout, watch, stop)
    if stop is None or not stop.is_set:
        watch.finished(job.cell, rows)
    return rows


def _rows_of_cell(
    workspace: Workspace, job: Job, machine: Machine, timeout: float, watch: Watch, stop: Stop | None
) -> list[Row]:
    cell = job.cell
    reason = machine.lacks(cell)
    if not reason:
        return run_cell(job, timeout=timeout, watch=watch, stop=stop)
    nothing = Row(ALL_CHECKS, cell.implementation, cell.device, "not run", reason=reason)
    if cell.implementation == "port" and cell.device == "cuda" and machine.nvcc_archs:
        return [_compile_only(job, workspace.files(cell.op), machine, reason), nothing]
    return [nothing]


def _compile_only(job: Job, files: OpFiles, machine: Machine, reason: str) -> Row:
    """Compile the port by nvcc, for each architecture: the part of the CUDA build that needs no GPU."""
    from trifold.build import compile_only

    row = Row(BUILD, job.cell.implementation, job.cell.device, "passed")
    try:
        for arch in machine.nvcc_archs:
            compile_only(files, arch)
    except TrifoldError as error:
        return replace(row, outcome="failed", failures=(Failure(str(error)),))
    archs = ", ".join(machine.nvcc_archs)
    return replace(row, cases=len(machine.nvcc_archs), reason=f"compiled by nvcc for {archs}, not run")
