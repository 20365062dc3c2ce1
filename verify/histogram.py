"""histogram: what it must satisfy."""

import itertools
import math
from collections import Counter
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
    Cub,
    Limits,
    Property,
    Result,
    Sample,
    Spec,
    Target,
    TensorCase,
    large,
    shapes,
    tensors,
)
from trifold.spec.case import Layout
from trifold.spec.fills import Fill

_SHARED_COUNTERS = 8192  # cuda_src/histogram.cuh: more bins are counted in global memory

# Around the numbers of bins for which a block keeps 32, 16 and 1 counters each, and no power of two.
_BINS = (10, 1, 2, 3, 7, 100, 255, 256, 257, 511, 513, 4097, _SHARED_COUNTERS, _SHARED_COUNTERS + 1, 20_011)

# Edges that the types represent exactly, and others; narrow, wide, around zero and far from it.
_RANGES = ((-2.0, 2.0), (0.0, 1.0), (-0.7, 1.9), (0.1, 0.3), (-5.0, 4.0), (100.0, 700.0), (1e-6, 1e-5), (-1e30, 1e30))


@st.composite
def _calls(draw: st.DrawFn, limits: Limits) -> Call:
    x = draw(tensors(shapes(limits)))
    return Call((x, draw(st.sampled_from(_BINS)), *draw(st.sampled_from(_RANGES))))


def _call(
    shape: tuple[int, ...],
    dtype: torch.dtype,
    bins: int = 10,
    low: float = -2.0,
    high: float = 2.0,
    *,
    layout: Layout = "contiguous",
    fill: Fill = "normal",
) -> Call:
    return Call((TensorCase(shape, dtype, layout, fill, 1), bins, low, high))


_SAMPLES: tuple[tuple[str, Callable[[torch.dtype], Call], str], ...] = (
    (
        "on edges",
        # Small integers: each is an edge of one of the 9 bins, or the right end.
        lambda dtype: _call((1000,), dtype, 9, -4.0, 5.0, fill="exact"),
        "a number on an edge is in the bin to its right, and in the last one at the end",
    ),
    (
        "inexact edges",
        lambda dtype: _call((4000,), dtype, 1000, -4.1, 4.3, fill="exact"),
        "a product with the reciprocal of a bin's width rounds to another side of an edge than the quotient does",
    ),
    ("special", lambda dtype: _call((2000,), dtype, 5, fill="special"), "nan and what is outside is in no bin"),
    (
        "outside",
        lambda dtype: _call((300,), dtype, 5, 1e4, 2e4),
        "counts of nothing are 0, whatever was in their memory",
    ),
    (
        "one bin",
        lambda dtype: _call((70_001,), dtype, 7, fill="zero"),
        "all threads add to one counter; more than 65,504 of them do not fit in a half type",
    ),
    (
        "one counter",
        lambda dtype: _call((5000,), dtype, _SHARED_COUNTERS + 1, fill="zero"),
        "all threads add to one counter in global memory",
    ),
)


def _counts(x: Tensor, bins: int, low: float, high: float) -> Tensor:
    """The counts as the op defines them, by the dtype of ``x``."""
    wide = torch.float64 if x.dtype == torch.float64 else torch.float32
    # As tensors: a division by a Python number is a product with its reciprocal on a GPU.
    first, last, count = (torch.tensor(number, dtype=wide, device=x.device) for number in (low, high, bins))
    numbers = x.detach().to(wide)
    counted = numbers[(numbers >= first) & (numbers <= last)]
    chosen = ((counted - first) * count / (last - first)).long().clamp(max=bins - 1)
    return torch.zeros(bins, dtype=torch.int64, device=x.device).index_add_(0, chosen, torch.ones_like(chosen))


def _as_in_its_own_dtype(got: Tensor, want: Tensor, x: Tensor, bins: int, low: float, high: float) -> Tensor:
    return got == _counts(x, bins, low, high)


