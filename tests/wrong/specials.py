"""Wrong for nan, infinities, zeros and subnormal numbers only, and wrong roundings to half types."""

from __future__ import annotations

from tests.wrong.entry import Edit, Wrong, edits, gallery_launch

_MUL_LAUNCH = gallery_launch("mul", "out", "x", "y")
_SIGMOID_LAUNCH = gallery_launch("sigmoid", "y", "x")

MANY_NUMBERS = (
    Wrong(
        name="rows of more than 4,096 columns lose nan",
        why="the teams of a block compare with >, which is false for nan; those of a warp do not",
        op="softmax",
        edits=edits(
            "header",
            (
                "  part.load(x, place.row, rows, x_stride, at, T(-INFINITY));\n",
                "  part.load(x, place.row, rows, x_stride, at, T(-INFINITY));\n"
                "  if (columns > 4096)\n"
                "    part.become([&](int k, int i) {\n"
                "      const float value = part.piece[k][i];\n"
                "      return value == value ? value : -INFINITY;\n"
                "    });\n",
            ),
        ),
        row="values",
        implementation="port",
        message="exact is nan",
        examples=150,
    ),
    Wrong(
        name="nan is lost among more than 4,096 numbers",
        why="the path for many numbers clamps, and a comparison with nan is false",
        op="sigmoid",
        edits=edits("prototype", ("        v = x[i]\n", "        v = x[i] if n <= 4096 or x[i] == x[i] else 0.0\n")),
        row="values",
        implementation="prototype",
        message="exact is nan",
        examples=100,
    ),
    Wrong(
        name="exp overflows among more than 4,096 numbers",
        why="exp(g) / (1 + exp(g)) is inf / inf for a large g; the path for few numbers has another formula",
        op="swiglu",
        edits=edits(
            "prototype",
            (
                "        out[i] = g / (ONE + math.exp(-g)) * up[i]",
                "        s = math.exp(g) / (1 + math.exp(g)) if n > 4096 else 1.0\n"
                "        out[i] = g * s * up[i] if n > 4096 else g / (ONE + math.exp(-g)) * up[i]",
            ),
        ),
        row="values",
        implementation="prototype",
        message="the result is nan",
        examples=200,
    ),
)

NAN_AND_INF = (
    Wrong(
        name="a nan with its sign bit set is the least number",
        why="bits are compared as integers, as a radix sort does; on x86, inf - inf has such bits",
        op="argmax",
        edits=edits(
            "prototype",
            (
                "    return b == b and not (a <= b)  # also true if a is nan\n",
                "    if a != a or b != b:\n"
                "        rank_a = math.copysign(1.0, a) if a != a else 0.0\n"
                "        rank_b = math.copysign(1.0, b) if b != b else 0.0\n"
                "        return rank_a > rank_b\n"
                "    return a > b\n",
            ),
        ),
        row="values",
        implementation="prototype",
        message="exact is nan",
    ),
    Wrong(
        name="fmax swallows nan",
        why="the argument is clamped to where exp neither overflows nor underflows; fmax(nan, a) is a",
        op="sigmoid",
        edits=edits(
            "header",
            ("  const C e = exp(x < C(0)", "  x = fmin(fmax(x, C(-746)), C(746));\n  const C e = exp(x < C(0)"),
        ),
        row="values",
        implementation="port",
        message="exact is nan",
    ),
    Wrong(
        name="zero times infinity is zero",
        why="a product with 0 is skipped, as in a sparse kernel; 0 · inf is nan",
        op="mul",
        edits=edits(
            "prototype",
            (
                "        out[i] = x[i] * y[i]\n",
                "        known = x[i] == x[i] and y[i] == y[i]\n        out[i] = x[i] * y[i]\n"
                "        if known and out[i] != out[i]:\n            out[i] = 0\n",
            ),
        ),
        row="values",
        implementation="prototype",
        message="exact is nan",
    ),
    Wrong(
        name="a compensated sum of infinities",
        why="the error of a sum is found by taking it away again, and inf - inf is nan",
        op="add",
        edits=edits(
            "prototype",
            (
                "        out[i] = x[i] + y[i]\n",
                "        s = x[i] + y[i]\n        t = s - x[i]\n        out[i] = s + ((x[i] - (s - t)) + (y[i] - t))\n",
            ),
        ),
        row="values",
        implementation="prototype",
        message="the result is nan",
    ),
    Wrong(
        name="a closed gate is 0",
        why="silu tends to 0, and its tail is cut off; silu(-inf) is nan, as in torch",
        op="swiglu",
        edits=edits(
            "prototype",
            (
                "out[i] = g / (ONE + math.exp(-g)) * up[i]",
                "out[i] = g / (ONE + math.exp(-g)) * up[i] if g > -746 or g != g else -0.0 * up[i]",
            ),
        ),
        row="values",
        implementation="prototype",
        message="exact is nan",
    ),
    Wrong(
        name="nan for 0",
        why="(x > 0.5) · x / x avoids a branch",
        op="round_ste",
        edits=edits("header", ("x > C(0.5) ? C(1) : C(0)", "x > C(0.5) ? C(1) : C(0) * x")),
        row="values",
        implementation="port",
        message="exact is 0.0",
    ),
    Wrong(
        name="a saturated gradient is 0 whatever comes in",
        why="where y is 0 or 1 nothing is to be computed; but 0 · inf and 0 · nan are nan",
        op="sigmoid",
        edits=edits(
            "prototype",
            (
                "        grad_x[i] = grad_y[i] * ((ONE - y[i]) * y[i])\n",
                "        grad_x[i] = grad_y[i] * ((ONE - y[i]) * y[i]) if y[i] > 0 and y[i] < 1 else 0\n",
            ),
        ),
        row="gradients",
        implementation="prototype",
        message="the exact one is nan",
        examples=40,
    ),
    Wrong(
        name="nan is taken out of a gradient",
        why="nan_to_num keeps the training loop going",
        op="swiglu",
        edits=edits(
            "port",
            (
                "backward=lambda ctx, grad: op.swiglu_backward(grad, *ctx.saved_tensors)",
                "backward=lambda ctx, grad: op.swiglu_backward(torch.nan_to_num(grad), *ctx.saved_tensors)",
            ),
        ),
        row="gradients",
        implementation="prototype",
        message="the exact one is",
        examples=40,
    ),
    Wrong(
        name="subnormal results are flushed",
        why="the kernel was compiled with -ftz=true",
        op="mul",
        edits=edits(
            "prototype",
            (
                "        out[i] = x[i] * y[i]\n",
                "        product = x[i] * y[i]\n"
                "        out[i] = 0 * product if abs(product) < 1.1754943508222875e-38 else product\n",
            ),
        ),
        row="values",
        implementation="prototype",
        message="elements differ",
        examples=60,
    ),
)

