"""Accesses outside the arguments, and outputs that are not written.

On the CPU a guard allocator puts each block against a page that cannot be accessed, first behind its end and then
before its start, fills it with nan and watches the slack (:mod:`trifold.guard`). On a GPU the output's memory comes
from a pool filled with nan; the bytes around the output must still be as they were.
"""

from __future__ import annotations

import torch
from torch import Tensor

from trifold import guard
from trifold.spec import Call
from trifold.verification.cell import Cell, CheckFailed, NotRun
from trifold.verification.checks.differentiation import forward
from trifold.verification.checks.values import compare

_POISON = 0xFF  # every float type reads it as nan
_GUARDED_BYTES = 64 * 2**20  # larger blocks are not guarded
_CALLS = 24  # drawn beside the fixed ones, for each placement


def bounds(cell: Cell) -> str | None:
    if cell.device == "cuda":
        _on_gpu(cell)
        return None
    if not guard.is_active():
        raise NotRun("the guard allocator is not loaded in this process: its library needs Linux and glibc")
    # A prototype's accesses are checked by NumPy; what the guard adds there is that fresh memory is nan.
    placements: tuple[guard.Mode, ...] = ("end",) if cell.kind == "prototype" else ("end", "start")
    for placement in placements:

        def test(call: Call, placement: guard.Mode = placement) -> None:
            with guard.armed(placement):
                _require_guarded(compare(cell, call))
            _raise_damage(call)

        cell.for_each_call(test, examples=min(_CALLS, cell.search.examples))
        for call in cell.spec.smooth:
            cell.begin(call, f"gradients, guarded at the {placement}")
            with guard.armed(placement):
                values = forward(cell, call, cell.implementation.function).values_and_gradients()
            _raise_damage(call)
            if any(bool(value.isnan().any()) for value in values):
                raise CheckFailed("a gradient has elements that were not written, or that come from outside", call)
    return None


def _require_guarded(results: tuple[Tensor, ...]) -> None:
    """Without this, a torch whose allocator goes another way would pass unchecked."""
    for result in results:
        if 0 < result.untyped_storage().nbytes() < _GUARDED_BYTES and not guard.holds(
            result.untyped_storage().data_ptr()
        ):
            raise NotRun("torch's CPU allocator does not go through posix_memalign here, so nothing is guarded")


def _raise_damage(call: Call) -> None:
    damage = guard.damage()
    if damage:
        raise CheckFailed(f"written outside a tensor: {'; '.join(damage)}", call)


def _on_gpu(cell: Cell) -> None:
    pool = torch.cuda.MemPool()

    def test(call: Call) -> None:
        with torch.cuda.use_mem_pool(pool):
            _fill(pool)
            args, kwargs = call.arguments(cell.device)
            before = torch.full((512,), _POISON, dtype=torch.uint8, device=cell.device)
            results = cell.invoke(call, (args, kwargs))
            torch.cuda.synchronize()
            if bool((before != _POISON).any()):
                raise CheckFailed("bytes before a result were written", call)
            for result in results:
                behind = _slack(result)
                if behind is not None and bool((behind != _POISON).any()):
                    offset = int((behind != _POISON).int().argmax())
                    raise CheckFailed(f"written {offset} bytes behind the end of a result", call)
            compare(cell, call)

    cell.for_each_call(test, examples=min(_CALLS, cell.search.examples))


def _fill(pool: torch.cuda.MemPool) -> None:
    """Leave the pool's free memory full of nan: the allocator keeps small (≤ 1 MiB) and large blocks apart."""
    blocks = [torch.full((size,), _POISON, dtype=torch.uint8, device="cuda") for size in (2**20, 2**20, 2**24)]
    torch.cuda.synchronize()
    del blocks


class _Bytes:
    """Device memory as the CUDA array interface shows it to torch, without a copy."""

    def __init__(self, pointer: int, count: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (count,),
            "typestr": "|u1",
            "data": (pointer, False),
            "version": 2,
        }


def _slack(result: Tensor) -> Tensor | None:
    """The bytes between the end of a result's storage and the end of its block (the allocator rounds up to 512)."""
    storage = result.untyped_storage()
    rest = -storage.nbytes() % 512
    if rest == 0 or storage.nbytes() == 0:
        return None
    return torch.as_tensor(_Bytes(storage.data_ptr() + storage.nbytes(), rest), device=result.device)
