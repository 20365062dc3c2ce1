"""The tensor methods that a launch function may call."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Callable
from typing import Any

import torch

from trifold.draft import cpp
from trifold.draft import host_values as v
from trifold.draft.from_calls import Unchecked
from trifold.draft.host import Host
from trifold.draft.host_cpp import call, text_of
from trifold.draft.refusal import DraftError

_ADDRESS = (0, 2**63 - 1)


def _dim(host: Host, x: v.Tensor, arguments: Any, keywords: dict[str, Any], node: ast.Call) -> Any:
    return host.dimensions_of(x)


def _numel(host: Host, x: v.Tensor, arguments: Any, keywords: dict[str, Any], node: ast.Call) -> v.Number:
    return v.Number(cpp.CallTo(f"{text_of(x.expr)}.numel", (), type=v.INT, interval=v.SIZE), v.INT, v.SIZE)


def sizes_given(arguments: Any) -> Any:
    return arguments[0] if len(arguments) == 1 and isinstance(arguments[0], (tuple, v.Shape, v.Sizes)) else arguments


def count_of(shape: Any) -> int | None:
    if isinstance(shape, v.Sizes):
        return None
    parts = shape.parts if isinstance(shape, v.Shape) else shape
    if len(parts) == 1 and isinstance(parts[0], v.Part):
        part = parts[0]
        whole = part.tensor.dimensions
        return None if whole is None else whole - part.start + part.stop
    known = [
        (None if each.tensor.dimensions is None else each.tensor.dimensions - each.start + each.stop)
        if isinstance(each, v.Part)
        else 1
        for each in parts
    ]
    return None if None in known else sum(each for each in known if each is not None)


def new_empty(host: Host, x: v.Tensor, arguments: Any, keywords: dict[str, Any], node: ast.Call) -> v.Tensor:
    shape = sizes_given(arguments)
    dims = host.dims(shape, node)
    dtype, device = keywords.get("dtype"), keywords.get("device")
    if device is not None and not (isinstance(device, v.DeviceOf) and device.tensor is x):
        remedy = "write torch.empty(sizes, dtype=..., device=...)"
        raise DraftError(host.place(node), "a new tensor on another device than its own is not translated", remedy)
    if dtype is None:
        expr = call("trifold::empty_contiguous", x.expr, dims)
        return v.Tensor(expr, x.dtypes, count_of(shape), dense=True, memory=v.allocated(x))
    expr = call("trifold::empty_contiguous", x.expr, dims, host.dtype_code(dtype, node))
    return of_dtype(host, expr, dtype, count_of(shape), x)


def of_dtype(host: Host, expr: cpp.Expr, dtype: Any, dimensions: int | None, like: v.Tensor | None = None) -> v.Tensor:
    """A new tensor, on the device of ``like``."""
    made = v.Tensor(expr, dimensions=dimensions, dense=True, memory=v.allocated(like))
    if isinstance(dtype, torch.dtype):
        made.known = (dtype,) * len(host.key_dtypes or (0,))
    else:
        made.known, made.like = dtype.dtypes, None if dtype.dtypes else dtype.tensor
    return made


def new_like(host: Host, x: v.Tensor, arguments: Any, keywords: dict[str, Any], node: ast.Call) -> v.Tensor:
    """``torch.empty_like``: with the layout of elementwise results."""
    dtype = keywords.get("dtype")
    if keywords.get("memory_format") is torch.contiguous_format:
        given = {"dtype": dtype} if dtype is not None else {}
        return new_empty(host, x, (v.shape_of(x),), given, node)
    if arguments or set(keywords) - {"dtype"}:
        raise DraftError(host.place(node), "this empty_like is not translated", "use x.new_empty(...)")
    if dtype is None:
        made = call("trifold::elementwise_output", x.expr)
        strided = x.strided or not x.dense  # else it is contiguous, as x is
        return v.Tensor(made, x.dtypes, x.dimensions, dense=True, strided=strided, memory=v.allocated(x))
    made = call("trifold::elementwise_output_of", x.expr, host.dtype_code(dtype, node))
    return dataclasses.replace(of_dtype(host, made, dtype, x.dimensions, x), strided=True)


# From a function that makes an uninitialised tensor, one that makes a tensor with values.
def zeros_of(make: Callable[..., v.Tensor]) -> Callable[..., v.Tensor]:
    def write(*given: Any) -> v.Tensor:
        x = make(*given)
        return dataclasses.replace(x, expr=call("trifold::zeroed", x.expr))

    return write


def ones_of(make: Callable[..., v.Tensor]) -> Callable[..., v.Tensor]:
    return lambda *given: _filled(make(*given), 1)


def full_of(make: Callable[..., v.Tensor]) -> Callable[..., v.Tensor]:
    def write(*given: Any) -> v.Tensor:
        *before, (of_shape, value), keywords, node = given
        return _filled(make(*before, (of_shape,), keywords, node), value)

    return write


def _filled(x: v.Tensor, value: Any) -> v.Tensor:
    return dataclasses.replace(x, expr=call("trifold::filled", x.expr, v.number(value).expr))


def _reshape(host: Host, x: v.Tensor, arguments: Any, keywords: dict[str, Any], node: ast.Call) -> v.Tensor:
    shape = sizes_given(arguments)
    if any(isinstance(each, (torch.dtype, v.DtypeOf)) for each in (shape if isinstance(shape, tuple) else ())):
        raise DraftError(host.place(node), "a reshape to another dtype is not translated", "use x.view(dtype)")
    expr = call("torch::stable::reshape", x.expr, host.dims(shape, node))
    return v.Tensor(expr, x.dtypes, count_of(shape), memory=x.memory)


def _clone(host: Host, x: v.Tensor, arguments: Any, keywords: dict[str, Any], node: ast.Call) -> v.Tensor:
    if keywords:
        raise DraftError(host.place(node), "a clone in another layout is not translated", "leave the argument out")
    expr = call("torch::stable::clone", x.expr)
    strided = x.strided or not x.dense
    return v.Tensor(expr, x.dtypes, x.dimensions, dense=True, strided=strided, memory=v.allocated(x))


def _view(host: Host, x: v.Tensor, arguments: Any, keywords: dict[str, Any], node: ast.Call) -> v.Tensor:
    if len(arguments) == 1 and isinstance(arguments[0], (torch.dtype, v.DtypeOf)):
        return host.viewed_as(x, arguments[0], node)
    return _reshape(host, x, arguments, keywords, node)


def as_reals(host: Host, arguments: Any, keywords: dict[str, Any], node: ast.Call) -> v.Tensor:
    """``torch.view_as_real``: real and imaginary parts as a last dimension."""
    (x,) = arguments
    return _with_parts(host, x, "view_as_real", 1, node)


def as_complex(host: Host, arguments: Any, keywords: dict[str, Any], node: ast.Call) -> v.Tensor:
    (x,) = arguments
    return _with_parts(host, x, "view_as_complex", -1, node)


# The dtype of a number's parts.
_OF_PARTS = {torch.complex64: torch.float32, torch.complex128: torch.float64}


def _with_parts(host: Host, x: v.Tensor, function: str, more: int, node: ast.Call) -> v.Tensor:
    """A view of the same memory, with so many dimensions more."""
    of = _OF_PARTS if more > 0 else {real: each for each, real in _OF_PARTS.items()}
    if x.dtypes is None:
        problem = "the dtype of this tensor is not known while drafting"
        raise Unchecked(host.place(node), host, "dtype", x, problem, "check x.dtype")
    if not all(each in of for each in x.dtypes):
        kinds = " or ".join(str(each).removeprefix("torch.") for each in of)
        raise DraftError(host.place(node), f"torch.{function} is of {kinds}", "check x.dtype before")
    dimensions = None if x.dimensions is None else x.dimensions + more
    expr = call(f"trifold::{function}", x.expr)
    return v.Tensor(expr, tuple(of[each] for each in x.dtypes), dimensions, memory=x.memory)


def _storage_offset(host: Host, x: v.Tensor, arguments: Any, keywords: dict[str, Any], node: ast.Call) -> v.Number:
    return v.Number(cpp.CallTo(f"{text_of(x.expr)}.storage_offset", (), type=v.INT, interval=v.SIZE), v.INT, v.SIZE)


def _data_ptr(host: Host, x: v.Tensor, arguments: Any, keywords: dict[str, Any], node: ast.Call) -> v.Number:
    address = cpp.CallTo("trifold::address", (x.expr,), type=v.INT, interval=_ADDRESS)
    return v.Number(address, v.INT, _ADDRESS)


def _stride(host: Host, x: v.Tensor, arguments: Any, keywords: dict[str, Any], node: ast.Call) -> Any:
    if not (given := (*arguments, *keywords.values())):
        places: Any = range(_number_of_dimensions(host, x, node))
        return tuple(_stride(host, x, (each,), {}, node) for each in places)
    (dimension,) = given
    return v.Number(cpp.CallTo(f"{text_of(x.expr)}.stride", (v.number(dimension).expr,), type=v.INT), v.INT)


def _size_of(host: Host, x: v.Tensor, arguments: Any, keywords: dict[str, Any], node: ast.Call) -> Any:
    given = (*arguments, *keywords.values())
    return host.size(x, *given) if given else v.shape_of(x)


def _transposed(host: Host, x: v.Tensor, arguments: Any, keywords: dict[str, Any], node: ast.Call) -> v.Tensor:
    return host.transposed(x, *_any_dimensions(host, arguments, keywords, node))


def _turned(host: Host, x: v.Tensor, arguments: Any, keywords: dict[str, Any], node: ast.Call) -> v.Tensor:
    """x.t(), which is x itself for a row."""
    return host.attribute(x, "T", node) if x.dimensions != 1 else x


def _permuted(host: Host, x: v.Tensor, arguments: Any, keywords: dict[str, Any], node: ast.Call) -> v.Tensor:
    return _in_order(host, x, _dimensions(host, sizes_given(arguments), keywords, node), node)


def _moved(host: Host, x: v.Tensor, arguments: Any, keywords: dict[str, Any], node: ast.Call) -> v.Tensor:
    source, target = _any_dimensions(host, arguments, keywords, node)
    if x.dimensions is None or not isinstance(source, int) or not isinstance(target, int):
        made = call("trifold::movedim", x.expr, v.number(source).expr, v.number(target).expr)
        return v.Tensor(made, x.dtypes, x.dimensions, strided=True, memory=x.memory)
    count = x.dimensions
    order = [each for each in range(count) if each != source % count]
    order.insert(target % count, source % count)
    return _in_order(host, x, tuple(order), node)


def _number_of_dimensions(host: Host, x: v.Tensor, node: ast.Call) -> int:
    if x.dimensions is None:
        problem = "the number of dimensions is not known while drafting"
        raise Unchecked(host.place(node), host, "dimensions", x, problem, "check x.dim()")
    return x.dimensions


def _dimensions(host: Host, given: Any, keywords: dict[str, Any], node: ast.Call) -> tuple[int, ...]:
    if keywords or not all(isinstance(each, int) for each in given):
        problem = "which dimensions these are is not known while drafting"
        raise DraftError(host.place(node), problem, "write numbers: x.permute(1, 0, 2)")
    return tuple(given)


def _any_dimensions(host: Host, given: Any, keywords: dict[str, Any], node: ast.Call) -> tuple[int | v.Number, ...]:
    """Dimensions that may depend on the call."""
    if not keywords and all(isinstance(each, int | v.Number) and v.number(each).type == v.INT for each in given):
        return tuple(given)
    return _dimensions(host, given, keywords, node)


def _in_order(host: Host, x: v.Tensor, order: tuple[int, ...], node: ast.Call) -> v.Tensor:
    """A tensor's dimensions in this order, by exchanges of two."""
    count = len(order)
    host.require_dimensions(x, count)
    wanted = [each % count for each in order]
    if x.dimensions != count or sorted(wanted) != list(range(count)):
        problem = f"{order} is no order of the dimensions of this tensor, as far as is known while drafting"
        raise DraftError(host.place(node), problem, "check x.dim()")
    now = list(range(count))
    for place, each in enumerate(wanted):
        other = now.index(each)
        if other != place:
            x = host.transposed(x, place, other)
            now[place], now[other] = now[other], now[place]
    return x


