"""Right implementations that are written differently from the gallery's: the verification must not reject them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tests.wrong.entry import Edit, edited_copy, edits, gallery_launch
from tests.wrong.launches import SUMS_BY_ATOMICS
from trifold.workspace import Workspace


@dataclass(frozen=True, kw_only=True)
class Right:
    """A right variant.

    Attributes:
        name: what is written differently.
        why: the reason why it is as right.
        op: of the gallery.
        edits: turn the op into the variant.
        rows: the checks of what was changed, which must pass.
        implementation: the changed one.
    """

    name: str
    why: str
    op: str
    edits: tuple[Edit, ...]
    rows: tuple[str, ...]
    implementation: Literal["prototype", "port"]

    def __str__(self) -> str:
        return f"{self.op} {self.implementation}: {self.name}"

    def write(self, root: Path) -> Workspace:
        """A workspace in ``root`` that contains only the variant."""
        return edited_copy(self.op, self.edits, root)


_MUL_KERNEL = "template <class T>\n__global__ void mul_kernel"
_MUL_LAUNCH = gallery_launch("mul", "out", "x", "y")
_EVEN = """template <class T, class C>
__device__ __forceinline__ T to_even(C value) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    const uint32_t bits = std::bit_cast<uint32_t>(float(value));
    if (value != value) return T(value);
    return T(std::bit_cast<float>((bits + 0x7fffu + (bits >> 16 & 1u)) & 0xffff0000u));
  } else {
    return T(value);
  }
}

"""
GRADIENT_OF_ONE = (
    *edits(
        "port",
        (
            '    op.autograd("sigmoid_backward",',
            "    define = 'sigmoid_backward_of_one(Tensor grad_y, Tensor y) -> Tensor'\n"
            "    op.define(define, fake=elementwise_output)\n"
            "    op.autograd('sigmoid_backward_of_one', save=['grad_y', 'y'], backward=_backward_of_backward)\n"
            '    op.autograd("sigmoid_backward",',
        ),
        (
            "backward=lambda ctx, grad_y: op.sigmoid_backward(",
            "backward=lambda ctx, grad_y: (\n"
            "            op.sigmoid_backward_of_one if grad_y.numel() == 1 else op.sigmoid_backward)(",
        ),
    ),
    *edits(
        "prototype",
        (
            "def sigmoid_backward(",
            "def sigmoid_backward_of_one(g, y):\n    return sigmoid_backward(g, y)\n\n\ndef sigmoid_backward(",
        ),
    ),
)
_E = "        e = math.exp(v if v < 0 else -v)  # at most 1: no branch overflows\n"
_QUOTIENT = "        y[i] = (e if v < 0 else ONE) / (ONE + e)\n"
_SUM_OF_SQUARES = (
    "        for i in range(cuda.threadIdx.x, columns, cuda.blockDim.x):\n"
    "            squares, lost = add_compensated(squares, lost, x[row, i] * x[row, i])\n"
)
_RSTD = "    r = 1 / math.sqrt(block_sum(total, of_warp) / columns + eps)\n"
_MEAN = (
    "            total, lost = add_compensated(total, lost, x[row, i])\n"
    "        m = block_sum(total - lost, of_warp) / C(columns)\n"
)

_MAXIMUM_AND_SUM = """        for i in range(cuda.threadIdx.x, columns, cuda.blockDim.x):
            largest = larger(largest, x[row, i])
        largest = block_max(largest, of_warp)
        total, lost = C(0), C(0)
        for i in range(cuda.threadIdx.x, columns, cuda.blockDim.x):
            total, lost = add_compensated(total, lost, math.exp(x[row, i] - largest))
"""
_AT_ONCE = """        total, lost = C(0), C(0)
        own = C(-math.inf)
        for i in range(cuda.threadIdx.x, columns, cuda.blockDim.x):
            before = own
            own = larger(own, x[row, i])
            if own != -math.inf:  # else -inf - -inf would be nan
                total = total * math.exp(before - own) + math.exp(x[row, i] - own)
        largest = block_max(own, of_warp)
        if own != -math.inf or largest == -math.inf:
            total *= math.exp(own - largest)
