"""cross_entropy: what it must satisfy."""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from hypothesis import strategies as st
from torch import Tensor

from trifold.spec import (
    DTYPES,
    LONG_ROWS,
    ROW_FILLS,
    BadCall,
    Call,
    Case,
    IndexCase,
    Limits,
    Property,
    Sample,
    Spec,
    TensorCase,
    places,
    row_large,
    row_large_backward,
    row_long,
    row_nan,
    row_shapes,
    row_specials,
    row_tensors,
    rows_benchmarks,
)
from trifold.spec.case import Layout
from trifold.spec.fills import Fill

_REDUCTIONS = ("none", "mean", "sum")
_SUMMABLE = (*(fill for fill in ROW_FILLS if fill not in ("huge", "range", "special")), "squarable")
_TARGET_LAYOUTS: tuple[Layout, ...] = ("contiguous", "offset", "sliced", "expanded")


@st.composite
def _calls(draw: st.DrawFn, limits: Limits) -> Call:
    smoothing = draw(st.sampled_from((0.0, 0.0, 0.1, 1.0)))
    # The sum of a row's differences from the largest number overflows, unless in a type of wider range.
    dtype = draw(st.sampled_from(DTYPES))
    fills = ROW_FILLS if smoothing == 0 or dtype == torch.float16 else _SUMMABLE
    logits = draw(row_tensors(row_shapes(limits, least=1, max_dims=2), dtypes=[dtype], fills=fills))
    classes = logits.shape[-1]
    ignored = draw(st.sampled_from((None, -100, 0, 2**32 + 1)))
    kwargs: dict[str, Any] = {"reduction": draw(st.sampled_from(_REDUCTIONS))}
    if ignored not in (None, -100):
        kwargs["ignore_index"] = ignored
    if smoothing:
        kwargs["label_smoothing"] = smoothing
    layout = draw(st.sampled_from(_TARGET_LAYOUTS))
    offset, dim = draw(places(logits.shape[:-1], layout))
    target = IndexCase(logits.shape[:-1], classes, ignored, layout, draw(st.integers(0, 2**16)), offset, dim)
    return Call((logits, target), kwargs)


def _call(
    shape: tuple[int, ...],
    dtype: torch.dtype = torch.float64,
    fill: Fill = "normal",
    layout: Layout = "contiguous",
    instead: int | None = None,
    **kwargs: Any,
) -> Call:
    return Call((TensorCase(shape, dtype, layout, fill, 1), IndexCase(shape[:-1], shape[-1], instead, seed=2)), kwargs)


_SAMPLES: tuple[tuple[str, Callable[[torch.dtype], Call], str], ...] = (
    (
        "huge",
        lambda dtype: _call((5, 37), dtype, "huge", reduction="none"),
        "exp overflows where the maximum is not subtracted",
    ),
    (
        "negative",
        # All 40 numbers are one, and that of this seed is negative.
        lambda dtype: Call((TensorCase((40,), dtype, "expanded", "huge"), IndexCase((), 40))),
        "exp of numbers below -745 is 0, unless the maximum, which is negative too, is subtracted",
    ),
    (
        "masked",
        lambda dtype: _call((9, 37), dtype, "masked", reduction="none"),
        "0 · -inf is nan where the smoothing is 0",
    ),
    (
        "special",
        lambda dtype: _call((16, 3), dtype, "squarable", reduction="none", label_smoothing=0.1),
        "nan and inf make only their own row nan",
    ),
    (
        "ignored",
        lambda dtype: _call((16, 5), dtype, instead=-100, label_smoothing=0.3),
        "the mean is one over the rows that count",
    ),
    (
        "class ignored",
        lambda dtype: _call((16, 5), dtype, ignore_index=3, reduction="sum"),
        "a class that is ignored is a right index, too",
    ),
    (
        "all ignored",
        lambda dtype: Call((TensorCase((3, 5), dtype), IndexCase((3,), 1)), {"ignore_index": 0}),
        "a mean of nothing is nan",
    ),
)


def _terms(reference: Callable[..., Tensor], kwargs: dict[str, Any], *of: Tensor) -> Tensor:
    return reference(*of, **(kwargs | {"reduction": "none"}))


def _reduced(terms: Tensor, target: Tensor, reduction: str = "mean", ignore_index: int = -100, **_: Any) -> Tensor:
    """The sum of the terms of the rows that count; for the mean, divided by their number."""
    if reduction == "none":
        return terms
    counted = int((target != ignore_index).sum())
    return terms.sum() / (max(counted, 1) if reduction == "mean" else 1)


