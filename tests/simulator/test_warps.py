"""Warp operations against a model in Python."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.simulator.handwritten import here, launch
from trifold import KernelFault, _simulator
from trifold._simulator import threadIdx

ALL = 0xFFFFFFFF
MASKS = st.integers(1, ALL)
SHUFFLES = [_simulator.OP_SHFL, _simulator.OP_SHFL_UP, _simulator.OP_SHFL_DOWN, _simulator.OP_SHFL_XOR]


def source_lane(mode: int, lane: int, operand: int, clamp: int) -> tuple[int, bool]:
    """PTX's shfl.sync: the lane whose value is taken, and whether it is in range."""
    operand, segment = operand & 31, clamp >> 8 & 31
    first = lane & segment
    last = first | (clamp & 31 & ~segment)
    source = [first | (operand & ~segment), lane - operand, lane + operand, lane ^ operand][mode]
    in_range = source >= last if mode == 1 else source <= last
    return (source, True) if in_range else (lane, False)


def signed(mask: int) -> int:
    return int(struct.unpack("i", struct.pack("I", mask))[0])


def gather(yielded: Callable[[int], tuple[Any, ...]], block: int = 32, seed: int = 0) -> list[Any]:
    """Return the replies that each thread of one block gets to its requests ``yielded(thread)``."""
    results: list[Any] = [None] * block

    def kernel() -> Any:
        results[threadIdx.x] = yield yielded(threadIdx.x)

    launch(kernel, block=block, seed=seed)
    return results


# Results --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 2])
@pytest.mark.parametrize("mode", range(4))
@given(operand=st.integers(0, 40))
def test_shuffles_of_a_whole_warp(mode: int, seed: int, operand: int) -> None:
    site = here()
    got = gather(lambda lane: (site, SHUFFLES[mode], ALL, 100 + lane, operand), seed=seed)
    clamp = 0 if mode == 1 else 31
    assert got == [100 + source_lane(mode, lane, operand, clamp)[0] for lane in range(32)]


@given(mode=st.integers(0, 3), operand=st.integers(0, 31), width=st.sampled_from([1, 2, 4, 8, 16, 32]))
def test_shuffles_of_a_part_of_a_warp_say_whether_the_lane_is_in_range(mode: int, operand: int, width: int) -> None:
    site, clamp = here(), (32 - width) << 8 | (0 if mode == 1 else 31)
    got = gather(lambda lane: (site, _simulator.OP_SHFL_INTRINSIC, ALL, mode, 100 + lane, operand, clamp))
    expected = [source_lane(mode, lane, operand, clamp) for lane in range(32)]
    assert got == [(100 + source, in_range) for source, in_range in expected]


def test_each_lane_shuffles_from_where_it_says() -> None:
    site = here()
    assert gather(lambda lane: (site, _simulator.OP_SHFL, ALL, lane, (7 * lane) % 32)) == [
        7 * i % 32 for i in range(32)
    ]


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (_simulator.float32(0.5), _simulator.float32),
        (_simulator.float16(0.5), _simulator.float32),
        (0.5, float),
        (7, int),
        (True, _simulator.int32),
        (_simulator.int8(7), _simulator.int32),
        (_simulator.uint32(7), int),
        (_simulator.uint64(7), float),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, type) else value.__name__,
)
def test_a_shuffle_gives_the_type_that_numba_gives(value: Any, kind: type) -> None:
    site = here()
    got = gather(lambda lane: (site, _simulator.OP_SHFL_XOR, ALL, value, 1))
    assert {type(element) for element in got} == {kind}
    assert got[0] == value


@pytest.mark.parametrize("seed", [0, 5])
@given(mask=MASKS, votes=st.integers(0, ALL))
def test_votes_of_the_lanes_of_a_mask(seed: int, mask: int, votes: int) -> None:
    results: dict[int, Any] = {}

    def kernel() -> Any:
        lane = threadIdx.x
        if mask >> lane & 1:
            own = votes >> lane & 1
            ballot = yield here(), _simulator.OP_BALLOT, mask, own
            every = yield here(), _simulator.OP_ALL, mask, own
            some = yield here(), _simulator.OP_ANY, mask, own
            same = yield here(), _simulator.OP_EQ, mask, own
            pair = yield here(), _simulator.OP_VOTE_INTRINSIC, mask, 1, own
            results[lane] = ballot, every, some, same, pair

    launch(kernel, block=32, seed=seed)
    ballot = votes & mask
    expected = (signed(ballot), ballot == mask, ballot != 0, ballot in (0, mask), (signed(ballot), ballot != 0))
    assert results == {lane: expected for lane in range(32) if mask >> lane & 1}
    assert {type(got[0]) for got in results.values()} == {_simulator.int32}


