"""quantize_int8: what it must satisfy."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from trifold.spec import (
    DTYPES,
    Benchmark,
    Call,
    Case,
    Property,
    Result,
    Sample,
    Spec,
    Target,
    TensorCase,
    elementwise_bad_calls,
    large,
    row_calls,
    row_edges,
)
from trifold.spec.drawn import matrix

_Function = Callable[[Tensor], tuple[Tensor, Tensor]]


def eager(x: Tensor) -> tuple[Tensor, Tensor]:
    wide = x.float()
    scale = wide.abs().amax(-1, keepdim=True) / 127
    return (wide / scale).round().clamp(-127, 127).to(torch.int8), scale.squeeze(-1)


def _near_a_half(got: Tensor, want: Tensor, x: Tensor) -> Tensor:
    """Whether the two are neighbours, and x / scale is as near to the half between them as its rounding to float32 can
    move it: half a round-off of up to 127, and as much for a subnormal scale."""
    wide = x.double()
    largest = wide.abs().amax(-1, keepdim=True) if x.dim() > 0 else wide.abs()
    scale = (largest / 127).float().double()
    half = (got.double() + want.double()) / 2
    neighbours = (got.int() - want.int()).abs() == 1
    return neighbours & ((wide / scale - half).abs() <= 127 * 2.0**-24)


def _scale(reference: Callable[..., tuple[Tensor, Tensor]], x: Tensor) -> tuple[Tensor, Tensor]:
    """The scales themselves; q is compared exactly."""
    q, scale = reference(x)
    return q.double(), scale.double()


def _restores(function: _Function, device: str) -> None:
    """q·scale is x to within half a scale, and the restored x is quantized to the same q."""
    for dtype in DTYPES:
        for columns in (1, 33, 1000, 4097):
            x = TensorCase((5, columns), dtype, fill="wide", seed=columns).make(device)
            q, scale = function(x)
            restored = q.double() * scale.double()[:, None]
            off = ((restored - x.double()).abs() / scale.double()[:, None]).max()
            assert float(off) <= 0.5 + 127 * 2**-23, f"{dtype}, {columns} columns: off by {float(off):.6f} scales"
            assert bool((q.abs().amax(-1) == 127).all()), f"{dtype}, {columns} columns: the largest number is not ±127"
            again, _ = function(restored.float())
            assert torch.equal(again, q), f"{dtype}, {columns} columns: what was restored becomes another q"


def _halves(function: _Function, device: str) -> None:
    """With a scale of 1, halves round to even."""
    for dtype in DTYPES:
        x = torch.tensor([127.0, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 62.5, 63.5], dtype=dtype, device=device)
        q, scale = function(x)
        assert float(scale) == 1, f"{dtype}: the scale is {float(scale)}, not 1"
        assert q.tolist() == [127, 0, 2, 2, 0, -2, -2, 62, 64], f"{dtype}: {q.tolist()}"


def _quotients(function: _Function, device: str) -> None:
    """q is the rounded quotient, and no product with 1 / scale, also where x / scale is a half up to a round-off."""
    for dtype in (torch.float32, torch.float64):
        largest = TensorCase((64, 1), dtype, seed=1).make(device).abs() + 0.5
        scale = (largest / torch.full_like(largest, 127)).float()  # a plain 127 becomes a product with 1 / 127 on a GPU
        half = (torch.arange(-126, 126, dtype=dtype, device=device) + 0.5) * scale
        below, above = (torch.nextafter(half, torch.full_like(half, end)) for end in (-math.inf, math.inf))
        x = torch.cat([largest, half, below, above], dim=1)
        q, scales = function(x)
        assert torch.equal(scales, scale[:, 0]), f"{dtype}: the scales are {scales}, not {scale[:, 0]}"
        want = (x / scale).round().to(torch.int8)
        different = int((q != want).sum())
        assert different == 0, f"{dtype}: of {x.numel()} quotients near a half, {different} are rounded differently"


def _unusual_rows(function: _Function, device: str) -> None:
    """Rows without a scale, as documented; also so long that several blocks share them."""
    for columns, dtype in ((3, torch.float32), (3, torch.float64), (3, torch.bfloat16), (70_001, torch.float32)):
        x = torch.ones(5, columns, dtype=dtype, device=device)
        x[0], x[1, -1], x[2, 1] = 0, math.nan, math.inf
        x[3] = torch.finfo(dtype).smallest_normal * torch.finfo(dtype).eps
        q, scale = function(x)
        rounds_to_0 = dtype != torch.bfloat16  # whose smallest number is large enough for a scale in float32
        where = f"{dtype}, {columns} columns"
        assert float(scale[0]) == 1 and math.isnan(scale[1]) and float(scale[2]) == math.inf, f"{where}: {scale}"
        assert not bool(q[:3].any()), f"{where}: q of zeros, nan or inf is not 0"
        assert not rounds_to_0 or (float(scale[3]) == 1 and not bool(q[3].any())), f"{where}: {scale[3]}, {q[3]}"
        assert bool((q[4] == 127).all()), f"{where}: other rows change"
    q, scale = function(torch.tensor([1e300, 1.0], dtype=torch.float64, device=device))
    assert float(scale) == math.inf and not bool(q.any()), f"a scale beyond float32 is {float(scale)}, q is {q}"
    for shape in ((0, 3), (3, 0), (2, 0, 3), (0,)):
        q, scale = function(torch.ones(shape, device=device))
        assert q.shape == shape and scale.shape == shape[:-1] and bool((scale == 1).all()), f"shape {shape}: {scale}"


def _large(function: _Function, device: str) -> None:
    """More than 2³¹ elements (float16), in one row and in rows of 4,096: both ends."""
    n = 2**31 + 4096
    for rows in (1, n // 4096):
        x = torch.zeros(rows, n // rows, dtype=torch.float16, device=device)
        ends = slice(0, 2048), slice(n - 2048, n)
        for end in ends:
            x.view(-1)[end] = torch.arange(-1024, 1024, device=device).to(torch.float16)
        q, scale = function(x)
        for end in ends:
            want = (x.view(-1)[end].float() / (torch.tensor(1024.0, device=device) / 127)).round().to(torch.int8)
            assert torch.equal(q.view(-1)[end], want), f"{rows} rows: q is wrong at {end}"
        assert float(scale[0]) == float(scale[-1]) == float(torch.tensor(1024.0) / 127), f"{rows} rows: {scale}"
        assert int(q.view(-1)[2048:-2048:4097].abs().max()) == 0, f"{rows} rows: zeros became another number"


def _arguments(device: torch.device, dtype: torch.dtype, case: Case) -> tuple[Tensor]:
    return (torch.randn(case.sizes, device=device, dtype=dtype),)


def _bytes(case: Case, dtype: torch.dtype) -> int:
    rows, columns = case.sizes
    return rows * columns * (dtype.itemsize + 1) + 4 * rows


_SIZES = (
    *((131_072, 256), (32_768, 1024), (16_384, 4096), (4096, 16_384), (1024, 262_144), (1, 2**28)),
    *((10_007, 1000), (4096, 12_289)),  # no multiple of a vector, or of a warp's vectors
)
_SPECIAL = "nan and inf have a scale of their own, and change no other row"
_SUBNORMAL = "1 / scale is infinite, or loses its bits"

spec = Spec(
    calls=row_calls(1),
    smooth=(),
    samples=[
        Sample("no dimension", Call((TensorCase((), torch.float32),)), "a 0-d tensor is a row of one number"),
        Sample("zeros", Call((TensorCase((3, 40), torch.float32, fill="zero"),)), "a scale of 0 makes nan of 0 / 0"),
        *(Sample(f"special {d}", Call((TensorCase((16, 3), d, fill="special"),)), _SPECIAL) for d in DTYPES),
        *(Sample(f"subnormal {d}", Call((TensorCase((4, 33), d, fill="subnormal"),)), _SUBNORMAL) for d in DTYPES),
        Sample("huge", Call((TensorCase((4, 300), torch.float64, fill="huge"),)), "a scale may leave float32's range"),
        Sample("long", Call((TensorCase((2, 70_001), torch.bfloat16),)), "blocks that share a row have one scale"),
    ],
    edges=[
        *row_edges(1, columns=(1, 33, 256, 1024, 1025, 4097, 8192, 8193, 32_768, 40_001)),
        # Rows of x and of q that reach a boundary at different numbers, which are moved one at a time.
        *(Call((TensorCase((3, n), dtype, "offset"),)) for dtype in DTYPES for n in (257, 1024, 4097, 8200, 20_000)),
        *(Call((TensorCase(shape, dtype),)) for dtype in DTYPES for shape in ((2, 8200), (3, 0), (0, 3), (300, 7))),
    ],
    bad_calls=elementwise_bad_calls("x"),
    properties=[
        Property("restores", _restores, "that is what the two numbers are for"),
        Property("halves", _halves, "q is what torch.round makes of x / scale"),
        Property("quotients", _quotients, "a product with the reciprocal of the scale is off by a round-off more"),
        Property("unusual rows", _unusual_rows, "a row without a scale must not spoil others, nor pass in silence"),
        large(_large, gpu_memory=24 * 2**30),
    ],
    results=(
        Result(tie=_near_a_half, reason="x / scale is rounded to float32, which can move it to a half or off it"),
        Result(),
    ),
    scale=_scale,
    benchmarks=[
        Benchmark(
            name="forward",
            cases=tuple(Case(f"{rows:,} × {columns:,}", (rows, columns)) for rows, columns in _SIZES),
            arguments=_arguments,
            eager=eager,
            bytes=_bytes,
            draw=matrix,
            host=Case("64 × 256", (64, 256)),
            targets=tuple(Target(measure=peer, at_least=0.9) for peer in ("over eager", "over torch.compile")),
        )
    ],
)
