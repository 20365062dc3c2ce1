"""Wrong uses of a GPU."""

from __future__ import annotations

from tests.wrong.entry import POINTERS, Edit, Wrong, edits, gallery_launch, launch_plain
from tests.wrong.findings import add_through_shared

_LAUNCH = gallery_launch("round_ste", "y", "x")
_ADD_LAUNCH = gallery_launch("add", "out", "x", "y")
_TAIL = "  return y;\n"
_SHOWN_BY_TIME = "the time that threads take shows in"


def _staged_add(other: str, ready: str, own: str = "") -> tuple[Edit, ...]:
    """add whose first operand passes through shared memory: each thread stages the element of another one of its block.

    Args:
        other: the number of that thread.
        ready: code between writing and reading.
        own: code before that.
    """
    return edits(
        "header",
        (
            "  if (i < n) out[i] = T(C(x[i]) + C(y[i]));\n",
            f"  __shared__ T staged[256];\n{own}"
            f"  const int other = {other};\n"
            "  const int64_t j = i - threadIdx.x + other;\n"
            "  staged[other] = j < n ? x[j] : T(0);\n"
            f"{ready}"
            "  if (i < n) out[i] = T(C(staged[threadIdx.x]) + C(y[i]));\n",
        ),
    )


def _plain_only(op: str) -> tuple[Edit, ...]:
    """The op launches only its plain kernel; the vector kernel would be used for all aligned tensors."""
    return edits("binding", (f"{op}_kernel<T>, {op}_vector_kernel<T>, T>", f"{op}_kernel<T>, nullptr, T>"))


# A read whose value is unused, but which no compiler omits.
_READ = "(void)*reinterpret_cast<const volatile char*>({})"

BOUNDS_ON_GPU = (
    Wrong(
        name="i <= n on a GPU",
        why="the guard of the last block is off by one",
        op="add",
        edits=(*edits("header", ("if (i < n)", "if (i <= n)")), *_plain_only("add")),
        row="bounds",
        implementation="port",
        device="cuda",
    ),
    Wrong(
        name="reads one element past the end, on a GPU",
        why="the next element is loaded ahead, the last one's too",
        op="sigmoid",
        edits=(
            *edits("header", ("if (i < n) y[i] =", f"if (i < n) {_READ.format('x + i + 1')}, y[i] =")),
            *_plain_only("sigmoid"),
        ),
        row="bounds",
        implementation="port",
        device="cuda",
        message="a read past the end of a tensor",
    ),
    Wrong(
        name="reads one element before the start, on a GPU",
        why="a stencil's neighbour at the border",
        op="sigmoid",
        edits=(
            *edits("header", ("if (i < n) y[i] =", f"if (i < n) {_READ.format('x + i - 1')}, y[i] =")),
            *_plain_only("sigmoid"),
        ),
        row="bounds",
        implementation="port",
        device="cuda",
        message="a read before the start of a tensor",
    ),
    Wrong(
        name="writes one element before the start, on a GPU",
        why="a carry is stored in front of the first element",
        op="sigmoid",
        edits=(
            *edits("header", ("if (i < n) y[i] =", "if (i == 0) y[-1] = T(0);\n  if (i < n) y[i] =")),
            *_plain_only("sigmoid"),
        ),
        row="bounds",
        implementation="port",
        device="cuda",
        message="before the start of",
    ),
    Wrong(
        name="backward reads past the end, on a GPU",
        why="the next element is loaded ahead, in the kernel that the forward tests do not run",
        op="sigmoid",
        edits=(
            *edits("header", ("if (i < n) grad_x[i] =", f"if (i < n) {_READ.format('grad_y + n')}, grad_x[i] =")),
            *_plain_only("sigmoid_backward"),
        ),
        row="bounds",
        implementation="port",
        device="cuda",
        message="in sigmoid_backward_kernel<",
    ),
    Wrong(
        name="the last element is not written, on a GPU",
        why="i < n - 1 was meant for an index",
        op="sigmoid",
        edits=(*edits("header", ("if (i < n) y[i] =", "if (i < n - 1) y[i] =")), *_plain_only("sigmoid")),
        row="bounds",
        implementation="port",
        device="cuda",
    ),
    Wrong(
        name="i <= n, a prototype on a GPU",
        why="the guard of the last block is off by one",
        op="add",
        edits=edits("prototype", ("if i < n:", "if i <= n:")),
        row="bounds",
        implementation="prototype",
        device="cuda",
    ),
    Wrong(
        name="reads one element past the end, a prototype on a GPU",
        why="the last element looks at its neighbour, too",
        op="round_ste",
        edits=edits(
            "prototype",
            (
                "        y[i] = 1 if x[i] > 0.5 else 0\n",
                "        y[i] = 1 if x[i] > 0.5 else 0\n        if x[i + 1] == 12345.5:\n            y[i] = 2\n",
            ),
        ),
        row="bounds",
        implementation="prototype",
        device="cuda",
        message="a read past the end of a tensor",
    ),
    Wrong(
        name="writes one element before the start, a prototype on a GPU",
        why="Numba adds the length to a negative index, once",
        op="round_ste",
        edits=edits("prototype", ("    while i < n:\n", "    if i == 0:\n        y[-n - 1] = 0\n    while i < n:\n")),
        row="bounds",
        implementation="prototype",
        device="cuda",
        message="before the start of",
    ),
    Wrong(
        name="backward reads past the end, a prototype on a GPU",
        why="the last element looks at its neighbour, too",
        op="sigmoid",
        edits=edits(
            "prototype",
            (
                "        grad_x[i] = grad_y[i] * ((ONE - y[i]) * y[i])\n",
                "        grad_x[i] = grad_y[i] * ((ONE - y[i]) * y[i])\n"
                "        if grad_y[n] == 12345.5:\n            grad_x[i] = 2\n",
            ),
        ),
        row="bounds",
        implementation="prototype",
        device="cuda",
        message="in sigmoid_backward_kernel",
    ),
    Wrong(
        name="the grid is rounded down, a prototype on a GPU",
        why="n // 256 blocks leave out the last, partial one",
        op="round_ste",
        edits=edits("prototype", ("-(-y.numel() // THREADS_PER_BLOCK)", "y.numel() // THREADS_PER_BLOCK")),
        row="bounds",
        implementation="prototype",
        device="cuda",
    ),
)

