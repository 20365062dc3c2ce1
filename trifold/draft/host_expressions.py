"""Evaluates a launch function's expressions: their values, and their C++."""

from __future__ import annotations

import ast
import dataclasses
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from numba import types

from trifold.draft import cpp
from trifold.draft import host_values as v
from trifold.draft.cpp import fits
from trifold.draft.expressions import least_type
from trifold.draft.folding import BINARY, UNARY
from trifold.draft.from_calls import Unchecked
from trifold.draft.host_comprehensions import HostComprehensions
from trifold.draft.host_cpp import SIGNS, infix, opposite, text_of
from trifold.draft.host_powers import as_float, power
from trifold.draft.host_ranges import range_of_result
from trifold.draft.host_syntax import statement_remedy
from trifold.draft.host_texts import text_parts
from trifold.draft.refusal import DraftError
from trifold.draft.reserved import FUNCTION_NAMES
from trifold.draft.source import as_function, is_short_row
from trifold.draft.variables import KEYWORDS


class HostExpressions(HostComprehensions):
    """A base class of the executor."""

    function: Any  # the launch function
    arguments: dict[str, Any]
    globals: dict[str, Any]
    taken: set[str]
    constants: dict[str, tuple[int | float, types.Type]]  # of the binding, with their types in kernels

    def called(self, function: Any, arguments: tuple[Any, ...], keywords: dict[str, Any], node: ast.Call) -> Any:
        raise NotImplementedError

    def is_inlined(self, function: Any) -> bool:
        raise NotImplementedError

    def evaluate(self, node: ast.expr) -> Any:
        match node:
            case ast.Constant(value=value):
                return value
            case ast.Name(id=name):
                if name in self.names:
                    return self._read(name, node)
                if name in self.globals:
                    return self.constant(name, self.globals[name])
                raise DraftError(
                    self.place(node), f"{name} has no value here", "assign it before, or define it in the module"
                )
            case ast.Attribute(value=base, attr=attribute):
                return self.attribute(self.evaluate(base), attribute, node)
            case ast.Tuple(elts=elements) | ast.Set(elts=elements):
                return self.elements(elements)
            case ast.List(elts=elements):
                return v.listed(self.elements(elements))
            case ast.Dict(keys=keys, values=values) if None not in keys:
                entries = zip(self.elements([k for k in keys if k]), self.elements(values), strict=True)
                return dict(entries)
            case ast.UnaryOp():
                return self.unary(node)
            case ast.BinOp(left=left, op=op, right=right):
                return self.binary(BINARY[type(op)], self.evaluate(left), self.evaluate(right), node)
            case ast.Compare():
                return self.comparison(node)
            case ast.BoolOp() if self.is_choice(node):
                is_number = isinstance(self.argument(node.values[0]), v.Perhaps)
                return self.evaluate(_unless_none(node, is_number=is_number))
            case ast.BoolOp(op=op, values=values):
                return self.logical(isinstance(op, ast.And), values)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return self.choice(node, self.evaluate(test), body, orelse)
            case ast.Subscript(value=base, slice=index):
                return self.item(self.evaluate(base), index, node)
            case ast.JoinedStr(values=values):
                return self.text(values)
            case ast.Call(func=function, args=arguments, keywords=keywords):
                called = self.evaluate(function)
                evaluate = self.argument if self.is_inlined(called) else self.evaluate
                named: dict[str, Any] = {}
                for keyword in keywords:
                    value = evaluate(keyword.value)
                    named.update(value if keyword.arg is None else {keyword.arg: value})
                given = self.elements(arguments, evaluate)
                return self.called(called, given if isinstance(given, tuple) else (given,), named, node)
            case ast.Lambda():
                return v.Local(as_function(node), self.names)
            case ast.GeneratorExp() | ast.ListComp():
                return self.comprehension(node)
        problem = f"{type(node).__name__} in a launch function is not translated"
        raise DraftError(self.place(node), problem, statement_remedy(node))

    def _read(self, name: str, node: ast.AST) -> Any:
        """The value of a variable: a dtype that checks have since determined by its name, a number that is given."""
        value = self.names[name]
        if isinstance(value, v.DtypeOf) and value.tensor is not None:
            if not value.tensor.present and value.tensor.is_dtype:
                raise DraftError(self.place(node), f"{name} may be None here", f"check it before: if {name} is None:")
            return v.DtypeOf(value.tensor.dtypes, value.tensor, value.scalar)
        if isinstance(value, v.Perhaps):
            if not value.present:
                raise DraftError(self.place(node), f"{name} may be None here", f"check it before: if {name} is None:")
            return value.value
        return value

    def is_choice(self, node: ast.BoolOp) -> bool:
        """Whether it is ``a or b`` for a number or dtype ``a`` that may be None: a value, not a condition."""
        first = node.values[0]
        value = self.names.get(first.id) if isinstance(node.op, ast.Or) and isinstance(first, ast.Name) else None
        if isinstance(value, v.DtypeOf):
            value = v.with_dtype(value)
        elif not isinstance(value, v.Perhaps):
            return False
        return value is not None and not value.present

    def argument(self, node: ast.expr) -> Any:
        """The value of what may be None: an operand of ``is``, or an argument of a helper."""
        value = self.names.get(node.id) if isinstance(node, ast.Name) else None
        return value if isinstance(value, (v.Perhaps, v.DtypeOf)) else self.evaluate(node)

    def constant(self, name: str, value: Any) -> Any:
        """A number defined outside the function keeps its name, unless a variable has that name."""
        own = name.lstrip("_")
        if type(value) is tuple and is_short_row(value):
            return tuple(self.constant(f"{name}_{number}", each) for number, each in enumerate(value))
        if type(value) not in (int, float) or not own.isupper() or not math.isfinite(value):
            return value
        if (name, value) == ("THREADS_PER_BLOCK", v.THREADS_PER_BLOCK):
            return v.THREADS_PER_BLOCK
        kind = types.float64 if isinstance(value, float) else least_type(value, types.int64)
        taken = own in self.tables or (own in self.taken and own not in self.constants)
        if taken or own in KEYWORDS or own in FUNCTION_NAMES:
            return value
        if self.constants.setdefault(own, (value, kind)) != (value, kind):
            return value
        self.taken.add(own)
        return v.named(value, cpp.Name(own))

    def elements(self, nodes: list[ast.expr], evaluate: Callable[[ast.expr], Any] | None = None) -> Any:
        """The values of some expressions: a tuple, or a list if another list is unpacked in it."""
        found: list[Any] = []
        unpacked = False
        for node in nodes:
            if isinstance(node, ast.Starred):
                inner = self.evaluate(node.value)
                if isinstance(inner, v.Shape):
                    found += (each for part in inner.parts for each in self.sizes_in(part))
                elif isinstance(inner, (tuple, list)):
                    found += inner
                elif isinstance(inner, v.Sizes):
                    found.append(inner)
                    unpacked = True
                else:
                    raise DraftError(
                        self.place(node),
                        "what is unpacked here is not known while drafting",
                        "unpack a tuple or a shape",
                    )
            else:
                found.append((evaluate or self.evaluate)(node))
        return v.Sizes(self.joined_sizes(found)) if unpacked else tuple(found)

    def sizes_in(self, part: Any) -> Sequence[Any]:
        """A range of a shape's dimensions as its sizes, if their number is known."""
        if not isinstance(part, v.Part) or part.tensor.dimensions is None:
            return [part]
        return [self.size(part.tensor, d) for d in range(part.start, part.tensor.dimensions + part.stop)]

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
            test = value if isinstance(value, v.Number) else self.truth(value)
            return self.negation(test) if isinstance(test, v.Number) else not test
        if not isinstance(value, v.Number):
            return UNARY[type(node.op)](value)
        sign = {ast.USub: "-", ast.Invert: "~"}[type(node.op)]
        interval = None
        if value.interval is not None and sign == "-":
            interval = -value.interval[1], -value.interval[0]
        return v.Number(cpp.Prefix(sign, value.expr, type=value.type, interval=interval), value.type, interval)

    def negation(self, value: v.Number) -> v.Number:
        """``not value``."""
        known = None if value.of_dtype is None else tuple(not each for each in value.of_dtype)
        certain = None
        if value.certain is not None:
            certain = tuple(None if each is None else not each for each in value.certain)
        facts = self.facts_if_false.get(id(value), ())
        negated = v.Number(opposite(self.truth(value).expr), v.BOOL, facts=facts, of_dtype=known, certain=certain)
        self.facts_if_false[id(negated)] = value.facts
        self.kept += [value, negated]
        return negated

    def _rounded_up(self, node: ast.BinOp) -> Any:
        """-(-a // b): a / b, rounded up."""
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
        return v.Number(
            cpp.CallTo("trifold::ceil_div", (x.expr, y.expr), type=v.INT, interval=interval), v.INT, interval
        )

    def binary(self, op: Any, a: Any, b: Any, node: ast.AST) -> Any:
        if isinstance(a, v.Text) or isinstance(b, v.Text):
            return v.Text((*text_parts(a), *text_parts(b)))
        if op is operator.add and v.Sizes in (type(a), type(b)):
            parts = [each.parts if isinstance(each, v.Shape) else each for each in (a, b)]
            lists = [each if isinstance(each, tuple) else (each,) for each in parts]
            return v.Sizes(self.joined_sizes([*lists[0], *lists[1]]), getattr(a, "listed", False))
        if isinstance(a, v.Shape) and isinstance(b, (tuple, v.Shape)):
            return v.Shape((*a.parts, *(b.parts if isinstance(b, v.Shape) else b)))
        if isinstance(a, str) and op is operator.mod:
            return self.formatted(a, b if isinstance(b, tuple) else (b,), node)
        if not isinstance(a, v.Number) and not isinstance(b, v.Number):
            return _of_constants(op, a, b)
        if not all(isinstance(each, (v.Number, bool, int, float)) for each in (a, b)):
            raise DraftError(
                self.place(node),
                "this operator is not translated in a launch function",
                "compute with numbers and sizes; let a kernel compute with tensors",
            )
        x, y = v.number(a), v.number(b)
        known = self.by_dtype(op, x, y, a, b)
        kind = v.FLOAT if v.FLOAT in (x.type, y.type) or op is operator.truediv else v.INT
        x, y = self.with_known_range(x), self.with_known_range(y)
        if type(b) is int and b == 1 and x.type == v.INT and op in (operator.floordiv, operator.mul):
            return x
        both = (
            (x.interval or (None if x.type != v.BOOL else (0, 1))),
            (y.interval or (None if y.type != v.BOOL else (0, 1))),
        )
        if op in (operator.floordiv, operator.mod):
            result = self._divided(op, x, y, kind)
        elif op is operator.pow:
            return power(x, y, self.place(node))
        else:
            if op not in SIGNS:
                raise DraftError(
                    self.place(node),
                    "this operator is not translated in a launch function",
                    "compute with numbers and sizes; let a kernel compute with tensors",
                )
            if op is operator.lshift and isinstance(a, int):
                x = v.Number(cpp.Name(f"int64_t{{{a}}}", type=v.INT, interval=(a, a)), v.INT, (a, a))
            whole = op is operator.truediv and v.FLOAT not in (x.type, y.type)
            if whole:
                x = as_float(x)
            interval = range_of_result(op, *both) if kind == v.INT else None
            result = infix(SIGNS[op], x, y, kind, interval)
            result.quotient = (a, b) if whole else None
        result.of_dtype = known
        given = [each.precision for each in (x, y) if each.precision is not None]
        # A float32 and a number of which a condition decides: it decides of the result.
        precision = max(given, key=lambda each: each.wide is not None, default=None)
        return result if precision is None else self.rounded(precision, result)

    def with_known_range(self, x: v.Number) -> v.Number:
        """A number that depends on the key's dtype, restricted to the dtypes for which this is reached."""
        if x.of_dtype is None or x.type != v.INT or self.possible is None:
            return x
        reached = [each for each, possible in zip(x.of_dtype, self.possible, strict=True) if possible]
        return dataclasses.replace(x, interval=(min(reached), max(reached))) if reached else x

    def rounded(self, precision: v.Precision, value: v.Number) -> v.Number:
        """A float rounded to the NumPy type of that precision."""
        if precision.wide is None:
            return v.Number(cpp.Cast("float", value.expr, type=v.FLOAT), v.FLOAT, precision=precision)
        expr = cpp.CallTo("trifold::rounded_unless", (precision.wide, value.expr), type=v.FLOAT)
        return v.Number(expr, v.FLOAT, precision=precision)

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

    # --------------------------------------------------------------------------------------------- choices

    def choice(self, node: ast.IfExp, test: Any, body: ast.expr, orelse: ast.expr) -> Any:
        test = self.truth(test)
        if isinstance(test, bool):
            return self.evaluate(body if test else orelse)
        self.maybe += 1
        with_facts = self.assuming(test.facts)
        chosen = as_it_is(self.evaluate(body))
        self.restore(with_facts)
        with_facts = self.assuming(self.facts_if_false.get(id(test), ()))
        otherwise = as_it_is(self.evaluate(orelse))
        self.restore(with_facts)
        self.maybe -= 1
        return self.chosen(test, chosen, otherwise, node)

    def chosen(self, test: v.Number, chosen: Any, otherwise: Any, node: ast.AST) -> Any:
        if isinstance(chosen, v.Tensor) and isinstance(otherwise, v.Tensor):
            either = self._either(test, chosen.dtypes, otherwise.dtypes)
            if either is None and chosen.dtypes is not None and otherwise.dtypes is not None:
                return v.Either(test, chosen, otherwise)
            same = chosen.dimensions == otherwise.dimensions
            expr = cpp.Ternary(test.expr, chosen.expr, otherwise.expr)
            made = v.Tensor(expr, either, chosen.dimensions if same else None, dense=chosen.dense and otherwise.dense)
            if chosen.memory is not None and otherwise.memory is not None:
                made.memory = chosen.memory | otherwise.memory
            made.one_of, made.is_first = (chosen, otherwise), test.of_dtype
            if either is None and chosen.root is otherwise.root:
                made.like = chosen.root
            return made
        shapes = (v.Shape, v.Sizes, tuple)
        if isinstance(chosen, shapes) and isinstance(otherwise, shapes) and _has_sizes(chosen, otherwise):
            lists = [self.list_of(each, node) for each in (chosen, otherwise)]
            return v.Sizes(cpp.Ternary(test.expr, *lists))
        if isinstance(chosen, tuple) and isinstance(otherwise, tuple) and len(chosen) == len(otherwise):
            return tuple(self.chosen(test, a, b, node) for a, b in zip(chosen, otherwise, strict=True))
        if is_dtype(chosen) and is_dtype(otherwise):
            dtypes = [
                each.dtypes if isinstance(each, v.DtypeOf) else (each,) * len(self.key_dtypes)
                for each in (chosen, otherwise)
            ]
            found = self._either(test, *dtypes)
            if found is not None:
                parts = [self.scalar(each, node) for each in (chosen, otherwise)]
                return v.DtypeOf(found, scalar=cpp.Ternary(test.expr, *parts))
            return self._one_of_dtypes(test, (chosen, otherwise), node)
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

    def _one_of_dtypes(self, test: v.Number, dtypes: tuple[Any, Any], node: ast.AST) -> v.DtypeOf:
        """A dtype that is not known by the key's, as is one that an argument states."""
        choices: dict[torch.dtype, None] = {}
        for each in dtypes:
            tensor = None if isinstance(each, torch.dtype) else each.tensor
            known = (each,) if isinstance(each, torch.dtype) else each.dtypes or (tensor and tensor.root.choices)
            if not known:
                problem = "which dtypes this may be is not known while drafting"
                remedy = "compare it with dtypes before: if out_dtype not in (torch.float32, torch.float64):"
                if tensor is None:
                    raise DraftError(self.place(node), problem, remedy)
                raise Unchecked(self.place(node), self, "dtype", tensor, problem, remedy)
            choices |= dict.fromkeys(known)
        made = v.Tensor(cpp.Ternary(test.expr, *(self.scalar(each, node) for each in dtypes)), is_dtype=True)
        if len(choices) > 1:
            made.choices = tuple(choices)
        else:
            made.known = tuple(choices) * len(self.key_dtypes or (0,))
        return v.DtypeOf(made.known, made)

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

    def assuming(self, facts: v.Facts) -> list[tuple[v.Tensor | v.Perhaps, bool, cpp.Expr]]:
        before = []
        for value, given in ((fact.value, fact.given) for fact in facts if isinstance(fact, v.Given)):
            before.append((value, value.present, value.expr))
            if given:
                self.give(value)
        return before

    def give(self, value: v.Tensor | v.Perhaps) -> None:
        """From here on, an argument that may be None is known to be given."""
        if not value.present:
            value.present = True
            value.expr = cpp.Name(f"{text_of(value.expr)}.value()", type=value.expr.type)

    def restore(self, before: list[tuple[v.Tensor | v.Perhaps, bool, cpp.Expr]]) -> None:
        for value, present, expr in reversed(before):
            value.present, value.expr = present, expr

    # --------------------------------------------------------------------------------------------- parts

    def attribute(self, base: Any, name: str, node: ast.AST) -> Any:
        raise NotImplementedError

    def item(self, base: Any, index: ast.expr, node: ast.Subscript) -> Any:
        raise NotImplementedError


