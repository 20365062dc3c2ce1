"""Launch functions that choose kernels by more than the dtypes of floating tensors, and those that are refused."""

from __future__ import annotations

import json

import pytest

from tests.draft.launch_statements import (
    BOUNDED_NUMBERS,
    OF_ONE_LIST,
    OVERLAPS,
    REFUSED_OF_LISTS,
    REFUSED_OF_NONE,
    REFUSED_STATEMENTS,
    launch_function,
)
from tests.draft.launch_texts import (
    ALIKE,
    ALIKE_LATER,
    AMBIGUOUS,
    AS_IT_IS,
    BEGIN,
    BOUNDED,
    BY_NAME,
    BY_SIZE,
    CHANGES_AN_ARGUMENT,
    COMPUTES,
    INTEGERS_ONLY,
    KEPT_APART,
    KNOWS_NO_GRID,
    MAYBE_OF_OTHER_DEVICE,
    NAMED,
    NAMED_T,
    OF_COMPLEX,
    OF_MANY,
    OF_THREE,
    OF_TWO,
    OPTIONAL,
    OTHER_DEVICE,
    OTHER_ERRORS,
    RAISES_TWO_WORDS,
    RETURNS_SOMETIMES,
    SUMS,
    TWO_PRECISIONS,
    UNCHECKED,
    UNLIKE_BOTH,
    UNTOLD,
    WITH_BRACKETS,
    WITHOUT_TENSORS,
    WORDS,
)
from tests.draft.test_refusals import drafting
from trifold.draft import cpp
from trifold.draft import host_values as v
from trifold.draft.one_device import OneDevice