@given(st.lists(st.sampled_from([0.0, -0.0, 1.5, 2]), min_size=1, max_size=32))
def test_matches_compare_bits(values: list[float]) -> None:
    bits = [struct.pack("d", value) for value in values]
    mask = (1 << len(values)) - 1

    def kernel() -> Any:
        own = float(values[threadIdx.x])
        same = yield here(), _simulator.OP_MATCH_ANY, ALL, own
        assert same == signed(sum(1 << lane for lane, other in enumerate(bits) if other == bits[threadIdx.x]))
        match_all = yield here(), _simulator.OP_MATCH_ALL, mask, own
        assert match_all == ((signed(mask), True) if len(set(bits)) == 1 else (0, False))

    values = [float(value) for value in values]
    bits = [struct.pack("d", value) for value in values]
    launch(kernel, block=len(values))


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_active_mask_is_who_comes_to_the_line(seed: int) -> None:
    results: dict[int, int] = {}

    def kernel() -> Any:
        lane = threadIdx.x
        if lane == 31:
            return
        if lane % 3 == 0:
            results[lane] = yield here(), _simulator.OP_ACTIVEMASK
        else:
            results[lane] = yield here(), _simulator.OP_ACTIVEMASK
        yield here(), _simulator.OP_SYNCWARP, results[lane]

    launch(kernel, block=32, seed=seed)
    third = sum(1 << lane for lane in range(0, 31, 3))
    assert results == {lane: third if lane % 3 == 0 else ~third & ALL >> 1 for lane in range(31)}


@pytest.mark.parametrize("seed", [0, 1, 2])
@given(st.lists(st.integers(1, 31), max_size=6), st.integers(1, 80))
@settings(max_examples=20)
def test_lanes_of_disjoint_masks_do_not_wait_for_each_other(seed: int, cuts: list[int], threads: int) -> None:
    borders = sorted({0, 32, *cuts})
    groups = [range(a, b) for a, b in itertools.pairwise(borders)]

    def kernel() -> Any:
        group = next(g for g in groups if threadIdx.x % 32 in g)
        mask = sum(1 << lane for lane in group)
        for turn in range(1 + group.start % 3):
            first = yield here(), _simulator.OP_SHFL, mask, (group.start, turn, threadIdx.x)[1], group.start
            assert first == turn

    launch(kernel, block=threads - threads % 32 or 32, seed=seed)


def test_lanes_that_are_not_there_are_not_waited_for() -> None:
    def kernel() -> Any:
        if threadIdx.x >= 40:
            return
        for _ in range(threadIdx.x % 3):
            pass
        assert (yield here(), _simulator.OP_BALLOT, ALL, True) == signed(ALL if threadIdx.x < 32 else 0xFF)
        yield here(), _simulator.OP_SYNCWARP

    launch(kernel, block=44)


def test_a_warp_meets_in_syncwarps_of_different_lines() -> None:
    def kernel() -> Any:
        if threadIdx.x < 16:
            yield here(), _simulator.OP_SYNCWARP, ALL
        else:
            yield here(), _simulator.OP_SYNCWARP, ALL

    launch(kernel, block=64)


def test_a_lane_may_meet_another_group_first() -> None:
    """Lane 2 waits for lane 0, which waits for lane 1, which comes late: not a mistake."""

    def kernel() -> Any:
        lane = threadIdx.x
        if lane == 1:
            for _ in range(4):
                yield here(), _simulator.OP_SYNCWARP, 0b10
        if lane < 2:
            yield here(), _simulator.OP_SYNCWARP, 0b11
        if lane != 1:
            yield here(), _simulator.OP_SYNCWARP, 0b101

    for seed in range(10):
        launch(kernel, block=3, seed=seed)


# A shuffle from a lane that takes no part -----------------------------------------------------------------------------


def down_in_half_a_warp(use: Callable[[Any], Any]) -> Any:
    def kernel() -> Any:
        value = yield here(), _simulator.OP_SHFL_DOWN, 0xFFFF, threadIdx.x, 8
        value = value + 1
        if threadIdx.x < 8:
            assert value == threadIdx.x + 9
        else:
            use(value)

    launch(kernel, block=16)


def test_an_undefined_value_may_be_passed_on() -> None:
    down_in_half_a_warp(lambda value: (value * 2, -value, value < 3, _simulator.float32(1) + value, repr(value)))


@pytest.mark.parametrize("use", [bool, int, float, [1].__getitem__, lambda value: 1 if value > 3 else 0])
def test_an_undefined_value_must_not_be_used(use: Callable[[Any], Any]) -> None:
    with pytest.raises(KernelFault) as caught:
        down_in_half_a_warp(use)
    (finding,) = caught.value.findings
    assert finding.kind == "warp divergence"
    used, asked = finding.accesses
    assert used.thread == asked.thread == (8, 0, 0)
    assert (used.operation, asked.operation) == ("use", "shfl_down_sync")
    assert "as lane 8, asked lane 16 by shfl_down_sync" in finding.message
    assert "lane 16 is not in the call's mask" in finding.message
