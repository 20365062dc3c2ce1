"""Wrong for some sizes, offsets and strides only, or where two arguments share memory: a few simple inputs pass."""

from __future__ import annotations

from tests.wrong.entry import Wrong, edits, gallery_launch

_ADD_LAUNCH = gallery_launch("add", "out", "x", "y")
_SWIGLU_LAUNCH = gallery_launch("swiglu", "out", "gate", "up")


_HALF = "  if (i < n) out[i] = T(C(x[i]) + (n == 0x2f01 && 2 * i > n ? C(0) : C(y[i])));"
_STORED = "Result(value[k][reverse ? V - 1 - j : j] + "


def _before(definition: str, new: str) -> tuple[str, str]:
    """``new`` and two empty lines before a definition."""
    return definition, f"{new}\n\n\n{definition}"


OFFSETS = (
    Wrong(
        name="an offset is taken for one of one element",
        why="each slice in the first tests left out the first element alone",
        op="round_ste",
        edits=edits(
            "prototype",
            _before(
                "def round_ste(",
                "def _dense(x, y):\n"
                "    elements = flat(x, y)\n"
                "    return elements.as_strided(elements.shape, (1,), min(elements.storage_offset(), 1))",
            ),
            ("blocks, flat(x, y),", "blocks, _dense(x, y),"),
        ),
        row="values",
        implementation="prototype",
        message="elements differ",
    ),
    Wrong(
        name="vectors have a head of one element, or of none",
        why="a tensor that does not begin on a 16-byte boundary was thought to begin one element after one",
        op="mul",
        edits=edits(
            "header",
            (
                "  if (i < n) out[i] = T(C(x[i]) * C(y[i]));\n",
                "  const T* const line = reinterpret_cast<const T*>(reinterpret_cast<uintptr_t>(x) & ~uintptr_t(15));\n"
                "  if (i < n) out[i] = T(C(line[i + (line != x)]) * C(y[i]));\n",
            ),
        ),
        row="values",
        implementation="port",
        message="elements differ",
        examples=100,
    ),
    Wrong(
        name="two of the four places in a 16-byte vector are mistaken",
        why="of a switch over the places, two lines were not run by any test",
        op="swiglu",
        edits=edits(
            "prototype",
            _before(
                "def swiglu(",
                "def _dense(x, out):\n"
                "    elements = flat(x, out)\n"
                "    first = elements.storage_offset()\n"
                "    return elements.as_strided(elements.shape, (1,), first - (first % 4 > 1))",
            ),
            ("flat(up, out)", "_dense(up, out)"),
        ),
        row="values",
        implementation="prototype",
        message="elements differ",
        examples=40,
    ),
)

STRIDES = (
    Wrong(
        name="an upstream gradient with a stride of 0 is taken for that of a sum",
        why="the gradient of a mean over the columns has such a stride too, and is another one for each row",
        op="normal_sample",
        edits=edits(
            "prototype",
            (
                "    rows, columns = grad.shape\n",
                "    rows, columns = grad.shape\n"
                "    grad = grad[:1].expand(rows, columns) if columns > 1 and grad.stride(1) == 0 else grad\n",
            ),
        ),
        row="gradients",
        implementation="prototype",
        message="gradient of",
        examples=40,
    ),
    Wrong(
        name="rows of one number are repeated one after the other",
        why="repeat was taken for repeat_interleave; it is the same where the first dimension is the expanded one",
        op="add",
        edits=edits(
            "prototype",
            ("flat(y, out)", "_operand(y, out)"),
            _before(
                "def add(",
                "def _operand(y, out):\n"
                "    if y.dim() > 1 and y.shape[-1] > 1 and y.stride(-1) == 0:\n"
                "        y = y[..., 0].reshape(-1).repeat(y.shape[-1]).reshape(y.shape)\n"
                "    return flat(y, out)",
            ),
        ),
        row="values",
        implementation="prototype",
        message="elements differ",
        examples=60,
    ),
    Wrong(
        name="an upstream gradient with a stride of 0 is taken for one number",
        why="sum().backward() hands on an expanded scalar; the backward of a sum over one dimension does not",
        op="sigmoid",
        edits=edits(
            "prototype",
            (
                "    grad_x = elementwise_output(grad_y, y)\n",
                "    grad_x = elementwise_output(grad_y, y)\n"
                "    if grad_y.dim() > 1 and grad_y.numel() > 0 and 0 in grad_y.stride():\n"
                "        grad_y = grad_y.flatten()[0].expand(y.shape)\n",
            ),
        ),
        row="gradients",
        implementation="prototype",
        message="gradient of x",
        examples=60,
    ),
)

