"""Faults in backward kernels whose rows stream through shared memory, and in the sums over rows after them."""

from __future__ import annotations

import torch

from tests.wrong.entry import Edit
from tests.wrong.fault import Fault, fault
from tests.wrong.row_lines import (
    INIT,
    LANE_COPIES,
    LANE_READS,
    MAIL_WAITS,
    SUMS_GIVEN,
    SUMS_READ,
    SUMS_STORED,
)
from trifold.spec import Call, TensorCase

_ROWS, _NORMS = "rows/row_stream.cuh", "rows/norms_backward.cuh"


def _norm(rows: int, columns: int, dtype: torch.dtype = torch.float32, *, parameters: int = 1) -> Call:
    numbers = (TensorCase((columns,), dtype, seed=1 + i) for i in range(parameters))
    return Call((TensorCase((rows, columns), dtype), *numbers))


# A block's 16 warps share a row, with ten rows per block; the same for layer_norm, which has two sums.
_BLOCKS, _BLOCKS_WITH_TWO_SUMS = _norm(1320, 4096), _norm(1320, 4096, parameters=2)
# Fewer columns than the block's threads can hold; and unaligned rows.
_NOT_FULL, _ODD = _norm(300, 4000), _norm(600, 4001)
# A row per warp, which loads the mean and rstd of many rows at once.
_WARPS = _norm(2048, 1024, torch.float16)
# A row per warp, with copies by each lane.
_LANES = _norm(1500, 1000)

_A_SLOT_TOO_MANY = Edit(
    _ROWS,
    "return slot == begin_ + (Shape::slots - 1) * Shape::slot_bytes ?",
    "return slot == begin_ + Shape::slots * Shape::slot_bytes ?",
)

RING = (
    fault(
        "a copy more may be under way when a row is read",
        "the row that is read was counted among those ahead",
        "rms_norm",
        Edit(
            _ROWS,
            "wait_for_copies<Shape::slots - Shape::chunks - 1>();",
            "wait_for_copies<Shape::slots - Shape::chunks>();",
        ),
        "wait",
        "backward",
        "gradients",
        _BLOCKS,
        small=_norm(40, 2052),
        at=LANE_READS,
    ),
    fault(
        "the thread after the row's end copies a vector",
        "nothing is left of the row there, which is not less than nothing",
        "rms_norm",
        Edit(_ROWS, "return left > 0 ? vector_bytes : 0;", "return left >= 0 ? vector_bytes : 0;"),
        "copy",
        "backward",
        "bounds",
        _NOT_FULL,
        small=_norm(24, 2052),
        at=LANE_COPIES,
    ),
    fault(
        "the piece that a row's end cuts is copied as a whole",
        "the next row is in memory that may be read",
        "rms_norm",
        Edit(
            _ROWS,
            "return max(0, min(vector_bytes, left * int{sizeof(T)}));",
            "return left > 0 ? vector_bytes : 0;",
        ),
        "edge",
        "backward",
        "gradients",
        _ODD,
        small=_norm(20, 4001),
    ),
    fault(
        "one element before a row's beginning counts",
        "rows of an even number of elements never begin there",
        "rms_norm",
        Edit(_ROWS, "if (chunk == 0 && lead_ > 0)", "if (chunk == 0 && lead_ > 1)"),
        "edge",
        "backward",
        "gradients",
        _ODD,
        small=_norm(20, 4001),
    ),
    fault(
        "the ring of rows has a slot more than there is memory",
        "its last slot was taken for the one after it",
        "rms_norm",
        _A_SLOT_TOO_MANY,
        "ring",
        "backward",
        "gradients",
        _BLOCKS,
        small=_norm(56, 2052),
        at=LANE_COPIES,
    ),
    fault(
        "forward, the ring of rows has a slot more than there is memory",
        "its last slot was taken for the one after it",
        "rms_norm",
        _A_SLOT_TOO_MANY,
        "ring",
        "forward",
        "values",
        _norm(150, 65_544),
        small=_norm(24, 32_776),
        at=LANE_COPIES,
    ),
    fault(
        "softmax's rows are read before their copies have come",
        "they were asked for rows ago, but for the first ones",
        "softmax",
        Edit("header", "        stream.wait(q);\n", ""),
        "wait",
        "backward",
        "gradients",
        Call((TensorCase((24, 140_000)),)),
        small=Call((TensorCase((2, 131_076)),)),
        at=LANE_READS,
    ),
)

