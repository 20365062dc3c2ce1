"""A backward pass is timed with the gradients that the spec states, of results and arguments of every form."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from trifold.bench import gradients as bench_gradients
from trifold.bench.entrants import Entrant, competitor
from trifold.bench.gradients import with_gradients
from trifold.bench.ops import benchmarks_of
from trifold.bench.peers import Pass
from trifold.bench.run import EVERYTHING, tasks
from trifold.errors import SpecError
from trifold.spec import NO_GRADIENTS, Benchmark, Case, Gradients
from trifold.workspace import OpFiles, Workspace

GALLERY = Workspace.at(Path(__file__).parents[1])
PASSES: tuple[Pass, ...] = ("plain", "forward", "backward", "forward + backward")


def made(function: Any, arguments: Any, which: Pass, *more: Any) -> Any:
    """Return the result of one call of the pass."""
    return competitor(Entrant("mine", function), [arguments], which, *more)()[0]()


def x() -> Tensor:
    return torch.tensor([1.0, 2.0, 3.0])


def two(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    return x * y, x + y


FORMS: dict[str, tuple[Any, Any, Gradients, int]] = {
    "one result": (lambda x: x * x, (x(),), Gradients(), 1),
    "two results": (two, (x(), x()), Gradients(), 2),
    "an integer result": (lambda x: torch.max(x, 0), (x(),), Gradients(), 1),
    "one of two results": (two, (x(), x()), Gradients(results=(1,)), 2),
    "one of two arguments": (two, (x(), x()), Gradients(arguments=("y",)), 1),
    "a table": (lambda x, y: x * y, (x(), x()), Gradients(arguments=("x",)), 1),
    "a list": (lambda x, y: torch.cat(x) + y, ([x(), x()], torch.ones(6)), Gradients(), 3),
    "a list beside a table": (
        lambda x, y: torch.cat(x) + y,
        ([x(), x()], torch.ones(6)),
        Gradients(arguments=("x",)),
        2,
    ),
    "a list of results": (lambda x, y: [x * y, [y, None, 3]], (x(), x()), Gradients(), 2),
    "keywords": (two, {"x": x(), "y": x()}, Gradients(arguments=("y",)), 1),
    "a number": (lambda x, y: x * y, (x(), 2.0), Gradients(), 1),
}


@pytest.mark.parametrize("which", PASSES)
@pytest.mark.parametrize("form", FORMS)
def test_each_form_is_measured(form: str, which: Pass) -> None:
    function, arguments, gradients, count = FORMS[form]
    found = made(function, arguments, which, gradients, ("x", "y"))
    if "backward" in which:
        assert len(found) == count
        assert all(isinstance(gradient, Tensor) for gradient in found)


def test_a_table_requires_no_gradient() -> None:
    """Otherwise autograd would make one that nobody asks for, and be timed with it."""
    result = made(lambda x, y: y * 2, (x(), x()), "forward", Gradients(arguments=("x",)), ("x", "y"))
    assert not result.requires_grad


def test_a_library_that_overwrites_gets_copies_of_lists_too() -> None:
    def overwrites(xs: list[Tensor]) -> Tensor:
        return xs[0].zero_()

    mine = x()
    competitor(Entrant("theirs", overwrites, overwrites=True), [([mine],)], "plain")()[0]()
    assert mine.tolist() == [1.0, 2.0, 3.0]


WRONG = {
    "detached": (lambda x, y: (x * y).detach(), Gradients(), "no result has a gradient"),
    "another result": (lambda x, y: (x * y, x.detach()), Gradients(results=(1,)), "result 1 has no gradient"),
    "too few results": (lambda x, y: x * y, Gradients(results=(0, 1)), "result 1 has no gradient"),
    "an argument unused": (lambda x, y: x * 2, Gradients(), "do not depend on y"),
}


@pytest.mark.parametrize("which", ["backward", "forward + backward"])
@pytest.mark.parametrize("mistake", WRONG)
def test_a_competitor_that_makes_fewer_gradients_is_not_timed(mistake: str, which: Pass) -> None:
    """It would look faster than those that do the whole work."""
    function, gradients, says = WRONG[mistake]
    with pytest.raises(ValueError, match=says):
        made(function, (x(), x()), which, gradients, ("x", "y"))


# ------------------------------------------------------------------------------------------ what the spec states


@dataclass(frozen=True)
class Port:
    differentiable: bool = True

    def function(self, x: Tensor, y: Tensor) -> Tensor:
        return x + y


def benchmark(**more: Any) -> Benchmark:
    case = Case("3", (3,))
    base: dict[str, Any] = {"name": "mine", "cases": (case,), "host": case, "eager": two}
    return Benchmark(**(base | {"arguments": lambda *_: (x(), x()), "bytes": lambda *_: 24} | more))


def stated(monkeypatch: pytest.MonkeyPatch, port: Port | None, spec: Any, **more: Any) -> Benchmark:
    monkeypatch.setattr(bench_gradients, "_port", lambda files: port)
    return with_gradients(OpFiles("op", *(Path("op.py"),) * 5), spec, benchmark(**more))


def test_the_wiring_the_spec_and_the_benchmark_state_them_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    table = SimpleNamespace(gradients=Gradients(arguments=("x",)), writes=())
    silent = SimpleNamespace(gradients=None, writes=())
    assert stated(monkeypatch, Port(), silent).gradients == Gradients()
    assert stated(monkeypatch, Port(False), silent).gradients == NO_GRADIENTS
    assert stated(monkeypatch, Port(), SimpleNamespace(gradients=None, writes=("x",))).gradients == NO_GRADIENTS
    assert stated(monkeypatch, Port(), table).gradients == table.gradients
    assert stated(monkeypatch, Port(), table, gradients=NO_GRADIENTS).gradients == NO_GRADIENTS
    assert stated(monkeypatch, None, silent).gradients == Gradients()  # a port that cannot be loaded fails later


def test_arguments_have_the_names_of_call_or_of_the_op(monkeypatch: pytest.MonkeyPatch) -> None:
    silent = SimpleNamespace(gradients=None, writes=())
    assert stated(monkeypatch, Port(), silent).parameters == ("x", "y")
    named = stated(monkeypatch, Port(), silent, call=lambda function, a, b: function(b, a))
    assert named.parameters == ("a", "b")
    assert stated(monkeypatch, Port(), silent, parameters=("u", "v")).parameters == ("u", "v")


def test_a_gradient_of_what_the_benchmark_does_not_have(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = SimpleNamespace(gradients=Gradients(arguments=("y", "z")), writes=())
    with pytest.raises(SpecError, match="'mine' has no argument z") as caught:
        stated(monkeypatch, Port(), spec)
    assert "x, y" in caught.value.remedy


@pytest.mark.parametrize("which", ["backward", "training"])
def test_a_backward_pass_of_an_op_without_gradient(monkeypatch: pytest.MonkeyPatch, which: str) -> None:
    with pytest.raises(SpecError, match="is of a backward pass, and op has no gradient"):
        stated(monkeypatch, Port(False), SimpleNamespace(gradients=None, writes=()), **{which: True})


def test_the_host_s_time_without_gradient_is_that_of_plain_calls() -> None:
    def methods(of: Benchmark) -> list[str]:
        return [task.method for task in tasks("op", of, "cpu", EVERYTHING) if task.method.startswith("host")]

    assert methods(replace(benchmark(), dtypes=(torch.float32,), gradients=NO_GRADIENTS)) == ["host: no grad"]
    assert len(methods(replace(benchmark(), dtypes=(torch.float32,), gradients=Gradients()))) == 3


@pytest.mark.parametrize(
    ("op", "differentiable"),
    [
        ("rope", True),
        ("topk", True),
        ("argmax", True),
        ("cumsum", True),
        ("quantize_int8", False),
        ("histogram", False),
    ],
)
def test_the_gallery_s_eager_makes_the_gradients_that_its_spec_states(op: str, differentiable: bool) -> None:
    for found in benchmarks_of(GALLERY.op(op)):
        assert found.differentiable == differentiable
        assert found.host is not None or found.backward or found.name != "forward"
        case = replace(found.cases[-1], sizes=(2, 3, 3, 4, 8)) if op == "rope" else found.host
        if differentiable and case is not None:
            arguments = found.arguments(torch.device("cpu"), torch.float32, case)
            gradients = made(found.eager, arguments, "backward", found.gradients, found.parameters)
            assert len(gradients) == (2 if op == "rope" else 1)
