"""Wrong kernels and launches: accesses outside the arguments, wrong values, wrong layouts."""

from __future__ import annotations

from tests.wrong.entry import POINTERS, Edit, Wrong, edits, gallery_launch, launch_plain

_ADD_LAUNCH = gallery_launch("add", "out", "x", "y")
_MUL_LAUNCH = gallery_launch("mul", "out", "x", "y")
_SIGMOID_EXP = "const C e = exp(x < C(0) ? x : -x);"


def _mul_kernel(body: str) -> tuple[Edit, ...]:
    """mul with one kernel of the given body, on operands with the layout of the output."""
    kernel = (
        "template <class T>\n__global__ void mul_wide_kernel(const T* x, const T* y, T* out, int64_t n) {\n"
        f"  using C = trifold::compute_t<T>;\n  {body}}}\n\n"
    )
    before = "template <class T>\n__global__ void mul_vector_kernel"
    operands = "const Tensor a = trifold::in_layout_of(out, x), b = trifold::in_layout_of(out, y);\n    "
    launch = launch_plain("mul_wide_kernel", "out", "trifold::data<T>(a)", "trifold::data<T>(b)")
    return (*edits("header", (before, kernel + before)), *edits("binding", (_MUL_LAUNCH, operands + launch)))


BOUNDS = (
    Wrong(
        name="i <= n",
        why="the guard of the last block is off by one",
        op="add",
        edits=edits("header", ("if (i < n)", "if (i <= n)")),
        row="bounds",
        implementation="port",
        message="1 element past the end of a tensor of 1 element",
    ),
    Wrong(
        name="i <= n",
        why="the guard of the last block is off by one",
        op="add",
        edits=edits("prototype", ("if i < n:", "if i <= n:")),
        row="bounds",
        implementation="prototype",
        message="out of bounds",
    ),
    Wrong(
        name="reads one element before the start",
        why="a stencil's neighbour at the border",
        op="sigmoid",
        edits=edits(
            "header",
            ("if (i < n) y[i] =", "if (i < n) (void)reinterpret_cast<const volatile char*>(x + i)[-1], y[i] ="),
        ),
        row="bounds",
        implementation="port",
        message="1 element before the start",
    ),
    Wrong(
        name="no tail behind the vectors",
        why="sizes in a first test are multiples of the vector",
        op="mul",
        edits=_mul_kernel(
            "const int64_t i = 2 * (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x);\n"
            "  if (i + 1 < n) {\n"
            "    out[i] = T(C(x[i]) * C(y[i]));\n"
            "    out[i + 1] = T(C(x[i + 1]) * C(y[i + 1]));\n"
            "  }\n"
        ),
        row="bounds",
        implementation="port",
    ),
    Wrong(
        name="no head before the vectors",
        why="allocations are aligned, slices of them are not",
        op="mul",
        edits=_mul_kernel(
            "const int64_t head = (-reinterpret_cast<uintptr_t>(out) % 16) / sizeof(T);\n"
            "  const int64_t i = head + static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;\n"
            "  if (i < n) out[i] = T(C(x[i]) * C(y[i]));\n"
        ),
        row="bounds",
        implementation="port",
    ),
    Wrong(
        name="the grid is rounded down",
        why="n / 256 blocks leave out the last, partial one",
        op="add",
        edits=edits(
            "binding",
            (
                _ADD_LAUNCH,
                launch_plain("add_kernel", "out", *POINTERS, blocks="out.numel() / 256"),
            ),
        ),
        row="bounds",
        implementation="port",
    ),
    Wrong(
        name="the grid is rounded down",
        why="n // 256 blocks leave out the last, partial one",
        op="round_ste",
        edits=edits("prototype", ("-(-y.numel() // THREADS_PER_BLOCK)", "y.numel() // THREADS_PER_BLOCK")),
        row="bounds",
        implementation="prototype",
    ),
    Wrong(
        name="a branch writes nothing",
        why="the else of the formula was forgotten",
        op="sigmoid",
        edits=edits("header", ("if (i < n) y[i]", "if (i < n && !(C(x[i]) < C(0))) y[i]")),
        row="bounds",
        implementation="port",
    ),
    Wrong(
        name="one of two results is not written",
        why="a second output was added to the vector kernel only",
        op="mul",
        edits=edits("header", ("    grad_y[i] = T(C(grad[i]) * C(x[i]));\n", "")),
        row="bounds",
        implementation="port",
        message="a gradient has elements that were not written",
    ),
    Wrong(
        name="nothing is written for a 0-d tensor",
        why="a loop over dimensions does nothing where there is none",
        op="add",
        edits=edits("prototype", ("    launch_elementwise(", "    if out.dim() > 0:\n        launch_elementwise(")),
        row="bounds",
        implementation="prototype",
    ),
)

