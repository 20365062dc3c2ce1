"""Ports on the CPU: small calls whose tensors have rows or columns so far apart that offsets need 64 bits.

The tensors span up to terabytes, of which only the pages that hold elements exist.
"""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Iterator
from dataclasses import replace

from trifold.apart import can_reserve
from trifold.spec import Call
from trifold.verification.calls import FEW, has_alias, is_ordinary
from trifold.verification.cell import Cell
from trifold.verification.checks.differentiation import RightGradients, differentiate
from trifold.verification.comparison import Expected
from trifold.verification.outcomes import CheckFailed
from trifold.verification.remote_errors import OpDied

# Products of a stride that an int holds, with indices from 2 on, exceed it, and with indices from 4 on 32 bits. A
# stride that 32 bits do not hold is cut off to a small one. Rows lie at 16-byte boundaries, and not.
_STRIDES = (2**30 + 64, 2**32 + 64, 2**32 + 65)
_DIMS = 2  # the outermost dimensions of more than one element are tried, each alone
_MOST_ALONG = 64  # elements of one dimension: 2 TiB of float64
_SPACE = 2**43  # bytes: four such tensors


def results_apart(cell: Cell) -> None:
    """The results of such calls."""
    for call in _calls(cell):
        expected = Expected.of(cell, call)
        for placed in _placed(call):

            def test(placed: Call, expected: Expected = expected) -> None:
                with _running(cell, placed):
                    results = cell.invoke(placed)
                for number, result in enumerate(results):
                    if wrong := expected.wrong(number, result, signs=True):
                        raise CheckFailed(f"{cell.name_of_result(placed, number, results)}, {_where(placed)}: {wrong}")

            cell.run_case(test, placed, "far apart")


def gradients_apart(cell: Cell) -> None:
    """The gradients of such calls; the upstream gradients are far apart, too."""
    for call in _calls(cell):
        paths = cell.gradient_paths(call)
        if not paths or not is_ordinary(call):
            continue
        right = RightGradients.of(cell, call, paths)
        for placed in _placed(call):

            def test(placed: Call, right: RightGradients = right) -> None:
                with _running(cell, placed):
                    grads = differentiate(cell, placed, list(right.native), cell.implementation.function).grads
                for path, grad in zip(right.native, grads, strict=True):
                    if grad is not None and (wrong := right.wrong(path, grad)):
                        raise CheckFailed(f"gradient of {cell.name(path)}, {_where(placed)}: {wrong}")

            cell.run_case(test, placed, "far apart")


@contextlib.contextmanager
def _running(cell: Cell, call: Call) -> Iterator[None]:
    """Within the context, the op's tensors are as far apart as those of the call."""
    try:
        with cell.process.running(apart=call.apart):
            yield
    except OpDied as death:
        raise OpDied(f"{death}; {_where(call)}") from None


def _outermost(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(n for n in shape if n > 1)[:_DIMS]


def _where(call: Call) -> str:
    assert call.apart is not None
    dim, stride = call.apart
    return (
        f"where neighbours along the {('first', 'second')[dim]} long dimension of each tensor are {stride:,} elements "
        "apart: compute offsets in 64 bits"
    )


def _placed(call: Call) -> Iterator[Call]:
    for dim in range(max(len(_outermost(case.shape)) for _, case in call.cases())):
        for stride in _STRIDES:
            yield replace(call, apart=(dim, stride))


def _calls(cell: Cell) -> Iterator[Call]:
    """One small fixed call for each list of shapes, of one dtype; none for an op that writes into arguments or returns
    views, or where there is too little address space."""
    if cell.device != "cpu" or cell.simulated or cell.spec.writes or cell.spec.views or not can_reserve(_SPACE):
        return
    of_shapes: dict[tuple[tuple[int, ...], ...], list[Call]] = {}
    for _, call in cell.fixed_calls():
        shapes = tuple(case.shape for _, case in call.cases())
        small = call.elements <= FEW and all(n <= _MOST_ALONG for shape in shapes for n in _outermost(shape))
        if small and not has_alias(call) and any(map(_outermost, shapes)):
            of_shapes.setdefault(shapes, []).append(call)
    for shapes, calls in of_shapes.items():
        yield calls[zlib.crc32(repr(shapes).encode()) % len(calls)]
