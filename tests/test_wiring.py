"""Calls of a tiny op with Python kernels through each entry point, and the schemas that a wiring parses."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import trifold
from trifold.port import Library, Operators, Schema, wire
from trifold.port.wiring import bind

_numbers = itertools.count()


@pytest.fixture(params=["public", "direct"])
def library(request: pytest.FixtureRequest) -> Iterator[Library]:
    """A torch library of the test's own, for each way to wire."""
    namespace = f"trifold_test_{request.param}_wiring_{next(_numbers)}"
    registry = torch.library.Library(namespace, "DEF")
    yield Library(namespace, registry)
    registry._destroy()


def is_direct(library: Library) -> bool:
    return "_direct_" in library.namespace


def wired(library: Library, register: Callable[[Operators], None], **kernels: Callable[..., Any]) -> Operators:
    bind(library.namespace, library)
    op = wire(library.namespace, register, direct=is_direct(library))
    for name, kernel in kernels.items():
        library.registry.impl(name, kernel, "CPU")
    return op


@pytest.fixture
def cube(library: Library) -> Operators:
    """``cube(x) = x³``, whose backward is an operator without a gradient."""
    return _cube(library, smooth=False)


@pytest.fixture
def smooth_cube(library: Library) -> Operators:
    """:func:`cube` with second derivatives."""
    return _cube(library, smooth=True)


def _cube(library: Library, *, smooth: bool) -> Operators:
    def register(op: Operators) -> None:
        op.define("cube(Tensor x) -> Tensor", fake=torch.empty_like)
        op.define("cube_backward(Tensor grad, Tensor x) -> Tensor", fake=lambda grad, x: torch.empty_like(x))
        op.autograd("cube", save=["x"], backward=lambda ctx, grad: op.cube_backward(grad, *ctx.saved_tensors))
        if smooth:
            op.autograd("cube_backward", save=["grad", "x"], backward=backward_of_backward)

    def backward_of_backward(ctx: Any, outer: Tensor) -> tuple[Tensor, Tensor]:
        grad, x = ctx.saved_tensors
        return outer * 3 * x**2, outer * grad * 6 * x

    return wired(library, register, cube=lambda x: x**3, cube_backward=lambda grad, x: grad * 3 * x**2)


# ----------------------------------------------------------------------------------------------------------- calls


def _public(cube: Operators) -> Callable[[Tensor], Tensor]:
    def function(x: Tensor) -> Tensor:
        y: Tensor = cube.cube(x)
        return y

    return function


WAYS: dict[str, Callable[[Operators], Callable[[Tensor], Tensor]]] = {
    "public function": _public,
    "torch.ops": lambda cube: cube.overload("cube"),
    "packet in torch.ops": lambda cube: getattr(torch.ops, cube.library.namespace).cube,
    "compiled": lambda cube: torch.compile(_public(cube), fullgraph=True, backend="aot_eager"),
}


@pytest.mark.parametrize("way", WAYS)
def test_value_and_gradient_by_every_way(cube: Operators, way: str) -> None:
    torch._dynamo.reset()
    x = torch.tensor([1.0, -2.0], requires_grad=True)
    y = WAYS[way](cube)(x)
    assert y.requires_grad
    (grad,) = torch.autograd.grad(y.sum(), x)
    assert y.tolist() == [1, -8]
    assert grad.tolist() == [3, 12]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_without_grad_no_graph_is_recorded(cube: Operators, way: str, mode: Callable[[], Any]) -> None:
    torch._dynamo.reset()
    x = torch.tensor([2.0], requires_grad=True)
    with mode():
        y = WAYS[way](cube)(x)
    assert y.tolist() == [8]
    assert not y.requires_grad


@pytest.mark.parametrize("way", WAYS)
def test_an_argument_that_needs_no_gradient_records_none(cube: Operators, way: str) -> None:
    torch._dynamo.reset()
    y = WAYS[way](cube)(torch.tensor([2.0]))
    assert not y.requires_grad
    assert y.grad_fn is None


X = torch.tensor([1.0, -2.0])
TRANSFORMS: dict[str, tuple[Callable[[Callable[[Tensor], Tensor]], Tensor], list[Any]]] = {
    "grad": (lambda f: torch.func.grad(lambda x: f(x).sum())(X), [3, 12]),
    "grad of grad": (lambda f: torch.func.grad(lambda x: torch.func.grad(lambda x: f(x).sum())(x).sum())(X), [6, -12]),
    "vjp": (lambda f: torch.func.vjp(f, X)[1](torch.ones(2))[0], [3, 12]),
    "jacrev": (lambda f: torch.func.jacrev(f)(X), [[3, 0], [0, 12]]),
    "vmap": (lambda f: torch.func.vmap(f)(X), [1, -8]),
}


