"""Kernels that are refused. Each has a comment at the line that the refusal names: the words that it must have."""

import math
from collections import namedtuple

import numpy as np
from numba import complex64, cuda, float32, float64, from_dtype, int64, uint8
from numba.cuda import libdevice

LENGTHS = [4, 8]
Both = namedtuple("Both", ["first", "second"])
LENGTHS_OF_PARTS = (4, 8)
TURNS = np.array([1, 1j])


@cuda.jit(device=True)
def checked_sign(v):
    return v > 0


@cuda.jit
def negative_index(x):
    held = cuda.shared.array(0, float32)
    x[0] = held[-1]  # refused: counts from the end, which dynamic shared memory


@cuda.jit(device=True)
def count_up(x):
    x[0] += 1
    return x[0]


@cuda.jit
def order_in_the_condition_of_a_loop(x):
    while count_up(x) < x[1]:  # refused: or changes in memory; assign it to a variable before
        x[2] += 1


@cuda.jit
def order_where_it_may_not_be_computed(x):
    if x[1] > 0 and count_up(x) > x[2]:  # refused: computed before or after
        x[1] = 0


@cuda.jit
def part_of_a_tuple_by_variables(x, n):
    x[0] = len(x.shape[n:])  # refused: a part of a tuple has constant bounds


@cuda.jit
def compares_tuples(x, n):
    if (n, 1) < (1, n):  # refused: tuples are not compared; compare their elements one by one
        x[0] = 1


@cuda.jit
def array_without_dimensions(x):
    x[0] = x[()]  # refused: an array without dimensions is not translated; pass one of one element


@cuda.jit
def list_in_a_kernel(x):
    values = [1, 2, 3]  # refused: a list
    x[0] = values[0]


@cuda.jit
def raises(x):
    if x[0] < 0:
        raise ValueError  # refused: raise


@cuda.jit
def function_in_a_kernel(x):
    def squared(v):  # refused: a function within a kernel is not translated; define it outside of the kernel
        return v * v

    x[0] = squared(x[1])


@cuda.jit
def zeros_in_a_kernel(x):
    held = np.zeros(3)  # refused: zeros is not translated; use cuda.local.array(shape, dtype)
    x[0] = held[0]


@cuda.jit(device=True)
def checked(v):
    assert v > 0  # refused: assert in a device function
    return v


@cuda.jit
def asserts(x):
    x[0] = checked(x[1])


@cuda.jit
def walrus(x):
    if (n := x[0]) > 0:  # refused: :=
        x[1] = n


@cuda.jit
def comprehension(x):
    x[0] = sum([k * k for k in range(3)])  # refused: a list comprehension


@cuda.jit
def shared_shape_is_no_constant(x, n):
    held = cuda.shared.array(n, float32)  # refused: must be a constant
    x[0] = held[0]


@cuda.jit
def mixed_tuple(x):
    for k in (1, 2.5):  # refused: a loop over
        x[0] += k


@cuda.jit
def prints(x):
    print(x[0], x)  # refused: Numba prints no array


@cuda.jit
def complex_power(x):
    x[0] = x[1] ** 2  # refused: a power of a complex number


@cuda.jit
def complex_number_among_others(x, y):
    y[0] += x[1]  # refused: a complex64 is not stored in an array of float32; store a part


@cuda.jit
def complex_number_added_to_another(x, y):
    cuda.atomic.add(y, 0, x[1])  # refused: a complex64 is not stored in an array of float32


@cuda.jit
def complex_table(x):
    x[0] = TURNS[1]  # refused: a constant array of complex128


@cuda.jit
def outputs_are_not_unpacked(x):
    both = libdevice.sincosf(x[0])  # refused: this function gives several results
    x[0] = both[0]


@cuda.jit
def length_of_dynamic_shared(x):
    held = cuda.shared.array(0, float32)  # refused: the length of dynamic shared memory
    x[0] = len(held)


@cuda.jit
def changes_an_array_as_a_whole(x):
    x[2:4] += 1  # refused: an array is not changed as a whole


@cuda.jit
def counts_twice(x, counts):
    x[cuda.atomic.add(counts, 0, 1)] //= 2  # refused: which element this is would be computed twice


@cuda.jit
def slice_backwards(x):
    every = x[::-1]  # refused: a slice whose step is no positive constant
    every[0] = 1


@cuda.jit
def copies_a_slice(x):
    x[0:2] = x[2:4]  # refused: a part of an array is assigned to a part of the same one


@cuda.jit
def other_lengths(x):
    held = cuda.local.array(4, float32)
    other = cuda.local.array(3, float32)
    held[:] = other  # refused: 3 elements are assigned to 4
    x[0] = held[0]


