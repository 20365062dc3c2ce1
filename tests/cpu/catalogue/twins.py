"""The arguments of each twin besides its prototype's, and the accepted differences between the two reports."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.simulator.catalogue import CASES
from tests.simulator.catalogue.case import Case
from trifold.findings import Finding

FOLDER = Path(__file__).parent


def _nothing(*_: Any) -> tuple[int, ...]:
    return ()


# Arguments after the prototype's: extents that are a part of an array in Python.
MORE: dict[str, Callable[..., tuple[int, ...]]] = {
    "collect_four": lambda x, y, count: (y.size,),
    "collect_four_with_plain_test": lambda x, y, count: (y.size,),
    "barrier_in_loop_of_equal_length": lambda starts, values, weights, y: (weights.size,),
    "fill": lambda y, value: (y.size,),
    "ring_difference_from_far_below": lambda x, y: (x.size,),
    "histogram_of_unit_interval": lambda x, hist: (hist.size,),
    "histogram_without_the_last_edge": lambda x, hist: (hist.size,),
    "polynomial": lambda coefficients, x, y: (coefficients.size,),
    "polynomial_past_its_local_array": lambda coefficients, x, y: (coefficients.size,),
    "border": lambda image: image.shape,
    "border_with_swapped_index": lambda image: image.shape,
    "border_past_the_row": lambda image: image.shape,
    "number_a_window": lambda window: (window.size,),
    "fibonacci_numbers": lambda y: (y.size,),
    "grid_stride": lambda x, y: (x.size,),
    "block_stride_from_grid_index": lambda x, y: (x.size,),
    "grid_stride_by_while": lambda x, y: (x.size,),
    "row_maximum_grid_stride": lambda rows, y: (len(rows),),
    "row_maximum_without_barrier_between_rows": lambda rows, y: (len(rows),),
    "row_maximum_with_tile_used_again_too_early": lambda rows, y: (len(rows),),
    "scale_and_shift_tensors": lambda x, scale, bias, y: (*x.shape, *(stride // 4 for stride in x.strides)),
    "double_buffer": lambda x, y: (x.shape[1],),
    "double_buffer_with_a_barrier_every_other_step": lambda x, y: (x.shape[1],),
    "double_buffer_that_loads_what_it_reads": lambda x, y: (x.shape[1],),
    "ping_pong": lambda a, b: (a.size,),
    "ping_without_pong": lambda a, b: (a.size,),
    "transpose": lambda x, y: x.shape,
    "transpose_without_barrier": lambda x, y: x.shape,
    "transpose_with_swapped_index": lambda x, y: x.shape,
    "matmul": lambda a, b, c: b.shape,
    "matmul_without_second_barrier": lambda a, b, c: b.shape,
    "matmul_without_first_barrier": lambda a, b, c: b.shape,
    "ragged_matmul": lambda a, b, c: (len(a), *b.shape),
    "ragged_matmul_without_inner_guard": lambda a, b, c: (len(a), *b.shape),
    "ragged_matmul_without_zeros": lambda a, b, c: (len(a), *b.shape),
    "stencil": lambda x, y: (x.size,),
    "stencil_without_right_halo": lambda x, y: (x.size,),
    "stencil_in_a_tile_without_halo": lambda x, y: (x.size,),
    "heat_in_place_over_blocks": lambda x: (x.size,),
    "laplacian": lambda x, y: x.shape,
}

# The prototype's name is not a valid name in C++.
RENAMED = {"double": "twice"}

# Extents of the arrays that have two axes in a prototype: C++ counts elements from the array's first.
SHAPES = {
    "border_with_swapped_index": (6, 9),
    "border_past_the_row": (6, 9),
    "transpose_with_swapped_index": (16, 24),
    "ragged_matmul_without_inner_guard": (10, 13),
    "hillis_steele_with_buffers_not_swapped_back": (2, 64),
    "double_buffer_with_a_barrier_every_other_step": (2, 32),
    "double_buffer_that_loads_what_it_reads": (2, 32),
    "transpose_without_barrier": (8, 9),
    "matmul_without_second_barrier": (8, 8),
    "matmul_without_first_barrier": (8, 8),
    "ragged_matmul_without_zeros": (8, 8),
}


Who = tuple[str, tuple[int, ...], tuple[int, ...], int | None]  # operation, thread, block, barrier interval


@dataclass(frozen=True)
class Summary:
    """The parts that two reports must have in common.

    Attributes:
        index: of the element, counted from the array's first.
        accesses: in the finding's order; ``marks``: of their lines.
    """

    kind: str
    severity: str
    kernel: str
    memory: str
    array: str
    index: tuple[int, ...]
    accesses: tuple[Who, ...]
    marks: tuple[frozenset[str], ...]

    def without_marks(self) -> Summary:
        return replace(self, marks=())


@dataclass(frozen=True)
class Difference:
    """The differences between a twin's report and its prototype's.

    Attributes:
        cpu: the fields of Summary that differ, as the twin's report has them.
        reason: why they cannot be the same.
    """

    reason: str
    cpu: dict[str, Any]

    def applied_to(self, summary: Summary) -> Summary:
        return replace(summary, **self.cpu)


_NO_NAME = "what trifold::dynamic_shared() returns is the block's memory, whatever the kernel calls its pointer"
_DYNAMIC = {"array": "dynamic shared memory"}
_FLAT = "a matrix in C++ is one long array: a row is followed by the next one, and only the last one by nothing"
_ORIGIN = (0, 0, 0)

DIFFERENCES: dict[str, Difference] = {
    "reverse_past_dynamic_shared_memory": Difference(_NO_NAME, _DYNAMIC),
    "reverse_of_doubles_in_room_for_floats": Difference(_NO_NAME, _DYNAMIC),
    "two_dtypes_on_one_place": Difference(_NO_NAME, _DYNAMIC),
    "doubles_behind_an_odd_byte": Difference(
        "Python makes a view, which is wrong at once; C++ casts a pointer, and the first store through it is wrong",
        {**_DYNAMIC, "index": (1,), "accesses": (("write", _ORIGIN, _ORIGIN, 0),)},
    ),
    "border_past_the_row": Difference(
        _FLAT + "; that two threads write that row's first element is a warning, since they write the same",
        {"index": (54,), "accesses": (("write", (1, 5, 0), (1, 0, 0), 0),)},
    ),
    "ragged_matmul_without_inner_guard": Difference(
        _FLAT, {"array": "b", "index": (143,), "accesses": (("read", (0, 5, 0), _ORIGIN, 2),)}
    ),
    "windows_that_overlap": Difference(
        "arguments that overlap are one array, and an address does not say through which of them it was reached",
        {"array": "left", "index": (24,)},
    ),
    "records_with_a_field_left_out": Difference(
        "the type of a shared array's elements is not known: they are counted in the width of the access",
        {"index": (127,)},
    ),
    "segmented_sum_without_atomic": Difference(
        "the prototype's while loop reads memory, so it might wait for others: the next block is run before it goes on",
        {"accesses": (("read", _ORIGIN, (1, 0, 0), 1), ("write", (55, 0, 0), _ORIGIN, 1))},
    ),
}

# Prototypes without a twin here, by the reason.
WITHOUT_TWIN: dict[str, tuple[str, ...]] = {
    "a barrier of the whole grid, grid.sync(), is refused in C++": (
        "cooperative_shift",
        "cooperative_shift_without_the_first_block",
    ),
    "CUDA has no atomicMax and atomicMin of float": (
        "extremes_of_all",
        "extremes_cleared_by_the_second_block",
        "largest_by_atomic",
        "largest_by_plain_look_before_atomic",
    ),
    "the checks on the CPU cannot say where a value is used that a shuffle took from a lane which took no part": (
        "shuffle_in_a_branch",
        "broadcast_from_a_lane_outside_the_mask",
        "tail_sum_after_early_return",
    ),
    "a negative index counts from the end in Python alone": ("ring_difference",),
    "only in Python does an array's second axis have bounds: the twin reads the next row": (
        "scale_and_shift_tensors_by_the_base_shape",
        "laplacian_with_guard_of_another_axis",
    ),
    "a thread's own stack is not watched, see native.py's local_array_half_filled": ("running_sums_from_nothing",),
    "two launches, see native.py's squares": ("squares_of_all", "squares_of_all_but_the_last"),
}


@dataclass(frozen=True)
class Twin:
    """A kernel in C++ and the case of its prototype.

    Attributes:
        file: of the kernel; its namespace is the file's name.
        code: the kernel's name there.
    """

    case: Case
    file: Path
    code: str

    def __str__(self) -> str:
        return self.case.name

    @property
    def qualified(self) -> str:
        return f"{self.file.stem}::{self.code}"

    @property
    def more(self) -> Callable[..., tuple[int, ...]]:
        return MORE.get(self.case.name, _nothing)


def kernels() -> dict[str, Path]:
    """The names of all kernels of the catalogue in C++, and their files."""
    return {
        name: file
        for file in sorted(FOLDER.glob("*.cuh"))
        for name in re.findall(r"^__global__ void (\w+)\(", file.read_text(), re.MULTILINE)
    }


def marks(file: Path) -> dict[int, set[str]]:
    """For each line of a file, the marks that its comment carries: those of the prototype."""
    found = {}
    for number, text in enumerate(file.read_text().splitlines(), 1):
        _, slashes, comment = text.partition("//")
        found[number] = {mark.strip() for mark in comment.split(",")} if slashes else set()
    return found


def twins() -> list[Twin]:
    """The twins of the simulator's catalogue, in its order."""
    files = kernels()
    named = ((case, RENAMED.get(case.name, case.name)) for case in CASES)
    return [Twin(case, files[code], code) for case, code in named if code in files]


def summary_of_twin(finding: Finding) -> Summary:
    """Its array index already counts elements; the namespace is not in the prototype's name."""
    carried = tuple(
        frozenset(marks(Path(access.file))[access.line]) if access.file else frozenset() for access in finding.accesses
    )
    return replace(_summary(finding), kernel=finding.kernel.rpartition("::")[2], marks=carried)


def summary_of_prototype(finding: Finding, twin: Twin) -> Summary:
    """With the twin's name, and the index of several axes as one."""
    lines = twin.case.lines()
    carried = tuple(
        frozenset(mark for mark, places in lines.items() if (access.file, access.line) in places)
        for access in finding.accesses
    )
    index = finding.index
    if len(index) > 1:
        shape = SHAPES[twin.case.name]
        index = (sum(i * math.prod(shape[axis + 1 :]) for axis, i in enumerate(index)),)
    return replace(_summary(finding), kernel=twin.code, index=index, marks=carried)


def _summary(finding: Finding) -> Summary:
    accesses = tuple((access.operation, access.thread, access.block, access.interval) for access in finding.accesses)
    return Summary(
        finding.kind,
        finding.severity,
        finding.kernel,
        finding.memory,
        finding.array,
        finding.index,
        accesses,
        (),
    )
