"""Wrong launches: an order of blocks that matters, limits of a GPU, unused kernels, results that torch computes."""

from __future__ import annotations

from tests.wrong.entry import Wrong, edits, gallery_launch

_ADD_LAUNCH = gallery_launch("add", "out", "x", "y")
_SWIGLU_LAUNCH = gallery_launch("swiglu", "out", "gate", "up")
_ROUND_LAUNCH = gallery_launch("round_ste", "y", "x")
_INDEX_OF_LOOP = "static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step)\n"

# Two sums by atomics instead of normal_sample's reductions.
SUMS_BY_ATOMICS = (
    "        plain = block_sum(plain - lost, of_warp)\n"
    "        weighted = block_sum(weighted - weighted_lost, of_warp)\n"
    "        if cuda.threadIdx.x == 0:\n"
    "            grad_mean[row] = plain\n            grad_std[row] = weighted\n",
    "        if cuda.threadIdx.x < 2:\n"
    "            of_warp[cuda.threadIdx.x] = 0.0\n        cuda.syncthreads()\n"
    "        cuda.atomic.add(of_warp, 0, plain - lost)\n"
    "        cuda.atomic.add(of_warp, 1, weighted - weighted_lost)\n        cuda.syncthreads()\n"
    "        if cuda.threadIdx.x == 0:\n"
    "            grad_mean[row] = of_warp[0]\n            grad_std[row] = of_warp[1]\n",
)

ORDER = (
    Wrong(
        name="a block reads the tile of its ticket and writes its own",
        why="tiles are handed out as blocks arrive; where blocks arrive in their order it is right",
        op="add",
        edits=edits(
            "prototype",
            ("from numba import cuda\nfrom torch", "import torch\nfrom numba import cuda, int64\nfrom torch"),
            (
                "def add_kernel(x, y, out, n):\n    i = cuda.grid(1)\n",
                "def add_kernel(x, y, out, n, tickets):\n"
                "    tile = cuda.shared.array(1, int64)\n"
                "    if cuda.threadIdx.x == 0:\n        tile[0] = cuda.atomic.add(tickets, 0, 1)\n"
                "    cuda.syncthreads()\n    i = cuda.grid(1)\n"
                "    j = min(tile[0] * cuda.blockDim.x + cuda.threadIdx.x, n - 1)\n",
            ),
            ("out[i] = x[i] + y[i]", "out[i] = x[j] + y[j]"),
            ("output(flat(out)), out.numel())", "output(flat(out)), out.numel(), output(torch.zeros(1).long()))"),
        ),
        row="findings",
        implementation="prototype",
        message="order",
    ),
    Wrong(
        name="a block reads the tile of its ticket and writes its own",
        why="tiles are handed out as blocks arrive; where blocks arrive in their order it is right",
        op="round_ste",
        edits=(
            *edits(
                "header",
                (
                    "round_ste_kernel(const T* x, T* y, int64_t n)",
                    "round_ste_kernel(const T* x, T* y, int64_t n, int* tickets)",
                ),
                (
                    "  using C = trifold::compute_t<T>;\n  const int64_t step",
                    "  using C = trifold::compute_t<T>;\n  __shared__ int tile;\n"
                    "  if (threadIdx.x == 0) tile = atomicAdd(tickets, 1);\n  __syncthreads();\n"
                    "  const int64_t ahead = (int64_t(tile) - blockIdx.x) * blockDim.x;\n  const int64_t step",
                ),
                ("C(x[i])", "C(x[min(i + ahead, n - 1)])"),
            ),
            *edits(
                "binding",
                (
                    _ROUND_LAUNCH,
                    "const Tensor dense = trifold::in_layout_of(y, x);\n"
                    "    const std::array<int64_t, 1> one{1};\n"
                    "    Tensor tickets = trifold::empty_contiguous(y, one, aoti_torch_dtype_int32());\n"
                    "    torch::stable::zero_(tickets);\n"
                    "    if (y.numel() > 0)\n"
                    "      trifold::launch<round_ste_kernel<T>>(trifold::Stream{}, "
                    "dim3(static_cast<unsigned>((y.numel() + 255) / 256)), 256, 0, trifold::data<T>(dense), "
                    "trifold::mutable_data<T>(y), y.numel(), trifold::mutable_data<int>(tickets));",
                ),
            ),
        ),
        row="findings",
        implementation="port",
        message="order",
    ),
    Wrong(
        name="a sum by atomics that is not declared",
        why="it takes one line; its last bits depend on the order in which threads arrive",
        op="normal_sample",
        edits=edits(
            "prototype",
            SUMS_BY_ATOMICS,
        ),
        row="findings",
        implementation="prototype",
        message="order",
    ),
)

