"""What torch computed while an op ran: a kernel that only copies or scales it has computed nothing."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from trifold.torch_calls import TorchCalls

_LEAST = 8  # elements: fewer numbers may be the same by chance
_MOST = 64  # tensors that are kept
_DIFFERENT = 16  # numbers, so that a scale and a shift that fit all of them are no chance

# What allocates, moves or casts, and computes nothing; views of other names share the memory of an argument.
_MOVES = frozenset(
    """
    alias as_strided clone contiguous copy copy_ detach empty empty_like empty_strided expand fill_ full full_like
    lift_fresh new_empty new_empty_strided new_zeros ones ones_like permute reshape resolve_conj resolve_neg select
    slice squeeze t _to_copy to transpose unsqueeze _unsafe_view view zero_ zeros zeros_like
    """.split()  # noqa: SIM905 -- a list of 40 strings is longer than what it says
)


class TorchResults(TorchCalls):
    """Keeps what torch's own operators compute, also inside the op's operators."""

    def __init__(self) -> None:
        super().__init__()
        self._made: list[tuple[str, Tensor]] = []

    def called(self, function: Any, result: Any) -> None:
        name = function.name().partition("::")[2].partition(".")[0]
        if function.namespace == "aten" and name not in _MOVES and len(self._made) < _MOST:
            for one in result if isinstance(result, tuple | list) else (result,):
                if isinstance(one, Tensor) and one.is_floating_point() and not one.is_meta and one.numel() >= _LEAST:
                    self._made.append((name, one.detach().clone()))

    def source_of(self, result: Tensor) -> str:
        """The operator of torch that gave these numbers, or numbers of which they are a multiple and a constant more;
        empty where none did."""
        if result.numel() < _LEAST or not result.is_floating_point():
            return ""
        flat = result.detach().contiguous().flatten()
        if bool((flat == flat[0]).all()):
            return ""
        for name, made in self._made:
            if made.numel() == flat.numel() and _is_linear(flat, made.to(flat.dtype).contiguous().flatten()):
                return name
        return ""


def _is_linear(result: Tensor, made: Tensor) -> bool:
    """Whether ``result`` is ``made``, or up to rounding ``scale * made + shift``, for numbers so different that two
    tensors do not fit by chance."""
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