def _unsqueezed(host: Host, x: v.Tensor, arguments: Any, keywords: dict[str, Any], node: ast.Call) -> v.Tensor:
    (dimension,) = _any_dimensions(host, arguments, keywords, node)
    return host.unsqueezed(x, dimension)


def _squeezed(host: Host, x: v.Tensor, arguments: Any, keywords: dict[str, Any], node: ast.Call) -> v.Tensor:
    """x.squeeze(dim), which has a dimension less in some calls."""
    if not arguments and not keywords:
        raise DraftError(host.place(node), "which dimensions are left depends on the call", "write x.squeeze(dim)")
    (dimension,) = _any_dimensions(host, (*arguments, *keywords.values()), {}, node)
    expr = call("trifold::squeeze", x.expr, v.number(dimension).expr)
    return v.Tensor(expr, x.dtypes, strided=True, memory=x.memory)


def _selected(host: Host, x: v.Tensor, arguments: Any, keywords: dict[str, Any], node: ast.Call) -> v.Tensor:
    dimension, index = arguments
    return host.selected(x, dimension, index)


def _converted(host: Host, x: v.Tensor, arguments: Any, keywords: dict[str, Any], node: ast.Call) -> v.Tensor:
    """x.to(dtype): x itself if it has that dtype."""
    given = [*arguments, *keywords.values()]
    if len(given) != 1 or set(keywords) - {"dtype"} or not isinstance(given[0], (torch.dtype, v.DtypeOf)):
        raise DraftError(host.place(node), "this .to(...) is not translated", "write x.to(dtype)")
    expr = call("torch::stable::to", x.expr, host.scalar(given[0], node))
    made = of_dtype(host, expr, given[0], x.dimensions)
    memory = None if x.memory is None else x.memory | v.allocated()
    return dataclasses.replace(made, dense=x.dense, strided=x.strided, memory=memory)


