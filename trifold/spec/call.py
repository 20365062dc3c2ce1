"""One call of an op as data."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from trifold.spec.case import AliasCase, AnyCase, IndexCase, TensorCase

# Where an argument is: its position, or its keyword; then, in a list of tensors, its position there.
Path = tuple[int | str, ...]


def require_call(stated: str, value: object) -> None:
    """Raises TypeError if ``value``, of ``stated``, is no :class:`Call`."""
    if not isinstance(value, Call):
        raise TypeError(f"{stated} is {value!r}, which is no Call; write Call((x, y), {{'name': z}})")


@dataclass(frozen=True)
class Call:
    """One call of the op's public function: positional and keyword arguments, with a case for each tensor.

    A list or tuple of cases is a list of tensors.

    Attributes:
        seed: for ``torch.manual_seed`` before the call.
        apart: if given, ``dim`` and ``stride`` with which the op's tensors are :func:`trifold.apart.far_apart`; set by
            the verification, and not by a spec.
    """

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    apart: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        for position, value in enumerate((*self.args, *self.kwargs.values())):
            if isinstance(value, AliasCase):
                known = value.of < min(position, len(self.args))
                if not known or not isinstance(self.args[value.of], TensorCase):
                    raise ValueError(f"{value} stands for a TensorCase among the positional arguments before it")

    def cases(self) -> Iterator[tuple[Path, AnyCase]]:
        """The tensors to create, each with its place; without aliases of another argument."""
        for place, value in self._values():
            if isinstance(value, AnyCase):
                yield (place,), value
            elif isinstance(value, list | tuple):
                yield from (((place, i), one) for i, one in enumerate(value) if isinstance(one, AnyCase))

    def floating(self) -> Iterator[tuple[Path, TensorCase]]:
        """The entries of :meth:`cases` with a floating or complex dtype."""
        for path, case in self.cases():
            if isinstance(case, TensorCase) and (case.dtype.is_floating_point or case.dtype.is_complex):
                yield path, case

    def with_cases(self, change: Callable[[AnyCase], AnyCase]) -> Call:
        """The call with ``change(case)`` in place of each case."""

        def changed(value: Any) -> Any:
            if isinstance(value, AnyCase):
                return change(value)
            return type(value)(map(changed, value)) if isinstance(value, list | tuple) else value

        kwargs = {name: changed(value) for name, value in self.kwargs.items()}
        return replace(self, args=tuple(map(changed, self.args)), kwargs=kwargs)

    def arguments(self, device: str = "cpu") -> tuple[list[Any], dict[str, Any]]:
        """The arguments, with each tensor created on ``device``."""
        args: list[Any] = []

        def made(value: Any, position: int | None = None) -> Any:
            if isinstance(value, AliasCase):
                return value.view(args[value.of])
            if isinstance(value, TensorCase):
                return value.make(device, room=self._room(position))
            if isinstance(value, list | tuple):
                return [made(one) for one in value] if any(isinstance(one, AnyCase) for one in value) else value
            return value.make(device) if isinstance(value, IndexCase) else value

        for position, value in enumerate(self.args):
            args.append(made(value, position))
        return args, {name: made(value) for name, value in self.kwargs.items()}

    def with_aliases(self, args: list[Any]) -> list[Any]:
        """``args`` with each alias replaced by the current tensor at the aliased place: after tensors were converted,
        or detached to require a gradient. Arguments that only overlap another one are left unchanged, since the storage
        of a copy has no room for them."""
        aliases = {position: value for position, value in enumerate(self.args) if isinstance(value, AliasCase)}
        return [
            args[aliases[position].of] if position in aliases and aliases[position].is_same else value
            for position, value in enumerate(args)
        ]

    def code(
        self,
        op: str,
        device: str = "cpu",
        implementation: str = "port",
        *,
        gradients: Sequence[Path] = (),
        writes: Sequence[Path] = (),
        upstream: str = "usual",
        through: int | None = None,
        schedule: int | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> str:
        """A program that makes the call and prints its result, the reference's, and where they differ.

        Args:
            gradients: those of the arguments at these places, too.
            writes: the op writes into the arguments at these places: they are compared, too.
            upstream: the kind of the upstream gradients, for :func:`trifold.gradients`.
            through: also the gradients through this result alone.
            schedule: the seed of the one in which a check of the emulated device found something: the program runs
                with checks, and says how if it cannot do so by itself.
            environment: variables that the program sets first.
        """
        chosen = "" if implementation == "port" else f', implementation="{implementation}", device="{device}"'
        if schedule is not None and implementation == "port":
            chosen += f", checks=True, seed={schedule}"
        lines = ["import torch", "import trifold", f'{implementation} = trifold.load("{op}"{chosen})']
        if self.apart is not None:
            lines.insert(2, "from trifold.apart import far_apart")

        def named(name: str, value: Any, position: int | None = None) -> str:
            if isinstance(value, TensorCase):
                code = value.code_on(device, room=self._room(position))
            elif isinstance(value, IndexCase):
                code = value.code_on(device)
            elif isinstance(value, AliasCase):
                code = value.code(f"x{value.of}")
            elif isinstance(value, list | tuple):
                return f"[{', '.join(named(f'{name}_{i}', one) for i, one in enumerate(value))}]"
            else:
                return repr(value)
            if self.apart is not None:
                code = f"far_apart({code}, dim={self.apart[0]}, stride={self.apart[1]})"
            lines.append(f"{name} = {code}")
            return name

        names = [named(f"x{position}", value, position) for position, value in enumerate(self.args)]
        names += [f"{name}={named(name, value)}" for name, value in self.kwargs.items()]
        used = [
            kind.__name__
            for kind in (AliasCase, TensorCase, IndexCase)
            if any(f"{kind.__name__}(" in line for line in lines)
        ]
        if used:
            lines.insert(2, f"from trifold.spec import {', '.join(used)}")
        inputs = [_variable(path) for path in gradients]
        lines += [f"{name}.requires_grad_()" for name in inputs]
        given = ", ".join(names)
        written = [_variable(path) for path in writes]
        copies = f"[{', '.join(f'{name}.clone()' for name in written)}]"
        after = f", {copies}" if written else ""
        if written:
            lines.append(f"before = {copies}")
        lines += [f"torch.manual_seed({self.seed})", f"result = {implementation}({given}){after}"]
        lines += [f"{name}.copy_(before[{number}])" for number, name in enumerate(written)]
        lines += [f"torch.manual_seed({self.seed})", f'expected = trifold.reference("{op}")({given}){after}']
        lines.append("trifold.show(result, expected)")
        if inputs:
            asked = f"[{', '.join(inputs)}], seed={self.seed}"
            drawn_in = dict(self.cases())[gradients[0]].dtype  # the numbers of an upstream gradient depend on it
            asked += f", dtype={self.dtype}" if drawn_in != self.dtype else ""
            asked += f', upstream="{upstream}"' if upstream != "usual" else ""
            for more in ("",) if through is None else ("", f", through={through}"):
                of_both = (f"trifold.gradients({name}, {asked}{more})" for name in ("result", "expected"))
                lines.append(f"trifold.show({', '.join(of_both)})")
        if environment:
            lines[:0] = ["import os", *(f'os.environ["{name}"] = "{value}"' for name, value in environment.items())]
        if schedule is not None and implementation == "prototype":
            lines.insert(0, f"# python -m trifold.simulator --seed {schedule} THIS_FILE.py")
        return "\n".join(lines)

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the first floating tensor; without one, of the first tensor."""
        cases = [*self.floating(), *self.cases()]
        return cases[0][1].dtype if cases else torch.float32

    @property
    def elements(self) -> int:
        """The number of elements of all its tensors."""
        return sum(torch.Size(case.shape).numel() for _, case in self.cases())

    def _values(self) -> Iterator[tuple[int | str, Any]]:
        yield from enumerate(self.args)
        yield from self.kwargs.items()

    def _room(self, position: int | None) -> int:
        """How many elements more than it needs the storage of the positional argument has."""
        values = (*self.args, *self.kwargs.values())
        return max((v.shift for v in values if isinstance(v, AliasCase) and v.of == position), default=0)


def _variable(path: Path) -> str:
    """The name of an argument in :meth:`Call.code`."""
    name = f"x{path[0]}" if isinstance(path[0], int) else path[0]
    return name + "".join(f"_{index}" for index in path[1:])


def tensor_at(arguments: tuple[list[Any], dict[str, Any]], path: Path) -> Any:
    """The value at a place of :meth:`Call.arguments`."""
    first, *rest = path
    value = arguments[1][first] if isinstance(first, str) else arguments[0][first]
    return value[rest[0]] if rest else value


def put_at(arguments: tuple[list[Any], dict[str, Any]], path: Path, tensor: Tensor) -> None:
    """Replace the value at a place of :meth:`Call.arguments`."""
    first, *rest = path
    holder: Any = arguments[1] if isinstance(first, str) else arguments[0]
    if rest:
        holder, first = holder[first], rest[0]
    holder[first] = tensor
