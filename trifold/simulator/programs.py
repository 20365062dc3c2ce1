"""Caches each kernel's program, which is rewritten once and valid as long as its names refer to the same objects."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import FunctionType, GeneratorType
from typing import Any
from weakref import WeakKeyDictionary

from trifold import _simulator, findings
from trifold.findings import Finding, KernelWarning
from trifold.simulator import device, fallback, refused, report, unify
from trifold.simulator.rewriter import Builder, Program, Survey, is_rewritten, reasons
from trifold.simulator.settings import accepted
from trifold.simulator.signatures import conversions
from trifold.simulator.types_of import Type

_WAITING_NAMES = frozenset(device.OPERATION_NAMES) | {"this_grid"}


class Programs:
    """Makes and caches programs of kernels and of device functions that are called as values."""

    def __init__(self, vocabulary: device.DeviceVocabulary) -> None:
        self._vocabulary = vocabulary
        self._kept: WeakKeyDictionary[FunctionType, dict[tuple[object, ...], Program]] = WeakKeyDictionary()
        self._refused: WeakKeyDictionary[Program, list[Finding]] = WeakKeyDictionary()
        self._builders = {debug: self._builder(debug) for debug in (False, True)}

    def _builder(self, debug: bool) -> Builder:
        return Builder(
            vocabulary=self._vocabulary,
            runtime=lambda site: device.runtime(site, self.dynamic, awaited, debug),
            site=_simulator.register_site,
            might_wait=self._might_wait,
            as_generator=fallback.as_generator,
            conversions=conversions,
        )

    def of(
        self, function: FunctionType, *, called: bool = False, debug: bool = False, types: tuple[Type, ...] = ()
    ) -> Program:
        """The program of a kernel or, with ``called``, of a device function.

        ``debug``: division by zero raises, as in ``@cuda.jit(debug=True)``. ``types``: of the arguments; a program that
        depends on them (``Program.typed``) is made for each list of types.
        """
        kept = self._kept.get(function)
        if kept is not None:
            program = kept.get((called, debug, types))
            if program is not None and program.is_current():
                return program
        else:
            kept = self._kept[function] = {}
        program, found = self._made(function, called, debug, types)
        for file, first, last in program.functions:
            report.note_allowed(accepted.take_function(file, first, last))
        self._refused[program] = list(map(_judged, found))
        kept[called, debug, types] = program
        if program.unread and not types:
            warnings.warn(
                "runs without the GPU's arithmetic, and loops that poll do not let others run, where the source is "
                f"missing: {reasons(program.unread)}. Put the function into a file to have all of it.",
                KernelWarning,
                stacklevel=3,
            )
        return program

    def _made(
        self, function: FunctionType, called: bool, debug: bool, types: tuple[Type, ...]
    ) -> tuple[Program, list[Finding]]:
        """The program, and the parts of it that Numba's CUDA target would not compile."""
        found: list[Finding] = []

        def typed(surveys: Mapping[FunctionType, Survey]) -> tuple[Any, Mapping[Any, unify.Instance]]:
            instances: dict[Any, unify.Instance] = {}
            if function in surveys and types:
                definitions = {
                    each: (survey.node, survey.names.resolve, survey.names.resolve_for_good)
                    for each, survey in surveys.items()
                }
                instances = unify.instances(definitions, function, types, self._vocabulary.device_function)
            found[:] = self._findings(function.__name__, surveys, instances)
            return (function, types) if instances else None, instances

        return self._builders[debug].build(function, called=called, typed=typed), found

    def refused(self, program: Program) -> bool:
        """Whether each launch reports parts that Numba's CUDA target would not compile."""
        return bool(self._refused[program])

    def report_refused(self, program: Program, *, lints: bool) -> None:
        """Report the parts that Numba's CUDA target would not compile."""
        for finding in self._refused[program]:
            if lints or finding.severity != "lint":
                findings.record(finding)

    def _findings(
        self, kernel: str, surveys: Mapping[FunctionType, Survey], instances: Mapping[Any, unify.Instance]
    ) -> list[Finding]:
        device_function = self._vocabulary.device_function
        found: dict[tuple[FunctionType, refused.Refusal], None] = {}
        for function, survey in surveys.items():
            for each in refused.refusals(survey.node, survey.names.resolve, device_function):
                found[function, each] = None
        for (function, _), instance in instances.items():
            found |= dict.fromkeys((function, each) for each in instance.refused.values())
        return [finding for function, each in found for finding in refused.findings(kernel, function, [each])]

    def dynamic(self, callee: Any) -> Any:
        """The device form of a value, which a kernel calls in its place."""
        operation = self._vocabulary.operation(callee)
        if operation is not None:
            frame = sys._getframe(1)
            code = frame.f_code
            site = _simulator.register_site(code.co_filename, frame.f_lineno, code.co_qualname)
            return _waiting_call(site, operation.code)
        if isinstance(callee, FunctionType) and is_rewritten(callee):
            return callee
        function = self._vocabulary.device_function(callee)
        if function is not None:
            return self.of(function, called=True).function
        replacement = self._vocabulary.called(callee)
        return callee if replacement is None else replacement

    def call_inside(self, function: FunctionType, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """A device function that a running kernel calls as a Python object."""
        program = self.of(function, called=True)
        result = program.function(*arguments, **keywords)
        return fallback.drive(result) if program.waits else result

    def _might_wait(self, function: FunctionType) -> bool:
        vocabulary = self._vocabulary
        return fallback.might_wait(
            function,
            lambda value: vocabulary.operation(value) is not None,
            vocabulary.device_function,
            _WAITING_NAMES,
        )


def _judged(finding: Finding) -> Finding:
    """The finding, marked as accepted if the user accepts it."""
    by = refused.accepted_by(finding, accepted.all())
    return finding if by is None else replace(finding, accepted=by.reason, accepted_at=by.place)


def awaited(result: Any) -> Any:
    """An iterator that waits as the called function does, and returns its result."""
    return result if isinstance(result, GeneratorType) else fallback.Returned(result)


def _waiting_call(site: int, code: int | None) -> Callable[..., Any]:
    def wait(*operands: Any) -> Any:
        return (yield site if code is None else (site, code, *operands))

    return wait
