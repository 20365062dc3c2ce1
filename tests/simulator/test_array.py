"""Arrays as a kernel sees them, against NumPy's."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tests.simulator.handwritten import here
from tests.simulator.test_checker import found, run
from trifold import _simulator as sim
from trifold.findings import OutOfBounds, collect

UNCHECKED = sim.CHECK_BOUNDS

NUMBERS = ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"]
OTHERS = ["c8", "c16", "M8[s]", "m8[us]", "S5", "U3"]


def wrap(*arrays: Any, checks: int = sim.CHECK_ALL, flags: tuple[int, ...] | None = None) -> tuple[Any, ...]:
    names = tuple("abcdefgh"[: len(arrays)])
    return sim.wrap_arguments(names, arrays, flags or (0,) * len(arrays), checks)


def in_kernel(function: Callable[..., Any], *arguments: Any, **more: Any) -> Any:
    """Return the result of ``function`` when one CUDA thread calls it."""
    results = []

    def kernel(*given: Any) -> None:
        results.append(function(*given))

    names = tuple("abcdefgh"[: len(arguments)])
    checks = more.pop("checks", sim.CHECK_ALL)
    wrapped = sim.wrap_arguments(names, arguments, more.pop("flags", (0,) * len(arguments)), checks)
    sim.launch(kernel, False, "kernel", (1, 1, 1), (1, 1, 1), more.pop("shared", 0), wrapped, checks, 0)
    assert not more
    return results[0]


def sample(dtype: str) -> np.ndarray[Any, Any]:
    if dtype[0] in "SU":
        return np.array(["a", "bc", "", "d"], dtype)
    if dtype[0] in "Mm":
        return np.arange(4).astype("i8").view(dtype)
    return np.array([0, 1, 100, 1], dtype)


@pytest.mark.parametrize("dtype", NUMBERS + OTHERS)
def test_elements_of_every_type_are_read_and_written(dtype: str) -> None:
    x, y = sample(dtype), np.zeros(4, dtype)

    def copy(x: Any, y: Any) -> None:
        for i in range(4):
            y[i] = x[i]

    in_kernel(copy, x, y)
    np.testing.assert_array_equal(x, y)


def test_elements_have_the_types_of_the_gpu() -> None:
    for dtype in NUMBERS:
        kind = type(in_kernel(lambda x: x[0], np.ones(1, dtype)))
        expected = {"?": bool, "f8": float, "i8": int}.get(dtype) or getattr(sim, np.dtype(dtype).name)
        assert kind is expected
    big = in_kernel(lambda x: x[0], np.array([2**40]))
    assert type(big) is sim.int64 and int(big) == 2**40


def test_bfloat16_is_read_as_float32_and_rounded_to_nearest_even() -> None:
    bits = np.array([0x3F80, 0, 0, 0], np.uint16)

    def halves(x: Any) -> Any:
        x[1] = 1.00390625  # halfway between 1 and its successor: to the even one
        x[2] = 1.01171875  # halfway between the next two
        x[3] = float("nan")
        return x[0]

    one = in_kernel(halves, bits, flags=(1,))
    assert type(one) is sim.float32 and float(one) == 1
    assert list(bits[:3]) == [0x3F80, 0x3F80, 0x3F82]
    assert bits[3] & 0x7F80 == 0x7F80 and bits[3] & 0x7F
    assert repr(wrap(bits, flags=(1,))[0]).startswith("array([1.")


def test_stores_wrap_truncate_and_round() -> None:
    x, y = np.zeros(3, np.int8), np.zeros(2, np.float32)

    def store(x: Any, y: Any) -> None:
        x[0] = 300
        x[1] = -2.9
        x[2] = True
        y[0] = 0.1
        y[1] = 2**24 + 1

    in_kernel(store, x, y)
    assert list(x) == [44, -2, 1]
    assert list(y) == [np.float32(0.1), 2**24]


# Views --------------------------------------------------------------------------------------------------------------

SHAPES = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)


@st.composite
def strided(draw: st.DrawFn) -> np.ndarray[Any, Any]:
    """A view with any strides: negative, of a slice, transposed, or expanded."""
    shape = draw(SHAPES)
    x = np.arange(int(np.prod(shape)), dtype=np.int32).reshape(shape)
    for axis in range(x.ndim):
        step = draw(st.sampled_from([1, 1, 2, -1]))
        x = x[(slice(None),) * axis + (slice(None, None, step),)]
    if draw(st.booleans()):
        x = x.T
    if draw(st.booleans()):
        x = np.broadcast_to(x, (2, *x.shape))
    return x


@given(st.data())
def test_indexing_is_numpys(data: st.DataObject) -> None:
    x = data.draw(strided())
    index = data.draw(hnp.basic_indices(x.shape, allow_newaxis=True))
    expected = x[index]
    (got,) = [in_kernel(lambda a: a[index], x)]
    assert np.shape(got) == expected.shape
    np.testing.assert_array_equal(np.asarray(got.__array__() if expected.ndim else int(got)), expected)


@given(st.data())
def test_assignment_to_a_part_is_numpys(data: st.DataObject) -> None:
    x = data.draw(strided())
    x = x.copy()
    index = data.draw(hnp.basic_indices(x.shape))
    part = x[index]
    expected, got = x.copy(), x.copy()
    source: Any = np.int32(7)
    if data.draw(st.booleans()):
        source = np.arange(100, 100 + part.size, dtype=np.int32).reshape(part.shape)
    expected[index] = source

    def assign(a: Any) -> None:
        a[index] = source

    in_kernel(assign, got)
    np.testing.assert_array_equal(got, expected)


@given(strided())
def test_attributes_are_numpys(x: np.ndarray[Any, Any]) -> None:
    (a,) = wrap(x)
    for name in ("shape", "size", "ndim", "dtype", "itemsize", "nbytes"):
        assert getattr(a, name) == getattr(x, name)
    if all(extent > 1 for extent in x.shape):  # others are never stepped along
        assert a.strides == x.strides
    np.testing.assert_array_equal(np.asarray(a), x)
    np.testing.assert_array_equal(np.asarray(a.T), x.T)
    assert repr(a) == repr(x)
    if x.ndim:
        assert len(a) == len(x)
    if x.flags.c_contiguous:
        np.testing.assert_array_equal(np.asarray(a.ravel()), x.ravel())
        np.testing.assert_array_equal(np.asarray(a.reshape((1, -1) if x.size else (0, 1))).ravel(), x.ravel())


def test_views_keep_the_bytes_and_their_checks() -> None:
    def transposed(x: Any) -> None:
        i = sim.threadIdx.x
        x.T[0, i // 2] = i

    finding = found(transposed, np.zeros((4, 4)), block=4)
    assert (finding.kind, finding.array, finding.index) == ("race", "x", (0, 0))
    octets = np.arange(8, dtype=np.uint8)
    seen = in_kernel(lambda x: [int(v) for v in x.view(np.uint16)], octets)
    assert seen == list(octets.view(np.uint16))
    parts = in_kernel(lambda z: (float(z.real[1]), float(z.imag[1])), np.array([0, 1 + 2j]))
    assert parts == (1.0, 2.0)
    axes = in_kernel(lambda x: x.transpose(1, 2, 0).shape, np.zeros((2, 3, 4)))
    assert axes == (3, 4, 2)


def test_elements_of_a_slice_are_checked_one_by_one() -> None:
    def shift(x: Any, y: Any) -> Iterator[Any]:
        x[sim.threadIdx.x : sim.threadIdx.x + 2] = y[:2]
        yield here()

    finding = found(shift, np.zeros(8), np.arange(8.0), block=4)
    assert (finding.kind, finding.index, finding.accesses[0].operation) == ("race", (1,), "write")


def test_iteration_and_membership() -> None:
    assert in_kernel(lambda x: sum(int(v) for v in x), np.arange(5, dtype=np.int32)) == 10
    assert in_kernel(lambda x: [row.shape for row in x], np.zeros((2, 3))) == [(3,), (3,)]


def test_a_numpy_function_writes_its_output() -> None:
    x, y = np.arange(4, dtype=np.float32), np.zeros(4, np.float32)
    in_kernel(lambda x, y: np.sqrt(x, y), x, y)
    np.testing.assert_array_equal(y, np.sqrt(x))
    with pytest.raises(TypeError, match="makes a new array"):
        in_kernel(lambda x: np.sqrt(x), x)


# What is wrong ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("index", "axis", "text"),
    [
        ((4, 0), 0, "index 4 is out of bounds for axis 0 with size 4 (shape (4, 6))"),
        ((0, -7), 1, "index -7 is out of bounds for axis 1 with size 6"),
        ((2**70, 0), 0, "out of bounds for axis 0"),
        ((slice(None), 6), 1, "index 6 is out of bounds for axis 1"),
        (5, 0, "index 5 is out of bounds for axis 0"),
    ],
)
@pytest.mark.parametrize("write", [False, True])
def test_an_index_outside_an_array_is_found_before_the_access(index: Any, axis: int, text: str, write: bool) -> None:
    def access(grid: Any) -> None:
        if write:
            grid[index] = 1.0
        else:
            grid[index]

    x = np.zeros((4, 6))
    finding = found(access, x)
    assert (finding.kind, finding.array, finding.memory) == ("out-of-bounds", "grid", "global")
    assert finding.accesses[0].operation == ("write" if write else "read")
    assert text in finding.message and "grid[" in finding.message
    assert not x.any()


def test_an_out_of_bounds_fault_is_an_index_error() -> None:
    with pytest.raises(IndexError) as caught:
        in_kernel(lambda x: x[3], np.zeros(3), checks=0)
    assert isinstance(caught.value, OutOfBounds)


@pytest.mark.parametrize(
    ("index", "error", "text"),
    [
        (1.0, TypeError, "indexed with 1.0, a float: an index is an integer; use int"),
        ((0, True), TypeError, "indexed with True, a bool"),
        ((0, [1]), TypeError, "a list"),
        ((0, 0, 0), IndexError, "array a has 2 axes, but is indexed with 3"),
        ("x", KeyError, "array a has no field"),
    ],
)
def test_a_wrong_index_names_the_array(index: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text.replace("(", r"\(").replace("[", r"\[")):
        in_kernel(lambda a: a[index], np.zeros((2, 2)))


def test_negative_indices_wrap_and_are_a_lint() -> None:
    x = np.arange(6).reshape(2, 3)

    def last(x: Any) -> int:
        for _ in range(3):
            value = x[-1, -2]
        return int(value)

    with collect() as lints:
        assert in_kernel(last, x) == 4
    assert [(lint.kind, lint.severity, lint.index) for lint in lints] == [("negative index", "lint", (-1, -2))] * 2
    assert "axis 0" in lints[0].message and "axis 1" in lints[1].message
    with collect() as lints:
        in_kernel(last, x, checks=sim.CHECK_ALL & ~sim.CHECK_LINT)
    assert not lints


def test_negative_indices_of_atomics_wrap_and_are_the_same_lint() -> None:
    """Numba's CUDA target adds the length there, too."""
    messages = []
    for change in (lambda x: x.__setitem__(-1, 7), lambda x: sim.atomic.exch(x, -1, 7)):
        x = np.zeros(3, "i4")
        with collect() as lints:
            in_kernel(change, x)
        assert x.tolist() == [0, 0, 7]
        assert [(lint.kind, lint.severity, lint.index) for lint in lints] == [("negative index", "lint", (-1,))]
        messages.append(lints[0].message.partition(", by thread")[0])
    assert messages[0] == messages[1]
    with pytest.raises(OutOfBounds, match="index -4 is out of bounds"):
        in_kernel(lambda x: sim.atomic.exch(x, -4, 7), np.zeros(3, "i4"))


