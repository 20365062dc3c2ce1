"""argmax: what it must satisfy."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from trifold.spec import (
    DTYPES,
    LONG_ROWS,
    BadCall,
    Benchmark,
    Call,
    Case,
    Cub,
    Gradients,
    Limits,
    Property,
    Result,
    Sample,
    Spec,
    Target,
    TensorCase,
    elementwise_bad_calls,
    large,
    row_shapes,
    row_smooth,
    row_specials,
    row_tensors,
)
from trifold.spec.case import Layout
from trifold.spec.drawn import matrix
from trifold.spec.fills import Fill

# Lengths between which the port chooses its team: 4 threads up to 16 vectors of 16 bytes, a warp up to 512.
_COLUMNS = (1, 33, 127, 128, 129, 1025, 4096, 4097)

# All equal, or of few values: which of the equal numbers is chosen affects the gradient too.
_SAMPLES: tuple[tuple[str, tuple[int, ...], Fill, str], ...] = (
    ("equal", (16, 37), "exact", "of equal numbers any one is right, and its index must be that of the value"),
    ("zeros", (5, 300), "zero", "-0 equals +0"),
    ("special", (64, 3), "special", "nan is larger than inf"),
    ("nan in a row", (9, 4097), "lone", "nan and inf in the first, the middle and the last column"),
    ("masked", (40, 2), "masked", "-inf is a number: a row of -inf alone has a largest one, in an existing column"),
)


def eager(x: Tensor) -> tuple[Tensor, Tensor]:
    values, indices = torch.max(x, -1)
    return values, indices


def _calls(limits: Limits) -> Any:
    return row_tensors(row_shapes(limits, least=1)).map(lambda x: Call((x,)))


def _of_equal_value(got: Tensor, want: Tensor, x: Tensor) -> Tensor:
    """Whether the index is that of a number equal to the largest one; nan equals nan."""
    matrix = x if x.dim() else x.reshape(1)
    columns = matrix.shape[-1]
    chosen = matrix.gather(-1, got.clamp(0, columns - 1).unsqueeze(-1)).squeeze(-1)
    largest = matrix.gather(-1, want.unsqueeze(-1)).squeeze(-1)
    return (got >= 0) & (got < columns) & ((chosen == largest) | (chosen.isnan() & largest.isnan()))


def _is_torch_max(function: Callable[..., Any], device: str) -> None:
    """Every bit of values (except a zero's sign), and the lowest of the correct indices."""
    for dtype in DTYPES:
        for columns in (1, 7, 100, 1000, 5000, 40_001):
            zeros = ("zero",) if columns == 100 else ()  # of both signs, which are equal
            for fill in ("normal", "exact", "special", "masked", *zeros):
                x = TensorCase((3, columns), dtype, fill=fill, seed=columns).make(device)
                values, indices = function(x)
                assert torch.equal(values.nan_to_num(), x.amax(-1).nan_to_num()), f"{columns} columns of {fill} {dtype}"
                equal = (x == values.unsqueeze(-1)) | (x.isnan() & values.isnan().unsqueeze(-1))
                lowest = equal.int().argmax(-1)
                assert torch.equal(indices, lowest), f"{columns} columns of {fill} {dtype}: {indices}, not {lowest}"


def _every_column(function: Callable[..., Any], device: str) -> None:
    """The largest number is found in any position: at both ends of a thread's, a team's and a slice's columns."""
    for dtype, columns in ((torch.float32, 70), (torch.float16, 530), (torch.float64, 1100)):
        x = torch.zeros(columns + 1, columns + 1, dtype=dtype, device=device)
        x.fill_diagonal_(1)
        _, indices = function(x[:-1, 1:])  # rows of odd length that begin at odd offsets
        assert torch.equal(indices[1:], torch.arange(columns - 1, device=device)), f"{columns} columns of {dtype}"


def _large(function: Callable[..., Any], device: str) -> None:
    """A row of more than 2³¹ numbers, and rows with as many in total, forward and backward."""
    for shape in ((1, 2**31 + 1027), (2**19 + 3, 4096)):
        x = torch.zeros(shape, dtype=torch.float16, device=device)
        x[-1, -5] = 1
        x.requires_grad_()
        values, indices = function(x)
        assert float(values[-1]) == 1, f"the largest number of the last row is {float(values[-1])}"
        assert int(indices[-1]) == shape[1] - 5, f"its index is {int(indices[-1])}"
        (grad,) = torch.autograd.grad(values, x, torch.full_like(values, 2.0))
        assert float(grad[-1, -5]) == 2, f"the gradient at the largest number is {float(grad[-1, -5])}"
        nonzero = sum(int(torch.count_nonzero(part)) for part in grad.view(-1).chunk(8))  # eight bytes for each element
        assert nonzero == shape[0], "another number of gradients than rows"
        del x, values, indices, grad


def _call(shape: tuple[int, ...], dtype: torch.dtype, layout: Layout = "contiguous", fill: Fill = "normal") -> Call:
    return Call((TensorCase(shape, dtype, layout, fill),))


def _arguments(device: torch.device, dtype: torch.dtype, case: Case) -> tuple[Tensor]:
    return (torch.randn(case.sizes, device=device, dtype=dtype),)


def _bytes(case: Case, dtype: torch.dtype) -> int:
    """The matrix; and for each row a number and its index."""
    rows, columns = case.sizes
    return rows * columns * dtype.itemsize + rows * (dtype.itemsize + 8)


_SIZES = (
    *((1_048_576, 64), (131_072, 256), (32_768, 1024), (16_384, 4096), (4096, 32_000), (1024, 131_072)),
    *((8, 1_048_576), (10_007, 1000)),
)
_CASES = tuple(Case(f"{rows} × {columns}", (rows, columns)) for rows, columns in _SIZES)
_HOST = Case("64 × 256", (64, 256))
_NO_SLOWER = (Target(measure="over eager", at_least=0.9), Target(measure="over torch.compile", at_least=0.9))

spec = Spec(
    calls=_calls,
    smooth=row_smooth(1),
    samples=[
        Sample(f"{name} {dtype}".replace("torch.", ""), _call(shape, dtype, fill=fill), reason)
        for name, shape, fill, reason in _SAMPLES
        for dtype in DTYPES
    ]
    + [
        Sample("no dimension", _call((), torch.float32), "a tensor without dimensions is a row of one column"),
        Sample("no row", _call((0, 5), torch.float32), "without rows there is no result, and no launch"),
    ],
    edges=[
        call
        for dtype in DTYPES
        for call in (
            *(_call((3, columns), dtype) for columns in _COLUMNS),
            *(_call((1, columns), dtype) for columns in LONG_ROWS),
            _call((300, 5), dtype),
            _call((2, 3, 8), dtype),
            _call((3, 8), dtype, "padded"),
            _call((3, 9), dtype, "offset"),
            _call((3, 4), dtype, "sliced"),
            _call((3, 4), dtype, "transposed"),
            _call((3, 8), dtype, "expanded"),
        )
    ]
    + [Call((x,)) for x in row_specials()],
    bad_calls=[
        *elementwise_bad_calls("x"),
        BadCall("no column", lambda device: ([torch.zeros(3, 0, device=device)], {}), ("x", "(3, 0)")),
    ],
    properties=[
        Property("torch.max", _is_torch_max, "it is what the name says"),
        Property("every column", _every_column, "a wrong offset shows at the ends of what a thread has"),
        large(_large, gpu_memory=30 * 2**30),
    ],
    results=(
        Result(),
        Result(tie=_of_equal_value, reason="of equal numbers torch may choose another one"),
    ),
    gradients=Gradients(results=(0,)),
    rounded_once="ports/argmax.py: each value is a number of x, in its dtype",
    gradients_rounded_once="each is a number of the upstream gradient, or 0",
    rounding_error=lambda reference, x: tuple(torch.zeros_like(values) for values in reference(x)),
    gradient_rounding_error=lambda reference, grad, x: torch.zeros_like(x),
    zero_signs="-0 equals +0, and torch may choose the other one",
    benchmarks=(
        Benchmark(
            name="forward",
            cases=_CASES,
            arguments=_arguments,
            eager=eager,
            bytes=_bytes,
            draw=matrix,
            cub=Cub(function="DeviceSegmentedReduce::ArgMax"),
            host=_HOST,
            targets=_NO_SLOWER,
        ),
        Benchmark(
            name="backward",
            cases=_CASES,
            arguments=_arguments,
            eager=eager,
            bytes=_bytes,
            draw=matrix,
            backward=True,
            roofline="write",
            targets=_NO_SLOWER,
        ),
    ),
)