def _scale(reference: Callable[..., Tensor], logits: Tensor, target: Tensor, **kwargs: Any) -> Tensor:
    """The loss itself: it has no negative term."""
    return _reduced(_terms(reference, kwargs, logits, target), target, **kwargs)


def _working_scale(reference: Callable[..., Tensor], logits: Tensor, target: Tensor, **kwargs: Any) -> Tensor:
    """1 + the loss of each row: the logarithm of a rounded sum is off by a round-off, however small it is. With many
    rows each thread adds several, and each addition may round."""
    of_row = 1 + _terms(reference, kwargs, logits, target)
    return _reduced(of_row, target, **kwargs) * (1 + target.numel() / 2**14)


def _smoothed(logits: Tensor, target: Tensor, label_smoothing: float = 0.0, **_: Any) -> Tensor:
    """q: the target distribution."""
    classes = logits.shape[-1]
    return label_smoothing / classes + (1 - label_smoothing) * F.one_hot(target.clamp(0, classes - 1), classes)


def _fill_of(columns: int, dtype: torch.dtype) -> Fill:
    """In float16 most of so many probabilities are subnormal; gradients then have few bits, and need only be finite."""
    return "wide" if dtype == torch.float16 and columns in LONG_ROWS else "normal"


def _gradient_scale(
    reference: Callable[..., Tensor], grad: Tensor, logits: Tensor, target: Tensor, **kwargs: Any
) -> Tensor:
    """|d loss|·(p + q): what is rounded before p - q cancels."""
    p = torch.softmax(logits, -1)
    return (p + _smoothed(logits, target, **kwargs)) * _of_rows(grad, target, **kwargs)


def _gradient_working_scale(
    reference: Callable[..., Tensor], grad: Tensor, logits: Tensor, target: Tensor, **kwargs: Any
) -> Tensor:
    """|d loss|·p·(1 + |log p|): exp of a difference is off by as many round-offs as its magnitude, and by one more."""
    log_p = torch.log_softmax(logits, -1)
    return log_p.exp() * (1 + log_p.abs()) * _of_rows(grad, target, **kwargs)


def _of_rows(grad: Tensor, target: Tensor, reduction: str = "mean", ignore_index: int = -100, **_: Any) -> Tensor:
    """|d loss| of each row."""
    counted = (target != ignore_index).sum().clamp(min=1) if reduction == "mean" else 1
    return (grad.abs().expand(target.shape) / counted).unsqueeze(-1)


def _softmax_and_nll(function: Callable[..., Tensor], device: str) -> None:
    """-log softmax(x)[target], if no probability is so small that its logarithm is inaccurate."""
    for dtype in (torch.float32, torch.float64):
        logits = TensorCase((50, 100), dtype, seed=1).make(device)
        target = IndexCase((50,), 100, seed=2).make(device)
        expected = F.nll_loss(torch.softmax(logits, -1).log(), target, reduction="none")
        got = function(logits, target, reduction="none")
        torch.testing.assert_close(got, expected, rtol=16 * torch.finfo(dtype).eps, atol=0)
        torch.testing.assert_close(function(logits, target), got.mean(), rtol=8 * torch.finfo(dtype).eps, atol=0)


def _gradients_sum_to_zero(function: Callable[..., Tensor], device: str) -> None:
    """Sums to 0 along each row, since a shift of the row changes nothing."""
    target = IndexCase((7,), 300, seed=4).make(device)
    for dtype in (torch.float32, torch.float64):
        logits = TensorCase((7, 300), dtype, seed=3).make(device).requires_grad_()
        for smoothing in (0.0, 0.2):
            (grad,) = torch.autograd.grad(function(logits, target, label_smoothing=smoothing), logits)
            off = float((grad.sum(-1).abs() / grad.abs().sum(-1)).max())
            assert off <= 8 * torch.finfo(dtype).eps, f"gradients in {dtype} sum to {off:.3g} of their size"


# The first is replaced by the number of classes. The lower 32 bits of the others are valid classes.
_UNKNOWN = (0, -1, 2**32, 2**32 + 1, 1 - 2**32, 2**33 + 2, 2**63 - 1, -(2**63))


