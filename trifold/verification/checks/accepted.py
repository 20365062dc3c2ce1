"""Findings that the user accepts, in the row of a check."""

from __future__ import annotations

from collections.abc import Iterable

from trifold import places
from trifold.findings import Finding
from trifold.verification.cell import Cell


def list_accepted(cell: Cell, findings: Iterable[Finding]) -> list[str]:
    """List the accepted ones of the findings in the cell's record; returns a remark on each place."""
    accepted = places.merged(finding for finding in findings if finding.accepted)
    cell.accepted = tuple(
        {
            "finding": places.what_and_where(finding),
            "count": finding.count,
            "place": finding.accepted_at,
            "reason": finding.accepted,
        }
        for finding in accepted
    )
    return [places.accepted(finding) for finding in accepted]