VALUES = (
    Wrong(
        name="zeros",
        why="the result is computed and not stored",
        op="mul",
        edits=edits("header", ("T(C(x[i]) * C(y[i]))", "T(C(0))"), ("return x * y;", "return x * 0;")),
        row="values",
        implementation="port",
    ),
    Wrong(
        name="zeros",
        why="the output comes from torch.zeros, and the launch was forgotten",
        op="mul",
        edits=edits("prototype", ("out[i] = x[i] * y[i]", "out[i] = 0")),
        row="values",
        implementation="prototype",
    ),
    Wrong(
        name="a copy of the input",
        why="the stub of a kernel",
        op="sigmoid",
        edits=edits("header", (_SIGMOID_EXP, f"return x;\n  {_SIGMOID_EXP}")),
        row="values",
        implementation="port",
    ),
    Wrong(
        name="a copy of the input",
        why="the stub of a kernel",
        op="round_ste",
        edits=edits("prototype", ("y[i] = 1 if x[i] > 0.5 else 0", "y[i] = x[i]")),
        row="values",
        implementation="prototype",
    ),
    Wrong(
        name="the last call's output",
        why="results are cached by shape and dtype, which does not say what is in them",
        op="sigmoid",
        edits=edits(
            "binding",
            ("#include <trifold/binding.h>", "#include <trifold/binding.h>\n\n#include <map>"),
            (
                "Tensor y = trifold::elementwise_output(x);",
                "Tensor y = trifold::elementwise_output(x);\n"
                "  static auto& results = *new std::map<std::pair<int, std::vector<int64_t>>, Tensor>;\n"
                "  const std::vector<int64_t> sizes(x.sizes().begin(), x.sizes().end());\n"
                "  const auto [known, fresh] = results.try_emplace({static_cast<int>(x.scalar_type()), sizes}, y);\n"
                "  if (!fresh) return known->second;",
            ),
        ),
        row="values",
        implementation="port",
    ),
    Wrong(
        name="the last call's output",
        why="results are cached by shape and dtype, which does not say what is in them",
        op="sigmoid",
        edits=edits(
            "prototype",
            ("def reference(", "_results = {}\n\n\ndef reference("),
            (
                '    check_floating("sigmoid", x=x)\n',
                '    check_floating("sigmoid", x=x)\n    if (x.shape, x.dtype) in _results:\n'
                "        return _results[x.shape, x.dtype]\n",
            ),
            ("    return y\n", "    return _results.setdefault((x.shape, x.dtype), y)\n"),
        ),
        row="values",
        implementation="prototype",
    ),
    Wrong(
        name="the input is changed",
        why="an operation in place saves a register",
        op="round_ste",
        edits=edits("header", ("    y[i] = T(", "    y[i] = const_cast<T*>(x)[i] = T(")),
        row="values",
        implementation="port",
        message="was changed",
    ),
    Wrong(
        name="the input is changed",
        why="an operation in place saves a variable",
        op="add",
        edits=edits("prototype", ("out[i] = x[i] + y[i]", "x[i] += y[i]\n        out[i] = x[i]")),
        row="values",
        implementation="prototype",
        message="was changed",
    ),
    Wrong(
        name="the input is returned",
        why="nothing is to be done where all of y is zero; but a caller may change the result",
        op="add",
        edits=(
            *edits(
                "prototype", ("    out = elementwise", "    if not y.any():\n        return x\n    out = elementwise")
            ),
            *edits(
                "spec",
                ("    Spec,\n", "    Call,\n    Spec,\n    TensorCase,\n"),
                ("edges=elem", 'edges=(Call((TensorCase((3,)), TensorCase((3,), fill="zero"))),) + elem'),
            ),
        ),
        row="values",
        implementation="prototype",
        message="a result lies in the memory of x",
    ),
    Wrong(
        name="exp overflows",
        why="exp(x) / (1 + exp(x)) is inf / inf for a large x",
        op="sigmoid",
        edits=edits("header", (_SIGMOID_EXP, "const C e = exp(x);\n  return e / (C(1) + e);")),
        row="values",
        implementation="port",
        message="nan",
    ),
    Wrong(
        name="exp overflows",
        why="exp(-x) is too large for a large negative x",
        op="sigmoid",
        edits=edits(
            "prototype",
            ("e = math.exp(v if v < 0 else -v)", "e = np.exp(v)"),
            ("(e if v < 0 else ONE) / (ONE + e)", "e / (1 + e)"),
        ),
        row="values",
        implementation="prototype",
        message="nan",
    ),
    Wrong(
        name="float32 in the double path",
        why="expf was written for speed, and the template also serves double",
        op="sigmoid",
        edits=edits("header", ("exp(x < C(0)", "expf(x < C(0)")),
        row="values",
        implementation="port",
        message="float64",
    ),
    Wrong(
        name="float32 in the double path",
        why="a cast that was meant for half types",
        op="sigmoid",
        edits=edits("prototype", ("v = x[i]", "v = np.float32(x[i])")),
        row="values",
        implementation="prototype",
        message="float64",
    ),
    Wrong(
        name="half types computed in half",
        why="exp2 is one instruction, but its argument loses its last bits when it is rounded to the storage type",
        op="sigmoid",
        edits=edits(
            "header",
            (
                _SIGMOID_EXP,
                "const C scaled = C(1.4426950408889634) * (x < C(0) ? x : -x);\n"
                "  const C e = sizeof(T) == 2 ? exp2(C(T(scaled))) : exp(x < C(0) ? x : -x);",
            ),
        ),
        row="values",
        implementation="port",
        message="16",
    ),
    Wrong(
        name="nan is not less or equal",
        why="a comparison turned round is another one for nan",
        op="round_ste",
        edits=edits("header", ("x > C(0.5) ? C(1) : C(0)", "x <= C(0.5) ? C(0) : C(1)")),
        row="values",
        implementation="port",
        message="exact is 0.0",
    ),
    Wrong(
        name="a tie goes up",
        why="round half up is what school teaches",
        op="round_ste",
        edits=edits("header", ("x > C(0.5)", "x >= C(0.5)")),
        row="property: ties",
        implementation="port",
        message="just below, at and just above 1/2",
    ),
    Wrong(
        name="a tie goes up",
        why="round half up is what school teaches",
        op="round_ste",
        edits=edits("prototype", ("x[i] > 0.5", "x[i] >= 0.5")),
        row="property: ties",
        implementation="prototype",
        message="just below, at and just above 1/2",
    ),
    Wrong(
        name="a sum is carried in the type of the elements",
        why="where a row had few tiles, float32 was good enough",
        op="cumsum",
        edits=edits("header", ("using Carry = double;", "using Carry = trifold::compute_t<T>;")),
        row="property: no drift",
        implementation="port",
        message="round-offs, 8 are allowed",
    ),
    Wrong(
        name="a product with the reciprocal",
        why="it is as good as the quotient, except for one that is a half up to a round-off",
        op="quantize_int8",
        edits=edits("header", ("return fma(fma(-close, divisor, lifted), inverse, close);", "return close;")),
        row="property: quotients",
        implementation="port",
        message="quotients near a half",
    ),
)
