"""The arguments that a kernel can have, and their conversion."""

from __future__ import annotations

import warnings
from collections import namedtuple
from enum import IntEnum
from typing import Any

import numpy as np
import pytest
import torch
from numba import cuda

from trifold import KernelFault, OutOfBounds
from trifold.errors import LaunchError
from trifold.simulator.arguments import ArgumentError, Output


@cuda.jit
def double(x, out):
    i = cuda.grid(1)
    out[i] = x[i] * 2


TENSORS = {
    "float32": lambda: torch.arange(4, dtype=torch.float32),
    "bfloat16": lambda: torch.arange(4, dtype=torch.bfloat16),
    "float16": lambda: torch.arange(4, dtype=torch.float16),
    "int64": lambda: torch.arange(4),
    "bool": lambda: torch.tensor([True, False, True, True]),
    "strided": lambda: torch.arange(8.0)[::2],
    "expanded": lambda: torch.tensor([3.0]).expand(4),
    "transposed": lambda: torch.arange(8.0).reshape(4, 2).T[1],
    "with a gradient": lambda: torch.arange(4.0, requires_grad=True),
    "a parameter": lambda: torch.nn.Parameter(torch.arange(4.0)),
}


@pytest.mark.parametrize("name", TENSORS)
def test_tensors_are_read_as_they_lie(name):
    x = TENSORS[name]()
    out = torch.zeros(4, dtype=torch.float64)
    double[1, 4](x, out)
    assert out.tolist() == (x.detach().to(torch.float64) * 2).tolist()


def test_tensors_are_written_without_a_copy():
    out = torch.zeros(8, dtype=torch.bfloat16)[::2]
    double[1, 4](np.arange(4) + 0.001, out)
    assert out.tolist() == [0.0020, 2, 4, 6] or out.dtype is torch.bfloat16
    assert out.tolist()[1:] == [2, 4, 6]


def test_a_tensor_of_no_dimension():
    @cuda.jit
    def kernel(x):
        x[()] += 1

    x = torch.tensor(2.0)
    kernel[1, 1](x)
    assert x.item() == 3


@pytest.mark.parametrize(
    ("tensor", "words"),
    [
        (torch.zeros(4, device="meta"), "x is on meta"),
        (torch.eye(4).to_sparse(), "x has layout torch.sparse_coo"),
        (torch.zeros(4, dtype=torch.complex64).conj(), "lazily conjugated"),
        (torch.zeros(4, dtype=torch.float8_e4m3fn), "which kernels cannot read"),
        ([1, 2], "double: x is a list"),
        ({}, "x is a dict"),
        (np.array([None]), "array of Python objects"),
        (2**70, "more than 64 bits"),
    ],
)
def test_what_a_kernel_cannot_take(tensor, words):
    with pytest.raises(ArgumentError, match=words):
        double[1, 4](tensor, np.zeros(4))


def test_the_number_of_arguments():
    with pytest.raises(TypeError, match=r"double takes 2 arguments \(x, out\), but 1 were given"):
        double[1, 1](np.zeros(1))
    with pytest.raises(LaunchError):
        double[1, 1](1, 2, 3)

    @cuda.jit
    def kernel(out, value=3):
        out[0] = value

    out = np.zeros(1)
    kernel[1, 1](out)
    assert out[0] == 3

    @cuda.jit
    def many(out, *values):
        out[0] = values[0] + values[1]

    many[1, 1](out, 4, 5)
    assert out[0] == 9


def test_hints_copy_one_way():
    @cuda.jit
    def kernel(a, b, c):
        i = cuda.grid(1)
        a[i] += 1
        b[i] = a[i]
        c[i] += a[i]

    a, b, c = np.ones(4), np.ones(4), np.ones(4)
    kernel[1, 4](cuda.In(a), cuda.Out(b), cuda.InOut(c))
    assert (a.tolist(), b.tolist(), c.tolist()) == ([1] * 4, [2] * 4, [3] * 4)


def test_what_out_gives_a_kernel_is_not_initialised():
    @cuda.jit
    def kernel(out):
        out[0] += 1

    for argument in (cuda.Out(np.zeros(1)), Output(np.zeros(1)), Output(torch.zeros(1)), cuda.device_array(1)):
        with pytest.raises(KernelFault, match="uninitialised read"):
            kernel[1, 1](argument)


