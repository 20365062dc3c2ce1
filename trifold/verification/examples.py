"""How many calls a check draws in a cell, and whether a run had fewer than the default.

A cell is named as in the matrix's legend: ``prototype cpu``.
"""

from __future__ import annotations

from collections.abc import Mapping

# The simulator runs a million CUDA threads a second.
IN_SIMULATOR, COMPILED = 48, 80

_SIMULATED = "prototype cpu"


def default_examples(cell: str) -> int:
    """The number of drawn calls in a cell, unless another one was requested.

    >>> default_examples("prototype cpu"), default_examples("port cpu")
    (48, 80)
    """
    return IN_SIMULATOR if cell == _SIMULATED else COMPILED


def fewer(examples: Mapping[str, int]) -> str:
    """The cells that had fewer calls than the default, in words; empty if none had.

    Args:
        examples: by cell.

    >>> fewer({"prototype cpu": 60, "port cpu": 60, "port cuda": 60})
    '60 of 80 examples (port cpu, port cuda)'
    >>> fewer({"prototype cpu": 48, "port cpu": 80})
    ''
    """
    cells: dict[tuple[int, int], list[str]] = {}
    for cell, number in examples.items():
        if number < default_examples(cell):
            cells.setdefault((number, default_examples(cell)), []).append(cell)
    return ", ".join(f"{number} of {most} examples ({', '.join(names)})" for (number, most), names in cells.items())


def share(examples: Mapping[str, int]) -> float:
    """The smallest fraction of the default that a cell had: 1 if each had at least the default, 0 if no cell ran."""
    return min((min(1.0, number / default_examples(cell)) for cell, number in examples.items()), default=0.0)