def test_read_only_arrays_refuse_writes() -> None:
    fixed = np.zeros(3)
    fixed.flags.writeable = False

    def write(a: Any) -> None:
        a[0] = 1.0

    for array, flag in ((fixed, 0), (np.zeros(3), 8), (np.zeros(3), 4)):
        with pytest.raises(TypeError, match="array a is read-only"):
            in_kernel(write, array, flags=(flag,))
        with pytest.raises(TypeError, match="read-only"):
            in_kernel(lambda a: sim.atomic.add(a, 0, 1.0), array, flags=(flag,))
        with pytest.raises(TypeError, match="read-only"):
            in_kernel(lambda a: a[1:].fill(1.0), array, flags=(flag,))


def test_a_value_that_is_no_number_is_refused() -> None:
    def write(a: Any) -> None:
        a[0] = "text"

    with pytest.raises(TypeError):
        in_kernel(write, np.zeros(3))


def test_slices_of_other_shapes_are_refused() -> None:
    def assign(a: Any, b: Any) -> None:
        a[:2] = b

    with pytest.raises(ValueError, match=r"cannot assign slice of shape \(2,\) from input of shape \(3,\)"):
        in_kernel(assign, np.zeros(3), np.zeros(3))


# Arguments ----------------------------------------------------------------------------------------------------------