def _to(dtype: torch.dtype) -> Callable[..., v.Tensor]:
    return lambda host, x, arguments, keywords, node: _converted(host, x, (dtype,), {}, node)


def _copied(host: Host, x: v.Tensor, arguments: Any, keywords: dict[str, Any], node: ast.Call) -> v.Tensor:
    """``y.copy_(x)``, of a tensor that the launch function made."""
    _refuse_arguments(host, x, node)
    if keywords or len(arguments) != 1 or not isinstance(arguments[0], v.Tensor):
        raise DraftError(host.place(node), "this copy_ is not translated", "write y.copy_(x)")
    own = host.fresh("target")
    host.into.append(cpp.Declare("Tensor", [own], x.expr))
    host.into.append(cpp.Run(call("torch::stable::copy_", cpp.Name(own), arguments[0].expr)))
    return x


def _of_kind(name: str) -> Callable[..., Any]:
    return lambda host, x, arguments, keywords, node: host.is_of_kind(name, v.DtypeOf(x.dtypes, x), node)


def _flattened(host: Host, x: v.Tensor, arguments: Any, keywords: dict[str, Any], node: ast.Call) -> v.Tensor:
    given = dict(zip(("start_dim", "end_dim"), arguments, strict=False)) | keywords
    start, end = given.get("start_dim", 0), given.get("end_dim", -1)
    if (start, end) == (0, -1):
        return _reshape(host, x, (-1,), {}, node)
    _dimensions(host, (start, end), {}, node)
    count = _number_of_dimensions(host, x, node)
    sizes = [host.size(x, dimension) for dimension in range(count)]
    together = host.product(v.Shape(tuple(sizes[start % count : end % count + 1])), node)
    return _reshape(host, x, (*sizes[: start % count], together, *sizes[end % count + 1 :]), {}, node)