def _unless_none(node: ast.BoolOp, *, is_number: bool) -> ast.expr:
    """``a or b`` as ``a if a is not None else b``; of a number as ``a if a is not None and a else b``."""
    first, *others = node.values
    given: ast.expr = ast.Compare(first, [ast.IsNot()], [ast.Constant(None)])
    test = ast.BoolOp(ast.And(), [given, first]) if is_number else given
    rest = others[0] if len(others) == 1 else ast.BoolOp(ast.Or(), others)
    return ast.fix_missing_locations(ast.copy_location(ast.IfExp(test, first, rest), node))


def _has_sizes(*shapes: Any) -> bool:
    """Whether one of them is a tensor's shape, or their lengths differ."""
    plain = all(isinstance(each, tuple) and not any(isinstance(p, v.Part) for p in each) for each in shapes)
    return not plain or len({len(each) for each in shapes}) > 1


def as_it_is(value: Any) -> Any:
    """A value in its current state: an optional one may be known to be present."""
    if isinstance(value, v.Perhaps) and value.present:
        return value.value
    if isinstance(value, v.DtypeOf) and value.tensor is not None and value.tensor.is_dtype:
        return dataclasses.replace(value, tensor=dataclasses.replace(value.tensor, like=value.tensor))
    return dataclasses.replace(value, like=value) if isinstance(value, v.Tensor) and value.optional else value


def is_dtype(value: Any) -> bool:
    return isinstance(value, (v.DtypeOf, torch.dtype))


def _is_number(value: Any) -> bool:
    return isinstance(value, (v.Number, bool, int, float))


def _of_constants(op: Any, a: Any, b: Any) -> Any:
    """The result of an operation on two known values, in terms of their names."""
    value = op(a, b)
    if not any(isinstance(each, (v.NamedInt, v.NamedFloat)) for each in (a, b)) or type(value) not in (int, float):
        return value
    sign = "/" if op is operator.floordiv else SIGNS.get(op)
    exact = op in (operator.add, operator.sub, operator.mul) or (op is operator.floordiv and min(a, b) >= 0)
    if not exact or (isinstance(value, int) and not fits((value, value), types.int32)):
        return value
    return v.named(value, cpp.Infix(str(sign), v.number(a).expr, v.number(b).expr))