def test_what_is_no_array_stays_as_it_is() -> None:
    things = (1, 2.5, None, "x", (1, 2))
    assert wrap(*things) == things


def test_arrays_without_elements_or_axes() -> None:
    assert in_kernel(lambda a, b: (len(a), float(b[()])), np.zeros(0), np.array(2.5)) == (0, 2.5)
    with pytest.raises(OutOfBounds):
        in_kernel(lambda a: a[0], np.zeros(0))

    def write(a: Any) -> None:
        a[()] = 3.0

    x = np.array(2.5)
    in_kernel(write, x)
    assert x == 3


def test_an_array_of_32_axes() -> None:
    x = np.arange(2, dtype=np.int32).reshape((1,) * 31 + (2,))
    assert int(in_kernel(lambda a: a[(0,) * 31 + (1,)], x)) == 1


def test_arguments_give_back_their_memory() -> None:
    x = np.zeros(1000)
    before = sys.getrefcount(x)
    for _ in range(10):
        in_kernel(lambda a: a[0], x)
    gc.collect()
    assert sys.getrefcount(x) == before


# Records ------------------------------------------------------------------------------------------------------------

POINT = np.dtype([("x", "f4"), ("hits", "i4", (2,)), ("inner", [("a", "u1"), ("b", "f8")])])