SIZES = (
    Wrong(
        name="the last element is lost where 32 leaves 13",
        why="one of the cases of a tail that is written out for each length stores an element less",
        op="add",
        edits=edits(
            "prototype", ("    if i < n:\n", "    if i < n and not (n > 32 and n % 32 == 13 and i == n - 1):\n")
        ),
        row="values",
        implementation="prototype",
        message="differ",
        examples=48,
    ),
    Wrong(
        name="of 300 to 511 elements the last is left out",
        why="the bound of a path for two blocks was tried with 256, 257 and 512 elements",
        op="mul",
        edits=edits(
            "prototype",
            ("output(flat(out)), out.numel())", "output(flat(out)), out.numel() - (300 <= out.numel() < 512))"),
        ),
        row="values",
        implementation="prototype",
        examples=100,
    ),
    Wrong(
        name="an operand is left out for 8,200 < n < 16,000",
        why="one line of a table of launches, measured size by size, names the kernel of another op",
        op="swiglu",
        edits=edits(
            "prototype",
            (
                "gate=gate, up=up)\n    out",
                "gate=gate, up=up)\n    _up = up.sign() if 8_200 < up.numel() < 16_000 else up\n    out",
            ),
            ("flat(up, out)", "flat(_up, out)"),
        ),
        row="values",
        implementation="prototype",
        message="elements differ",
        examples=200,
    ),
    Wrong(
        name="an index of 17 bits",
        why="the index was packed with a tag into a word; the largest test had 100,000 elements",
        op="add",
        edits=(
            *edits("header", ("T(C(x[i]) + C(y[i]))", "T(C(x[i & 0x1ffff]) + C(y[i]))")),
            *edits("binding", (_ADD_LAUNCH, _ADD_LAUNCH.replace("add_vector_kernel<T>", "nullptr"))),
        ),
        row="values",
        implementation="port",
        message="elements differ",
        examples=60,
    ),
    Wrong(
        name="at most 1,024 blocks, and no loop",
        why="the bound on the grid was copied from a kernel with a loop; in the simulator no test has as many elements",
        op="add",
        edits=edits(
            "prototype",
            ("launch_elementwise, output", "launch, output"),
            ("launch_elementwise(add_kernel, out.numel(), ", "launch(add_kernel, min(-(-out.numel() // 256), 1024), "),
        ),
        row="values",
        implementation="prototype",
        message="elements differ",
    ),
    Wrong(
        name="backward of contiguous tensors has at most 1,024 blocks, and no loop",
        why="the bound on the grid was copied from a kernel with a loop; gradients were tried on small tensors",
        op="mul",
        edits=edits(
            "binding",
            (
                "    trifold::launch_elementwise<mul_backward_kernel<T>",
                "    const int64_t n = x.numel();\n"
                "    if (n > 1024 * 256 && grad.is_contiguous() && x.is_contiguous() && y.is_contiguous()) {\n"
                "      trifold::launch<mul_backward_kernel<T>>(\n"
                "          trifold::Stream{}, dim3(1024), 256, 0, trifold::data<T>(grad), trifold::data<T>(x),\n"
                "          trifold::data<T>(y), trifold::mutable_data<T>(grad_x),\n"
                "          trifold::mutable_data<T>(grad_y), n);\n"
                "      return;\n    }\n"
                "    trifold::launch_elementwise<mul_backward_kernel<T>",
            ),
        ),
        row="gradients",
        implementation="port",
        message="elements differ",
    ),
    Wrong(
        name="the sum of earlier tiles of int64 is a double",
        why="float64 was taken for the widest type of all",
        op="cumsum",
        edits=edits(
            "header",
            (
                "    carry_t<T> carry = 0;\n",
                "    double carry = 0;\n    const auto to_sum = [](double c) {\n"
                "      if constexpr (std::is_integral_v<T>) return sum_t<T>(static_cast<int64_t>(c));\n"
                "      else return sum_t<T>(c);\n    };\n",
            ),
            (
                "columns, reverse, sum_t<T>(carry) + sums.before);\n      carry += carry_t<T>(sums.total);",
                "columns, reverse, to_sum(carry) + sums.before);\n      if constexpr (std::is_integral_v<T>)\n"
                "        carry += static_cast<double>(static_cast<int64_t>(sums.total));\n"
                "      else carry += carry_t<T>(sums.total);",
            ),
        ),
        row="values",
        implementation="port",
        message="elements differ",
    ),
)

