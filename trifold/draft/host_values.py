"""The values with which a launch function is executed symbolically.

A launch function is executed once, on values that represent all calls. What is known while drafting (numbers, names,
kernels, tuples) is a Python object; what depends on the call is one of these classes, with its C++ expression. A value
that depends on the dtype of the op's arguments is a tuple with an element for each dtype that the key may have. The key
is the first tensor whose dtype is checked.
"""

from __future__ import annotations

import ast
import dataclasses
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from numba import types

from trifold import prototype
from trifold.draft import cpp
from trifold.draft.tree import Interval

FLOATING = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
COMPLEX = (torch.complex128, torch.complex64)
HALF = (torch.float16, torch.bfloat16)
SIZE: Interval = (0, 2**47)

INT = (types.int64,)
BOOL = (types.boolean,)
FLOAT = (types.float64,)

NUMBERS = {INT: "int64_t", FLOAT: "double", BOOL: "bool"}  # C++ types

Dtypes = tuple[torch.dtype, ...]

Memory = frozenset[object]  # allocations
#: The memory of the op's arguments, which may overlap one another, but nothing that is allocated later.
ARGUMENTS: Memory = frozenset({"arguments"})


@dataclass(frozen=True)
class OfArgument:
    """The memory of one argument of the op."""

    name: str


def of_argument(name: str) -> Memory:
    return ARGUMENTS | {OfArgument(name)}


@dataclass(eq=False)
class Allocation:
    """The memory of a new tensor, on the device of a tensor in the memory ``on``, if that is known."""

    on: Memory | None


@dataclass(eq=False)
class Exchange:
    """A loop that assigns tensors: whether they lie apart before each iteration, since they do before the loop, and an
    iteration only exchanges them."""

    apart: bool = True


@dataclass(eq=False)
class Exchanged:
    """The memory of one of the tensors that a loop exchanges: one of these allocations, but never that of another."""

    by: Exchange
    one_of: Memory


def arguments_in(memory: Memory | None) -> list[str]:
    """The names of the op's arguments that a tensor in this memory may be, or be a part of."""
    names = []
    for each in memory or ():
        if isinstance(each, Exchanged):
            names += arguments_in(each.one_of)
        elif isinstance(each, OfArgument):
            names.append(each.name)
    return sorted(names)


def devices_in(memory: Memory | None) -> list[str]:
    """The names of the op's arguments on whose device a tensor in this memory is."""
    names = set[str]()
    for each in memory or ():
        if isinstance(each, Exchanged):
            names.update(devices_in(each.one_of))
        elif isinstance(each, Allocation):
            names.update(devices_in(each.on))
        else:
            names.update(arguments_in(frozenset({each})))
    return sorted(names)


def overlap(a: Memory | None, b: Memory | None) -> bool:
    """Whether two tensors may share memory. None: the memory is not known."""
    if a is None or b is None:
        return True
    return any(_may_be_one(x, y) for x in a for y in b)


def _may_be_one(a: object, b: object) -> bool:
    if any(isinstance(each, Exchanged) and not each.by.apart for each in (a, b)):
        return True  # the loop may have assigned any memory
    if isinstance(a, Exchanged) and isinstance(b, Exchanged) and a.by is b.by:
        return a is b
    sets = [each.one_of if isinstance(each, Exchanged) else frozenset({each}) for each in (a, b)]
    plain = not isinstance(a, Exchanged) and not isinstance(b, Exchanged)
    return a == b if plain else overlap(*sets)


@dataclass(eq=False)
class Number:
    """An int, float or bool; ``type`` is INT, FLOAT or BOOL."""

    expr: cpp.Expr
    type: tuple[types.Type]
    interval: Interval | None = None
    facts: Facts = ()  # facts that hold if this is true
    of_dtype: tuple[Any, ...] | None = None  # its value for each dtype of the key
    # of a condition: the same, None where it also depends on other things
    certain: tuple[bool | None, ...] | None = None
    precision: Precision | None = None  # of a float that NumPy computed
    quotient: tuple[Any, Any] | None = None  # of a quotient of integers: both operands
    bytes_of: Tensor | None = None  # of an element size: the tensor


@dataclass(frozen=True)
class Precision:
    """NumPy's float64 if a condition on the key's dtype holds, otherwise its float32; without a condition, float32."""

    wide: cpp.Expr | None
    kinds: tuple[types.Type, ...]  # for each dtype of the key


@dataclass(eq=False)
class Perhaps:
    """An argument ``int | None``, ``float | None`` or ``bool | None``; ``type`` is INT, FLOAT or BOOL. ``listed``: it
    is ``list[int] | None``."""

    expr: cpp.Expr
    type: tuple[types.Type]
    present: bool = False  # whether it is known to be a number, or a list, which ``expr`` then is
    listed: bool = False

    @property
    def value(self) -> Number | Sizes:
        """What it is if it is present."""
        return Sizes(self.expr, listed=True) if self.listed else Number(self.expr, self.type)


