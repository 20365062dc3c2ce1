"""normal_sample: what it must satisfy."""

import functools
import itertools
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
    Target,
    TensorCase,
    aliases,
    any_size,
    large,
    tensors,
)
from trifold.spec.case import Layout
from trifold.spec.fills import Fill

# nan and inf make a whole row nan: one sample suffices to show that.
FILLS: tuple[Fill, ...] = ("exact", "normal", "zero", "huge", "tiny")
LAYOUTS: tuple[Layout, ...] = ("contiguous", "offset", "sliced", "expanded")
_MANY_ROWS = 4096
_NOISE = (("independent noise", False), ("shared noise", True))


@st.composite
def _sizes(draw: st.DrawFn, limits: Limits) -> tuple[int, int]:
    """Numbers of rows and of samples: one of them small, the other any."""
    few = draw(st.sampled_from([n for n in (1, 2, 3, 5, 17, 130) if n <= limits.largest_factor]))
    if limits.fewest == 0 and draw(st.integers(0, 9)) == 9:
        return draw(st.sampled_from(((0, 4), (3, 0), (0, 0))))
    many = limits.over(few)
    if draw(st.booleans()) and many.fewest <= _MANY_ROWS:  # backward has a block for each row
        return draw(any_size(Limits(min(many.elements, _MANY_ROWS), many.fewest), (1, 2, 3, 64, 1000))), few
    return few, draw(any_size(many, (1, 4, 2, 3, 5, 7, 64, 255, 257, 1024, 4099)))


@st.composite
def _calls(draw: st.DrawFn, limits: Limits) -> Call:
    rows, samples = draw(_sizes(limits))
    dtype = draw(st.sampled_from(DTYPES))
    # std·z that overflows is inf, or finite if it is fused with the sum: only a wider type shows which is exact.
    fills = [fill for fill in FILLS if fill != "huge" or dtype != torch.float64]
    numbers = tensors((rows,), dtypes=[dtype], layouts=LAYOUTS, fills=fills)
    mean, std = draw(numbers), draw(aliases(1) if draw(st.integers(0, 5)) == 5 else numbers)
    kwargs = {"shared_noise": True} if draw(st.booleans()) else {}
    return Call((mean, std, samples), kwargs, seed=draw(st.integers(0, 2**31)))


def _call(rows: int, samples: int, dtype: torch.dtype = torch.float64, fill: Fill = "normal", **kwargs: Any) -> Call:
    return Call((TensorCase((rows,), dtype, fill=fill, seed=1), TensorCase((rows,), dtype, seed=2), samples), kwargs)


def _noise(reference: Callable[..., Tensor], mean: Tensor, samples: int, kwargs: dict[str, Any]) -> Tensor:
    return reference(torch.zeros_like(mean), torch.ones_like(mean), samples, **kwargs).abs()


def _scale(reference: Callable[..., Tensor], mean: Tensor, std: Tensor, samples: int, **kwargs: Any) -> Tensor:
    """|mean| + |std·z|: what is rounded before the sum may cancel."""
    return mean.abs()[:, None] + std.abs()[:, None] * _noise(reference, mean, samples, kwargs)


def _gradient_scale(
    reference: Callable[..., Tensor], grad: Tensor, mean: Tensor, std: Tensor, samples: int, **kwargs: Any
) -> tuple[Tensor, Tensor]:
    """Σ|g| and Σ|g·z|: the sums of the terms' magnitudes."""
    z = _noise(reference, mean, samples, kwargs)
    return grad.abs().sum(1), (grad.abs() * z).sum(1)


