"""rope: what it must satisfy."""

import math
import random
from collections.abc import Callable, Sequence
from typing import Any

import torch
from hypothesis import strategies as st
from torch import Tensor

from trifold.spec import (
    DTYPES,
    FILLS,
    LAYOUTS,
    ROW_LAYOUTS,
    BadCall,
    Benchmark,
    Call,
    Case,
    Gradients,
    Limits,
    Property,
    Sample,
    Spec,
    Target,
    TensorCase,
    any_size,
    large,
    tensors,
)
from trifold.spec.case import Layout
from trifold.spec.drawn import between, one_of
from trifold.spec.fills import Fill

# The dimensions before positions and columns, of q and of k: none, equal, fewer, a multiple, no head.
_HEADS = (
    *(((), ()), ((1,), (1,)), ((3,), (3,)), ((2, 4), (2, 2)), ((2, 9), (2, 3)), ((5,), (1,)), ((17,), (17,))),
    *(((3,), ()), ((2, 3, 2), (2, 1, 2)), ((0,), (2,)), ((3,), (0,))),
)
# Half of the columns: around a vector of 16 bytes, and more than a block has threads.
_PAIRS = (1, 2, 3, 4, 5, 8, 16, 24, 32, 33, 64, 257)
_POSITIONS = (1, 2, 3, 7, 31, 32, 33, 100, 257, 1000)

# For the largest numbers, a product with a table's number above 1 overflows, though their difference need not: in all
# but float16, whose products float32 holds.
_FILLS: tuple[Fill, ...] = (*(fill for fill in FILLS if fill not in ("huge", "range", "special")), "squarable")
_TABLE_FILLS: tuple[Fill, ...] = ("normal", "exact", "zero", "wide", "tiny")