#: Launch functions, what their kernel does to an element, and lines of the drafts.
DRAFTED = {
    "by_size": (
        BY_SIZE,
        "",
        [
            "constexpr std::pair<int64_t, int64_t> PER_THREAD[] = {{1, 16}, {2, 8}, {4, 4}};",
            "trifold::view_as(x, trifold::entry(BITS, x.element_size()))",
            "trifold::dispatch_sizes<int8_t, int16_t, int>(x.element_size(), [&]<class T>() {",
            "if (x.numel() > per_thread || 2 > per_thread) {",
            "if (i < n) y[i] = x[i];",
        ],
    ),
    "alike_later": (
        ALIKE_LATER,
        "",
        ["trifold::dispatch_floating(x.scalar_type()", "const T* __restrict__ x, T* __restrict__ y"],
    ),
    # In C++ an int8_t becomes an int, in Numba an int64.
    "sum_of_two": (
        BY_SIZE.replace("by_size", "sum_of_two"),
        "+ x[n - 1]",
        ["y[i] = T(static_cast<int64_t>(x[i]) + static_cast<int64_t>(x[n - 1]));"],
    ),
    "sums": (
        SUMS,
        "",
        [
            "using y_t = std::conditional_t<std::is_integral_v<T>, int, T>;",
            "using wide_t = std::conditional_t<std::is_integral_v<T>, int64_t, double>;",
            "copy_kernel(const T* __restrict__ x, y_t<T>* __restrict__ y, int64_t n) {",
            "y[i] = Y(CY(C(x[i])));",
            "trifold::dispatch_dtypes<float, __half, int, int16_t>(x.scalar_type(), [&]<class T>() {",
            "trifold::mutable_data<wide_t<T>>(wide)",
            "using y2_t = std::conditional_t<std::is_same_v<T, float> || std::is_same_v<T, int16_t>, float, int>;",
        ],
    ),
    # A new tensor is on the device of the one that it is made like.
    "other_device": (OTHER_DEVICE, "", ['check_same_device("other_device", x, "x", like, "like")']),
    "maybe_of_other_device": (
        MAYBE_OF_OTHER_DEVICE,
        "",
        ["if (like.has_value()) {", 'check_same_device("maybe_of_other_device", x, "x", like.value(), "like")'],
    ),
    "named": (
        NAMED,
        "",
        [
            "inline constexpr int TILE_1 = 8;",
            "for (const int place : {16, 8}) ELSEWHERE += place;",
            "if (ELSEWHERE < n * ITEMS)",
            "constexpr double STEP = 0.5;",
            "constexpr int64_t MOST = 0x10000000000;",
            '"named: 4"',
            "trifold::ceil_div(n, TILE_0 * ITEMS)",
            "trifold::extents(blocks_0, ITEMS), dim3(TILE_0, TILE_1)",
        ],
    ),
    # What a condition says of a variable is true of it in the condition's body.
    "bounded": (
        BOUNDED,
        "",
        [
            "float b = 0.0f;",
            "int size = 2;",
            "const int half = size / 2;",
            "a += x[i / half];",
            "b += x[flat % 7];",
            "a += x[left / 3];",
            "a += x[trifold::floor_div(other, 3)];",
            "int64_t low;\n  int64_t high;",
            "if (n == 0) return {n, limit};",
            "y[low * y_stride + i + high]",
        ],
    ),
    # The dtypes that two comparisons leave.
    "unlike_both": (
        UNLIKE_BOTH,
        "",
        [
            "trifold::dispatch_dtypes<float, int64_t>(x.scalar_type(), [&]<class T>() {",
            "trifold::dispatch_dtypes<int8_t, int16_t>(other.scalar_type(), [&]<class",
        ],
    ),
    # What an error says of an optional tensor is read where it is present.
    "optional": (
        OPTIONAL,
        "",
        [
            "if (y.has_value() && (!trifold::same_dtype(y.value(), x)",
            "trifold::Shape{y.value()}",
            "trifold::Dtype{y.value()}",
            "trifold::Place{y.value()}",
        ],
    ),
    # A float32 times what a condition makes float64: the condition decides of the product.
    "two_precisions": (
        TWO_PRECISIONS,
        "",
        [f"rounded_unless(x.scalar_type() == trifold::ScalarType::Double,\n{' ' * 32}static_cast<float>(factor) *\n"],
    ),
    # Of double alone, two templates would fit.
    "ambiguous": (
        AMBIGUOUS,
        "",
        [
            "product(T a, T b) {",
            "product2(T a, double b) {",
            "y[i] = product(x[i], x[i]) + product2(x[i], 2.0 * x[i]);",
        ],
    ),
    "other_errors": (
        OTHER_ERRORS,
        "",
        [
            """ScalarType::Float, "other_errors: x must be float32, not torch.",""",
            """"other_errors: x.dim() == 1 and factor > 0 does not hold");""",
            "multiply_kernel(const float* __restrict__ x, float* __restrict__ y, float factor,",
            "static_cast<float>(static_cast<float>(factor) * 3)",
        ],
    ),
    # Constants with names of the template's parameters, or of macros, are written as numbers.
    "named_t": (
        NAMED_T,
        "",
        ["template <class T>\n", "__shared__ C held[8];", "held[i % 8]", "+ 3"],
    ),
    # A dtype that does not follow from another one's is a parameter of the template.
    "of_two": (
        OF_TWO,
        "",
        [
            "template <class Index, class T, class Factor>\n__global__ void __launch_bounds__(256) sum_kernel(const T*",
            "trifold::dispatch_dtypes<int, int64_t>(index.scalar_type(), [&]<class Index>() {",
            "trifold::dispatch_floating(factor.scalar_type(), [&]<class Factor>() {",
            "trifold::launch<sum_kernel<Index, T, Factor>>(",
        ],
    ),
    # There would be 64 kernels: all are to be of one dtype.
    "of_three": (
        OF_THREE,
        "",
        [
            """trifold::check(z.scalar_type() == x.scalar_type(), "of_three: z must have the dtype of x");""",
            """trifold::check(factor.scalar_type() == x.scalar_type(), "of_three: factor must have the dtype of x");""",
            "template <class T>\n__global__ void __launch_bounds__(256) sum_kernel(const T* __restrict__ x,",
        ],
    ),
    # What follows from a check holds in the rest of it, too.
    "alike": (
        ALIKE,
        "",
        [
            "template <class T>\n__global__ void __launch_bounds__(32)",
            "copy_matrix_kernel(const T* __restrict__ x,",
            "trifold::ceil_div(x.size(0), SIDES_0)",
            "trifold::same_dtype(z, x)",
        ],
    ),
    "computes": (
        COMPUTES,
        "",
        [
            "const int64_t blocks = x.numel() / 256;",
            "std::max<int64_t>({x.size(0), x.size(1), std::abs(x.size(0) - 5)})",
            "  trifold::zeroed(y);\n  trifold::filled(z, 0.5);",
            "while (left > 0) {\n    left -= 2;\n    std::swap(y, z);\n  }",
            "const Tensor x_argument = k % 2 == 0 ? y : z;",
        ],
    ),
    # A loop assigns no variable that another name has, here or in a function that calls this one.
    "kept_apart": (
        KEPT_APART,
        "",
        [
            "int64_t j = k;",
            "int64_t n2 = k;",
            "const int64_t i_end = k;",
            'trifold::fail("kept_apart: ", m);',
            "if (n > 2) {\n      z = x;",
        ],
    ),
    "by_name": (
        BY_NAME,
        "",
        [': factor == "two" ? 2', "const trifold::Complex<float>* __restrict__ x"],
    ),
    "words": (
        WORDS,
        "",
        [
            """"words: x must be (", x.size(0), ", 'any', 3), but is ",""",
            'trifold::sizes_of(x, 0, -1), ", (", low,',
        ],
    ),
    "integers_only": (
        INTEGERS_ONLY,
        "",
        [
            "copy_kernel(const T* __restrict__ x, T* __restrict__ y, int64_t n) {",
            "trifold::dispatch_dtypes<int64_t, uint8_t>(",
        ],
    ),
}
DRAFTED |= {
    op: (launch_function(op, *statements), change, [f"copy_kernel({first}"])
    for op, (statements, change, first) in OVERLAPS.items()
}
DRAFTED |= {op: (launch_function(op, *statements), "", lines) for op, (statements, lines) in BOUNDED_NUMBERS.items()}
DRAFTED["of_one_list"] = (
    launch_function("of_one_list", *OF_ONE_LIST).replace("turns: int", "zs: list[Tensor]"),
    "",
    ['trifold::check_same_device("of_one_list", w, "zs", a, "zs[0]");'],
)