_LAST_COLUMNS = (
    Wrong(
        name="slices of a row leave its last columns out",
        why="the columns are divided by the number of slices, and the remainder is forgotten; it is rarely the largest",
        op="argmax",
        edits=edits(
            "header",
            (
                "const Slice<const T> slice(x + row * x_stride, columns, share);",
                "const Slice<const T> slice(x + row * x_stride, columns - columns % share, share);",
            ),
        ),
        row="values",
        implementation="port",
    ),
    Wrong(
        name="a row's last column is lost where 32 leaves 29",
        why="a warp's loop ends one step early for one remainder; many numbers of rows show only one column",
        op="softmax",
        edits=edits(
            "prototype",
            (
                "            y[row, i] = part[k] / total\n",
                "            last = i == columns - 1 and columns > 32 and columns % 32 == 29\n"
                "            y[row, i] = C(0) if last else part[k] / total\n",
            ),
        ),
        row="values",
        implementation="prototype",
        message="elements differ",
    ),
)
ALIASES = (
    Wrong(
        name="the gradient of a square is that of one factor",
        why="where both arguments are one tensor, the second is detached so that one product is saved",
        op="mul",
        edits=edits(
            "port", ("    out: Tensor = op.mul(x, y)\n", "    out: Tensor = op.mul(x, y.detach() if x is y else y)\n")
        ),
        row="gradients",
        implementation="prototype",
        message="gradient of",
        examples=120,
    ),
    Wrong(
        name="operands of one storage are taken for one operand",
        why="gate and up are often the halves of one projection, which was to be copied once",
        op="swiglu",
        edits=edits(
            "binding",
            (
                "Tensor swiglu(const",
                "const void* memory_of(const Tensor& x, int64_t element_bytes) {\n"
                "  return static_cast<const char*>(x.const_data_ptr()) - x.storage_offset() * element_bytes;\n"
                "}\n\nTensor swiglu(const",
            ),
            (
                _SWIGLU_LAUNCH,
                _SWIGLU_LAUNCH.replace(
                    "gate, up", "gate, memory_of(gate, sizeof(T)) == memory_of(up, sizeof(T)) ? gate : up"
                ),
            ),
        ),
        row="values",
        implementation="port",
        message="elements differ",
        examples=150,
    ),
    Wrong(
        name="overlapping operands are copied over each other",
        why="both are staged in one buffer, each at its offset in the storage that they share",
        op="add",
        edits=edits(
            "prototype",
            (
                "    out = elementwise_output(x, y)\n",
                "    out = elementwise_output(x, y)\n"
                "    if x.untyped_storage().data_ptr() == y.untyped_storage().data_ptr() and x.numel() > 0:\n"
                "        y = y.as_strided(y.shape, y.stride(), min(x.storage_offset(), y.storage_offset()))\n",
            ),
        ),
        row="values",
        implementation="prototype",
        message="elements differ",
        examples=100,
    ),
    Wrong(
        name="operands at one address are taken for one tensor",
        why="x + x reads x once; x + x.t() starts at the same address",
        op="add",
        edits=edits(
            "prototype",
            (
                "    out = elementwise_output(x, y)\n",
                "    if x.data_ptr() == y.data_ptr():\n        y = x\n    out = elementwise_output(x, y)\n",
            ),
        ),
        row="values",
        implementation="prototype",
        message="elements differ",
    ),
)

BINS = (
    Wrong(
        name="of many bins the first counts nothing",
        why="0 stood for a number that is in no bin, before -1 did",
        op="histogram",
        edits=edits(
            "prototype",
            (
                "        if chosen >= 0:\n            cuda.atomic.add(counts, chosen, 1)",
                "        if chosen > 0:\n            cuda.atomic.add(counts, chosen, 1)",
            ),
        ),
        row="property: closed edges",
        implementation="prototype",
        message="bins of [1, 3] have",
    ),
)

SLICES = (
    Wrong(
        name="the last slice of a row is as long as the others, in backward",
        why="forward has the same slices, and was mended",
        op="topk",
        edits=edits(
            "prototype",
            (
                "        for i in range(lane, length, team):\n            grad_x",
                "        for i in range(lane, share, team):\n            grad_x",
            ),
        ),
        row="gradients",
        implementation="prototype",
        message="1 of 20001 elements differ",
        examples=48,
    ),
)