@st.composite
def _sizes(draw: st.DrawFn, limits: Limits) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shapes of q and k."""
    if limits.fewest == 0 and draw(st.integers(0, 9)) == 9:
        positions, columns = draw(st.sampled_from(((0, 4), (3, 0), (0, 0))))
        return (2, positions, columns), (1, positions, columns)
    # In q, or in k if that is larger.
    most = {(of_q, of_k): max(math.prod(of_q), math.prod(of_k)) for of_q, of_k in _HEADS}
    of_q, of_k = draw(st.sampled_from([heads for heads in _HEADS if 2 * most[heads] <= limits.largest_factor]))
    rows = limits.over(2 * most[of_q, of_k])
    pairs = draw(st.sampled_from([n for n in _PAIRS if n <= rows.largest_factor]))
    positions = draw(any_size(rows.over(pairs), _POSITIONS))
    return (*of_q, positions, 2 * pairs), (*of_k, positions, 2 * pairs)


@st.composite
def _calls(draw: st.DrawFn, limits: Limits) -> Call:
    of_q, of_k = draw(_sizes(limits))
    dtype = draw(st.sampled_from(DTYPES))
    fills = FILLS if dtype == torch.float16 else _FILLS
    q, k = (draw(tensors(shape, dtypes=[dtype], layouts=ROW_LAYOUTS, fills=fills)) for shape in (of_q, of_k))
    positions, columns = of_q[-2:]
    table = tensors((positions, columns // 2), dtypes=[dtype], layouts=LAYOUTS, fills=_TABLE_FILLS)
    return Call((q, k, draw(table), draw(table)))


def _call(
    of_q: tuple[int, ...],
    heads_of_k: tuple[int, ...],
    dtype: torch.dtype = torch.float64,
    layout: Layout = "contiguous",
    fill: Fill = "normal",
    of_tables: Fill = "normal",
    table_layout: Layout = "contiguous",
) -> Call:
    positions, columns = of_q[-2:]
    tables = (TensorCase((positions, columns // 2), dtype, table_layout, of_tables, seed) for seed in (3, 4))
    of_k = (*heads_of_k, positions, columns)
    return Call((TensorCase(of_q, dtype, layout, fill, 1), TensorCase(of_k, dtype, layout, fill, 2), *tables))


_SAMPLES: tuple[tuple[str, Callable[[torch.dtype], Call], str], ...] = (
    ("grouped heads", lambda dtype: _call((2, 8, 5, 16), (2, 2), dtype), "k has its own number of heads"),
    (
        "three dimensions of heads",
        lambda dtype: _call((2, 3, 2, 3, 8), (2, 3, 2), dtype),
        "the kernel has two, into which not all orders in memory merge",
    ),
    (
        "one position",
        lambda dtype: _call((3, 9, 1, 32), (3, 3), dtype),
        "decoding: a block has several groups of heads",
    ),
    (
        "many heads",
        lambda dtype: _call((300, 1, 2), (1,), dtype),
        "a block has at most 64 threads in its third dimension",
    ),
    ("odd half", lambda dtype: _call((2, 3, 6), (1,), dtype), "columns of the second half begin at no vector"),
    ("squarable", lambda dtype: _call((7, 9, 16), (2,), dtype, fill="squarable"), "a nan spoils its own pair alone"),
    (
        "huge",
        lambda dtype: _call((3, 5, 16), (3,), dtype, fill="huge", of_tables="tiny"),
        "large numbers whose products are not",
    ),
)


def _sizes_of_terms(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """|x1·cos| + |x2·sin| and |x2·cos| + |x1·sin|: what is rounded before the sum may cancel."""
    (x1, x2), cos, sin = x.abs().chunk(2, dim=-1), cos.abs(), sin.abs()
    return torch.cat((x1 * cos + x2 * sin, x2 * cos + x1 * sin), dim=-1)


def _scale(reference: Callable[..., Any], q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    return _sizes_of_terms(q, cos, sin), _sizes_of_terms(k, cos, sin)


def _gradient_scale(
    reference: Callable[..., Any], grad_q: Tensor, grad_k: Tensor, q: Tensor, k: Tensor, cos: Tensor, sin: Tensor
) -> tuple[Tensor, Tensor]:
    return _sizes_of_terms(grad_q, cos, sin), _sizes_of_terms(grad_k, cos, sin)


Rope = Callable[..., tuple[Tensor, Tensor]]


def _tables(positions: Sequence[int] | int, pairs: int, dtype: torch.dtype, device: Any) -> tuple[Tensor, Tensor]:
    """Cosines and sines of the paper's angles, position · 10000^(-i / pairs)."""
    listed = range(positions) if isinstance(positions, int) else positions
    frequencies = 10_000.0 ** (-torch.arange(pairs, dtype=torch.float64) / pairs)
    angles = torch.tensor(listed, dtype=torch.float64)[:, None] * frequencies
    return angles.cos().to(device, dtype), angles.sin().to(device, dtype)


def _keeps_lengths(function: Rope, device: str) -> None:
    """The norm of each pair of numbers, and so of each row."""
    x = TensorCase((2, 3, 50, 32), torch.float64, seed=5).make(device)
    for turned in function(x, 2 * x, *_tables(50, 16, torch.float64, device)):
        got, want = (torch.hypot(*of.chunk(2, dim=-1)) for of in (turned, x))
        scale = 2 if float(turned.abs().max()) > float(x.abs().max()) * 1.5 else 1
        torch.testing.assert_close(got, scale * want, rtol=1e-14, atol=0)


def _relative(function: Rope, device: str) -> None:
    """The product of a query and a key depends on their distance, not on their positions."""
    q, k = (TensorCase((1, 16), torch.float64, seed=seed).make(device).expand(4, 1, 16) for seed in (6, 7))
    scores = []
    for first in (0, 1, 100):
        turned_q, _ = function(q, k, *_tables([first + 5], 8, torch.float64, device))
        _, turned_k = function(q, k, *_tables([first], 8, torch.float64, device))
        scores.append((turned_q * turned_k).sum(-1))
    for later in scores[1:]:
        torch.testing.assert_close(later, scores[0], rtol=1e-12, atol=1e-12)


