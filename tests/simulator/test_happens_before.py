"""The checker against an oracle, on random programs: sets of known accesses, with nothing forgotten and nothing cheap.

A program is a sequence of steps of a few threads: reads, writes and atomics of a few elements, fences, barriers and
rendezvous. The engine runs it; what it ran, in its order, is given to the oracle. A race that the engine reports must
be one of the oracle's. The engine remembers three accesses of an element, so it may miss one, but seldom.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from tests.simulator.handwritten import here
from trifold import _simulator as sim
from trifold.findings import Access, Finding, KernelFault

ACTIVE = (0, 1, 2, 32, 33)  # threads that do anything, of two warps
BLOCK = 34
PROGRAMS = 1500
OPERATIONS = ("read", "write", "atomic", "fence", "block fence", "barrier", "syncwarp")
# How often each comes; a program takes one of these rows.
WEIGHTS = (
    (3, 3, 1, 0, 0, 2, 3),
    (2, 1, 3, 2, 0, 1, 1),
    (2, 1, 4, 3, 2, 2, 2),
    (1, 1, 6, 3, 3, 1, 1),
    (4, 1, 0, 0, 0, 1, 4),
)

Member = tuple[int, int]  # block, thread


@dataclass(frozen=True)
class Step:
    operation: str
    block: int
    threads: tuple[int, ...]  # those that take part
    element: tuple[str, int] = ("", 0)  # of an access: memory and index


Log = list[tuple[Member, Step]]


def program(draw: random.Random, blocks: int) -> list[Step]:
    """Any order in which the threads' steps are done is without deadlock, since all share one order of meetings."""
    weights, elements = draw.choice(WEIGHTS), draw.choice((1, 2, 3))
    steps = []
    for operation in draw.choices(OPERATIONS, weights, k=draw.randrange(4, 40)):
        threads: tuple[int, ...] = (draw.choice(ACTIVE),)
        if operation == "barrier":
            threads = tuple(range(BLOCK))
        elif operation == "syncwarp":
            warp = draw.choice(((0, 1, 2), (32, 33)))
            whole = tuple(range(32)) if warp[0] == 0 else warp
            threads = draw.choice((whole, tuple(sorted(draw.sample(warp, draw.randrange(2, len(warp) + 1))))))
        element = (draw.choice(("global", "global", "shared")), draw.randrange(elements))
        steps.append(Step(operation, draw.randrange(blocks), threads, element))
    return steps


def run(steps: list[Step], blocks: int, seed: int) -> tuple[Log, Finding | None]:
    """The operations that the engine ran, and its findings."""
    of_member: dict[Member, list[Step]] = defaultdict(list)
    for step in steps:
        for thread in step.threads:
            of_member[step.block, thread].append(step)
    log: Log = []
    barrier, syncwarp = here(), here()

    def kernel(x: Any) -> Iterator[Any]:
        memory = {"global": x, "shared": sim.shared.array(3, np.int32)}
        member = (sim.blockIdx.x, sim.threadIdx.x)
        for step in of_member[member]:
            log.append((member, step))
            array, index = memory[step.element[0]], step.element[1]
            if step.operation == "read":
                array[index]
            elif step.operation == "write":
                array[index] = len(log)  # writes of the same value would be a warning
            elif step.operation == "atomic":
                sim.atomic.add(array, index, 1)
            elif step.operation == "fence":
                sim.threadfence()
            elif step.operation == "block fence":
                sim.threadfence_block()
            elif step.operation == "barrier":
                yield barrier
            else:
                yield syncwarp, sim.OP_SYNCWARP, sum(1 << thread % 32 for thread in step.threads)

    arguments = sim.wrap_arguments(("x",), (np.zeros(3, np.int32),), (0,), sim.CHECK_RACE)
    extents = (blocks, 1, 1), (BLOCK, 1, 1)
    try:
        sim.launch(kernel, True, "kernel", *extents, 0, arguments, sim.CHECK_RACE, seed, None, False)
    except KernelFault as fault:
        return log, fault.findings[0]
    return log, None


def member_of(access: Access) -> Member:
    return access.block[0], access.thread[0]


@dataclass
class Oracle:
    """Who knows of which accesses; an access is its place in the log."""

    known: dict[Member, set[int]] = field(default_factory=lambda: defaultdict(set))
    fenced: dict[tuple[Member, str], set[int]] = field(default_factory=lambda: defaultdict(set))
    released: dict[Any, set[int]] = field(default_factory=lambda: defaultdict(set))
    accesses: dict[Any, list[tuple[int, Member, str]]] = field(default_factory=lambda: defaultdict(list))
    waiting: dict[Step, list[Member]] = field(default_factory=lambda: defaultdict(list))

    def races(self, log: Log) -> dict[int, set[tuple[Member, str]]]:
        """For each access that races with earlier ones: whose they are, and what they did."""
        found = {}
        for place, (member, step) in enumerate(log):
            if step.operation in ("read", "write", "atomic"):
                if others := self._access(place, member, step):
                    found[place] = others
            elif step.operation in ("fence", "block fence"):
                for scope in ("block", "device") if step.operation == "fence" else ("block",):
                    self.fenced[member, scope] |= self.known[member] | {-1}  # -1: has fenced, if it knew nothing
            else:
                self._meet(member, step)
        return found

    def _access(self, place: int, member: Member, step: Step) -> set[tuple[Member, str]]:
        memory, index = step.element
        element = (memory, index) if memory == "global" else (memory, index, member[0])
        others = {
            (other, operation)
            for earlier, other, operation in self.accesses[element]
            if other != member
            and {operation, step.operation} not in ({"read"}, {"atomic"})
            and earlier not in self.known[member]
        }
        self.accesses[element].append((place, member, step.operation))
        self.known[member].add(place)
        if step.operation == "atomic":
            device, block = (element, "device"), (element, member[0])
            acquired = self.released[device] | self.released[block]
            for scope, where in (("device", device), ("block", block)):
                if fenced := self.fenced[member, scope]:
                    self.released[where] |= fenced | {place}
            self.known[member] |= acquired
        return others

    def _meet(self, member: Member, step: Step) -> None:
        members = self.waiting[step]
        members.append(member)
        if len(members) < len(step.threads):
            return
        for sets, keys in (
            (self.known, list(members)),
            (self.fenced, [(other, "block") for other in members]),
            (self.fenced, [(other, "device") for other in members]),
        ):
            together = set().union(*(sets[key] for key in keys))  # type: ignore[index]
            for key in keys:
                sets[key] = set(together)  # type: ignore[index]
        members.clear()


@pytest.mark.parametrize("start", range(4))
def test_races_are_those_of_the_oracle(start: int) -> None:
    racy = missed = 0
    for number in range(start * PROGRAMS, (start + 1) * PROGRAMS):
        draw = random.Random(number)
        blocks = draw.choice((1, 1, 2, 3))
        steps = program(draw, blocks)
        for seed in (0, draw.randrange(1, 1000)):
            log, finding = run(steps, blocks, seed)
            races = Oracle().races(log)
            racy += bool(races)
            if finding is None:
                missed += bool(races)
                continue
            later, earlier = ((member_of(access), access.operation) for access in finding.accesses)
            # A read beside atomics is found at the thread's next step there: others may have gone on.
            of_later = (place for place, (member, step) in enumerate(log) if (member, step.operation) == later)
            assert any(earlier in races.get(place, ()) for place in of_later), f"program {number}: {finding}"
    assert racy > PROGRAMS / 2
    assert missed <= racy / 100
