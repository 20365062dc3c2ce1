"""Arrays in C++: a pointer, and the sizes and strides that the code uses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from trifold.draft import cpp
from trifold.draft.tree import Type


class Extent(Enum):
    """What a kernel is told about an array beside its address; strides count elements."""

    stride = "stride"
    length = "length"  # of one dimension
    size = "size"  # the number of all elements


@dataclass(frozen=True)
class Wanted:
    """A number that describes an array parameter."""

    array: str
    kind: Extent
    dimension: int  # 0 for size

    def name(self, dimensions: int, contiguous: bool) -> str:
        """Numbered where an array has several of them."""
        strides = dimensions - contiguous
        alone = self.kind is Extent.size or (self.kind is Extent.stride and strides == 1) or dimensions == 1
        number = "" if alone else self.dimension
        return f"{self.array}_{self.kind.value}{number}"


Describe = Callable[[Extent, int], cpp.Expr]


@dataclass
class Array:
    """An array as the code sees it: a parameter, a shared or local array, or a part of one."""

    pointer: cpp.Expr
    dimensions: int
    describe: Describe  # a stride, length or size
    contiguous: bool = True  # the last dimension has a stride of 1
    nested: bool = False  # a C++ array of several dimensions
    element: Type | None = None  # of the elements in C++, where it is less than the array's type says
    stored: str | None = None  # the name of the element's type, where loads and stores convert
    root: int | None = None  # the number of the parameter
    fixed: tuple[int, ...] | None = None  # the lengths of a shared or local array
    space: str = (
        "global"  # where it lies, as far as this function knows: global, shared, local, constant, or passed (any)
    )
    bounded: bool = True  # its length is known
    changes: bool = False  # it is a variable that is another array later

    def extent(self, kind: Extent, dimension: int) -> cpp.Expr:
        """A stride, length or size, of an array of any layout."""
        if kind is Extent.stride and self.contiguous and dimension == self.dimensions - 1:
            return cpp.Literal("1", 1)
        return self.describe(kind, dimension)
