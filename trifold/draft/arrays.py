"""Arrays in C++: a pointer, and the sizes and strides that the code uses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from trifold.draft import cpp
from trifold.draft.tree import Type


class Extent(Enum):
    """A number that a kernel needs in addition to an array's address; strides count elements."""

    stride = "stride"
    length = "length"  # of one dimension
    size = "size"  # the number of all elements


@dataclass(frozen=True)
class Wanted:
    """A number that describes an array parameter, and that the code uses."""

    array: str
    kind: Extent
    dimension: int  # 0 for size

    def name(self, dimensions: int, contiguous: bool) -> str:
        """The C++ name: with the dimension's number if an array has several."""
        strides = dimensions - contiguous
        alone = self.kind is Extent.size or (self.kind is Extent.stride and strides == 1) or dimensions == 1
        number = "" if alone else self.dimension
        return f"{self.array}_{self.kind.value}{number}"


Describe = Callable[[Extent, int], cpp.Expr]


@dataclass
class Array:
    """An array as the code uses it: a parameter, a shared or local array, or a part of one."""

    pointer: cpp.Expr
    dimensions: int
    describe: Describe  # returns a stride, length or size
    contiguous: bool = True  # the last dimension has a stride of 1
    nested: bool = False  # a C++ array of several dimensions
    element: Type | None = None  # type of the elements in C++, if narrower than the array's type
    stored: str | None = None  # name of the element's type, if loads and stores convert
    root: int | None = None  # number of the parameter
    fixed: tuple[int, ...] | None = None  # lengths of a shared or local array
    space: str = (
        "global"  # address space, as far as this function knows: global, shared, local, constant, or passed (any)
    )
    bounded: bool = True  # its length is known
    changes: bool = False  # a variable that is assigned other arrays later

    def extent(self, kind: Extent, dimension: int) -> cpp.Expr:
        """A stride, length or size of an array of any layout."""
        if kind is Extent.stride and self.contiguous and dimension == self.dimensions - 1:
            return cpp.Literal("1", 1)
        return self.describe(kind, dimension)
