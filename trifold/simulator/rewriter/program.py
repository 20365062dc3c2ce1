"""Rewrites a kernel together with all device functions that it reaches, for the simulator to run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import CodeType, FunctionType
from typing import Any

from trifold.simulator.rewriter.link import Forward, Objects, compile_function
from trifold.simulator.rewriter.names import Names
from trifold.simulator.rewriter.source import SourceMissing, find_definition
from trifold.simulator.rewriter.survey import Body, Survey, Unrewritable, Vocabulary
from trifold.simulator.rewriter.transform import Conversions, Runtime, Transform
from trifold.simulator.unify import Instance, may_need_casts

# A function, or an instance of it: the function with the types of its arguments.
_Key = Any


@dataclass(eq=False)
class Captured:
    """A host array that a kernel refers to by name; during a launch ``array`` is the kernel's view of it."""

    name: str
    host: Any
    array: Any = None


@dataclass(frozen=True)
class Unread:
    """A function that runs unchanged: its arithmetic is Python's."""

    function: FunctionType
    reason: str


@dataclass(eq=False)
class Program:
    """A kernel, ready to run.

    Attributes:
        function: accepts the kernel's arguments. A generator function if ``waits``.
        cooperative: it synchronises the whole grid.
        captured: arrays that it, or one of its device functions, refers to by name.
        unread: functions that could not be rewritten.
        typed: the types of its arguments may require conversions.
        functions: file, first and last line of each function that it reaches.
    """

    function: Callable[..., Any]
    waits: bool
    cooperative: bool
    captured: tuple[Captured, ...]
    unread: tuple[Unread, ...]
    _names: tuple[Names, ...] = field(repr=False)
    typed: bool = False
    functions: tuple[tuple[str, int, int], ...] = ()

    def is_current(self) -> bool:
        """Whether its names still refer to the same objects as when it was made."""
        return all(names.still_hold() for names in self._names)


Typed = Callable[[Mapping[FunctionType, Survey]], tuple[_Key, Mapping[_Key, Instance]]]


@dataclass(frozen=True)
class Builder:
    """Makes programs.

    Args:
        vocabulary: the device's objects.
        runtime: the functions that rewritten code calls; its ``site`` gets the file, line and function.
        site: (file, line, function) -> the number of a place where threads wait.
        might_wait: whether a function without source may wait.
        as_generator: a generator function that runs such a function.
        conversions: what the signature of a device function converts.
    """

    vocabulary: Vocabulary
    runtime: Callable[[Callable[[int], int]], Runtime]
    site: Callable[[str, int, str], int]
    might_wait: Callable[[FunctionType], bool]
    as_generator: Callable[[FunctionType], Callable[..., Any]]
    conversions: Callable[[FunctionType], Conversions | None] = lambda function: None

    def build(
        self,
        function: FunctionType,
        *,
        called: bool = False,
        typed: Typed = lambda surveys: (None, {}),
    ) -> Program:
        """Rewrite a kernel, or with ``called`` a device function, and all functions that it calls by name.

        ``typed`` has the instance to run, and all instances: each becomes a separate function.
        """
        unrewritable: dict[FunctionType, str] = {}
        while True:
            graph = _Graph(self, function, unrewritable)
            try:
                return graph.program(called, typed)
            except _Stop as stop:
                unrewritable[stop.function] = stop.reason


class _Stop(Exception):
    def __init__(self, function: FunctionType, reason: str) -> None:
        super().__init__(reason)
        self.function = function
        self.reason = reason