def _edges_are_closed(function: Callable[..., Tensor], device: str) -> None:
    """Bins are closed on the left, the last one on the right too; numbers next to either end of the range are not
    counted."""
    for dtype, bins in itertools.product(DTYPES, (2, _SHARED_COUNTERS, _SHARED_COUNTERS + 1)):
        ends = torch.tensor([1.0, 3.0], dtype=dtype)
        outside = torch.nextafter(ends, torch.tensor([-math.inf, math.inf], dtype=dtype))
        x = torch.cat([ends, outside, torch.tensor([2.0, math.nan], dtype=dtype)]).to(device)
        counts = function(x, bins, 1.0, 3.0)
        of_bins: dict[int, int] = dict(Counter((0, bins // 2, bins - 1)))
        got = {chosen: count for chosen, count in enumerate(counts.tolist()) if count}
        assert got == of_bins, f"of {x.tolist()} in {dtype}, the {bins} bins of [1, 3] have {got}, not {of_bins}"


def _many(function: Callable[..., Tensor], device: str) -> None:
    """More elements than all threads take in one step."""
    for dtype, bins in ((torch.float32, 300), (torch.float16, 10), (torch.float64, 10_000)):
        x = torch.randn(9_000_011, generator=torch.Generator().manual_seed(1)).to(device, dtype)
        for part in (x, x[1:]):
            assert torch.equal(function(part, bins, -3.0, 3.0), _counts(part, bins, -3.0, 3.0)), f"{bins} of {dtype}"


def _large(function: Callable[..., Tensor], device: str) -> None:
    """More than 2³² equal elements (float16) and a few others at both ends."""
    x = torch.full((2**32 + 100,), 0.5, dtype=torch.float16, device=device)
    x[:3], x[-5:] = 1.5, 2.5
    for bins, width in ((3, 1), (9000, 3000)):
        counts = function(x, bins, 0.0, 3.0)
        got = counts[[width // 2, width + width // 2, 2 * width + width // 2]].tolist()
        assert got == [2**32 + 92, 3, 5], f"of {bins} bins, three have {got}"
        assert int(counts.sum()) == x.numel(), f"{int(counts.sum())} of {x.numel()} were counted"


def _bad_call(name: str, mentions: tuple[str, ...], **changed: Any) -> BadCall:
    def make(device: str) -> tuple[Sequence[Any], dict[str, Any]]:
        arguments = {"x": torch.ones(3), "bins": 4, "low": 0.0, "high": 1.0} | changed
        return [value.to(device) if isinstance(value, Tensor) else value for value in arguments.values()], {}

    return BadCall(name, make, mentions)


def _benchmark_arguments(device: torch.device, dtype: torch.dtype, case: Case) -> tuple[Tensor, int, float, float]:
    n, bins = case.sizes
    return torch.randn(n, device=device, dtype=dtype), bins, -3.0, 3.0


def _eager(x: Tensor, bins: int, low: float, high: float) -> Tensor:
    """On a GPU torch.histc has no half types."""
    return torch.histc(x if x.dtype in (torch.float32, torch.float64) else x.float(), bins, low, high)


def _counted_beside_edges(counts: Tensor, x: Tensor, bins: int, low: float, high: float) -> bool:
    """Whether each number is counted in its bin, or within a few round-offs of an edge in the neighbouring bin or, at
    an end of the range, in none: other implementations multiply by the width's reciprocal, or leave the last bin
    open."""
    at = (x.detach().double() - low) * (bins / (high - low))
    near = bins * 2.0**-22  # three round-offs of float32

    def up_to_each_bin(shift: float) -> Tensor:
        counted = at[(at >= shift) & (at < bins + 1)]
        chosen = (counted + shift).floor().long().clamp(min=0)
        return torch.bincount(chosen[chosen < bins], minlength=bins).cumsum(0)

    total = counts.long().cumsum(0)
    return bool(((up_to_each_bin(near) <= total) & (total <= up_to_each_bin(-near))).all())


spec = Spec(
    calls=_calls,
    results=(
        Result(
            tie=_as_in_its_own_dtype,
            reason="the exact reference rounds in float64: a float32 number near an edge may then be in the next bin",
        ),
    ),
    samples=[
        Sample(f"{name} {dtype}".replace("torch.", ""), make(dtype), reason)
        for name, make, reason in _SAMPLES
        for dtype in DTYPES
    ],
    edges=[
        call
        for dtype in DTYPES
        for bins in (10, _SHARED_COUNTERS, _SHARED_COUNTERS + 1)
        for call in (
            *(_call((n,), dtype, bins) for n in (33, 1025, 30_011)),
            _call((50,), dtype, bins, layout="offset"),
        )
    ]
    + [
        call
        for bins in (10, _SHARED_COUNTERS, _SHARED_COUNTERS + 1)
        for call in (
            *(_call((n,), torch.float32, bins) for n in (0, 1, 16)),
            _call((), torch.float32, bins),
            _call((7, 5), torch.float32, bins, layout="transposed"),
            _call((7, 5), torch.float32, bins, layout="sliced"),
            _call((7, 5), torch.float32, bins, layout="expanded"),
        )
    ],
    bad_calls=[
        _bad_call("integer dtype", ("x", "int64"), x=torch.ones(3, dtype=torch.int64)),
        _bad_call("not a tensor", ("x",), x="three"),
        _bad_call("no bins", ("bins", "0"), bins=0),
        _bad_call("negative bins", ("bins", "-3"), bins=-3),
        _bad_call("bins that are not integers", ("bins",), bins=2.5),
        _bad_call("empty range", ("low", "high", "1"), low=1.0),
        _bad_call("range from right to left", ("low", "high", "2"), low=2.0),
        _bad_call("equal in float32", ("low", "high", "float32"), low=1.0, high=1.0 + 1e-12),
        _bad_call("nan", ("low", "high", "nan"), low=math.nan),
        _bad_call("infinite", ("low", "high", "inf"), high=math.inf),
        _bad_call("infinite in float32", ("low", "high", "1e+39"), high=1e39),
        _bad_call("too wide for float32", ("low", "high", "3e+38"), low=-3e38, high=3e38),
    ],
    properties=[
        Property("closed edges", _edges_are_closed, "each number of the range is in one bin, and no other number is"),
        Property("many", _many, "threads process several vectors each", implementations=("port",)),
        large(_large, gpu_memory=28 * 2**30, reason="an index or a count in 32 bits wraps"),
    ],
    benchmarks=[
        Benchmark(
            name="forward",
            cases=tuple(
                Case(f"2^{k}, {bins} bins", (1 << k, bins)) for k in (16, 20, 24, 28) for bins in (10, 256, 4096)
            ),
            arguments=_benchmark_arguments,
            eager=_eager,
            bytes=lambda case, dtype: case.sizes[0] * dtype.itemsize + case.sizes[1] * 8,
            cub=Cub(
                function="DeviceHistogram::HistogramEven",
                agrees=_counted_beside_edges,
                dtypes=(torch.float64, torch.float32, torch.float16),  # on an H200, its counts of bfloat16 are others
            ),
            host=Case("2^10, 10 bins", (1024, 10)),
            targets=(
                Target(measure="over eager", at_least=0.9),
                Target(measure="over torch.compile", at_least=0.9),
            ),
        )
    ],
)
