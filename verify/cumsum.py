"""cumsum: what it must satisfy."""

import math
from collections.abc import Callable

import torch
from hypothesis import strategies as st
from torch import Tensor

from trifold.spec import (
    DTYPES,
    LONG_ROWS,
    ROW_FILLS,
    BadCall,
    Benchmark,
    Call,
    Case,
    Cub,
    IndexCase,
    Limits,
    Property,
    Sample,
    Spec,
    Target,
    TensorCase,
    large,
    row_edges,
    row_long,
    row_nan,
    row_shapes,
    row_smooth,
    row_tensors,
)
from trifold.spec.case import Layout
from trifold.spec.drawn import matrix
from trifold.spec.fills import Fill

_INTEGERS = (torch.int64, torch.int32)
_INTEGER_FILLS: tuple[Fill, ...] = ("exact", "normal", "range", "special")

# A sum of large numbers may leave the range of its type, and return into it in a wider one. In float16, whose sums are
# float32, none does.
_SUMMABLE: tuple[Fill, ...] = (*(f for f in ROW_FILLS if f not in ("huge", "range", "special")), "squarable")


def eager(x: Tensor) -> Tensor:
    return torch.cumsum(x, -1)


@st.composite
def _calls(draw: st.DrawFn, limits: Limits) -> Call:
    shapes = row_shapes(limits)
    if draw(st.integers(0, 4)) == 4:
        return Call((draw(row_tensors(shapes, dtypes=_INTEGERS, fills=_INTEGER_FILLS)),))
    dtype = draw(st.sampled_from(DTYPES))
    fills = ROW_FILLS if dtype == torch.float16 else _SUMMABLE
    return Call((draw(row_tensors(shapes, dtypes=[dtype], fills=fills)),))


def _integers(*shape: int, below: int = 2**31, dtype: torch.dtype = torch.int64, layout: Layout = "contiguous") -> Call:
    return Call((IndexCase(shape, below, layout=layout, seed=3, dtype=dtype),))


def _tensor(
    *shape: int, dtype: torch.dtype = torch.float32, fill: Fill = "normal", layout: Layout = "contiguous"
) -> Call:
    return Call((TensorCase(shape, dtype, layout, fill, 1),))


def _sum_of_sizes(x: Tensor) -> Tensor:
    """Σ|x| up to each number, times the number of additions, over 4, which is the multiple: up to 16 + 5 + 8 in a
    thread, a warp and a block, and one for each earlier tile of 512 numbers, which in types narrower than float64 is a
    generous bound."""
    columns = x.shape[-1] if x.dim() else 1
    return torch.cumsum(x.abs(), -1) * (8 + columns / 2048)


def _scale(reference: Callable[..., Tensor], x: Tensor) -> Tensor:
    """|y| itself, which is rounded once."""
    return reference(x).abs()


def _working_scale(reference: Callable[..., Tensor], x: Tensor) -> Tensor:
    return _sum_of_sizes(x)


def _gradient_scale(reference: Callable[..., Tensor], grad: Tensor, x: Tensor) -> Tensor:
    return (grad.flip(-1).cumsum(-1).flip(-1) if grad.dim() else grad).abs()


def _gradient_working_scale(reference: Callable[..., Tensor], grad: Tensor, x: Tensor) -> Tensor:
    return _sum_of_sizes(grad.flip(-1)).flip(-1) if grad.dim() else grad.abs()


def _exact(function: Callable[..., Tensor], device: str) -> None:
    """Sums of whole numbers are exact in every dtype that holds them, for each length at which the kernel or the number
    of tiles changes."""
    lengths = (1, 31, 33, 511, 512, 513, 2049, 4096, 4097, 8192, 8193, 16_385, 24_576)
    for rows in (1, 9):  # 9 count as many on the CPU
        for columns in lengths:
            signs = 1 - 2 * (torch.arange(rows * columns, device=device).reshape(rows, columns) * 7 % 5 % 2)
            want = signs.cumsum(-1)
            for dtype in (torch.float32, torch.float64, torch.int64, torch.int32):
                got = function(signs.to(dtype))
                assert torch.equal(got.to(torch.int64), want), f"{rows} × {columns} of {dtype}: not the exact sums"