def test_device_arrays_count_as_written_once_the_host_has():
    @cuda.jit
    def kernel(x, out):
        out[0] = x[0]

    for write in (
        lambda array: array.copy_to_device(np.ones(2)),
        lambda array: array.__setitem__(slice(None), 1),
        lambda array: array[0:1].copy_to_device(np.ones(1)),
        lambda array: kernel[1, 1](np.ones(1), array),
    ):
        array = cuda.device_array(2)
        write(array)
        kernel[1, 1](array, np.zeros(1))
    with pytest.raises(KernelFault):
        kernel[1, 1](cuda.device_array((2, 2)).reshape(4), np.zeros(1))
    kernel[1, 1](cuda.to_device(np.full(2, np.nan)), np.zeros(1))


def test_numbers_have_their_types():
    @cuda.jit
    def kernel(out, a, b):
        out[0] = a + b

    out = np.zeros(1)
    tiny = 2.0**-25
    kernel[1, 1](out, np.float32(1), np.float32(tiny))
    assert out[0] == 1
    kernel[1, 1](out, np.float32(1), tiny)
    assert out[0] == 1 + tiny
    whole = np.zeros(1, np.int64)
    kernel[1, 1](whole, 2**62, 2**62)
    assert whole[0] == -(2**63)
    kernel[1, 1](whole, True, np.int8(127))
    assert whole[0] == 128
    kernel[1, 1](out, np.array(2.5)[()], 1)
    assert out[0] == 3.5


Pair = namedtuple("Pair", ["x", "scale"])


class Mode(IntEnum):
    on = 2


def test_tuples_named_tuples_enumerations_and_none():
    @cuda.jit
    def kernel(out, pair, nested, mode, nothing):
        i = cuda.grid(1)
        if nothing is None:
            out[i] = pair.x[i] * pair.scale + nested[1][0][i] + mode

    out = np.zeros(3)
    kernel[1, 3](out, Pair(np.arange(3.0), 2), (1, (np.ones(3),)), Mode.on, None)
    assert out.tolist() == [3, 5, 7]


def test_a_tuples_member_is_named_in_a_finding():
    @cuda.jit
    def kernel(pair):
        pair.x[5] = 1

    with pytest.raises(OutOfBounds) as fault:
        kernel[1, 1](Pair(np.zeros(3), 1))
    assert fault.value.findings[0].array == "pair.x"


def test_records_are_written_in_place():
    records = np.zeros(2, np.dtype([("a", "f4"), ("b", "i8")], align=True))

    @cuda.jit
    def kernel(array, record):
        array[0].a = 1.5
        record.b = 7
        record["a"] = array[0]["a"]

    kernel[1, 1](records, records[1])
    assert records.tolist() == [(1.5, 0), (1.5, 7)]


TABLE = np.arange(4.0)
ON_DEVICE: Any = None


def test_arrays_by_name_are_constant(monkeypatch):
    @cuda.jit
    def read(out):
        i = cuda.grid(1)
        out[i] = TABLE[i]

    @cuda.jit
    def write(out):
        TABLE[0] = 1

    @cuda.jit
    def beyond(out):
        out[0] = TABLE[4]

    out = np.zeros(4)
    read[1, 4](out)
    assert out.tolist() == [0, 1, 2, 3]
    with pytest.raises(Exception, match="TABLE"):
        write[1, 1](out)
    with pytest.raises(OutOfBounds) as fault:
        beyond[1, 1](out)
    assert fault.value.findings[0].array == "TABLE"

    monkeypatch.setitem(globals(), "ON_DEVICE", cuda.to_device(np.zeros(4)))

    @cuda.jit
    def count():
        cuda.atomic.add(ON_DEVICE, 0, 1)

    count[2, 3]()
    assert ON_DEVICE[0] == 6


def test_extensions_prepare_arguments():
    class AddOne:
        def prepare_args(self, ty, value, stream, retr):
            retr.append(lambda: done.append(True))
            return ty, (value + 1 if isinstance(value, int) else value)

    def kernel(out, n):
        out[0] = n

    done: list[bool] = []
    jitted = cuda.jit(kernel)
    jitted.extensions.append(AddOne())
    out = np.zeros(1)
    jitted[1, 1](out, 4)
    assert out[0] == 5
    assert done == [True, True]


def test_the_same_array_read_twice_is_no_warning():
    @cuda.jit
    def add(x, y, out):
        i = cuda.grid(1)
        out[i] = x[i] + y[i]

    x, out = np.ones(4), np.zeros(4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        add[1, 4](x, x, out)
        add[1, 2](x[:2], x[2:], out)
    assert out.tolist() == [2] * 4
