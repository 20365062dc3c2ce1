"""Detects results that something other than a kernel computed, and that a kernel only copied or scaled."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trifold.torch_calls import TorchCalls

from .tensors import tensors_in

_LEAST = 8  # elements; fewer numbers may be equal by chance
_MOST = 64  # tensors that are kept
_DIFFERENT = 16  # distinct numbers that make it improbable that a scale and a shift fit all of them by chance

# Operators that allocate, move or cast without computing. Views of other names share the memory of an argument.
_MOVES = frozenset(
    """
    adjoint alias as_strided broadcast_tensors broadcast_to chunk clone contiguous copy copy_ detach diagonal empty
    empty_like empty_strided expand expand_as fill_ flatten full full_like lift_fresh mH mT matrix_H moveaxis movedim
    narrow new_empty new_empty_strided new_full new_ones new_zeros numpy_T ones ones_like permute ravel reshape
    reshape_as resolve_conj resolve_neg select slice split split_with_sizes squeeze swapaxes swapdims t _to_copy to
    transpose type_as unbind unflatten unsqueeze _unsafe_view view view_as view_as_complex view_as_real zero_ zeros
    zeros_like
    """.split()  # noqa: SIM905 -- a list of 40 quoted strings is harder to read
)


class Computed(TorchCalls):
    """Records what torch's own operators compute, also within the op's operators; and arrays that are passed to
    launches of a prototype and were made by neither torch nor a kernel, but by NumPy or Python.

    Args:
        arguments: of the op: memory whose contents nothing has computed.
        before: the record of the call whose gradients are computed.
    """

    def __init__(self, arguments: Sequence[Tensor], before: Computed | None = None) -> None:
        super().__init__()
        self._made: list[tuple[str, Tensor]] = []
        # Memory that torch filled from such memory only. The references keep it from being reused.
        self._known: dict[int, torch.UntypedStorage] = {} if before is None else dict(before._known)
        self._know(arguments)

    def called(self, function: Any, arguments: tuple[Any, ...], result: Any) -> None:
        name = function.name().partition("::")[2].partition(".")[0]
        results = list(tensors_in(result))
        numbers = [one for one in tensors_in(arguments) if one.is_floating_point() and one.numel() > 0]
        if all(one.untyped_storage().data_ptr() in self._known for one in numbers):
            self._know(results)
        else:
            for one in results:
                self._known.pop(one.untyped_storage().data_ptr(), None)
        if function.namespace == "aten" and name not in _MOVES:
            for one in results:
                self._keep(f"torch's {name}", one)

    def launched(self, arrays: Iterable[np.ndarray[Any, Any]]) -> None:
        """A kernel of a prototype is launched with these."""
        from trifold.simulator import written

        for array in arrays:
            if array.dtype.kind != "f" or array.size < _LEAST:
                continue
            extents = [(size - 1) * stride for size, stride in zip(array.shape, array.strides, strict=True)]
            begin = array.ctypes.data + sum(min(extent, 0) for extent in extents)
            end = begin + sum(map(abs, extents)) + array.itemsize
            of_torch = any(
                begin >= address and end <= address + storage.nbytes() for address, storage in self._known.items()
            )
            if not of_torch and 0 in written(begin, end - begin):
                self._keep("Python", torch.from_numpy(array.copy()))

    def _know(self, tensors: Iterable[Tensor]) -> None:
        for one in tensors:
            self._known[one.untyped_storage().data_ptr()] = one.untyped_storage()

    def _keep(self, source: str, made: Tensor) -> None:
        if len(self._made) < _MOST and made.is_floating_point() and not made.is_meta and made.numel() >= _LEAST:
            self._made.append((source, made.detach().clone()))

    def source_of(self, result: Tensor) -> str:
        """What computed these numbers, or numbers of which they are a multiple plus a constant; empty if only kernels
        did."""
        if result.numel() < _LEAST or not result.is_floating_point():
            return ""
        flat = result.detach().contiguous().flatten()
        if bool((flat == flat[0]).all()):
            return ""
        for source, made in self._made:
            if made.numel() == flat.numel() and _is_linear(flat, made.to(flat.dtype).contiguous().flatten()):
                return source
        return ""


def _is_linear(result: Tensor, made: Tensor) -> bool:
    """Whether ``result`` equals ``made`` or, up to rounding, ``scale * made + shift``, with enough distinct numbers
    that this is not by chance."""
    if torch.equal(made, result):
        return True
    eps = torch.finfo(result.dtype).eps
    y, x = result.double(), made.double()
    low, high = int(x.argmin()), int(x.argmax())
    spread = float(x[high] - x[low])
    if x.unique().numel() < _DIFFERENT or not 0 < spread < torch.inf or float(x.abs().max()) * eps * 64 > spread:
        return False
    scale = (y[high] - y[low]) / spread
    shift = y[low] - scale * x[low]
    allowed = 4 * eps * (y.abs() + (scale * x).abs() + shift.abs())
    return bool(scale != 0) and bool(((scale * x + shift - y).abs() <= allowed).all())
