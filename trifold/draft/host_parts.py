"""Evaluates attributes, sizes and parts of tensors and shapes in a launch function."""

from __future__ import annotations

import ast
import dataclasses
import operator
from collections.abc import Iterable
from typing import Any

import torch
from numba.core.dispatcher import Dispatcher

from trifold.draft import cpp
from trifold.draft import host_values as v
from trifold.draft.host_cpp import call, is_table, text_of, whole_shape
from trifold.draft.host_expressions import HostExpressions
from trifold.draft.printer import expression
from trifold.draft.refusal import DraftError

_PROCESSORS = (1, 2**31 - 1)  # a number of multiprocessors
_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
# By the names of torch.finfo and torch.iinfo, the members of trifold::FloatLimits and trifold::IntLimits.
_LIMITS: dict[Any, dict[str, str]] = {
    torch.finfo: {"min": "min", "max": "max", "eps": "eps", "tiny": "tiny", "smallest_normal": "tiny"},
    torch.iinfo: {"min": "min", "max": "max", "bits": "bits"},
}


class HostParts(HostExpressions):
    """A base class of the executor."""

    key_sizes: tuple[int, ...]
    of_lists: dict[str, v.Tensor]  # single tensors of arguments that are lists, by a name for each
    integers: v.Dtypes | None
    into: list[cpp.Stmt]

    def named(self, value: Any, name: str, into: list[cpp.Stmt]) -> Any:
        raise NotImplementedError

    def size(self, tensor: v.Tensor, dimension: int | v.Number) -> v.Number:
        if isinstance(dimension, int) and dimension < 0 and tensor.dimensions is not None:
            dimension += tensor.dimensions
        expr = call(f"{text_of(tensor.expr)}.size", v.number(dimension).expr)
        expr = cpp.CallTo(expr.function, expr.arguments, type=v.INT, interval=v.SIZE)
        return v.Number(expr, v.INT, v.SIZE)

    def length(self, numbers: v.Sizes | v.Floats | v.Tensors) -> v.Number:
        size = call(f"{text_of(numbers.expr)}.size")
        return v.Number(cpp.Cast("int64_t", size, type=v.INT, interval=v.SIZE), v.INT, v.SIZE)

    def element(self, numbers: v.Sizes | v.Floats, place: int | v.Number) -> v.Number:
        """A number of a list; ``at`` refuses a place that there is not, as Python does."""
        own, kind = text_of(numbers.expr), v.INT if isinstance(numbers, v.Sizes) else v.FLOAT
        at = place.expr if isinstance(place, v.Number) else _place(own, place)
        return v.Number(cpp.CallTo(f"{own}.at", (at,), type=kind), kind)

    def tensor_of(self, tensors: v.Tensors, place: int | v.Number) -> v.Tensor:
        """A tensor of a list, likewise."""
        own = tensors.expr.text
        if isinstance(place, v.Number):
            return self.from_list(tensors, call(f"{own}.at", place.expr), expression(place.expr))
        expr = call(f"{own}.at", _place(own, place))
        known = self.of_lists.get(f"{tensors.name}[{place}]")
        return known if known is not None and known.expr == expr else self.from_list(tensors, expr, str(place))

    def from_list(self, tensors: v.Tensors, expr: cpp.Expr, place: str) -> v.Tensor:
        """A tensor of a list, of which no loop over the list has checked anything."""
        name, number = f"{tensors.name}[{place}]", 2
        while name in self.of_lists:
            name, number = f"{tensors.name}[{place}] ({number})", number + 1
        self.of_lists[name] = v.Tensor(expr, strided=True, memory=v.of_argument(name))
        return self.of_lists[name]

    def attribute(self, base: Any, name: str, node: ast.AST) -> Any:
        if isinstance(base, v.Tensor):
            match name:
                case "shape":
                    return v.shape_of(base)
                case "dtype":
                    return v.DtypeOf(base.dtypes, base)
                case "device":
                    return v.DeviceOf(base)
                case "ndim":
                    return self.dimensions_of(base)
                case "T" if base.dimensions == 2:
                    return self.transposed(base)
                case "T":
                    problem = "the transpose of a tensor that is not known to be a matrix"
                    raise DraftError(self.place(node), problem, "check x.dim() == 2, or write x.mT")
                case "mT":
                    return self.transposed(base, -2, -1)
                case "itemsize":
                    return self.element_size(base)
                case "is_cuda" | "is_cpu":
                    return v.Number(call(f"{text_of(base.expr)}.{name}"), v.BOOL)
                case "requires_grad" | "grad" | "grad_fn":
                    problem = "what a call's gradient needs is not known in a binding"
                    raise DraftError(self.place(node), problem, "pass a flag: may_need_gradient(x) in ports/*.py")
            return v.Method(base, name)
        if isinstance(base, v.DeviceOf) and name == "type" and base.tensor is not None:
            return v.DeviceType(base.tensor)
        if isinstance(base, v.DtypeOf):
            if name == "itemsize" and base.tensor is not None:
                return self.element_size(base.tensor)
            if name in ("is_floating_point", "is_complex"):
                return self.is_of_kind(name, base, node)
        if isinstance(base, v.Limits) and name in _LIMITS[base.of]:
            known = base.dtype.dtypes and tuple(getattr(base.of(each), name) for each in base.dtype.dtypes)
            limits = call(f"trifold::{base.of.__name__}", base.scalar)
            kind = v.FLOAT if base.of is torch.finfo else v.INT
            return v.Number(cpp.Member(limits, _LIMITS[base.of][name], type=kind), kind, of_dtype=known)
        if isinstance(base, v.DeviceProperties) and name == "multi_processor_count":
            count = cpp.CallTo("trifold::multiprocessors_of", (base.tensor.expr,), type=v.INT, interval=_PROCESSORS)
            return v.Number(count, v.INT, _PROCESSORS)
        if isinstance(base, (v.Text, v.Shape, str)):
            return v.Method(base, name)
        if isinstance(base, v.Number) and name == "bit_length":
            return v.Method(base, name)
        if isinstance(base, v.Either):
            return self.chosen(base.test, getattr(base.chosen, name), getattr(base.otherwise, name), node)
        if isinstance(base, (v.Number, v.DtypeOf)):
            raise DraftError(
                self.place(node),
                f".{name} of this is not translated",
                "use numbers, and shape, dtype, device and ndim of tensors",
            )
        return getattr(base, name)

    def is_of_kind(self, name: str, dtype: v.DtypeOf, node: ast.AST) -> Any:
        """``is_floating_point`` or ``is_complex`` of a dtype."""
        known = None if dtype.dtypes is None else tuple(getattr(each, name) for each in dtype.dtypes)
        if known is not None and len(set(known)) == 1:
            return known[0]
        test = call(f"trifold::{name}", self.scalar(dtype, node))
        if dtype.tensor is None or known is not None:
            return v.Number(test, v.BOOL, of_dtype=known)
        dtypes = v.FLOATING if name == "is_floating_point" else v.COMPLEX
        return self.knowing(test, (v.Fact(dtype.tensor, dtypes=dtypes),), negated=False)

    def dimensions_of(self, tensor: v.Tensor) -> Any:
        if tensor.dimensions is not None:
            return tensor.dimensions
        expr = cpp.CallTo(f"{text_of(tensor.expr)}.dim", (), type=v.INT, interval=(0, 64))
        self.dimension_calls[id(expr)] = tensor
        self.kept.append(expr)
        return v.Number(expr, v.INT, (0, 64))

    def transposed(self, tensor: v.Tensor, first: int | v.Number = 0, second: int | v.Number = 1) -> v.Tensor:
        ends = (v.number(each).expr for each in (first, second))
        made = call("torch::stable::transpose", tensor.expr, *ends)
        return v.Tensor(made, tensor.dtypes, tensor.dimensions, strided=True, memory=tensor.memory)

    def element_size(self, tensor: v.Tensor) -> v.Number:
        size = cpp.Cast("int64_t", call(f"{text_of(tensor.expr)}.element_size"), type=v.INT, interval=(1, 8))
        return v.Number(size, v.INT, (1, 8), of_dtype=tensor.element_sizes, bytes_of=tensor)

    def _part_of_shape(self, tensor: v.Tensor, index: ast.Slice) -> v.Shape | v.Sizes | tuple[Any, ...] | None:
        """A slice of a tensor's shape; None if it has steps."""
        sizes = v.Sizes(call(f"{text_of(tensor.expr)}.sizes"))
        ends = [None if end is None else self.evaluate(end) for end in (index.lower, index.upper)]
        if index.step is not None:
            return None
        if any(isinstance(end, v.Number) for end in ends):
            return _part_of_sizes(sizes, *ends)
        start, stop = ends[0] or 0, ends[1]
        if start >= 0 and (stop is None or stop < 0):
            return v.Shape((v.Part(tensor, start, stop or 0),))
        if start < 0 and (stop is None or stop < 0):
            return tuple(self.size(tensor, d) for d in range(start, stop or 0))
        if isinstance(tensor.dimensions, int):
            return tuple(self.size(tensor, d) for d in range(tensor.dimensions)[start:stop])
        if start >= 0 and stop is not None and 0 <= stop <= tensor.at_least:
            return tuple(self.size(tensor, d) for d in range(start, stop))
        return _part_of_sizes(sizes, start, stop)

    def numbers_in(self, value: Any) -> tuple[Any, ...] | None:
        """The elements of a tuple or shape; None if it has parts of tensors with unknown numbers of dimensions, or is
        neither."""
        if not isinstance(value, v.Shape | tuple):
            return None
        found: list[Any] = []
        for each in value.parts if isinstance(value, v.Shape) else value:
            if not isinstance(each, v.Part):
                found.append(each)
            elif each.tensor.dimensions is None:
                return None
            else:
                places = range(each.tensor.dimensions)[each.start : each.stop or None]
                found += (self.size(each.tensor, place) for place in places)
        return tuple(found)

    def _of_shapes(self, shape: tuple[Any, ...], index: ast.expr) -> Any:
        """An element of a tuple with parts of shapes, or a slice; None if these decide which one it is."""
        numbers = self.numbers_in(shape)
        if isinstance(index, ast.Slice):
            ends = [None if end is None else self.evaluate(end) for end in (index.lower, index.upper, index.step)]
            if numbers is not None:
                return numbers[slice(*ends)]
            known = ends[2] is None and all(end is None or _is_before_parts(shape, end) for end in ends[:2])
            return v.Shape(shape[ends[0] : ends[1]]) if known else None
        at = self.evaluate(index)
        if not isinstance(at, int):
            return None
        if numbers is not None:
            return numbers[at]
        return shape[at] if _is_before_parts(shape, at + 1 if at >= 0 else at) else None

    def item(self, base: Any, index: ast.expr, node: ast.Subscript) -> Any:
        if isinstance(base, tuple) and any(isinstance(each, v.Part) for each in base):
            base = v.Shape(base)
        if isinstance(base, v.Shape):
            found = self._of_shapes(base.parts, index) if whole_shape(base) is None else None
            if found is not None:
                return found
            whole = base.parts[0]
            if len(base.parts) == 1 and isinstance(whole, v.Part) and whole.start == 0 and whole.stop == 0:
                if isinstance(index, ast.Slice):
                    part = self._part_of_shape(whole.tensor, index)
                    if part is not None:
                        return part
                else:
                    at = self.evaluate(index)
                    if isinstance(at, int) or (isinstance(at, v.Number) and at.type == v.INT):
                        return self.size(whole.tensor, at)
            raise DraftError(
                self.place(node),
                "this part of a shape is not translated",
                "write x.shape[i] or x.shape[i:j]",
            )
        if isinstance(base, v.Tensor):
            return self.part_of(base, index, node)
        if isinstance(base, v.Tensors) and isinstance(index, ast.Slice):
            problem = "a part of a list of tensors is not translated"
            raise DraftError(self.place(node), problem, "write xs[k], in a loop over range(...)")
        if isinstance(index, ast.Slice):
            ends = [None if end is None else self.evaluate(end) for end in (index.lower, index.upper, index.step)]
            if isinstance(base, v.Sizes) and ends[2] is None:
                return _part_of_sizes(base, *ends[:2])
            return base[slice(*ends)]
        if isinstance(base, Dispatcher):
            remedy = "write launch(kernel, grid, *arguments, block=threads)"
            raise DraftError(self.place(node), "a kernel is launched with brackets", remedy)
        at = self.evaluate(index)
        if isinstance(at, int) or (isinstance(at, v.Number) and at.type == v.INT):
            if isinstance(base, v.Tensors):
                return self.tensor_of(base, at)
            if isinstance(base, v.Sizes | v.Floats):
                return self.element(base, at)
        if isinstance(base, v.Listed):
            return self.numbers_of(base.tensor, (at,), node)[0]
        if isinstance(at, v.Number) and isinstance(base, dict) and at.type == v.INT:
            return self.entry(base, at, node)
        if isinstance(at, v.Text) and isinstance(base, dict):
            return self.entry_of_text(base, at, node)
        if isinstance(at, v.DtypeOf) and isinstance(base, dict):
            return self._entry_of_dtype(base, at, node)
        if isinstance(at, (v.Number, v.Text)):
            raise DraftError(
                self.place(node), "this index is not known while drafting", "choose: a if k % 2 == 0 else b"
            )
        return base[at]

    def _entry_of_dtype(self, table: dict[Any, Any], dtype: v.DtypeOf, node: ast.Subscript) -> Any:
        """``a if x.dtype == k else b`` for the entries of the dtypes that x may have."""
        if dtype.dtypes is None or not set(dtype.dtypes) <= table.keys():
            problem = "a dtype without an entry is not excluded here"
            raise DraftError(self.place(node), problem, "check x.dtype before, for the dtypes of the table")
        possible = [each for each in table if each in dtype.dtypes]
        chosen: ast.expr = ast.Constant(table[possible[-1]])
        for each in reversed(possible[:-1]):
            test = ast.Compare(node.slice, [ast.Eq()], [ast.Constant(each)])
            chosen = ast.IfExp(test, ast.Constant(table[each]), chosen)
        return self.evaluate(ast.fix_missing_locations(ast.copy_location(chosen, node)))

    def entry(self, table: dict[Any, Any], key: v.Number, node: ast.Subscript) -> Any:
        """The value of a dict of constants for a key that depends on the call."""
        values, known = list(table.values()), None
        if key.of_dtype is not None and all(each in table for each in key.of_dtype):
            known = tuple(table[each] for each in key.of_dtype)
        if is_table(table) and known is not None and isinstance(values[0], torch.dtype):
            return v.DtypeOf(known, scalar=self.looked_up("entry", table, node.value, key))
        if is_table(table) and type(values[0]) is int:
            interval = min(values), max(values)
            found = self.looked_up("entry", table, node.value, key)
            expr = dataclasses.replace(found, type=v.INT, interval=interval)
            return v.Number(expr, v.INT, interval, of_dtype=known)
        raise DraftError(
            self.place(node),
            "which entry of this dict is meant is not known while drafting",
            "let each key be an integer, and each value one, or each a dtype",
        )

    def entry_of_text(self, table: dict[Any, Any], key: v.Text, node: ast.Subscript) -> Any:
        """The number or kernel that a dict has for a string argument: one condition for each key but the last."""
        values = list(table.values())
        numbers = all(isinstance(each, (bool, int, float)) for each in values)
        if not values or not (numbers or all(isinstance(each, Dispatcher) for each in values)):
            raise DraftError(
                self.place(node),
                "an entry for a string is a number or a kernel",
                "choose by comparisons: if mode == ...",
            )
        entries = [_plain(each) for each in values] if numbers else values
        found: Any = v.number(entries[-1]) if numbers else entries[-1]
        for name, value in list(zip(table, entries, strict=True))[-2::-1]:
            found = self.chosen(self.texts_equal("==", key, name, node), value, found, node)
        return found

    def part_of(self, base: v.Tensor, index: ast.expr, node: ast.AST) -> v.Tensor:
        parts = index.elts if isinstance(index, ast.Tuple) else [index]
        dimension = 0
        for each in parts:
            at: Any = None if isinstance(each, ast.Slice) else self.evaluate(each)
            if isinstance(each, ast.Slice) and each.step is None:
                base = self._sliced(base, dimension, each)
                dimension += 1
            elif at is None and not isinstance(each, ast.Slice):
                base = self.unsqueezed(base, dimension)
                dimension += 1
            elif isinstance(at, (int, v.Number)) and v.number(at).type == v.INT:
                base = self.selected(base, dimension, at)
            else:
                problem = "this part of a tensor is not translated in a launch function"
                remedy = "write x[start:stop], x[i, :, j], x[:, None] or x.select(dimension, i)"
                raise DraftError(self.place(node), problem, remedy)
        return base

    def _sliced(self, base: v.Tensor, dimension: int, part: ast.Slice) -> v.Tensor:
        """A part of one dimension, which changes places with the first one before and after."""
        if part.lower is None and part.upper is None:
            return base
        start = 0 if part.lower is None else self.evaluate(part.lower)
        stop = () if part.upper is None else (self.evaluate(part.upper),)
        turned = base if dimension == 0 else self.transposed(base, 0, dimension)
        expr = call("trifold::slice", turned.expr, *(v.number(each).expr for each in (start, *stop)))
        made = v.Tensor(expr, base.dtypes, base.dimensions, strided=turned.strided, memory=base.memory)
        return made if dimension == 0 else self.transposed(made, 0, dimension)

    def unsqueezed(self, tensor: v.Tensor, dimension: int | v.Number) -> v.Tensor:
        expr = call("torch::stable::unsqueeze", tensor.expr, v.number(dimension).expr)
        count = None if tensor.dimensions is None else tensor.dimensions + 1
        return v.Tensor(expr, tensor.dtypes, count, strided=True, memory=tensor.memory)

    def numbers_of(self, x: v.Tensor, places: Iterable[Any], node: ast.AST, *, all_of: bool = False) -> list[v.Number]:
        """The numbers at these places of a row, at this point: later launches may change them."""
        raise NotImplementedError

    def selected(self, tensor: v.Tensor, dimension: int, index: int | v.Number) -> v.Tensor:
        count = None if tensor.dimensions is None else tensor.dimensions - 1
        expr = call("torch::stable::select", tensor.expr, v.number(dimension).expr, v.number(index).expr)
        strided = dimension != 0 or tensor.strided
        return v.Tensor(expr, tensor.dtypes, count, strided=strided, memory=tensor.memory)

    def product(self, shape: Any, node: ast.AST) -> Any:
        parts = shape.parts if isinstance(shape, v.Shape) else shape
        result: Any = 1
        for part in parts:
            if isinstance(part, v.Part):
                ends = (cpp.Literal(str(part.start), part.start), cpp.Literal(str(part.stop), part.stop))
                expr = cpp.CallTo("trifold::count_of", (part.tensor.expr, *ends), type=v.INT, interval=v.SIZE)
                one: Any = v.Number(expr, v.INT, v.SIZE)
            else:
                one = part
            if result == 1 and not isinstance(result, v.Number):
                result = one
            else:
                result = self.binary(operator.mul, result, one, node)
                if isinstance(result, v.Number):
                    result.interval = v.SIZE
        return result

    def set_sizes(self, tensor: v.Tensor, sizes: tuple[int, ...]) -> None:
        """Restrict a tensor to elements of these sizes. Kernels are made for each; the first view as other types
        decides which types."""
        if self.key is None and len(sizes) > 1 and all(size in _INTEGERS for size in sizes):
            self.key, self.key_sizes = tensor, sizes
            self.key_dtypes = tuple(_INTEGERS[size] for size in sizes)
        count = len(self.key_dtypes or (0,))
        if len(sizes) in (1, count):
            tensor.sizes = sizes * count if len(sizes) == 1 else sizes

    def viewed_as(self, tensor: v.Tensor, dtype: Any, node: ast.AST) -> v.Tensor:
        """The memory of a tensor, viewed as elements of another dtype."""
        dtypes = dtype.dtypes if isinstance(dtype, v.DtypeOf) else (dtype,) * len(self.key_dtypes or (0,))
        if dtypes is not None and self.integers is None and tuple(each.itemsize for each in dtypes) == self.key_sizes:
            self.key_dtypes = self.integers = dtypes
        expr = call("trifold::view_as", tensor.expr, self.scalar(dtype, node))
        return v.Tensor(expr, dtypes, tensor.dimensions, memory=tensor.memory)

    def unpacked_around(self, part: v.Part, count: int, star: int) -> tuple[Any, ...]:
        """A shape, unpacked into its first dimensions, those of a starred variable, and its last ones."""
        after = part.stop + star + 1 - count
        first, last = range(part.start, part.start + star), range(after, part.stop)
        sizes = (tuple(self.size(part.tensor, d) for d in each) for each in (first, last))
        return (*next(sizes), v.Shape((v.Part(part.tensor, part.start + star, after),)), *next(sizes))


def _part_of_sizes(sizes: v.Sizes, start: Any, stop: Any) -> v.Sizes:
    """A slice of a list, whose ends the call may decide."""
    ends = [v.number(each or 0) for each in ((start,) if stop is None else (start, stop))]
    return v.Sizes(call("trifold::part_of", sizes.expr, *(each.expr for each in ends)), sizes.listed)


def _is_before_parts(shape: tuple[Any, ...], end: int) -> bool:
    """Whether an end of a slice, counted from the beginning or from the end, has no part of a tensor before it."""
    passed = shape[:end] if end >= 0 else shape[end:]
    return not any(isinstance(each, v.Part) for each in passed)


def _plain(value: bool | int | float) -> bool | int | float:
    """The number that a member of an enumeration is."""
    return value if isinstance(value, (bool, float)) else int(value)


def _place(name: str, place: int) -> cpp.Expr:
    """An index of a list in C++; a negative one is from its end."""
    return cpp.Literal(str(place), place) if place >= 0 else cpp.Name(f"{name}.size() - {-place}")
