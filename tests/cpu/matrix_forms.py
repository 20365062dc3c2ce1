"""Each shape of mma.sync: a kernel that runs it, and the layout of its operands according to the PTX ISA.

An operand's registers are 64-bit words here, word ``r`` of lane ``l`` at ``[l, r]``, eight words a lane.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

WORDS = 8  # of a lane, or fewer
_BITS = {"f16": 16, "bf16": 16, "tf32": 32, "f32": 32, "s32": 32, "s8": 8, "u8": 8, "f64": 64}
_CONSTRAINTS = {"f32": "f", "f64": "d"}
_VARIABLES = {"r": "uint32_t", "f": "float", "d": "double"}


@dataclass(frozen=True)
class Shape:
    """A form of mma.sync: M×N×K, and the types of D, A, B and C."""

    opcode: str

    def __str__(self) -> str:
        return self.opcode.removeprefix("mma.sync.aligned.")

    @property
    def sizes(self) -> tuple[int, int, int]:
        found = re.search(r"m(\d+)n(\d+)k(\d+)", self.opcode)
        assert found is not None
        m, n, k = map(int, found.groups())
        return m, n, k

    @property
    def types(self) -> list[str]:
        return self.opcode.split(".")[-4:]

    def registers(self, operand: int) -> tuple[str, int]:
        """The constraint and the number of an operand's registers; D, A, B and C are operands 0 to 3."""
        m, n, k = self.sizes
        elements = (m * n, m * k, k * n, m * n)[operand] // 32
        kind = self.types[operand]
        return _CONSTRAINTS.get(kind, "r"), elements // max(32 // _BITS[kind], 1)

    def places(self, operand: int) -> NDArray[np.int64]:
        """The row and column of element i of lane l at [l, i]: PTX ISA, "Matrix Fragments for mma"."""
        m, n, k = self.sizes
        count = (m * n, m * k, k * n, m * n)[operand] // 32
        packed = 4 if "8" in self.types[1] else 2 if "16" in self.types[1] else 1
        made = np.zeros((32, count, 2), dtype=np.int64)
        for lane in range(32):
            group, thread = lane // 4, lane % 4
            for i in range(count):
                if operand in (0, 3):
                    made[lane, i] = group + 8 * (i >= 2), thread * 2 + i % 2
                elif operand == 1:
                    lower = m == 16 and i // packed % 2 == 1
                    made[lane, i] = (
                        group + 8 * lower,
                        thread * packed + i % packed + i // packed // (m // 8) * 4 * packed,
                    )
                else:
                    made[lane, i] = thread * packed + i % packed + i // packed * 4 * packed, group
        return made


SHAPES = [
    Shape(f"mma.sync.aligned.{shape}")
    for shape in (
        *("m16n8k8.row.col.f16.f16.f16.f16", "m16n8k16.row.col.f16.f16.f16.f16"),
        *("m16n8k8.row.col.f32.f16.f16.f32", "m16n8k16.row.col.f32.f16.f16.f32"),
        *("m16n8k8.row.col.f32.bf16.bf16.f32", "m16n8k16.row.col.f32.bf16.bf16.f32"),
        *("m16n8k4.row.col.f32.tf32.tf32.f32", "m16n8k8.row.col.f32.tf32.tf32.f32"),
        *("m8n8k4.row.col.f64.f64.f64.f64", "m16n8k4.row.col.f64.f64.f64.f64"),
        *("m16n8k8.row.col.f64.f64.f64.f64", "m16n8k16.row.col.f64.f64.f64.f64"),
        *("m8n8k16.row.col.s32.s8.s8.s32", "m16n8k16.row.col.s32.u8.s8.s32", "m16n8k32.row.col.s32.s8.u8.s32"),
        "m16n8k32.row.col.satfinite.s32.u8.u8.s32",
    )
]


