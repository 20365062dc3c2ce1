"""Launch functions that do not check dtypes and dimensions: the binding checks what the spec's calls have."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.draft.test_command import draft
from trifold import load
from trifold.verification.verify import verify
from trifold.workspace import Workspace

PROTOTYPE = '''
"""scale: x times a number for each last dimension."""

import torch
from numba import cuda
from torch import Tensor

from trifold.prototype import launch, output


def reference(x, factors, shift=None):
    y = x * factors if shift is None else x * factors + shift
    return y.contiguous()


@cuda.jit
def scale_kernel(x, factors, y, n, columns):
    i = cuda.grid(1)
    if i < n:
        y[i] = x[i] * factors[i % columns]


@cuda.jit
def shift_kernel(y, shift, n):
    i = cuda.grid(1)
    if i < n:
        y[i] += shift[0]


def scale(x: Tensor, factors: Tensor, shift: Tensor | None = None) -> Tensor:
    if x.dim() == 0:
        raise ValueError("scale: x must have a dimension")
    y = torch.empty_like(x, memory_format=torch.contiguous_format)
    n = x.numel()
    launch(scale_kernel, (n + 255) // 256, x.contiguous().view(-1), factors, output(y.view(-1)), n, factors.shape[0])
    shifts = shift.contiguous() if shift is not None else x.new_zeros(1)
    launch(shift_kernel, (n + 255) // 256, output(y.view(-1)), shifts, n)
    return y


def scale_backward(grad: Tensor, factors: Tensor) -> Tensor:
    grad_x = torch.empty_like(grad, memory_format=torch.contiguous_format)
    n = grad.numel()
    flat = grad.contiguous().view(-1)
    launch(scale_kernel, (n + 255) // 256, flat, factors, output(grad_x.view(-1)), n, factors.shape[0])
    return grad_x
'''

SPEC = '''
"""scale: what it must satisfy."""

import torch
from hypothesis import strategies as st

from trifold.spec import Call, Gradients, Sample, Spec, TensorCase


def _call(shape, dtype, shift=False):
    arguments = [TensorCase(each, dtype, seed=n) for n, each in enumerate((shape, shape[-1:], (1,)))]
    return Call(tuple(arguments if shift else arguments[:2]))


@st.composite
def _calls(draw, limits):
    columns = draw(st.integers(1, 9))
    rows = draw(st.sampled_from(((), (1,), (3,), (2, 4))))
    return _call((*rows, columns), draw(st.sampled_from((torch.float32, torch.float64))), draw(st.booleans()))


spec = Spec(
    calls=_calls,
    samples=[
        Sample("row", _call((5,), torch.float32), "one row"),
        Sample("a shift", _call((3, 4), torch.float64, shift=True), "of all elements"),
    ],
    smooth=[_call((3, 4), torch.float64)],
    gradients=Gradients(arguments=("x",)),
)
'''


def _workspace(root: Path, op: str, prototype: str, spec: str) -> Workspace:
    for folder in ("prototypes", "cuda_src", "ports", "verify"):
        (root / folder).mkdir()
    (root / "prototypes" / f"{op}.py").write_text(prototype.lstrip(), encoding="utf-8")
    (root / "verify" / f"{op}.py").write_text(spec.lstrip(), encoding="utf-8")
    return Workspace.at(root)


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return _workspace(tmp_path, "scale", PROTOTYPE, SPEC)


def _draft(workspace: Workspace) -> subprocess.CompletedProcess[str]:
    return draft(workspace.root, op="scale")


def test_what_is_assumed_is_said_and_checked(workspace: Workspace) -> None:
    said = _draft(workspace)
    assert said.returncode == 0, said.stderr
    begin = "cuda_src/scale.cu: checks, as the prototype does not, what all calls of the spec have: "
    assert [line.removeprefix(begin) for line in said.stdout.splitlines() if line.startswith(begin)] == [
        "scale: x must be float64 or float32, x and factors must have the same dtype, x and shift must have the same "
        "dtype, factors must have 1 dimension, shift must have 1 dimension",
        "scale_backward: grad must be float64 or float32, grad and factors must have the same dtype, factors must have "
        "1 dimension",
    ]
    other = "cuda_src/scale.cu: scale raises RuntimeError, not ValueError: torch's C++ interface has no other"
    assert other in said.stdout.splitlines()
    binding = workspace.files("scale").binding.read_text(encoding="utf-8")
    assert "x must be float64 or float32" in binding
    assert "shift.has_value() ? torch::stable::contiguous(shift.value()) : " in binding


def test_without_a_spec_the_launch_function_must_check(workspace: Workspace) -> None:
    workspace.files("scale").spec.unlink()
    said = _draft(workspace)
    assert said.returncode == 2
    assert "the dtype of the kernel's argument x is not known" in said.stderr


def test_of_a_spec_whose_calls_have_other_parameters_nothing_is_assumed(workspace: Workspace) -> None:
    spec = workspace.files("scale").spec
    spec.write_text(SPEC.replace("arguments[:2]", "arguments[:1] * 4"), encoding="utf-8")
    said = _draft(workspace)
    assert said.returncode == 2
    assert "the dtype of the kernel's argument x is not known" in said.stderr


@pytest.mark.extended
def test_the_draft_computes_what_the_reference_does_and_refuses_other_dtypes(workspace: Workspace) -> None:
    import torch

    assert _draft(workspace).returncode == 0
    checks = ["values", "gradients", "gradcheck"]
    report = verify("scale", workspace=workspace, implementations=["port"], devices=["cpu"], checks=checks)
    assert {row.check: row.outcome for row in report.ops[0].rows} == dict.fromkeys(checks, "passed")
    scale = load("scale", workspace=workspace)
    with pytest.raises(RuntimeError, match=r"scale: x must be float64 or float32, not torch\.float16"):
        scale(torch.ones(3, dtype=torch.float16), torch.ones(3))
    with pytest.raises(RuntimeError, match="scale: factors must have 1 dimension"):
        scale(torch.ones(3), torch.ones(1, 3))


#: Of a forward function for each combination of two dtypes, of which the first check lists one in another order.
GATHERED = '''
"""scale: rows of a table times numbers, added up."""

import torch
from numba import cuda
from torch import Tensor

from trifold.prototype import launch, output


def reference(starts, places, factors, table):
    return table


@cuda.jit
def gathered_kernel(starts, places, factors, table, sums):
    row = cuda.blockIdx.x
    total = table.dtype.type(0)
    for k in range(starts[row], starts[row + 1]):
        total += factors[k] * table[places[k]]
    sums[row] = total


@cuda.jit
def gathered_backward_kernel(grad, starts, places, factors, table, grad_factors):
    row = cuda.blockIdx.x
    for k in range(starts[row], starts[row + 1]):
        grad_factors[k] = grad[row] * table[places[k]]


def scale(starts: Tensor, places: Tensor, factors: Tensor, table: Tensor) -> Tensor:
    if starts.dtype not in (torch.int32, torch.int64) or places.dtype != starts.dtype:
        raise RuntimeError("scale: starts and places")
    if table.dtype not in {torch.float32, torch.float64} or factors.dtype != table.dtype:
        raise RuntimeError("scale: table and factors")
    if not starts.dim() == places.dim() == factors.dim() == table.dim() == 1:
        raise RuntimeError("scale: dimensions")
    sums = table.new_empty(starts.numel() - 1)
    launch(gathered_kernel, starts.numel() - 1, starts, places, factors, table, output(sums), block=1)
    return sums


def scale_backward(grad: Tensor, starts: Tensor, places: Tensor, factors: Tensor, table: Tensor) -> Tensor:
    grad_factors = torch.zeros_like(factors)
    rows = starts.numel() - 1
    launch(gathered_backward_kernel, rows, grad, starts, places, factors, table, output(grad_factors), block=1)
    return grad_factors
'''


def test_backward_is_for_each_combination_of_dtypes_that_forward_is_for(workspace: Workspace) -> None:
    files = workspace.files("scale")
    files.prototype.write_text(GATHERED.lstrip(), encoding="utf-8")
    files.spec.write_text(SPEC.replace("Gradients(arguments=('x',))", "None"), encoding="utf-8")
    said = _draft(workspace)
    assert said.returncode == 0, said.stderr
    for words in (
        "grad must be float64 or float32, starts must be int32 or int64, starts and places must have the same dtype",
        "grad and factors must have the same dtype, grad and table must have the same dtype",
    ):
        assert words in said.stdout
    binding = files.binding.read_text(encoding="utf-8")
    assert binding.count("trifold::dispatch_dtypes<int, int64_t>(starts.scalar_type()") == 2
    assert "trifold::dispatch_dtypes<float, double>(table.scalar_type()" in binding
    assert "trifold::dispatch_dtypes<double, float>(grad.scalar_type()" in binding
    assert "launch<gathered_backward_kernel<T, Starts>>" in binding


CAST = '''
"""cast: x in another dtype, or in its own."""

import torch
from numba import cuda
from torch import Tensor

from trifold.prototype import launch_elementwise, output


def reference(x, out_dtype=None):
    return x.to(out_dtype or x.dtype).contiguous()


@cuda.jit
def cast_kernel(x, y, n):
    i = cuda.grid(1)
    if i < n:
        y[i] = x[i]


def cast(x: Tensor, out_dtype: torch.dtype | None = None) -> Tensor:
    y = torch.empty(x.shape, dtype=out_dtype or x.dtype, device=x.device)
    launch_elementwise(cast_kernel, x.numel(), x.reshape(-1), output(y.view(-1)), x.numel())
    return y
'''

CAST_SPEC = '''
"""cast: what it must satisfy."""

import torch
from hypothesis import strategies as st

from trifold.spec import Call, Spec, TensorCase

DTYPES = (torch.float32, torch.float16)


@st.composite
def _calls(draw, limits):
    return Call((TensorCase((5,), draw(st.sampled_from(DTYPES))), draw(st.sampled_from((None, *DTYPES)))))


spec = Spec(calls=_calls)
'''


def test_dtypes_of_an_argument_that_is_one(tmp_path: Path) -> None:
    workspace = _workspace(tmp_path, "cast", CAST, CAST_SPEC)
    done = draft(tmp_path, op="cast")
    assert done.returncode == 0, done.stderr
    assert "x must be float32 or float16, out_dtype must be float32 or float16" in " ".join(done.stdout.split())
    text = workspace.files("cast").binding.read_text(encoding="utf-8")
    assert "out_dtype.has_value() ? out_dtype.value() : x.scalar_type()" in text
