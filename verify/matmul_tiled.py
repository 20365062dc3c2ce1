"""matmul_tiled: what it must satisfy."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from hypothesis import strategies as st
from torch import Tensor

from trifold.spec import (
    DTYPES,
    BadCall,
    Benchmark,
    Call,
    Case,
    Limits,
    Property,
    Sample,
    Spec,
    TensorCase,
    aliases,
    any_size,
    large,
    tensors,
)
from trifold.spec.case import Layout
from trifold.spec.fills import Fill

# If the sum of products may leave the range of the type of the sums, this depends on their order. Half types are summed
# in float32.
_SUMMABLE: tuple[Fill, ...] = ("exact", "normal", "wide", "zero", "squarable")
_HALF: tuple[Fill, ...] = (*_SUMMABLE, "special", "huge", "range")
# Only whole multiples of these are exact: other products round to a subnormal number, once each.
_SMALL: tuple[Fill, ...] = ("tiny", "subnormal")

_SIDES = (1, 2, 3, 5, 16, 17, 33, 64, 65, 100)
_TILE, _STEP = 64, 16
_BOTH_WAYS: tuple[Layout, ...] = ("contiguous", "transposed")


def _work(rows: int, inner: int, columns: int) -> int:
    """The number of products that the kernel computes, including those with the padding zeros."""
    return -(-rows // _TILE) * -(-columns // _TILE) * _TILE**2 * -(-inner // _STEP) * _STEP


@st.composite
def _sides(draw: st.DrawFn, limits: Limits) -> tuple[int, int, int]:
    """M, K and N: one of any length, such that all tensors, and the work of forward and backward, are within limits."""
    # A simulator computes some three million products a second, 64 per element of a thin matrix. Fewer would not
    # suffice for calls with many elements.
    most_work = max((64 if limits.fewest else 4) * limits.elements, 1 << 18)

    def longest(x: int, y: int) -> int:
        """The largest size, given x and y. The work grows by at most this factor with each tile."""
        of_a_tile = max(_work(_TILE, x, y), _work(_TILE, y, x), _work(x, _TILE, y))
        return min(limits.elements // max(x, y), _TILE * (most_work // of_a_tile))

    others = [
        (x, y)
        for x in _SIDES
        for y in _SIDES
        if x * y <= limits.elements and max(1, -(-limits.fewest // max(x, y))) <= longest(x, y)
    ]
    x, y = draw(st.sampled_from(others))
    long = draw(any_size(Limits(longest(x, y), -(-limits.fewest // max(x, y)))))
    if limits.fewest == 0 and draw(st.integers(0, 15)) == 15:
        y = 0
    m, k, n = draw(st.permutations((long, x, y)))
    return m, k, n


@st.composite
def _calls(draw: st.DrawFn, limits: Limits) -> Call:
    m, k, n = draw(_sides(limits))
    dtype = draw(st.sampled_from(DTYPES))
    fills = _HALF if dtype == torch.float16 else _SUMMABLE
    a = draw(tensors((m, k), dtypes=[dtype], fills=(*fills, *_SMALL)))
    if (m, k) == (k, n) and a.fill in _SUMMABLE and draw(st.booleans()):
        return Call((a, draw(aliases(1))))
    return Call((a, draw(tensors((k, n), dtypes=[dtype], fills=("exact",) if a.fill in _SMALL else fills))))


def _call(
    m: int,
    k: int,
    n: int,
    dtype: torch.dtype = torch.float64,
    fill: Fill = "normal",
    layouts: tuple[Layout, Layout] = ("contiguous", "contiguous"),
) -> Call:
    return Call((TensorCase((m, k), dtype, layouts[0], fill, 1), TensorCase((k, n), dtype, layouts[1], fill, 2)))


def _error_of_sum(a: Tensor, b: Tensor) -> Tensor:
    """|a|·|b|·(1 + K/4): each of K successive sums may be off by a round-off of its value, always in the same direction
    if all terms are equal. Four times that is allowed.

    It holds for tensor cores too. They align up to 16 products and the sum so far to the largest of these and truncate
    them, from sm_80 on at least one bit after its last place: each product costs at most half a unit in the last place,
    a round-off (Fasi et al., "Numerical behavior of NVIDIA tensor cores", 2021)."""
    return a.abs() @ b.abs() * (1 + a.shape[1] / 4)


def _gradient_scale(reference: Callable[..., Tensor], grad: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    return grad @ b.t(), a.t() @ grad


def _gradient_working_scale(
    reference: Callable[..., Tensor], grad: Tensor, a: Tensor, b: Tensor
) -> tuple[Tensor, Tensor]:
    return _error_of_sum(grad, b.t()), _error_of_sum(a.t(), grad)


def _whole_numbers(function: Callable[..., Tensor], device: str) -> None:
    """Products of small integers are exact, in each position of a tile and of its edges, and in each layout; sums of
    them are rounded to half types once."""
    generator = torch.Generator().manual_seed(1)
    sizes = [(64, 16, 64), (67, 19, 130), (5, 200, 3), (136, 24, 72), (1, 1, 1), (3, 0, 2)]
    if device != "cpu":
        sizes.append((1600, 200, 1700))  # a large tile for each multiprocessor, and more steps than are in flight
    for m, k, n in sizes:
        a, b = (torch.randint(-4, 5, shape, generator=generator) for shape in ((m, k), (k, n)))
        expected = a @ b
        for dtype in DTYPES:
            x, y = a.to(device, dtype), b.to(device, dtype)
            for left in (x, x.t().contiguous().t()):
                for right in (y, y.t().contiguous().t()):
                    got = function(left, right).cpu()
                    assert torch.equal(got, expected.to(dtype)), f"({m}, {k}) by ({k}, {n}) in {dtype} is not exact"


def _many_tiles(function: Callable[..., Tensor], device: str) -> None:
    """Many tiles both ways, small and large ones: more than in drawn calls, of which one side alone is long."""
    generator = torch.Generator().manual_seed(3)
    for dtype, (m, k, n) in ((torch.float64, (520, 8, 600)), (torch.float32, (1033, 8, 1161))):
        a, b = (torch.randint(-4, 5, shape, generator=generator).to(device, dtype) for shape in ((m, k), (k, n)))
        expected = a.cpu().long() @ b.cpu().long()
        assert torch.equal(function(a, b).cpu().long(), expected), f"({m}, {k}) by ({k}, {n}) in {dtype} is not exact"


def _many_steps(function: Callable[..., Tensor], device: str) -> None:
    """A longer inner dimension than in drawn calls, whose work is limited: forward, and in turn for each gradient."""
    generator = torch.Generator().manual_seed(2)
    for dtype in (torch.float32, torch.bfloat16):
        for m, k, n in ((2, 8200, 3), (2, 3, 8200), (8200, 2, 3)):
            numbers = [torch.randint(-1, 2, shape, generator=generator) for shape in ((m, k), (k, n), (m, n))]
            a, b, grad = numbers
            x, y = (one.to(device, dtype).requires_grad_() for one in (a, b))
            got = function(x, y)
            grads = torch.autograd.grad(got, (x, y), grad.to(device, dtype))
            for one, expected in zip((got, *grads), (a @ b, grad @ b.t(), a.t() @ grad), strict=True):
                assert torch.equal(one.detach().cpu(), expected.to(dtype)), f"({m}, {k}) by ({k}, {n}) in {dtype}"


def _large(function: Callable[..., Tensor], device: str) -> None:
    """More than 2³¹ elements in `a` and in the result, and K of 2²⁵ in backward: both ends of each."""
    count, side, end = 2**25 + 3, 64, 2
    ends = (slice(0, end), slice(count - end, count))
    a = torch.zeros(count, side, dtype=torch.float16, device=device)
    grad = torch.zeros(count, side, dtype=torch.float16, device=device)
    for place in ends:
        a[place], grad[place] = torch.randn(2, end, side, device=device)
    b = torch.randn(side, side, dtype=torch.float16, device=device).requires_grad_()
    a.requires_grad_()
    result = function(a, b)
    grad_a, grad_b = torch.autograd.grad(result, (a, b), grad)
    exact = b.detach().double()
    for place in ends:
        for name, got, factor, other in (("result", result, a, exact), ("gradient 0", grad_a, grad, exact.t())):
            want = factor.detach()[place].double() @ other
            off = float((got.detach()[place].double() - want).abs().max() / want.abs().max())
            assert off <= 0.01, f"{name} is off by {off:.3g} of its size at {place}"
    of_ends = [a.detach()[place].double().t() @ grad[place].double() for place in ends]
    want = of_ends[0] + of_ends[1]
    off = float((grad_b.double() - want).abs().max() / want.abs().max())
    assert off <= 0.01, f"gradient 1 is off by {off:.3g} of its size"


def _bad_call(name: str, mentions: tuple[str, ...], **changed: Any) -> BadCall:
    def make(device: str) -> tuple[Sequence[Any], dict[str, Any]]:
        good = {"a": torch.ones(2, 3), "b": torch.ones(3, 4)}
        values = [changed.get(argument, tensor) for argument, tensor in good.items()]
        return [x.to(device) if isinstance(x, Tensor) else x for x in values], {}

    return BadCall(name, make, mentions)


def _benchmark_arguments(device: torch.device, dtype: torch.dtype, case: Case) -> tuple[Tensor, Tensor]:
    m, k, n = case.sizes
    return torch.randn(m, k, device=device, dtype=dtype), torch.randn(k, n, device=device, dtype=dtype)


def _bytes(case: Case, dtype: torch.dtype) -> int:
    m, k, n = case.sizes
    return (m * k + k * n + m * n) * dtype.itemsize


spec = Spec(
    calls=_calls,
    smooth=[_call(1, 3, 1), _call(3, 2, 2)],
    samples=[
        Sample(
            "long sum bfloat16",
            Call((TensorCase((2, 400), torch.bfloat16, "expanded", seed=1), TensorCase((400, 2), torch.bfloat16))),
            "a sum in bfloat16 stops growing after 256 equal terms",
        ),
        Sample("large half", _call(9, 40, 9, torch.float16, "huge"), "products overflow in float16 before they cancel"),
        Sample("special", _call(5, 7, 6, torch.float32, "squarable"), "nan and inf stay in their rows and columns"),
        Sample(
            "nan beyond the edge",
            Call((TensorCase((3, 17), fill="lone", seed=1), TensorCase((17, 5), seed=2))),
            "what fills up a tile must not be multiplied by nan",
        ),
        Sample("no terms", _call(3, 0, 4, torch.float32), "an empty sum is 0, and is written"),
    ],
    edges=[
        call
        for dtype in DTYPES
        for call in (
            _call(64, 16, 64, dtype),
            _call(65, 17, 66 if dtype == torch.float32 else 3, dtype),
            _call(3, 20, 66, dtype, layouts=("transposed", "transposed")),
            _call(7, 20, 3, dtype, layouts=("sliced", "offset")),
            _call(3, 20, 9, dtype, layouts=("expanded", "padded")),
            _call(0, 4, 3, dtype),
            _call(4, 3, 0, dtype),
            _call(2, 0, 3, dtype),
        )
    ]
    # Large tiles; for half types also more steps than shared memory holds, and large tiles of each layout, in 16-byte
    # pieces and in elements.
    + [
        *(_call(131, 35, 67, torch.float32, layouts=(x, x)) for x in _BOTH_WAYS),
    ]
    + [
        call
        for dtype in (torch.float16, torch.bfloat16)
        for call in (
            _call(16, 232, 24, dtype),
            _call(136, 104, 72, dtype),
            *(_call(136, 24, 72, dtype, layouts=(x, y)) for x in _BOTH_WAYS for y in _BOTH_WAYS),
            _call(131, 19, 67, dtype),
        )
    ],
    bad_calls=[
        _bad_call("integers", ("a", "int64"), a=torch.ones(2, 3).long(), b=torch.ones(3, 4).long()),
        _bad_call(
            "complex",
            ("a", "complex64"),
            a=torch.ones(2, 3).to(torch.complex64),
            b=torch.ones(3, 4).to(torch.complex64),
        ),
        _bad_call("not a tensor", ("a",), a="three"),
        _bad_call("another dtype", ("a", "b", "float32", "float64"), b=torch.ones(3, 4).double()),
        _bad_call("inner sizes differ", ("a", "b", "(2, 3)", "(4, 3)"), b=torch.ones(4, 3)),
        _bad_call("a vector", ("a", "b", "(2, 3)", "(3,)"), b=torch.ones(3)),
        _bad_call("a batch", ("a", "b", "(1, 2, 3)", "(3, 4)"), a=torch.ones(1, 2, 3)),
        BadCall(
            "another device",
            lambda device: ([torch.ones(2, 3, device=device), torch.ones(3, 4)], {}),
            ("a", "b", "cuda", "cpu"),
            devices=("cuda",),
        ),
    ],
    properties=[
        Property("whole numbers", _whole_numbers, "each product is added once, in its place"),
        Property("many tiles", _many_tiles, "each tile is computed, in its place", implementations=("port",)),
        Property("many steps", _many_steps, "each product is added, however many", implementations=("port",)),
        large(_large, gpu_memory=40 * 2**30),
    ],
    # Values that are rounded to the result's type are the result; those that may cancel are rounded to the type of the
    # sums.
    scale=lambda reference, a, b: reference(a, b),
    working_scale=lambda reference, a, b: _error_of_sum(a, b),
    gradient_scale=_gradient_scale,
    gradient_working_scale=_gradient_working_scale,
    rounded_once="ports/matmul_tiled.py: half types are multiplied and added up in float32, on a GPU by tensor cores",
    gradients_rounded_once="the gradients are products of the same kernel",
    zero_signs="a sum begins with +0 here, and in torch's libraries with the first product for some shapes",
    # No target: torch's own uses tensor-core instructions that wmma lacks, and years of work.
    benchmarks=[
        Benchmark(
            name=name,
            cases=tuple(Case(f"{side}³", (side,) * 3) for side in (512, 1024, 2048, 4096)),
            arguments=_benchmark_arguments,
            eager=torch.matmul,
            bytes=_bytes,
            backward=name == "backward",
        )
        for name in ("forward", "backward")
    ],
)