LIMITS = (
    Wrong(
        name="a row of blocks for each row",
        why="blockIdx.y counts rows, of which a GPU takes 65,535, and no test had more",
        op="mul",
        edits=(
            *edits(
                "binding",
                (
                    gallery_launch("mul", "out", "x", "y"),
                    "const Tensor a = trifold::in_layout_of(out, x), b = trifold::in_layout_of(out, y);\n"
                    "    const unsigned columns = out.dim() == 0 ? 1 : out.size(out.dim() - 1);\n"
                    "    if (out.numel() > 0)\n"
                    "      trifold::launch<mul_rows_kernel<T>>(\n"
                    "          trifold::Stream{}, dim3((columns + 255) / 256, out.numel() / columns), 256, 0,\n"
                    "          trifold::data<T>(a), trifold::data<T>(b), trifold::mutable_data<T>(out), columns);",
                ),
            ),
            *edits(
                "header",
                (
                    "template <class T>\n__global__ void mul_vector_kernel",
                    "template <class T>\n"
                    "__global__ void mul_rows_kernel(const T* x, const T* y, T* out, unsigned columns) {\n"
                    "  using C = trifold::compute_t<T>;\n"
                    "  const unsigned column = blockIdx.x * blockDim.x + threadIdx.x;\n"
                    "  const int64_t i = int64_t{blockIdx.y} * columns + column;\n"
                    "  if (column < columns) out[i] = T(C(x[i]) * C(y[i]));\n"
                    "}\n\n"
                    "template <class T>\n__global__ void mul_vector_kernel",
                ),
            ),
        ),
        row="values",
        implementation="port",
        message="65535",
    ),
    Wrong(
        name="threads without an element return before the barrier",
        why="the guard of the index was put at the top, as in a kernel that has no barrier",
        op="mul",
        edits=edits(
            "header",
            (
                "  if (i < n) out[i] = T(C(x[i]) * C(y[i]));\n",
                "  if (i >= n) return;\n  __shared__ T staged[256];\n"
                "  const int other = 255 - threadIdx.x;\n"
                "  const int64_t j = i - threadIdx.x + other;\n"
                "  staged[other] = j < n ? x[j] : T(0);\n  __syncthreads();\n"
                "  out[i] = T(C(staged[threadIdx.x]) * C(y[i]));\n",
            ),
        ),
        row="findings",
        implementation="port",
        message="staged[",
    ),
    Wrong(
        name="threads without a column return before the barrier",
        why="a row shorter than the block was thought to need its own threads alone",
        op="softmax",
        edits=edits(
            "prototype",
            (
                "        largest = C(-math.inf)\n        for i",
                "        if cuda.threadIdx.x >= 32 and cuda.threadIdx.x >= columns:\n            return\n"
                "        largest = C(-math.inf)\n        for i",
            ),
        ),
        row="findings",
        implementation="prototype",
    ),
    Wrong(
        name="more threads than the launch bounds allow",
        why="the bounds were tuned with blocks of 128 threads, and the launch was changed later",
        op="sigmoid",
        edits=edits(
            "header", ("__global__ void sigmoid_kernel(", "__global__ void __launch_bounds__(128) sigmoid_kernel(")
        ),
        row="values",
        implementation="port",
        message="__launch_bounds__",
    ),
    Wrong(
        name="more than 64 threads in the third dimension of a block",
        why="a block may have as many threads in all, and 1,024 in each of the other dimensions",
        op="rope",
        edits=edits("prototype", ("ROPE_BLOCK // (across * down), 64)", "ROPE_BLOCK // (across * down))")),
        row="values",
        implementation="prototype",
        message="64",
    ),
    Wrong(
        name="more than 48 KiB of static shared memory",
        why="a table that grew by a column; a GPU's compiler refuses it",
        op="round_ste",
        edits=edits(
            "header",
            (
                "  using C = trifold::compute_t<T>;\n  const int64_t step",
                "  using C = trifold::compute_t<T>;\n  __shared__ double table[6145];\n"
                "  table[threadIdx.x] = 0;\n  const int64_t step",
            ),
        ),
        row="values",
        implementation="port",
        message="shared",
    ),
    Wrong(
        name="more than 48 KiB of static shared memory",
        why="a table that grew by a column; a GPU's compiler refuses it",
        op="round_ste",
        edits=edits(
            "prototype",
            ("from numba import cuda\n", "from numba import cuda, float64\n"),
            (
                "    step = cuda.gridsize(1)\n",
                "    step = cuda.gridsize(1)\n    table = cuda.shared.array(6145, float64)\n"
                "    table[cuda.threadIdx.x] = 0.0\n",
            ),
        ),
        row="findings",
        implementation="prototype",
        message="shared",
    ),
    Wrong(
        name="a kernel of the prototype that nothing launches",
        why="an idea that was tried and left",
        op="add",
        edits=edits(
            "prototype",
            (
                "def add(x: Tensor",
                "@cuda.jit\ndef add_wide_kernel(x, y, out, n):\n    i = cuda.grid(1)\n    if 2 * i < n:\n"
                "        out[2 * i] = x[2 * i] + y[2 * i]\n\n\ndef add(x: Tensor",
            ),
        ),
        row="branches",
        implementation="prototype",
        message="add_wide_kernel",
    ),
    Wrong(
        name="a kernel of the prototype that no input reaches",
        why="the condition for the fast path can never hold",
        op="swiglu",
        edits=edits(
            "prototype",
            (
                "def swiglu(gate",
                "@cuda.jit\ndef swiglu_fast_kernel(gate, up, out, n):\n    out[0] = gate[0] * up[0]\n\n\n"
                "def swiglu(gate",
            ),
            (
                "    out = elementwise_output(gate)  # as torch's silu(gate) * up\n",
                "    out = elementwise_output(gate)\n    if out.numel() < 0:\n"
                "        launch_elementwise(swiglu_fast_kernel, 1, gate, up, output(out), 1)\n",
            ),
        ),
        row="branches",
        implementation="prototype",
        message="swiglu_fast_kernel",
    ),
)