def _unknown_classes(function: Callable[..., Tensor], device: str) -> None:
    """A row with a class out of range has nan loss and gradient; the other rows are unchanged."""
    for classes in (6, 5000):
        logits = TensorCase((len(_UNKNOWN) + 2, classes), seed=5).make(device).requires_grad_()
        target = torch.tensor([1, *_UNKNOWN, 2], device=device)
        target[1] = classes
        losses = function(logits, target, reduction="none")
        (grad,) = torch.autograd.grad(losses, logits, torch.ones_like(losses))
        unknown = [bool(target_of_row) for target_of_row in (target < 0) | (target >= classes)]
        assert losses.isnan().tolist() == unknown, f"losses of the classes {target.tolist()} of {classes} are {losses}"
        assert grad.isnan().all(1).tolist() == unknown, f"the gradient is {grad}"
        assert not bool(grad[[0, -1]].isnan().any()), f"the gradient is {grad}"
        assert math.isnan(function(logits.detach(), target)), "a mean with an unknown class is a number"


def _ignored_beyond_32_bits(function: Callable[..., Tensor], device: str) -> None:
    """A class is ignored only if all 64 bits equal ignore_index; otherwise it counts, or is out of range."""
    far = 2**32 + 1
    logits = TensorCase((4, 6), seed=5).make(device).requires_grad_()
    target = torch.tensor([1, far, 2, far], device=device)
    losses = function(logits, target, ignore_index=far, reduction="none")
    alone = function(logits[::2].detach(), target[::2], reduction="none")
    assert torch.equal(losses[::2], alone), f"losses next to ignored rows are {losses}, without them {alone}"
    assert not bool(losses[1::2].any()), f"losses of ignored rows are {losses}"
    (grad,) = torch.autograd.grad(losses.sum(), logits)
    assert not bool(grad[1::2].any()), f"the gradient of ignored rows is {grad}"
    mean = function(logits, target, ignore_index=far)
    torch.testing.assert_close(mean.detach(), alone.mean(), rtol=1e-6, atol=0)
    for near in (-100 + 2**32, -100 - 2**32):
        unknown = function(logits, torch.tensor([1, near, 2, -100], device=device), reduction="none")
        assert unknown.isnan().tolist() == [False, True, False, False], f"the loss of class {near} is {unknown}"


def _nothing_counts(function: Callable[..., Tensor], device: str) -> None:
    """If all rows are ignored, the mean is nan, the sum 0, and gradients are 0: also if logits are nan."""
    logits = torch.tensor([[1.0, math.nan, math.inf], [0.0, 1.0, 2.0]], device=device, requires_grad=True)
    target = torch.tensor([-100, -100], device=device)
    for reduction, expected in (("mean", math.nan), ("sum", 0.0)):
        loss = function(logits, target, reduction=reduction)
        (grad,) = torch.autograd.grad(loss, logits)
        assert float(loss) == expected or math.isnan(loss) == math.isnan(expected), f"the {reduction} is {float(loss)}"
        assert not bool(grad.any()), f"the gradient of the {reduction} is {grad}"


def _losses_alone(function: Callable[..., Tensor], device: str) -> None:
    """The same bits as with a gradient, also for rows so long that another kernel computes them."""
    shapes = [(2, 8200), (2, 8201)]
    if device == "cuda":  # a few, processed by clusters, and as many as need no clusters
        shapes += [(rows, 30_000 + odd) for rows in (2, 1000) for odd in (0, 1)]
        shapes += [(300, n + odd) for n in (140_000, 270_000) for odd in (0, 1)]
    for (rows, columns), dtype in itertools.product(shapes, (torch.float32, torch.float16, torch.bfloat16)):
        logits = torch.randn(1, columns, generator=torch.Generator().manual_seed(8)).to(device, dtype)
        logits = logits.repeat(rows, 1) + torch.arange(rows, device=device).unsqueeze(1).to(dtype) / 64
        target = torch.arange(rows, device=device)
        for options in ({"reduction": "none"}, {"label_smoothing": 0.1}):
            alone = function(logits, target, **options)
            with_gradient = function(logits.detach().requires_grad_(), target, **options).detach()
            assert torch.equal(alone, with_gradient), f"losses of {columns} columns of {dtype} differ with {options}"


def _backward_again(function: Callable[..., Tensor], device: str) -> None:
    """Backward does not change what it saved: a second call returns the same gradient, scaled."""
    logits = TensorCase((3, 5), torch.float64, seed=6).make(device).requires_grad_()
    loss = function(logits, IndexCase((3,), 5, seed=7).make(device))
    (once,) = torch.autograd.grad(loss, logits, retain_graph=True)
    (twice,) = torch.autograd.grad(2 * loss, logits)
    assert torch.equal(2 * once, twice), "a second backward gives another gradient"


