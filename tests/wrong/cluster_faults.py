"""Faults in forward kernels whose rows are shared by the blocks of a cluster: in registers, and in streams."""

from __future__ import annotations

import torch

from tests.wrong.entry import Edit
from tests.wrong.fault import EARLY_MESSAGES, Fault, fault
from tests.wrong.row_lines import (
    COLUMN_EDGE_READ,
    EXPS_READ,
    LANE_READS,
    MOMENTS_READ,
    MULTICAST,
    POSTS_READ,
    TEAM_WAITS,
)
from trifold.spec import Call, TensorCase

_TEAMS, _COPIES, _TENSOR_ROWS = "rows/row_teams.cuh", "rows/column_copies.cuh", "rows/tensor_rows.cuh"
_STREAM, _ROWS = "rows/norm_stream.cuh", "rows/row_stream.cuh"


def _softmax(rows: int, columns: int, dtype: torch.dtype = torch.float32) -> Call:
    return Call((TensorCase((rows, columns), dtype),))


def _layer_norm(rows: int, columns: int, dtype: torch.dtype = torch.float32) -> Call:
    x, weight, bias = ((rows, columns), (columns,), (columns,))
    return Call((TensorCase(x, dtype), TensorCase(weight, dtype, seed=1), TensorCase(bias, dtype, seed=2)))


# Rows of one cluster of two blocks.
_IN_REGISTERS = _softmax(64, 20_000)
# Two teams of four blocks, which hold two rows each; and half types at any alignment, of one block each.
_PAIRS, _ODD_PAIRS = _layer_norm(64, 12_000), _layer_norm(256, 4201, torch.float16)
# Streams of four blocks: with one or two rows for each; and with a dozen, so that slots are reused.
_STREAMED, _LONG_STREAMED = _layer_norm(40, 20_000), _layer_norm(400, 20_000)
# So few unaligned rows that they are streamed, by a cluster of eight blocks each.
_ODD_STREAMED = _layer_norm(14, 30_001)

TEAMS = (
    fault(
        "the warps' messages are read before they have come",
        "on one block, whose warps are in step, they had come",
        "softmax",
        Edit(_TEAMS, "    mailbox.wait(0);\n    return {of_warp", "    return {of_warp"),
        "mailbox",
        "forward",
        "values",
        _IN_REGISTERS,
        small=_softmax(2, 16_388),
        at=EXPS_READ,
    ),
    fault(
        "a mailbox expects the bytes of one block's warps",
        "blockDim.x is how many threads there are, until a team is several blocks",
        "softmax",
        Edit(
            _TEAMS,
            "mailbox.arrive_and_expect(at.threads / warp_threads *",
            "mailbox.arrive_and_expect(static_cast<int>(blockDim.x) / warp_threads *",
        ),
        "arrive",
        "backward",
        "gradients",
        # In half types: the forward pass then needs one block, the backward pass two.
        _softmax(64, 12_000, torch.float16),
        small=_softmax(2, 12_000, torch.float16),
        at=POSTS_READ,
    ),
    fault(
        "a mailbox is made for two arrivals, and one comes",
        "whoever announces the bytes was counted beside the one who arrives: it is the same thread",
        "softmax",
        Edit(_TEAMS, "      mailbox.init(1);\n", "      mailbox.init(2);\n"),
        "arrive",
        "forward",
        "values",
        _IN_REGISTERS,
        seconds=20,
        small=_softmax(2, 16_388),
        at=TEAM_WAITS,
    ),
    fault(
        "copies to all blocks of a cluster begin before these have made their mailboxes",
        "the blocks of a cluster start together, so nearly always they have",
        "layer_norm",
        Edit(_TEAMS, "  if constexpr (mates > 1) cluster_wait();\n", ""),
        "wait",
        "forward",
        "jitter",
        _PAIRS,
        seconds=20,
        missed=EARLY_MESSAGES,
        small=_layer_norm(4, 8_196),
        at=MULTICAST,
    ),
    fault(
        "a 16-byte vector too many of the weights is copied",
        "rounding up was done twice: by adding a whole vector instead of one less than it has",
        "layer_norm",
        Edit(_COPIES, "min((left + size - 1) / size,", "min((left + size) / size,"),
        "copy",
        "forward",
        "bounds",
        # 20,992 bytes of weights, a multiple of 512: no padding follows them.
        _layer_norm(64, 5248),
        small=_layer_norm(4, 5248),
        at=MULTICAST,
    ),
    fault(
        "threads read the numbers that others fill in, without a barrier",
        "it was taken for filled by the threads that read it",
        "layer_norm",
        Edit(_COPIES, "all(otherwise);\n    __syncthreads();\n", "all(otherwise);\n"),
        "barrier",
        "forward",
        "findings",
        Call((TensorCase((64, 5001)), None, None)),
        small=Call((TensorCase((16, 5001)), None, None)),
    ),
    fault(
        "an odd row's edges are one column too many",
        "the first column after the row was taken for its last one",
        "layer_norm",
        Edit(_TENSOR_ROWS, "if (edge_column_ >= columns_) return;", "if (edge_column_ > columns_) return;"),
        "edge",
        "forward",
        "bounds",
        _ODD_PAIRS,
        small=_layer_norm(9, 5_700, torch.float16),
        at=COLUMN_EDGE_READ,
    ),
    fault(
        "two rows' sums are read before they have come",
        "the sender has waited, which was taken for all",
        "layer_norm",
        Edit(_TENSOR_ROWS, "    mailbox.wait(round);\n", ""),
        "mailbox",
        "forward",
        "values",
        _ODD_PAIRS,
        small=_layer_norm(9, 5_700, torch.float16),
    ),
)

STREAMS = (
    fault(
        "a streamed row is read before its copy has come",
        "it was asked for long ago, but for the first rows",
        "layer_norm",
        Edit(_STREAM, "      stream.wait(0);\n", ""),
        "wait",
        "forward",
        "values",
        _STREAMED,
        small=_layer_norm(4, 16_388),
        at=LANE_READS,
    ),
    fault(
        "the parity of the team's mail is off by one",
        "a fresh barrier says of the odd phase that it has ended",
        "layer_norm",
        Edit(_ROWS, "(row) / rows_in_flight % 2);", "(row + rows_in_flight) / rows_in_flight % 2);"),
        "mailbox",
        "forward",
        "jitter",
        _LONG_STREAMED,
        small=_layer_norm(12, 16_388),
        at=MOMENTS_READ,
    ),
    fault(
        "the piece that sticks out of a row is written as a whole",
        "what is outside belongs to the row before or after, which writes it too",
        "layer_norm",
        Edit(_ROWS, "write_if<T>(there && has_all(k),", "write_if<T>(there && has(k),"),
        "edge",
        "forward",
        "values",
        _ODD_STREAMED,
        small=_layer_norm(3, 30_001),
    ),
)

CLUSTER_FAULTS: tuple[Fault, ...] = (*TEAMS, *STREAMS)
