"""Wrong kernels whose results are right: only the engine's checks detect the mistake."""

from __future__ import annotations

from tests.wrong.entry import Edit, Wrong, edits


def add_through_shared(elements: str, barrier: str) -> tuple[Edit, ...]:
    """add whose first operand passes through shared memory: each thread stages the element of another one."""
    return edits(
        "header",
        (
            "  if (i < n) out[i] = T(C(x[i]) + C(y[i]));\n",
            f"  __shared__ T staged[{elements}];\n"
            "  const int other = 255 - threadIdx.x;\n"
            "  const int64_t j = i - threadIdx.x + other;\n"
            "  staged[other] = j < n ? x[j] : T(0);\n"
            f"{barrier}"
            "  if (i < n) out[i] = T(C(staged[threadIdx.x]) + C(y[i]));\n",
        ),
    )


FINDINGS = (
    Wrong(
        name="every block writes all elements",
        why="the stride of the loop is the block's, not the grid's; each thread writes the same value",
        op="round_ste",
        edits=edits("prototype", ("step = cuda.gridsize(1)", "step = cuda.blockDim.x")),
        row="findings",
        implementation="prototype",
        message="race on global array element y[",
    ),
    Wrong(
        name="rows of many positions are added by atomics, although an order was asked for",
        why="one block for such a row is slow",
        op="embedding",
        edits=edits(
            "prototype",
            (
                "    if order is None:\n        _add_by_atomics",
                "    if order is None or indices.numel() // vocabulary >= MANY_POSITIONS:\n        _add_by_atomics",
            ),
        ),
        row="findings",
        implementation="prototype",
        message="the order of blocks and threads",
    ),
    Wrong(
        name="a barrier that the last block's idle threads do not reach",
        why="the guard of the index was put around all of the body",
        op="mul",
        edits=edits(
            "prototype",
            (
                "        out[i] = x[i] * y[i]\n",
                "        cuda.syncthreads()\n        out[i] = x[i] * y[i]\n    else:\n        cuda.syncthreads()\n",
            ),
        ),
        row="findings",
        implementation="prototype",
        message="barrier divergence",
    ),
    Wrong(
        name="an element of scratch memory is used before it is written",
        why="the neighbour's element is multiplied by 0 where there is no neighbour",
        op="sigmoid",
        edits=edits(
            "prototype",
            (
                "        v = x[i]\n",
                "        scratch = cuda.local.array(2, x.dtype)\n        scratch[0] = x[i]\n"
                "        v = scratch[0] if scratch[1] != scratch[0] else scratch[0]\n",
            ),
        ),
        row="findings",
        implementation="prototype",
        message="uninitialised",
    ),
    Wrong(
        name="every block writes all elements",
        why="the stride of the loop is the block's, not the grid's; each thread writes the same value",
        op="round_ste",
        edits=edits("header", ("step = static_cast<int64_t>(gridDim.x) * blockDim.x;", "step = blockDim.x;")),
        row="findings",
        implementation="port",
        message="race on global array element y[",
    ),
    Wrong(
        name="no barrier between the threads that write shared memory and those that read it",
        why="on a GPU it is often right: a warp writes before it reads",
        op="add",
        edits=add_through_shared("256", ""),
        row="findings",
        implementation="port",
        message="shared array element staged[",
    ),
    Wrong(
        name="threads without a column leave before the reduction",
        why="a guard at the top of a kernel is right until the kernel has a barrier",
        op="normal_sample",
        edits=edits(
            "prototype",
            (
                "        plain = block_sum(plain - lost, of_warp)\n",
                "        if cuda.threadIdx.x > columns:\n            return\n"
                "        plain = block_sum(plain - lost, of_warp)\n",
            ),
        ),
        row="findings",
        implementation="prototype",
        message="divergence",
    ),
    Wrong(
        name="threads without a column leave before the reduction",
        why="a guard at the top of a kernel is right until the kernel has a barrier",
        op="normal_sample",
        edits=edits(
            "header",
            (
                "    const auto sums = trifold::block_sum<backward_block>(",
                "    if ((first / 4 + threadIdx.x) * 4 >= first + columns) return;\n"
                "    const auto sums = trifold::block_sum<backward_block>(",
            ),
        ),
        row="findings",
        implementation="port",
        message="shared array element of_warp[",
    ),
    Wrong(
        name="shared memory is an element too small",
        why="255 is the last index",
        op="add",
        edits=add_through_shared("255", "  __syncthreads();\n"),
        row="findings",
        implementation="port",
        message="out-of-bounds write of shared array element staged[255]",
    ),
    Wrong(
        name="the last element of shared memory is used before it is written",
        why="the guard of a neighbour's element was put around the thread's own",
        op="sigmoid",
        edits=edits(
            "header",
            (
                "  if (i < n) y[i] = T(sigmoid_of<T>(C(x[i])));\n",
                "  __shared__ T staged[256];\n"
                "  if (i + 1 < n) staged[threadIdx.x] = x[i];\n"
                "  if (i < n) y[i] = T(sigmoid_of<T>(C(staged[threadIdx.x])));\n",
            ),
        ),
        row="findings",
        implementation="port",
        message="uninitialised read of shared array element staged[",
    ),
    Wrong(
        name="a barrier that the last block's idle threads do not reach",
        why="the guard of the index was put around all of the body",
        op="mul",
        edits=edits(
            "header",
            (
                "  if (i < n) out[i] = T(C(x[i]) * C(y[i]));\n",
                "  if (i < n) {\n    __syncthreads();\n    out[i] = T(C(x[i]) * C(y[i]));\n"
                "  } else {\n    __syncthreads();\n  }\n",
            ),
        ),
        row="findings",
        implementation="port",
        message="barrier divergence",
    ),
    Wrong(
        name="the class in a row's tail is written by two threads",
        why="a piece that begins beyond the last 16-byte boundary was taken for one of the row",
        op="cross_entropy",
        edits=edits("header", ("target.column < at.columns && at.template", "at.template")),
        row="findings",
        implementation="port",
        message="race on global array element residual[",
    ),
)