#: Likewise, and the words in which they are refused.
REFUSED = {
    "unchecked": (UNCHECKED, "which entry of this dict is meant is not known while drafting"),
    "untold": (UNTOLD, "x[0] in a message is not translated"),
    "without_tensors": (WITHOUT_TENSORS, "without_tensors takes no tensor, by whose device torch chooses"),
    **{op: (launch_function(op, *statements), words) for op, (*statements, words) in REFUSED_STATEMENTS.items()},
    **{
        op: (launch_function(op, *statements).replace("turns: int", "turns: int | None"), "turns may be None here")
        for op, statements in REFUSED_OF_NONE.items()
    },
    **{
        op: (launch_function(op, *statements).replace("turns: int", "zs: list[Tensor], us: list[Tensor]"), words)
        for op, (*statements, words) in REFUSED_OF_LISTS.items()
    },
    "of_many": (OF_MANY, "64 combinations of dtypes of a, b"),
    "with_brackets": (WITH_BRACKETS, "write launch(kernel, grid, *arguments, block=threads)"),
    "changes_an_argument": (CHANGES_AN_ARGUMENT, "an argument of the op is changed in place"),
    "knows_no_grid": (KNOWS_NO_GRID, "this statement is not translated (not enough values"),
    "of_complex": (OF_COMPLEX, "a tensor of several dtypes, of which only some are complex"),
    "returns_sometimes": (RETURNS_SOMETIMES, "returns_sometimes ends without a result in some calls"),
    "raises_two_words": (RAISES_TWO_WORDS, 'write raise RuntimeError("...")'),
    "as_it_is": (AS_IT_IS, "the dtype of the kernel's argument x is not known"),
}


@pytest.fixture(scope="module")
def drafts(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, list[str]], dict[str, str]]:
    """The texts of each op, and why others are refused."""
    folder = tmp_path_factory.mktemp("prototypes")
    programs = {op: (function, change) for op, (function, change, _) in DRAFTED.items()}
    programs |= {op: (function, "") for op, (function, _) in REFUSED.items()}
    for op, (function, change) in programs.items():
        (folder / f"{op}.py").write_text(BEGIN.format(change=change) + function, encoding="utf-8")
    done = drafting("ops", str(folder))
    assert done.returncode == 0, done.stderr
    texts, refused = json.loads(done.stdout)
    return texts, refused


def test_these_are_drafted(drafts: tuple[dict[str, list[str]], dict[str, str]]) -> None:
    assert drafts[0].keys() == DRAFTED.keys()
    for op, (_, _, lines) in DRAFTED.items():
        text = "".join(drafts[0][op])
        assert [line for line in lines if line not in text] == []


def test_these_are_refused(drafts: tuple[dict[str, list[str]], dict[str, str]]) -> None:
    assert drafts[1].keys() == REFUSED.keys()
    for op, (_, words) in REFUSED.items():
        assert words in drafts[1][op]


@pytest.mark.parametrize(
    ("present", "pairs"),
    [
        ("abc", [("b", "a"), ("b", "c")]),
        ("ac", [("a", "b"), ("a", "c")]),  # b, which decides the dtype, may be None: a and c are compared all the same
        ("", [("a", "b"), ("a", "c"), ("b", "c")]),
    ],
)
def test_devices_are_compared_with_a_tensor_that_is_given(present: str, pairs: list[tuple[str, str]]) -> None:
    tensors = {
        name: v.Tensor(cpp.Name(name), optional=True, present=name in present, memory=v.of_argument(name))
        for name in "abc"
    }
    found = OneDevice().unknown(tensors, tensors.values(), tensors["b"], keep=True)
    assert found == pairs
