"""The result of a verification as data: rows, ops, a report; its verdicts and its JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from trifold.verification.coverage import FileCoverage
from trifold.verification.examples import default_examples

OutcomeName = Literal["passed", "failed", "not run"]
Verdict = Literal["verified", "failed", "incomplete"]

# Rows that are not checks.
BUILD = "build"  # of the build, which is first
ALL_CHECKS = "all checks"  # of a cell that cannot run at all
OTHER_CHECKS = "other checks"  # all that were given up
PROPERTY = "property: "  # the prefix of a property's row

INTERRUPTED = "interrupted"  # the reason of a row that was not run, because the user ended the run


@dataclass(frozen=True)
class Failure:
    """One way in which a check failed.

    Attributes:
        message: what was expected and what happened.
        sample: the name of the sample or the shrunk call.
        code: a program that reproduces it; empty if there is none.
        seed: of the search that found it; None if there was no search.
        findings: of the execution engine, as ``Finding.to_json`` returns them, if it found the failure.
    """

    message: str
    sample: str = ""
    code: str = ""
    seed: int | None = None
    findings: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True)
class Row:
    """One check of one cell.

    Attributes:
        cases: how many were compared.
        reason: why it did not run, or a remark.
        dtypes: of the tensors in the calls of a check that passed.
        accepted: findings that the user accepts: ``finding``, ``count``, ``place`` (of the acceptance) and ``reason``.
    """

    check: str
    implementation: str
    device: str
    outcome: OutcomeName
    cases: int = 0
    reason: str = ""
    failures: tuple[Failure, ...] = ()
    seconds: float = 0.0
    dtypes: tuple[str, ...] = ()
    accepted: tuple[dict[str, Any], ...] = ()

    @property
    def cell(self) -> str:
        """The cell's name, as in the matrix's legend: ``port cpu``."""
        return f"{self.implementation} {self.device}"


@dataclass(frozen=True)
class Cause:
    """One cause of failure in a cell, with all rows that it fails.

    Attributes:
        checks: the names of the rows.
        failure: that of the first row.
    """

    implementation: str
    device: str
    checks: tuple[str, ...]
    failure: Failure


@dataclass(frozen=True)
class OpReport:
    """All rows of one op.

    ``verified``: all checks were requested, nothing failed, and both implementations were checked on at least one
    device. ``failed``: a check failed. ``incomplete``: neither.

    Attributes:
        partial: only some checks were requested.
        examples: the number of calls requested for each check that draws; None: the default of each cell.
        fuller: the certificate of an earlier run of the same sources, with more examples, has been kept.
        coverage: of each source file; None if not requested.
    """

    op: str
    rows: tuple[Row, ...]
    partial: bool = False
    examples: int | None = None
    fuller: bool = False
    coverage: tuple[FileCoverage, ...] | None = None

    @property
    def verdict(self) -> Verdict:
        if any(row.outcome == "failed" for row in self.rows):
            return "failed"
        ended_early = any(row.check == OTHER_CHECKS or row.reason == INTERRUPTED for row in self.rows)
        return "verified" if self.devices and not self.partial and not ended_early else "incomplete"

    @property
    def devices(self) -> tuple[str, ...]:
        """The devices on which both implementations passed: those that the verdict ``verified`` covers."""
        passed = {
            (row.implementation, row.device) for row in self.rows if row.check == "values" and row.outcome == "passed"
        }
        return tuple(d for d in ("cpu", "cuda") if {("prototype", d), ("port", d)} <= passed)

    @property
    def drawn(self) -> Mapping[str, int]:
        """The number of calls of each check that draws, by cell (``port cpu``), without cells that did not run."""
        ran = dict.fromkeys(row.cell for row in self.rows if row.outcome != "not run" and row.check != BUILD)
        return {cell: default_examples(cell) if self.examples is None else self.examples for cell in ran}

    def ran_on(self, device: str, implementations: Sequence[str], checks: Sequence[str]) -> bool:
        """Whether each implementation passed a check on the device, or has no check there."""
        cells = [[row for row in self.rows if row.cell == f"{kind} {device}"] for kind in implementations]
        return all(not rows or any(row.check in checks and row.outcome == "passed" for row in rows) for rows in cells)

    @property
    def causes(self) -> tuple[Cause, ...]:
        """The causes of failure: failures of one cell with the same message are one."""
        found: dict[tuple[str, str, str], tuple[Failure, list[str]]] = {}
        for row in self.rows:
            for failure in row.failures:
                # If a process ended, the message names the check that ran.
                message = failure.message.removesuffix(f" during {row.check}")
                key = row.implementation, row.device, message
                _, checks = found.setdefault(key, (replace(failure, message=message), []))
                if row.check not in checks:
                    checks.append(row.check)
        return tuple(Cause(*key[:2], tuple(checks), failure) for key, (failure, checks) in found.items())

    def row(self, check: str, implementation: str, device: str) -> Row | None:
        for row in self.rows:
            if (row.check, row.implementation, row.device) == (check, implementation, device):
                return row
        return None


@dataclass(frozen=True)
class Report:
    """The result of ``trifold verify``.

    Attributes:
        trifold, torch: versions.
        device: the GPU's name, or ``cpu``.
        ops: one report an op.
        seconds: of wall time.
        environment: versions, driver, commit and sources, as in the results of ``trifold bench``.
        seed: of the searches, if one was given; None for the usual one.
    """

    trifold: str
    torch: str
    device: str
    ops: tuple[OpReport, ...] = field(default=())
    seconds: float = 0.0
    environment: dict[str, Any] = field(default_factory=dict)
    seed: int | None = None

    @property
    def verdict(self) -> Verdict:
        verdicts = {op.verdict for op in self.ops}
        if "failed" in verdicts:
            return "failed"
        return "verified" if verdicts == {"verified"} else "incomplete"

    def __bool__(self) -> bool:
        """Whether all ops are verified."""
        return self.verdict == "verified"

    def passed(
        self,
        implementations: Sequence[str] = ("prototype", "port"),
        devices: Sequence[str] = ("cpu", "cuda"),
        checks: Sequence[str] = (),
    ) -> bool:
        """Whether everything requested has run without failures.

        Args:
            implementations, devices, checks: the arguments of :func:`~trifold.verification.verify.verify`.

        Returns:
            True if all these implementations of each op ran on one of these devices, and each named check passed for
                some op.
        """
        wanted = tuple(checks) or ("values",)
        rows = [row for op in self.ops for row in op.rows]
        return (
            self.verdict != "failed"
            and all(any(row.check == name and row.outcome == "passed" for row in rows) for name in wanted)
            and all(any(op.ran_on(device, implementations, wanted) for device in devices) for op in self.ops)
        )

    def to_json(self) -> dict[str, Any]:
        """The report as plain data, in the documented form."""
        return {
            "trifold": self.trifold,
            "torch": self.torch,
            "device": self.device,
            "verdict": self.verdict,
            "seconds": round(self.seconds, 1),
            "seed": self.seed,
            "environment": self.environment,
            "ops": [
                {
                    "op": op.op,
                    "verdict": op.verdict,
                    "devices": list(op.devices),
                    "examples": dict(op.drawn),
                    "rows": [asdict(row) for row in op.rows],
                }
                | ({} if op.coverage is None else {"coverage": [asdict(file) for file in op.coverage]})
                for op in self.ops
            ],
        }


def row_from_json(data: dict[str, Any]) -> Row:
    failures = tuple(Failure(**failure) for failure in data.pop("failures"))
    lists = {name: tuple(data[name]) for name in ("dtypes", "accepted")}
    return Row(**data | {"failures": failures, **lists})
