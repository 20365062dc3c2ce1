"""embedding: what it must satisfy."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from hypothesis import strategies as st
from torch import Tensor

from trifold.spec import (
    DTYPES,
    LAYOUTS,
    ROW_LAYOUTS,
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
    tensors,
)
from trifold.spec.case import Layout

# One column, around 16-byte vectors, a warp, and a warp's vectors of each dtype; none.
_COLUMNS = (1, 2, 3, 4, 8, 16, 17, 33, 64, 100, 128, 256, 257, 520, 1030, 0)
# Replace an index. The lower 32 bits of the last two are valid rows.
_NO_ROWS = (-1, 2**32, 1 - 2**32)


@st.composite
def _calls(draw: st.DrawFn, limits: Limits) -> Call:
    columns = draw(st.sampled_from([n for n in _COLUMNS if n <= limits.largest_factor and (n or not limits.fewest)]))
    many = limits.over(max(columns, 1))
    few = Limits(min(many.elements, 40))
    vocabulary, positions = draw(any_size(many)), draw(any_size(few, (1, 2, 3, 0, 5, 17)))
    if draw(st.booleans()):
        vocabulary, positions = positions, vocabulary
    shape = draw(st.sampled_from(_shapes_of(positions)))
    layout = draw(st.sampled_from(LAYOUTS))
    offset, dim = draw(places(shape, layout))
    instead = draw(st.sampled_from((None, None, None, vocabulary, *_NO_ROWS)))
    indices = IndexCase(shape, max(vocabulary, 1), instead, layout, draw(st.integers(0, 2**16)), offset, dim)
    weight = draw(tensors((vocabulary, columns), layouts=ROW_LAYOUTS))
    return Call((indices, weight), {"deterministic": True} if draw(st.booleans()) else {})


def _shapes_of(count: int) -> list[tuple[int, ...]]:
    """Shapes with this many elements, of up to three dimensions."""
    shapes: list[tuple[int, ...]] = [(count,), (1, count)]
    if count == 1:
        shapes.append(())
    shapes += [(count // n, n) for n in (2, 3) if count % n == 0]
    if count % 4 == 0:
        shapes.append((2, count // 4, 2))
    return shapes


def _call(
    positions: tuple[int, ...],
    vocabulary: int,
    columns: int,
    dtype: torch.dtype = torch.float64,
    layout: Layout = "contiguous",
    instead: int | None = None,
    **kwargs: Any,
) -> Call:
    indices = IndexCase(positions, vocabulary, instead, seed=1)
    return Call((indices, TensorCase((vocabulary, columns), dtype, layout, seed=2)), kwargs)


def _sums_of_rows(grad: Tensor, indices: Tensor, weight: Tensor) -> Tensor:
    """The sums of the rows of `grad` with each valid index."""
    known = (indices >= 0) & (indices < weight.shape[0])
    return torch.zeros_like(weight).index_add(0, indices[known], grad[known])


def _gradient_scale(
    reference: Callable[..., Tensor], grad: Tensor, indices: Tensor, weight: Tensor, **_: Any
) -> Tensor:
    """The gradient itself: terms that may cancel in its sum are not rounded to half types."""
    return _sums_of_rows(grad, indices, weight)


def _gradient_working_scale(
    reference: Callable[..., Tensor], grad: Tensor, indices: Tensor, weight: Tensor, **_: Any
) -> Tensor:
    """Σ|grad|·(1 + n/4) over the n rows of an index: each of n additions may be off by a round-off of the partial sum,
    always in the same direction if all terms are equal. Four times that is allowed. An atomic addition on a GPU flushes
    a subnormal to 0."""
    counts = _sums_of_rows(torch.ones_like(grad), indices, weight)
    return _sums_of_rows(grad.abs(), indices, weight) * (1 + counts / 4) + _sums_of_rows(flushed(grad), indices, weight)


def _bits(function: Callable[..., Tensor], device: str) -> None:
    """Rows are copied bit by bit, including those of nan."""
    for dtype in DTYPES:
        whole = {8: torch.int64, 4: torch.int32, 2: torch.int16}[dtype.itemsize]
        for columns in (8, 9):
            numbers = torch.randint(-(2**15), 2**15, (50, columns), generator=torch.Generator().manual_seed(3))
            weight = (numbers * 2 ** (8 * dtype.itemsize - 16)).to(whole).to(device).view(dtype)
            indices = IndexCase((4, 30), 50, seed=4).make(device)
            got, expected = function(indices, weight).view(whole), weight.view(whole)[indices]
            assert torch.equal(got, expected), f"rows of {columns} elements of {dtype} have other bits"


def _gradient(function: Callable[..., Tensor], indices: Tensor, weight: Tensor, grad: Tensor) -> Tensor:
    weight = weight.detach().requires_grad_()
    (gradient,) = torch.autograd.grad(function(indices, weight, deterministic=True), weight, grad)
    return gradient


def _deterministic(function: Callable[..., Tensor], device: str) -> None:
    """The same bits each time, for rows with few and with many positions. A sum in another order has other bits."""
    for dtype in DTYPES:
        for positions, vocabulary, columns in ((600, 40, 33), (600, 40, 40), (700, 3, 33), (700, 3, 40)):
            indices = IndexCase((positions,), vocabulary, seed=5).make(device)
            weight = TensorCase((vocabulary, columns), dtype).make(device)
            grad = TensorCase((positions, columns), dtype, fill="wide", seed=6).make(device)
            first = _gradient(function, indices, weight, grad)
            for _ in range(3):
                again = _gradient(function, indices, weight, grad)
                assert torch.equal(first, again), f"{positions} gradients in {dtype} of {vocabulary} rows differ"


def _in_order(function: Callable[..., Tensor], device: str) -> None:
    """The rows of an index are added in the order of their positions: large terms cancel before small ones are lost."""
    big = 2.0**60
    weight = torch.zeros(3, 5, dtype=torch.float64, device=device)
    indices = torch.tensor([2, 0, 2, 2, 0], device=device)
    grad = torch.tensor([big, 1.0, -big, 1.0, 1.0], dtype=torch.float64, device=device).unsqueeze(1).expand(5, 5)
    sums = _gradient(function, indices, weight, grad)[:, 0].tolist()
    assert sums == [2.0, 0.0, 1.0], f"2⁶⁰ - 2⁶⁰ + 1, in this order, is {sums[2]}, and sums of rows are {sums}"


def _unknown(function: Callable[..., Tensor], device: str) -> None:
    """An index out of range has a row of nan, and no gradient; the others are unchanged, and so is the second
    derivative."""
    indices = torch.tensor([1, -1, 6, 2**32, 1 - 2**32, 2**63 - 1, -(2**63), 5], device=device)
    unknown = [False, True, True, True, True, True, True, False]
    for deterministic in (False, True):
        weight = TensorCase((6, 4), torch.float64, seed=7).make(device).requires_grad_()
        upstream = torch.ones(8, 4, dtype=torch.float64, device=device, requires_grad=True)
        rows = function(indices, weight, deterministic=deterministic)
        assert rows.isnan().all(1).tolist() == unknown, f"rows of {indices.tolist()} are {rows}"
        assert torch.equal(rows[[0, -1]], weight[[1, 5]]), f"rows of {indices.tolist()} are {rows}"
        (grad,) = torch.autograd.grad(rows, weight, upstream, create_graph=True)
        assert grad[:, 0].tolist() == [0, 1, 0, 0, 0, 1], f"the gradient of weight is {grad}"
        (second,) = torch.autograd.grad(grad.sum(), upstream)
        assert second[:, 0].tolist() == [float(not gone) for gone in unknown], f"the second derivative is {second}"


def _large(function: Callable[..., Tensor], device: str) -> None:
    """More than 2³¹ elements (float16) in `weight`, the result and both gradients: rows at both ends."""
    rows, columns = 2**25 + 3, 64
    weight = torch.zeros(rows, columns, dtype=torch.float16, device=device)
    grad = torch.zeros(rows, columns, dtype=torch.float16, device=device)
    for place in (slice(0, 2), slice(rows - 2, rows)):
        weight[place], grad[place] = torch.randn(2, 2, columns, device=device)
    indices = torch.arange(rows - 1, -1, -1, device=device)
    for deterministic in (False, True):
        leaf = weight.detach().requires_grad_()
        result = function(indices, leaf, deterministic=deterministic)
        (of_weight,) = torch.autograd.grad(result, leaf, grad)
        for place, mirrored in ((slice(0, 2), slice(rows - 2, rows)), (slice(rows - 2, rows), slice(0, 2))):
            assert torch.equal(result[place], weight[mirrored].flip(0)), f"rows {place} are others"
            assert torch.equal(of_weight[place], grad[mirrored].flip(0)), f"gradients of the rows {place} are others"
        del leaf, result, of_weight


def _bad_call(name: str, mentions: tuple[str, ...], **changed: Any) -> BadCall:
    def make(device: str) -> tuple[Sequence[Any], dict[str, Any]]:
        good = {"indices": torch.zeros(3, dtype=torch.int64), "weight": torch.ones(4, 5)}
        values = [changed.get(argument, tensor) for argument, tensor in good.items()]
        return [x.to(device) if isinstance(x, Tensor) else x for x in values], {}

    return BadCall(name, make, mentions)


# Rows in elements and in 16 bytes, for one thread, a warp, and several tiles; few positions per row, and many.
_EDGES: tuple[tuple[tuple[int, ...], int, int, Layout], ...] = (
    ((), 3, 1, "contiguous"),
    ((5,), 7, 8, "contiguous"),
    ((2, 3), 7, 9, "offset"),
    ((3,), 2, 1032, "contiguous"),
    ((3,), 2, 1031, "contiguous"),
    ((130,), 3, 8, "contiguous"),
    ((130,), 3, 7, "contiguous"),
    ((130,), 2, 264, "contiguous"),
    ((4,), 5, 6, "transposed"),
    ((4,), 5, 8, "padded"),
    ((4,), 5, 8, "sliced"),
    ((4,), 5, 8, "expanded"),
    ((0,), 3, 8, "contiguous"),
    ((3, 0), 3, 7, "contiguous"),
    ((3,), 4, 0, "contiguous"),
)

# Tokens, rows and columns: of language models, and of a table of categories.
_CASES = tuple(
    Case(f"{n:,} of {vocabulary:,} × {columns:,}", (n, vocabulary, columns))
    for n, vocabulary, columns in ((8192, 32_000, 4096), (32_768, 128_256, 2048), (1_048_576, 100_000, 128))
)


def _benchmark_arguments(device: torch.device, dtype: torch.dtype, case: Case) -> tuple[Tensor, Tensor]:
    n, vocabulary, columns = case.sizes
    return torch.randint(vocabulary, (n,), device=device), torch.randn(vocabulary, columns, device=device, dtype=dtype)


def _forward_bytes(case: Case, dtype: torch.dtype) -> int:
    n, _, columns = case.sizes
    return n * (2 * columns * dtype.itemsize + 8)


def _backward_bytes(case: Case, dtype: torch.dtype) -> int:
    n, vocabulary, columns = case.sizes
    return (n + vocabulary) * columns * dtype.itemsize + 8 * n


_TARGETS = (Target(measure="over eager", at_least=0.9), Target(measure="over torch.compile", at_least=0.9))

_benchmark = functools.partial(Benchmark, cases=_CASES, arguments=_benchmark_arguments, eager=F.embedding)

spec = Spec(
    calls=_calls,
    smooth=[
        _call((), 3, 2),
        _call((2, 3), 2, 3),
        _call((70,), 2, 2, deterministic=True),
        # The last one is compiled too: sorting is part of its backward.
        _call((4, 3), 5, 4, deterministic=True),
    ],
    samples=[
        Sample(
            f"{name} {'in order ' if deterministic else ''}{dtype}".replace("torch.", ""),
            _call(shape, vocabulary, columns, dtype, instead=instead, deterministic=deterministic),
            reason,
        )
        for dtype in DTYPES
        for deterministic in (False, True)
        for name, shape, vocabulary, columns, instead, reason in (
            ("many", (600,), 2, 9, None, "a sum in bfloat16 stops growing after 256 equal terms"),
            ("unknown", (9,), 5, 8, -1, "an index of no row is nan, and has no gradient"),
            ("no row", (3,), 7, 5, 7, "rows that no index names have gradient 0"),
        )
    ],
    edges=[
        _call(shape, vocabulary, columns, dtype, layout, deterministic=deterministic)
        for dtype in DTYPES
        for deterministic in (False, True)
        for shape, vocabulary, columns, layout in _EDGES
    ],
    bad_calls=[
        _bad_call("integer weight", ("weight", "int64"), weight=torch.ones(4, 5).long()),
        _bad_call("complex weight", ("weight", "complex64"), weight=torch.ones(4, 5).to(torch.complex64)),
        _bad_call("int32 indices", ("indices", "int64", "int32"), indices=torch.zeros(3).int()),
        _bad_call("floating indices", ("indices", "int64", "float32"), indices=torch.zeros(3)),
        _bad_call("a vector", ("weight", "(4,)"), weight=torch.ones(4)),
        _bad_call("a batch", ("weight", "(1, 4, 5)"), weight=torch.ones(1, 4, 5)),
        _bad_call("not a tensor", ("weight",), weight="three"),
        BadCall(
            "another device",
            lambda device: ([torch.zeros(3, dtype=torch.int64), torch.ones(4, 5, device=device)], {}),
            ("weight", "indices", "cuda", "cpu"),
            devices=("cuda",),
        ),
    ],
    properties=[
        # Half types reach a prototype as float32, which makes signalling nan quiet.
        Property("bits", _bits, "a row is copied, not computed", implementations=("port",)),
        Property("deterministic", _deterministic, "deterministic=True says so"),
        Property("in order", _in_order, "indices alone decide the order of a sum"),
        Property("unknown index", _unknown, "a wrong index must not read elsewhere, nor pass in silence"),
        large(_large, gpu_memory=40 * 2**30),
    ],
    gradient_scale=_gradient_scale,
    gradient_working_scale=_gradient_working_scale,
    rounded_once="cuda_src/embedding.cuh: rows are copied",
    rounding_error=lambda reference, indices, weight, **_: torch.zeros_like(reference(indices, weight)),
    gradients_rounded_once="ports/embedding.py: half types are added up in float32",
    ordered={"deterministic": True},
    unordered="without deterministic, atomics add up the gradient of a row in the order in which threads come",
    benchmarks=[
        _benchmark(name="forward", bytes=_forward_bytes, targets=_TARGETS),
        # No target: for half types it moves 10 more bytes per element of the gradient than eager's sorted sums.
        _benchmark(name="backward", bytes=_backward_bytes, backward=True),
        _benchmark(
            name="backward, deterministic",
            bytes=_backward_bytes,
            backward=True,
            call=lambda function, indices, weight: function(indices, weight, deterministic=True),
            targets=_TARGETS,
        ),
    ],
)