@dataclass(eq=False)
class Tensor:
    expr: cpp.Expr
    known: Dtypes | None = None  # its dtype for each dtype of the key
    dimensions: int | None = None
    at_least: int = 0  # dimensions, of a number that is not known
    optional: bool = False
    is_dtype: bool = False  # represents an argument that is a dtype: ``expr`` is a ScalarType
    present: bool = True  # whether an optional tensor is known to be present
    dense: bool = False  # the kernel reads its elements in their order in memory
    strided: bool = False  # an argument whose strides are passed to the kernel
    same_shape: list[Tensor] = field(default_factory=list)
    like: Tensor | None = None  # the tensor that has the same dtype
    one_of: tuple[Tensor, ...] = ()  # the tensors that this one may be: a condition chooses
    sizes: tuple[int, ...] | None = None  # of an element, for each dtype of the key, if the dtype is unknown
    choices: Dtypes = ()  # the dtypes that a check allows, whatever the key's is
    # for each dtype of the key, if that decides: whether it is the first of the two
    is_first: tuple[bool, ...] | None = None
    memory: Memory | None = None  # the allocations that it may be in; None: any

    @property
    def dtypes(self) -> Dtypes | None:
        return self.known if self.known is not None or self.like is None else self.like.dtypes

    @property
    def root(self) -> Tensor:
        """The tensor that determines its dtype."""
        return self if self.known is not None or self.like is None else self.like.root

    def candidates(self) -> Iterator[Tensor]:
        """Itself, and the tensors that it may be."""
        yield self
        for each in self.one_of:
            yield from each.candidates()

    def take_shape_of(self, other: Tensor) -> None:
        """Both have one shape."""
        self.dimensions = other.dimensions = self.dimensions or other.dimensions
        self.at_least = other.at_least = max(self.at_least, other.at_least)
        self.same_shape.append(other)
        other.same_shape.append(self)

    @property
    def element_sizes(self) -> tuple[int, ...] | None:
        if self.dtypes is not None:
            return tuple(each.itemsize for each in self.dtypes)
        return self.sizes if self.sizes is not None or self.like is None else self.like.element_sizes


@dataclass(frozen=True)
class Either:
    """One of two values that are neither numbers nor tensors, such as kernels."""

    test: Number
    chosen: Any
    otherwise: Any


@dataclass(eq=False)
class Tensors:
    """An argument that is a list of tensors, or a list of results.

    Attributes:
        element: each of them in a loop over the list. What a loop has checked of all, later ones know.
        checked_with: the lists of the loops that checked only as many tensors as the shortest of these has.
        looped: whether this is within a loop over the list.
        added: what is known of each tensor that was added to a list of results.
    """

    name: str
    expr: cpp.Name
    element: Tensor | None = None
    checked_with: frozenset[str] = frozenset()
    looped: bool = False
    present: bool = True
    added: Tensor | None = None

    def is_known_in(self, names: frozenset[str]) -> bool:
        """Whether ``element`` is that of a new loop over lists of these names: else it is one that nothing checked."""
        return not self.looped and self.checked_with <= names


@dataclass(frozen=True)
class Output:
    tensor: Tensor


@dataclass(frozen=True)
class Given:
    """Whether an argument that may be None is given."""

    value: Tensor | Perhaps
    given: bool


@dataclass(frozen=True)
class Fact:
    tensor: Tensor
    dtypes: Dtypes | None = None  # the possible dtypes
    by_key: Dtypes | None = None  # the dtype for each dtype of the key
    dimensions: int | None = None
    at_least: int | None = None  # dimensions
    sizes: tuple[int, ...] | None = None  # the possible element sizes
    same_dtype: Tensor | None = None  # another tensor that has its dtype
    same_shape: Tensor | None = None  # likewise


Facts = tuple[Fact | Given, ...]


@dataclass(frozen=True)
class DtypeOf:
    """A dtype: the tensor's, or another one for each dtype of the key.

    ``scalar``: as a ScalarType. An argument that is a dtype is the dtype of a tensor that represents it.
    """

    dtypes: Dtypes | None
    tensor: Tensor | None = None
    scalar: cpp.Expr | None = None


def with_dtype(argument: Any) -> Tensor | None:
    """The tensor that an argument is, or that represents an argument that is a dtype."""
    if isinstance(argument, DtypeOf) and argument.tensor is not None and argument.tensor.is_dtype:
        return argument.tensor
    return argument if isinstance(argument, Tensor) else None


@dataclass(frozen=True)
class Part:
    """A range of a shape's dimensions whose number depends on the call: ``x.shape[:-1]``."""

    tensor: Tensor
    start: int
    stop: int  # from the end, 0 or less


@dataclass(frozen=True)
class Shape:
    """The sizes of tensors, or of a part of their dimensions.

    Attributes:
        listed: they are a list, which Python writes in brackets.
    """

    parts: tuple[Number | int | Part, ...]
    listed: bool = False


def shape_of(tensor: Tensor) -> Shape:
    return Shape((Part(tensor, 0, 0),))


