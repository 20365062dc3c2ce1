"""scatter_add: what it must satisfy."""

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch
from hypothesis import strategies as st
from torch import Tensor

from trifold.spec import (
    DTYPES,
    BadCall,
    Benchmark,
    Call,
    Case,
    IndexCase,
    Limits,
    Property,
    Sample,
    Spec,
    Target,
    TensorCase,
    any_size,
    flushed,
    large,
    places,
    row_tensors,
)
from trifold.spec.case import Layout
from trifold.spec.fills import Fill

# Sums of these overflow in no order. Infinities are alone: with others of their sign, or with nan in their place.
FILLS: tuple[Fill, ...] = ("exact", "normal", "wide", "zero", "tiny", "subnormal", "lone", "masked")
# In float32 no sum of float16 overflows.
_FLOAT16_FILLS: tuple[Fill, ...] = (*FILLS, "special", "huge", "range")
_INDEX_LAYOUTS: tuple[Layout, ...] = ("contiguous", "offset", "sliced", "expanded")
_COLUMNS = (1, 2, 3, 4, 5, 7, 8, 16, 17, 31, 32, 33, 64, 96, 100, 257, 1024)
_ROWS = (1, 0, 2, 3, 5, 31, 32, 33, 127, 128, 129, 1023, 1024, 1025, 10_007)


@st.composite
def _calls(draw: st.DrawFn, limits: Limits) -> Call:
    columns = draw(st.sampled_from([n for n in _COLUMNS if n <= limits.largest_factor]))
    rows = draw(any_size(limits.over(columns), _ROWS))
    if limits.fewest == 0 and draw(st.integers(0, 19)) == 19:
        columns = 0
    few = [n for n in (1, 2, 3, 7, 40, 0) if n * columns <= limits.elements]
    size = draw(st.sampled_from([*few, *(n for n in (rows, 2 * rows + 1) if n * columns <= limits.elements)]))
    dtype = draw(st.sampled_from(DTYPES))
    fills = _FLOAT16_FILLS if dtype == torch.float16 else FILLS
    source = draw(row_tensors((rows, columns), dtypes=[dtype], fills=fills))
    return Call((source, draw(_indices(rows, size)), size))


@st.composite
def _indices(draw: st.DrawFn, rows: int, size: int) -> IndexCase:
    seed = draw(st.integers(0, 2**16))
    order: Literal["any", "sorted", "permutation"] = draw(st.sampled_from(("any", "any", "sorted", "permutation")))
    if order == "sorted" or (order == "permutation" and 0 < rows <= size):
        return IndexCase((rows,), max(size, 1), seed=seed, order=order)
    layout = draw(st.sampled_from(_INDEX_LAYOUTS))
    offset, dim = draw(places((rows,), layout))
    # Also indices that are too large, and some whose lower 32 bits are a valid index.
    below = max(1, draw(st.sampled_from((size, size, size + 2))))
    instead = draw(st.sampled_from((None, None, -1, size, 2**32, -(2**63))))
    return IndexCase((rows,), below, instead, layout, seed, offset, dim)


def _call(
    shape: tuple[int, int],
    size: int,
    dtype: torch.dtype = torch.float64,
    *,
    fill: Fill = "normal",
    layout: Layout = "contiguous",
    instead: int | None = None,
    index_layout: Layout = "contiguous",
    seed: int = 2,
) -> Call:
    index = IndexCase((shape[0],), max(size, 1), instead, index_layout, seed)
    return Call((TensorCase(shape, dtype, layout, fill, 1), index, size))


_SAMPLES: tuple[tuple[str, Callable[[torch.dtype], Call], str], ...] = (
    (
        "one place",
        lambda dtype: _call((700, 3), 4, dtype, index_layout="expanded"),
        "rows of one index are all added; a sum in a half type stops growing after some hundreds",
    ),
    (
        "no place",
        lambda dtype: _call((40, 3), 50, dtype),
        "a row of the result to which nothing is added is 0, whatever was in its memory",
    ),
    (
        "left out",
        lambda dtype: _call((40, 5), 7, dtype, instead=-1),
        "-1 is not the last row; a row that is left out has gradient 0",
    ),
    ("one too far", lambda dtype: _call((40, 5), 7, dtype, instead=7), "an index of size is out of range"),
    (
        "beyond 32 bits",
        lambda dtype: _call((40, 5), 7, dtype, instead=2**32 + 1),
        "an index whose lower 32 bits are in range is out of range",
    ),
    (
        "not finite",
        lambda dtype: _call((40, 6), 9, dtype, fill="lone", instead=-1),
        "nan and inf stay in their place, and are left out with their row",
    ),
)


def _scale(reference: Callable[..., Tensor], source: Tensor, index: Tensor, size: int) -> Tensor:
    """The sum itself: it is rounded once from a wider type."""
    return reference(source, index, size).abs()


