"""normal_sample: what it must satisfy."""

from collections.abc import Callable
from typing import Any

import torch
from hypothesis import strategies as st
from scipy import stats
from torch import Tensor

from trifold.spec import DTYPES, BadCall, Call, Limits, Property, Sample, Spec, TensorCase, tensors
from trifold.spec.case import Fill, Layout

# nan and inf make a whole row nan: a sample of its own shows that.
FILLS: tuple[Fill, ...] = ("exact", "normal", "zero", "huge", "tiny")
LAYOUTS: tuple[Layout, ...] = ("contiguous", "offset", "sliced", "expanded")


@st.composite
def _calls(draw: st.DrawFn, limits: Limits) -> Call:
    samples = draw(
        st.sampled_from([n for n in (1, 4, 0, 2, 3, 5, 7, 64, 255, 257, 1024, 4099) if n <= limits.elements])
    )
    most = max(1, limits.elements // max(samples, 1))
    rows = draw(st.sampled_from([d for d in (1, 2, 0, 3, 5, 17, 130) if d <= most]))
    mean = draw(tensors((rows,), layouts=LAYOUTS, fills=FILLS))
    std = draw(tensors((rows,), dtypes=[mean.dtype], layouts=LAYOUTS, fills=FILLS))
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
    """Σ|g| and Σ|g·z|: the sums of what is added up."""
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
    p = stats.kstest(z.numpy(), "norm").pvalue
    assert p > 1e-3, f"Kolmogorov–Smirnov: p = {p:.2g}"


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
    """A generator of its own repeats by seed, moves on between calls, and leaves torch's own alone."""
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


def _bad(mention: tuple[str, ...], **changed: Any) -> Callable[[str], tuple[list[Any], dict[str, Any]]]:
    def make(device: str) -> tuple[list[Any], dict[str, Any]]:
        arguments = {"mean": torch.zeros(3), "std": torch.ones(3), "num_samples": 4} | changed
        values = [value.to(device) if isinstance(value, Tensor) else value for value in arguments.values()]
        return values, {}

    return make


def _bad_call(name: str, mentions: tuple[str, ...], **changed: Any) -> BadCall:
    return BadCall(name, _bad(mentions, **changed), mentions)


spec = Spec(
    calls=lambda limits: _calls(limits),
    smooth=[_call(3, 5), _call(2, 6, shared_noise=True)],
    random=True,
    scale=_scale,
    gradient_scale=_gradient_scale,
    samples=[
        Sample("many columns", _call(1, 600, torch.float32), "one thread for each column would stop at 1,024"),
        Sample("rows across groups of four", _call(5, 7, torch.float32), "a group of four normals straddles two rows"),
        Sample("special", _call(37, 3, torch.float32, "special"), "nan and inf stay in their rows"),
    ],
    edges=[
        _call(rows, samples, dtype, shared_noise=shared)
        for dtype in DTYPES
        for shared in (False, True)
        for rows, samples in ((1, 1), (2, 3), (2, 64), (3, 33))
    ],
    bad_calls=[
        _bad_call("another shape", ("mean", "std", "(3,)", "(4,)"), std=torch.ones(4)),
        _bad_call("another dtype", ("mean", "std", "float32", "float64"), std=torch.ones(3, dtype=torch.float64)),
        _bad_call(
            "integer dtype",
            ("mean", "int64"),
            mean=torch.ones(3, dtype=torch.int64),
            std=torch.ones(3, dtype=torch.int64),
        ),
        _bad_call("two dimensions", ("mean",), mean=torch.ones(3, 3), std=torch.ones(3, 3)),
        _bad_call("negative count", ("num_samples", "-1"), num_samples=-1),
        _bad_call("count that is no integer", ("num_samples",), num_samples=2.5),
    ],
    properties=[
        Property("normal", _is_normal, "the noise has the distribution that it claims"),
        Property("independent", _rows_are_independent, "rows share noise only when asked to"),
        Property("generator", _generators, "results repeat by seed, and streams of numbers do not mix"),
        Property("large", _large, "an index in 32 bits wraps at 2³¹ elements", ("cuda",), ("port",)),
    ],
)
