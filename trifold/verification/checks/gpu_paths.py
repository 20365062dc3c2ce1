"""The kernels that a port takes on a GPU alone, on the CPU: they run there, checked, where somebody asks for them.

A binding chooses among its kernels by ``trifold::gpu_paths`` and by the sizes of a call. Here the port is built with
checks and with a GPU's choice, in the first tuning constants of each template and mode (trifold/choices.h).
"""

from __future__ import annotations

import contextlib
import itertools
from collections import Counter
from collections.abc import Iterator, Set

from trifold.build.sources import chooses_paths
from trifold.places import number_of
from trifold.spec import Call
from trifold.verification.cell import Cell
from trifold.verification.checks.agreement import Run, require_same
from trifold.verification.checks.differentiation import differentiate
from trifold.verification.checks.findings import Found
from trifold.verification.checks.gradients import require_right
from trifold.verification.checks.values import compare
from trifold.verification.outcomes import Absence, CheckFailed, NotRun

_FORM = "gpu paths"
_SHUFFLED = 1  # seed of an order


def gpu_paths(cell: Cell) -> str:
    """Results and gradients are right, nothing is found, and the order of blocks and threads does not show.

    So in calls that together launch each kernel which the CPU's own choice lacks: the spec's calls for a GPU, and of
    its others as many as that takes.
    """
    if cell.kind == "prototype" or not chooses_paths(cell.implementation.files.binding):
        raise NotRun(Absence.SAME_KERNELS)
    process = cell.process
    usual = process.branches()
    process.load(build=True, form=_FORM)
    kernels = {_of_any_half(name) for name in process.branches(_FORM).keys() - usual.keys()}
    if not kernels:
        raise NotRun(Absence.SAME_KERNELS)
    run = _Calls(cell, kernels)
    for name, call in cell.gpu_calls():
        cell.run_case(run.test, call, name)
    others = itertools.chain(cell.fixed_calls(), (("small", call) for call in cell.small_calls()))
    for name, call in others:
        if not run.missing:
            break
        cell.run_case(run.test, call, name)
    if run.missing:
        names = ", ".join(sorted(run.missing))
        raise CheckFailed(f"no case reaches {names}, which a GPU takes; add a call that does: Spec(gpu_edges=...)")
    parts = [f"{number_of(len(kernels), 'kernel')} that a GPU alone takes, each launched", *run.found.accept(cell)]
    parts += run.found.missed(cell.met) if cell.met is not None else []
    parts += [f"left out, with the code of {same}: {name}" for name, same in sorted(process.left_out(_FORM).items())]
    return "; ".join([*parts, *run.found.warnings()])


class _Calls:
    """Calls in a build with the kernels of a GPU.

    Attributes:
        kernels: those that matter.
        missing: those among them that no call has launched yet.
        found: what the engine found.
    """

    def __init__(self, cell: Cell, kernels: Set[str]) -> None:
        self._cell, self.kernels, self.missing = cell, kernels, set(kernels)
        self.found = Found()

    def test(self, call: Call) -> None:
        """Without gradients and with them, in the natural order; in a shuffled one, too, if one of the kernels runs."""
        cell = self._cell
        with self._in_order(0, call):
            before = self._launches()
            results = compare(cell, call)
            between = self._launches()
            first = Run(results, require_right(cell, call))
            plain, with_gradients = (between - before).keys(), (self._launches() - between).keys()
        launched = plain | with_gradients
        if not launched & self.kernels:
            return
        self.missing -= launched
        with self._in_order(_SHUFFLED, call):
            again = self._again(call, without_gradients=not plain <= with_gradients)
        where = ("in the natural order", f"in that of seed {_SHUFFLED}")
        require_same(cell, call, first, again, what="the order of blocks and threads", where=where, outer=None)

    def _again(self, call: Call, *, without_gradients: bool) -> Run:
        """The call with gradients; and without, where other kernels make the results then."""
        cell, paths = self._cell, self._cell.gradient_paths(call)
        if not paths:
            return Run(cell.invoke(call), ())
        made = differentiate(cell, call, paths, cell.implementation.function)
        results = cell.invoke(call) if without_gradients else tuple(result.detach() for result in made.results)
        return Run(results, made.grads)

    @contextlib.contextmanager
    def _in_order(self, seed: int, call: Call) -> Iterator[None]:
        with self._cell.process.running(form=_FORM, schedules=(seed, 1)) as observed:
            yield
        self.found.take(observed, call)

    def _launches(self) -> Counter[str]:
        """How often each kernel was launched, of either half type."""
        counts: Counter[str] = Counter()
        for name, count in self._cell.process.branches(_FORM).items():
            counts[_of_any_half(name)] += count
        return counts


def _of_any_half(kernel: str) -> str:
    """Its name with one half type for both, in which a kernel's code is the same but for conversions.

    >>> _of_any_half("add_kernel<__nv_bfloat16>")
    'add_kernel<__half>'
    """
    return kernel.replace("__nv_bfloat16", "__half")