def _working_scale(reference: Callable[..., Tensor], source: Tensor, index: Tensor, size: int) -> Tensor:
    """Σ|x|, n / 2 times for n terms: n - 1 additions in any order are off by at most n round-offs of it, and those of
    the exact reference by as many in float64. An atomic addition on a GPU flushes a subnormal to 0."""
    terms = reference(torch.ones_like(source[:, :1]), index, size)
    return reference(source.abs(), index, size) * (1 + terms / 2) + reference(flushed(source), index, size)


def _nothing(reference: Callable[..., Tensor], grad: Tensor, source: Tensor, index: Tensor, size: int) -> Tensor:
    return torch.zeros_like(source)


def _exact_sums(function: Callable[..., Tensor], device: str) -> None:
    """Sums of small integers are exact in any order: not one of many rows is lost or added twice."""
    generator = torch.Generator().manual_seed(3)
    for rows, columns, size in ((20_011, 1, 3), (6007, 3, 1000), (300, 70, 2)):
        values = torch.randint(-8, 9, (rows, columns), generator=generator)
        index = torch.randint(-1, size + 1, (rows,), generator=generator)
        known = (index >= 0) & (index < size)
        want = torch.zeros(size, columns, dtype=torch.int64).index_add_(0, index[known], values[known])
        for dtype in (torch.float32, torch.float64):
            got = function(values.to(device, dtype), index.to(device), size)
            assert torch.equal(got.cpu().long(), want), f"{rows} rows of {dtype} to {size} have other sums"
        halves = function(values.to(device, torch.float16), index.to(device), size)
        assert torch.equal(halves.cpu(), want.half()), f"{rows} rows of float16 to {size} have other sums"


# The first two are replaced by size; the lower 32 bits of the others are valid rows.
_OUTSIDE = (0, -1, 2**32, 2**32 + 1, 1 - 2**32, 2**33 + 2, 2**63 - 1, -(2**63))


def _out_of_range(function: Callable[..., Tensor], device: str) -> None:
    """Rows with an index out of range are ignored, with a gradient of 0, also if they and their gradients are nan."""
    size = 4
    outside = torch.tensor([size, *_OUTSIDE[1:]], device=device)
    for columns in (3, 8):
        source = torch.ones(len(outside) + 2, columns, device=device)
        source[1:-1] = math.nan
        source.requires_grad_()
        index = torch.cat([outside.new_tensor([1]), outside, outside.new_tensor([3])])
        out = function(source, index, size)
        assert out.sum(1).tolist() == [0, columns, 0, columns], f"with indices {index.tolist()} the sums are {out}"
        upstream = torch.full_like(out, 2)
        upstream[0] = upstream[2] = math.nan
        (grad,) = torch.autograd.grad(out, source, upstream)
        expected = [2.0 * columns, *[0.0] * len(outside), 2.0 * columns]
        assert grad.sum(1).tolist() == expected, f"with indices {index.tolist()} the gradient is {grad}"


def _large(function: Callable[..., Tensor], device: str) -> None:
    """More than 2³¹ elements (float16): both ends of the result and of the gradient."""
    rows, columns = 2**19 + 3, 4096
    source = torch.zeros(rows, columns, dtype=torch.float16, device=device)
    ends = torch.randn(4, columns, device=device).half()
    source[:2], source[-2:] = ends[:2], ends[2:]
    source.requires_grad_()
    index = torch.arange(rows, device=device).flip(0)
    out = function(source, index, rows)
    assert torch.equal(out[[-1, -2, 1, 0]], ends), "rows at the ends went elsewhere"
    assert not bool(out[2:-2].any()), "a row between the ends is not 0"
    (grad,) = torch.autograd.grad(out, source, out.detach())
    assert torch.equal(grad[[0, 1, -2, -1]], ends), "the gradient's rows at the ends are others"
    assert not bool(grad[2:-2].any()), "a row of the gradient between the ends is not 0"


def _wide(function: Callable[..., Tensor], device: str) -> None:
    """More columns than one grid has blocks down, and as many rows."""
    for rows, columns in ((3, 2_200_001), (2_200_001, 1), (70_001, 33)):
        source = torch.arange(rows * columns, device=device).remainder(13).view(rows, columns).float()
        index = torch.arange(rows, device=device).remainder(2)
        out = function(source.requires_grad_(), index, 2)
        want = torch.stack([source[::2].double().sum(0), source[1::2].double().sum(0)])
        assert torch.equal(out.detach().double(), want.detach()), f"{rows} × {columns} has other sums"
        upstream = torch.arange(2 * columns, device=device).view(2, columns).float()
        (grad,) = torch.autograd.grad(out, source, upstream)
        assert torch.equal(grad, upstream[index]), f"{rows} × {columns} has another gradient"


def _bad_call(name: str, mentions: tuple[str, ...], **changed: Any) -> BadCall:
    def make(device: str) -> tuple[Sequence[Any], dict[str, Any]]:
        arguments = {"source": torch.zeros(3, 5), "index": torch.zeros(3, dtype=torch.int64), "size": 4} | changed
        return [value.to(device) if isinstance(value, Tensor) else value for value in arguments.values()], {}

    return BadCall(name, make, mentions)


