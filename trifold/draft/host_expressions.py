"""Evaluates a launch function's expressions: what they are, and how C++ writes them."""

from __future__ import annotations

import ast
import dataclasses
import math
import operator
from collections.abc import Callable
from types import FunctionType
from typing import Any

import torch

from trifold.draft import cpp
from trifold.draft import host_values as v
from trifold.draft.builder import BINARY, COMPARE
from trifold.draft.cpp import fits
from trifold.draft.refusal import DraftError, Place

_RANGES: dict[Any, Callable[[Any, Any], Any]] = {
    operator.add: lambda a, b: (a[0] + b[0], a[1] + b[1]),
    operator.sub: lambda a, b: (a[0] - b[1], a[1] - b[0]),
    operator.mul: lambda a, b: (min(x * y for x in a for y in b), max(x * y for x in a for y in b)),
}
_SIGNS = {
    operator.add: "+", operator.sub: "-", operator.mul: "*", operator.truediv: "/", operator.lshift: "<<",
    operator.rshift: ">>", operator.and_: "&", operator.or_: "|",
    operator.lt: "<", operator.le: "<=", operator.gt: ">", operator.ge: ">=", operator.eq: "==", operator.ne: "!=",
}  # fmt: skip
DTYPE_NAMES = {
    torch.float64: "Double",
    torch.float32: "Float",
    torch.float16: "Half",
    torch.bfloat16: "BFloat16",
    torch.int64: "Long",
    torch.int32: "Int",
    torch.int16: "Short",
    torch.int8: "Char",
    torch.uint8: "Byte",
    torch.bool: "Bool",
}


_OPPOSITES = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}


def opposite(test: cpp.Expr) -> cpp.Expr:
    """Whether a condition on integers does not hold."""
    if isinstance(test, cpp.Prefix) and test.operator == "!":
        return test.operand
    whole = isinstance(test, cpp.Infix) and v.FLOAT not in (test.left.type, test.right.type)
    if whole and test.operator in _OPPOSITES:  # type: ignore[attr-defined]
        return cpp.Infix(_OPPOSITES[test.operator], test.left, test.right, type=v.BOOL)  # type: ignore[attr-defined]
    return cpp.Prefix("!", test, type=v.BOOL)


def infix(op: str, a: v.Number, b: v.Number, kind: Any, interval: Any = None) -> v.Number:
    return v.Number(cpp.Infix(op, a.expr, b.expr, type=kind, interval=interval), kind, interval)


def call(name: str, *arguments: cpp.Expr) -> cpp.CallTo:
    return cpp.CallTo(name, arguments)


