"""The kernels that a port uses only on a GPU, run and checked on the CPU.

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
_SHUFFLED = 1  # seed of a schedule


def gpu_paths(cell: Cell) -> str:
    """Results and gradients are right, nothing is found, and results do not depend on the schedule.

    The calls together launch each kernel that the CPU's own choice never launches: the spec's GPU edges, and as many of
    its other calls as are needed.
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
        raise CheckFailed(f"no case reaches {names}, which a GPU uses; add such a call: Spec(gpu_edges=...)")
    parts = [f"{number_of(len(kernels), 'kernel')} that only a GPU uses, each launched", *run.found.accept(cell)]
    parts += run.found.missed(cell.met) if cell.met is not None else []
    parts += [f"left out, with the code of {same}: {name}" for name, same in sorted(process.left_out(_FORM).items())]
    return "; ".join([*parts, *run.found.warnings()])


class _Calls:
    """Calls in a build with the kernels of a GPU.

    Attributes:
        kernels: those that the CPU's own choice never launches.
        missing: those that no call has launched yet.
        found: the engine's findings.
    """

    def __init__(self, cell: Cell, kernels: Set[str]) -> None:
        self._cell, self.kernels, self.missing = cell, kernels, set(kernels)
        self.found = Found()

    def test(self, call: Call) -> None:
        """Run without and with gradients, in the natural order; if one of the kernels runs, also under a shuffled
        schedule."""
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
        require_same(cell, call, first, again, what="the order of blocks and threads", where=where)

    def _again(self, call: Call, *, without_gradients: bool) -> Run:
        """Run the call with gradients; also without, if it launches other kernels then."""
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
        """The number of launches of each kernel, with both half types counted together."""
        counts: Counter[str] = Counter()
        for name, count in self._cell.process.branches(_FORM).items():
            counts[_of_any_half(name)] += count
        return counts


def _of_any_half(kernel: str) -> str:
    """The kernel's name with one half type for both: the code of the two differs in conversions only.

    >>> _of_any_half("add_kernel<__nv_bfloat16>")
    'add_kernel<__half>'
    """
    return kernel.replace("__nv_bfloat16", "__half")