@pytest.mark.filterwarnings("ignore:There is a performance drop")
@pytest.mark.parametrize("transform", TRANSFORMS)
def test_functional_transforms(smooth_cube: Operators, transform: str) -> None:
    result, expected = TRANSFORMS[transform]
    assert result(_public(smooth_cube)).tolist() == expected


def test_a_functional_transform_of_the_bare_operator_is_refused_as_by_torch(cube: Operators) -> None:
    with pytest.raises(RuntimeError, match="functorch"):
        torch.func.grad(lambda x: cube.overload("cube")(x).sum())(X)


def test_a_compiled_function_is_one_graph_that_holds_the_operator(cube: Operators) -> None:
    torch._dynamo.reset()
    graphs: list[torch.fx.GraphModule] = []

    def backend(graph: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        graphs.append(graph)
        return graph

    torch.compile(_public(cube), fullgraph=True, backend=backend)(torch.ones(3))
    assert len(graphs) == 1
    assert cube.overload("cube") in {node.target for node in graphs[0].graph.nodes}


def test_gradcheck_and_opcheck_pass(cube: Operators) -> None:
    x = torch.tensor([0.5, -1.5], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(_public(cube), x)
    torch.library.opcheck(cube.overload("cube"), (x,))
    torch.library.opcheck(cube.overload("cube_backward"), (x.detach(), x.detach()))


@pytest.mark.parametrize("way", ["public function", "torch.ops"])
def test_forward_mode_is_refused_rather_than_without_a_tangent(cube: Operators, way: str) -> None:
    if way == "torch.ops" and not is_direct(cube.library):
        pytest.skip("torch.library drops the tangent of what it has registered")
    with torch.autograd.forward_ad.dual_level():
        x = torch.autograd.forward_ad.make_dual(torch.tensor([2.0]), torch.tensor([1.0]))
        with pytest.raises(NotImplementedError, match="jvp"):
            WAYS[way](cube)(x)
    with pytest.raises(RuntimeError, match="jvp"):
        torch.func.jvp(cube.cube, (torch.tensor([2.0]),), (torch.tensor([1.0]),))


def test_a_subclass_with_torch_function_is_asked_first(cube: Operators) -> None:
    asked = []

    class Watched(Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            asked.append(str(func))
            return super().__torch_function__(func, types, args, kwargs or {})  # type: ignore[no-untyped-call]

    result = cube.cube(torch.tensor([2.0]).as_subclass(Watched))
    assert isinstance(result, Watched)
    assert any("cube" in name for name in asked)


@pytest.mark.parametrize("way", ["public function", "torch.ops"])
def test_an_operator_without_a_formula_refuses_to_be_differentiated(cube: Operators, way: str) -> None:
    x = torch.tensor([2.0], requires_grad=True)
    (grad,) = torch.autograd.grad(WAYS[way](cube)(x), x, create_graph=True)
    with pytest.raises(RuntimeError, match=r"cube_backward has no gradient: ports/.* states no op.autograd"):
        torch.autograd.grad(grad, x)


def test_saved_constants_and_missing_tensors_come_back_in_order(library: Library) -> None:
    kept: list[Any] = []

    def register(op: Operators) -> None:
        schema = "scaled(Tensor x, Tensor? y, float factor, int power=1) -> Tensor"
        op.define(schema, fake=lambda x, *_: torch.empty_like(x))
        op.autograd(
            "scaled",
            save=lambda x, y, factor, power, out: (power, y, factor, out),
            backward=backward,
        )

    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        kept.extend([ctx.constants, ctx.saved_tensors])
        return grad, None, None, None

    op = wired(library, register, scaled=lambda x, y, factor, power=1: x * factor**power)
    x = torch.tensor([2.0], requires_grad=True)
    out = op.scaled(x, None, 3.0, 2)
    out.backward()
    assert kept[0] == (2, 3.0)
    assert kept[1][0] is None
    assert kept[1][1].tolist() == [18]


def test_a_tuple_of_results(library: Library) -> None:
    def register(op: Operators) -> None:
        op.define("both(Tensor x) -> (Tensor, Tensor)", fake=lambda x: (torch.empty_like(x), torch.empty_like(x)))
        op.autograd("both", save=lambda x, outputs: (), backward=lambda ctx, up, down: 2 * up - 3 * down)

    op = wired(library, register, both=lambda x: (2 * x, -3 * x))
    x = torch.tensor([1.0], requires_grad=True)
    up, down = op.both(x)
    assert torch.autograd.grad(up, x, retain_graph=True)[0].tolist() == [2]
    assert torch.autograd.grad(up + down, x)[0].tolist() == [-1]


@pytest.mark.parametrize("way", ["entry", "dispatcher", "torch.func", "compiled"])
@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_a_result_for_backward_alone_has_no_gradient_and_is_left_out_of_a_call(library: Library, way: str) -> None:
    torch._dynamo.reset()

    def register(op: Operators) -> None:
        op.define("halves(Tensor x) -> (Tensor, Tensor)", fake=lambda x: (torch.empty_like(x), torch.empty_like(x)))
        op.autograd("halves", save=lambda x, outputs: (outputs[1],), backward=backward, no_gradient=(1,))

    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (factor,) = ctx.saved_tensors
        result: Tensor = grad * factor
        return result

    op = wired(library, register, halves=lambda x: (0.5 * x, torch.full_like(x, 0.5)))
    x = torch.tensor([3.0], requires_grad=True)
    assert op.halves(x.detach()).tolist() == [1.5]
    if way == "torch.func":
        assert torch.func.grad(lambda x: op.halves(x).sum())(x.detach()).tolist() == [0.5]
        return
    if way == "dispatcher":
        half, statistic = op.overload("halves")(x)
        assert not statistic.requires_grad
    else:
        half = torch.compile(op.halves, backend="aot_eager", fullgraph=True)(x) if way == "compiled" else op.halves(x)
    assert torch.autograd.grad(half, x)[0].tolist() == [0.5]


@pytest.mark.parametrize("way", ["entry", "dispatcher"])
def test_of_two_results_with_a_gradient_and_one_without_each_has_its_own(library: Library, way: str) -> None:
    came: list[Any] = []

    def register(op: Operators) -> None:
        fake = lambda x: tuple(torch.empty_like(x) for _ in range(3))  # noqa: E731
        op.define("thirds(Tensor x) -> (Tensor, Tensor, Tensor)", fake=fake)
        op.autograd("thirds", save=lambda x, outputs: (), backward=backward, materialize_grads=False, no_gradient=(1,))

    def backward(ctx: Any, up: Tensor | None, down: Tensor | None) -> Tensor | None:
        came.append((up, down))
        return up

    op = wired(library, register, thirds=lambda x: (x.clone(), x.clone(), -x))
    x = torch.ones(1, requires_grad=True)
    results = op.thirds(x) if way == "entry" else op.overload("thirds")(x)
    assert [result.requires_grad for result in results] == ([True, True] if way == "entry" else [True, False, True])
    torch.autograd.grad(results[0], x)
    assert came == [(torch.ones(1), None)]


class _NoGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> None:
        return None


@pytest.mark.parametrize("way", ["entry", "dispatcher"])
def test_a_result_that_nothing_comes_back_to_has_no_gradient_to_pass_on(library: Library, way: str) -> None:
    def register(op: Operators) -> None:
        op.define("halves(Tensor x) -> (Tensor, Tensor)", fake=lambda x: (torch.empty_like(x), torch.empty_like(x)))
        op.autograd("halves", save=lambda x, outputs: (), backward=lambda ctx, grad: grad * 0.5, no_gradient=(1,))

    op = wired(library, register, halves=lambda x: (0.5 * x, torch.full_like(x, 0.5)))
    x = torch.tensor([3.0], requires_grad=True)
    half = op.halves(x) if way == "entry" else op.overload("halves")(x)[0]
    nothing = _NoGradient.apply(half)  # type: ignore[no-untyped-call]
    (grad,) = torch.autograd.grad(nothing, x, allow_unused=True)
    assert grad is None or grad.tolist() == [0]


@pytest.mark.parametrize("materialize", [True, False])
def test_a_result_that_nothing_was_made_of_has_a_gradient_of_zeros_or_none(library: Library, materialize: bool) -> None:
    seen: list[Any] = []

    def backward(ctx: Any, *grads: Any) -> Any:
        seen.extend(grads)
        return grads[0]

    def register(op: Operators) -> None:
        op.define("split(Tensor x) -> (Tensor, Tensor)", fake=lambda x: (torch.empty_like(x), torch.empty_like(x)))
        op.autograd("split", save=lambda x, outputs: (), backward=backward, materialize_grads=materialize)

    op = wired(library, register, split=lambda x: (x.clone(), -x))
    calls: list[Callable[[Tensor], Any]] = [op.split, op.overload("split")]
    for call in calls:
        seen.clear()
        x = torch.ones(3, requires_grad=True)
        torch.autograd.grad(call(x)[0].sum(), x)
        assert torch.equal(seen[0], torch.ones(3))
        assert torch.equal(seen[1], torch.zeros(3)) if materialize else seen[1] is None


def test_a_tag_is_on_the_operator(library: Library) -> None:
    tag = torch.Tag.nondeterministic_seeded
    op = wired(library, lambda op: op.define("f(Tensor x) -> Tensor", fake=torch.empty_like, tags=[tag]))
    assert {tag, torch.Tag.pt2_compliant_tag} <= set(op.overload("f").tags)


# --------------------------------------------------------------------------------------------------------- schemas


@pytest.mark.parametrize(
    ("text", "types", "tensors"),
    [
        ("f(Tensor x) -> Tensor", "(Tensor) -> Tensor", (0,)),
        ("f(Tensor x, Tensor? y=None) -> Tensor", "(Tensor, Tensor?) -> Tensor", (0, 1)),
        ("f(int n, Tensor x, float a=1.5, bool b=True) -> Tensor", "(int, Tensor, float, bool) -> Tensor", (1,)),
        ("f(Tensor x, *, int seed=0) -> (Tensor, Tensor)", "(Tensor, int) -> (Tensor, Tensor)", (0,)),
        ("f(Tensor x, int? n) -> Tensor", "(Tensor, int?) -> Tensor", (0,)),
        ("  f ( Tensor x )  ->  Tensor ", "(Tensor) -> Tensor", (0,)),
        ("f(\n  Tensor x,\n  Tensor y\n) -> Tensor", "(Tensor, Tensor) -> Tensor", (0, 1)),
        ("f(Tensor x) -> (Tensor y, Tensor z)", "(Tensor) -> (Tensor, Tensor)", (0,)),
        ("f(Tensor[] xs, int[2] ns, SymInt m) -> Tensor[]", "(Tensor[], int[], int) -> Tensor[]", ()),
        ("f(Tensor(a!) x, Tensor(b!)[] ys) -> Tensor(a!)", "(Tensor, Tensor[]) -> Tensor", (0,)),
        (
            "f(ScalarType a, ScalarType? b, Device c, str s='a, b') -> ()",
            "(ScalarType, ScalarType?, Device, str) -> ()",
            (),
        ),
    ],
)
def test_a_schema_in_types(text: str, types: str, tensors: tuple[int, ...]) -> None:
    schema = Schema.parse(text)
    assert (schema.name, schema.types, schema.tensor_positions) == ("f", types, tensors)


def test_cpp_spells_its_types_as_schemas_do() -> None:
    """registration.h names each C++ type; the same name must come out of a schema that has that type."""
    header = (Path(trifold.__file__).parent / "include" / "trifold" / "registration.h").read_text(encoding="utf-8")
    named = dict(re.findall(r"schema_name<([\w:]+)> = \"(.+)\"", header))
    single = {"Tensor", "int64_t", "double", "bool", "std::string", "std::string_view", "ScalarType", "Device"}
    assert named.keys() == single
    for name in named.values():
        for kind in (name, f"{name}?", f"{name}[]", f"{name}[]?", f"{name}?[]"):
            assert Schema.parse(f"f({kind} a) -> {kind}").types == f"({kind}) -> {kind}"


# ------------------------------------------------------------------------------------------------------ public API

_WITHOUT_INTERNALS = """
import sys
import torch
from trifold.port import Library, wire
from trifold.port.wiring import bind

def register(op):
    op.define("cube(Tensor x) -> Tensor", fake=torch.empty_like)
    op.autograd("cube", save=["x"], backward=lambda ctx, grad: 3 * ctx.saved_tensors[0] ** 2 * grad)

bind("own", Library("own", torch.library.Library("own", "DEF")))
op = wire("own", register)
op.library.registry.impl("cube", lambda x: x**3, "CPU")
x = torch.tensor([2.0], requires_grad=True)
op.cube(x).backward()
print(x.grad.item(), *sorted(name for name in sys.modules if name.startswith("trifold.port.")))
"""


def test_the_usual_wiring_names_nothing_of_torchs_internals() -> None:
    done = subprocess.run([sys.executable, "-c", _WITHOUT_INTERNALS], capture_output=True, text=True, check=True)
    gradient, *modules = done.stdout.split()
    assert float(gradient) == 12.0
    folder = Path(trifold.__file__).parent / "port"
    for module in modules:
        text = (folder / f"{module.rpartition('.')[2]}.py").read_text(encoding="utf-8")
        assert not re.search(r"torch\._C\b|\bexec\(", text), module
    internal = {path.stem for path in folder.glob("*.py") if "torch._C" in path.read_text(encoding="utf-8")}
    assert internal == {"direct", "formulas", "reuse"}
