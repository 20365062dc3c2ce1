"""Shared by the specs of ops that normalise rows: inputs with parameters of one number per column, and bad calls."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from hypothesis import strategies as st
from torch import Tensor

from trifold.spec.benchmark import Arguments, Benchmark, Case, rows_benchmarks
from trifold.spec.call import Call
from trifold.spec.case import DTYPES, ROW_FILLS, AliasCase, Layout, TensorCase
from trifold.spec.fills import Fill
from trifold.spec.rows import row_edges, row_shapes, row_tensors
from trifold.spec.spec import BadCall, Property, Sample
from trifold.spec.strategies import Limits, Strategy, aliases, tensors

# Enough rows for several blocks to share each column's sum: `trifold::share_rows`.
MANY_ROWS = 33

# Rows longer than those that one kernel reads at any alignment. With an offset, their alignment differs from the
# result's, so that they cannot stream.
_UNLIKE = (2, 5000)

# Lengths between those of other ops' rows, which kernels hold in groups in other ways.
_BETWEEN = (96, 512)

# Rows so narrow that a team holds several of them, and just enough: of each number of 16-byte vectors that has its own
# choice, first those that begin at 16-byte boundaries.
_NARROW_HALVES = ((9, 64), (5, 128), (66, 53), (34, 101), (18, 203), (34, 401))
_NARROW_FLOATS = ((9, 32), (5, 64), (34, 23), (18, 53), (10, 101), (18, 203))
_NARROW = {torch.float16: _NARROW_HALVES, torch.bfloat16: _NARROW_HALVES, torch.float32: _NARROW_FLOATS}

# Rows are read in the same way in all dtypes.
_IN_EVERY_LAYOUT = (torch.float32, torch.bfloat16)

# A product with a huge parameter may overflow before a bias of the other sign is added; one with inf is nan if the
# difference from the mean is exactly 0, which depends on rounding.
_PARAMETER_FILLS: tuple[Fill, ...] = ("normal", "exact", "wide", "zero", "tiny")


def norm_calls(parameters: int) -> Strategy:
    """Calls with rows, and with ``parameters`` tensors of one number per column, each of which may be None."""

    @st.composite
    def calls(draw: st.DrawFn, limits: Limits) -> Call:
        dtype = draw(st.sampled_from(DTYPES))
        # Squares of huge numbers overflow, except in half types, which are computed in a type of wider range.
        small = [fill for fill in ROW_FILLS if fill not in ("huge", "range", "special")]
        fills = ROW_FILLS if dtype == torch.float16 else [*small, "squarable"]
        x = draw(row_tensors(row_shapes(limits), dtypes=[dtype], fills=fills))
        parameter = tensors((x.shape[-1],), dtypes=[dtype], fills=_PARAMETER_FILLS)
        numbers: list[TensorCase | AliasCase | None] = [draw(st.none() | parameter) for _ in range(parameters)]
        if None not in numbers[:2] and parameters > 1 and draw(st.integers(0, 5)) == 5:
            numbers[1] = AliasCase(1, draw(aliases(1)).shift)
        return Call((x, *numbers), {"eps": 0.25} if draw(st.booleans()) else {})

    return calls


def norm_edges(parameters: int) -> tuple[Call, ...]:
    """Calls that reach each kernel of each dtype: with parameters, in every layout, of many rows; and without."""
    some = [call for call in row_edges(1) if call.args[0].layout == "contiguous" or call.dtype in _IN_EVERY_LAYOUT]
    many = tuple(Call((TensorCase((MANY_ROWS, 3), dtype),)) for dtype in DTYPES)
    unlike = tuple(Call((TensorCase(_UNLIKE, dtype, "offset"),)) for dtype in DTYPES if dtype != torch.float64)
    between = tuple(Call((TensorCase((3, n), dtype),)) for n in _BETWEEN for dtype in DTYPES if dtype != torch.float64)
    narrow = tuple(Call((TensorCase(shape, dtype),)) for dtype, shapes in _NARROW.items() for shape in shapes)
    empty = tuple(Call((TensorCase(shape),)) for shape in ((3, 0), (0, 3)))
    without = tuple(Call((*call.args, *[None] * parameters)) for call in some[:3])
    with_parameters = [
        _with_parameters(call, parameters) for call in (*some, *many, *unlike, *between, *narrow, *empty)
    ]
    # Rows of a warp, of a block, and enough rows for blocks to share them, with only one parameter.
    alone = [Call((TensorCase(shape, dtype),)) for shape in ((3, 33), (3, 1025)) for dtype in _IN_EVERY_LAYOUT]
    alone.append(Call((TensorCase((MANY_ROWS, 3), torch.float16),)))
    return (*with_parameters, *without, *(lone for call in alone for lone in _with_one(call, parameters)))


def norm_gpu_edges(
    parameters: int, *, halves: Sequence[tuple[int, int]], floats: Sequence[tuple[int, int]]
) -> tuple[Call, ...]:
    """Calls with all parameters, of these rows and columns: ``halves`` alternately in the half types, ``floats`` in
    float32."""
    places = list(zip(halves, itertools.cycle((torch.float16, torch.bfloat16)), strict=False))
    places += [(shape, torch.float32) for shape in floats]
    return tuple(_with_parameters(Call((TensorCase(shape, dtype),)), parameters) for shape, dtype in places)


def norm_smooth(parameters: int) -> tuple[Call, ...]:
    """Small float64 calls: without parameters, with them, and several dimensions. (The last one is also compiled.)"""
    rows = [
        Call((TensorCase(shape, torch.float64, seed=seed),)) for seed, shape in enumerate(((2, 3), (3,), (1, 2, 4)))
    ]
    every = (_with_parameters(call, parameters) for call in rows[1:])
    return (Call((*rows[0].args, *[None] * parameters)), *_with_one(rows[0], parameters), *every)


def _with_one(call: Call, count: int) -> tuple[Call, ...]:
    """The call with each of the parameters alone, if there are several."""
    x, *numbers = _with_parameters(call, count).args
    alone = [[number if i == place else None for i, number in enumerate(numbers)] for place in range(count)]
    return tuple(Call((x, *given)) for given in alone) if count > 1 else ()


def _with_parameters(call: Call, count: int) -> Call:
    x = call.args[0]
    return Call((x, *(TensorCase(x.shape[-1:], x.dtype, seed=7 + seed) for seed in range(count))))


def norm_special_parameters(parameters: int) -> tuple[Sample, ...]:
    """Parameters with nan and infinities, together with ordinary rows."""
    reason = "nan and inf of a parameter make their own column nan or inf, and no other one"
    return tuple(
        Sample(
            f"special parameters {dtype}".replace("torch.", ""),
            Call(
                (
                    TensorCase((5, 37), dtype),
                    *(TensorCase((37,), dtype, fill="special", seed=s) for s in range(parameters)),
                )
            ),
            reason,
        )
        for dtype in DTYPES
    )


def norm_bad_calls(*parameters: str) -> tuple[BadCall, ...]:
    """Typical invalid calls of a norm whose parameters have these names."""

    def call(**changed: Any) -> Callable[[str], tuple[Sequence[Any], dict[str, Any]]]:
        def make(device: str) -> tuple[Sequence[Any], dict[str, Any]]:
            arguments = {"x": torch.ones(2, 3), **{name: torch.ones(3) for name in parameters}} | changed
            on_device = {k: v.to(device) if isinstance(v, Tensor) else v for k, v in arguments.items()}
            return [on_device["x"]], {name: on_device[name] for name in parameters}

        return make

    def on_cpu(name: str) -> Callable[[str], tuple[Sequence[Any], dict[str, Any]]]:
        return lambda device: ([torch.ones(2, 3, device=device)], {name: torch.ones(3)})

    calls = [
        BadCall("integer dtype", call(x=torch.ones(2, 3, dtype=torch.int64)), ("x", "int64")),
        BadCall("complex dtype", call(x=torch.ones(2, 3, dtype=torch.complex64)), ("x", "complex64")),
        BadCall("not a tensor", call(x="three"), ("x",)),
        BadCall("no dimension", call(x=torch.ones(())), ("x", "dimension")),
    ]
    for name in parameters:
        both = ("x", name)
        calls += [
            BadCall(f"{name} of another length", call(**{name: torch.ones(2)}), (*both, "(3,)", "(2,)")),
            BadCall(f"{name} that would broadcast", call(**{name: torch.ones(1)}), (*both, "(3,)", "(1,)")),
            BadCall(f"{name} with two dimensions", call(**{name: torch.ones(1, 3)}), (*both, "(3,)", "(1, 3)")),
            BadCall(f"{name} as a column", call(**{name: torch.ones(3, 1)}), (*both, "(3,)", "(3, 1)")),
            BadCall(
                f"{name} of the rows",
                call(x=torch.ones(2, 3), **{name: torch.ones(2, 3)}),
                (*both, "(3,)", "(2, 3)"),
            ),
            BadCall(
                f"{name} in another dtype",
                call(**{name: torch.ones(3, dtype=torch.float64)}),
                (*both, "float32", "float64"),
            ),
            BadCall(f"{name} on another device", on_cpu(name), (*both, "cuda", "cpu"), devices=("cuda",)),
        ]
    return tuple(calls)


def norm_scale_invariant() -> Property:
    """Doubling the numbers does not change the result, bit for bit, if eps is 0."""

    def check(function: Callable[..., Tensor], device: str) -> None:
        for dtype in DTYPES:
            x = TensorCase((5, 300), dtype, seed=3).make(device)
            y = function(x, eps=0.0)
            for factor in (4.0, 0.25):
                assert torch.equal(function(factor * x, eps=0.0), y), f"of {factor:g}·x differs in {dtype}"
            assert torch.equal(function(-x, eps=0.0), -y), f"of -x is not that of x, negated, in {dtype}"

    return Property("scale", check, "a norm depends on ratios alone")


def norm_of_ones(parameters: dict[str, float]) -> Property:
    """A parameter that is None equals one of these numbers: the same result and gradient, bit for bit.

    Except gradients on a GPU, where a product with 1 may be fused with a sum and then rounds differently.
    """

    def check(function: Callable[..., Tensor], device: str) -> None:
        for dtype in DTYPES:
            x = TensorCase((5, 300), dtype, seed=4).make(device).requires_grad_()
            outer = TensorCase((5, 300), dtype, seed=5).make(device)
            given = {name: torch.full((300,), value, dtype=dtype, device=device) for name, value in parameters.items()}
            ours, theirs = function(x), function(x, **given)
            assert torch.equal(ours, theirs), f"None differs from {parameters} in {dtype}"
            grad, other = (torch.autograd.grad(y, x, outer)[0] for y in (ours, theirs))
            near = 8 * torch.finfo(dtype).eps if device == "cuda" else 0.0
            assert torch.allclose(grad, other, rtol=near, atol=near), (
                f"the gradient without parameters differs from that with {parameters} in {dtype}"
            )

    return Property("no parameters", check, "a weight of None is one of ones, a bias of None one of zeros")


def norm_many_rows(parameters: Sequence[str], eager: Callable[..., Tensor]) -> Property:
    """Gradients of parameters over 1,003 rows: exact to a few round-offs, and the same bits again."""

    def gradients(function: Callable[..., Tensor], x: Tensor, outer: Tensor) -> tuple[Tensor, ...]:
        numbers = [torch.ones_like(x[0]).requires_grad_() for _ in parameters]
        return torch.autograd.grad(function(x, *numbers), numbers, outer)

    def check(function: Callable[..., Tensor], device: str) -> None:
        for dtype in (torch.float32, torch.bfloat16):
            x = TensorCase((1003, 5), dtype, seed=6).make(device)
            # One number for all rows, so that all additions err on the same side.
            outer = torch.full((), 0.1, dtype=dtype, device=device).expand(x.shape)
            got, again = (gradients(function, x, outer) for _ in range(2))
            want = gradients(eager, x.double(), outer.double())
            assert all(torch.equal(a, b) for a, b in zip(got, again, strict=True)), f"{dtype}: other bits, again"
            for name, grad, exact in zip(parameters, got, want, strict=True):
                # At most 2.5 in magnitude for the five columns, the sum of the terms.
                size = outer.double().abs().sum(0) * (1 if name == "bias" else 2.5)
                units = float(((grad.double() - exact).abs() / size).max()) / (torch.finfo(dtype).eps / 2)
                assert units <= 8, f"gradient of {name} in {dtype}: {units:.3g} unit round-offs, 8 are allowed"

    return Property(
        "many rows",
        check,
        "a sum of many terms loses its last bits, and atomics their order",
        implementations=("port",),
    )


# Rows of each length between which the port chooses on a GPU, those that consist of 16-byte pieces and others, and
# mostly enough rows for several per team. The last ones begin off a 16-byte boundary.
Places = tuple[tuple[tuple[int, int], Layout], ...]
_ONE_PASS: Places = (
    *(((9003, columns), "contiguous") for columns in (24, 64, 96, 128, 200, 400, 1000, 1640)),
    *(((9003, columns), "contiguous") for columns in (23, 53, 99, 171, 301, 501, 999, 1501)),
    ((17_500, 640), "contiguous"),
    *(((600, columns), "contiguous") for columns in (4096, 3001, 8192, 7001, 16_384, 12_289, 15_001, 20_000, 20_001)),
    *(((100, columns), "contiguous") for columns in (40_000, 65_536, 65_537, 100_001, 200_000, 199_999)),
    *(((3, columns), "contiguous") for columns in (24, 33, 20_001, 250_000, 250_001)),
    ((40, 9), "offset"),
)


def norm_one_pass(parameters: Sequence[str], eager: Callable[..., Tensor], *, shapes: Places = _ONE_PASS) -> Property:
    """Results and gradients of rows of all lengths on a GPU, where kernels read each row once, against ``eager`` in
    float64."""

    def passes(function: Callable[..., Tensor], inputs: Sequence[Tensor], outer: Tensor) -> tuple[Tensor, ...]:
        inputs = [x.detach().requires_grad_() for x in inputs]
        result = function(*inputs)
        return result.detach(), *torch.autograd.grad(result, inputs, outer)

    def check_shape(function: Callable[..., Tensor], x: Tensor, outer: Tensor, numbers: Sequence[Tensor]) -> None:
        got, again = (passes(function, (x, *numbers), outer) for _ in range(2))
        exact = passes(eager, [given.double() for given in (x, *numbers)], outer.double())
        where = f"{tuple(x.shape)} {x.dtype}"
        assert all(torch.equal(a, b) for a, b in zip(got, again, strict=True)), f"{where}: other bits, again"
        names = "result", "gradient of x", *(f"gradient of {name}" for name in parameters)
        for name, ours, want in zip(names, got, exact, strict=True):
            # The result and the gradient of x have the size of their terms; the others are sums over all rows.
            size = want.abs() + (want.abs().mean() if want.shape == x.shape else outer.double().abs().sum(0))
            units = float(((ours.double() - want).abs() / size).max()) / (torch.finfo(x.dtype).eps / 2)
            assert units <= 16, f"{where}: {name}: {units:.3g} unit round-offs, 16 are allowed"

    def check(function: Callable[..., Tensor], device: str) -> None:
        generator = torch.Generator(device).manual_seed(1)

        def normal(size: int, dtype: torch.dtype, offset: int = 0) -> Tensor:  # a CPU takes a minute for them all
            return torch.randn(offset + size, generator=generator, device=device).to(dtype)[offset:]

        for dtype in (torch.float32, torch.float16, torch.bfloat16):
            for (rows, columns), layout in shapes:
                offset = int(layout == "offset")
                x, outer = (normal(rows * columns, dtype, offset).view(rows, columns) for _ in range(2))
                check_shape(function, x, outer, [normal(columns, dtype) for _ in parameters])

    return Property(
        "one pass", check, "a row of another length is another kernel's", devices=("cuda",), implementations=("port",)
    )


# Here squares are first summed directly, then as differences from the mean if those cancel.
_FAR: Places = tuple(((100, columns), "contiguous") for columns in (7001, 12_289, 15_001))


def norm_far_from_zero(eager: Callable[..., Tensor], *, shapes: Places = _FAR) -> Property:
    """Rows of half types, of odd lengths, some with means far larger than their deviations, against ``eager`` in
    float64."""

    def check(function: Callable[..., Tensor], device: str) -> None:
        for dtype, shift in ((torch.float16, 1000.0), (torch.bfloat16, 200.0)):
            for shape, layout in shapes:
                x = TensorCase(shape, dtype, layout, seed=8).make(device)
                x[::3] += shift
                exact = eager(x.double())
                units = float(((function(x).double() - exact).abs() / (exact.abs() + 1)).max())
                units /= torch.finfo(dtype).eps / 2
                assert units <= 4, f"{shape} {dtype} + {shift:g}: {units:.3g} unit round-offs, 4 are allowed"

    return Property("far from 0", check, "E[x²] - E[x]² cancels", devices=("cuda",), implementations=("port",))


def norm_benchmarks(op: str, eager: Callable[..., Tensor], parameters: int) -> tuple[Benchmark, ...]:
    """Forward and backward of the norm ``op`` with all its parameters, all of which have gradients."""

    def arguments(device: torch.device, dtype: torch.dtype, case: Case) -> Arguments:
        sizes = [case.sizes, *[case.sizes[-1:]] * parameters]
        return tuple(torch.randn(size, device=device, dtype=dtype) for size in sizes)

    return rows_benchmarks(eager, arguments=arguments, peers=op)
