"""Ops that take one floating dtype, or only half types: rows that compute in another are not run, all others are."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import strategies as st
from torch import Tensor

from tests.drawn_specs import cell_here
from tests.wrong import few_dtypes
from tests.wrong.entry import Edit, edited_copy, edits
from trifold.spec import Call, Limits, Spec, TensorCase
from trifold.verification.checks.dtypes import in_usual_dtype, taken
from trifold.verification.checks.registration import small_call
from trifold.verification.checks.undrawn import right_or_refused
from trifold.verification.checks.values import compare
from trifold.verification.outcomes import Absence
from trifold.verification.report import Report
from trifold.verification.verify import verify

pytestmark = pytest.mark.usefixtures("quick_builds")

_NO_CLAIM = '\nspec = dataclasses.replace(spec, rounded_once="", gradients_rounded_once="", rounding_error=None)\n'
_OTHER_GRADIENT: tuple[Edit, ...] = edits("header", ("(C(1) - y) * y", "(C(1.02) - y) * y"))


def verified(tmp_path: Path, dtypes: tuple[torch.dtype, ...], *changes: Edit) -> Report:
    """The port of sigmoid for these dtypes alone."""
    scalars = ", ".join(few_dtypes.SCALARS[dtype][1] for dtype in dtypes)
    dispatch = Edit("binding", "trifold::dispatch_floating(", f"trifold::dispatch_dtypes<{scalars}>(", count=2)
    include = Edit("binding", "<trifold/binding.h>", "<trifold/launch_functions.h>")
    workspace = edited_copy("sigmoid", (*changes, dispatch, include), tmp_path)
    calls = [Call((TensorCase((2049,), dtype, seed=3),)) for dtype in dtypes]
    with workspace.op("sigmoid").spec.open("a", encoding="utf-8") as spec:
        spec.write(few_dtypes.only(calls))
        if torch.float16 not in dtypes:  # the claim is of half types
            spec.write(_NO_CLAIM)
    return verify("sigmoid", workspace=workspace, devices=["cpu"], implementations=["port"], examples=20)


@pytest.mark.parametrize(
    ("dtypes", "absent"),
    [
        ((torch.float32,), {"gradcheck": "float64"}),
        ((torch.float16, torch.bfloat16), {"gradcheck": "float64", "gradcheck32": "float32"}),
    ],
    ids=["float32", "half types"],
)
def test_an_op_of_few_dtypes_is_verified(
    dtypes: tuple[torch.dtype, ...], absent: dict[str, str], tmp_path: Path
) -> None:
    (op,) = verified(tmp_path, dtypes).ops
    failed = {row.check: [each.message for each in row.failures] for row in op.rows if row.outcome == "failed"}
    assert failed == {}
    reasons = {row.check: row.reason for row in op.rows if row.reason.startswith(Absence.OTHER_DTYPE)}
    assert reasons == {check: f"{Absence.OTHER_DTYPE}: {dtype}" for check, dtype in absent.items()}


def test_its_wrong_gradient_is_found_in_the_dtype_that_it_takes(tmp_path: Path) -> None:
    (op,) = verified(tmp_path, (torch.float32,), *_OTHER_GRADIENT).ops
    assert {"gradients", "gradcheck32"} <= {row.check for row in op.rows if row.outcome == "failed"}


def test_parameters_in_float32_beside_half_types_stay_so() -> None:
    halves = (torch.float16, torch.bfloat16)
    calls = [Call((TensorCase((3, 4), dtype), TensorCase((4,), torch.float32))) for dtype in halves]

    def scaled(x: Tensor, weight: Tensor) -> Tensor:
        if x.dtype not in halves or weight.dtype != torch.float32:
            raise RuntimeError("scaled: x must be of a half type, and weight float32")
        return (x.float() * weight).to(x.dtype)

    spec = Spec(calls=lambda limits: st.sampled_from(calls), smooth=calls[1:])
    cell = cell_here(scaled, scaled, spec, files="scaled", limits=Limits(100))
    assert taken(cell) == list(halves)
    assert in_usual_dtype(cell, calls[1]) == calls[0]


def test_a_dtype_that_an_op_asserts_is_one_that_it_refuses() -> None:
    def doubled(x: Tensor) -> Tensor:
        assert x.dtype == torch.float32
        return 2 * x

    calls = [Call((TensorCase((5,), torch.float32),))]
    spec = Spec(calls=lambda limits: st.sampled_from(calls), smooth=calls)
    cell = cell_here(doubled, lambda x: 2 * x, spec, files="doubled", limits=Limits(100))
    assert taken(cell) == [torch.float32]
    cell.calls.extend(calls)
    right_or_refused(cell, compare)


def test_torch_compile_is_tried_on_a_call_whose_tensors_have_elements() -> None:
    calls = [Call((TensorCase(shape, torch.float32),)) for shape in ((3,), (4,), (0,))]
    spec = Spec(calls=lambda limits: st.sampled_from(calls), smooth=calls)
    cell = cell_here(torch.abs, torch.abs, spec, files="abs", limits=Limits(100))
    assert small_call(cell) == calls[1]


def test_whether_an_op_takes_a_floating_dtype_is_asked_with_a_floating_tensor() -> None:
    def windows(x: Tensor) -> Tensor:
        if x.dtype not in (torch.float32, torch.int64):
            raise TypeError("windows: x must be float32 or int64")
        return x.unfold(0, 2, 1).clone()

    calls = [Call((TensorCase((5,), dtype),)) for dtype in (torch.float32, torch.int64)]
    spec = Spec(calls=lambda limits: st.sampled_from(calls), smooth=calls)
    cell = cell_here(windows, windows, spec, files="windows", limits=Limits(100), differentiable=False)
    assert taken(cell) == [torch.float32]
