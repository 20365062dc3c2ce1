"""The statements of a wiring: op.define, op.autograd and op.saved, and the errors for wrong ones."""

from __future__ import annotations

import re
import traceback
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.test_wiring import cube, is_direct, library, wired
from trifold.port import Library, Operators, wire

__all__ = ["cube", "library"]


def test_an_operator_is_defined_once(library: Library) -> None:
    def register(op: Operators) -> None:
        op.define("f(Tensor x) -> Tensor", fake=torch.empty_like)
        op.define("f(Tensor x, Tensor y) -> Tensor", fake=torch.empty_like)

    with pytest.raises(ValueError, match="the operator f is defined twice"):
        wired(library, register)


def test_autograd_comes_after_define(library: Library) -> None:
    def register(op: Operators) -> None:
        op.autograd("f", save=lambda x, y: (), backward=lambda ctx, grad: grad)

    with pytest.raises(ValueError, match=re.escape("autograd('f') comes before define('f(...)')")):
        wired(library, register)


@pytest.mark.parametrize("save", [["z"], ["x", "k"], ["outputs"], "x"])
def test_what_is_saved_is_named_as_in_the_schema(library: Library, save: Any) -> None:
    def register(op: Operators) -> None:
        op.define("f(Tensor x, Tensor? y, int k) -> Tensor", fake=lambda x, y, k: torch.empty_like(x))
        op.autograd("f", save=save, backward=lambda ctx, grad: (grad, None, None))

    with pytest.raises(ValueError, match=r"autograd\('f', save=.*\): it is a list of names out of x, y, result, or"):
        wired(library, register)


def test_of_several_outputs_none_is_named_result(library: Library) -> None:
    def register(op: Operators) -> None:
        op.define("f(Tensor x) -> (Tensor, Tensor)", fake=lambda x: (torch.empty_like(x), torch.empty_like(x)))
        op.autograd("f", save=["result"], backward=lambda ctx, up, down: up + down)

    with pytest.raises(ValueError, match=re.escape("it is a list of names out of x, result[0], result[1], or a")):
        wired(library, register)


@pytest.mark.parametrize("names", [["result"], ["x"], ["result", "x"], ["x", "y", "result"], []])
def test_named_tensors_come_back_in_order(library: Library, names: list[str]) -> None:
    kept: list[list[float]] = []

    def register(op: Operators) -> None:
        op.define("total(Tensor x, Tensor y) -> Tensor", fake=lambda x, y: torch.empty_like(x))
        op.autograd("total", save=names, backward=backward)

    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        kept.append([saved.item() for saved in ctx.saved_tensors])
        return grad, grad

    op = wired(library, register, total=lambda x, y: x + y)
    x, y = torch.tensor([1.0], requires_grad=True), torch.tensor([2.0], requires_grad=True)
    op.total(x, y).backward()
    op.overload("total")(x, y).backward()
    torch.func.grad(lambda x: op.total(x, y).sum())(x)
    values = {"x": 1.0, "y": 2.0, "result": 3.0}
    assert kept == [[values[name] for name in names]] * 3


def test_arguments_have_the_names_and_defaults_of_the_schema(library: Library) -> None:
    def register(op: Operators) -> None:
        op.define("power(Tensor run, int ctx=2, float self=1.5) -> Tensor", fake=lambda x, k, s: torch.empty_like(x))
        op.autograd("power", save=["run"], backward=lambda ctx, grad: (grad * ctx.saved_tensors[0], None, None))

    op = wired(library, register, power=lambda x, k=2, s=1.5: s * x**k)
    x = torch.tensor([3.0], requires_grad=True)
    assert op.power(x.detach()).tolist() == [13.5]
    assert op.power(x.detach(), self=2.0).tolist() == [18.0]
    assert torch.autograd.grad(op.power(x, 1), x)[0].tolist() == [3.0]
    with pytest.raises((TypeError, RuntimeError), match=r"power\(\) .*missing .*argument:? '?run'?"):
        op.power()


def test_a_traceback_shows_the_text_of_a_function_written_for_an_operator(library: Library) -> None:
    def register(op: Operators) -> None:
        op.define("twice(Tensor x) -> Tensor", fake=torch.empty_like)
        op.autograd("twice", save=["x"], backward=lambda ctx, grad: 2 * grad)

    def fails(x: Tensor) -> Tensor:
        raise RuntimeError("no such thing")

    if not is_direct(library):
        pytest.skip("none is written")
    op = wired(library, register, twice=fails)
    with pytest.raises(RuntimeError, match="no such thing") as error:
        op.twice(torch.ones(1))
    assert "_output = _run(x)" in "".join(traceback.format_exception(error.value))


@pytest.mark.parametrize("left_out", [(), (1,)])
@pytest.mark.parametrize("names", [["result[1]"], ["x", "y", "result[1]"], ["result[0]", "x"], []])
def test_named_tensors_of_several_outputs_and_none_come_back_in_order(
    library: Library, names: list[str], left_out: tuple[int, ...]
) -> None:
    kept: list[list[float | None]] = []

    def register(op: Operators) -> None:
        fake = lambda x, y: (torch.empty_like(x), torch.empty_like(x))  # noqa: E731
        op.define("pair(Tensor x, Tensor? y) -> (Tensor, Tensor)", fake=fake)
        op.autograd("pair", save=names, backward=backward, no_gradient=left_out)

    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        kept.append([None if saved is None else saved.item() for saved in ctx.saved_tensors])
        return grads[0], None

    op = wired(library, register, pair=lambda x, y: (x + 1, x + 2))
    x = torch.tensor([1.0], requires_grad=True)

    def first(outputs: Any) -> Tensor:
        output: Tensor = outputs if isinstance(outputs, Tensor) else outputs[0]
        return output

    first(op.pair(x, None)).backward()
    first(op.overload("pair")(x, None)).backward()
    torch.func.grad(lambda x: first(op.pair(x, None)).sum())(x)
    values = {"x": 1.0, "y": None, "result[0]": 2.0, "result[1]": 3.0}
    assert kept == [[values[name] for name in names]] * 3


@pytest.mark.parametrize("schema", ["f(Tensor x)", "f(Tensr x) -> Tensor", "f -> Tensor", "", "f(Tensor x) -> "])
def test_a_text_that_is_no_schema_is_quoted(library: Library, schema: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f"'{schema}' is not a schema")):
        wired(library, lambda op: op.define(schema, fake=torch.empty_like))


def test_an_operator_that_is_not_defined_is_named(cube: Operators) -> None:
    with pytest.raises(AttributeError, match="the operator sphere is not defined; defined are: cube, cube_backward"):
        cube.sphere(torch.ones(1))


def test_a_port_that_is_imported_says_how_it_is_loaded() -> None:
    with pytest.raises(RuntimeError, match=re.escape('trifold.load("<op>")')):
        wire("ports.not_loaded_through_a_workspace", lambda op: None)
