"""The arguments of a raw kernel: checks each against its parameter, and converts it to bytes."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from trifold.errors import LaunchError


@dataclass(frozen=True)
class Parameter:
    """A kernel's parameter.

    Attributes:
        name: as in the kernel.
        kind: pointer, value, reference, or accessor of a tensor.
        size: of a value, in bytes.
        element: the dtype of the value, or of the pointer's target; "" if no dtype corresponds (a struct).
        constant: whether the pointer's target is const.
        dimensions: of an accessor.
        index_bytes: of an accessor's sizes and strides.
    """

    name: str
    kind: str
    size: int
    element: str
    constant: bool
    dimensions: int
    index_bytes: int

    @classmethod
    def parse(cls, name: str, line: str) -> Parameter:
        """From the text of a ``ParameterLine`` (trifold/cpu/raw_kernel.h)."""
        kind, size, element, constant, dimensions, index_bytes = line.split("\t")
        return cls(name, kind, int(size), element, bool(constant), int(dimensions), int(index_bytes))


@dataclass(frozen=True)
class Memory:
    """The memory range of an array's elements."""

    begin: int
    size: int

    def read(self) -> bytes:
        return ctypes.string_at(self.begin, self.size)

    def write(self, content: bytes) -> None:
        ctypes.memmove(self.begin, content, self.size)


@dataclass(frozen=True)
class Argument:
    """The argument for one parameter: ``value`` holds its bytes, ``memory`` is the memory range of a pointer."""

    value: ctypes.Array[ctypes.c_char]
    memory: Memory | None = None


def convert(kernel: str, parameters: Sequence[Parameter], args: Sequence[Any]) -> list[Argument]:
    """The arguments of a launch.

    Raises:
        LaunchError: their number, or one of them, does not fit; the message names the parameter.
    """
    if not isinstance(args, (tuple, list)):
        raise LaunchError(f"args must be a tuple, not {type(args).__name__}", "pass (x,) for one argument")
    if len(args) != len(parameters):
        names = ", ".join(parameter.name for parameter in parameters)
        raise LaunchError(
            f"kernel {kernel} takes {len(parameters)} arguments, but {len(args)} were given", f"pass ({names})"
        )
    return [_convert(kernel, parameter, arg) for parameter, arg in zip(parameters, args, strict=True)]


def _convert(kernel: str, parameter: Parameter, arg: Any) -> Argument:
    if parameter.kind == "pointer":
        return Argument(_bytes(bytes(8))) if arg is None else _pointer(kernel, parameter, arg)
    if parameter.kind == "accessor":
        return _accessor(kernel, parameter, arg)
    if parameter.kind == "reference":
        raise _wrong(kernel, parameter, "is a reference, which a kernel cannot have", "use a pointer or a value")
    if isinstance(arg, np.void):
        if arg.nbytes != parameter.size or parameter.element:
            raise _wrong(
                kernel,
                parameter,
                f"is {parameter.element or 'a struct'} of {parameter.size} bytes, but was given one of {arg.nbytes}",
                "give the NumPy dtype the struct's fields and align=True",
            )
        return Argument(_bytes(arg.tobytes()))
    if not parameter.element:
        raise _wrong(
            kernel,
            parameter,
            f"is a struct of {parameter.size} bytes, but was given {_kind(arg)}",
            "pass a NumPy void scalar: np.zeros((), dtype=[…])[()]",
        )
    return Argument(_bytes(_number(kernel, parameter, arg)))


def _number(kernel: str, parameter: Parameter, arg: Any) -> bytes:
    """A Python or NumPy number as the parameter's type; the conversion must keep an integer's value."""
    wants = parameter.element
    if not isinstance(arg, (bool, int, float, np.number, np.bool_)):
        raise _wrong(kernel, parameter, f"is {wants}, but was given {_kind(arg)}", "pass a number")
    if wants == "bool":
        return np.bool_(arg).tobytes()
    if wants.startswith(("int", "uint")):
        if not isinstance(arg, (int, np.integer, np.bool_)):
            raise _wrong(kernel, parameter, f"is {wants}, but was given {_kind(arg)}", "pass an integer")
        whole = int(arg)
        limits = np.iinfo(wants)
        if not limits.min <= whole <= limits.max:
            raise _wrong(
                kernel,
                parameter,
                f"is {wants}, which does not hold {whole}",
                f"pass a number from {limits.min} to {limits.max}",
            )
        return bytes(np.dtype(wants).type(whole).tobytes())
    if wants == "bfloat16":
        import torch

        return bytes(torch.tensor(float(arg), dtype=torch.bfloat16).view(torch.int16).numpy().tobytes())
    with np.errstate(over="ignore"):
        return bytes(np.dtype(wants).type(arg).tobytes())


