"""The facts about tensors that follow from a launch function's checks."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

import torch

from trifold.draft import cpp
from trifold.draft import host_values as v
from trifold.draft.from_calls import FromCalls
from trifold.draft.host_cpp import call, text_of
from trifold.draft.host_parts import HostParts

#: What checks show about a tensor, and about a number that may be None.
_FIELDS = ("known", "dimensions", "at_least", "choices", "sizes", "like", "present", "expr")
_FIELDS_OF_NUMBER = ("present", "expr")

Known = v.Tensor | v.Perhaps
Knowledge = dict[Known, tuple[tuple[Any, ...], tuple[v.Tensor, ...]]]  # of each: those, and tensors of its shape


class HostFacts(HostParts):
    """A base class of the executor."""

    earlier: dict[str, v.Tensor]
    callers: list[dict[str, Any]]  # the names of the functions that called this one
    into: list[cpp.Stmt]
    globals: dict[str, Any]
    calls: FromCalls | None  # what check_as_called is still to be called with: after the function's first checks
    expecting: bool  # whether expect_earlier is still to be called: after the function's first checks

    def statement(self, node: ast.stmt, into: list[cpp.Stmt], rest: Sequence[ast.stmt]) -> Any:
        raise NotImplementedError

    def message_part(self, part: str | cpp.Expr) -> cpp.Expr:
        raise NotImplementedError

    def knowledge(self, values: Iterable[Known] | None = None, facts: v.Facts = ()) -> Knowledge:
        """What is known here about these values, or about all, but not about those that are absent by the ``facts``:
        what a check says of an optional tensor is not contradicted where there is none."""
        if values is None:
            values = _values_in((self.names, self.arguments, self.callers))
        absent = [each.value for each in facts if isinstance(each, v.Given) and not each.given]
        return {
            x: (
                tuple(getattr(x, name) for name in _fields(x)),
                tuple(x.same_shape) if isinstance(x, v.Tensor) else (),
            )
            for x in values
            if x not in absent
        }

    def know(self, before: Knowledge, *ways: Knowledge) -> None:
        """Restore what was known before code that may be skipped, and add what is known after each of the ``ways`` by
        which control arrives."""
        for value, (facts, same_shape) in before.items():
            arriving = [way[value] for way in ways if value in way]
            for number, (name, old) in enumerate(zip(_fields(value), facts, strict=True)):
                found = [new[number] for new, _ in arriving]
                agreed = bool(found) and all(each is found[0] or each == found[0] for each in found)
                setattr(value, name, found[0] if agreed else old)
            if isinstance(value, v.Tensor):
                first, *others = [shapes for _, shapes in arriving] or [same_shape]
                value.same_shape = [each for each in first if all(each in shapes for shapes in others)]

    def learn_in_branch(self, facts: v.Facts) -> None:
        """Of what a condition shows about tensors, what is not yet known."""
        for fact in [each for each in facts if isinstance(each, v.Fact)]:
            of_dtype = fact.dtypes is not None or fact.by_key is not None or fact.same_dtype is not None
            of_shape = (fact.dimensions, fact.at_least, fact.same_shape) != (None, None, None)
            news = fact.tensor.dtypes is None if of_dtype else of_shape
            if news:
                self.learn((fact,))

    def learn(self, facts: v.Facts) -> None:
        for fact in facts:
            if isinstance(fact, v.Given):
                if fact.given:
                    self.give(fact.value)
                continue
            if fact.dtypes is not None:
                self.set_dtypes(fact.tensor, fact.dtypes)
            if fact.by_key is not None:
                _make_root(fact.tensor)
                fact.tensor.known, fact.tensor.choices = fact.by_key, ()
            if fact.same_dtype is not None:
                _relate(fact.tensor, fact.same_dtype)
            if fact.same_shape is not None:
                fact.tensor.take_shape_of(fact.same_shape)
            if fact.sizes is not None and fact.tensor.dtypes is None:
                self.set_sizes(fact.tensor, fact.sizes)
            if fact.dimensions is not None:
                for each in (fact.tensor, *fact.tensor.same_shape):
                    each.dimensions = fact.dimensions
            if fact.at_least is not None:
                for each in (fact.tensor, *fact.tensor.same_shape):
                    each.at_least = max(each.at_least, fact.at_least)

    def require_dimensions(self, tensor: v.Tensor, count: int) -> None:
        """Check the number of dimensions where a shape is unpacked: Python raises an error for another length."""
        if tensor.dimensions is not None or not isinstance(tensor.expr, cpp.Name):
            return
        dimensions = "1 dimension" if count == 1 else f"{count} dimensions"
        words = f"{self.function.__name__}: {tensor.expr.text} must have {dimensions}, but is of shape "
        shape = cpp.Name(f"trifold::Shape{{{tensor.expr.text}}}")
        test = cpp.Infix("==", call(f"{tensor.expr.text}.dim"), cpp.Literal(str(count), count), type=v.BOOL)
        self.into.append(cpp.Run(cpp.CallTo("trifold::check", (test, self.message_part(words), shape))))
        self.learn((v.Fact(tensor, dimensions=count),))

    def require_length(self, numbers: v.Sizes | v.Floats, count: int) -> None:
        """Check the length of a list of numbers where it is unpacked: Python raises an error for another one."""
        size = self.length(numbers).expr
        name = text_of(numbers.expr).removesuffix(".value()")
        words = f"{self.function.__name__}: {name} must have {count} numbers, but their number is "
        test = cpp.Infix("==", size, cpp.Literal(str(count), count), type=v.BOOL)
        self.into.append(cpp.Run(cpp.CallTo("trifold::check", (test, self.message_part(words), size))))

    def set_dtypes(self, tensor: v.Tensor, dtypes: v.Dtypes) -> None:
        _make_root(tensor)
        may_be_absent = tensor.is_dtype and tensor.optional
        if self.key is None and len(dtypes) > 1 and not may_be_absent:
            self.key, self.key_dtypes = tensor, dtypes
            self.expecting = True
        if tensor is self.key and len(dtypes) > 1 and dtypes != self.key_dtypes:
            return  # the kernels are made for the dtypes of the first check, which another one narrows
        if tensor is not self.key and len(dtypes) > 1:
            tensor.choices = dtypes
            return
        tensor.known = dtypes * len(self.key_dtypes or (0,)) if len(dtypes) == 1 else dtypes

    def check_as_called(self, calls: FromCalls) -> None:
        """Check what the calls say of the arguments, where the function has no check of its own."""
        self.calls = None
        tensors = {name: each for name, value in self.arguments.items() if (each := v.with_dtype(value)) is not None}
        key = next((name for name, tensor in tensors.items() if tensor is self.key), None)
        self.globals.setdefault("torch", torch)
        for text in calls.checks(tensors, key):
            (statement,) = ast.parse(text).body
            self.statement(statement, self.into, ())

    def _in_own_order(self, dtypes: v.Dtypes | None) -> v.Dtypes | None:
        """The forward function's dtypes of a tensor, in the order of this function's key; None if the key is not one of
        its tensors, of the same dtypes."""
        name = next((name for name, tensor in self.arguments.items() if tensor is self.key), "")
        of_key = self.earlier[name].dtypes if name in self.earlier else None
        if dtypes is None or of_key is None or len(dtypes) != len(of_key) or {*of_key} != {*self.key_dtypes}:
            return None
        return tuple(dtypes[of_key.index(each)] for each in self.key_dtypes)

    def expect_earlier(self) -> None:
        """Check the dtypes that the forward function gives to tensors, where the function has no check of its own."""
        self.expecting = False
        for name, tensor in self.arguments.items():
            known = self.earlier.get(name)
            if known is None or tensor is self.key or not isinstance(tensor, v.Tensor) or not tensor.present:
                continue
            if tensor.dtypes is not None:
                continue
            dtypes = self._in_own_order(known.dtypes)
            if dtypes is None or dtypes == self.key_dtypes:
                continue
            dtype = self.dtype_code(v.DtypeOf(dtypes), ast.Constant(None))
            test = cpp.Infix("==", call("trifold::dtype_code", tensor.expr), dtype, type=v.BOOL)
            message = f"{self.function.__name__}: {name} must be of the dtype that the forward function gives it, not "
            words = cpp.Name(f"trifold::Dtype{{{text_of(tensor.expr)}}}")
            self.into.append(cpp.Run(cpp.CallTo("trifold::check", (test, self.message_part(message), words))))
            tensor.known = dtypes
            if known.dimensions is not None:
                self.require_dimensions(tensor, known.dimensions)


def _fields(value: Known) -> tuple[str, ...]:
    return _FIELDS if isinstance(value, v.Tensor) else _FIELDS_OF_NUMBER


def _values_in(values: Iterable[Any]) -> list[Known]:
    """The tensors, and the numbers that may be None, in terms of which values are known."""
    found: list[Known] = []
    waiting, seen = list(values), set[int]()
    while waiting:
        value = waiting.pop()
        if id(value) in seen or isinstance(value, (type, cpp.Expr)):
            continue
        seen.add(id(value))
        if isinstance(value, Known):
            found.append(value)
        if isinstance(value, (dict, tuple, list)):
            waiting += value.values() if isinstance(value, dict) else value
        elif dataclasses.is_dataclass(value):
            waiting += (getattr(value, each.name) for each in dataclasses.fields(value))
    return found


def _make_root(tensor: v.Tensor) -> None:
    """Make the tensor the one that determines the dtype of those that were said to have its dtype."""
    root = tensor.root
    if root is not tensor and root.known is None:
        root.like, tensor.like = tensor, None


def _relate(tensor: v.Tensor, other: v.Tensor) -> None:
    """Two tensors have one dtype: that of the one whose dtype was checked, or will be."""
    if tensor.root is other.root:
        return
    if tensor.known is not None or (tensor.choices and not other.choices and other.dtypes is None):
        tensor, other = other, tensor
    if tensor.known is None:
        tensor.root.choices = ()
        tensor.root.like = other