WRITTEN = (
    Wrong(
        name="torch overwrites what the kernel has written",
        why="a comparison with torch's own result was left in, the wrong way round",
        op="sigmoid",
        edits=edits("prototype", ("    return y\n", "    return y.copy_(torch.sigmoid(x))\n")),
        row="written",
        implementation="prototype",
    ),
    Wrong(
        name="the kernel is launched and torch's result returned",
        why="a comparison with torch's own result was left in",
        op="add",
        edits=edits("prototype", ("    return out\n", "    return x + y\n")),
        row="written",
        implementation="prototype",
    ),
    Wrong(
        name="torch computes the gradients of the weight",
        why="the second step of the sum over rows was to be written later",
        op="rms_norm",
        edits=edits(
            "prototype",
            (
                "        sum_parts(parts, grad_weight)\n",
                "        sum_parts(parts, grad_weight)\n        grad_weight.copy_(parts[0].double().sum(0))\n",
            ),
        ),
        row="written",
        implementation="prototype",
        message="gradient",
    ),
    Wrong(
        name="torch computes the mean",
        why="the sum of few numbers was left to torch",
        op="cross_entropy",
        edits=edits(
            "prototype",
            (
                "    return loss, residual, count\n",
                "    if reduction == MEAN:\n        loss.copy_(losses.double().sum() / count[0])\n"
                "    return loss, residual, count\n",
            ),
        ),
        row="written",
        implementation="prototype",
    ),
    Wrong(
        name="torch computes the gradients",
        why="backward is a product of two, for which no kernel seemed worth it",
        op="mul",
        edits=edits("port", ("return op.mul_backward(grad, x, y)", "return grad * y, grad * x")),
        row="written",
        implementation="prototype",
        message="gradient",
    ),
    Wrong(
        name="torch computes float16",
        why="the dtype that the kernel was not ready for",
        op="softmax",
        edits=edits(
            "port",
            ("from torch import Tensor\n", "import torch\nfrom torch import Tensor\n"),
            (
                "    y: Tensor = op.softmax(x)\n",
                "    if x.dtype == torch.float16:\n        return torch.softmax(x.contiguous(), -1)\n"
                "    y: Tensor = op.softmax(x)\n",
            ),
        ),
        row="written",
        implementation="prototype",
    ),
    Wrong(
        name="a copy by torch of what the kernel has written",
        why="the kernel wrote row-major memory, and the caller wanted another order",
        op="add",
        edits=edits(
            "binding",
            (
                "  return out;\n",
                "  Tensor copy = trifold::elementwise_output(x, y);\n  torch::stable::copy_(copy, out);\n"
                "  return copy;\n",
            ),
        ),
        row="written",
        implementation="port",
    ),
    Wrong(
        name="the host multiplies what the kernel has written",
        why="a loop in the binding finishes the result; memory of a GPU cannot even be reached there",
        op="swiglu",
        edits=(
            *edits(
                "header",
                ("T(silu<T>(C(gate[i])) * C(up[i]))", "T(silu<T>(C(gate[i])))"),
                ("return silu<T>(gate) * up;", "return silu<T>(gate);"),
            ),
            *edits(
                "binding",
                (
                    _SWIGLU_LAUNCH,
                    f"{_SWIGLU_LAUNCH}\n    using C = trifold::compute_t<T>;\n"
                    "    const Tensor dense = trifold::in_layout_of(out, up);\n"
                    "    T* const made = trifold::mutable_data<T>(out);\n"
                    "    for (int64_t i = 0; i < out.numel(); ++i)\n"
                    "      made[i] = T(C(made[i]) * C(trifold::data<T>(dense)[i]));",
                ),
            ),
        ),
        row="written",
        implementation="port",
    ),
)

LAUNCHES = (*ORDER, *LIMITS, *WRITTEN)