class HostExpressions:
    """Mixed into the executor, which has ``names``, ``place``, ``key`` and ``called``."""

    names: dict[str, Any]
    key: v.Tensor | None
    key_dtypes: v.Dtypes
    globals: dict[str, Any]

    def place(self, node: ast.AST) -> Place:
        raise NotImplementedError

    def called(self, function: Any, arguments: list[Any], keywords: dict[str, Any], node: ast.Call) -> Any:
        raise NotImplementedError

    def evaluate(self, node: ast.expr) -> Any:
        match node:
            case ast.Constant(value=value):
                return value
            case ast.Name(id=name):
                if name in self.names:
                    return self.names[name]
                if name in self.globals:
                    return self.globals[name]
                raise DraftError(self.place(node), f"{name} has no value here")
            case ast.Attribute(value=base, attr=attribute):
                return self.attribute(self.evaluate(base), attribute, node)
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                return self.elements(elements)
            case ast.UnaryOp():
                return self.unary(node)
            case ast.BinOp(left=left, op=op, right=right):
                return self.binary(BINARY[type(op)], self.evaluate(left), self.evaluate(right), node)
            case ast.Compare():
                return self.comparison(node)
            case ast.BoolOp(op=op, values=values):
                return self.logical(isinstance(op, ast.And), values)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return self.choice(node, self.evaluate(test), body, orelse)
            case ast.Subscript(value=base, slice=index):
                return self.item(self.evaluate(base), index, node)
            case ast.JoinedStr(values=values):
                return self.text(values)
            case ast.Call(func=function, args=arguments, keywords=keywords):
                named = {}
                for keyword in keywords:
                    value = self.evaluate(keyword.value)
                    named.update(value if keyword.arg is None else {keyword.arg: value})
                return self.called(self.evaluate(function), self.elements(arguments), named, node)
            case ast.GeneratorExp() | ast.ListComp():
                return self.comprehension(node)
        raise DraftError(self.place(node), f"{type(node).__name__} in a launch function is not translated")

    def elements(self, nodes: list[ast.expr]) -> Any:
        found: list[Any] = []
        for node in nodes:
            if isinstance(node, ast.Starred):
                inner = self.evaluate(node.value)
                if isinstance(inner, v.Shape):
                    found += inner.parts
                elif isinstance(inner, (tuple, list)):
                    found += inner
                else:
                    raise DraftError(self.place(node), "what is unpacked here is not known while drafting")
            else:
                found.append(self.evaluate(node))
        return tuple(found)

    def comprehension(self, node: ast.GeneratorExp | ast.ListComp) -> tuple[Any, ...]:
        (one,) = node.generators
        if one.ifs or not isinstance(one.target, ast.Name):
            raise DraftError(self.place(node), "this comprehension is not translated")
        values = self.evaluate(one.iter)
        if not isinstance(values, tuple):
            raise DraftError(self.place(node), "the length of this comprehension is not known while drafting")
        before, found = dict(self.names), []
        for value in values:
            self.names[one.target.id] = value
            found.append(self.evaluate(node.elt))
        self.names = before
        return tuple(found)

    # --------------------------------------------------------------------------------------------- numbers

    def unary(self, node: ast.UnaryOp) -> Any:
        if isinstance(node.op, ast.USub):
            inner = node.operand
            if isinstance(inner, ast.BinOp) and isinstance(inner.op, ast.FloorDiv):
                rounded = self._rounded_up(inner)
                if rounded is not None:
                    return rounded
        value = self.evaluate(node.operand)
        if isinstance(node.op, ast.Not):
            if not isinstance(value, v.Number):
                return not value
            known = None if value.of_dtype is None else tuple(not each for each in value.of_dtype)
            negated = v.Number(
                opposite(self.truth(value).expr),
                v.BOOL,
                facts=self.facts_if_false.get(id(value), ()),
                of_dtype=known,
            )
            self.facts_if_false[id(negated)] = value.facts
            self.kept += [value, negated]
            return negated
        if not isinstance(value, v.Number):
            return {ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Invert: operator.invert}[type(node.op)](value)
        sign = {ast.USub: "-", ast.Invert: "~"}[type(node.op)]
        interval = None
        if value.interval is not None and sign == "-":
            interval = -value.interval[1], -value.interval[0]
        return v.Number(cpp.Prefix(sign, value.expr, type=value.type, interval=interval), value.type, interval)

    def _rounded_up(self, node: ast.BinOp) -> Any:
        """-(-a // b) is a / b, rounded up."""
        left = node.left
        negated = isinstance(left, ast.UnaryOp) and isinstance(left.op, ast.USub)
        if isinstance(left, ast.BinOp) and isinstance(left.op, ast.Mult):  # -a * b // c
            first = left.left
            if isinstance(first, ast.UnaryOp) and isinstance(first.op, ast.USub):
                a = self.binary(operator.mul, self.evaluate(first.operand), self.evaluate(left.right), node)
                return self._ceil(a, self.evaluate(node.right))
        if not negated:
            return None
        return self._ceil(self.evaluate(left.operand), self.evaluate(node.right))  # type: ignore[attr-defined]

    def _ceil(self, a: Any, b: Any) -> Any:
        if not isinstance(a, v.Number) and not isinstance(b, v.Number):
            return -(-a // b)
        x, y = v.number(a), v.number(b)
        interval = None
        if x.interval is not None and y.interval is not None and x.interval[0] >= 0 and y.interval[0] >= 1:
            interval = -(-x.interval[0] // y.interval[1]), -(-x.interval[1] // y.interval[0])
        return v.Number(cpp.CallTo("trifold::ceil_div", (x.expr, y.expr), type=v.INT, interval=interval), v.INT, interval)

    def binary(self, op: Any, a: Any, b: Any, node: ast.AST) -> Any:
        if isinstance(a, v.Text) or isinstance(b, v.Text):
            return v.Text((*_text_parts(a), *_text_parts(b)))
        if isinstance(a, v.Shape) and isinstance(b, (tuple, v.Shape)):
            return v.Shape((*a.parts, *(b.parts if isinstance(b, v.Shape) else b)))
        if not isinstance(a, v.Number) and not isinstance(b, v.Number):
            return op(a, b)
        x, y = v.number(a), v.number(b)
        known = self._by_dtype(op, x, y, a, b)
        kind = v.FLOAT if v.FLOAT in (x.type, y.type) or op is operator.truediv else v.INT
        both = (x.interval or (None if x.type != v.BOOL else (0, 1))), (y.interval or (None if y.type != v.BOOL else (0, 1)))
        if op in (operator.floordiv, operator.mod):
            result = self._divided(op, x, y, kind)
        else:
            if op not in _SIGNS:
                raise DraftError(self.place(node), "this operator is not translated in a launch function")
            if op is operator.lshift and isinstance(a, int):
                x = v.Number(cpp.Name(f"int64_t{{{a}}}", type=v.INT, interval=(a, a)), v.INT, (a, a))
            interval = None
            if kind == v.INT and all(each is not None for each in both) and op in _RANGES:
                interval = _RANGES[op](*both)
                if not fits(interval, v.INT[0]):
                    interval = None
            result = infix(_SIGNS[op], x, y, kind, interval)
        result.of_dtype = known
        return result

    def _by_dtype(self, op: Any, x: v.Number, y: v.Number, a: Any, b: Any) -> tuple[Any, ...] | None:
        lefts = x.of_dtype or (None if isinstance(a, v.Number) else (a,) * len(self.key_dtypes))
        rights = y.of_dtype or (None if isinstance(b, v.Number) else (b,) * len(self.key_dtypes))
        if lefts is None or rights is None:
            return None
        return tuple(op(p, q) for p, q in zip(lefts, rights, strict=True))

    def _divided(self, op: Any, x: v.Number, y: v.Number, kind: Any) -> v.Number:
        plain = x.interval and y.interval and x.interval[0] >= 0 and y.interval[0] >= 1
        interval = None
        if plain and op is operator.floordiv:
            interval = x.interval[0] // y.interval[1], x.interval[1] // y.interval[0]  # type: ignore[index]
        elif plain:
            interval = 0, y.interval[1] - 1  # type: ignore[index]
        if plain:
            return infix("/" if op is operator.floordiv else "%", x, y, kind, interval)
        name = "trifold::floor_div" if op is operator.floordiv else "trifold::floor_mod"
        return v.Number(cpp.CallTo(name, (x.expr, y.expr), type=kind), kind)

    # --------------------------------------------------------------------------------------------- conditions

    def truth(self, value: Any) -> Any:
        """As a condition: a Python bool where it is known."""
        if isinstance(value, v.Tensor | v.Shape):
            raise TypeError("a tensor is no condition")
        if isinstance(value, v.Number) and value.type != v.BOOL:
            zero = v.number(0)
            return infix("!=", value, zero, v.BOOL)
        return value if isinstance(value, v.Number) else bool(value)

    def logical(self, all_of: bool, nodes: list[ast.expr]) -> Any:
        parts: list[v.Number] = []
        for node in nodes:
            value = self.truth(self.evaluate(node))
            if isinstance(value, bool):
                if value is not all_of:
                    return value if not parts else self._joined(all_of, parts)
                continue
            parts.append(value)
        return self._joined(all_of, parts) if parts else all_of

    def _joined(self, all_of: bool, parts: list[v.Number]) -> v.Number:
        result = parts[0]
        for part in parts[1:]:
            facts = (*result.facts, *part.facts) if all_of else ()
            known = None
            if result.of_dtype is not None and part.of_dtype is not None:
                choose = all if all_of else any
                known = tuple(choose(pair) for pair in zip(result.of_dtype, part.of_dtype, strict=True))
            expr = cpp.Infix("&&" if all_of else "||", result.expr, part.expr, type=v.BOOL)
            result = v.Number(expr, v.BOOL, facts=facts, of_dtype=known)
        return result

    def comparison(self, node: ast.Compare) -> Any:
        values = [self.evaluate(each) for each in (node.left, *node.comparators)]
        parts = []
        for op, a, b in zip(node.ops, values, values[1:], strict=False):
            one = self._compared(op, a, b, node)
            if isinstance(one, bool):
                if not one:
                    return False
                continue
            parts.append(one)
        return self._joined(True, parts) if parts else True

    def _compared(self, op: ast.cmpop, a: Any, b: Any, node: ast.AST) -> Any:
        if isinstance(op, (ast.Is, ast.IsNot)):
            return self._is_none(isinstance(op, ast.IsNot), a, b, node)
        if isinstance(op, (ast.In, ast.NotIn)):
            return self._is_in(isinstance(op, ast.NotIn), a, b, node)
        compare = COMPARE[type(op)]
        sign = _SIGNS[compare]
        if isinstance(a, v.DtypeOf) or isinstance(b, v.DtypeOf):
            return self._dtypes_equal(sign == "!=", a, b, node)
        if isinstance(a, v.DeviceOf) and isinstance(b, v.DeviceOf):
            same = call("trifold::same_device", a.tensor.expr, b.tensor.expr)
            return v.Number(same if sign == "==" else cpp.Prefix("!", same), v.BOOL)
        if isinstance(a, (v.Shape, v.Sizes)) or isinstance(b, (v.Shape, v.Sizes)):
            return self._shapes_equal(sign == "!=", a, b, node)
        if isinstance(a, tuple) and isinstance(b, tuple) and sign in ("==", "!="):
            return self._tuples_equal(sign == "!=", a, b, node)
        if not isinstance(a, v.Number) and not isinstance(b, v.Number):
            return compare(a, b)
        x, y = v.number(a), v.number(b)
        result = infix(sign, x, y, v.BOOL)
        result.of_dtype = self._by_dtype(compare, x, y, a, b)
        if sign == "==" and isinstance(x.expr, cpp.CallTo) and isinstance(b, int):
            owner = self.dimension_calls.get(id(x.expr))
            if owner is not None:
                result.facts = (v.Fact(owner, dimensions=b),)
        return result

    def _tuples_equal(self, negated: bool, a: tuple[Any, ...], b: tuple[Any, ...], node: ast.AST) -> Any:
        if len(a) != len(b):
            return negated
        parts = [self._compared(ast.Eq(), x, y, node) for x, y in zip(a, b, strict=True)]
        if all(isinstance(part, bool) for part in parts):
            return all(parts) != negated
        joined = self._joined(True, [v.number(part) for part in parts])
        return v.Number(opposite(joined.expr), v.BOOL) if negated else joined

    dimension_calls: dict[int, v.Tensor]

    def _is_none(self, negated: bool, a: Any, b: Any, node: ast.AST) -> Any:
        if b is not None:
            if isinstance(a, v.Tensor) and isinstance(b, v.Tensor):
                return self._same_tensor(negated, a, b, node)
            raise DraftError(self.place(node), "only `is None` is translated")
        if not isinstance(a, v.Tensor) or not a.optional or a.present:
            return (a is not None) if negated else (a is None)
        given = call(f"{_base(a.expr)}.has_value")
        expr: cpp.Expr = given if negated else cpp.Prefix("!", given)
        result = v.Number(expr, v.BOOL, facts=(v.Fact(a, given=negated),))
        self.facts_if_false[id(result)] = (v.Fact(a, given=not negated),)
        self.kept.append(result)
        return result

    def _same_tensor(self, negated: bool, a: v.Tensor, b: v.Tensor, node: ast.AST) -> Any:
        same = call("trifold::same_memory", a.expr, b.expr)
        return v.Number(cpp.Prefix("!", same) if negated else same, v.BOOL)

    def _is_in(self, negated: bool, a: Any, b: Any, node: ast.AST) -> Any:
        if not isinstance(b, tuple):
            raise DraftError(self.place(node), "`in` is translated for a tuple")
        if isinstance(a, v.DtypeOf):
            return self._dtype_in(negated, a, b, node)
        parts = [self._compared(ast.Eq(), a, each, node) for each in b]
        if all(isinstance(part, bool) for part in parts):
            return any(parts) != negated
        joined = self._joined(False, [v.number(part) for part in parts])
        return v.Number(opposite(joined.expr), v.BOOL) if negated else joined

    def _dtype_in(self, negated: bool, a: v.DtypeOf, b: tuple[Any, ...], node: ast.AST) -> Any:
        assert a.tensor is not None
        tests = [self.dtype_is(a.tensor, each) for each in b]
        joined: cpp.Expr = tests[0]
        for test in tests[1:]:
            joined = cpp.Infix("||", joined, test, type=v.BOOL)
        facts = (v.Fact(a.tensor, dtypes=tuple(b)),)
        return self._knowing(cpp.Prefix("!", joined) if negated else joined, facts, negated)

    facts_if_false: dict[int, tuple[v.Fact, ...]]
    kept: list[Any]

    def dtype_is(self, tensor: v.Tensor, dtype: torch.dtype) -> cpp.Expr:
        own = cpp.CallTo(f"{_base(tensor.expr)}.scalar_type", ())
        return cpp.Infix("==", own, cpp.Name(f"trifold::ScalarType::{DTYPE_NAMES[dtype]}"), type=v.BOOL)

    def _dtypes_equal(self, negated: bool, a: Any, b: Any, node: ast.AST) -> Any:
        if isinstance(b, v.DtypeOf) and not isinstance(a, v.DtypeOf):
            a, b = b, a
        facts: tuple[v.Fact, ...] = ()
        known = None
        dtypes = [each.dtypes if isinstance(each, v.DtypeOf) else (each,) * len(self.key_dtypes) for each in (a, b)]
        if dtypes[0] is not None and dtypes[1] is not None and len(dtypes[0]) == len(dtypes[1]):
            known = tuple((p == q) != negated for p, q in zip(*dtypes, strict=True))
        if a.tensor is None and isinstance(b, v.DtypeOf) and b.tensor is not None:
            a, b = b, a
        if a.tensor is None:
            if known is not None and len(set(known)) == 1:
                return known[0]
            raise DraftError(self.place(node), "these dtypes are not compared")
        if isinstance(b, v.DtypeOf) and b.tensor is not None:
            expr: cpp.Expr = call("trifold::same_dtype", a.tensor.expr, b.tensor.expr)
            if b.tensor.dtypes is not None:
                facts = (v.Fact(a.tensor, dtypes=b.tensor.dtypes),)
            elif a.tensor.dtypes is not None:
                facts = (v.Fact(b.tensor, dtypes=a.tensor.dtypes),)
        elif isinstance(b, v.DtypeOf):
            expr = cpp.Infix("==", call("trifold::dtype_code", a.tensor.expr), self.dtype_code(b, node), type=v.BOOL)
        else:
            expr = self.dtype_is(a.tensor, b)
            facts = (v.Fact(a.tensor, dtypes=(b,)),)
        if negated:
            expr = cpp.Infix("!=", expr.left, expr.right, type=v.BOOL) if isinstance(expr, cpp.Infix) else cpp.Prefix("!", expr)
        return self._knowing(expr, facts, negated, known)

    def _knowing(
        self, expr: cpp.Expr, facts: tuple[v.Fact, ...], negated: bool, known: tuple[Any, ...] | None = None
    ) -> v.Number:
        """A condition, and what is true of tensors if it holds; or if it does not."""
        result = v.Number(expr, v.BOOL, facts=() if negated else facts, of_dtype=known)
        if negated:
            self.facts_if_false[id(result)] = facts
        self.kept.append(result)
        return result

    def dtype_code(self, dtype: Any, node: ast.AST) -> cpp.Expr:
        """libtorch's number of a dtype."""
        if isinstance(dtype, torch.dtype):
            return call("trifold::dtype_code", cpp.Name(f"trifold::ScalarType::{DTYPE_NAMES[dtype]}"))
        if isinstance(dtype, v.DtypeOf) and dtype.tensor is not None:
            return call("trifold::dtype_code", dtype.tensor.expr)
        if isinstance(dtype, v.DtypeOf) and dtype.dtypes is not None and self.key is not None:
            wide = tuple(torch.float64 if each == torch.float64 else torch.float32 for each in self.key_dtypes)
            if dtype.dtypes == wide:
                return call("trifold::compute_dtype", self.key.expr)
            if len(set(dtype.dtypes)) == 1:
                return self.dtype_code(dtype.dtypes[0], node)
            if dtype.dtypes == self.key_dtypes:
                return call("trifold::dtype_code", self.key.expr)
        raise DraftError(self.place(node), "this dtype is not translated")

    def _shapes_equal(self, negated: bool, a: Any, b: Any, node: ast.AST) -> v.Number:
        facts: tuple[v.Fact, ...] = ()
        whole = _whole(a)
        if whole is not None and isinstance(b, tuple):
            facts = (v.Fact(whole, dimensions=len(b)),)
        exprs = [self.dims(each, node) for each in (a, b)]
        same = call("trifold::same_sizes", *exprs)
        return self._knowing(cpp.Prefix("!", same) if negated else same, facts, negated)

    def dims(self, shape: Any, node: ast.AST) -> cpp.Expr:
        """A shape as a list of numbers, for a function that takes ``trifold::Dims``."""
        if isinstance(shape, v.Sizes):
            return shape.expr
        whole = _whole(shape)
        if whole is not None:
            return call(f"{_base(whole.expr)}.sizes")
        parts = shape.parts if isinstance(shape, v.Shape) else shape if isinstance(shape, tuple) else (shape,)
        if any(isinstance(part, v.Part) for part in parts):
            written = []
            for part in parts:
                if isinstance(part, v.Part):
                    start, stop = cpp.Name(str(part.start)), cpp.Name(str(part.stop))
                    written.append(call("trifold::sizes_of", part.tensor.expr, start, stop))
                else:
                    written.append(v.number(part).expr)
            return call("trifold::sizes", *written)
        return cpp.Braces(tuple(v.number(part).expr for part in parts))

    # --------------------------------------------------------------------------------------------- choices

    def choice(self, node: ast.IfExp, test: Any, body: ast.expr, orelse: ast.expr) -> Any:
        test = self.truth(test)
        if isinstance(test, bool):
            return self.evaluate(body if test else orelse)
        with_facts = self.assuming(test.facts)
        chosen = _copied(self.evaluate(body))
        self.restore(with_facts)
        with_facts = self.assuming(self.facts_if_false.get(id(test), ()))
        otherwise = _copied(self.evaluate(orelse))
        self.restore(with_facts)
        return self.chosen(test, chosen, otherwise, node)

    def chosen(self, test: v.Number, chosen: Any, otherwise: Any, node: ast.AST) -> Any:
        if isinstance(chosen, v.Tensor) and isinstance(otherwise, v.Tensor):
            dtypes = self._either(test, chosen.dtypes, otherwise.dtypes)
            if dtypes is None and chosen.dtypes is not None and otherwise.dtypes is not None:
                return v.Either(test, chosen, otherwise)
            same = chosen.dimensions == otherwise.dimensions
            expr = cpp.Ternary(test.expr, chosen.expr, otherwise.expr)
            return v.Tensor(expr, dtypes, chosen.dimensions if same else None, dense=chosen.dense and otherwise.dense)
        shapes = (v.Shape, v.Sizes, tuple)
        if isinstance(chosen, shapes) and isinstance(otherwise, shapes) and _has_sizes(chosen, otherwise):
            lists = [self._list(each, node) for each in (chosen, otherwise)]
            return v.Sizes(cpp.Ternary(test.expr, *lists))
        if isinstance(chosen, tuple) and isinstance(otherwise, tuple) and len(chosen) == len(otherwise):
            return tuple(self.chosen(test, a, b, node) for a, b in zip(chosen, otherwise, strict=True))
        if _is_dtype(chosen) and _is_dtype(otherwise):
            lists = [each.dtypes if isinstance(each, v.DtypeOf) else (each,) * len(self.key_dtypes) for each in (chosen, otherwise)]
            found = self._either(test, *lists)
            if found is not None:
                return v.DtypeOf(found)
            raise DraftError(self.place(node), "which dtype this is depends on more than the dtypes of the arguments")
        if _is_number(chosen) and _is_number(otherwise):
            x, y = v.number(chosen), v.number(otherwise)
            kind = v.FLOAT if v.FLOAT in (x.type, y.type) else v.BOOL if x.type == y.type == v.BOOL else v.INT
            interval = None
            if x.interval is not None and y.interval is not None:
                interval = min(x.interval[0], y.interval[0]), max(x.interval[1], y.interval[1])
            return v.Number(cpp.Ternary(test.expr, x.expr, y.expr, type=kind, interval=interval), kind, interval)
        if chosen is otherwise or (isinstance(chosen, str) and chosen == otherwise):
            return chosen
        return v.Either(test, chosen, otherwise)

    def _list(self, shape: Any, node: ast.AST) -> cpp.Expr:
        if isinstance(shape, v.Sizes):
            return shape.expr
        parts = shape.parts if isinstance(shape, v.Shape) else shape
        written = []
        for part in parts:
            if isinstance(part, v.Part):
                ends = (cpp.Name(str(part.start)), cpp.Name(str(part.stop)))
                written.append(call("trifold::sizes_of", part.tensor.expr, *ends))
            else:
                written.append(v.number(part).expr)
        return call("trifold::sizes", *written)

    def _either(self, test: v.Number, a: Any, b: Any) -> Any:
        if a == b:
            return a
        if test.of_dtype is None or a is None or b is None:
            return None
        count = len(self.key_dtypes)
        if len(a) == 1:
            a = a * count
        if len(b) == 1:
            b = b * count
        return tuple(p if known else q for known, p, q in zip(test.of_dtype, a, b, strict=True))

    def assuming(self, facts: tuple[v.Fact, ...]) -> list[tuple[v.Tensor, bool, cpp.Expr]]:
        before = []
        for fact in facts:
            tensor = fact.tensor
            before.append((tensor, tensor.present, tensor.expr))
            if fact.given:
                self.give(tensor)
        return before

    def give(self, tensor: v.Tensor) -> None:
        """From here on an optional tensor is one."""
        if tensor.optional and not tensor.present:
            tensor.present = True
            tensor.expr = cpp.Name(f"{_base(tensor.expr)}.value()")

    def restore(self, before: list[tuple[v.Tensor, bool, cpp.Expr]]) -> None:
        for tensor, present, expr in reversed(before):
            tensor.present, tensor.expr = present, expr

    # --------------------------------------------------------------------------------------------- texts

    def text(self, nodes: list[ast.expr]) -> v.Text | str:
        parts: list[str | cpp.Expr] = []
        for node in nodes:
            if isinstance(node, ast.Constant):
                parts.append(str(node.value))
                continue
            assert isinstance(node, ast.FormattedValue)
            if node.format_spec is not None:
                raise DraftError(self.place(node), "a format in a message is not translated", "leave it out")
            parts += self.in_words(self.evaluate(node.value), node)
        if all(isinstance(part, str) for part in parts):
            return "".join(str(part) for part in parts)
        return v.Text(tuple(parts))

    def in_words(self, value: Any, node: ast.AST) -> list[str | cpp.Expr]:
        match value:
            case v.Text(parts=parts):
                return list(parts)
            case v.Number(expr=expr):
                return [expr]
            case v.Shape():
                whole = _whole(value)
                if whole is not None:
                    return [cpp.Name(f"trifold::Shape{{{_base(whole.expr)}}}")]
            case v.DtypeOf(tensor=tensor) if tensor is not None:
                return ["torch.", cpp.Name(f"trifold::Dtype{{{_base(tensor.expr)}}}")]
            case v.DeviceOf(tensor=tensor):
                return [cpp.Name(f"trifold::Place{{{_base(tensor.expr)}}}")]
            case str() | int() | float() | torch.dtype():
                return [str(value)]
        raise DraftError(self.place(node), "this value in a message is not translated")

    # --------------------------------------------------------------------------------------------- parts

    def attribute(self, base: Any, name: str, node: ast.AST) -> Any:
        raise NotImplementedError

    def item(self, base: Any, index: ast.expr, node: ast.AST) -> Any:
        raise NotImplementedError


def _text_parts(value: Any) -> tuple[str | cpp.Expr, ...]:
    return value.parts if isinstance(value, v.Text) else (str(value),)


def _base(expr: cpp.Expr) -> str:
    from trifold.draft.printer import expression

    text = expression(expr)
    return text if isinstance(expr, (cpp.Name, cpp.CallTo, cpp.Member)) else f"({text})"


def _whole(shape: Any) -> v.Tensor | None:
    """The tensor of which this is the shape."""
    if isinstance(shape, v.Shape) and len(shape.parts) == 1:
        (part,) = shape.parts
        if isinstance(part, v.Part) and part.start == 0 and part.stop == 0:
            return part.tensor
    return None


def _has_sizes(*shapes: Any) -> bool:
    """Whether one of them is the shape of a tensor, or they differ in length."""
    plain = all(isinstance(each, tuple) and not any(isinstance(p, v.Part) for p in each) for each in shapes)
    return not plain or len({len(each) for each in shapes}) > 1


def _copied(value: Any) -> Any:
    """A tensor as it is now: where an optional one is known to be given."""
    return dataclasses.replace(value, like=value) if isinstance(value, v.Tensor) and value.optional else value


def _is_dtype(value: Any) -> bool:
    return isinstance(value, (v.DtypeOf, torch.dtype))


def _is_number(value: Any) -> bool:
    return isinstance(value, (v.Number, bool, int, float))


__all__ = ["DTYPE_NAMES", "FunctionType", "HostExpressions", "call", "infix", "math"]
