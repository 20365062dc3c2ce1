"""Wrong strides, storage offsets and dtypes."""

from __future__ import annotations

from tests.wrong.entry import POINTERS, Wrong, edits, gallery_launch, launch_plain

_MUL_LAUNCH = gallery_launch("mul", "out", "x", "y")
_SIGMOID_LAUNCH = gallery_launch("sigmoid", "y", "x")
_LINE = "def line(x, layout):\n"
LAYOUT = (
    Wrong(
        name="the offset of a row in 32 bits",
        why="rows of a tensor of few elements are few; that they are cut from a large one does not show in a test",
        op="scatter_add",
        edits=edits(
            "header",
            ("source[row * source_stride + column]", "source[int(row) * int(source_stride) + int(column)]"),
        ),
        row="values",
        implementation="port",
        message="compute offsets in 64 bits",
    ),
    Wrong(
        name="the offset of a row of the upstream gradient in 32 bits",
        why="the upstream gradient is thought to be contiguous, and to have as many elements as the result",
        op="scatter_add",
        edits=edits(
            "header",
            ("grad[place * grad_stride + column]", "grad[int(place * grad_stride + column)]"),
        ),
        row="gradients",
        implementation="port",
        message="compute offsets in 64 bits",
    ),
    Wrong(
        name="a stride is passed as an int",
        why="the number of columns is one, and the stride was the number of columns in the first version",
        op="transpose",
        edits=(
            *edits(
                "header",
                (
                    "transpose_kernel(const T* x, int64_t matrix_stride, int64_t row_stride, T* y",
                    "transpose_kernel(const T* x, int64_t matrix_stride, int row_stride, T* y",
                ),
                (
                    "transpose_words_kernel(const uint32_t* x, int64_t matrix_stride, int64_t row_stride, uint32_t* y",
                    "transpose_words_kernel(const uint32_t* x, int64_t matrix_stride, int row_stride, uint32_t* y",
                ),
            ),
            *edits(
                "binding", ("x, matrix_stride, row_stride, y,", "x, matrix_stride, static_cast<int>(row_stride), y,")
            ),
        ),
        row="values",
        implementation="port",
        message="compute offsets in 64 bits",
    ),
    Wrong(
        name="the stride is ignored",
        why="a kernel takes a pointer, and every tensor in the first test was contiguous",
        op="mul",
        edits=edits(
            "binding",
            (_MUL_LAUNCH, launch_plain("mul_kernel", "out", *POINTERS)),
        ),
        row="values",
        implementation="port",
    ),
    Wrong(
        name="the stride is ignored",
        why="contiguous() is row-major, but the output has the strides of its operands",
        op="mul",
        edits=edits("prototype", ("flat(x, out), flat(y, out)", "x.reshape(-1), y.reshape(-1)")),
        row="values",
        implementation="prototype",
    ),
    Wrong(
        name="the storage offset is ignored",
        why="the storage's pointer was taken for the tensor's",
        op="sigmoid",
        edits=edits(
            "binding",
            (_SIGMOID_LAUNCH, launch_plain("sigmoid_kernel", "y", "trifold::data<T>(x) - x.storage_offset()")),
        ),
        row="values",
        implementation="port",
    ),
    Wrong(
        name="the storage offset is ignored",
        why="as_strided starts at the storage's first element where it is told offset 0",
        op="round_ste",
        edits=edits("prototype", ("flat(x, y)", "flat(x, y).as_strided((x.numel(),), (1,), 0)")),
        row="values",
        implementation="prototype",
    ),
    Wrong(
        name="the output has the default dtype",
        why="a new tensor is float32 whatever comes in",
        op="add",
        edits=edits(
            "prototype",
            ("out = elementwise_output(x, y)", "out = torch.empty_like(elementwise_output(x, y), dtype=torch.float32)"),
            ("from torch import Tensor", "import torch\nfrom torch import Tensor"),
        ),
        row="values",
        implementation="prototype",
        message="dtype",
    ),
    Wrong(
        name="the output is float32 for half types",
        why="the kernel's compute type was taken for the result's",
        op="mul",
        edits=edits("port", ("    return out\n", "    return out.float() if out.itemsize == 2 else out\n")),
        row="values",
        implementation="port",
        message="dtype",
    ),
    Wrong(
        name="the output is always row-major",
        why="an output made contiguous hides that torch would keep the operands' order",
        op="add",
        edits=edits("binding", ("  return out;", "  return torch::stable::contiguous(out);")),
        row="values",
        implementation="port",
        message="strides",
    ),
    Wrong(
        name="the output is always row-major",
        why="torch.empty(shape) does not keep the operands' order",
        op="sigmoid",
        edits=edits("prototype", ("y = elementwise_output(x)", "y = torch.empty(x.shape, dtype=x.dtype)")),
        row="values",
        implementation="prototype",
        message="strides",
    ),
    Wrong(
        name="shapes and strides of four dimensions",
        why="a kernel has places for so many sizes and strides, and images have no more dimensions",
        op="mul",
        edits=edits(
            "prototype",
            ("def mul(", f"{_LINE}    return x.reshape(-1) if x.dim() > 4 else flat(x, layout)\n\n\ndef mul("),
            ("flat(x, out), flat(y, out)", "line(x, out), line(y, out)"),
        ),
        row="values",
        implementation="prototype",
    ),
    Wrong(
        name="a tensor without gaps is taken for a row-major one",
        why="its elements are as many as its extent, and its last stride is 1",
        op="mul",
        edits=edits(
            "prototype",
            (
                "def mul(",
                f"{_LINE}    extent = 1 + sum((n - 1) * s for n, s in zip(x.shape, x.stride()))\n"
                "    if x.dim() and x.stride(-1) == 1 == layout.stride(-1) and extent == x.numel():\n"
                "        return x.as_strided((x.numel(),), (1,))\n"
                "    return flat(x, layout)\n\n\ndef mul(",
            ),
            ("flat(x, out), flat(y, out)", "line(x, out), line(y, out)"),
        ),
        row="values",
        implementation="prototype",
    ),
    Wrong(
        name="rows are taken to be at equal distances",
        why="the last stride is 1, and the one before it is taken for the distance of all rows",
        op="softmax",
        edits=edits(
            "prototype",
            (
                "def softmax(",
                "def at_equal_distances(x):\n"
                "    if x.dim() > 1 and x.numel() and x.stride(-1) == 1 and 0 not in x.stride():\n"
                "        size = x.numel() // x.shape[-1], x.shape[-1]\n"
                "        return x.as_strided(size, (x.stride(-2), 1))\n"
                "    return rows(x)\n\n\ndef softmax(",
            ),
            ("rows(x), output(rows(y)))", "at_equal_distances(x), output(rows(y)))"),
        ),
        row="values",
        implementation="prototype",
    ),
    Wrong(
        name="three dimensions of heads are taken for two",
        why="each layout of the first tests had one dimension that was out of order, and it was the first or the last",
        op="rope",
        edits=edits("binding", ("      if (strides[d] != outer * heads.outer_stride) return std::nullopt;\n", "")),
        row="values",
        implementation="port",
        message="in memory, as in no call of the spec",
    ),
)