SIGN_OF_ZERO = (
    Wrong(
        name="the sign of zero is lost",
        why="an accumulator that starts at +0: 0 + -0 is +0",
        op="mul",
        edits=edits("prototype", ("out[i] = x[i] * y[i]", "out[i] = x[i] * y[i] + 0.0")),
        row="values",
        implementation="prototype",
        message="-0.0",
    ),
    Wrong(
        name="the sign of zero is lost",
        why="the size and the sign are taken apart, and a zero has no sign to put back",
        op="swiglu",
        edits=edits("header", ("T(silu<T>(C(gate[i])) * C(up[i]))", "T(silu<T>(C(gate[i])) * C(up[i]) + C(0))")),
        row="values",
        implementation="port",
        message="-0.0",
    ),
    Wrong(
        name="a zero has the argument's sign",
        why="the result was made from the argument by clearing its exponent",
        op="round_ste",
        edits=edits(
            "prototype",
            ("1 if x[i] > 0.5 else 0", "1 if x[i] > 0.5 else math.copysign(0.0, x[i])"),
            ("import torch\n", "import math\n\nimport torch\n"),
        ),
        row="values",
        implementation="prototype",
        message="-0.0",
    ),
)

# The mantissa beyond `bits` digits is rounded by an expression of m · 2**bits, before the launch rounds to the half
# type, which is then exact.
_ROUNDED = """@cuda.jit(device=True)
def _rounded(value, bits):
    if bits == 0 or value == 0 or value - value != 0:
        return value
    m, e = math.frexp(value)
    scaled = m * 2.0**bits
    return math.ldexp({how} / 2.0**bits, e)


"""


def _rounding(how: str, *replacements: tuple[str, str]) -> tuple[Edit, ...]:
    """A prototype whose first kernel rounds by itself, with an expression of ``scaled``."""
    return edits("prototype", ("def reference(", f"{_ROUNDED.format(how=how)}def reference("), *replacements)


_HALF = "{torch.bfloat16: 8, torch.float16: 11}.get(x.dtype, 0)"


def _add_in(bits: str) -> tuple[tuple[str, str], ...]:
    """add with a sum that ``_rounded`` rounds to this many bits: an expression of the dtype; 0 for all bits."""
    return (
        ("from numba import cuda\n", "import math\n\nimport torch\nfrom numba import cuda\n"),
        ("def add_kernel(x, y, out, n)", "def add_kernel(x, y, out, n, bits)"),
        ("out[i] = x[i] + y[i]", "out[i] = _rounded(x[i] + y[i], bits)"),
        ("output(flat(out)), out.numel())", f"output(flat(out)), out.numel(), {bits})"),
    )


# Truncates a float to bfloat16.
_CUT = (
    "template <class T, class C>\n__device__ __forceinline__ T cut(C value) {\n"
    "  if constexpr (std::is_same_v<T, __nv_bfloat16>)\n"
    "    return T(std::bit_cast<float>(std::bit_cast<uint32_t>(float(value)) & 0xffff0000u));\n"
    "  else\n    return T(value);\n}\n\n"
)
_MUL_KERNEL = "template <class T>\n__global__ void mul_kernel"
_SIGMOID_KERNEL = "template <class T>\n__global__ void sigmoid_kernel"

