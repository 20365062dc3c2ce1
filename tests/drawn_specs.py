"""Specs that hypothesis draws: arguments and results of all types, with an implementation made of torch's operators.

A drawn op is a list of arguments and a list of results, each a function of arguments. The op is judged in this process,
by those checks that need no kernel.
"""

from __future__ import annotations

import contextlib
import gc
import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from hypothesis import strategies as st
from torch import Tensor

from trifold.isolation import beside
from trifold.spec import (
    BadCall,
    Call,
    Gradients,
    IndexCase,
    Limits,
    Result,
    Spec,
    TensorCase,
    any_size,
)
from trifold.verification.calls import Search
from trifold.verification.cell import Cell, Remote
from trifold.verification.checks import CHECKS
from trifold.verification.observations import Observations
from trifold.workspace import OpFiles

_COLUMNS = 6  # of each row: even, so that a table of half as many goes with it

# The operands of a result: the matrices of the call by name, then the other arguments.
Formula = Callable[[dict[str, Any]], Any]


@dataclass(frozen=True)
class DrawnArgument:
    """An argument of a drawn op.

    Attributes:
        kind: ``matrix`` (rows, 6), ``table`` (3,) without gradient, ``row`` (6,), ``index`` (rows,) of columns,
            ``mask`` (rows, 6) of bools, ``list`` of two matrices, ``number``, ``dtype`` of the floating results, or
            ``absent`` (None).
        keyword: whether it is passed by its name.
    """

    name: str
    kind: str
    keyword: bool = False


@dataclass(frozen=True)
class DrawnResult:
    """A result of a drawn op.

    Attributes:
        kind: a name in :data:`RESULTS`.
    """

    kind: str

    @property
    def how(self) -> Result:
        return _HOW.get(self.kind, Result())


