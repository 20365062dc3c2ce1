"""Faults in the phases of barriers in shared memory, in the bytes that they count, in the reuse of slots, and at the
edges of what teams hold: in all row ops, forward and backward."""

from __future__ import annotations

import torch

from tests.wrong.entry import Edit
from tests.wrong.fault import EARLY_MESSAGES, Fault, fault
from tests.wrong.row_lines import (
    COLUMNS_READ,
    COLUMNS_WAIT,
    EDGE_READ,
    INIT,
    LANE_COPIES,
    LANE_EDGES,
    LANE_READS,
    SUMS_READ,
)
from trifold.spec import Call, IndexCase, TensorCase

_TEAMS, _COPIES, _PARTS = "rows/row_teams.cuh", "rows/column_copies.cuh", "rows/row_parts.cuh"
_TENSOR_ROWS, _GROUPS = "rows/tensor_rows.cuh", "rows/row_groups.cuh"
_ROWS, _NORMS = "rows/row_stream.cuh", "rows/norms_backward.cuh"


def _softmax(rows: int, columns: int) -> Call:
    return Call((TensorCase((rows, columns)),))


def _norm(rows: int, columns: int, dtype: torch.dtype = torch.float32, *, parameters: int = 1) -> Call:
    numbers = (TensorCase((columns,), dtype, seed=1 + i) for i in range(parameters))
    return Call((TensorCase((rows, columns), dtype), *numbers))


def _cross_entropy(rows: int, columns: int) -> Call:
    return Call((TensorCase((rows, columns), torch.float16), IndexCase((rows,), columns, seed=1)))


# Two teams per cluster, whose weights are multicast; with unaligned rows of half types, which are summed by tensor
# cores.
_PAIRS, _FEW_PAIRS = _norm(64, 12_000, parameters=2), _norm(4, 8_196, parameters=2)
_ODD_PAIRS, _FEW_ODD_PAIRS = _norm(256, 4201, torch.float16, parameters=2), _norm(9, 5_700, torch.float16, parameters=2)
# Two blocks for each row, backward.
_CLUSTERS, _FEW_CLUSTERS = _norm(600, 12_000, parameters=2), _norm(12, 7_172, parameters=2)
# A warp for each row, with copies by each lane.
_LANES, _FEW_LANES = _norm(1500, 1000), _norm(150, 252)
# A few rows at a time for a block of some warps.
_GROUPED, _FEW_GROUPED = _norm(8003, 1000, torch.float16), _norm(19, 504, torch.float16)

BYTES = (
    fault(
        "a cluster's messages are counted as one a block",
        "a block was one warp",
        "layer_norm",
        Edit(_ROWS, "arrived.arrive_and_expect(blocks_ * warps * static", "arrived.arrive_and_expect(blocks_ * static"),
        "arrive",
        "backward",
        "gradients",
        _CLUSTERS,
        seconds=20,
        small=_FEW_CLUSTERS,
        at=SUMS_READ,
    ),
    fault(
        "each block expects what it copies itself, not what comes to it",
        "that was the same before the copies were shared",
        "layer_norm",
        Edit(
            _COPIES,
            "mailbox.arrive_and_expect(vectors * vector_bytes);",
            "mailbox.arrive_and_expect(count * vector_bytes);",
        ),
        "arrive",
        "forward",
        "values",
        _PAIRS,
        seconds=20,
        small=_FEW_PAIRS,
        at=COLUMNS_READ,
    ),
    fault(
        "a team's sums are announced twice",
        "the first round's are announced where the kernel begins, which is elsewhere",
        "layer_norm",
        Edit(_TENSOR_ROWS, "if (round > 0 && thread == 0) mailbox", "if (thread == 0) mailbox"),
        "arrive",
        "forward",
        "values",
        _ODD_PAIRS,
        seconds=20,
        small=_FEW_ODD_PAIRS,
        at=INIT,
    ),
    fault(
        "weights are multicast to the first team's blocks alone",
        "a block's number in its team was taken for that in the cluster",
        "layer_norm",
        Edit(_COPIES, "blocks |= 1u << place.of(mate, place.rank);", "blocks |= 1u << place.rank;"),
        "copy",
        "forward",
        "values",
        _PAIRS,
        seconds=20,
        small=_FEW_PAIRS,
        at=COLUMNS_WAIT,
    ),
)

