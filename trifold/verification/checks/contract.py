"""What callers rely on: errors that name the argument, repeatability, and that every kernel of the port was run."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from trifold.spec import Call, TensorCase
from trifold.verification.cell import Cell, CheckFailed, as_tuple
from trifold.verification.checks.differentiation import forward
from trifold.verification.tolerance import same_bits, share_memory

_SIMULATED = 8192  # elements, of calls that are repeated in the simulator
_HELD = 24  # results that are held while later calls run


def errors(cell: Cell) -> None:
    """Each bad call raises an ordinary exception whose message names what is at fault."""
    calls = [bad for bad in cell.spec.bad_calls if cell.device in bad.devices]
    if not calls:
        raise CheckFailed(
            "the spec lists no bad call for this device; add those that callers make: Spec(bad_calls=...)"
        )
    for bad in calls:
        cell.begin(None, bad.name)
        args, kwargs = bad.make(cell.device)
        try:
            cell.implementation.function(*args, **kwargs)
        except (RuntimeError, TypeError, ValueError) as error:
            absent = [word for word in bad.mentions if word not in str(error)]
            if absent:
                raise CheckFailed(
                    f"{bad.name}: the message does not mention {', '.join(absent)}: {error}", sample=bad.name
                ) from error
        except Exception as error:
            raise CheckFailed(
                f"{bad.name}: raises {type(error).__name__}, not RuntimeError, TypeError or ValueError: {error}",
                sample=bad.name,
            ) from error
        else:
            raise CheckFailed(f"{bad.name}: nothing is raised", sample=bad.name)


def repeatable(cell: Cell) -> None:
    """The same call gives the same bits: three times, in each mode of autograd, among others, where other numbers lay.

    So do its gradients. A random op moves on in between.
    """
    kept: list[_Kept] = []

    def test(call: Call) -> None:
        if cell.simulated and call.elements > _SIMULATED:
            return
        results = [cell.invoke(call) for _ in range(2)]
        for other in results[1:]:
            if not all(same_bits(a, b) for a, b in zip(results[0], other, strict=True)):
                raise CheckFailed("the same call gives other bits the second time", call)
            if any(share_memory(a, b) for a, b in zip(results[0], other, strict=True)):
                raise CheckFailed("two calls return the same memory: the second overwrites what the first gave", call)
        _same_in_modes(cell, call, results[0])
        kept.append(_Kept.of(call, results[0]))

    for name, call in cell.fixed_calls():
        cell.run_case(test, call, name)
        if len(kept) == _HELD:
            _require_kept(cell, kept)
            kept.clear()
    _require_kept(cell, kept)
    for call in cell.spec.smooth:
        cell.begin(call, "smooth")
        grads = [forward(cell, call, cell.implementation.function).values_and_gradients() for _ in range(2)]
        if not all(same_bits(a, b) for a, b in zip(*grads, strict=True)):
            raise CheckFailed("the same backward gives other bits the second time", call)
        if cell.spec.random:
            _moves_on(cell, call)
    for call in cell.spec.smooth[-1:]:
        cell.run_case(lambda call: _keeps_results(cell, call), call, f"{_HELD} results of one shape")
        cell.run_case(lambda call: _keeps_what_is_saved(cell, call), call, "another call before backward")
    for call in itertools.chain(cell.spec.smooth, itertools.islice((call for _, call in cell.fixed_calls()), 12)):
        cell.run_case(lambda call: _follows_changes(cell, call), call, "other numbers in the same memory")
    if not cell.cases:
        raise CheckFailed("the spec has no sample; add one: Spec(samples=...)")


def _same_in_modes(cell: Cell, call: Call, plain: tuple[Tensor, ...]) -> None:
    """Under ``no_grad`` and ``inference_mode``, and with arguments that require a gradient."""
    for name, mode in (("torch.no_grad()", torch.no_grad), ("torch.inference_mode()", torch.inference_mode)):
        with mode():
            results = cell.invoke(call)
        if not all(same_bits(a, b) for a, b in zip(plain, results, strict=True)):
            raise CheckFailed(f"the call gives other bits under {name}", call)
    results = forward(cell, call, cell.implementation.function).outputs
    if not all(same_bits(a, b) for a, b in zip(plain, results, strict=True)):
        raise CheckFailed("the call gives other bits where its arguments require a gradient", call)


@dataclass(frozen=True)
class _Kept:
    """Results of a call, and copies of what they were; memory that two results share there is shared here."""

    call: Call
    results: tuple[Tensor, ...]
    copies: tuple[Tensor, ...]

    @classmethod
    def of(cls, call: Call, results: tuple[Tensor, ...]) -> _Kept:
        return cls(call, results, tuple(result.clone() for result in results))


def _require_kept(cell: Cell, kept: Sequence[_Kept]) -> None:
    """Results of earlier calls are still what they were, after all the later ones."""
    for one in kept:
        same = all(same_bits(a, b) for a, b in zip(one.results, one.copies, strict=True))
        if not same or cell.process.changed_since(one.results):
            raise CheckFailed("a later call writes over the memory of this one's result", one.call)


def _others(call: Call) -> Iterator[Call]:
    """The call with other numbers in its tensors, time and again."""
    for step in itertools.count(1):
        args = (replace(v, seed=v.seed + 100 * step) if isinstance(v, TensorCase) else v for v in call.args)
        yield replace(call, args=tuple(args), seed=call.seed + step)


def _keeps_results(cell: Cell, call: Call) -> None:
    _require_kept(cell, [_Kept.of(other, cell.invoke(other)) for other in itertools.islice(_others(call), _HELD)])


def _keeps_what_is_saved(cell: Cell, call: Call) -> None:
    """Forward, forward with other numbers, then backward of the first: its gradients are those of its own numbers."""
    alone = forward(cell, call, cell.implementation.function)
    expected = alone.values_and_gradients()
    first = forward(cell, call, cell.implementation.function)
    forward(cell, next(_others(call)), cell.implementation.function)
    if not all(same_bits(a, b) for a, b in zip(first.values_and_gradients(), expected, strict=True)):
        raise CheckFailed(
            "another call between forward and backward changes the gradient: both keep things in one place", call
        )


def _follows_changes(cell: Cell, call: Call) -> None:
    """Other numbers in the same memory, which no version counter tells of, have another result: the right one."""
    other = replace(
        call, args=tuple(replace(v, seed=v.seed + 1) if isinstance(v, TensorCase) else v for v in call.args)
    )
    expected = cell.invoke(other)
    cell.invoke(call)
    with cell.process.running(place="same"):
        cell.invoke(call)
        results = cell.invoke(other)
    if not all(same_bits(a, b) for a, b in zip(results, expected, strict=True)):
        raise CheckFailed(
            "other numbers at the same addresses give another result than elsewhere: something is kept by address", call
        )


def _moves_on(cell: Cell, call: Call) -> None:
    args, kwargs = call.arguments(cell.device)
    torch.manual_seed(call.seed)
    first, second = (as_tuple(cell.implementation.function(*args, **kwargs))[0] for _ in range(2))
    if same_bits(first, second):
        raise CheckFailed("two calls in a row draw the same numbers: the generator is not advanced", call)


def branches(cell: Cell) -> str:
    """Each kernel of the prototype, and each instance of the port's that a launch can reach, was launched before."""
    launches = cell.process.branches()
    if not launches:
        launcher = "trifold::launch" if cell.kind == "port" else "trifold.prototype.launch"
        raise CheckFailed(f"the {cell.kind} has no kernel: launch kernels with {launcher}")
    cell.cases = len(launches)
    missed = sorted(name for name, count in launches.items() if count == 0)
    if missed:
        raise CheckFailed(f"no case reaches {', '.join(missed)}; add a sample that does, or remove the kernel")
    return f"{len(launches)} kernels, each launched"