class _Graph:
    """The functions that a kernel reaches."""

    def __init__(self, builder: Builder, root: FunctionType, unrewritable: Mapping[FunctionType, str]) -> None:
        self._builder = builder
        self._root = root
        self._surveys: dict[FunctionType, Survey] = {}
        self._unread: dict[FunctionType, Unread] = {}
        self._captured: dict[int, Captured] = {}
        self._forwards: dict[_Key, Forward] = {}
        self._wanted: list[_Key] = []
        queue = [root]
        while queue:
            function = queue.pop()
            if function in self._surveys or function in self._unread:
                continue
            try:
                if function in unrewritable:
                    raise Unrewritable(unrewritable[function])
                survey = Survey(function, find_definition(function), builder.vocabulary)
            except (SourceMissing, Unrewritable) as reason:
                self._unread[function] = Unread(function, str(reason))
            else:
                self._surveys[function] = survey
                queue.extend(survey.callees)
        self._waiting = self._spread_waiting()

    def _spread_waiting(self) -> set[FunctionType | Body]:
        """All functions and nested functions that wait, directly or through what they call."""
        waiting: set[FunctionType | Body] = {f for f in self._unread if self._builder.might_wait(f)}
        bodies = [(f, survey, body) for f, survey in self._surveys.items() for body in survey.bodies.values()]
        while True:
            before = len(waiting)
            for function, survey, body in bodies:
                if body.waits or any(callee in waiting for callee in body.calls):
                    waiting.add(body)
                    if body.node is survey.node:
                        waiting.add(function)
            if len(waiting) == before:
                return waiting

    def program(self, called: bool, typed: Typed) -> Program:
        for unread in self._unread:
            waits = unread in self._waiting
            self._forwards[unread] = Forward()
            self._forwards[unread].function = self._builder.as_generator(unread) if waits else unread
        key, instances = typed(self._surveys)
        root = self._forward(key or self._root)
        rewritten: list[tuple[Forward, Objects]] = []
        while self._wanted:
            key = self._wanted.pop()
            rewritten.append((self._forwards[key], self._compile(key, instances.get(key, Instance()), called)))
        for forward, objects in rewritten:
            forward.function.__code__ = objects.put_in(forward.function.__code__)
        return Program(
            root.function,
            self._root in self._waiting,
            any(survey.synchronises_grid for survey in self._surveys.values()),
            tuple(self._captured.values()),
            tuple(self._unread.values()),
            tuple(survey.names for survey in self._surveys.values()),
            any(may_need_casts(survey.node) for survey in self._surveys.values()),
            tuple(_lines_of(function) for function in (*self._surveys, *self._unread)),
        )

    def _forward(self, key: _Key) -> Forward:
        """The rewritten function; made on first use."""
        if key not in self._forwards:
            self._forwards[key] = Forward()
            self._wanted.append(key)
        return self._forwards[key]

    def _compile(self, key: _Key, instance: Instance, called: bool) -> Objects:
        function: FunctionType = key[0] if isinstance(key, tuple) else key
        survey = self._surveys[function]
        called = called or function is not self._root
        code = function.__code__
        objects = Objects()
        runtime = self._builder.runtime(lambda line: self._builder.site(code.co_filename, line, code.co_qualname))
        transform = Transform(
            survey,
            objects,
            runtime,
            waits=self._waiting.__contains__,
            function=lambda node, callee: self._forward(instance.calls.get(node, callee)),
            captured=self._capture,
            called=called,
            conversions=self._builder.conversions(function) if called else None,
            casts=instance.casts,
        )
        try:
            self._forwards[key].function = compile_function(transform.run(), function)
        except Unrewritable as reason:
            raise _Stop(function, str(reason)) from None
        return objects

    def _capture(self, name: str, array: Any) -> Captured:
        return self._captured.setdefault(id(array), Captured(name, array))


def _lines_of(function: FunctionType) -> tuple[str, int, int]:
    code = function.__code__
    nested = [code]
    last = code.co_firstlineno
    while nested:
        each = nested.pop()
        last = max(last, *(line or 0 for _, _, line in each.co_lines()))
        nested += [constant for constant in each.co_consts if isinstance(constant, CodeType)]
    return code.co_filename, code.co_firstlineno, last


def reasons(unread: Iterable[Unread]) -> str:
    """The functions that run unchanged, and why, in words."""
    return "; ".join(f"{entry.function.__qualname__}: {entry.reason}" for entry in unread)