PHASES = (
    fault(
        "weights are read before they have come",
        "they were asked for before the row was read",
        "layer_norm",
        Edit(_COPIES, "    if (of_columns_ != nullptr) copy_mailbox(which).wait(0);\n", ""),
        "wait",
        "forward",
        "jitter",
        _PAIRS,
        small=_FEW_PAIRS,
        at=COLUMNS_READ,
    ),
    fault(
        "messages are sent to blocks that may not have begun",
        "the barrier of the cluster at the kernel's beginning was taken for one that waits",
        "cross_entropy",
        Edit(_TEAMS, "    if constexpr (mates == 1) cluster_wait();\n    if (lane", "    if (lane"),
        "wait",
        "forward",
        "jitter",
        _cross_entropy(400, 40_000),
        seconds=20,
        missed=EARLY_MESSAGES,
        small=_cross_entropy(3, 16_392),
        at=INIT,
    ),
    fault(
        "other teams' sums are read before they are stored",
        "a barrier stands before the sums are stored",
        "rms_norm",
        Edit(
            _NORMS,
            "      __syncthreads();\n      for (int i = max(0, ",
            "      for (int i = max(0, ",
        ),
        "barrier",
        "backward",
        "jitter",
        _LANES,
        small=_FEW_LANES,
    ),
    fault(
        "warps read the other warps' sums of a group of rows at once",
        "a group of one warp needs no barrier",
        "rms_norm",
        Edit(
            _GROUPS, "      __syncthreads();\n      float all = of_warp[0][row];", "      float all = of_warp[0][row];"
        ),
        "barrier",
        "forward",
        "findings",
        _GROUPED,
        small=_FEW_GROUPED,
    ),
)

SLOTS = (
    fault(
        "a row is copied to where other lanes still read its edge",
        "each lane copies to where it has read its own pieces",
        "rms_norm",
        Edit(_ROWS, "      __syncwarp();  // before others copy to there again\n", ""),
        "ring",
        "backward",
        "jitter",
        _norm(600, 4001),
        missed="lanes that a pause has delayed rejoin the others of their warp, so that all read before one copies; "
        "racecheck reports it, but on these rows a race of the right kernel's messages as well, which barriers in "
        "shared memory order",
        small=_norm(40, 4001),
        at=(*LANE_EDGES, *LANE_COPIES),
    ),
    fault(
        "a chunk more is asked for at the beginning than there is room for",
        "the chunk at the tail was not counted, as there is none yet",
        "softmax",
        Edit(
            _ROWS,
            "for (int chunk = 0; chunk < Shape::slots - Shape::chunks; ++chunk)",
            "for (int chunk = 0; chunk <= Shape::slots - Shape::chunks; ++chunk)",
        ),
        "ring",
        "backward",
        "gradients",
        _softmax(24, 140_000),
        small=_softmax(2, 131_076),
        at=(*LANE_READS, *LANE_COPIES),
    ),
    fault(
        "a team's mailbox is not made known to the cluster",
        "the barrier of the cluster that follows was thought to do it, as it does where it has release semantics",
        "cross_entropy",
        Edit(
            _TEAMS,
            "      Mailbox::ready();\n      mailbox.arrive_and_expect",
            "      mailbox.arrive_and_expect",
        ),
        "fence",
        "forward",
        "values",
        _cross_entropy(400, 40_000),
        missed="as of the mailboxes of the sums over rows: a block's own stores are made before another block's come",
        small=_cross_entropy(3, 16_392),
        at=INIT,
    ),
)

EDGES = (
    fault(
        "a thread too many has an edge of the row",
        "the first column after the row was taken for its last one",
        "cross_entropy",
        Edit(_PARTS, "if (at.thread < before + after) edge", "if (at.thread <= before + after) edge"),
        "edge",
        "forward",
        "bounds",
        _cross_entropy(300, 20_001),
        small=_cross_entropy(3, 20_001),
        at=EDGE_READ,
    ),
    fault(
        "of pieces that stick out of the row all is stored",
        "what is outside belongs to the row before or after, which stores it too",
        "cross_entropy",
        Edit(_PARTS, "            if (at.has(k, i)) row[at.column(k)", "            row[at.column(k)"),
        "edge",
        "backward",
        "bounds",
        _cross_entropy(300, 20_001),
        small=_cross_entropy(3, 20_001),
    ),
    fault(
        "rows that a group lacks are written",
        "all groups but the last one are full",
        "rms_norm",
        Edit(_GROUPS, "if (r < count_ && at_.touches(k)) write", "if (at_.touches(k)) write"),
        "edge",
        "forward",
        "bounds",
        _GROUPED,
        small=_FEW_GROUPED,
    ),
)

PHASE_FAULTS: tuple[Fault, ...] = (*BYTES, *PHASES, *SLOTS, *EDGES)