"""

RIGHT = (
    Right(
        name="half to even by bits",
        why="bfloat16 is the upper half of a float, and the carry of an addition goes into the exponent where it must",
        op="mul",
        edits=(
            *edits(
                "header",
                ("#include <trifold/vector.cuh>\n", "#include <trifold/vector.cuh>\n\n#include <bit>\n"),
                (_MUL_KERNEL, _EVEN + _MUL_KERNEL),
                ("out[i] = T(C(x[i]) * C(y[i]))", "out[i] = to_even<T>(C(x[i]) * C(y[i]))"),
            ),
            *edits("binding", (_MUL_LAUNCH, _MUL_LAUNCH.replace("mul_vector_kernel<T>", "nullptr"))),
        ),
        rows=("values", "rounding"),
        implementation="port",
    ),
    Right(
        name="a branch for each sign",
        why="1 / (1 + exp(-x)) where x is not negative, else exp(x) / (1 + exp(x)): neither overflows",
        op="sigmoid",
        edits=edits(
            "prototype",
            (
                _E + _QUOTIENT,
                "        if v < 0:\n            e = math.exp(v)\n            y[i] = e / (1 + e)\n"
                "        else:\n            y[i] = 1 / (1 + math.exp(-v))\n",
            ),
        ),
        rows=("values", "gradients", "rounding"),
        implementation="prototype",
    ),
    Right(
        name="1 + exp by expm1",
        why="2 + expm1(-|x|) is rounded once more than 1 + exp(-|x|), and no further off",
        op="sigmoid",
        edits=edits("prototype", ("/ (ONE + e)", "/ (2 + math.expm1(v if v < 0 else -v))")),
        rows=("values", "gradcheck", "rounding"),
        implementation="prototype",
    ),
    Right(
        name="maximum and sum in one pass",
        why="a sum is scaled when its maximum grows: exp(a - b) · exp(b - c) is exp(a - c) within two round-offs",
        op="softmax",
        edits=edits("prototype", ("        largest = C(-math.inf)\n" + _MAXIMUM_AND_SUM, _AT_ONCE)),
        rows=("values",),
        implementation="prototype",
    ),
    Right(
        name="each thread sums a part of the row",
        why="terms that lie together instead of every 256th: another order, the same bound",
        op="rms_norm",
        edits=edits(
            "prototype",
            (
                _SUM_OF_SQUARES,
                "        part = (columns + cuda.blockDim.x - 1) // cuda.blockDim.x\n"
                "        for i in range(cuda.threadIdx.x * part, min(columns, (cuda.threadIdx.x + 1) * part)):\n"
                "            squares, lost = add_compensated(squares, lost, x[row, i] * x[row, i])\n",
            ),
        ),
        rows=("values", "bounds"),
        implementation="prototype",
    ),
    Right(
        name="two sums in turn",
        why="even and odd terms apart, then their sum: a step of a sum in pairs",
        op="layer_norm",
        edits=edits(
            "prototype",
            (
                "        for i in range(cuda.threadIdx.x, columns, cuda.blockDim.x):\n" + _MEAN,
                "        other = C(0)\n"
                "        for i in range(cuda.threadIdx.x, columns, 2 * cuda.blockDim.x):\n"
                "            total += x[row, i]\n"
                "            if i + cuda.blockDim.x < columns:\n"
                "                other += x[row, i + cuda.blockDim.x]\n"
                "        m = block_sum(total + other, of_warp) / C(columns)\n",
            ),
        ),
        rows=("values",),
        implementation="prototype",
    ),
    Right(
        name="a fused product and sum",
        why="mean + std · z with one rounding in place of two",
        op="normal_sample",
        edits=edits("header", ("T(C(mean[row]) + C(std[row]) * z)", "T(fma(C(std[row]), z, C(mean[row])))")),
        rows=("values",),
        implementation="port",
    ),
    Right(
        name="a sum by atomics that is declared",
        why="Spec(unordered=...) says that the last bits depend on the order in which threads arrive",
        op="normal_sample",
        edits=(
            *edits(
                "prototype",
                SUMS_BY_ATOMICS,
            ),
            *edits("spec", ("    scale=_scale,\n", '    scale=_scale,\n    unordered="threads add up by atomics",\n')),
        ),
        rows=("findings",),
        implementation="prototype",
    ),
    Right(
        name="two elements a thread",
        why="half the blocks, and a guard for the second element",
        op="add",
        edits=edits(
            "prototype",
            ("    i = cuda.grid(1)\n", "    i = 2 * cuda.grid(1)\n"),
            (
                "        out[i] = x[i] + y[i]\n",
                "        out[i] = x[i] + y[i]\n    if i + 1 < n:\n        out[i + 1] = x[i + 1] + y[i + 1]\n",
            ),
        ),
        rows=("bounds", "values", "findings"),
        implementation="prototype",
    ),
    Right(
        name="blocks of 128 threads that stride over the grid",
        why="any launch that covers all elements is right",
        op="mul",
        edits=edits(
            "prototype",
            (
                "def mul_kernel(x, y, out, n):\n    i = cuda.grid(1)\n    if i < n:\n        out[i] = x[i] * y[i]\n",
                "def mul_kernel(x, y, out, n):\n    for i in range(cuda.grid(1), n, cuda.gridsize(1)):\n"
                "        out[i] = x[i] * y[i]\n",
            ),
            (
                "    launch_elementwise(mul_kernel, out.numel(), flat(x, out), flat(y, out), output(flat(out)), "
                "out.numel())",
                "    operands = flat(x, out), flat(y, out), output(flat(out)), out.numel()\n"
                "    launch(mul_kernel, min(-(-out.numel() // 128), 7), *operands, block=128)",
            ),
            ("flat, launch_elementwise,", "flat, launch, launch_elementwise,"),
        ),
        rows=("bounds", "values", "findings", "branches"),
        implementation="prototype",
    ),
    Right(
        name="another operator makes the gradient of one element",
        why="no single call need reach all operators",
        op="sigmoid",
        edits=GRADIENT_OF_ONE,
        rows=("opcheck", "gradgradcheck"),
        implementation="prototype",
    ),
)
