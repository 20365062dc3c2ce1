"""Converts a launch's arguments for the kernel: NumPy arrays, torch tensors, device arrays, scalars and tuples.

Nothing is copied: a kernel works on the caller's memory, as if it were the GPU's. ``cuda.In`` and ``cuda.Out`` are
exceptions: they copy in one direction only.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from trifold.errors import LaunchError
from trifold.simulator import arithmetic
from trifold.simulator.types_of import ArrayType, Type, type_of
from trifold.simulator.uninitialised import never_written, was_filled

# Flags of an argument for _simulator.wrap_arguments: bits of ArgumentFlag in engine/simulator/arguments.cpp.
BITS_OF_BFLOAT16 = 1
UNINITIALISED = 2
CONSTANT = 4
READ_ONLY = 8
FILLED = 16


class ArgumentError(LaunchError, TypeError):
    """An argument that kernels do not accept."""


@dataclass(frozen=True, slots=True)
class Output:
    """An argument that the kernel writes before it reads it: reading it first is a finding."""

    array: Any


@dataclass(slots=True)
class Staging:
    """The arguments of one launch before they are passed to the kernel.

    ``values`` has an entry for each argument that is not a tuple and for each member of a tuple; arrays are NumPy
    arrays there. ``flags`` has each entry's flags for the engine. ``copied`` marks host arrays, which CUDA copies to
    the GPU and back. ``after`` runs when the kernel has ended without an error.
    """

    kernel: str
    names: list[str] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)
    flags: list[int] = field(default_factory=list)
    copied: list[int] = field(default_factory=list)
    records: list[int] = field(default_factory=list)
    after: list[Callable[[], object]] = field(default_factory=list)
    tuples: bool = False

    def add(self, name: str, value: Any, flags: int = 0) -> int:
        """The index that the value will have."""
        self.names.append(name)
        self.values.append(value)
        self.flags.append(flags)
        return len(self.values) - 1


# How to rebuild an argument: the index of its value, or a tuple's members and its constructor.
Shape = int | tuple[Callable[[list[Any]], Any], list["Shape"]]
_Handler = Callable[[Staging, str, Any], Shape]


def stage(staging: Staging, name: str, value: Any) -> Shape:
    """Add one argument.

    Raises:
        ArgumentError: kernels do not accept such a value.
    """
    kind = type(value)
    handler = _handlers.get(kind)
    if handler is None:
        handler = _handlers[kind] = _handler_for(kind, value)
    return handler(staging, name, value)


def stage_captured(staging: Staging, name: str, value: Any) -> None:
    """Add an array that the kernel refers to by name: a host array is constant memory, as in Numba."""
    if isinstance(value, np.ndarray):
        staging.add(name, value, CONSTANT)
    else:
        stage(staging, name, value)


def type_of_shape(shape: Shape, staging: Staging) -> Type:
    """The Numba type of an argument."""
    if not isinstance(shape, int):
        return tuple(type_of_shape(member, staging) for member in shape[1])
    kind = type_of(staging.values[shape])
    if isinstance(kind, ArrayType) and staging.flags[shape] & BITS_OF_BFLOAT16:
        return ArrayType("float32", kind.ndim)
    return kind


def assemble(shape: Shape, values: Sequence[Any]) -> Any:
    """Rebuild an argument from the values that the kernel sees."""
    if isinstance(shape, int):
        return values[shape]
    make, members = shape
    return make([assemble(member, values) for member in members])


def _as_it_is(staging: Staging, name: str, value: Any) -> int:
    return staging.add(name, value)


def _integer(staging: Staging, name: str, value: int) -> int:
    if not -(2**63) <= value < 2**64:
        raise ArgumentError(f"{staging.kernel}: {name} is {value}: more than 64 bits", "pass it in several numbers")
    literal = arithmetic.literal(value)
    return staging.add(name, value if literal is None else literal)


def _scalar(staging: Staging, name: str, value: np.generic) -> int:
    typed = arithmetic.literal(value)
    return staging.add(name, value if typed is None else typed)


def _complex(staging: Staging, name: str, value: complex) -> int:
    return staging.add(name, np.complex128(value))


def _record(staging: Staging, name: str, value: np.void) -> int:
    """A record is passed by reference: the kernel writes into it."""
    array = np.asarray(_Memory(value)).view(value.dtype).reshape(())
    position = staging.add(name, array)
    staging.records.append(position)
    return position


class _Memory:
    """A record's bytes by NumPy's array interface; its own buffer is read-only."""

    def __init__(self, record: np.void) -> None:
        address, _ = record.__array_interface__["data"]
        self.__array_interface__ = {
            "shape": (record.nbytes,), "typestr": "|u1", "data": (address, False), "version": 3
        }  # fmt: skip
        self.record = record


def _host_array(staging: Staging, name: str, value: np.ndarray[Any, Any]) -> int:
    position = _array(staging, name, value)
    staging.copied.append(position)
    return position


def _array(staging: Staging, name: str, value: np.ndarray[Any, Any], flags: int = 0) -> int:
    if value.dtype.hasobject:
        raise ArgumentError(
            f"{staging.kernel}: {name} is an array of Python objects",
            f"give it a numeric dtype: {name}.astype(np.float32)",
        )
    return staging.add(name, value, flags if value.flags.writeable else flags | READ_ONLY)


def _device_array(staging: Staging, name: str, value: Any) -> Shape:
    array = value._ary
    if isinstance(array, np.void):
        return _record(staging, name, array)
    if not isinstance(array, np.ndarray):  # a NumPy scalar, from indexing a device array
        return stage(staging, name, array)
    if not was_filled(array):
        return _array(staging, name, array)
    return _array(staging, name, array, UNINITIALISED if never_written(array) else FILLED)


def _hint(staging: Staging, name: str, value: Any) -> Shape:
    """``cuda.In``, ``cuda.Out``, ``cuda.InOut`` and classes of extensions derived from them."""
    direction = next((base.__name__ for base in type(value).__mro__ if base.__name__ in ("In", "Out", "InOut")), "")
    host = value.value
    if direction in ("In", "Out") and isinstance(host, np.ndarray):
        copy = np.empty_like(host) if direction == "Out" else host.copy()
        if direction == "Out":
            staging.after.append(lambda: np.copyto(host, copy))
        return _array(staging, name, copy, UNINITIALISED if direction == "Out" else 0)
    if direction:
        return stage(staging, name, host)
    device = value.to_device(staging.after)
    return stage(staging, name, device)


def _output(staging: Staging, name: str, value: Output) -> Shape:
    position = stage(staging, name, value.array)
    if not isinstance(position, int):
        raise ArgumentError(f"{staging.kernel}: {name} marks a tuple as an output", "mark the arrays in it")
    staging.flags[position] |= UNINITIALISED
    return position


def _tuple(staging: Staging, name: str, value: tuple[Any, ...]) -> Shape:
    kind = type(value)
    fields = getattr(value, "_fields", None)
    staging.tuples = True
    if fields is not None:
        members = [stage(staging, f"{name}.{key}", member) for key, member in zip(fields, value, strict=True)]
        return lambda parts: kind(*parts), members
    return tuple, [stage(staging, f"{name}[{i}]", member) for i, member in enumerate(value)]


def _tensor(staging: Staging, name: str, value: Any) -> int:
    """A torch tensor on the CPU, without a copy, with its strides; gradients are left to the caller."""
    torch = sys.modules["torch"]
    if value.device.type != "cpu":
        raise ArgumentError(
            f"{staging.kernel}: {name} is on {value.device}; the simulator runs on the CPU", f"pass {name}.cpu()"
        )
    if value.layout is not torch.strided:
        raise ArgumentError(f"{staging.kernel}: {name} has layout {value.layout}", f"pass {name}.to_dense()")
    tensor = value.detach()
    if tensor.is_conj() or tensor.is_neg():
        raise ArgumentError(
            f"{staging.kernel}: {name} is a lazily conjugated or negated view", f"pass {name}.resolve_conj()"
        )
    flags = 0
    if tensor.dtype is torch.bfloat16:
        tensor, flags = tensor.view(torch.int16), BITS_OF_BFLOAT16
    try:
        array = tensor.numpy()
    except (TypeError, RuntimeError):
        raise ArgumentError(
            f"{staging.kernel}: {name} is a tensor of {value.dtype}, which kernels cannot read",
            f"pass {name}.float(), or its bits: {name}.view(torch.uint8)",
        ) from None
    return _array(staging, name, array, flags)


_BY_NAME: dict[type, str] = {list: "a list", dict: "a dict", set: "a set", bytearray: "a bytearray"}


def _refused(staging: Staging, name: str, value: Any) -> Shape:
    what = _BY_NAME.get(type(value), f"a {type(value).__name__}")
    raise ArgumentError(
        f"{staging.kernel}: {name} is {what}; kernels take arrays, numbers and tuples of those",
        f"pass np.asarray({name})",
    )


_handlers: dict[type, _Handler] = {
    bool: _as_it_is,
    float: _as_it_is,
    type(None): _as_it_is,
    str: _as_it_is,
    bytes: _as_it_is,
    int: _integer,
    complex: _complex,
    np.ndarray: _host_array,
    np.void: _record,
    np.record: _record,
    tuple: _tuple,
    Output: _output,
    **dict.fromkeys(_BY_NAME, _refused),
}


def _handler_for(kind: type, value: Any) -> _Handler:
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return _tensor
    for base, handler in (
        (np.ndarray, _host_array),
        (np.void, _record),
        (np.generic, _scalar),
        (tuple, _tuple),
        (list, _refused),
        (dict, _refused),
        (set, _refused),
    ):
        if issubclass(kind, base):
            return handler
    if hasattr(kind, "__cuda_ndarray__"):
        return _device_array
    if hasattr(value, "to_device") and hasattr(value, "value"):
        return _hint
    if hasattr(kind, "__cuda_array_interface__"):
        return _refused
    return _as_it_is  # functions, enumerations, objects of an extension