@cuda.jit
def too_many_dimensions(x):
    held = cuda.local.array((2, 4), float32)
    held[0] = held  # refused: an array of 2 dimensions is assigned to
    x[0] = held[0, 0]


@cuda.jit
def enumerates_a_range(x):
    for k, v in enumerate(range(3)):  # refused: range
        x[k] = v


@cuda.jit
def zips_into_one(x, y):
    for both in zip(x, y):  # noqa: B905  # refused: this loop over zip is not translated
        x[0] = both[0]


@cuda.jit
def unpacks_a_rest(x):
    first, *others = LENGTHS_OF_PARTS  # refused: an assignment to a starred name
    x[0] = first + len(others)


@cuda.jit(device=True)
def ordered(a, b):
    return (a, b) if checked_sign(b - a) else (b, a)  # refused: a tuple that a call chooses


@cuda.jit
def a_call_chooses(x):
    a, b = ordered(x[0], x[1])
    x[0] = a * 2 + b


@cuda.jit
def left_out(x):
    x[0] = checked_sign()  # refused: checked_sign takes v


@cuda.jit
def local_array_of_a_branch(x, n):
    held = cuda.local.array(4, float32)
    if n > 0:
        held = cuda.local.array(4, float32)  # refused: made in a branch or loop is several in turn
    held[0] = 1
    x[0] = held[0]


@cuda.jit
def loses_digits(x, n):
    t = n  # refused: t is int64 here, and float64 where it meets
    x[1] = t // 3
    if n > 0:
        t = 0.5
    x[0] = t


@cuda.jit(device=True)
def factorial(n):  # refused: calls itself
    return 1 if n < 2 else n * factorial(n - 1)


@cuda.jit
def recursion(x):
    x[0] = factorial(5)


@cuda.jit
def atomic_on_bytes(x):
    cuda.atomic.add(x, 0, 1)  # refused: an atomic operation on


@cuda.jit(device=True)
def row_and_column(k):
    return k // 4, k % 4


@cuda.jit
def tuple_of_a_call(x):
    held = cuda.local.array((4, 4), float32)
    held[row_and_column(5)] = 1  # refused: an index that is a tuple is a variable; assign the tuple to a variable
    x[0] = held[1, 1]


@cuda.jit
def atomic_on_a_row(x):
    held = cuda.shared.array((4, 4), float32)
    cuda.atomic.add(held, 2, 1)  # refused: not on a part of it; write one index for each dimension
    x[0] = held[2, 0]


@cuda.jit
def index_is_no_integer(x):
    cuda.atomic.add(x, 1.5, 1)  # refused: an index must be an integer, not float64; convert it: int(index)


@cuda.jit
def unknown_module(x):
    x[0] = math.factorial(3)  # refused: factorial is not translated


@cuda.jit
def in_an_array(x, n):
    if n in x:  # refused: `in` is translated of a tuple of numbers, without calls; write a tuple
        x[0] = 1


@cuda.jit
def string_in_a_kernel(x, n):
    if n == "mean":  # refused: this literal is not translated; pass numbers to the kernel, or members of an enum
        x[0] = 1


@cuda.jit
def named_tuple_in_a_kernel(x):
    both = Both(x[0], 1)  # refused: Both is not translated; write a tuple, and its elements as p[0] and p[1]
    x[0] = both.first


@cuda.jit
def size_is_called(x):
    x[0] = x.size()  # refused: the method size is not translated in a kernel; write x.size, the number of elements


@cuda.jit
def view_in_a_kernel(x):
    bits = x.view(uint8)  # refused: the method view is not translated in a kernel; of an array: let the
    x[0] = bits[0]


@cuda.jit
def one_name_for_two_functions(x, n):
    f = math.sqrt  # refused: is assigned more than once; give each its own name
    if n > 0:
        f = math.exp
    x[0] = f(x[0])


@cuda.jit
def function_is_no_number(x):
    x[0] += math.sqrt  # refused: sqrt is no number; call it


@cuda.jit
def starred_call(x):
    x[0] = max(*LENGTHS)  # refused: a call with *


@cuda.jit
def returns_a_value(x):
    return x[0]  # refused: a kernel returns nothing


@cuda.jit
def packed_record(points, x):
    x[0] = points[0].x  # refused: a record without the alignment of C++


@cuda.jit
def unknown_field(points, x):
    x[0] = points[0].z  # refused: the record has no field z


@cuda.jit
def copies_a_record(points, x):
    points[1] = points[0]  # refused: is not assigned to an element


@cuda.jit(device=True)
def sum_of(point):
    return point.x + point.y  # refused: this record is not translated


