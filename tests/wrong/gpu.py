"""Wrong uses of a GPU."""

from __future__ import annotations

from tests.wrong.entry import POINTERS, Wrong, edits, gallery_launch, launch_plain
from tests.wrong.findings import add_through_shared

_LAUNCH = gallery_launch("round_ste", "y", "x")
_ADD_LAUNCH = gallery_launch("add", "out", "x", "y")
_TAIL = "  return y;\n"

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
        name="a write behind the end",
        why="the guard of the last block is off by one",
        op="add",
        edits=edits("header", ("if (i < n)", "if (i <= n)")),
        row="bounds",
        implementation="port",
        device="cuda",
        message="behind the end",
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
        message="out-of-bounds in kernel add_kernel<",
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
