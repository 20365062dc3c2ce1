"""Faults between the warps of a block and between blocks, in ops whose rows are in no cluster.

The checks on the CPU find most of them too; here a GPU's rows must.
"""

from __future__ import annotations

import torch

from tests.wrong.entry import Edit
from tests.wrong.fault import Fault, fault
from tests.wrong.row_lines import CANDIDATES, EXPS_READ
from trifold.spec import Call, IndexCase, TensorCase


def _call(*shape: int, dtype: torch.dtype = torch.float32) -> Call:
    return Call((TensorCase(shape, dtype),))


LOOK_BACK = (
    fault(
        "a tile says that it has its sum before it stores that",
        "the fence is there, so the order was thought to be, too",
        "cumsum",
        Edit(
            "header",
            "    *to = value;\n    __threadfence();\n    atomicExch(state, says);\n",
            "    atomicExch(state, says);\n    __threadfence();\n    *to = value;\n",
        ),
        "fence",
        "forward",
        "jitter",
        _call(1, 3_000_000),
        small=_call(1, 40_000),
    ),
    fault(
        "the other warps do not wait for the sum that one looks up",
        "there is a barrier in the loop already, at its beginning",
        "cumsum",
        Edit(
            "header",
            "    __syncthreads();\n    share.template store<team>(y + row * columns, first, columns, reverse, "
            "sum_t<T>(carry) + sums.before);\n  }\n",
            "    share.template store<team>(y + row * columns, first, columns, reverse, sum_t<T>(carry) + "
            "sums.before);\n  }\n",
        ),
        "barrier",
        "backward",
        "gradients",
        _call(1, 300_000),
    ),
    fault(
        "a tile's sums are written while warps read those of the tile before",
        "the barrier between writing and reading was thought to be all",
        "cumsum",
        Edit("header", "    }\n    __syncthreads();\n    return sums;\n", "    }\n    return sums;\n"),
        "barrier",
        "forward",
        "findings",
        # As many rows as make two tiles for each block.
        _call(600, 4200, dtype=torch.float64),
    ),
)

BARRIERS = (
    fault(
        "the losses are made of the parts that the other warps have by then",
        "the first warp is the last one to end, as it has the most parts",
        "cross_entropy",
        Edit("header", "  __syncthreads();\n  if (warp > 0) return;\n", "  if (warp > 0) return;\n"),
        "barrier",
        "forward",
        "findings",
        # More than two rows for each cluster that can be resident: blocks then take them round-robin.
        Call((TensorCase((800, 17_000)), IndexCase((800,), 17_000, seed=1)), {"reduction": "none"}),
        at=EXPS_READ,
    ),
    fault(
        "no barrier after a step of a sort across warps",
        "what the next step compares is of one warp",
        "topk",
        Edit(
            "header",
            "if (max(distance, distance_before) > trifold::warp_threads)",
            "if (distance > trifold::warp_threads)",
        ),
        "barrier",
        "forward",
        "findings",
        Call((TensorCase((4, 5000)), 64)),  # few rows: racecheck takes seconds for each
        seconds=30.0,
        at=CANDIDATES,
    ),
    fault(
        "no barrier of the warp between the steps of a sort within it",
        "the lanes of a warp went in step on older GPUs",
        "topk",
        Edit("header", "        __syncthreads();\n      else\n        __syncwarp();\n", "        __syncthreads();\n"),
        "barrier",
        "forward",
        "findings",
        Call((TensorCase((4, 5000)), 64)),  # few rows: racecheck takes seconds for each
        seconds=30.0,
        at=CANDIDATES,
    ),
    fault(
        "the next tile overwrites what warps still multiply",
        "each thread waits for its copies, and only for these",
        "matmul_tiled",
        Edit("header", "trifold::wait_for_all_copies();\n    __syncthreads();", "trifold::wait_for_all_copies();\n   "),
        "barrier",
        "forward",
        "findings",
        Call((TensorCase((70, 100)), TensorCase((100, 90), seed=1))),
    ),
    fault(
        "a tile is read by columns before its rows are there",
        "a warp reads what it has written, where it reads rows",
        "transpose",
        Edit(
            "header",
            " = element[step][part];\n    }\n    __syncthreads();\n",
            " = element[step][part];\n    }\n",
        ),
        "barrier",
        "forward",
        "findings",
        _call(70, 90),
    ),
    fault(
        "counters are set to 0 while other warps count",
        "the wait for earlier kernels was taken for a barrier",
        "histogram",
        Edit(
            "header",
            "  __syncthreads();\n  unsigned* const of_lane",
            "  unsigned* const of_lane",
        ),
        "barrier",
        "forward",
        "findings",
        Call((TensorCase((70_001,)), 100, -2.0, 2.0)),
    ),
)

BLOCK_FAULTS: tuple[Fault, ...] = (*LOOK_BACK, *BARRIERS)
