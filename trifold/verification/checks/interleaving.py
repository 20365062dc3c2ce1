"""Two calls whose launches alternate, as they may in two streams or threads. They must not share memory that both
write."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterable, Iterator

from torch import Tensor

from trifold.isolation.tensors import numbered
from trifold.spec import Call
from trifold.verification.cell import Cell
from trifold.verification.checks.agreement import runs_of
from trifold.verification.checks.contract import others
from trifold.verification.checks.differentiation import require_gradients, same_gradients
from trifold.verification.comparison import same_values
from trifold.verification.outcomes import CheckFailed
from trifold.verification.seeding import seed

_ELEMENTS = 256  # the preferred size of a call that is repeated with another one between its launches


class Launched:
    """Chooses one call for each set of kernels that calls launch, forward and backward. Calls of normal numbers are
    preferred: with equal numbers, the results of the two calls may be the same.

    Attributes:
        calls: the chosen calls, by the kernels' names without template arguments and the number of launches of each.
        last: the kernel instances that the last call launched.
    """

    def __init__(self, cell: Cell, form: str) -> None:
        self._cell, self._form = cell, form
        self.calls: dict[frozenset[tuple[str, int]], tuple[Call, str]] = {}
        self.last: frozenset[str] = frozenset()

    @contextlib.contextmanager
    def by(self, call: Call, sample: str) -> Iterator[None]:
        """A context in which the call runs once."""
        before = self._counts()
        yield
        launches = self._counts() - before
        self.last = frozenset(launches)
        templates: Counter[str] = Counter()
        for name, count in launches.items():
            templates[name.partition("<")[0]] += count
        kernels = frozenset(templates.items())
        known = self.calls.get(kernels)
        if kernels and (known is None or _rank(call) < _rank(known[0])):
            self.calls[kernels] = call, sample

    def _counts(self) -> Counter[str]:
        return Counter(self._cell.process.branches(self._form))


def _rank(call: Call) -> tuple[bool, int]:
    """The smallest is preferred."""
    plain = all((case.layout, case.fill) == ("contiguous", "normal") for _, case in call.floating())
    return not plain, abs(call.elements - _ELEMENTS)


def require_apart(cell: Cell, form: str, calls: Iterable[tuple[Call, str]]) -> None:
    """Each call, forward and backward, has the same results and gradients if another call runs before one of its
    launches.

    Raises:
        CheckFailed: they differ.
    """
    if cell.spec.writes:  # the same call cannot be made again
        return
    for call, sample in calls:
        cell.run_case(lambda call: _require_apart(cell, form, call), call, sample)


def _require_apart(cell: Cell, form: str, call: Call) -> None:
    paths = cell.gradient_paths(call)
    both = [call.arguments(cell.device), next(others(call)).arguments(cell.device)]
    for made in both:
        require_gradients(made, call, paths)
    seed(call.seed)
    answer, tensors = cell.process.beside("interleaved", [list(made) for made in both], {}, of=form)
    alone, *runs = runs_of(answer, tensors)
    count = answer["results"]

    def results(run: list[Tensor | None]) -> list[Tensor]:
        return [value for value in run[:count] if value is not None]

    for run in runs:
        same = same_values(cell, call, results(alone), results(run)) and same_gradients(
            cell, call, paths, alone[count:], run[count:], lambda result, dtype, seed: numbered(result)
        )
        if not same:
            raise CheckFailed(
                "another call, made between two launches of this one as in another stream or thread, changes its "
                "results: both write to the same memory, which the op keeps; allocate it in each call",
                call,
            )
