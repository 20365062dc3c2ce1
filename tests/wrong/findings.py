"""Wrong kernels whose results are right: only the engine's checks see the mistake."""

from __future__ import annotations

from tests.wrong.entry import Wrong, edits

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
)