def _gradients_of_1(function: Callable[..., Tensor], device: str) -> None:
    """Rows with an upstream gradient of 1 may keep the saved gradient; other rows may not."""
    logits = TensorCase((4, 40), torch.float32, seed=8).make(device).requires_grad_()
    target = IndexCase((4,), 40, seed=9).make(device)
    for weights in ([1.0, 1.0, 1.0, 1.0], [1.0, 2.0, 0.0, 1.0], [-1.0, 1.0, 0.5, math.inf]):
        weight = torch.tensor(weights, device=device)
        losses = function(logits, target, reduction="none")
        (anew,) = torch.autograd.grad(losses, logits, weight, retain_graph=True)
        (in_place,) = torch.autograd.grad(losses, logits, weight)
        assert torch.equal(anew, in_place), f"upstream gradients {weights} give {anew}, and in place {in_place}"


def _bad_call(
    name: str, mentions: tuple[str, ...], devices: tuple[str, ...] = ("cpu", "cuda"), **changed: Any
) -> BadCall:
    def make(device: str) -> tuple[Sequence[Any], dict[str, Any]]:
        tensors = {"logits": torch.zeros(3, 5), "target": torch.zeros(3, dtype=torch.int64)}
        arguments = [changed.get(name, tensor) for name, tensor in tensors.items()]
        options = {name: value for name, value in changed.items() if name not in tensors}
        return [x.to(device) if isinstance(x, Tensor) else x for x in arguments], options

    return BadCall(name, make, mentions, devices)


def _of_first_class(function: Callable[..., Tensor], logits: Tensor) -> Tensor:
    return function(logits, torch.zeros(logits.shape[0], dtype=torch.int64, device=logits.device), reduction="none")


def _mean_of_first_class(function: Callable[..., Tensor], logits: Tensor) -> Tensor:
    return function(logits, torch.zeros(logits.shape[0], dtype=torch.int64, device=logits.device))


def _benchmark_arguments(device: torch.device, dtype: torch.dtype, case: Case) -> tuple[Tensor, Tensor]:
    rows, columns = case.sizes
    logits = torch.randn(rows, columns, device=device, dtype=dtype)
    return logits, torch.randint(columns, (rows,), device=device)