def _contiguous(host: Host, x: v.Tensor, arguments: Any, keywords: dict[str, Any], node: ast.Call) -> v.Tensor:
    made = v.Tensor(call("torch::stable::contiguous", x.expr), x.dtypes, memory=x.memory)
    made.take_shape_of(x)
    return made


def _changed(function: str) -> Callable[..., v.Tensor]:
    """``y.zero_()`` or ``y.fill_(number)``, of a tensor that the launch function made."""

    def write(host: Host, x: v.Tensor, arguments: Any, keywords: dict[str, Any], node: ast.Call) -> v.Tensor:
        _refuse_arguments(host, x, node)
        host.into.append(cpp.Run(call(function, x.expr, *(v.number(each).expr for each in arguments))))
        return x

    return write


def _refuse_arguments(host: Host, x: v.Tensor, node: ast.Call) -> None:
    if v.overlap(x.memory, v.ARGUMENTS):
        remedy = "launch a kernel that gets output(...) of it"
        raise DraftError(host.place(node), "an argument of the op is changed in place", remedy)


METHODS: dict[str, Callable[[Host, v.Tensor, Any, dict[str, Any], ast.Call], Any]] = {
    "dim": _dim,
    "numel": _numel,
    "new_empty": new_empty,
    "reshape": _reshape,
    "view": _view,
    "storage_offset": _storage_offset,
    "data_ptr": _data_ptr,
    "stride": _stride,
    "size": _size_of,
    "ndimension": _dim,
    "nelement": _numel,
    "t": _turned,
    **dict.fromkeys(("transpose", "swapaxes", "swapdims"), _transposed),
    "permute": _permuted,
    **dict.fromkeys(("movedim", "moveaxis"), _moved),
    "unsqueeze": _unsqueezed,
    "squeeze": _squeezed,
    "select": _selected,
    "to": _converted,
    "type_as": lambda host, x, arguments, keywords, node: _converted(
        host, x, (host.attribute(arguments[0], "dtype", node),), {}, node
    ),
    **{name: _to(getattr(torch, name)) for name in ("float", "double", "half", "bfloat16", "int", "long", "bool")},
    "copy_": _copied,
    "item": lambda host, x, arguments, keywords, node: host.number_of(x, node),
    "tolist": lambda host, x, arguments, keywords, node: v.Listed(x),
    **{name: _of_kind(name) for name in ("is_floating_point", "is_complex")},
    "flatten": _flattened,
    "ravel": _flattened,
    "detach": lambda host, x, arguments, keywords, node: x,
    "new_full": full_of(new_empty),
    "new_ones": ones_of(new_empty),
    "contiguous": _contiguous,
    "zero_": _changed("trifold::zeroed"),
    "fill_": _changed("trifold::filled"),
    "clone": _clone,
    "new_zeros": zeros_of(new_empty),
    "is_contiguous": lambda host, x, arguments, keywords, node: v.Number(
        call(f"{text_of(x.expr)}.is_contiguous"), v.BOOL
    ),
    "element_size": lambda host, x, arguments, keywords, node: host.element_size(x),
}
