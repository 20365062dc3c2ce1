"""Conditions of a launch function, and the facts about its tensors that follow from them."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from typing import Any

import torch

from trifold.draft import cpp
from trifold.draft import host_values as v
from trifold.draft.folding import COMPARE
from trifold.draft.host_cpp import (
    DTYPE_NAMES,
    SIGNS,
    call,
    infix,
    is_table,
    opposite,
    scalar_of,
    scalar_type,
    string,
    text_of,
    whole_shape,
)
from trifold.draft.one_device import OneDevice
from trifold.draft.refusal import DraftError, Place


def _flattened(op: str, left: cpp.Expr, right: cpp.Expr) -> cpp.Infix:
    """``a && (b && c)`` without parentheses."""
    if isinstance(right, cpp.Infix) and right.operator == op:
        return cpp.Infix(op, _flattened(op, left, right.left), right.right, type=v.BOOL)
    return cpp.Infix(op, left, right, type=v.BOOL)


def _of_either(first: v.Facts, second: v.Facts) -> v.Facts:
    """The dtypes of tensors if the facts of one of two conditions hold."""
    return tuple(
        v.Fact(a.tensor, dtypes=tuple(dict.fromkeys((*a.dtypes, *b.dtypes))))
        for a in first
        for b in second
        if isinstance(a, v.Fact)
        and isinstance(b, v.Fact)
        and a.tensor is b.tensor
        and a.tensor.dtypes is None
        and a.dtypes is not None
        and b.dtypes is not None
        and len({each.is_complex for each in (*a.dtypes, *b.dtypes)}) == 1
    )


class Conditions:
    """A base class of the executor."""

    key: v.Tensor | None
    one_device: OneDevice
    key_dtypes: v.Dtypes
    kept: list[Any]
    dimension_calls: dict[int, v.Tensor]
    facts_if_false: dict[int, v.Facts]
    tables: dict[str, cpp.PairsDefinition]
    possible: tuple[bool, ...] | None  # the dtypes of the key for which this is reached; None: all
    maybe: int  # of how many operands this is a part that may not be evaluated

    def place(self, node: ast.AST) -> Place:
        raise NotImplementedError

    def assuming(self, facts: v.Facts) -> list[tuple[v.Tensor | v.Perhaps, bool, cpp.Expr]]:
        raise NotImplementedError

    def restore(self, before: list[tuple[v.Tensor | v.Perhaps, bool, cpp.Expr]]) -> None:
        raise NotImplementedError

    def evaluate(self, node: ast.expr) -> Any:
        raise NotImplementedError

    def argument(self, node: ast.expr) -> Any:
        raise NotImplementedError

    def negation(self, value: v.Number) -> v.Number:
        raise NotImplementedError

    def length(self, numbers: v.Sizes | v.Floats | v.Tensors) -> v.Number:
        raise NotImplementedError

    def numbers_in(self, value: Any) -> tuple[Any, ...] | None:
        raise NotImplementedError

    def dimensions_of(self, tensor: v.Tensor) -> v.Number:
        raise NotImplementedError

    def truth(self, value: Any) -> Any:
        """The value as a condition: a Python bool if it is known."""
        if isinstance(value, v.Method):
            raise TypeError(f".{value.name} is no condition, unless it is called")
        if isinstance(value, v.Shape) and all(isinstance(part, v.Part) for part in value.parts):
            numbers = self.numbers_in(value)
            return bool(numbers) if numbers is not None else self._has_sizes(value)
        if isinstance(value, v.Sizes | v.Floats):
            return infix("!=", self.length(value), v.number(0), v.BOOL)
        if isinstance(value, v.Tensor | v.Shape | v.Text | v.Listed):
            raise TypeError("a tensor, shape or string is no condition")
        if isinstance(value, v.Tensors):
            return infix("!=", self.length(value), v.number(0), v.BOOL)
        if isinstance(value, v.Number) and value.type != v.BOOL:
            zero = v.number(0)
            return infix("!=", value, zero, v.BOOL)
        return value if isinstance(value, v.Number) else bool(value)

    def _has_sizes(self, shape: v.Shape) -> v.Number:
        """Whether the parts of a shape have any dimensions."""
        counts = [
            infix(">", self.dimensions_of(part.tensor), v.number(part.start - part.stop), v.BOOL)
            for part in shape.parts
            if isinstance(part, v.Part)
        ]
        return self._joined(False, counts)

    def logical(self, all_of: bool, nodes: list[ast.expr]) -> Any:
        parts: list[v.Number] = []
        before, assumed, outer = self.possible, [], self.maybe
        dimensions: list[tuple[v.Tensor, int | None, int]] = []  # before they were assumed
        try:
            for node in nodes:
                value = self.truth(self.evaluate(node))
                self.maybe = outer + 1
                if value is (not all_of):
                    return value
                if not isinstance(value, bool):
                    parts.append(value)
                    self.possible = self.narrowed_to(value, all_of)
                    facts = value.facts if all_of else self.facts_if_false.get(id(value), ())
                    assumed += self.assuming(facts)
                    for tensor, fact in ((fact.tensor, fact) for fact in facts if isinstance(fact, v.Fact)):
                        dimensions.append((tensor, tensor.dimensions, tensor.at_least))
                        if fact.dimensions is not None:
                            tensor.dimensions = fact.dimensions
                        tensor.at_least = max(tensor.at_least, fact.at_least or 0)
        finally:
            self.possible, self.maybe = before, outer
            self.restore(assumed)
            for tensor, number, at_least in reversed(dimensions):
                tensor.dimensions, tensor.at_least = number, at_least
        return self.joined(all_of, parts)

    def joined(self, all_of: bool, values: Sequence[Any]) -> Any:
        """Conditions joined by ``and`` or ``or``; a Python bool if the result is known."""
        if (not all_of) in [value for value in values if isinstance(value, bool)]:
            return not all_of
        parts = [value for value in values if not isinstance(value, bool)]
        return self._joined(all_of, parts) if parts else all_of

    def narrowed_to(self, test: v.Number, wanted: bool) -> tuple[bool, ...] | None:
        """The dtypes of the key for which the branch is reached that requires the test to be ``wanted``."""
        certain = test.certain or test.of_dtype
        if certain is None:
            return self.possible
        before = self.possible or (True,) * len(certain)
        return tuple(each and known in (wanted, None) for each, known in zip(before, certain, strict=True))

    def _joined(self, all_of: bool, parts: list[v.Number]) -> v.Number:
        result = parts[0]
        for part in parts[1:]:
            facts = (*result.facts, *part.facts) if all_of else _of_either(result.facts, part.facts)
            known = None
            if result.of_dtype is not None and part.of_dtype is not None:
                choose = all if all_of else any
                known = tuple(choose(pair) for pair in zip(result.of_dtype, part.of_dtype, strict=True))
            expr = _flattened("&&" if all_of else "||", result.expr, part.expr)
            certain = self._joined_for_each_dtype(all_of, result, part)
            otherwise = self._known_if_false(all_of, result, part)
            result = v.Number(expr, v.BOOL, facts=facts, of_dtype=known, certain=certain)
            self.facts_if_false[id(result)] = otherwise
            self.kept.append(result)
        return result

    def _known_if_false(self, all_of: bool, a: v.Number, b: v.Number) -> v.Facts:
        """The facts about tensors that hold if two joined conditions do not."""
        first, second = (self.facts_if_false.get(id(each), ()) for each in (a, b))
        if not all_of:
            return (*first, *second)
        if either := _of_either(first, second):
            return either
        # A condition on an optional tensor that is absent is not evaluated: what holds for a present one is known.
        given = {fact.value for fact in a.facts if isinstance(fact, v.Given) and fact.given}
        return tuple(fact for fact in second if isinstance(fact, v.Fact) and fact.tensor in given)

    def _joined_for_each_dtype(self, all_of: bool, a: v.Number, b: v.Number) -> tuple[bool | None, ...] | None:
        unknown = (None,) * len(self.key_dtypes)
        pairs = zip(a.certain or a.of_dtype or unknown, b.certain or b.of_dtype or unknown, strict=True)
        decides = not all_of  # the value of one part that decides the result
        return tuple(decides if decides in pair else None if None in pair else all_of for pair in pairs) or None

    def comparison(self, node: ast.Compare) -> Any:
        evaluate = self.argument if all(isinstance(op, ast.Is | ast.IsNot) for op in node.ops) else self.evaluate
        values = [evaluate(each) for each in (node.left, *node.comparators)]
        parts = []
        constant = next((each for each in values if type(each) is int), None)
        pairs: list[tuple[ast.cmpop, Any, Any]] = list(zip(node.ops, values, values[1:], strict=False))
        if len(node.ops) > 1 and constant is not None and all(isinstance(op, ast.Eq) for op in node.ops):
            # Each equals the number: more is known of it than of two unknown ones that are equal.
            pairs = [(ast.Eq(), each, constant) for each in values if each is not constant]
        for op, a, b in pairs:
            one = self._compared(op, a, b, node)
            if isinstance(one, bool):
                if not one:
                    return False
                continue
            parts.append(one)
        return self._joined(True, parts) if parts else True

    def _compared(self, op: ast.cmpop, a: Any, b: Any, node: ast.Compare) -> Any:
        if isinstance(a, v.Method) or isinstance(b, v.Method):
            raise TypeError("an attribute that is no number is not compared")
        if isinstance(op, (ast.Is, ast.IsNot)):
            return self._is_none(isinstance(op, ast.IsNot), a, b, node)
        if isinstance(op, (ast.In, ast.NotIn)):
            return self._is_in(isinstance(op, ast.NotIn), a, b, node)
        compare = COMPARE[type(op)]
        sign = SIGNS[compare]
        if isinstance(a, v.DtypeOf) or isinstance(b, v.DtypeOf):
            return self._dtypes_equal(sign == "!=", a, b, node)
        if isinstance(a, v.DeviceOf) and isinstance(b, v.DeviceOf) and a.tensor is not None and b.tensor is not None:
            self.one_device.compared(a.tensor, b.tensor)
            same = call("trifold::same_device", a.tensor.expr, b.tensor.expr)
            return v.Number(same if sign == "==" else cpp.Prefix("!", same), v.BOOL)
        if isinstance(a, v.DeviceType) and b in ("cpu", "cuda") and sign in ("==", "!="):
            there = call(f"{text_of(a.tensor.expr)}.is_{b}")
            return v.Number(there if sign == "==" else cpp.Prefix("!", there, type=v.BOOL), v.BOOL)
        if isinstance(a, (v.Shape, v.Sizes)) or isinstance(b, (v.Shape, v.Sizes)):
            return self._shapes_equal(sign == "!=", a, b, node)
        if isinstance(a, tuple) and isinstance(b, tuple) and sign in ("==", "!="):
            return self._tuples_equal(sign == "!=", a, b, node)
        if isinstance(a, v.Text) or isinstance(b, v.Text):
            return self.texts_equal(sign, a, b, node)
        if isinstance(a, v.Tensor | v.Tensors) or isinstance(b, v.Tensor | v.Tensors):
            raise TypeError("tensors are not compared here, only their shapes and dtypes")
        if not isinstance(a, v.Number) and not isinstance(b, v.Number):
            return compare(a, b)
        x, y = v.number(a), v.number(b)
        result = infix(sign, x, y, v.BOOL)
        result.of_dtype = self.by_dtype(compare, x, y, a, b)
        if isinstance(b, int) and (owner := self.dimension_calls.get(id(x.expr))) is not None:
            if sign in ("==", "!="):
                return self.knowing(result.expr, (v.Fact(owner, dimensions=b),), sign == "!=", result.of_dtype)
            at_least = v.Fact(owner, at_least=b if sign in (">=", "<") else b + 1)
            return self.knowing(result.expr, (at_least,), sign in ("<", "<="), result.of_dtype)
        return result

    def texts_equal(self, sign: str, a: Any, b: Any, node: ast.AST) -> v.Number:
        """A comparison of a string argument with a constant."""
        written = []
        for each in (a, b):
            parts = each.parts if isinstance(each, v.Text) else (each,)
            if len(parts) != 1 or sign not in ("==", "!="):
                raise DraftError(
                    self.place(node),
                    "this comparison of strings is not translated",
                    "compare an argument with one string, by == or !=",
                )
            (part,) = parts
            written.append(part if isinstance(part, cpp.Expr) else string(str(part)))
        return v.Number(cpp.Infix(sign, written[0], written[1], type=v.BOOL), v.BOOL)

    def _tuples_equal(self, negated: bool, a: tuple[Any, ...], b: tuple[Any, ...], node: ast.Compare) -> Any:
        if len(a) != len(b):
            return negated
        parts = [self._compared(ast.Eq(), x, y, node) for x, y in zip(a, b, strict=True)]
        if all(isinstance(part, bool) for part in parts):
            return all(parts) != negated
        if False in parts:
            return negated
        joined = self._joined(True, [part for part in parts if not isinstance(part, bool)])
        return self.negation(joined) if negated else joined

    def _is_none(self, negated: bool, a: Any, b: Any, node: ast.AST) -> Any:
        if b is not None:
            if isinstance(a, v.DtypeOf) or isinstance(b, v.DtypeOf):
                return self._dtypes_equal(negated, a, b, node)
            if isinstance(a, v.Tensor) and isinstance(b, v.Tensor):
                return self._same_tensor(negated, a, b, node)
            raise DraftError(self.place(node), "only `is None` is translated", "compare by ==")
        if isinstance(a, v.DtypeOf) and a.tensor is not None and a.tensor.is_dtype:
            a = a.tensor
        if not (isinstance(a, v.Perhaps) or (isinstance(a, v.Tensor) and a.optional)) or a.present:
            return (a is not None) if negated else (a is None)
        given = call(f"{text_of(a.expr)}.has_value")
        expr: cpp.Expr = given if negated else cpp.Prefix("!", given)
        result = v.Number(expr, v.BOOL, facts=(v.Given(a, negated),))
        self.facts_if_false[id(result)] = (v.Given(a, not negated),)
        self.kept.append(result)
        return result

    def _same_tensor(self, negated: bool, a: v.Tensor, b: v.Tensor, node: ast.AST) -> Any:
        same = call("trifold::same_memory", a.expr, b.expr)
        known = None
        if a.is_first is not None and b in a.one_of:
            first = b is a.one_of[0]
            known = tuple((each == first) != negated for each in a.is_first)
        return v.Number(opposite(same) if negated else same, v.BOOL, of_dtype=known)

    def _is_in(self, negated: bool, a: Any, b: Any, node: ast.Compare) -> Any:
        if isinstance(b, v.Shape | v.Sizes):
            return self._is_size(negated, node)
        if isinstance(b, (set, frozenset)):
            b = tuple(sorted(b, key=repr))  # in one order in each run
        if not isinstance(b, (tuple, list, dict)):
            raise DraftError(
                self.place(node),
                "`in` is translated for a shape, a tuple, a list, a set or a dict",
                "write a tuple of numbers, dtypes or strings",
            )
        if isinstance(a, v.DtypeOf):
            return self._dtype_in(negated, a, tuple(b), node)
        parts = [self._compared(ast.Eq(), a, each, node) for each in b]
        if all(isinstance(part, bool) for part in parts):
            return any(parts) != negated
        joined = self._joined(False, [v.number(part) for part in parts])
        if isinstance(a, v.Number) and a.type == v.INT and isinstance(b, dict) and is_table(b):
            (named,) = node.comparators
            joined.expr = self.looked_up("has_entry", dict(b), named, a)
        if isinstance(a, v.Number) and a.bytes_of is not None and all(isinstance(each, int) for each in b):
            facts = (v.Fact(a.bytes_of, sizes=tuple(b)),)
            return self.knowing(opposite(joined.expr) if negated else joined.expr, facts, negated)
        return v.Number(opposite(joined.expr), v.BOOL) if negated else joined

    def _is_size(self, negated: bool, node: ast.Compare) -> Any:
        """``0 in x.shape`` as ``any(size == 0 for size in x.shape)``."""
        size = "size.in"  # no variable of Python has this name
        equal = ast.Compare(ast.Name(size, ast.Load()), [ast.Eq()], [node.left])
        each = ast.comprehension(ast.Name(size, ast.Store()), node.comparators[0], [], 0)
        found: ast.expr = ast.Call(ast.Name("any", ast.Load()), [ast.GeneratorExp(equal, [each])], [])
        if negated:
            found = ast.UnaryOp(ast.Not(), found)
        return self.evaluate(ast.fix_missing_locations(ast.copy_location(found, node)))

    def _dtype_in(self, negated: bool, a: v.DtypeOf, b: tuple[Any, ...], node: ast.AST) -> Any:
        assert a.tensor is not None
        if len({each.is_complex for each in b}) > 1:
            problem = "a tensor of several dtypes, of which only some are complex"
            raise DraftError(self.place(node), problem, "write an operator for those: OP_complex")
        tests = [self.dtype_is(a.tensor, each) for each in dict.fromkeys(b)]
        joined: cpp.Expr = tests[0]
        for test in tests[1:]:
            joined = cpp.Infix("||", joined, test, type=v.BOOL)
        facts = (v.Fact(a.tensor, dtypes=tuple(b)),)
        return self.knowing(cpp.Prefix("!", joined) if negated else joined, facts, negated)

    def looked_up(self, function: str, table: dict[int, Any], node: ast.expr, key: v.Number) -> cpp.CallTo:
        """``entry`` or ``has_entry`` of a dict of constants, which the binding has under the dict's name."""
        kind = "int64_t" if type(next(iter(table.values()))) is int else "trifold::ScalarType"
        wanted = node.id.lstrip("_") if isinstance(node, ast.Name) else "TABLE"
        rows = [(str(each), scalar_type(value) if kind != "int64_t" else str(value)) for each, value in table.items()]
        made, number = cpp.PairsDefinition(kind, wanted, rows), 2
        while self.tables.setdefault(made.name, made) != made:
            made, number = cpp.PairsDefinition(kind, f"{wanted}{number}", rows), number + 1
        value = key.expr.operand if isinstance(key.expr, cpp.Cast) else key.expr
        return call(f"trifold::{function}", cpp.Name(made.name), value)

    def dtype_is(self, tensor: v.Tensor, dtype: torch.dtype) -> cpp.Expr:
        return cpp.Infix("==", scalar_of(tensor), cpp.Name(scalar_type(dtype)), type=v.BOOL)

    def _dtypes_equal(self, negated: bool, a: Any, b: Any, node: ast.AST) -> Any:
        if isinstance(b, v.DtypeOf) and not isinstance(a, v.DtypeOf):
            a, b = b, a
        facts: v.Facts = ()
        known = None
        dtypes = [each.dtypes if isinstance(each, v.DtypeOf) else (each,) * len(self.key_dtypes) for each in (a, b)]
        if dtypes[0] is not None and dtypes[1] is not None and len(dtypes[0]) == len(dtypes[1]):
            known = tuple((p == q) != negated for p, q in zip(*dtypes, strict=True))
        if a.tensor is None and isinstance(b, v.DtypeOf) and b.tensor is not None:
            a, b = b, a
        if a.tensor is None:
            if known is not None and len(set(known)) == 1:
                return known[0]
            raise DraftError(
                self.place(node), "these dtypes are not compared", "compare that of a tensor: x.dtype == torch.float32"
            )
        if isinstance(b, v.DtypeOf) and b.tensor is not None:
            expr: cpp.Expr = call("trifold::same_dtype", a.tensor.expr, b.tensor.expr)
            if a.tensor.is_dtype or b.tensor.is_dtype:
                expr = cpp.Infix("==", scalar_of(a.tensor), scalar_of(b.tensor), type=v.BOOL)
            if b.tensor.dtypes is not None:
                facts = (v.Fact(a.tensor, by_key=b.tensor.dtypes),)
            elif a.tensor.dtypes is not None:
                facts = (v.Fact(b.tensor, by_key=a.tensor.dtypes),)
            elif not a.tensor.is_dtype and not b.tensor.is_dtype:
                facts = (v.Fact(a.tensor, same_dtype=b.tensor),)
        elif isinstance(b, v.DtypeOf):
            expr = cpp.Infix("==", call("trifold::dtype_code", a.tensor.expr), self.dtype_code(b, node), type=v.BOOL)
        else:
            expr = self.dtype_is(a.tensor, b)
            facts = (v.Fact(a.tensor, dtypes=(b,)),)
        if negated:
            expr = (
                cpp.Infix("!=", expr.left, expr.right, type=v.BOOL)
                if isinstance(expr, cpp.Infix)
                else cpp.Prefix("!", expr)
            )
        return self.knowing(expr, facts, negated, known)

    def knowing(self, expr: cpp.Expr, facts: v.Facts, negated: bool, known: tuple[Any, ...] | None = None) -> v.Number:
        """A condition, and the facts about tensors if it holds, or if it does not."""
        result = v.Number(expr, v.BOOL, facts=() if negated else facts, of_dtype=known)
        if negated:
            self.facts_if_false[id(result)] = facts
        self.kept.append(result)
        return result

    def dtype_code(self, dtype: Any, node: ast.AST) -> cpp.Expr:
        """libtorch's number for a dtype."""
        if isinstance(dtype, torch.dtype):
            return call("trifold::dtype_code", cpp.Name(scalar_type(dtype)))
        if isinstance(dtype, v.DtypeOf) and dtype.tensor is not None:
            return call("trifold::dtype_code", dtype.tensor.expr)
        if isinstance(dtype, v.DtypeOf) and dtype.dtypes is not None and self.key is not None:
            wide = tuple(torch.float64 if each == torch.float64 else torch.float32 for each in self.key_dtypes)
            if dtype.dtypes == wide:
                return call("trifold::compute_dtype", self.key.expr)
            if len(set(dtype.dtypes)) == 1:
                return self.dtype_code(dtype.dtypes[0], node)
            if dtype.dtypes == self.key_dtypes and dtype.scalar is None:
                return call("trifold::dtype_code", self.key.expr)
        if isinstance(dtype, v.DtypeOf) and dtype.scalar is not None:
            return call("trifold::dtype_code", dtype.scalar)
        raise DraftError(
            self.place(node),
            "this dtype is not translated",
            "write torch.float32, x.dtype or an argument that is a dtype",
        )

    def scalar(self, dtype: Any, node: ast.AST) -> cpp.Expr:
        """A dtype as a ScalarType."""
        found: cpp.Expr | None = None
        if isinstance(dtype, torch.dtype) and dtype in DTYPE_NAMES:
            found = cpp.Name(scalar_type(dtype))
        elif isinstance(dtype, v.DtypeOf):
            found = dtype.scalar
            if dtype.tensor is not None:
                found = scalar_of(dtype.tensor)
        if found is None:
            raise DraftError(
                self.place(node),
                "this dtype is not translated",
                "write torch.float32, x.dtype or an argument that is a dtype",
            )
        return found

    def _shapes_equal(self, negated: bool, a: Any, b: Any, node: ast.AST) -> v.Number:
        facts: v.Facts = ()
        whole = whole_shape(a)
        if whole is not None and isinstance(b, tuple):
            facts = (v.Fact(whole, dimensions=len(b)),)
        other = whole_shape(b)
        if whole is not None and other is not None:
            facts = (v.Fact(whole, same_shape=other),)
        exprs = [self.dims(each, node) for each in (a, b)]
        same = call("trifold::same_sizes", *exprs)
        return self.knowing(cpp.Prefix("!", same) if negated else same, facts, negated)

    def dims(self, shape: Any, node: ast.AST) -> cpp.Expr:
        """A shape as a list of numbers, for a ``trifold::Dims`` parameter."""
        if isinstance(shape, v.Sizes):
            return shape.expr
        whole = whole_shape(shape)
        if whole is not None:
            return call(f"{text_of(whole.expr)}.sizes")
        parts = shape.parts if isinstance(shape, v.Shape) else shape if isinstance(shape, tuple) else (shape,)
        if any(isinstance(part, v.Part) for part in parts):
            return self.joined_sizes(parts)
        return cpp.Braces(tuple(v.number(part).expr for part in parts))

    def joined_sizes(self, parts: Iterable[Any]) -> cpp.Expr:
        """Numbers, parts of shapes and lists as one list."""
        written: list[cpp.Expr] = []
        for part in parts:
            if isinstance(part, v.Part):
                start, stop = cpp.Name(str(part.start)), cpp.Name(str(part.stop))
                written.append(call("trifold::sizes_of", part.tensor.expr, start, stop))
            else:
                written.append(part.expr if isinstance(part, v.Sizes) else v.number(part).expr)
        return call("trifold::sizes", *written)

    def by_dtype(self, op: Any, x: v.Number, y: v.Number, a: Any, b: Any) -> tuple[Any, ...] | None:
        lefts = x.of_dtype or (None if isinstance(a, v.Number) else (a,) * len(self.key_dtypes))
        rights = y.of_dtype or (None if isinstance(b, v.Number) else (b,) * len(self.key_dtypes))
        if lefts is None or rights is None:
            return None
        return tuple(op(p, q) for p, q in zip(lefts, rights, strict=True))