class Elements(tuple[Any, ...]):
    """The elements of a list, which Python writes in brackets."""

    __slots__ = ()


def listed(value: Any) -> Any:
    """A tuple or shape as a list."""
    if isinstance(value, Shape | Sizes):
        return dataclasses.replace(value, listed=True)
    return Shape(value, listed=True) if any(isinstance(each, Part) for each in value) else Elements(value)


@dataclass(frozen=True)
class Sizes:
    """A shape as a list in C++, or an argument that is a list of integers.

    Attributes:
        listed: it is a list, which Python writes in brackets.
    """

    expr: cpp.Expr
    listed: bool = False


@dataclass(frozen=True)
class Floats:
    """An argument that is a list of floats."""

    expr: cpp.Expr

    def __iter__(self) -> Iterator[Any]:
        raise TypeError("how many floats the list has is not known while drafting; unpack it, or write s[k]")


@dataclass(frozen=True)
class Pieces:
    """Pieces of a tensor, whose number is that of the names into which they are unpacked.

    Attributes:
        make: the piece at a place, of so many.
    """

    make: Callable[[int, int], Tensor]


@dataclass(frozen=True)
class OfEach:
    """A value for each of some sizes, whose number the call decides.

    Attributes:
        place, name: what the index of a size and the size are called; an index that is not used is "".
        value: a number or condition.
        condition: only the sizes for which this holds have a value; True: all.
    """

    sizes: Sizes | Shape
    place: str
    name: str
    value: Any
    condition: Any


@dataclass(frozen=True)
class DeviceOf:
    """A tensor's device, or an argument that is a device."""

    tensor: Tensor | None
    expr: cpp.Expr | None = None


@dataclass(frozen=True)
class Limits:
    """``torch.finfo`` or ``torch.iinfo`` of a dtype that the call decides."""

    of: Callable[[torch.dtype], Any]
    dtype: DtypeOf
    scalar: cpp.Expr


@dataclass(frozen=True)
class DeviceProperties:
    """``torch.cuda.get_device_properties`` of a tensor's device."""

    tensor: Tensor


@dataclass(frozen=True)
class DeviceType:
    """``x.device.type``."""

    tensor: Tensor


@dataclass(frozen=True)
class Text:
    """A message: literal text, and parts that are formatted at run time."""

    parts: tuple[str | cpp.Expr, ...]


@dataclass(frozen=True)
class Method:
    owner: Any
    name: str


@dataclass(frozen=True)
class Listed:
    """``x.tolist()``, of which an element is read at once."""

    tensor: Tensor


@dataclass(frozen=True)
class Unknown:
    """What a name has where it cannot be read: why, and what to write instead."""

    problem: str
    remedy: str


@dataclass(frozen=True)
class Local:
    """A function defined within another one."""

    tree: ast.FunctionDef
    names: dict[str, Any] = field(hash=False)


def allocated(like: Tensor | None = None) -> Memory:
    """The memory of a new tensor, on the device of another one."""
    return frozenset({Allocation(None if like is None else like.memory)})


class NamedInt(int):
    """A constant of the prototype's module, or an expression of such constants: ``expr`` has their names."""

    expr: cpp.Expr


class NamedFloat(float):
    expr: cpp.Expr


def named(value: int | float, expr: cpp.Expr) -> NamedInt | NamedFloat:
    made: NamedInt | NamedFloat = NamedInt(value) if isinstance(value, int) else NamedFloat(value)
    interval = (value, value) if isinstance(value, int) else None
    made.expr = dataclasses.replace(expr, type=INT if isinstance(value, int) else FLOAT, interval=interval)
    return made


#: The threads of a block, unless a launch states them.
THREADS_PER_BLOCK = named(prototype.THREADS_PER_BLOCK, cpp.Name("trifold::threads_per_block"))


def number(value: Any) -> Number:
    """Any number as a :class:`Number`."""
    if isinstance(value, Number):
        return value
    if isinstance(value, (NamedInt, NamedFloat)):
        return Number(value.expr, INT if isinstance(value, int) else FLOAT, value.expr.interval)
    if isinstance(value, bool):
        return Number(cpp.Literal("true" if value else "false", value, type=BOOL), BOOL, (int(value), int(value)))
    if isinstance(value, int):
        text = str(value) if abs(value) < 2**31 else f"{value}"
        return Number(cpp.Literal(text, value, type=INT, interval=(value, value)), INT, (value, value))
    if isinstance(value, Floats):
        raise TypeError("a list of floats is no number")
    real = float(value)
    if not math.isfinite(real):
        return Number(cpp.Name(cpp.not_finite(real), type=FLOAT), FLOAT)
    return Number(cpp.Literal(repr(real), real, type=FLOAT), FLOAT)


def computed(dtypes: Dtypes) -> tuple[types.Type, ...]:
    """The Numba types in which kernels compute with elements of these dtypes: float32 for half types."""
    from numba.np.numpy_support import from_dtype

    return tuple(
        types.float32 if each in HALF else from_dtype(torch.empty(0, dtype=each).numpy().dtype) for each in dtypes
    )