SUMS = (
    fault(
        "two rows' sums can be under way, not four",
        "a warp gives a row's sums before it takes those of the row before: that makes two",
        "rms_norm",
        Edit(_ROWS, "inline constexpr int rows_in_flight = 4;", "inline constexpr int rows_in_flight = 2;"),
        "ring",
        "backward",
        "jitter",
        _BLOCKS,
        small=_norm(40, 2052),
        at=(*SUMS_GIVEN, *SUMS_READ),
    ),
    fault(
        "a row's sums are taken without waiting for the last warp's",
        "all had a row's time to give them",
        "rms_norm",
        Edit(_ROWS, "    memory_.arrived[slot].wait(static_cast<unsigned>(row) / rows_in_flight % 2);\n", ""),
        "mailbox",
        "backward",
        "jitter",
        _BLOCKS,
        small=_norm(24, 2052),
        at=SUMS_READ,
    ),
    fault(
        "a barrier waits for one arrival more than there are warps",
        "the warp that makes the barrier was counted beside the others",
        "layer_norm",
        Edit(_ROWS, "blocks_ == 1 ? warps : 1", "blocks_ == 1 ? warps + 1 : 1"),
        "arrive",
        "backward",
        "gradients",
        _BLOCKS_WITH_TWO_SUMS,
        seconds=20,
        small=_norm(16, 2052, parameters=2),
        at=MAIL_WAITS,
    ),
    fault(
        "mailboxes are not made known to the cluster",
        "the barrier of the cluster that follows was thought to do it, as it does where it has release semantics",
        "rms_norm",
        Edit(
            _NORMS,
            "    Mailbox::ready();\n    cluster_arrive_with_mailboxes();\n",
            "    cluster_arrive_with_mailboxes();\n",
        ),
        "fence",
        "backward",
        "gradients",
        _norm(64, 12_000),
        missed="a block's own stores to its shared memory are made in order and at once, long before another block's "
        "first message comes, which is after a barrier of the cluster",
        small=_norm(4, 7172),
        at=INIT,
    ),
)

PARTS = (
    fault(
        "sums of columns after the row's end are stored",
        "they are 0, and nobody reads them: but there lie the next cluster's",
        "rms_norm",
        Edit(_NORMS, "          if (column(k) < end) store_floats(", "          store_floats("),
        "edge",
        "backward",
        "bounds",
        _NOT_FULL,
        small=_norm(24, 2052),
        at=SUMS_STORED,
    ),
    fault(
        "the numbers of a row after the last one are read ahead",
        "it is not used",
        "rms_norm",
        Edit(_NORMS, "    return row < count_ ? of_row[", "    return row <= count_ ? of_row["),
        "edge",
        "backward",
        "bounds",
        _WARPS,
        small=_norm(64, 520, torch.float16),
    ),
    fault(
        "sums are stored where other teams still read rows",
        "a team's own rows have been read",
        "rms_norm",
        Edit(_NORMS, "      __syncthreads();  // all have read their rows\n", ""),
        "barrier",
        "backward",
        "gradients",
        _LANES,
        small=_norm(150, 252),
        at=(*SUMS_STORED, *LANE_COPIES),
    ),
    fault(
        "a block's warps read each other's sums at once",
        "on a GPU the warps of so small a block come at the same time",
        "rms_norm",
        Edit(_NORMS, "sum.value[3]};\n  __syncthreads();\n", "sum.value[3]};\n"),
        "barrier",
        "backward",
        "findings",
        _LANES,
        small=_norm(64, 516),
    ),
    fault(
        "the second step does not wait for the first one",
        "a kernel begins when the one before it has ended, unless it is launched early",
        "rms_norm",
        Edit(_NORMS, "  wait_for_earlier_kernels();\n  CompensatedSum<float>", "  CompensatedSum<float>"),
        "wait",
        "backward",
        "jitter",
        _WARPS,
        small=_norm(250, 128, torch.float16),
    ),
)

STREAM_FAULTS: tuple[Fault, ...] = (*RING, *SUMS, *PARTS)