def _back(function: Rope, device: str) -> None:
    """With the result as upstream gradient, the gradient is the argument again: a rotation and its inverse."""
    tables = _tables(9, 4, torch.float64, device)
    q, k = (TensorCase((heads, 9, 8), torch.float64, seed=heads).make(device).requires_grad_() for heads in (2, 6))
    turned = function(q, k, *tables)
    for grad, x in zip(torch.autograd.grad(turned, (q, k), turned), (q, k), strict=True):
        torch.testing.assert_close(grad, x, rtol=1e-13, atol=1e-13)


def _one_of_both(function: Rope, device: str) -> None:
    """A gradient of q alone, or through one result alone, equals the one computed with both."""
    tables = _tables(9, 4, torch.float32, device)
    q, k = (TensorCase((heads, 9, 8), seed=heads).make(device) for heads in (2, 6))

    def both() -> tuple[Tensor, Tensor]:
        return q.detach().requires_grad_(), k.detach().requires_grad_()

    asked = both()
    outer = [TensorCase(tuple(x.shape), seed=9).make(device) for x in asked]
    want = torch.autograd.grad(function(*asked, *tables), asked, outer)
    for i in (0, 1):
        asked = both()
        (through_one,) = torch.autograd.grad(function(*asked, *tables)[i], asked[i], outer[i])
        alone = [x if i == j else x.detach() for j, x in enumerate(both())]
        (of_one,) = torch.autograd.grad(function(*alone, *tables)[i], alone[i], outer[i])
        assert torch.equal(through_one, want[i]), f"the gradient through result {i} alone is another one"
        assert torch.equal(of_one, want[i]), f"the gradient of argument {i} alone is another one"


def _heads_last(function: Rope, device: str) -> None:
    """q and k as a projection returns them, positions before heads, give the same bits as contiguous ones."""
    for dtype in DTYPES:
        tables = _tables(33, 16, dtype, device)
        q, k = (TensorCase((2, 33, heads, 32), dtype, seed=heads).make(device).transpose(1, 2) for heads in (6, 2))
        for got, want in zip(function(q, k, *tables), function(q.contiguous(), k.contiguous(), *tables), strict=True):
            assert torch.equal(got, want), f"in {dtype} the layout changes numbers"


