"""Kernels that only C++ can express: their launches, and the expected findings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import cuda

from tests.cpu.catalogue.launcher import Array, CpuKernel
from tests.simulator.catalogue.case import At, atomic, read, write

THREADS = 32


@dataclass(frozen=True)
class Found:
    """The expected finding in a kernel, in the natural order.

    Attributes:
        accesses: the earlier one first; intervals: theirs.
    """

    kind: str
    memory: str
    array: str
    index: tuple[int, ...]
    accesses: tuple[At, ...]
    intervals: tuple[int, ...] = (0,)
    severity: str = "error"


@dataclass(frozen=True)
class Native:
    """A kernel of native.cuh, or of another file.

    Attributes:
        kernels: its name; several are launched one after the other.
        run: launches it, and compares the result with NumPy's.
        found: None: nothing may be found.
        reason: why nothing is found although the kernel is wrong: a limit of the checks.
        file: where it is, without the suffix.
    """

    kernels: tuple[str, ...]
    run: Callable[[CpuKernel], object]
    found: Found | None = None
    reason: str = ""
    file: str = "native"

    def __str__(self) -> str:
        return self.kernels[0]

    @property
    def qualified(self) -> str:
        return " ".join(f"{self.file}::{name}" for name in self.kernels)


def _map(size: int, expected: Callable[[Array], Any] | None, *, shared: int = 0) -> Callable[[CpuKernel], None]:
    """Runs a kernel of one block on x = 0, 1, 2, … with a result of zeros, which then must be expected(x)."""

    def run(kernel: CpuKernel) -> None:
        x = np.arange(size, dtype=np.float32)
        y = np.zeros(size, dtype=np.float32)
        kernel[1, THREADS, 0, shared](x, y, size)
        if expected is not None:
            np.testing.assert_array_equal(y, expected(x))

    return run


def _blocks(count: int, dtype: Any, expected: Callable[[Array], Any]) -> Callable[[CpuKernel], None]:
    """The same for this many blocks, each of which processes all of x."""

    def run(kernel: CpuKernel) -> None:
        x = np.arange(THREADS, dtype=dtype)
        y = np.zeros(count + 1, dtype=dtype)
        kernel[count, THREADS](x, y, THREADS)
        np.testing.assert_array_equal(y, expected(x))

    return run


BOX = np.dtype([("sides", np.float32, 3), ("weight", np.float32)])


def _boxes_of_any_sum(kernel: CpuKernel) -> Array:
    """Returns the differences between the sums of the boxes' sides and the kernel's."""
    boxes = np.zeros(THREADS, dtype=BOX)
    boxes["sides"] = np.arange(3 * THREADS).reshape(THREADS, 3)
    boxes["weight"] = 1
    y = np.zeros(THREADS, dtype=np.float32)
    kernel[1, THREADS](boxes, y, THREADS)
    less: Array = boxes["sides"].sum(axis=1) - y
    return less


def _boxes(kernel: CpuKernel) -> None:
    assert not _boxes_of_any_sum(kernel).any()


def _in_fresh_memory(kernel: CpuKernel) -> None:
    x = np.arange(50, dtype=np.float32)
    y = cuda.device_array(50, dtype=np.float32)
    kernel[1, THREADS](x, y, 50)
    np.testing.assert_array_equal(y.copy_to_host(), x * x + 1)


def _same(x: Array) -> Array:
    return x


def _one(kind: str, memory: str, array: str, index: int, access: At, interval: int = 0) -> Found:
    return Found(kind, memory, array, (index,), (access,), (interval,))


TILES = 6


def _scan(kernel: CpuKernel) -> None:
    x = np.arange(TILES * 64, dtype=np.int32) % 7
    y = np.zeros_like(x)
    kernel[TILES, 64, 0, 64 * 4](x, y, np.zeros(TILES, np.int32), np.zeros(TILES, np.int32))
    np.testing.assert_array_equal(y, np.cumsum(x))


def _steps(kernel: CpuKernel) -> None:
    x = np.arange(TILES * 64, dtype=np.int32) % 7
    expected, y = x.copy(), np.zeros_like(x)
    for _ in range(3):
        expected = expected + np.roll(expected, -64)
    kernel[TILES, 64](x, y, np.zeros(1, np.int32))
    np.testing.assert_array_equal(y, expected)


NATIVE = (
    Native(("scan_from_the_last_tile",), _scan, file="waiting"),
    Native(
        ("scan_from_the_last_tile_without_fence",),
        _scan,
        Found("race", "global", "prefix", (0,), (write("first", 63, 5), read("second", 63, 4)), (13, 13)),
        file="waiting",
    ),
    Native(
        ("scan_from_the_last_tile_with_a_plain_flag",),
        _scan,
        Found("race", "global", "ready", (0,), (atomic("first", 63, 4), write("second", 63, 5)), (13, 13)),
        file="waiting",
    ),
    Native(("steps_of_the_whole_grid",), _steps, file="waiting"),
    Native(
        ("steps_of_the_whole_grid_without_fence",),
        _steps,
        Found("race", "global", "x", (320,), (read("second", 0, 4), write("first", 0, 5)), (0, 2)),
        file="waiting",
    ),
    Native(
        ("steps_of_the_whole_grid_counted_without_atomic",),
        _steps,
        Found("race", "global", "arrived", (0,), (atomic("second", 0, 0), read("first", 0, 1)), (1, 1)),
        file="waiting",
    ),
    Native(("copy_by_quads",), _map(4 * THREADS, _same)),
    Native(("quad_at_an_odd_element",), _map(THREADS, _same), _one("misaligned", "global", "x", 1, read("first", 0))),
    Native(("rows_of_five_by_quads",), _map(THREADS, _same), _one("misaligned", "global", "x", 5, read("first", 1))),
    Native(
        ("pair_stored_at_an_odd_element",),
        _map(2 * THREADS, _same),
        _one("misaligned", "global", "y", 1, write("first", 0)),
    ),
    Native(("quads_rounded_up",), _map(62, _same), _one("out-of-bounds", "global", "x", 62, read("first", 15))),
    Native(("quads_and_a_tail",), _map(62, _same)),
    Native(("floats_taken_for_doubles",), _map(64, _same), _one("out-of-bounds", "global", "x", 64, read("first", 0))),
    Native(("bytes_taken_for_elements",), _map(64, _same), _one("out-of-bounds", "global", "x", 64, read("first", 0))),
    Native(("box_of_three_sides",), _boxes),
    Native(("box_of_four_sides",), _boxes, _one("out-of-bounds", "global", "boxes[t].sides", 3, read("first", 0))),
    Native(("box_written_past_its_sides",), _boxes, _one("out-of-bounds", "", "box->sides", 3, write("first", 0))),
    Native(
        ("box_of_four_sides_by_pointer",),
        _boxes_of_any_sum,
        reason="a pointer has no extent, and the next member is memory of the same array",
    ),
    Native(
        ("row_of_a_tile_left",),
        _map(THREADS, _same),
        _one("out-of-bounds", "shared", "tile[row]", 8, read("first", 7), 1),
    ),
    Native(("stack_array_left",), _map(THREADS, _same), _one("out-of-bounds", "local", "last", 4, read("first", 16))),
    Native(
        ("template_past_its_shared_array",),
        _map(THREADS, _same),
        _one("out-of-bounds", "shared", "staged", THREADS - 1, write("first", THREADS - 1)),
    ),
    Native(
        ("template_past_its_local_array",),
        _map(THREADS, _same),
        _one("out-of-bounds", "local", "last", THREADS - 1, write("first", THREADS - 1)),
    ),
    Native(
        ("stack_array_left_by_pointer",),
        _map(THREADS, None),
        reason="a thread's own stack is not watched: it is left through a pointer, which has no extent",
    ),
    Native(
        ("local_array_half_filled",),
        _map(THREADS, None),
        reason="a thread's own stack is not watched: what is not written there is not known",
    ),
    Native(
        ("second_array_past_dynamic_shared_memory",),
        _map(THREADS, lambda x: x[::-1], shared=4 * THREADS * 3 // 2),
        _one("out-of-bounds", "shared", "dynamic shared memory", 48, write("first", 16)),
    ),
    Native(
        ("read_only_load_of_written_data",),
        _map(THREADS, _same),
        Found("race", "global", "y", (0,), (write("first", 0), read("second", 1)), (0, 0)),
    ),
    Native(("read_only_load",), _map(THREADS, lambda x: x.reshape(-1, 2)[:, ::-1].flatten())),
    Native(("variable_by_atomic",), _map(THREADS, _same)),
    Native(
        ("variable_without_atomic",),
        _map(THREADS, _same),
        Found("race", "global", "total", (0,), (write("first", 0), read("first", 1)), (0, 0)),
    ),
    Native(
        ("element_before_the_first",), _map(THREADS, _same), _one("out-of-bounds", "global", "x", -1, read("first", 0))
    ),
    Native(
        ("element_before_the_first_by_unsigned_index",),
        _map(THREADS, _same),
        _one("out-of-bounds", "global", "x", 2**32 - 1, read("first", 0)),
    ),
    Native(("null_pointer",), _map(THREADS, _same), Found("out-of-bounds", "global", "", (), (read("first", 0),))),
    Native(
        ("bit_fields_of_one_byte",),
        _map(THREADS, lambda x: x + 3),
        Found("race", "shared", "flags", (0,), (write("first", 0), write("second", 1)), (1, 1)),
    ),
    Native(("bytes_beside_each_other",), _map(THREADS, lambda x: x + x[::-1])),
    Native(
        ("volatile_in_place_of_syncwarp",),
        _map(THREADS, None),
        Found("race", "shared", "sums", (1,), (read("first", 0), write("first", 1)), (1, 1), "warning"),
    ),
    Native(
        ("volatile_with_a_rendezvous_left_out",),
        _map(THREADS, None),
        Found("race", "shared", "values", (1,), (read("second", 0), write("first", 1)), (0, 0), "warning"),
    ),
    Native(("volatile_with_syncwarp",), _map(THREADS, lambda x: x.sum())),
    Native(("volatile_flags_that_lanes_poll",), _map(THREADS, _same)),
    Native(("volatile_flags_polled_by_vote",), _map(THREADS, _same)),
    Native(("search_ended_by_a_volatile_flag",), _map(64, lambda x: np.where(x == 0, 9, 0))),
    Native(
        ("one_total_by_atomics_of_a_block",),
        _blocks(2, np.float32, lambda x: [2 * x.sum(), 0, 0]),
        Found("race", "global", "y", (0,), (atomic("first", 31, 0), atomic("first", 0, 1)), (0, 0)),
    ),
    Native(("total_of_each_block",), _blocks(2, np.float32, lambda x: [x.sum(), x.sum(), 2])),
    Native(
        ("largest_of_all_by_one_wide_atomic",),
        _blocks(2, np.int32, lambda x: [x.max(), 0, 0]),
        Found("race", "global", "y", (0,), (atomic("second", 0, 0), atomic("first", 0, 1)), (1, 0)),
    ),
    Native(
        ("lock_of_a_block_for_all",),
        _blocks(2, np.int32, lambda x: [0, x[0] + x[1], 0]),
        Found("race", "global", "y", (0,), (atomic("first", 0, 0), atomic("first", 0, 1)), (0, 0)),
    ),
    Native(("sums_by_compare_and_swap_of_other_widths",), _map(THREADS, lambda x: x.sum() + np.resize([240, 256], 32))),
    Native(
        ("box_of_the_block_by_all_threads",),
        _map(THREADS, lambda x: np.full_like(x, 4)),
        Found("race", "shared", "whole", (0,), (write("first", 0), write("first", 1)), (0, 0), "warning"),
    ),
    Native(
        ("box_of_the_block_but_one_side",),
        _map(THREADS, None),
        Found("race", "shared", "crate", (0,), (write("first", 15), write("first", 16)), (0, 0)),
    ),
    Native(
        ("pair_over_an_element_and_another",),
        _map(THREADS, None),
        Found("race", "global", "y", (1,), (write("first", 1), write("second", 2)), (0, 0)),
    ),
    Native(
        ("constant_written_through_a_pointer",),
        _map(THREADS, _same),
        _one("out-of-bounds", "constant", "weights", 0, write("first", 0)),
    ),
    Native(
        ("fixed_constant_added_to",),
        _map(THREADS, _same),
        _one("out-of-bounds", "constant", "doublings", 1, atomic("first", 5)),
    ),
    Native(
        ("constants_read_through_a_pointer",),
        _map(THREADS, lambda x: x * (1 + np.arange(THREADS) % 4) * 2 ** (np.arange(THREADS) % 4)),
    ),
    Native(("sum_of_eight_lanes",), _map(THREADS, lambda x: np.concatenate([[x[:8].sum()], x[1:]]))),
    Native(
        ("sum_of_eight_lanes_from_all",),
        _map(THREADS, None),
        Found(
            "warp divergence", "", "", (), (At("first", "shfl_down_sync", (0, 0, 0), (0, 0, 0)),), severity="warning"
        ),
    ),
    Native(("memcpy_of_whole_rows",), _map(60, _same)),
    Native(("memcpy_past_the_end",), _map(60, _same), _one("out-of-bounds", "global", "x", 60, read("first", 7))),
    Native(("squares", "add_one"), _in_fresh_memory),
    Native(
        ("squares_but_the_last", "add_one"),
        _in_fresh_memory,
        _one("uninitialised read", "global", "y", 49, read("first", 17)),
    ),
)
