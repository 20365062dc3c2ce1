"""Values, gradients, torch's requirements of an operator, and errors."""

from __future__ import annotations

import doctest
import functools
import re
import unittest
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from trifold.graduate.wheel_tests import calls, package
from trifold.isolation.recorder import Recorder

CASES = calls.read()


def each_cell(test: Callable[[Any, str, str, dict[str, Any]], None]) -> Callable[[Any], None]:
    """Run ``test`` for each op on each available device, with the op's recorded cases."""

    @functools.wraps(test)
    def run(self: unittest.TestCase) -> None:
        for op, device in package.cells():
            with self.subTest(op, device=device):
                test(self, op, device, CASES[op])

    return run


class Ops(unittest.TestCase):
    def assert_within(self, got: Tensor, recorded: dict[str, Any]) -> None:
        """``got`` is as close to the exact result as verified."""
        self.assertEqual(str(got.dtype), f"torch.{recorded['dtype']}")
        self.assertEqual(list(got.shape), recorded["shape"])
        if recorded["exact"] is None:  # several results are correct
            return
        if recorded["allowed"] is None:
            equal = calls.numbers(recorded["exact"], got)  # float8 as float64
            self.assertTrue(torch.equal(got.detach().cpu().to(equal.dtype), equal))
            return
        exact, allowed = (calls.numbers(recorded[name], got) for name in ("exact", "allowed"))
        actual = got.detach().double().cpu()
        wrong = (actual - exact).abs() > allowed
        special = ~torch.isfinite(exact)
        same = (actual == exact) | (actual.isnan() & exact.isnan())
        wrong = torch.where(special, ~same, wrong | ~actual.isfinite())
        self.assertFalse(bool(wrong.any()), f"{actual[wrong].tolist()[:3]} where {exact[wrong].tolist()[:3]} is exact")

    @each_cell
    def test_values_are_those_of_the_reference(self, op: str, device: str, cases: dict[str, Any]) -> None:
        if cases["random"] and device == "cuda":  # its generator has other numbers than the CPU's
            return
        for recorded in cases["results"]:
            made = calls.invoke(package.function(op), recorded["call"], device)
            for got, want in zip(made, recorded["results"], strict=True):
                self.assert_within(got, want)
                strides = [(size, step) for size, step in zip(want["shape"], want["strides"], strict=True) if size > 1]
                ours = [(size, step) for size, step in zip(got.shape, got.stride(), strict=True) if size > 1]
                self.assertEqual(ours, strides)

    @each_cell
    def test_gradients_are_those_of_the_reference(self, op: str, device: str, cases: dict[str, Any]) -> None:
        if cases["random"] and device == "cuda":
            return
        for recorded in cases["gradients"]:
            function, inputs = calls.of_tensors(package.function(op), recorded["call"], device)
            results = function(*inputs)
            upstream = [
                calls.numbers(values, result).to(result.dtype).to(device)
                for values, result in zip(recorded["upstream"], results, strict=True)
            ]
            for got, want in zip(torch.autograd.grad(results, inputs, upstream), recorded["results"], strict=True):
                self.assert_within(got, want)

    @each_cell
    def test_gradcheck(self, op: str, device: str, cases: dict[str, Any]) -> None:
        if cases["surrogate"]:  # the gradient is declared, not derived; the recorded ones do not apply
            return
        for call in cases["smooth"]:
            function, inputs = calls.of_tensors(package.function(op), call, device)
            self.assertTrue(torch.autograd.gradcheck(function, inputs, eps=1e-6, atol=1e-5, rtol=1e-3))

    @each_cell
    def test_second_derivatives_are_right_or_an_error(self, op: str, device: str, cases: dict[str, Any]) -> None:
        if cases["surrogate"] or not cases["smooth"]:
            return
        function, inputs = calls.of_tensors(package.function(op), cases["smooth"][0], device)
        try:
            self.assertTrue(torch.autograd.gradgradcheck(function, inputs, eps=1e-6, atol=1e-5, rtol=1e-3))
        except RuntimeError as error:
            self.assertIn("has no gradient", str(error))

    @each_cell
    def test_opcheck(self, op: str, device: str, cases: dict[str, Any]) -> None:
        call = cases["small"][-1]
        recorder = Recorder(package.module().package.namespace)
        operators = package.module().package.operators(op)
        with recorder:
            # With gradients if there are any, and then without: in a call without gradients, an operator may refuse
            # arguments that require one.
            _gradients(package.function(op), call, device) or calls.invoke(package.function(op), call, device)
        self.assertTrue(recorder.seen)
        for overload, args, kwargs in recorder.seen.values():
            # Not for calls without gradients: torch's check adds results of all types.
            if operators.has_gradient(overload._schema.name.partition("::")[2]):
                args = tuple(a.requires_grad_() if isinstance(a, Tensor) and a.is_floating_point() else a for a in args)
            torch.library.opcheck(overload, args, kwargs)

    @each_cell
    def test_it_compiles_as_one_graph(self, op: str, device: str, cases: dict[str, Any]) -> None:
        torch._dynamo.reset()
        # aot_eager traces forward and backward as torch.compile's own backend does, and needs no compiler.
        compiled = torch.compile(package.function(op), fullgraph=True, backend="aot_eager")
        call = cases["small"][-1]
        eager, traced = (_values_and_gradients(f, call, device) for f in (package.function(op), compiled))
        for one, other in zip(eager, traced, strict=True):
            self.assertEqual((one.shape, one.dtype), (other.shape, other.dtype))
            if not cases["random"]:  # draws by torch.compile's own rules
                torch.testing.assert_close(one, other)

    @each_cell
    def test_mistakes_are_errors_that_name_the_argument(self, op: str, device: str, cases: dict[str, Any]) -> None:
        for bad in cases["bad_calls"]:
            if device not in bad["devices"]:
                continue
            args, kwargs = calls.bad_arguments(bad, device)
            with self.subTest(f"{op}: {bad['name']}"):
                with self.assertRaises((RuntimeError, TypeError, ValueError, IndexError)) as raised:
                    package.function(op)(*args, **kwargs)
                for word in bad["mentions"]:
                    self.assertIn(word, str(raised.exception))

    def test_the_examples_in_the_docstrings_run(self) -> None:
        for op in package.ops():
            function = package.function(op)
            if package.lacks(op, "cpu") or re.search(r"\btrifold\b", function.__doc__ or ""):
                continue
            runner = doctest.DocTestRunner()
            for test in doctest.DocTestFinder(recurse=False).find(function, op, module=False, globs={}):
                runner.run(test)
            self.assertEqual(runner.summarize(verbose=False).failed, 0)


def _values_and_gradients(function: Any, call: dict[str, Any], device: str) -> list[Tensor]:
    values = [result.detach() for result in calls.invoke(function, call, device)]
    return [*values, *_gradients(function, call, device)]


def _gradients(function: Any, call: dict[str, Any], device: str) -> list[Tensor]:
    """None if no argument has one."""
    closed, inputs = calls.of_tensors(function, call, device)
    if not inputs:
        return []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        grads = torch.autograd.grad([result.sum() for result in closed(*inputs)], inputs, allow_unused=True)
    return [grad for grad in grads if grad is not None]