GPU = (
    Wrong(
        name="the default stream",
        why="a launch without a stream runs in it",
        op="round_ste",
        edits=edits(
            "binding",
            (
                _LAUNCH,
                "const Tensor dense = trifold::in_layout_of(y, x);\n"
                "    const trifold::OnDevice device(y);\n"
                f"    {launch_plain('round_ste_kernel', 'y', 'trifold::data<T>(dense)')}",
            ),
        ),
        row="stream",
        implementation="port",
        device="cuda",
        message="another stream",
    ),
    Wrong(
        name="the call waits for the device",
        why="cudaDeviceSynchronize was left in from a search for an error",
        op="round_ste",
        edits=edits("binding", (_TAIL, f"  cudaDeviceSynchronize();\n{_TAIL}")),
        row="no sync",
        implementation="port",
        device="cuda",
        message="synchronises",
    ),
    Wrong(
        name="a call is said to wait, and does not",
        why="the statement stayed when the number was no longer read",
        op="round_ste",
        edits=edits("spec", ("spec = Spec(\n", 'spec = Spec(\n    waits_for_gpu="the size is read",\n')),
        row="no sync",
        implementation="port",
        device="cuda",
        message="no call waits for the device",
    ),
    Wrong(
        name="not capturable in a graph",
        why="scratch memory from cudaMalloc at each call",
        op="round_ste",
        edits=edits(
            "binding",
            (_TAIL, f"  void* scratch;\n  require(cudaMalloc(&scratch, 1024));\n  cudaFree(scratch);\n{_TAIL}"),
            (
                "namespace {\n",
                "namespace {\n\nvoid require(cudaError_t error) {\n"
                '  trifold::check(error == cudaSuccess, "round_ste: ", cudaGetErrorString(error));\n}\n',
            ),
        ),
        row="graph",
        implementation="port",
        device="cuda",
    ),
    Wrong(
        name="no barrier after shared memory was read",
        why="with one tile a block, which tests have, nothing is overwritten",
        op="matmul_tiled",
        edits=edits(
            "header",
            (
                "trifold::wait_for_all_copies();\n    __syncthreads();",
                "trifold::wait_for_all_copies();\n    if (first_k == 0) __syncthreads();",
            ),
        ),
        row="jitter",
        implementation="port",
        device="cuda",
        message=_SHOWN_BY_TIME,
    ),
    Wrong(
        name="no barrier before shared memory is read",
        why="warps that begin together write together",
        op="add",
        edits=_staged_add("255 - threadIdx.x", ""),
        row="jitter",
        implementation="port",
        device="cuda",
        message=_SHOWN_BY_TIME,
    ),
    Wrong(
        name="no barrier of a warp before its lanes read what others wrote",
        why="a warp's lanes were in lockstep before Volta",
        op="add",
        edits=_staged_add("threadIdx.x ^ 1", ""),
        row="findings",  # jitter does not show it: lanes that a pause has delayed rejoin the others of their warp
        implementation="port",
        device="cuda",
        message="race on shared memory",
    ),
    Wrong(
        name="one thread's flag for what all threads wrote",
        why="a fence in front of the flag orders that thread's own writes alone",
        op="add",
        edits=_staged_add(
            "255 - threadIdx.x",
            "  if (threadIdx.x == 255) atomicExch(&ready, 1);\n  while (atomicAdd(&ready, 0) == 0) continue;\n",
            "  __shared__ int ready;\n  if (threadIdx.x == 0) ready = 0;\n  __syncthreads();\n",
        ),
        row="jitter",
        implementation="port",
        device="cuda",
        message=_SHOWN_BY_TIME,
    ),
    Wrong(
        name="no device guard",
        why="the current device is the tensors' own wherever there is one",
        op="round_ste",
        edits=edits(
            "binding",
            (
                _LAUNCH,
                "const Tensor dense = trifold::in_layout_of(y, x);\n"
                "    trifold::Stream stream;\n"
                "    TORCH_ERROR_CODE_CHECK(aoti_torch_get_current_cuda_stream(0, &stream.handle));\n"
                f"    {launch_plain('round_ste_kernel', 'y', 'trifold::data<T>(dense)', stream='stream')}",
            ),
        ),
        row="second device",
        implementation="port",
        device="cuda",
    ),
    Wrong(
        name="an index in 32 bits",
        why="int is the type that comes to mind for an index",
        op="add",
        edits=(
            *edits(
                "header",
                (
                    "const int64_t i = trifold::thread_index();",
                    "const int i = blockIdx.x * blockDim.x + threadIdx.x;",
                ),
                ("if (i < n)", "if (i >= 0 && i < n)"),
            ),
            *edits("binding", (_ADD_LAUNCH, launch_plain("add_kernel", "out", *POINTERS))),
        ),
        row="property: large",
        implementation="port",
        device="cuda",
    ),
    Wrong(
        name="no barrier after a write to shared memory",
        why="a warp writes before it reads, and so do, mostly, the others",
        op="add",
        edits=add_through_shared("256", ""),
        row="findings",
        implementation="port",
        device="cuda",
        message="race on shared memory",
    ),
    Wrong(
        name="a zero past the end",
        why="it ended a list of another kernel, which was copied",
        op="add",
        edits=edits("header", ("  if (i < n) out[i] =", "  if (i + 1 == n) out[n] = T(0);\n  if (i < n) out[i] =")),
        row="findings",
        implementation="port",
        device="cuda",
        message="past the end of",
    ),
    Wrong(
        name="a barrier for half a warp",
        why="the other half had nothing to stage",
        op="mul",
        edits=edits(
            "header",
            (
                "  if (i < n) out[i] = T(C(x[i]) * C(y[i]));\n",
                "  if (threadIdx.x < 16) __syncthreads();\n  if (i < n) out[i] = T(C(x[i]) * C(y[i]));\n",
            ),
        ),
        row="findings",
        implementation="port",
        device="cuda",
        message="barrier divergence in kernel mul_kernel<",
    ),
    Wrong(
        name="only what differs is written",
        why="it saves writes where a result is computed again in place; a new one holds anything",
        op="sigmoid",
        edits=edits(
            "header",
            (
                "  if (i < n) y[i] = T(sigmoid_of<T>(C(x[i])));\n",
                "  if (i >= n) return;\n  const T v = T(sigmoid_of<T>(C(x[i])));\n"
                "  if (!(C(y[i]) == C(v))) y[i] = v;\n",
            ),
        ),
        row="findings",
        implementation="port",
        device="cuda",
        message="uninitialised read in kernel sigmoid_kernel<",
    ),
    Wrong(
        name="no barrier after a write to shared memory",
        why="a warp writes before it reads, and so do, mostly, the others",
        op="add",
        edits=edits(
            "prototype",
            (
                "    if i < n:\n        out[i] = x[i] + y[i]\n",
                "    staged = cuda.shared.array(256, x.dtype)\n    staged[255 - cuda.threadIdx.x] = i\n    if i < n:\n"
                "        out[i] = x[i] + y[i] if staged[cuda.threadIdx.x] >= 0 else x[i]\n",
            ),
        ),
        row="findings",
        implementation="prototype",
        device="cuda",
        message="race on shared memory",
    ),
)
