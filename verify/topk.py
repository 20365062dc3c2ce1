"""topk: what it must satisfy."""

import math
import random
from collections.abc import Callable
from typing import Any

import torch
from hypothesis import strategies as st
from torch import Tensor

from trifold.spec import (
    DTYPES,
    LONG_ROWS,
    BadCall,
    Benchmark,
    Call,
    Case,
    Gradients,
    Limits,
    Property,
    Result,
    Sample,
    Spec,
    Target,
    TensorCase,
    large,
    row_shapes,
    row_specials,
    row_tensors,
)
from trifold.spec.case import Layout
from trifold.spec.drawn import matrix, one_of
from trifold.spec.fills import Fill

_MOST = 64


def eager(x: Tensor, k: int) -> tuple[Tensor, Tensor]:
    values, indices = torch.topk(x, k)
    return values, indices


@st.composite
def _calls(draw: st.DrawFn, limits: Limits) -> Call:
    x = draw(row_tensors(row_shapes(limits, least=1)))
    most = min(_MOST, x.shape[-1])
    return Call((x, draw(st.one_of(st.sampled_from((1, most)), st.integers(1, most)))))


def _call(
    shape: tuple[int, ...], k: int, dtype: torch.dtype, layout: Layout = "contiguous", fill: Fill = "normal"
) -> Call:
    return Call((TensorCase(shape, dtype, layout, fill), k))


_SAMPLES: tuple[tuple[str, tuple[int, ...], int, Fill, str], ...] = (
    ("equal", (5, 300), 50, "exact", "equal numbers fill the k places: their indices must be distinct"),
    ("zeros", (2, 5000), 64, "zero", "-0 equals +0; a threshold that all numbers equal must let k of them pass"),
    ("special", (16, 40), 10, "special", "nan comes before inf, and there may be several"),
    ("masked", (16, 40), 38, "masked", "-inf is a number: what pads a sort must come after it"),
    ("all of a row", (7, 64), 64, "normal", "k may be the number of columns: nothing is left out"),
    ("tiny", (3, 1000), 20, "tiny", "small differences count as large ones do"),
)


def _of_equal_value(got: Tensor, want: Tensor, x: Tensor, k: int) -> Tensor:
    """Whether the index is that of a number equal to the expected one, and no other result of the row has it."""
    matrix, got, want = (tensor if tensor.dim() else tensor.reshape(1) for tensor in (x, got, want))
    columns = matrix.shape[-1]
    chosen, right = matrix.gather(-1, got.clamp(0, columns - 1)), matrix.gather(-1, want)
    in_order = got.sort(-1).values
    distinct = (in_order[..., 1:] != in_order[..., :-1]).all(-1, keepdim=True)
    equal = (chosen == right) | (chosen.isnan() & right.isnan())
    result: Tensor = distinct & (got >= 0) & (got < columns) & equal
    return result if x.dim() else result.reshape(())


def _require_sorted(function: Callable[..., Any], x: Tensor, k: int, what: str) -> None:
    """The results are the beginning of a stable sort of the row."""
    values, indices = function(x, k)
    # On a GPU torch.sort puts a nan with a set sign bit last: all nan are made equal here.
    numbers = torch.where(x.isnan(), math.nan, x)
    want = torch.sort(numbers, dim=-1, descending=True, stable=True)
    assert torch.equal(indices, want.indices[..., :k]), f"indices of {what}: {indices}"
    assert torch.equal(values.nan_to_num(), want.values[..., :k].nan_to_num()), f"values of {what}: {values}"


def _is_stable_sort(function: Callable[..., Any], device: str) -> None:
    for dtype in DTYPES:
        for columns, k in ((1, 1), (64, 64), (257, 1), (1000, 33), (5000, 64), (70_001, 7)):
            zeros = ("zero",) if columns == 257 else ()  # of both signs, which are equal
            for fill in ("normal", "exact", "special", "masked", *zeros):
                x = TensorCase((2, columns), dtype, fill=fill, seed=columns).make(device)
                _require_sorted(function, x, k, f"the {k} largest of {columns} {fill} numbers of {dtype}")


