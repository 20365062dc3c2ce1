"""How calls run in an op's process."""

from __future__ import annotations

from dataclasses import dataclass

from trifold.isolation import guard


@dataclass(frozen=True)
class Options:
    """How calls run.

    Attributes:
        form: ``plain``, ``checked`` (a port with checks), ``gpu paths`` (checked, with the kernels that a GPU uses),
            ``jittered`` (a port with pauses) or ``compiled``.
        guard: where the guard allocator places memory; None: memory is not guarded.
        schedules: the seed of the first schedule and the number of schedules, with all checks; None: without checks.
        jitter: the seed of the pauses of a jittered port; 0: no pauses.
        record: record which bytes the op's kernels write.
        native: run a prototype's kernels as native code (:mod:`trifold.simulator.compiled`) instead of in the
            simulator; the call raises where that is impossible.
        place: ``same``: put the arguments at the addresses of the previous call's, and upstream gradients at those of
            the previous backward pass, without a change of their version counters.
        others: surroundings that an application may have: ``default dtype`` (another one), ``deterministic``
            (algorithms), ``matmul precision`` (a lower one), ``autocast``, ``thread`` (the call and its backward pass
            each run in a new one).
        apart: of the arguments and upstream gradients, as of :class:`trifold.spec.Call`.
    """

    form: str = "plain"
    guard: guard.Mode | None = None
    schedules: tuple[int, int] | None = None
    jitter: int | None = None
    record: bool = False
    native: bool = False
    place: str = ""
    others: tuple[str, ...] = ()
    apart: tuple[int, int] | None = None
