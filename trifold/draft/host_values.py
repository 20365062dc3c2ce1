"""What a launch function computes with, as the binding's C++ sees it.

A launch function is executed once, on values that stand for those of all calls: what is known while drafting (numbers,
names, kernels, tuples) stays a Python object; what a call decides is one of these classes, with its C++ expression.
Where something depends on the dtype of the op's arguments, it is known for each of them: a tuple, with an element for
each dtype that the key, the first tensor whose dtype is checked, may have.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import Any

import torch
from numba import types

from trifold.draft import cpp
from trifold.draft.tree import Interval

FLOATING = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
HALF = (torch.float16, torch.bfloat16)
SIZE: Interval = (0, 2**47)

INT = (types.int64,)
BOOL = (types.boolean,)
FLOAT = (types.float64,)

NUMBERS = {INT: "int64_t", FLOAT: "double", BOOL: "bool"}  # in C++

Dtypes = tuple[torch.dtype, ...]


@dataclass(eq=False)
class Number:
    """An int, float or bool; ``type`` is INT, FLOAT or BOOL."""

    expr: cpp.Expr
    type: tuple[types.Type]
    interval: Interval | None = None
    facts: tuple[Fact, ...] = ()  # what is true of tensors if this is true
    of_dtype: tuple[Any, ...] | None = None  # its value for each dtype of the key
    certain: tuple[bool | None, ...] | None = None  # of a condition: likewise, None where more than that decides
    precision: Precision | None = None  # of a float that NumPy computed
    quotient: tuple[Any, Any] | None = None  # of integers that are divided: both
    bytes_of: Tensor | None = None  # of an element's size: the tensor


@dataclass(frozen=True)
class Precision:
    """NumPy's float64 where a condition on the key's dtype holds, else its float32."""

    wide: cpp.Expr
    kinds: tuple[types.Type, ...]  # for each dtype of the key


@dataclass(eq=False)
class Tensor:
    expr: cpp.Expr
    known: Dtypes | None = None  # its dtype for each dtype of the key
    dimensions: int | None = None
    optional: bool = False
    is_dtype: bool = False  # it stands for an argument that is a dtype: ``expr`` is a ScalarType
    present: bool = True  # whether an optional one is known to be given
    dense: bool = False  # its elements are taken in their order in memory
    strided: bool = False  # an argument, whose strides the kernel takes as they are
    same_shape: list[Tensor] = field(default_factory=list)
    like: Tensor | None = None  # the tensor whose dtype it has
    sizes: tuple[int, ...] | None = None  # of an element, for each dtype of the key, where its dtype is not known
    choices: Dtypes = ()  # those that a check allows it, whatever the key's is
    chosen_from: tuple[tuple[bool, ...], Tensor, Tensor] | None = None  # for each dtype of the key: the first or not

    @property
    def dtypes(self) -> Dtypes | None:
        return self.known if self.known is not None or self.like is None else self.like.dtypes

    @property
    def root(self) -> Tensor:
        """The tensor that decides of its dtype."""
        return self if self.known is not None or self.like is None else self.like.root

    @property
    def element_sizes(self) -> tuple[int, ...] | None:
        if self.dtypes is not None:
            return tuple(each.itemsize for each in self.dtypes)
        return self.sizes if self.sizes is not None or self.like is None else self.like.element_sizes


@dataclass(frozen=True)
class Either:
    """One of two values that are no numbers or tensors, such as kernels."""

    test: Number
    chosen: Any
    otherwise: Any


@dataclass(frozen=True)
class Output:
    tensor: Tensor


@dataclass(frozen=True)
class Fact:
    tensor: Tensor
    dtypes: Dtypes | None = None  # that it may have
    by_key: Dtypes | None = None  # the one that it has, for each dtype of the key
    dimensions: int | None = None
    given: bool | None = None
    sizes: tuple[int, ...] | None = None  # that an element may have


@dataclass(frozen=True)
class DtypeOf:
    """A dtype: the tensor's, or for each dtype of the key another one. ``scalar``: as a ScalarType. An argument that is
    a dtype is that of a tensor which stands for it."""

    dtypes: Dtypes | None
    tensor: Tensor | None = None
    scalar: cpp.Expr | None = None


@dataclass(frozen=True)
class Part:
    """A range of a shape's dimensions, of a number that depends on the call: ``x.shape[:-1]``."""

    tensor: Tensor
    start: int
    stop: int  # from the end, 0 or less


@dataclass(frozen=True)
class Shape:
    parts: tuple[Number | int | Part, ...]


@dataclass(frozen=True)
class Sizes:
    """A shape as a list in C++."""

    expr: cpp.Expr


@dataclass(frozen=True)
class DeviceOf:
    """A tensor's device, or an argument that is one."""

    tensor: Tensor | None
    expr: cpp.Expr | None = None


@dataclass(frozen=True)
class Text:
    """A message: literal text, and parts that are put into words where it is needed."""

    parts: tuple[str | cpp.Expr, ...]


@dataclass(frozen=True)
class Method:
    owner: Any
    name: str


@dataclass(frozen=True)
class Local:
    """A function that is defined within another one."""

    tree: ast.FunctionDef
    names: dict[str, Any] = field(hash=False)


def number(value: Any) -> Number:
    """Any number as a :class:`Number`."""
    if isinstance(value, Number):
        return value
    if isinstance(value, bool):
        return Number(cpp.Literal("true" if value else "false", value, type=BOOL), BOOL, (int(value), int(value)))
    if isinstance(value, int):
        text = str(value) if abs(value) < 2**31 else f"{value}"
        return Number(cpp.Literal(text, value, type=INT, interval=(value, value)), INT, (value, value))
    return Number(cpp.Literal(repr(float(value)), float(value), type=FLOAT), FLOAT)


def computed(dtypes: Dtypes) -> tuple[types.Type, ...]:
    """The Numba types in which kernels see elements of these dtypes: half types as float32."""
    from numba.np.numpy_support import from_dtype

    return tuple(
        types.float32 if each in HALF else from_dtype(torch.empty(0, dtype=each).numpy().dtype) for each in dtypes
    )