def test_fields_of_records_are_typed_and_checked() -> None:
    points = np.zeros(3, POINT)

    def touch(points: Any) -> Any:
        points[1].x = 2.5
        points[1]["hits"][1] = 7
        points[2].inner.b = 0.5
        points[2].inner = points[1].inner
        points.x[0] = 1
        points["x"][2] = points[1].x
        return points[1].x, points[1].hits.shape

    x, shape = in_kernel(touch, points)
    assert (type(x), float(x), shape) == (sim.float32, 2.5, (2,))
    assert points["x"].tolist() == [1, 2.5, 2.5] and points[1]["hits"].tolist() == [0, 7]
    assert points[2]["inner"]["b"] == 0


def test_a_race_on_a_field_leaves_the_others_alone() -> None:
    def fields(points: Any, both: bool) -> None:
        i = sim.threadIdx.x
        if i == 0 or both:
            points[0].x = i
        elif i == 1:
            points[0].hits[0] = 1

    run(fields, np.zeros(1, POINT), False, block=2)
    finding = found(fields, np.zeros(1, POINT), True, block=2)
    assert (finding.array, finding.index) == ("points", (0,))


def test_an_unknown_field_is_named() -> None:
    with pytest.raises(AttributeError, match="'y'"):
        in_kernel(lambda a: a[0].y, np.zeros(1, POINT))
    with pytest.raises(KeyError, match="has no field"):
        in_kernel(lambda a: a[0]["y"], np.zeros(1, POINT))


# Atomics ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "start", "operands", "after"),
    [
        ("add", 5, (3,), 8),
        ("sub", 5, (3,), 2),
        ("and_", 6, (3,), 2),
        ("or_", 6, (3,), 7),
        ("xor", 6, (3,), 5),
        ("inc", 3, (3,), 0),
        ("dec", 0, (3,), 3),
        ("exch", 5, (3,), 3),
        ("max", 5, (3,), 5),
        ("min", 5, (3,), 3),
        ("cas", 5, (5, 3), 3),
        ("cas", 5, (4, 3), 5),
    ],
)
def test_atomics(name: str, start: int, operands: tuple[int, ...], after: int) -> None:
    x = np.full((2, 2), start, np.uint32)
    old = in_kernel(lambda x: getattr(sim.atomic, name)(x, (1, 0), *operands), x)
    assert (type(old), int(old)) == (sim.uint32, start)
    assert x.tolist() == [[start, start], [after, start]]


def test_atomics_of_floating_types() -> None:
    x = np.array([np.nan, 1.0])
    in_kernel(lambda x: (sim.atomic.nanmax(x, 0, 2.0), sim.atomic.nanmin(x, 1, 0.5)), x)
    assert x.tolist() == [2.0, 0.5]
    x = np.array([4], np.int32)
    assert int(in_kernel(lambda x: sim.atomic.compare_and_swap(x, 4, 9), x)) == 4 and x[0] == 9


def test_wrong_atomics_are_refused_with_their_name() -> None:
    add: Any = sim.atomic.add
    with pytest.raises(TypeError, match=r"atomic.add works on an array"):
        in_kernel(lambda: add([1], 0, 1))
    with pytest.raises(TypeError, match="is not a complete index of array a, which has 2 axes"):
        in_kernel(lambda a: sim.atomic.add(a, 0, 1), np.zeros((2, 2)))
    with pytest.raises(TypeError, match=r"atomic.add.array, index, value. takes 3 arguments, not 2"):
        in_kernel(lambda a: add(a, 0), np.zeros(2))
    with pytest.raises(OutOfBounds, match="out-of-bounds atomic"):
        in_kernel(lambda a: sim.atomic.add(a, 2, 1), np.zeros(2))


# At a debugger's prompt ---------------------------------------------------------------------------------------------


def test_a_debugger_sees_the_data_and_disturbs_nothing() -> None:
    def stopped(x: Any) -> None:
        tile = sim.shared.array(2, np.float32)
        code = compile("(repr(tile), float(tile[0]), x.sum(), np.add(x, 1), float(x[0]))", "<stdin>", "eval")
        seen.append(eval(code, {"np": np}, {"tile": tile, "x": x}))
        if sim.threadIdx.x == 1:
            x[0] = 1.0

    seen: list[Any] = []
    run(stopped, np.array([1.0, 2.0]), block=2)
    text, first, total, plus, _ = seen[0]
    assert text == "array([nan, nan], dtype=float32)" and first != first
    assert total == 3 and list(plus) == [2, 3]
