"""Tables for a terminal, whose text is never truncated: long text continues on the next line of its cell."""

from __future__ import annotations

from rich.table import Table

GAP = 2  # spaces between columns


def plain(*columns: str) -> Table:
    """A table without lines, with these headings; no headings if all are empty.

    The first column holds names, which are not broken.
    """
    table = Table(box=None, show_header=any(columns), pad_edge=False, padding=(0, GAP, 0, 0))
    for position, heading in enumerate(columns):
        table.add_column(heading, no_wrap=position == 0, overflow="fold")
    return table