def _scaled(given: dict[str, Any]) -> Tensor:
    """Every floating argument has its part in it."""
    x: Tensor = given["x"]
    total = 2 * x
    for value in given.values():
        if isinstance(value, list):
            total = total + 3 * value[0] * value[1]
        elif isinstance(value, Tensor) and value.dtype == torch.bool:
            total = torch.where(value, total, -total)
        elif isinstance(value, Tensor) and not value.is_floating_point():
            total = total + x.gather(-1, value.unsqueeze(-1))
        elif isinstance(value, Tensor) and value is not x:
            total = total * (torch.cat([value, value]) if value.shape[-1] == _COLUMNS // 2 else value)
        elif isinstance(value, float):
            total = total * value
    return total.to(given.get("dtype", total.dtype))


def _shifted(got: Tensor, want: Tensor, x: Tensor, *others: Any, **named: Any) -> Tensor:
    return (x.gather(-1, got.unsqueeze(-1)) == x.gather(-1, want.unsqueeze(-1))).squeeze(-1)


RESULTS: dict[str, Formula] = {
    "floating": _scaled,
    "sum of rows": lambda given: _scaled(given).sum(-1),
    "bool": lambda given: given["x"] > 0.5,
    "count": lambda given: (given["x"] > 0).sum(-1),
    "small integers": lambda given: given["x"].clamp(-100, 100).round().to(torch.int8),
    "index of the largest": lambda given: given["x"].argmax(-1),
    "set of columns": lambda given: given["x"].topk(3).indices,
    "complex": lambda given: torch.complex(given["x"].double(), 2 * given["x"].double()),
    "list": lambda given: [3 * given["x"], given["x"] < 0],
    "nothing": lambda given: None,
}
_HOW = {
    "index of the largest": Result(tie=_shifted, reason="any column of the largest number"),
    "set of columns": Result(order="multiset"),
}
_DIFFERENTIABLE = ("floating", "sum of rows")


@dataclass(frozen=True)
class DrawnOp:
    """An op and its spec.

    Attributes:
        with_gradient: whether it has one: of the matrices and rows, for floating results.
    """

    arguments: tuple[DrawnArgument, ...]
    results: tuple[DrawnResult, ...]
    with_gradient: bool

    def given(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        positional = [argument.name for argument in self.arguments if not argument.keyword]
        return dict(zip(positional, args, strict=False)) | kwargs

    @property
    def reference(self) -> Callable[..., Any]:
        def reference(*args: Any, **kwargs: Any) -> Any:
            made = [RESULTS[result.kind](self.given(*args, **kwargs)) for result in self.results]
            return made[0] if len(made) == 1 else tuple(made)

        names = [(argument.name, argument.keyword) for argument in self.arguments]
        kinds = {False: inspect.Parameter.POSITIONAL_OR_KEYWORD, True: inspect.Parameter.KEYWORD_ONLY}
        parameters = [inspect.Parameter(name, kinds[keyword]) for name, keyword in names]
        reference.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return reference

    @property
    def differentiated(self) -> tuple[str, ...]:
        """The names of the arguments that have a gradient."""
        return tuple(a.name for a in self.arguments if a.kind in ("matrix", "row", "list"))

    @property
    def spec(self) -> Spec:
        keywords = [argument.name for argument in self.arguments if argument.keyword]
        positional = len(self.arguments) - len(keywords)
        return Spec(
            calls=lambda limits: self._calls(limits),
            smooth=[self._call(rows, torch.float64, "normal", seed) for seed, rows in enumerate((2, 3))],
            samples=(),
            edges=[self._call(300, dtype, "normal", 5) for dtype in (torch.float32, torch.float16)],
            gradients=self._gradients(),
            results=[result.how for result in self._flat_results()],
            bad_calls=[BadCall("strings", lambda device: (["x"] * positional, dict.fromkeys(keywords, "x")), ())],
            scale=self._scale,
            gradient_scale=self._gradient_scale if self.with_gradient else None,
            multiple=64.0,
            multiple_reason="a chain of products and a sum of six, in the order of the formula",
        )

    def _flat_results(self) -> list[DrawnResult]:
        counts = {"list": 2, "nothing": 0}
        return [result for result in self.results for _ in range(counts.get(result.kind, 1))]

    def _gradients(self) -> Gradients:
        if not self.with_gradient:
            return Gradients(arguments=())
        chosen = [number for number, r in enumerate(self._flat_results()) if r.kind in _DIFFERENTIABLE]
        return Gradients(arguments=self.differentiated, results=tuple(chosen))

    def _scale(self, reference: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[Tensor, ...]:
        """The sum of the sizes of all terms; of what is no number, anything."""
        given = {name: _size(value) for name, value in self.given(*args, **kwargs).items()}
        size = 4 * _scaled({name: v for name, v in given.items() if name != "mask"}).abs()
        of_rows = {"sum of rows": size.sum(-1)}
        whole = [of_rows.get(result.kind, size) for result in self._flat_results()]
        return tuple(whole)

    def _gradient_scale(self, reference: Callable[..., Any], *given: Any, **kwargs: Any) -> tuple[Tensor, ...]:
        """How the size grows with each argument, which is what autograd says of sizes."""
        count = len(self._gradients().results or ())
        outer, args = given[:count], given[count:]
        arguments = {name: _size(value) for name, value in self.given(*args, **kwargs).items()}
        asked: list[Tensor] = []
        for name in self.differentiated:
            value = arguments[name]
            asked += [tensor.requires_grad_() for tensor in (value if isinstance(value, list) else [value])]
        size = 4 * _scaled({name: v for name, v in arguments.items() if name != "mask"})
        kinds = [r.kind for r in self._flat_results() if r.kind in _DIFFERENTIABLE]
        parts = [
            grad.abs().unsqueeze(-1) if kind == "sum of rows" else grad.abs()
            for kind, grad in zip(kinds, outer, strict=True)
        ]
        total = sum((size * part).sum() for part in parts)
        grads = torch.autograd.grad(total, asked, allow_unused=True)
        return tuple(g if g is not None else torch.zeros(()) for g in grads)

    def _call(self, rows: int, dtype: torch.dtype, fill: Any, seed: int) -> Call:
        made = {a.name: _case(a.kind, rows, dtype, fill, seed + n) for n, a in enumerate(self.arguments)}
        positional = tuple(made[a.name] for a in self.arguments if not a.keyword)
        return Call(positional, {a.name: made[a.name] for a in self.arguments if a.keyword})

    def _calls(self, limits: Limits) -> st.SearchStrategy[Call]:
        rows = any_size(limits.over(2 * _COLUMNS, least=1))
        dtypes = st.sampled_from((torch.float32, torch.float64, torch.float16))
        fills = st.sampled_from(("normal", "exact", "zero"))
        return st.builds(self._call, rows, dtypes, fills, st.integers(0, 1000))


def _size(value: Any) -> Any:
    if isinstance(value, list):
        return [_size(one) for one in value]
    if isinstance(value, Tensor) and value.is_floating_point():
        return value.detach().double().abs() + 2.0**-20
    return abs(value) if isinstance(value, float) else value


def _case(kind: str, rows: int, dtype: torch.dtype, fill: Any, seed: int) -> Any:
    match kind:
        case "matrix":
            return TensorCase((rows, _COLUMNS), dtype, fill=fill, seed=seed)
        case "table":
            return TensorCase((_COLUMNS // 2,), dtype, fill="normal", seed=seed)
        case "row":
            return TensorCase((_COLUMNS,), dtype, fill="normal", seed=seed)
        case "index":
            return IndexCase((rows,), _COLUMNS, seed=seed)
        case "mask":
            return TensorCase((rows, _COLUMNS), torch.bool, seed=seed)
        case "list":
            return [TensorCase((rows, _COLUMNS), dtype, fill=fill, seed=seed + k) for k in (10, 20)]
        case "number":
            return 1.5
        case "dtype":
            return dtype if dtype == torch.float64 else (torch.float32, torch.bfloat16, torch.float16)[seed % 3]
    return None


_MORE = ("table", "row", "index", "mask", "list", "number", "dtype", "absent")  # arguments beside a matrix


@st.composite
def drawn_ops(draw: st.DrawFn) -> DrawnOp:
    """Ops of 1 to 4 arguments and 1 to 3 results."""
    kinds = draw(st.lists(st.sampled_from(_MORE), max_size=3))
    arguments = [DrawnArgument("x", "matrix")]
    for kind in dict.fromkeys(kinds):
        keyword = kind in ("table", "mask", "number", "dtype", "absent") and draw(st.booleans())
        arguments.append(DrawnArgument(kind, kind, keyword))
    arguments.sort(key=lambda argument: argument.keyword)
    several = [kind for kind in RESULTS if kind != "nothing"]
    names = draw(st.lists(st.sampled_from(several), min_size=1, max_size=3, unique=True))
    names += ["nothing"] if len(names) == 2 and draw(st.booleans()) else []
    results = tuple(DrawnResult(name) for name in names)
    differentiable = any(result.kind in _DIFFERENTIABLE for result in results)
    return DrawnOp(tuple(arguments), results, differentiable and draw(st.booleans()))


@dataclass
class HereProcess:
    """Stands for the op's process: the op runs here."""

    function: Callable[..., Any]
    element_bytes: int = 0
    observed: Observations = field(default_factory=Observations)

    @contextlib.contextmanager
    def running(self, **options: Any) -> Iterator[Observations]:
        yield self.observed

    def changed_since(self, results: Sequence[Tensor]) -> list[int]:
        return []

    def beside(
        self, what: str, args: Sequence[Any], kwargs: dict[str, Any], **more: Any
    ) -> tuple[Any, Sequence[Tensor]]:
        run = getattr(beside, f"run_{what}")
        operators = SimpleNamespace(library=SimpleNamespace(namespace="none"))  # of its own
        implementation = SimpleNamespace(function=self.function, operators=operators)
        answer: tuple[Any, Sequence[Tensor]] = run(implementation, list(args), kwargs, more)
        return answer

    def settings(self) -> tuple[dict[str, str], dict[str, str]]:
        return {}, {}


_ONE_CALL, _LIMITS = Search(1), Limits()


def cell_here(
    function: Callable[..., Any],
    reference: Callable[..., Any],
    spec: Spec,
    *,
    files: OpFiles | str,
    search: Search = _ONE_CALL,
    limits: Limits = _LIMITS,
    differentiable: bool = True,
) -> Cell:
    """The cell of a port on the CPU that runs in this process.

    Args:
        files: the op's, or only a name for it.
    """
    gc.collect()
    gc.freeze()  # checks collect garbage in each call, and would search all that earlier tests made
    files = OpFiles(files, *(Path(f"{files}.py"),) * 5) if isinstance(files, str) else files
    process: Any = HereProcess(function)
    remote = Remote("port", files, process, (files.name,), differentiable)
    return Cell(spec, remote, "cpu", reference, search, limits, lambda sample: None)


def judge(op: DrawnOp, function: Callable[..., Any], check: str, examples: int = 4) -> str | None:
    """Run one check on ``function`` as an implementation of ``op``; raises what the check raises."""
    cell = cell_here(
        function,
        op.reference,
        op.spec,
        files="drawn",
        search=Search(examples),
        limits=Limits(4000),
        differentiable=op.with_gradient,
    )
    by_name = {check.name: check for check in CHECKS}
    for before in by_name[check].after:
        by_name[before].run(cell)
    return by_name[check].run(cell)