@cuda.jit
def passes_a_record(points, x):
    x[0] = sum_of(points[0])


@cuda.jit
def records_in_turn(points, x):
    p = points[0]  # refused: p is no element of an array, or several in turn
    if x[0] > 1:
        p = points[1]
    x[0] = p.x


@cuda.jit
def changes_a_vector(x):
    v = cuda.float32x2(x[0], x[1])
    v.x = 2  # refused: float32x2 has no fields that can be assigned
    x[0] = v.x


@cuda.jit
def effects_of_an_element_that_is_left_out(x):
    x[0] = (3.0, count_up(x))[0]  # refused: not selected, and changes memory, is not translated


@cuda.jit
def the_length_of_calls(x):
    x[0] = len((count_up(x), 3.0))  # refused: length of a tuple of calls is not translated; assign the tuple before


@cuda.jit(device=True)
def of_it(function, v):
    return function(v)


@cuda.jit
def a_function_of_a_library_is_passed(x):
    x[0] = of_it(math.sqrt, x[1])  # refused: this is not passed to a device function; pass numbers, arrays


_PACKED, _ALIGNED = (
    from_dtype(np.dtype([("x", kind), ("y", np.float64)], align=align))[::1]
    for kind, align in ((np.int8, False), (np.float32, True))
)
_ARRAY, _BYTES, _COMPLEX = float32[::1], uint8[::1], complex64[::1]

#: Each kernel, and its argument types.
KERNELS = {
    "negative_index": [_ARRAY],
    "order_in_the_condition_of_a_loop": [_ARRAY],
    "order_where_it_may_not_be_computed": [_ARRAY],
    "part_of_a_tuple_by_variables": [_ARRAY, int64],
    "compares_tuples": [_ARRAY, int64],
    "array_without_dimensions": [_ARRAY],
    "list_in_a_kernel": [_ARRAY],
    "raises": [_ARRAY],
    "asserts": [_ARRAY],
    "function_in_a_kernel": [_ARRAY],
    "zeros_in_a_kernel": [_ARRAY],
    "walrus": [_ARRAY],
    "comprehension": [_ARRAY],
    "shared_shape_is_no_constant": [_ARRAY, int64],
    "mixed_tuple": [_ARRAY],
    "prints": [_ARRAY],
    "complex_power": [_COMPLEX],
    "complex_number_among_others": [_COMPLEX, _ARRAY],
    "complex_number_added_to_another": [_COMPLEX, _ARRAY],
    "complex_table": [_COMPLEX],
    "outputs_are_not_unpacked": [_ARRAY],
    "length_of_dynamic_shared": [_ARRAY],
    "changes_an_array_as_a_whole": [_ARRAY],
    "counts_twice": [_ARRAY, int64[::1]],
    "slice_backwards": [_ARRAY],
    "copies_a_slice": [_ARRAY],
    "local_array_of_a_branch": [_ARRAY, int64],
    "loses_digits": [float64[::1], int64],
    "recursion": [_ARRAY],
    "atomic_on_bytes": [_BYTES],
    "tuple_of_a_call": [_ARRAY],
    "atomic_on_a_row": [_ARRAY],
    "index_is_no_integer": [_ARRAY],
    "other_lengths": [_ARRAY],
    "too_many_dimensions": [_ARRAY],
    "enumerates_a_range": [_ARRAY],
    "zips_into_one": [_ARRAY, _ARRAY],
    "unpacks_a_rest": [_ARRAY],
    "a_call_chooses": [_ARRAY],
    "left_out": [_ARRAY],
    "unknown_module": [_ARRAY],
    "in_an_array": [_ARRAY, int64],
    "string_in_a_kernel": [_ARRAY, int64],
    "named_tuple_in_a_kernel": [_ARRAY],
    "size_is_called": [_ARRAY],
    "view_in_a_kernel": [_ARRAY],
    "one_name_for_two_functions": [_ARRAY, int64],
    "function_is_no_number": [_ARRAY],
    "starred_call": [_ARRAY],
    "returns_a_value": [_ARRAY],
    "packed_record": [_PACKED, _ARRAY],
    "unknown_field": [_ALIGNED, _ARRAY],
    "copies_a_record": [_ALIGNED, _ARRAY],
    "passes_a_record": [_ALIGNED, _ARRAY],
    "records_in_turn": [_ALIGNED, _ARRAY],
    "changes_a_vector": [_ARRAY],
    "effects_of_an_element_that_is_left_out": [_ARRAY],
    "the_length_of_calls": [_ARRAY],
    "a_function_of_a_library_is_passed": [_ARRAY],
}