def _is_normal(function: Callable[..., Tensor], device: str) -> None:
    """Moments of 200,000 numbers within 5 standard errors, and Kolmogorov–Smirnov at p > 10⁻³."""
    rows, samples = (20, 10_000) if device == "cuda" else (20, 100)
    n = rows * samples
    torch.manual_seed(7)
    z = function(torch.zeros(rows, device=device), torch.ones(rows, device=device), samples).double().cpu().flatten()
    moments = {
        "mean": (z.mean(), 0, 1),
        "variance": (z.var(), 1, 2),
        "skewness": ((z**3).mean(), 0, 15),
        "kurtosis": ((z**4).mean(), 3, 96),
    }
    for name, (got, expected, variance) in moments.items():
        assert abs(float(got) - expected) < 5 * (variance / n) ** 0.5, (
            f"{name} is {float(got):.4f}, expected {expected}"
        )
    distribution = torch.special.ndtr(z.sort().values)
    ranks = torch.arange(n + 1, dtype=torch.float64) / n
    distance = float(torch.maximum(ranks[1:] - distribution, distribution - ranks[:-1]).max()) * n**0.5
    # The limit of √n·D has 1 - 2·exp(-2·1.95²) = 0.999 of its mass below 1.95.
    assert distance < 1.95, f"Kolmogorov–Smirnov: √n·D = {distance:.2f}, more than 1.95"


def _rows_are_independent(function: Callable[..., Tensor], device: str) -> None:
    """Correlations between rows within 5 standard errors of 0; with shared noise they are 1."""
    rows, samples = (8, 10_000) if device == "cuda" else (6, 100)
    zero, one = torch.zeros(rows, device=device), torch.ones(rows, device=device)
    torch.manual_seed(3)
    correlation = torch.corrcoef(function(zero, one, samples).double()) - torch.eye(rows, device=device)
    worst = float(correlation.abs().max())
    assert worst < 5 / samples**0.5, f"rows correlate by {worst:.3f}"
    shared = function(zero, one, samples, shared_noise=True)
    assert bool((shared == shared[0]).all()), "with shared_noise=True the rows differ"


def _generators(function: Callable[..., Tensor], device: str) -> None:
    """A separate generator repeats by seed, advances between calls, and leaves torch's own alone."""
    x = torch.zeros(3, device=device), torch.ones(3, device=device)

    def draw(generator: torch.Generator | None) -> Tensor:
        return function(*x, 5, generator=generator)

    generator = torch.Generator(device).manual_seed(11)
    first, second = draw(generator), draw(generator)
    assert not torch.equal(first, second), "a generator gives the same numbers twice"
    assert torch.equal(first, draw(generator.manual_seed(11))), "manual_seed on a generator does not repeat it"
    torch.manual_seed(5)
    alone = draw(None)
    torch.manual_seed(5)
    draw(generator)
    assert torch.equal(alone, draw(None)), "a call with a generator advances torch's own"


def _never_repeats(function: Callable[..., Tensor], device: str) -> None:
    """No number recurs 2^k positions later, in one long row, in many short ones and in between, for each 2^k at which
    an index or a product of indices could wrap."""
    _require_no_period(function, device, (8, 16, 20), 2**14, torch.float32)


def _never_repeats_in_32_bits(function: Callable[..., Tensor], device: str) -> None:
    _require_no_period(function, device, (24, 31, 32), 2**20, torch.float16)  # other types fill a GPU's memory


