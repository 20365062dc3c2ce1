"""Wrong uses of a GPU."""

from __future__ import annotations

from tests.wrong.entry import POINTERS, Wrong, edits, gallery_launch, launch_plain

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
)
