"""round_ste: what it must satisfy."""

import torch
from torch import Tensor

from trifold.spec import (
    DTYPES,
    NO_GRADIENTS,
    Call,
    Property,
    Sample,
    Spec,
    TensorCase,
    elementwise,
    elementwise_bad_calls,
    elementwise_benchmarks,
    elementwise_edges,
    elementwise_large,
    elementwise_smooth,
)


def _at_the_step(function, device: str) -> None:  # type: ignore[no-untyped-def]
    """At 1/2 itself, and at its two neighbours in each dtype."""
    for dtype in DTYPES:
        half = torch.tensor(0.5, dtype=dtype)
        x = torch.stack([half - torch.finfo(dtype).eps / 4, half, half + torch.finfo(dtype).eps / 2]).to(device)
        got = function(x).tolist()
        assert got == [0.0, 0.0, 1.0], f"{dtype}: just below, at and just above 1/2 gives {got}"


def _step(x: Tensor) -> Tensor:
    return (x > 0.5).to(x.dtype)


spec = Spec(
    calls=elementwise(1),
    smooth=elementwise_smooth(1),
    samples=[
        Sample(
            f"special {dtype}".replace("torch.", ""), Call((TensorCase((37,), dtype, fill="special"),)), "nan gives 0"
        )
        for dtype in DTYPES
    ],
    edges=elementwise_edges(1),
    bad_calls=elementwise_bad_calls("x"),
    properties=[
        Property("ties", _at_the_step, "a tie rounds down; half up or half to even would differ"),
        elementwise_large(1, _step),
    ],
    surrogate="a step has derivative 0; the upstream gradient is passed on as if it were the identity",
    computed_by_torch={"gradient 0": "it is the upstream gradient, which is passed on"},
    rounded_once="0 and 1 are numbers of every dtype",
    benchmarks=elementwise_benchmarks(_step, gradients=NO_GRADIENTS),
)