def source() -> str:
    """The kernel ``products``: block i runs shape i."""
    cases = "\n".join(f"    case {number}: {{ {_case(shape)} }} break;" for number, shape in enumerate(SHAPES))
    return f"""#include <stdint.h>
#include <string.h>
template <typename T> __device__ T value(uint64_t word) {{
  T made;
  memcpy(&made, &word, sizeof made);
  return made;
}}
template <typename T> __device__ uint64_t word(T value) {{
  uint64_t made = 0;
  memcpy(&made, &value, sizeof value);
  return made;
}}
__global__ void products(uint64_t* d, const uint64_t* a, const uint64_t* b, const uint64_t* c) {{
  const int at = {WORDS} * (blockIdx.x * 32 + threadIdx.x);
  d += at; a += at; b += at; c += at;
  switch (blockIdx.x) {{
{cases}
  }}
}}
"""


def _case(shape: Shape) -> str:
    lists, inputs, outputs = [], [], []
    number = 0
    for operand, name in enumerate("dabc"):
        constraint, count = shape.registers(operand)
        lists.append("{" + ", ".join(f"%{number + i}" for i in range(count)) + "}")
        number += count
        if operand == 0:
            outputs = [f'"={constraint}"(made[{i}])' for i in range(count)]
        else:
            inputs += [f'"{constraint}"(value<{_VARIABLES[constraint]}>({name}[{i}]))' for i in range(count)]
    constraint, count = shape.registers(0)
    return (
        f"{_VARIABLES[constraint]} made[{count}]; "
        f'asm volatile("{shape.opcode} {", ".join(lists)};" : {", ".join(outputs)} : {", ".join(inputs)}); '
        f"for (int i = 0; i < {count}; ++i) d[i] = word(made[i]);"
    )


def words(shape: Shape, operand: int, matrix: NDArray[np.float64]) -> NDArray[np.uint64]:
    """The registers of an operand with this matrix as its value."""
    kind = shape.types[operand]
    places = shape.places(operand)
    elements = bits_of(kind, matrix[places[..., 0], places[..., 1]])
    packed = max(32 // _BITS[kind], 1)
    shifts = np.arange(packed, dtype=np.uint64) * np.uint64(_BITS[kind])
    together = (elements.reshape(32, -1, packed) << shifts).sum(axis=2, dtype=np.uint64)
    return np.pad(together, ((0, 0), (0, WORDS - together.shape[1])))


def matrix_of(shape: Shape, registers: NDArray[np.uint64]) -> NDArray[np.float64]:
    """The matrix D that these registers hold."""
    kind = shape.types[0]
    m, n, _ = shape.sizes
    packed = max(32 // _BITS[kind], 1)
    shifts = np.arange(packed, dtype=np.uint64) * np.uint64(_BITS[kind])
    _, count = shape.registers(0)
    mask = np.uint64((1 << _BITS[kind]) - 1)
    elements = ((registers[:, :count, None] >> shifts) & mask).reshape(32, -1)
    made = np.zeros((m, n))
    places = shape.places(0)
    made[places[..., 0], places[..., 1]] = values_of(kind, elements)
    return made


def bits_of(kind: str, values: NDArray[np.float64]) -> NDArray[np.uint64]:
    """The bits of numbers that the type can represent."""
    if kind == "bf16":
        return bits_of("f32", values) >> np.uint64(16)
    bits = _STORED[kind][0]
    return values.astype(_STORED[kind][1]).view(bits).astype(np.uint64)


def values_of(kind: str, bits: NDArray[np.uint64]) -> NDArray[np.float64]:
    return bits.astype(_STORED[kind][0]).view(_STORED[kind][1]).astype(np.float64)


_STORED = {
    "f16": (np.uint16, np.float16),
    "tf32": (np.uint32, np.float32),
    "f32": (np.uint32, np.float32),
    "f64": (np.uint64, np.float64),
    "s8": (np.uint8, np.int8),
    "u8": (np.uint8, np.uint8),
    "s32": (np.uint32, np.int32),
}