def _benchmark_arguments(device: torch.device, dtype: torch.dtype, case: Case) -> tuple[Tensor, Tensor, int]:
    rows, columns, size = case.sizes
    source = torch.randn(rows, columns, device=device, dtype=dtype)
    return source, torch.randint(size, (rows,), device=device), size


def _eager(source: Tensor, index: Tensor, size: int) -> Tensor:
    return source.new_zeros(size, source.shape[1]).index_add(0, index, source)


def _bytes(case: Case, dtype: torch.dtype) -> int:
    rows, columns, size = case.sizes
    return (rows + size) * columns * dtype.itemsize + rows * 8


def _benchmark(name: str, **more: Any) -> Benchmark:
    sizes = (
        (1 << 24, 1, 1 << 20),
        (1 << 22, 16, 1 << 18),
        (1 << 20, 64, 1 << 16),
        (1 << 18, 256, 1 << 18),
        (1 << 16, 1024, 1 << 12),
        (1 << 16, 1000, 1 << 16),
    )
    return Benchmark(
        name=name,
        cases=tuple(Case(f"{rows} × {columns} to {size}", (rows, columns, size)) for rows, columns, size in sizes),
        arguments=_benchmark_arguments,
        eager=_eager,
        bytes=_bytes,
        targets=(Target(measure="over eager", at_least=0.9), Target(measure="over torch.compile", at_least=0.9)),
        **more,
    )


spec = Spec(
    calls=_calls,
    # Indices 2, 2, 3; then 1, 2, 1, 0; then 1, -1, 0: none three times, since a sum of three depends on their order.
    smooth=[_call((3, 2), 4, seed=4), _call((4, 1), 3, seed=3), _call((3, 2), 2, instead=-1, seed=1)],
    samples=[
        Sample(f"{name} {dtype}".replace("torch.", ""), make(dtype), reason)
        for name, make, reason in _SAMPLES
        for dtype in DTYPES
    ],
    edges=[
        call
        for dtype in DTYPES
        for call in (
            # If a result has a multiple of 3 elements, the gradient check's upstream gradient is contiguous: backward
            # then moves rows of 8 columns in vectors, and the others element by element.
            *(_call((50, columns), 3, dtype) for columns in (1, 7, 8, 32, 33, 72)),
            *(_call((50, columns), 5, dtype) for columns in (8, 40)),
            _call((1, 300), 3, dtype),
            _call((1100, 1), 300, dtype),
            _call((20, 8), 6, dtype, layout="padded"),
            _call((20, 9), 6, dtype, layout="offset"),
            _call((20, 8), 6, dtype, layout="transposed"),
            _call((20, 8), 6, dtype, layout="sliced", index_layout="sliced"),
            _call((20, 8), 6, dtype, layout="expanded", index_layout="offset"),
            _call((0, 8), 3, dtype),
            _call((5, 0), 3, dtype),
            _call((5, 8), 0, dtype),
        )
    ],
    bad_calls=[
        _bad_call("integer source", ("source", "int64"), source=torch.zeros(3, 5, dtype=torch.int64)),
        _bad_call("not a tensor", ("source",), source="three"),
        _bad_call("source in a row", ("source", "two dimensions", "(3,)"), source=torch.zeros(3)),
        _bad_call("source of three dimensions", ("source", "(3, 5, 2)"), source=torch.zeros(3, 5, 2)),
        _bad_call("int32 index", ("index", "int64", "int32"), index=torch.zeros(3, dtype=torch.int32)),
        _bad_call("floating index", ("index", "int64", "float32"), index=torch.zeros(3)),
        _bad_call("index in a column", ("index", "(3, 1)"), index=torch.zeros(3, 1).long()),
        _bad_call("another number of rows", ("source", "index", "(3, 5)", "(4,)"), index=torch.zeros(4).long()),
        _bad_call("an index for each element", ("index", "(3, 5)"), index=torch.zeros(3, 5).long()),
        _bad_call("negative size", ("size", "-1"), size=-1),
        _bad_call("size that is not an integer", ("size",), size=2.5),
        BadCall(
            "another device",
            lambda device: ([torch.zeros(3, 5, device=device), torch.zeros(3, dtype=torch.int64), 4], {}),
            ("source", "index", "cuda", "cpu"),
            devices=("cuda",),
        ),
    ],
    properties=[
        Property("exact sums", _exact_sums, "what many threads add to one place at a time, all counts"),
        Property("out of range", _out_of_range, "a wrong index must not write elsewhere"),
        Property("wide", _wide, "a grid's second dimension ends at 65,535 blocks", implementations=("port",)),
        large(_large, gpu_memory=44 * 2**30),
    ],
    scale=_scale,
    working_scale=_working_scale,
    rounded_once="ports/scatter_add.py: half types are added up in float32",
    gradients_rounded_once="they are numbers of the upstream gradient, or 0",
    gradient_rounding_error=_nothing,
    unordered="rows of one index are added by atomics, in the order in which they arrive",
    benchmarks=[_benchmark("forward", host=Case("64 × 16 to 8", (64, 16, 8))), _benchmark("backward", backward=True)],
)