def _large(function: Rope, device: str) -> None:
    """More than 2³¹ elements (float16): the first and the last head, by position and by number of heads."""
    for shape in ((2**15 + 1, 2**9, 128), (2**26 + 1, 1, 32)):
        q = torch.randn(shape, dtype=torch.float16, device=device)
        tables = _tables(shape[1], shape[2] // 2, torch.float16, device)
        k = q[:1]
        turned = function(q, k, *tables)[0]
        for heads in (slice(0, 3), slice(shape[0] // 2, shape[0] // 2 + 3), slice(-3, None)):
            want = _rotated(q[heads].float(), *(table.float() for table in tables))
            torch.testing.assert_close(turned[heads].float(), want, rtol=1e-3, atol=1e-3)
        del q, k, turned
    q = torch.randn(2, 2**23 + 3, 128, dtype=torch.float16, device=device)
    cos, sin = torch.randn(2, 2**23 + 3, 64, dtype=torch.float16, device=device)
    turned = function(q[:1], q, cos, sin)[1]
    for rows in (slice(0, 100), slice(-100, None)):
        want = _rotated(q[:, rows].float(), cos[rows].float(), sin[rows].float())
        torch.testing.assert_close(turned[:, rows].float(), want, rtol=1e-3, atol=1e-2)


def _bad_call(
    name: str, mentions: tuple[str, ...], devices: tuple[str, ...] = ("cpu", "cuda"), **changed: Any
) -> BadCall:
    def make(device: str) -> tuple[Sequence[Any], dict[str, Any]]:
        arguments = {
            "q": torch.ones(2, 3, 4),
            "k": torch.ones(1, 3, 4),
            "cos": torch.ones(3, 2),
            "sin": torch.ones(3, 2),
        } | changed
        return [x.to(device) if isinstance(x, Tensor) else x for x in arguments.values()], {}

    return BadCall(name, make, mentions, devices)


def _elsewhere(name: str) -> BadCall:
    shapes = {"q": (2, 3, 4), "k": (1, 3, 4), "cos": (3, 2), "sin": (3, 2)}

    def make(device: str) -> tuple[Sequence[Any], dict[str, Any]]:
        return [torch.ones(shape, device="cpu" if other == name else device) for other, shape in shapes.items()], {}

    return BadCall(f"{name} on another device", make, ("q", name, "cuda", "cpu"), devices=("cuda",))


_INTEGERS = torch.ones(2, 3, 4, dtype=torch.int64)
_DOUBLES = torch.ones(3, 2, dtype=torch.float64)


def _rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    x1, x2 = x.chunk(2, dim=-1)
    return torch.cat((x1 * cos - x2 * sin, x2 * cos + x1 * sin), dim=-1)


def _eager(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    return _rotated(q, cos, sin), _rotated(k, cos, sin)


# Batch, heads of q, heads of k, positions, columns: two models' training, one position of many, a short prompt, and a
# head whose half is no whole number of vectors.
_BENCHMARK_CASES = tuple(
    Case(" × ".join(map(str, sizes)), sizes)
    for sizes in (
        *((4, 32, 8, 4096, 128), (16, 12, 12, 1024, 64), (256, 32, 8, 1, 128), (1, 32, 8, 512, 128)),
        (2, 32, 32, 2048, 100),
    )
)


def _drawn(numbers: random.Random, least: int, most: int) -> tuple[int, ...]:
    """Heads of published models' sizes; q has from ``least`` to ``most`` elements."""
    heads_of_k, in_group = one_of(numbers, (1, 2, 4, 8, 16, 32)), one_of(numbers, (1, 2, 4, 8))
    columns = one_of(numbers, (64, 80, 96, 100, 128, 256))
    heads = heads_of_k * in_group
    tokens = max(between(numbers, least, most) // (heads * columns), 1)
    positions = between(numbers, 1, tokens)
    return tokens // positions, heads, heads_of_k, positions, columns


def _benchmark_arguments(device: torch.device, dtype: torch.dtype, case: Case, heads_last: bool = False) -> Any:
    batch, heads, heads_of_k, positions, columns = case.sizes

    def x(heads: int) -> Tensor:
        if heads_last:
            return torch.randn(batch, positions, heads, columns, device=device, dtype=dtype).transpose(1, 2)
        return torch.randn(batch, heads, positions, columns, device=device, dtype=dtype)

    return x(heads), x(heads_of_k), *_tables(positions, columns // 2, dtype, device)


def _bytes(case: Case, dtype: torch.dtype) -> int:
    batch, heads, heads_of_k, positions, columns = case.sizes
    return (2 * batch * (heads + heads_of_k) + 1) * positions * columns * dtype.itemsize


def _benchmark(name: str, **more: Any) -> Benchmark:
    of_both: dict[str, Any] = {
        "arguments": _benchmark_arguments,
        "eager": _eager,
        "bytes": _bytes,
        "draw": _drawn,
    }
    targets = Target(measure="over eager", at_least=0.9), Target(measure="over torch.compile", at_least=0.9)
    return Benchmark(name=name, cases=_BENCHMARK_CASES, targets=targets, **(of_both | more))


spec = Spec(
    calls=lambda limits: _calls(limits),
    # Also as float32 and float64; in the last one, no dimension of the tensors is 1.
    smooth=[_call((2, 4), ()), _call((1, 2, 2), (3,)), _call((2, 3, 4), (2,))],
    gradients=Gradients(arguments=("q", "k")),
    samples=[
        Sample(f"{name} {dtype}".replace("torch.", ""), make(dtype), reason)
        for name, make, reason in _SAMPLES
        for dtype in DTYPES
    ],
    edges=[
        call
        for dtype in DTYPES
        for call in (
            *(_call((2, 3, 40, 32), (2, 1), dtype, layout) for layout in ROW_LAYOUTS),
            _call((9, 33, 64), (5,), dtype, table_layout="transposed"),
            _call((9, 33, 64), (5,), dtype, table_layout="offset"),
            _call((3, 257, 6), (3,), dtype, "transposed"),
            _call((5, 33, 20), (2,), dtype),  # pairs of columns, but no vectors
            _call((1, 2, 1026), (1,), dtype),
            _call((2, 1, 4, 3, 16), (4,), dtype, "transposed"),
            _call((0, 3, 16), (2,), dtype),
            _call((2, 3, 16), (0,), dtype),
            _call((2, 0, 16), (2,), dtype),
            _call((2, 3, 0), (2,), dtype),
        )
    ],
    bad_calls=[
        _bad_call("integer q", ("q", "int64"), q=_INTEGERS, k=_INTEGERS),
        _bad_call("not a tensor", ("q",), q="three"),
        _bad_call("another dtype of k", ("q", "k", "float32", "float16"), k=torch.ones(1, 3, 4).half()),
        _bad_call("another dtype of cos", ("q", "cos", "float32", "float64"), cos=_DOUBLES),
        _bad_call("another dtype of sin", ("q", "sin", "float32", "float64"), sin=_DOUBLES),
        _bad_call("q of one dimension", ("q", "(4,)"), q=torch.ones(4)),
        _bad_call("k of one dimension", ("k", "(4,)"), k=torch.ones(4)),
        _bad_call("odd number of columns", ("q", "even", "(2, 3, 5)"), q=torch.ones(2, 3, 5), k=torch.ones(1, 3, 5)),
        _bad_call("other positions of k", ("q", "k", "(2, 3, 4)", "(1, 2, 4)"), k=torch.ones(1, 2, 4)),
        _bad_call("one position of k", ("q", "k", "(2, 3, 4)", "(1, 1, 4)"), k=torch.ones(1, 1, 4)),
        _bad_call("other columns of k", ("q", "k", "(2, 3, 4)", "(1, 3, 6)"), k=torch.ones(1, 3, 6)),
        _bad_call("a table of all columns", ("cos", "(3, 2)", "(3, 4)"), cos=torch.ones(3, 4)),
        _bad_call("a longer table", ("sin", "(3, 2)", "(9, 2)"), sin=torch.ones(9, 2)),
        _bad_call("a table that would broadcast", ("cos", "(3, 2)", "(1, 2)"), cos=torch.ones(1, 2)),
        _bad_call("a table of a batch", ("cos", "(3, 2)", "(1, 3, 2)"), cos=torch.ones(1, 3, 2)),
        *(_elsewhere(name) for name in ("k", "cos", "sin")),
    ],
    properties=[
        Property("lengths", _keeps_lengths, "it is a rotation"),
        Property("relative", _relative, "what position embedding by rotation is for"),
        Property("back", _back, "the gradient is the rotation by the negative angle"),
        Property("one of both", _one_of_both, "with adapters or a cache, one of the two is often frozen or unused"),
        Property("heads last", _heads_last, "it is read as it lies, by two strides for the heads"),
        large(_large, gpu_memory=36 * 2**30),
    ],
    zero_signs="of two products that underflow, a fused multiply-add has the sign of the one that it does not round",
    scale=_scale,
    gradient_scale=_gradient_scale,
    rounded_once="ports/rope.py: half types are computed in float32 and rounded once",
    gradients_rounded_once="cuda_src/rope.cuh: the same kernel with -sin",
    benchmarks=[
        _benchmark("forward", host=Case("1 × 4 × 2 × 16 × 64", (1, 4, 2, 16, 64))),
        _benchmark(
            "forward, heads last",
            arguments=lambda device, dtype, case: _benchmark_arguments(device, dtype, case, heads_last=True),
        ),
        _benchmark("backward", backward=True),
    ],
)