def _every_order(function: Callable[..., Any], device: str) -> None:
    """Rows in which many numbers pass each threshold: increasing ones, and those whose largest numbers few threads
    have."""
    i = torch.arange(20_000, device=device)
    rows = {
        "rising": i,
        "falling": -i,
        "equal": i * 0,
        "a period of 256": i % 256,
        "rising in threads": i // 1024 + (i // 4 % 64) * 1000,
        "in one thread's columns": torch.where(i // 8 % 256 == 5, i, -i),
    }
    for name, row in rows.items():
        for dtype, k in ((torch.float64, 64), (torch.float32, 64), (torch.float32, 1), (torch.float16, 20)):
            _require_sorted(function, row.to(dtype).unsqueeze(0), k, f"{name}, k = {k}, {dtype}")


def _large(function: Callable[..., Any], device: str) -> None:
    """A row of more than 2³¹ numbers, and rows with as many in total, forward and backward."""
    for shape in ((1, 2**31 + 1027), (2**19 + 3, 4096)):
        x = torch.zeros(shape, dtype=torch.float16, device=device)
        x[-1, -5], x[-1, 3] = 2, 1
        x.requires_grad_()
        values, indices = function(x, 3)
        assert values[-1].tolist() == [2, 1, 0], f"the values of the last row are {values[-1].tolist()}"
        wanted = [shape[1] - 5, 3, 0]
        assert indices[-1].tolist() == wanted, f"the indices of the last row are {indices[-1].tolist()}, not {wanted}"
        (grad,) = torch.autograd.grad(values, x, torch.full_like(values, 2.0))
        assert grad[-1, wanted].tolist() == [2, 2, 2], f"the gradients there are {grad[-1, wanted].tolist()}"
        nonzero = sum(int(torch.count_nonzero(part)) for part in grad.view(-1).chunk(8))  # eight bytes for each element
        assert nonzero == 3 * shape[0], "another number of gradients than results"
        del x, values, indices, grad


def _bad_call(
    name: str, mentions: tuple[str, ...], shape: tuple[int, ...], k: Any, dtype: torch.dtype = torch.float32
) -> BadCall:
    return BadCall(name, lambda device: ([torch.zeros(shape, dtype=dtype, device=device), k], {}), mentions)


def _arguments(device: torch.device, dtype: torch.dtype, case: Case) -> tuple[Tensor, int]:
    rows, columns, k = case.sizes
    return torch.randn(rows, columns, device=device, dtype=dtype), k


def _bytes(case: Case, dtype: torch.dtype) -> int:
    """The matrix; and for each row k numbers and their indices."""
    rows, columns, k = case.sizes
    return rows * columns * dtype.itemsize + rows * k * (dtype.itemsize + 8)


_SIZES = (
    *((65_536, 128, 8), (32_768, 1024, 8), (16_384, 4096, 50), (4096, 32_000, 50), (1024, 131_072, 64)),
    *((1, 131_072, 50), (8, 1_048_576, 64), (10_007, 1000, 20)),
)
_CASES = tuple(Case(f"{rows} × {columns}, k = {k}", (rows, columns, k)) for rows, columns, k in _SIZES)


def _drawn(numbers: random.Random, least: int, most: int) -> tuple[int, int, int]:
    return *matrix(numbers, least, most), one_of(numbers, (1, 2, 4, 8, 10, 20, 50, 64))


_HOST = Case("64 × 256, k = 8", (64, 256, 8))
_NO_SLOWER = (Target(measure="over eager", at_least=0.9), Target(measure="over torch.compile", at_least=0.9))

spec = Spec(
    calls=_calls,
    smooth=[
        Call((TensorCase((3,), torch.float64, seed=10), 2)),
        Call((TensorCase((1, 1, 2), torch.float64, seed=10), 1)),
        Call((TensorCase((2, 4), torch.float64, seed=10), 3)),
    ],
    samples=[
        Sample(f"{name} {dtype}".replace("torch.", ""), _call(shape, k, dtype, fill=fill), reason)
        for name, shape, k, fill, reason in _SAMPLES
        for dtype in DTYPES
    ]
    + [
        Sample("no dimension", _call((), 1, torch.float32), "a tensor without dimensions is a row of one column"),
        Sample("no row", _call((0, 5), 2, torch.float32), "without rows there is no result, and no launch"),
    ],
    edges=[
        call
        for dtype in DTYPES
        for call in (
            _call((3, 1), 1, dtype),
            _call((3, 33), 5, dtype),
            # Up to here, forward has 64 threads per row, then 256; backward 4, a warp, or 256.
            _call((3, 256), 64, dtype),
            _call((3, 257), 64, dtype),
            _call((3, 512), 32, dtype),
            _call((3, 1025), 33, dtype),
            _call((3, 2049), 8, dtype),
            _call((2, 4097), 3, dtype),
            # In slices; with so many candidates that 256 threads process these too.
            *(_call((1, columns), 64, dtype) for columns in (*LONG_ROWS, 70_001)),
            _call((300, 5), 2, dtype),
            _call((2, 3, 8), 4, dtype),
            _call((3, 8), 2, dtype, "padded"),
            _call((3, 9), 2, dtype, "offset"),
            _call((3, 4), 2, dtype, "sliced"),
            _call((3, 4), 2, dtype, "transposed"),
            _call((3, 8), 2, dtype, "expanded"),
        )
    ]
    + [Call((x, 4)) for x in row_specials()],
    bad_calls=[
        _bad_call("k of 0", ("k", "64", "0"), (3, 5), 0),
        _bad_call("negative k", ("k", "64", "-1"), (3, 5), -1),
        _bad_call("k beyond 64", ("k", "64", "65"), (3, 500), 65),
        _bad_call("k beyond the columns", ("k", "6", "x", "(3, 5)"), (3, 5), 6),
        _bad_call("no column", ("k", "x", "(3, 0)"), (3, 0), 1),
        _bad_call("no dimension, and k of 2", ("k", "x", "()"), (), 2),
        _bad_call("a fractional k", ("k",), (3, 5), 1.5),
        _bad_call("integer dtype", ("x", "int64"), (3,), 1, torch.int64),
        _bad_call("complex dtype", ("x", "complex64"), (3,), 1, torch.complex64),
        BadCall("not a tensor", lambda device: (["three", 1], {}), ("x",)),
    ],
    properties=[
        Property("stable sort", _is_stable_sort, "it is the beginning of one"),
        Property("every order", _every_order, "a bound on what is kept must not lose numbers where many pass it"),
        large(_large, gpu_memory=30 * 2**30),
    ],
    results=(
        Result(),
        Result(tie=_of_equal_value, reason="equal numbers may come in any order"),
    ),
    gradients=Gradients(results=(0,)),
    rounded_once="ports/topk.py: each value is a number of x, in its dtype",
    gradients_rounded_once="each is a number of the upstream gradient, or 0",
    rounding_error=lambda reference, x, k: tuple(torch.zeros_like(values) for values in reference(x, k)),
    gradient_rounding_error=lambda reference, grad, x, k: torch.zeros_like(x),
    zero_signs="-0 equals +0, and another one of them may come first",
    benchmarks=(
        Benchmark(
            name="forward",
            cases=_CASES,
            arguments=_arguments,
            eager=eager,
            bytes=_bytes,
            draw=_drawn,
            host=_HOST,
            targets=_NO_SLOWER,
        ),
        Benchmark(
            name="backward",
            cases=_CASES,
            arguments=_arguments,
            eager=eager,
            bytes=_bytes,
            draw=_drawn,
            backward=True,
            roofline="write",
            targets=_NO_SLOWER,
        ),
    ),
)
