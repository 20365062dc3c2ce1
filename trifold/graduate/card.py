"""CARD.md: the contents of a graduated package, and how it was verified."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from string import Template
from typing import Any

import torch

from trifold.bench.rows import COMPILED, EAGER, PORT, ROOFLINE, Results, Row, groups
from trifold.errors import TrifoldError
from trifold.graduate.certificates import EXAMPLES, not_on_cpu
from trifold.graduate.port_file import PortFile
from trifold.graduate.tolerance import Tolerance
from trifold.machine.environment import describe
from trifold.verification.certificate import Certificate
from trifold.verification.examples import fewer

TEMPLATES = Path(__file__).parent / "templates"
_RESULTS = Path("benchmarks") / "results"


def card(
    package: str,
    distribution: str,
    ports: Sequence[PortFile],
    packaged: Mapping[str, str],
    certificates: Mapping[str, Certificate],
    tolerances: Mapping[str, Tolerance],
    made: Mapping[str, Any],
    root: Path,
) -> str:
    """The card.

    Args:
        package, distribution: the names to import and to install.
        ports: the ops' Python files; ``packaged`` has them in the form in the package.
        certificates, tolerances: by op.
        made: where the package was made, from :func:`trifold.machine.environment.environment`.
        root: the workspace, with results of ``trifold bench`` in benchmarks/results.
    """
    warnings = []
    if devices := sorted({device for one in certificates.values() for device in _devices_waived(one)}):
        warnings.append(f"\n**Not verified on {' and '.join(devices)}**: that was waived when it was made.\n")
    if any(EXAMPLES in one["waived"] for one in certificates.values()):
        few = "; ".join(f"{op} with {words}" for op, one in certificates.items() if (words := fewer(one["examples"])))
        warnings.append(f"\n**Verified with few examples**: {few}. That was waived when it was made.\n")
    commit = f" at commit {str(made['commit'])[:12]}" if made["commit"] else ", from files that are in no commit"
    template = Template((TEMPLATES / "CARD.md").read_text(encoding="utf-8"))
    return template.substitute(
        package=package,
        distribution=distribution,
        summary=summary(ports),
        warning="".join(warnings),
        ops="\n\n".join(_op(port, packaged[port.op]) for port in ports),
        names=", ".join(port.op for port in ports),
        commit=commit + (", with changes that are not committed" if made["dirty"] else ""),
        trifold=made["trifold"],
        torch=made["torch"],
        verified="\n\n".join(_verified(certificates[port.op], tolerances[port.op]) for port in ports),
        benchmarks="\n\n".join(_benchmarks(root, [port.op for port in ports])) or "None was recorded.",
    )


def summary(ports: Sequence[PortFile]) -> str:
    """One line."""
    return f"CPU and CUDA kernels for PyTorch: {', '.join(port.op for port in ports)}"


def table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    rows = [head, ["---"] * len(head), *lines]
    return "\n".join(
        "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in row) + " |" for row in rows
    )


def _op(port: PortFile, packaged: str) -> str:
    """The signature and the docstring, which says shapes, dtypes and limits."""
    _, signature = port.stub()
    shipped = PortFile(port.op, port.shown, packaged)
    text = ast.get_docstring(shipped.function()) or "It has no description."
    return f"### {port.op}\n\n```python\n{signature.removesuffix(': ...')}\n```\n\n```text\n{text}\n```"


def _devices_waived(certificate: Certificate) -> list[str]:
    return [one for one in certificate["waived"] if one != EXAMPLES]


def _verified(certificate: Certificate, tolerance: Tolerance) -> str:
    devices = " and ".join(certificate["devices"]) or "no device"
    lacking = " and ".join(_devices_waived(certificate))
    waived = f"; not on {lacking}, which was waived" if lacking else ""
    versions = ", ".join(f"{name} {version}" for name, version in certificate["versions"].items() if version)
    lines = [
        f"**{certificate['op']}**: {certificate['verdict']} on {devices}{waived}. {certificate['cases']} cases on "
        f"{certificate['date'][:10]}, device {certificate['device']}; {versions}.",
        _drawn(certificate),
        str(tolerance),
    ]
    again = certificate.get("reverified")
    if again and again["devices"]:
        lines.append(
            f"Before the package was built, {', '.join(again['checks'])} passed anew: {again['cases']} cases on "
            f"{' and '.join(again['devices'])}, with the seed {again['seed']}."
        )
    reason = not_on_cpu(certificate)
    if reason:
        lines.append(f"It has no CPU build: {reason}")
    ran = [row for row in certificate["rows"] if row["implementation"] == "port" and row["outcome"] != "not run"]
    lines.append(
        table(
            ("check", "device", "outcome", "cases", "dtypes", "remark"),
            [
                (row["check"], row["device"], row["outcome"], str(row["cases"]), _listed(row["dtypes"]), row["reason"])
                for row in ran
            ],
        )
    )
    return "\n\n".join(lines)


def _drawn(certificate: Certificate) -> str:
    """How many calls the checks drew, and the dtypes in which the port's values were compared."""
    examples = ", ".join(f"{number} ({cell})" for cell, number in certificate["examples"].items()) or "none"
    few = ", fewer than by default, which was waived" if EXAMPLES in certificate["waived"] else ""
    rows = [row for row in certificate["rows"] if (row["check"], row["implementation"]) == ("values", "port")]
    dtypes = _listed({dtype for row in rows for dtype in row["dtypes"]}) or "none"
    return f"Examples that each check drew: {examples}{few}. Dtypes in which values were compared: {dtypes}."


def _listed(dtypes: Iterable[str]) -> str:
    """The widest first.

    >>> _listed(["bfloat16", "float64", "float16", "int64"])
    'float64, int64, bfloat16, float16'
    """
    return ", ".join(sorted(dtypes, key=lambda name: (-getattr(torch, name).itemsize, name)))


def _benchmarks(root: Path, ops: Sequence[str]) -> Iterator[str]:
    """For each file of results that has one of the ops: where it was measured, and the largest case of each table."""
    for path in sorted((root / _RESULTS).glob("*.json")):
        try:
            results = Results.read(path)
        except TrifoldError:
            continue  # a file of another program
        lines = [
            _line(max(ours, key=lambda row: row.bytes))
            for (op, *_), rows in groups(results.rows).items()
            if op in ops and (ours := [row for row in rows if row.competitor == PORT and row.seconds])
        ]
        if lines:
            head = ("op", "dtype", "timed by", "case", "time", "GB/s", "of the roofline", "× eager", "× torch.compile")
            yield f"{describe(results.environment)}:\n\n{table(head, lines)}"


def _line(row: Row) -> tuple[str, ...]:
    assert row.seconds is not None

    def shown(value: float | None, form: str) -> str:
        return "" if value is None else form.format(value)

    def ratio(name: str) -> float | None:
        return row.ratios[name].value if name in row.ratios else None

    return (
        f"{row.op}, {row.benchmark}",
        row.dtype,
        row.method,
        row.case,
        f"{row.seconds * 1e6:,.1f} µs",
        shown(row.gb_per_s, "{:,.0f}"),
        shown(ratio(ROOFLINE), "{:.1%}"),
        shown(ratio(EAGER), "{:.2f}"),
        shown(ratio(COMPILED), "{:.2f}"),
    )
