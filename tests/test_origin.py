"""What computed a result: cases in which torch adds rightly."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import strategies as st
from torch import Tensor

from tests.drawn_specs import cell_here
from tests.wrong.entry import GALLERY
from trifold.isolation.computed import Computed
from trifold.spec import AliasCase, Call, Spec, TensorCase
from trifold.verification.cell import Cell
from trifold.verification.checks.differentiation import Forward
from trifold.verification.checks.origin import Recorded
from trifold.verification.observations import Observations
from trifold.verification.outcomes import CheckFailed


@pytest.mark.parametrize("twice", [True, False])
def test_a_gradient_may_be_a_multiple_of_a_sum_of_gradients_for_one_tensor_in_two_places(twice: bool) -> None:
    """Of a row of zeros, layer_norm's gradient for the row is a multiple of the upstream gradient, and so is the sum of
    those for weight and bias, if these are one tensor: torch has computed it."""
    row = TensorCase((64,))
    call = Call((row, row, AliasCase(1) if twice else row))
    recorded = _recorded(call, by_torch=0)
    cell = _cell(call)
    if twice:
        recorded.require_written(cell, call)
    else:
        with pytest.raises(CheckFailed, match="gradient 0: torch's add computed these numbers"):
            recorded.require_written(cell, call)


@pytest.mark.parametrize("complete", [True, False])
def test_each_tensor_of_a_list_that_an_op_writes_into_is_written_by_a_kernel(complete: bool) -> None:
    call = Call(([TensorCase((64,), seed=1), TensorCase((8,), seed=2)],))

    def step(params: list[torch.Tensor]) -> None:
        for each in params:
            each += 1

    arguments = call.arguments()
    step(*arguments[0])
    by_kernels = arguments[0][0] if complete else arguments[0][0][:1]
    written = {each.untyped_storage().data_ptr(): torch.ones(4 * 64, dtype=torch.bool) for each in by_kernels}
    copies = [each.clone() for each in arguments[0][0]]  # as results of the call
    recorded = Recorded(arguments, Forward(copies, ()), [], (), Observations(written=written))
    spec = Spec(calls=lambda limits: st.just(call), writes=("params",))
    cell = cell_here(step, step, spec, files=GALLERY.op("add"))
    if complete:
        recorded.require_written(cell, call)
    else:
        with pytest.raises(CheckFailed, match=r"params\[1\]: .*no kernel of the op has written it"):
            recorded.require_written(cell, call)


@pytest.mark.parametrize("skipped", [torch.nan, 1.0])
def test_a_nan_that_an_op_leaves_as_it_is_need_not_be_written(skipped: float) -> None:
    """``if x[i] < 0: x[i] = 0`` writes no nan."""
    call = Call((TensorCase((64,), fill="special", seed=1),))

    def relu_(x: Tensor) -> None:
        x[x < 0] = 0

    arguments = call.arguments()
    x = arguments[0][0]
    negative = x < 0
    relu_(x)
    if skipped == skipped:
        x[~negative & x.isfinite()] += skipped  # by other code than a kernel
    bits = negative.repeat_interleave(4)
    recorded = Recorded(
        arguments, Forward([x.clone()], ()), [], (), Observations(written={x.untyped_storage().data_ptr(): bits})
    )
    cell = cell_here(relu_, relu_, Spec(calls=lambda limits: st.just(call), writes=("x",)), files=GALLERY.op("add"))
    if skipped != skipped:
        recorded.require_written(cell, call)
    else:
        with pytest.raises(
            CheckFailed, match=r"not written last by a kernel of the op, but by torch or by other code$"
        ):
            recorded.require_written(cell, call)


def _recorded(call: Call, *, by_torch: int) -> Recorded:
    """A call whose gradients kernels have written, and one of which has numbers that torch computed as well."""
    arguments = call.arguments()
    grads = tuple(torch.randn(64) for path, _ in call.floating())
    observed = Observations(
        written={grad.untyped_storage().data_ptr(): torch.ones(4 * 64, dtype=torch.bool) for grad in grads},
        copied={grads[by_torch].untyped_storage().data_ptr(): "torch's add"},
    )
    return Recorded(arguments, Forward([], ()), [], grads, observed)


def _cell(call: Call) -> Cell:
    def right(*arguments: torch.Tensor) -> torch.Tensor:
        return sum(arguments, torch.zeros(()))

    spec = Spec(calls=lambda limits: st.just(call), smooth=[call])
    return cell_here(right, right, spec, files=GALLERY.op("add"))


@pytest.mark.parametrize(
    "moved",
    [
        lambda x: x.flatten(),
        lambda x: x.ravel(),
        lambda x: x.view_as(torch.empty(8, 6)),
        lambda x: x.movedim(0, -1),
        lambda x: x.swapaxes(0, 1).unflatten(0, (2, 3)),
        lambda x: x.chunk(2)[1],
        lambda x: x.narrow(1, 2, 4),
    ],
)
def test_what_torch_moves_it_does_not_compute(moved: Callable[[Tensor], Tensor]) -> None:
    """Contiguous or not: some of these copy."""
    drawn = torch.Generator().manual_seed(1)
    for x in (torch.randn(8, 6, generator=drawn), torch.randn(6, 8, generator=drawn).mT):
        with Computed([]) as computed:
            y = moved(x)
        assert computed.source_of(2 * y) == ""
        with Computed([]) as computed:
            y = torch.neg(x)
        assert computed.source_of(2 * y) == "torch's neg"
