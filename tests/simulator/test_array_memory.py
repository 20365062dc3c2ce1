"""Shared, local and constant arrays that a kernel allocates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.simulator.handwritten import here
from tests.simulator.test_array import in_kernel
from tests.simulator.test_checker import found, run
from trifold import _simulator as sim


def test_two_shared_arrays_of_one_line_are_two_and_one_in_a_loop_is_one() -> None:
    def allocate() -> tuple[bool, bool]:
        a, b = sim.shared.array(4, np.float32), sim.shared.array(4, np.float32)
        loop = [sim.shared.array(4, np.float32) for _ in range(2)]
        return a is b, loop[0] is loop[1]

    assert in_kernel(allocate) == (False, True)


def test_a_call_is_the_same_for_all_threads_of_a_large_block() -> None:
    """Python runs a call as another instruction when it has been called a few times."""

    def sum_up(y: Any) -> Iterator[Any]:
        tile = sim.shared.array(256, np.int32)
        tile[sim.threadIdx.x] = sim.threadIdx.x
        yield here()
        if sim.threadIdx.x == 0:
            y[0] = sum(int(tile[i]) for i in range(256))

    y = np.zeros(1, np.int32)
    run(sum_up, y, block=256)
    assert y[0] == 255 * 128


def test_types_and_shapes_of_arrays() -> None:
    numba = pytest.importorskip("numba")

    def allocate() -> list[Any]:
        dtypes = (np.float32, np.dtype("i2"), "f8", sim.float32, numba.float32, numba.complex64, bool, float)
        return [sim.local.array((2, 3), dtype) for dtype in dtypes]

    arrays = in_kernel(allocate)
    assert [a.dtype.name for a in arrays] == [
        *("float32", "int16", "float64", "float32", "float32", "complex64", "bool", "float64")
    ]
    assert {a.shape for a in arrays} == {(2, 3)}


def test_memory_that_nobody_wrote_holds_what_shows() -> None:
    def contents() -> tuple[str, str]:
        return str(sim.local.array(2, np.float32)), str(sim.shared.array(2, np.int32))

    assert in_kernel(contents) == ("[nan nan]", "[-875836469 -875836469]")


def dynamic(y: Any, size: int) -> Iterator[Any]:
    words, octets = sim.shared.array(0, np.int32), sim.shared.array(0, np.uint8)
    i = sim.threadIdx.x
    if i == 0:
        words[size] = 0x01020304
    yield here()
    y[i] = octets[i]


def test_arrays_of_dynamic_shared_memory_are_one_memory() -> None:
    y = np.zeros(4, np.uint8)
    run(dynamic, y, 0, block=4, shared=16)
    assert list(y) == [4, 3, 2, 1]
    finding = found(dynamic, y, 4, block=4, shared=16)
    assert (finding.kind, finding.array, finding.index) == ("out-of-bounds", "words", (4,))


def test_too_much_shared_memory_names_kernel_and_limit() -> None:
    with pytest.raises(RuntimeError, match=r"kernel kernel declares 49156 bytes.*at most 49152"):
        in_kernel(lambda: sim.shared.array(12289, np.float32))
    with pytest.raises(RuntimeError, match=r"kernel kernel uses 240000 bytes.*200000 dynamic"):
        in_kernel(lambda: sim.shared.array(10000, np.float32), shared=200000)


def test_alignments_are_numbas() -> None:
    aligned = in_kernel(lambda: sim.shared.array(3, np.float32, 256).__array_interface__["data"][0])
    assert aligned % 256 == 0
    for wrong, text in ((3, "power of 2"), (0, "positive"), (4, "multiple of 8"), ("x", "integer")):
        with pytest.raises(ValueError, match=text):
            in_kernel(lambda wrong=wrong: sim.local.array(3, np.float32, alignment=wrong))


def test_a_misaligned_view_of_shared_memory_is_found() -> None:
    def shifted() -> None:
        sim.shared.array(16, np.uint8)[1:5].view(np.float32)

    finding = found(shifted)
    assert (finding.kind, finding.memory) == ("misaligned", "shared")
    assert "multiples of 4" in finding.message


def test_a_constant_array_is_read_only() -> None:
    table = np.arange(4.0)

    def read_and_write() -> None:
        constant = sim.const.array_like(table)
        assert constant[2] == 2.0
        constant[2] = 0.0

    with pytest.raises(TypeError, match="constant array"):
        in_kernel(read_and_write)


def test_shared_memory_exists_only_in_a_kernel() -> None:
    with pytest.raises(RuntimeError, match="outside a kernel"):
        sim.shared.array(4, np.float32)
