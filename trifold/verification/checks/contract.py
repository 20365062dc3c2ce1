"""What callers rely on: errors that name the argument, repeatability, and that every kernel of the port was run."""

from __future__ import annotations

import torch

from trifold.spec import Call
from trifold.verification.cell import Cell, CheckFailed, as_tuple
from trifold.verification.checks.differentiation import forward
from trifold.verification.tolerance import same_bits, share_memory


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
    """The same call, made three times, gives the same bits; so do its gradients. A random op moves on in between."""

    def test(call: Call) -> None:
        results = [cell.invoke(call) for _ in range(3)]
        for other in results[1:]:
            if not all(same_bits(a, b) for a, b in zip(results[0], other, strict=True)):
                raise CheckFailed("the same call gives other bits the second time", call)
            if any(share_memory(a, b) for a, b in zip(results[0], other, strict=True)):
                raise CheckFailed("two calls return the same memory: the second overwrites what the first gave", call)

    for _, call in cell.fixed_calls():
        cell.begin(call)
        test(call)
    for call in cell.spec.smooth:
        cell.begin(call)
        grads = [forward(cell, call, cell.implementation.function).values_and_gradients() for _ in range(2)]
        if not all(same_bits(a, b) for a, b in zip(*grads, strict=True)):
            raise CheckFailed("the same backward gives other bits the second time", call)
        if cell.spec.random:
            _moves_on(cell, call)
    if not cell.cases:
        raise CheckFailed("the spec has no sample; add one: Spec(samples=...)")


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