def _require_no_period(
    function: Callable[..., Tensor], device: str, powers: Sequence[int], more: int, dtype: torch.dtype
) -> None:
    n = 2 ** powers[-1] + more
    long = [(1, n, shared) for shared in (False, True)]
    for rows, columns, shared in (*long, (-(-n // 3), 3, False), (2**10, -(-n // 2**10), False)):
        torch.manual_seed(9)
        zero, one = torch.zeros(rows, device=device, dtype=dtype), torch.ones(rows, device=device, dtype=dtype)
        z = function(zero, one, columns, shared_noise=shared).flatten()
        for k, first in itertools.product(powers, (0, 1023, 4096, more - 4096)):
            here, there = z[first : first + 4096], z[first + 2**k : first + 2**k + 4096]
            # Independent numbers coincide now and then: in float16 one pair in 9,000.
            same = int((here == there).sum())
            assert same <= 40, f"{rows} × {columns}: {same} of 4,096 numbers stand again 2^{k} places after {first}"
        del z, here, there  # before as many are drawn again


def _large(function: Callable[..., Tensor], device: str) -> None:
    """More than 2³¹ elements (float16): every row is written, and its noise is standard normal at both ends."""
    rows, samples = 3, 2**30
    torch.manual_seed(0)
    mean = torch.tensor([100.0, 200.0, 300.0], device=device, dtype=torch.float16)
    result = function(mean, torch.ones_like(mean), samples)
    for row in range(rows):
        for end in (result[row, :100_000], result[row, -100_000:]):
            z = end.double() - float(mean[row])
            assert abs(float(z.mean())) < 0.02, f"row {row}: mean {float(z.mean()):.3f}"
            assert abs(float(z.std()) - 1) < 0.05, f"row {row}: std {float(z.std()):.3f}"


def _bad(**changed: Any) -> Callable[[str], tuple[list[Any], dict[str, Any]]]:
    def make(device: str) -> tuple[list[Any], dict[str, Any]]:
        arguments = {"mean": torch.zeros(3), "std": torch.ones(3), "num_samples": 4} | changed
        values = [value.to(device) if isinstance(value, Tensor) else value for value in arguments.values()]
        return values, {}

    return make


def _bad_call(name: str, mentions: tuple[str, ...], **changed: Any) -> BadCall:
    return BadCall(name, _bad(**changed), mentions)


def _benchmark_arguments(device: torch.device, dtype: torch.dtype, case: Case) -> tuple[Tensor, Tensor, int]:
    d, n = case.sizes
    return torch.randn(d, device=device, dtype=dtype), torch.rand(d, device=device, dtype=dtype), n


def _bytes(case: Case, dtype: torch.dtype) -> int:
    d, n = case.sizes
    return (d * n + 2 * d) * dtype.itemsize


def _eager(mean: Tensor, std: Tensor, samples: int, rows: int | None = None) -> Tensor:
    noise = torch.randn(mean.shape[0] if rows is None else rows, samples, device=mean.device, dtype=mean.dtype)
    return mean[:, None] + std[:, None] * noise


def _grid(name: str, shared: bool) -> Benchmark:
    """The grid of the article on sampling for the cross-entropy method: N = 1,024."""
    return Benchmark(
        name=name,
        cases=tuple(Case(f"d = {d}", (d, 1024)) for d in (10, 100, 500, 1000, 1500, 2000, 2500, 3000, 4000, 5000)),
        arguments=_benchmark_arguments,
        eager=functools.partial(_eager, rows=1) if shared else _eager,
        call=lambda function, *arguments: function(*arguments, **({"shared_noise": True} if shared else {})),
        bytes=_bytes,
        dtypes=(torch.float32,),
        roofline="write",
        methods=("graph", "events"),
        targets=(
            Target(measure="over torch.compile", at_least=1.5),
            Target(measure="over torch.compile", at_least=3.79, method="events", mean="geometric mean"),
        ),
    )


def _backward(name: str, shared: bool) -> Benchmark:
    """Rows of the grid's length, and rows so short or so few that one block per row would distribute the work badly.

    No target: torch's backward reads the noise that its forward has stored, ours computes it again.
    """
    cases = ((5000, 1024), (100_000, 16), (20_000, 4000), (64, 1_000_000))
    return Benchmark(
        name=f"backward, {name}",
        cases=tuple(Case(f"d = {d:,}, N = {n:,}", (d, n)) for d, n in cases),
        arguments=_benchmark_arguments,
        eager=functools.partial(_eager, rows=1) if shared else _eager,
        call=lambda function, *arguments: function(*arguments, **({"shared_noise": True} if shared else {})),
        bytes=_bytes,
        dtypes=(torch.float32,),
        backward=True,
    )


spec = Spec(
    calls=lambda limits: _calls(limits),
    smooth=[_call(3, 5), _call(2, 6, shared_noise=True)],
    random=True,
    scale=_scale,
    gradient_scale=_gradient_scale,
    rounded_once="ports/normal_sample.py: half types are computed in float32",
    gradients_rounded_once="cuda_src/normal_sample.cuh: a row's sums are of float32",
    samples=[
        Sample("many columns", _call(1, 600, torch.float32), "one thread for each column would stop at 1,024"),
        # One more than 600: the gradient check's upstream gradient is then one number for all columns.
        Sample("many columns bfloat16", _call(1, 601, torch.bfloat16), "a sum in bfloat16 stops at 256 equal terms"),
        Sample("rows across groups of four", _call(5, 7, torch.float32), "a group of four normals straddles two rows"),
        Sample("special", _call(37, 3, torch.float32, "special"), "nan and inf stay in their rows"),
    ],
    edges=[
        _call(rows, samples, dtype, shared_noise=shared)
        for dtype in DTYPES
        for shared in (False, True)
        # Backward assigns a row of 8 samples to part of a warp, of 64 to a warp, of 516 to a block, and of 1,032 to
        # two. With a multiple of 3 elements the gradient check's upstream gradient is contiguous.
        for rows, samples in ((1, 1), (2, 3), (3, 33), (3, 8), (3, 64), (1, 516), (1, 1032))
    ],
    bad_calls=[
        _bad_call("another shape", ("mean", "std", "(3,)", "(4,)"), std=torch.ones(4)),
        _bad_call("std in a row", ("mean", "std", "(3,)", "(1, 3)"), std=torch.ones(1, 3)),
        _bad_call("std in a column", ("mean", "std", "(3,)", "(3, 1)"), std=torch.ones(3, 1)),
        _bad_call("another dtype", ("mean", "std", "float32", "float64"), std=torch.ones(3, dtype=torch.float64)),
        _bad_call(
            "integer dtype",
            ("mean", "int64"),
            mean=torch.ones(3, dtype=torch.int64),
            std=torch.ones(3, dtype=torch.int64),
        ),
        _bad_call("two dimensions", ("mean",), mean=torch.ones(3, 3), std=torch.ones(3, 3)),
        _bad_call("negative count", ("num_samples", "-1"), num_samples=-1),
        _bad_call("count that is not an integer", ("num_samples",), num_samples=2.5),
    ],
    properties=[
        Property("normal", _is_normal, "the noise has the distribution that it claims"),
        Property("independent", _rows_are_independent, "rows share noise only when asked to"),
        Property("generator", _generators, "results repeat by seed, and streams of numbers do not mix"),
        Property("period", _never_repeats, "noise that repeats is no noise", implementations=("port",)),
        Property(
            "long period",
            _never_repeats_in_32_bits,
            "noise that repeats is no noise",
            ("cuda",),
            ("port",),
            gpu_memory=24 * 2**30,
        ),
        large(_large, gpu_memory=16 * 2**30),
    ],
    # Relative to |z|: log at most 2 round-offs, halved by the root, which adds 1; cospi and its product 3; the products
    # and the sum with std and mean 2.
    multiple=8,
    multiple_reason="log, sqrt, cospi and three more roundings in a row",
    benchmarks=[
        *(_grid(name, shared) for name, shared in _NOISE),
        *(_backward(name, shared) for name, shared in _NOISE),
        Benchmark(
            name="large",
            cases=(Case("d = 100,000, N = 10,000", (100_000, 10_000)),),
            arguments=_benchmark_arguments,
            eager=_eager,
            bytes=_bytes,
            dtypes=(torch.float32,),
            roofline="write",
            targets=(Target(measure="roofline", at_least=0.90),),
        ),
    ],
)