def _carries_on(function: Callable[..., Tensor], device: str) -> None:
    """A sum of many equal terms does not drift from one tile to the next; in float32 it would, by 15 round-offs where
    blocks look back, and by 40 where one block carries it."""
    for rows in (1, 9):  # 9 count as many on the CPU
        for dtype in (torch.float32, torch.float16, torch.bfloat16):
            number = 0.1 / (16 if dtype == torch.float16 else 1)
            x = torch.full((rows, 1_000_000), number, dtype=dtype, device=device)
            want = x.double().cumsum(-1)
            off = float(((function(x).double() - want) / want).abs().max()) / (torch.finfo(dtype).eps / 2)
            assert off <= 8, f"{rows} rows of {dtype}: off by {off:.3g} round-offs, 8 are allowed"


def _many_tiles(function: Callable[..., Tensor], device: str) -> None:
    """Rows with so many tiles that all blocks look back at each other, several times: correct, and the same bits."""
    for rows, columns in ((1, 2**26), (3, 2**24 + 1), (100, 2**18)):
        x = torch.randint(-8, 9, (rows, columns), device=device)
        assert torch.equal(function(x), x.cumsum(-1)), f"{rows} × {columns} of int64"
        y = x.float() / 3
        first = function(y)
        for _ in range(5):
            assert torch.equal(function(y), first), f"{rows} × {columns} of float32: other bits, again"