def _accessor(kernel: str, parameter: Parameter, arg: Any) -> Argument:
    """Address, sizes and strides, as at::GenericPackedTensorAccessor holds them."""
    pointer = _pointer(kernel, parameter, arg)
    if arg.ndim != parameter.dimensions:
        raise _wrong(
            kernel,
            parameter,
            f"accesses a tensor of {parameter.dimensions} dimensions, but was given one of {arg.ndim}",
            "reshape it",
        )
    strides = arg.stride() if callable(getattr(arg, "stride", None)) else [s // arg.itemsize for s in arg.strides]
    index = np.dtype(f"int{8 * parameter.index_bytes}")
    numbers = [*arg.shape, *strides]
    if any(abs(number) > np.iinfo(index).max for number in numbers):
        raise _wrong(
            kernel,
            parameter,
            f"has sizes and strides of {index}, which does not hold {max(numbers)}",
            "use PackedTensorAccessor64",
        )
    return Argument(_bytes(bytes(pointer.value) + np.array(numbers, index).tobytes()), pointer.memory)


def _pointer(kernel: str, parameter: Parameter, arg: Any) -> Argument:
    described = _tensor(kernel, parameter, arg) if type(arg).__module__.startswith("torch") else None
    described = described or _array(kernel, parameter, arg)
    dtype, address, memory = described
    if parameter.element and not _same_type(parameter.element, dtype):
        raise _wrong(
            kernel,
            parameter,
            f"points to {parameter.element}, but was given an array of {dtype}",
            f"convert the array to {parameter.element}",
        )
    return Argument(_bytes(address.to_bytes(8, "little")), memory if memory.size else None)


def _tensor(kernel: str, parameter: Parameter, arg: Any) -> tuple[str, int, Memory] | None:
    import torch

    if not isinstance(arg, torch.Tensor):
        return None
    if arg.device.type != "cpu" or arg.layout != torch.strided:
        what = f"a tensor on {arg.device}" if arg.layout == torch.strided else "a sparse tensor"
        raise _wrong(kernel, parameter, f"was given {what}", "pass a dense CPU tensor")
    if arg.requires_grad and not parameter.constant and arg.is_leaf and torch.is_grad_enabled():
        raise _wrong(kernel, parameter, "may be written, but was given a leaf that requires grad", "pass x.detach()")
    address = arg.data_ptr()
    last = sum((size - 1) * stride for size, stride in zip(arg.shape, arg.stride(), strict=True))
    used = 0 if arg.numel() == 0 else (last + 1) * arg.element_size()
    return str(arg.dtype).removeprefix("torch."), address, Memory(address, used)


def _array(kernel: str, parameter: Parameter, arg: Any) -> tuple[str, int, Memory]:
    if not isinstance(arg, np.ndarray):
        what = "an accessor of a tensor" if parameter.kind == "accessor" else "a pointer"
        raise _wrong(
            kernel, parameter, f"is {what}, but was given {_kind(arg)}", "pass a torch CPU tensor or a NumPy array"
        )
    if not arg.flags.writeable and not parameter.constant:
        raise _wrong(
            kernel,
            parameter,
            "may be written, but was given an array that is not writable",
            "pass a copy, or make the parameter a pointer to const",
        )
    low, high = np.lib.array_utils.byte_bounds(arg)
    return str(arg.dtype), arg.ctypes.data, Memory(low, high - low if arg.size else 0)


def _same_type(wants: str, given: str) -> bool:
    """Equal, ignoring the sign of integers, which torch mostly lacks."""
    return given.removeprefix("u") == wants.removeprefix("u") or (wants in ("int8", "uint8") and given == "bool")


def _kind(arg: Any) -> str:
    dtype = getattr(arg, "dtype", None)
    return f"{type(arg).__name__} of {dtype}" if dtype is not None else repr(arg) if arg is None else type(arg).__name__


def _bytes(content: bytes) -> ctypes.Array[ctypes.c_char]:
    return ctypes.create_string_buffer(content, len(content))


def _wrong(kernel: str, parameter: Parameter, what: str, remedy: str) -> LaunchError:
    return LaunchError(f"kernel {kernel}: parameter {parameter.name} {what}", remedy)