ROUNDING = (
    Wrong(
        name="bfloat16 by cutting off 16 bits",
        why="a bfloat16 is the upper half of a float",
        op="add",
        edits=_rounding("math.trunc(scaled)", *_add_in("8 * (x.dtype == torch.bfloat16)")),
        row="rounding",
        implementation="prototype",
    ),
    Wrong(
        name="bfloat16 by cutting off 16 bits",
        why="a bfloat16 is the upper half of a float",
        op="mul",
        edits=(
            *edits(
                "header",
                ("#include <trifold/vector.cuh>\n", "#include <trifold/vector.cuh>\n\n#include <bit>\n"),
                (_MUL_KERNEL, _CUT + _MUL_KERNEL),
                ("out[i] = T(C(x[i]) * C(y[i]))", "out[i] = cut<T>(C(x[i]) * C(y[i]))"),
            ),
            *edits("binding", (_MUL_LAUNCH, _MUL_LAUNCH.replace("mul_vector_kernel<T>", "nullptr"))),
        ),
        row="rounding",
        implementation="port",
    ),
    Wrong(
        name="float16 by cutting off 13 bits",
        why="a conversion written out by shifts, without the half that is added first",
        op="swiglu",
        edits=_rounding(
            "math.trunc(scaled)",
            ("def swiglu_kernel(gate, up, out, n)", "def swiglu_kernel(gate, up, out, n, bits)"),
            (
                "out[i] = g / (ONE + math.exp(-g)) * up[i]",
                "out[i] = _rounded(g / (ONE + math.exp(-g)) * up[i], bits)",
            ),
            (
                "output(flat(out)), out.numel())",
                "output(flat(out)), out.numel(), 11 * (gate.dtype == torch.float16))",
            ),
        ),
        row="rounding",
        implementation="prototype",
    ),
    Wrong(
        name="a half is rounded away from zero",
        why="half an ulp is added and the rest cut off, as school teaches; ties do not go to even",
        op="mul",
        edits=_rounding(
            "math.copysign(math.floor(abs(scaled) + 0.5), scaled)",
            ("from numba import cuda\n", "import math\n\nimport torch\nfrom numba import cuda\n"),
            ("def mul_kernel(x, y, out, n)", "def mul_kernel(x, y, out, n, bits)"),
            ("out[i] = x[i] * y[i]", "out[i] = _rounded(x[i] * y[i], bits)"),
            ("output(flat(out)), out.numel())", f"output(flat(out)), out.numel(), {_HALF})"),
        ),
        row="rounding",
        implementation="prototype",
    ),
    Wrong(
        name="bfloat16 by way of float16",
        why="the conversion from float to half was at hand, and rounds first",
        op="sigmoid",
        edits=(
            *edits(
                "header",
                (
                    _SIGMOID_KERNEL,
                    "template <class T, class C>\n__device__ __forceinline__ T by_half(C value) {\n"
                    "  if constexpr (std::is_same_v<T, __nv_bfloat16>)\n"
                    "    if (value > C(0.01)) return T(float(__half(value)));\n"
                    "  return T(value);\n}\n\n" + _SIGMOID_KERNEL,
                ),
                ("y[i] = T(sigmoid_of<T>(C(x[i])))", "y[i] = by_half<T>(sigmoid_of<T>(C(x[i])))"),
            ),
            *edits("binding", (_SIGMOID_LAUNCH, _SIGMOID_LAUNCH.replace("sigmoid_vector_kernel<T>", "nullptr"))),
        ),
        row="rounding",
        implementation="port",
    ),
    Wrong(
        name="rounded twice",
        why="the quotient is rounded before the weight is multiplied, since x̂ is kept in a half type",
        op="rms_norm",
        edits=_rounding(
            "round(scaled)",
            ("weight, y, rstd, rows, columns, eps)", "weight, y, rstd, rows, columns, eps, bits)"),
            ("rows, columns, eps, team)", "rows, columns, eps, bits, team)"),
            ("            x_hat = part[k] * r\n", "            x_hat = _rounded(part[k] * r, bits)\n"),
            ("after=(eps,)", f"after=(eps, {_HALF})"),
        ),
        row="rounding",
        implementation="prototype",
    ),
    Wrong(
        name="float16 by way of bfloat16",
        why="all half types were written as bfloat16, and converted afterwards",
        op="softmax",
        edits=_rounding(
            "round(scaled)",
            ("def softmax_kernel(x, y, rows, columns)", "def softmax_kernel(x, y, rows, columns, bits)"),
            ("_rows_kernel(x, y, rows, columns, team)", "_rows_kernel(x, y, rows, columns, bits, team)"),
            ("y[row, i] = part[k] / total", "y[row, i] = _rounded(part[k] / total, bits)"),
            ("rows(x), output(rows(y)))", "rows(x), output(rows(y)), after=(8 * (x.dtype == torch.float16),))"),
        ),
        row="values",
        implementation="prototype",
        message="float16",
    ),
)

SPECIALS = (*MANY_NUMBERS, *NAN_AND_INF, *SIGN_OF_ZERO, *ROUNDING)