spec = Spec(
    calls=_calls,
    smooth=[
        _call((3, 4), reduction="none"),
        _call((5,), reduction="sum"),
        # Of the seed's targets some are ignored, but not the third, and not all.
        _call((2, 4), instead=-100, label_smoothing=0.1),
    ],
    samples=[
        Sample(f"{name} {dtype}".replace("torch.", ""), make(dtype), reason)
        for name, make, reason in _SAMPLES
        for dtype in DTYPES
    ]
    + [
        Sample(
            "many rows",
            _call((300, 2), torch.bfloat16, "zero", reduction="sum"),
            "a sum in bfloat16 stops growing after 256 equal terms",
        ),
        Sample(
            "many classes",
            # 270 terms per thread, many of them small: with fewer, the errors of 256 threads cancel in the sum of all.
            _call((1, 70_001), torch.bfloat16, "exact", reduction="none"),
            "a sum in bfloat16 loses each term that is small compared to it",
        ),
    ],
    edges=[
        call
        for dtype in DTYPES
        for call in (
            _call((3, 1), dtype),
            _call((3, 33), dtype, reduction="none"),
            _call((2, 1025), dtype, reduction="sum", label_smoothing=0.1),
            *(
                _call((2, columns), dtype, _fill_of(columns, dtype), reduction=reduction)
                for columns in (64, 1024, 1025, *LONG_ROWS)
                for reduction in ("none", "mean")
            ),
            _call((4,), dtype, label_smoothing=0.1),
            _call((3, 8), dtype, layout="padded"),
            _call((3, 8), dtype, layout="transposed", reduction="none"),
            _call((3, 9), dtype, layout="offset"),
            _call((0, 4), dtype),
            _call((0, 4), dtype, reduction="none"),
        )
    ]
    + [Call((x, IndexCase(x.shape[:-1], x.shape[-1], seed=2)), {"reduction": "none"}) for x in row_specials()]
    # Of this seed's classes some are a row's last column, the one after its last 16-byte boundary.
    + [Call((TensorCase((37, 257), torch.float32), IndexCase((37,), 257, seed=7701)), {"reduction": "none"})],
    # Rows that no block holds, whole and ragged; enough of them that losses alone are computed without clusters.
    gpu_edges=[
        _call((5, 16_392), torch.float16, reduction="none"),
        _call((5, 16_392), torch.bfloat16),
        _call((5, 16_401), torch.bfloat16, reduction="none"),
        _call((5, 16_401), torch.float16),
        *(_call((9, columns), torch.float32, label_smoothing=0.1) for columns in (4100, 4101)),
    ],
    bad_calls=[
        _bad_call("integer logits", ("logits", "int64"), logits=torch.zeros(3, 5, dtype=torch.int64)),
        _bad_call("not a tensor", ("logits",), logits="three"),
        _bad_call("probabilities as target", ("target", "int64", "float32"), target=torch.zeros(3, 5)),
        _bad_call("int32 target", ("target", "int64", "int32"), target=torch.zeros(3, dtype=torch.int32)),
        _bad_call("another number of rows", ("logits", "target", "(3, 5)", "(4,)"), target=torch.zeros(4).long()),
        _bad_call("target in a row", ("logits", "target", "(3, 5)", "(1, 3)"), target=torch.zeros(1, 3).long()),
        _bad_call("target in a column", ("logits", "target", "(3, 5)", "(3, 1)"), target=torch.zeros(3, 1).long()),
        _bad_call("transposed logits", ("logits", "target", "(5, 3)", "(3,)"), logits=torch.zeros(5, 3)),
        _bad_call(
            "a target of one row",
            ("logits", "target", "(5,)", "(1,)"),
            logits=torch.zeros(5),
            target=torch.zeros(1).long(),
        ),
        _bad_call(
            "classes not last", ("(3, 5, 2)", "last"), logits=torch.zeros(3, 5, 2), target=torch.zeros(3, 2).long()
        ),
        _bad_call("no class", ("logits", "(3, 0)"), logits=torch.zeros(3, 0)),
        _bad_call("no dimension", ("logits", "()"), logits=torch.zeros(()), target=torch.zeros(()).long()),
        _bad_call("another reduction", ("reduction", "'median'"), reduction="median"),
        _bad_call("too much smoothing", ("label_smoothing", "1.5"), label_smoothing=1.5),
        _bad_call("negative smoothing", ("label_smoothing", "-0.1"), label_smoothing=-0.1),
        BadCall(
            "another device",
            lambda device: ([torch.zeros(3, 5, device=device), torch.zeros(3, dtype=torch.int64)], {}),
            ("logits", "target", "cuda", "cpu"),
            devices=("cuda",),
        ),
    ],
    properties=[
        Property("softmax and nll", _softmax_and_nll, "it is what the name says"),
        Property("gradient sum", _gradients_sum_to_zero, "cross_entropy depends on differences of logits alone"),
        Property("unknown class", _unknown_classes, "a wrong index must not read elsewhere, nor pass in silence"),
        Property("ignored beyond 32 bits", _ignored_beyond_32_bits, "indices are 64 bits wide"),
        Property("nothing counts", _nothing_counts, "a batch of padding alone must not spoil a sum of gradients"),
        Property(
            "losses alone",
            _losses_alone,
            "evaluation says the same as training",
            implementations=("port",),
        ),
        Property("backward again", _backward_again, "the gradient of the forward pass is kept, not used up"),
        Property("gradient of 1", _gradients_of_1, "backward writes over what was kept, where it must change"),
        row_long(1, F.cross_entropy, multiple=16, call=_of_first_class),
        row_long(1, F.cross_entropy, multiple=16, call=_mean_of_first_class, name="long row, mean"),
        row_large(1, F.cross_entropy, call=_of_first_class),
        row_large_backward(1, F.cross_entropy, call=_of_first_class),
        row_nan(F.cross_entropy, call=_of_first_class),
    ],
    scale=_scale,
    working_scale=_working_scale,
    gradient_scale=_gradient_scale,
    gradient_working_scale=_gradient_working_scale,
    # Not the gradient: that of a row's loss is rounded in the forward pass, and its product with the upstream gradient
    # in backward.
    rounded_once="ports/cross_entropy.py: half types are computed and added up in float32",
    # On a GPU exp and the reciprocal are accurate to 16 round-offs (cuda_src/rows/scaled_exp.cuh), sums to a few.
    rounding_error=lambda reference, *args, **kwargs: 64 * _working_scale(reference, *args, **kwargs),
    finite_gradients="a row that is ignored has gradient 0, also where its logits are nan or inf",
    zero_signs="a loss of 0 is here log 1 - 0, and in torch -(0 - log 1), which is -0",
    benchmarks=rows_benchmarks(
        F.cross_entropy,
        arguments=_benchmark_arguments,
        moves=1,
        training_moves=2,
        peers="cross_entropy",
        cases=(Case("8192 × 32000", (8192, 32_000)), Case("4096 × 131072", (4096, 131_072))),
    ),
)
