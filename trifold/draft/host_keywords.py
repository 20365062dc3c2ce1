"""The arguments of a call in a launch function: each must be one that is translated, none is ignored."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator, Mapping
from types import FunctionType
from typing import Any

from trifold.draft.refusal import DraftError


class Keywords(dict[str, Any]):
    """The arguments by keyword of a call, which know what a translation has read of them."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        super().__init__(given)
        self._read: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        self._read.add(name)
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        self._read.add(name)
        return super().get(name, default)

    def pop(self, name: str, default: Any = None) -> Any:
        self._read.add(name)
        return super().pop(name, default)

    def __iter__(self) -> Iterator[str]:
        self._read.update(super().keys())
        return super().__iter__()

    def keys(self) -> Any:
        self._read.update(super().keys())
        return super().keys()

    def values(self) -> Any:
        self._read.update(super().keys())
        return super().values()

    def items(self) -> Any:
        self._read.update(super().keys())
        return super().items()

    def unread(self) -> list[str]:
        return [name for name in dict.__iter__(self) if name not in self._read]


def require_all_read(keywords: Keywords, function: Any, place: Callable[[ast.AST], Any], node: ast.Call) -> None:
    """Raise :class:`DraftError` for an argument by keyword that a translation has not read."""
    unread = keywords.unread()
    if not unread:
        return
    keyword = next((each for each in node.keywords if each.arg == unread[0]), node)
    name = getattr(function, "__name__", getattr(function, "name", "this"))
    if isinstance(function, FunctionType):
        known = [
            each.name
            for each in inspect.signature(function).parameters.values()
            if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)
        ]
        if unread[0] not in known:
            raise DraftError(place(keyword), f"{name} has no argument {unread[0]}", f"it has {', '.join(known)}")
    raise DraftError(
        place(keyword), f"the argument {unread[0]} of {name} is not translated in a launch function", "leave it out"
    )


def bound_to(
    signature: ast.arguments,
    defaults: Mapping[str, Any],
    arguments: tuple[Any, ...],
    keywords: Mapping[str, Any],
) -> dict[str, Any] | str:
    """The parameters of a helper and their values in a call; or what is wrong with the call."""
    plain = [each.arg for each in (*signature.posonlyargs, *signature.args)]
    known = {*plain, *(each.arg for each in signature.kwonlyargs)}
    bound: dict[str, Any] = dict(zip(plain, arguments, strict=False))
    if signature.vararg is not None:
        bound[signature.vararg.arg] = arguments[len(plain) :]
    elif len(arguments) > len(plain):
        return f"takes {len(plain)} argument{'' if len(plain) == 1 else 's'}, not {len(arguments)}"
    others = {name: value for name, value in keywords.items() if name not in known}
    if signature.kwarg is not None:
        bound[signature.kwarg.arg] = others
    elif others:
        return f"has no argument {next(iter(others))}"
    if twice := [name for name in keywords if name in bound and name in plain]:
        return f"gets {twice[0]} twice"
    bound = {**defaults, **bound, **{name: value for name, value in keywords.items() if name in known}}
    if missing := [name for name in (*plain, *(each.arg for each in signature.kwonlyargs)) if name not in bound]:
        return f"lacks its argument {missing[0]}"
    return bound