def _large(function: Callable[..., Tensor], device: str) -> None:
    """More than 2³¹ elements (float16), in one row and in rows of 4,096: exact near both ends, also backward."""
    n = 2**31 + 4096
    for rows in (1, n // 4096):
        x = torch.zeros(rows, n // rows, dtype=torch.float16, device=device)
        ends = x.view(-1)[:2048], x.view(-1)[-2048:]
        for i, end in enumerate(ends):
            end.copy_((torch.arange(2048, device=device) * 7 + i) % 3 - 1)
        before = ends[0].double().sum() if rows == 1 else 0
        y = function(x.requires_grad_())
        assert torch.equal(y.detach().view(-1)[:2048].double(), ends[0].detach().double().cumsum(0)), f"{rows} rows"
        assert torch.equal(y.detach().view(-1)[-2048:].double(), before + ends[1].detach().double().cumsum(0)), (
            f"{rows} rows: the last sums are not exact"
        )
        grad = torch.zeros_like(y)
        grad[-1, -1] = 1
        (grad_x,) = torch.autograd.grad(y, x, grad)
        assert bool((grad_x[-1] == 1).all()), f"{rows} rows: the last row's gradient is not 1"
        assert rows == 1 or not bool(grad_x[:-1].any()), f"{rows} rows: another row has a gradient"
        del x, ends, end, y, grad, grad_x


def _wraps_round(function: Callable[..., Tensor], device: str) -> None:
    """int64 wraps around as in torch; int32 is summed in int64."""
    x = torch.tensor([2**63 - 1, 1, 5], device=device)
    assert function(x).tolist() == [2**63 - 1, -(2**63), 5 - 2**63]
    assert function(torch.tensor([2**31 - 1, 1], dtype=torch.int32, device=device)).tolist() == [2**31 - 1, 2**31]


def _arguments(device: torch.device, dtype: torch.dtype, case: Case) -> tuple[Tensor]:
    return (torch.randn(case.sizes, device=device, dtype=dtype),)


def _bytes(case: Case, dtype: torch.dtype) -> int:
    return 2 * math.prod(case.sizes) * dtype.itemsize


_CASES = tuple(
    Case(f"{rows:,} × {columns:,}", (rows, columns))
    for rows, columns in (
        *((1, 2**28), (1, 2**24), (16, 2**24), (1024, 262_144), (4096, 65_536), (16_384, 4096)),
        *((131_072, 256), (10_007, 1000), (4096, 12_289)),  # short; and no multiple of a vector
    )
)


def _benchmark(name: str, backward: bool) -> Benchmark:
    """The targets: no slower than 1 / 0.9 of torch, whose one row is CUB's look-back scan."""
    return Benchmark(
        name=name,
        cases=_CASES,
        arguments=_arguments,
        eager=eager,
        bytes=_bytes,
        draw=matrix,
        cub=None if backward else Cub(function="DeviceScan::InclusiveSum"),
        backward=backward,
        host=None if backward else Case("64 × 256", (64, 256)),
        targets=tuple(Target(measure=peer, at_least=0.9) for peer in ("over eager", "over torch.compile")),
    )


spec = Spec(
    calls=_calls,
    smooth=row_smooth(1),
    samples=[
        Sample("no dimension", Call((TensorCase((), torch.float32),)), "a 0-d tensor is a row of one number"),
        Sample("many tiles", _tensor(1, 50_000), "the sum of the tiles before must reach each of them"),
        Sample("several rows of tiles", _tensor(3, 9001), "a tile belongs to one row"),
        Sample("many rows of tiles", _tensor(9, 9001), "a block carries its sum along the row"),
        Sample("large float16", _tensor(2, 300, dtype=torch.float16, fill="huge"), "sums of float16 leave its range"),
        Sample("bfloat16", _tensor(1, 9000, dtype=torch.bfloat16, fill="exact"), "bfloat16 stops at 256 equal terms"),
        Sample("special", _tensor(4, 5000, fill="squarable"), "nan and inf change later sums of their row only"),
        Sample("equal numbers", _tensor(1, 70_001, layout="expanded"), "rounding of equal terms adds up"),
        Sample("int32", _integers(3, 9000, dtype=torch.int32), "sums of int32 leave its range"),
        Sample("int64", _integers(2, 9001, below=2**50), "a float64 does not hold all int64"),
        Sample("many rows of int64", _integers(9, 9001, below=2**50), "nor does the sum that a block carries"),
    ],
    edges=[
        *row_edges(1, columns=(1, 33, 512, 513, 2049, 4097)),
        *(
            _tensor(*shape, dtype=dtype)
            for dtype in DTYPES
            for shape in ((300, 7), (9, 600), (9, 4100), (9, 4101), (2, 16_384), (1, LONG_ROWS[0]))
        ),
        *(
            _integers(*shape, dtype=dtype, layout=layout)
            for dtype in _INTEGERS
            for shape in (
                (0, 3),
                (3, 0),
                (3, 33),
                (3, 64),
                (9, 3000),
                (9, 3001),
                (9, 4100),
                (9, 4101),
                (2, 8200),
                (2, 8201),
            )
            for layout in (("contiguous", "transposed", "sliced") if shape in ((3, 33), (9, 3001)) else ("contiguous",))
        ),
    ],
    bad_calls=[
        BadCall("int8", lambda device: ([torch.ones(3, dtype=torch.int8, device=device)], {}), ("x", "int8")),
        BadCall("bool", lambda device: ([torch.ones(3, dtype=torch.bool, device=device)], {}), ("x", "bool")),
        BadCall(
            "complex", lambda device: ([torch.ones(3, dtype=torch.complex64, device=device)], {}), ("x", "complex64")
        ),
        BadCall("not a tensor", lambda device: (["three"], {}), ("x",)),
    ],
    properties=[
        Property("exact", _exact, "sums of whole numbers have no rounding", implementations=("port",)),
        Property("no drift", _carries_on, "the carry is of float64", implementations=("port",)),
        Property("wraps round", _wraps_round, "integers are those of torch"),
        Property(
            "many tiles",
            _many_tiles,
            "which tiles a block looks back at depends on time, the bits do not",
            devices=("cuda",),
            implementations=("port",),
        ),
        large(_large, gpu_memory=40 * 2**30),
        row_long(1, eager, multiple=16),
        row_nan(eager),
    ],
    scale=_scale,
    working_scale=_working_scale,
    gradient_scale=_gradient_scale,
    gradient_working_scale=_gradient_working_scale,
    rounded_once="ports/cumsum.py: half types are added up in float32 and rounded once",
    gradients_rounded_once="ports/cumsum.py: the gradient is made by the same kernels",
    zero_signs="here a sum begins with 0, so that of -0 is 0; torch's on a GPU begins with the first number",
    benchmarks=[_benchmark("forward", False), _benchmark("backward", True)],
)