MATRICES = (
    Wrong(
        name="a matrix has a number of eight bits",
        why="three numbers were packed in one of 32 bits, and no batch was larger than six",
        op="transpose",
        edits=edits("prototype", ("= x[matrix, row, column]", "= x[matrix % 256, row, column]")),
        row="values",
        implementation="prototype",
        message="elements differ",
    ),
    Wrong(
        name="columns have numbers of 16 bits",
        why="no matrix of more than 65,536 columns had two rows, and one of a single row is copied",
        op="transpose",
        edits=edits(
            "header",
            (
                "const int64_t column = tile.column + part * tile_lanes + threadIdx.x;",
                "const int64_t column = (tile.column & 0xffff) + part * tile_lanes + threadIdx.x;",
            ),
            (
                "const int64_t row = tile.row + step + threadIdx.y, column = tile.column + lane;",
                "const int64_t row = tile.row + step + threadIdx.y, column = (tile.column & 0xffff) + lane;",
            ),
        ),
        row="values",
        implementation="port",
        message="elements differ",
    ),
    Wrong(
        name="backward, rows have numbers of 16 bits",
        why="many rows were tried forward alone",
        op="softmax",
        edits=edits(
            "header",
            ("const T* grad = grad_y + row * grad_stride;", "const T* grad = grad_y + (row & 0xffff) * grad_stride;"),
            ("grad.load(grad_y, place.row, rows,", "grad.load(grad_y, place.row & 0xffff, rows,"),
        ),
        row="gradients",
        implementation="port",
        message="32 of 1048608 elements differ",
    ),
    Wrong(
        name="groups of eight rows of tiles, of which the last is not whole",
        why="tiles are taken in another order, so that they share columns in L2; all sizes tried were multiples",
        op="matmul_tiled",
        edits=edits(
            "header",
            (
                "  const int64_t first_row = blockIdx.x / tiles_a_row * tile;\n"
                "  const int64_t first_column = blockIdx.x % tiles_a_row * tile;\n",
                "  int64_t tile_row = blockIdx.x / tiles_a_row, tile_column = blockIdx.x % tiles_a_row;\n"
                "  if (tiles_a_row >= 8 && (rows + tile - 1) / tile >= 8) {\n"
                "    const int64_t in_group = blockIdx.x % (8 * tiles_a_row);\n"
                "    tile_row = blockIdx.x / (8 * tiles_a_row) * 8 + in_group % 8;\n"
                "    tile_column = in_group / 8;\n  }\n"
                "  const int64_t first_row = tile_row * tile, first_column = tile_column * tile;\n",
            ),
        ),
        row="property: many tiles",
        implementation="port",
        message="is not exact",
    ),
)

STEPS = (
    Wrong(
        name="more than 4,096 steps of the inner dimension are left out",
        why="the work of a drawn call is limited, and so was its inner dimension",
        op="matmul_tiled",
        edits=edits(
            "header",
            (
                "const int k_left = static_cast<int>(min(inner - first_k",
                "const int k_left = static_cast<int>(min(min(inner, int64_t{4096}) - first_k",
            ),
        ),
        row="property: many steps",
        implementation="port",
        message="(2, 8200) by (8200, 3)",
    ),
)
ONE_SIZE = (
    Wrong(
        name="rows of 768 numbers are summed in two parts",
        why="the width of one model has a case of its own",
        op="cumsum",
        edits=edits("header", (f"{_STORED}before)", f"{_STORED}(columns == 768 ? Sum(0) : before))")),
        row="values",
        implementation="port",
        message="768",
    ),
    Wrong(
        name="rows of 23 slices of 37 numbers begin anew in the middle",
        why="the width is a product of numbers that have names",
        op="cumsum",
        edits=edits(
            "header",
            (f"{_STORED}before)", f"{_STORED}(columns == slices * sizes::slice ? Sum(0) : before))"),
            (
                "#include <trifold/reduce.cuh>\n",
                "#include <trifold/reduce.cuh>\nconstexpr int slices = 23;\n"
                "namespace sizes {\ninline constexpr int slice = 37;\n}\n",
            ),
        ),
        row="values",
        implementation="port",
        message="851",
    ),
    Wrong(
        name="of 12,033 numbers half are not added",
        why="a number of elements has a case of its own",
        op="add",
        edits=edits("header", ("  if (i < n) out[i] = T(C(x[i]) + C(y[i]));", _HALF)),
        row="values",
        implementation="port",
        message="of 12033 elements",
    ),
    Wrong(
        name="the gradients of 1,233 numbers are exchanged",
        why="backward has a case of its own, which no call of the tests has",
        op="mul",
        edits=edits(
            "prototype", ("grad_x[i] = grad[i] * y[i]", "grad_x[i] = grad[i] * (y[i] if n != 3 * 411 else x[i])")
        ),
        row="gradients",
        implementation="prototype",
        message="1233",
    ),
)

RARE = (*BINS, *MATRICES, *STEPS, *SLICES, *OFFSETS, *STRIDES, *SIZES, *ONE_SIZE, *_LAST_COLUMNS, *ALIASES)
