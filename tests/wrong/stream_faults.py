"""Faults in backward kernels whose rows stream through shared memory, and in the sums over rows after them."""

from __future__ import annotations

import torch

from tests.wrong.entry import Edit
from tests.wrong.fault import Fault, fault
from tests.wrong.row_lines import (
    INIT,
    LANE_COPIES,
    LANE_READS,
    PAIR_SUMS_READ,
    SUMS_GIVEN,
    SUMS_READ,
    SUMS_STORED,
    WARP_READS,
)
from trifold.spec import Call, TensorCase

_ROWS, _WARP_ROWS, _NORMS = "rows/row_stream.cuh", "rows/warp_rows.cuh", "rows/norms_backward.cuh"


def _norm(rows: int, columns: int, dtype: torch.dtype = torch.float32, *, parameters: int = 1) -> Call:
    numbers = (TensorCase((columns,), dtype, seed=1 + i) for i in range(parameters))
    return Call((TensorCase((rows, columns), dtype), *numbers))


# A block's 16 warps share a row, ten rows a block; the same of layer_norm, which has two sums.
_BLOCKS, _BLOCKS_WITH_TWO_SUMS = _norm(1320, 4096), _norm(1320, 4096, parameters=2)
# Of fewer columns than the block's threads hold; and rows that begin anywhere.
_NOT_FULL, _ODD = _norm(300, 4000), _norm(600, 4001)
# A row a warp, in bulk copies: two rows for each warp, and eight.
_WARPS, _MANY_WARPS = _norm(2048, 512, torch.float16), _norm(8000, 512, torch.float16)
# A row a warp, in copies of each lane.
_LANES = _norm(1500, 1000)
# Odd rows of half types, a cluster of two blocks for each.
_PAIRS = _norm(700, 10_001, torch.float16, parameters=2)

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
        Edit(_ROWS, "if (chunk == 0 && lead_ > 0) {", "if (chunk == 0 && lead_ > 1) {"),
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
        Edit(
            _ROWS,
            "return slot == begin_ + (Shape::slots - 1) * Shape::slot_bytes ?",
            "return slot == begin_ + Shape::slots * Shape::slot_bytes ?",
        ),
        "ring",
        "backward",
        "findings",
        _BLOCKS,
        small=_norm(56, 2052),
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
        Edit(_ROWS, "inline constexpr int sums_under_way = 4;", "inline constexpr int sums_under_way = 2;"),
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
        Edit(_ROWS, "    memory_.given[slot].wait(static_cast<unsigned>(row) / sums_under_way % 2);\n", ""),
        "mailbox",
        "backward",
        "jitter",
        _BLOCKS,
        small=_norm(24, 2052),
        at=SUMS_READ,
    ),
    fault(
        "a barrier counts one arrival a warp, and two come",
        "each warp has two sums, and a lane for each",
        "layer_norm",
        Edit(_ROWS, "blocks_ == 1 ? N * warps : 1", "blocks_ == 1 ? warps : 1"),
        "arrive",
        "backward",
        "gradients",
        _BLOCKS_WITH_TWO_SUMS,
        seconds=20,
        small=_norm(16, 2052, parameters=2),
        at=SUMS_READ,
    ),
    fault(
        "a pair of blocks does not wait for each other's sums",
        "the last row's are waited for elsewhere",
        "layer_norm",
        Edit(_ROWS, "    if (row > 0) wait(row - 1);\n", ""),
        "mailbox",
        "backward",
        "jitter",
        _PAIRS,
        small=_norm(12, 10_004, torch.float16, parameters=2),
        at=PAIR_SUMS_READ,
    ),
    fault(
        "mailboxes are not made known to the cluster",
        "the barrier of the cluster that follows was thought to do it, as it does where it has release semantics",
        "rms_norm",
        Edit(
            _NORMS,
            "  Mailbox::ready();\n  cluster_arrive_with_mailboxes();\n",
            "  cluster_arrive_with_mailboxes();\n",
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

WARPS = (
    fault(
        "the parity of a warp's rows is off by one",
        "a fresh barrier says of the odd phase that it has ended",
        "rms_norm",
        Edit(_WARP_ROWS, "come_[head_].wait(turn_);", "come_[head_].wait(turn_ ^ 1);"),
        "wait",
        "backward",
        "gradients",
        _WARPS,
        small=_norm(130, 264, torch.float16),
        at=WARP_READS,
    ),
    fault(
        "a mailbox is told of one copy's bytes, and two come",
        "the second copy was added later",
        "rms_norm",
        Edit(
            _WARP_ROWS,
            "Mailbox::arrive_and_expect(mailbox, 2 * bytes_);",
            "Mailbox::arrive_and_expect(mailbox, bytes_);",
        ),
        "arrive",
        "backward",
        "gradients",
        _MANY_WARPS,
        small=_norm(130, 264, torch.float16),
        at=WARP_READS,
    ),
    fault(
        "two warps do not wait for each other before they add up",
        "both have stored what the other one reads, in the same instruction",
        "rms_norm",
        Edit(
            _WARP_ROWS,
            '      asm volatile("bar.sync %0, %1;" ::"r"(1 + step * (warps / 2) + pair), "n"(2 * warp_threads) : '
            '"memory");\n',
            "",
        ),
        "barrier",
        "backward",
        "gradients",
        _WARPS,
        small=_norm(64, 264, torch.float16),
    ),
    fault(
        "sums of columns after the row's end are stored",
        "they are 0, and nobody reads them: but there lie the next block's",
        "rms_norm",
        Edit(_WARP_ROWS, "        if (column < columns) *there =", "        *there ="),
        "edge",
        "backward",
        "bounds",
        _WARPS,
        small=_norm(64, 264, torch.float16),
    ),
)

PARTS = (
    fault(
        "the numbers of a row after the last one are read ahead",
        "it is not used",
        "rms_norm",
        Edit(_NORMS, "    return row < count ? of_row[", "    return row <= count ? of_row["),
        "edge",
        "backward",
        "bounds",
        _WARPS,
        small=_norm(64, 264, torch.float16),
    ),
    fault(
        "sums are stored where other teams still read rows",
        "a team's own rows have been read",
        "rms_norm",
        Edit(_NORMS, "  __syncthreads();  // all have read their rows\n", ""),
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
        Edit(_NORMS, "four * 4, sum.value);\n  __syncthreads();\n", "four * 4, sum.value);\n"),
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
        "gradients",
        _WARPS,
        small=_norm(250, 128, torch.float16),
    ),
)

STREAM_FAULTS: tuple[Fault, ...] = (*RING, *SUMS, *WARPS, *PARTS)
