"""What callers rely on: errors that name the argument, repeatable results, and that every kernel of the port was
run."""

from __future__ import annotations

import contextlib
import functools
import inspect
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from trifold.isolation.tensors import mapped, numbered
from trifold.spec import Call, Limits
from trifold.spec.call import Path
from trifold.spec.case import AnyCase, Layout
from trifold.verification.calls import FORMS, FORMS_LIMITS, FORMS_SALT, exchanged
from trifold.verification.cell import Cell
from trifold.verification.checks.agreement import runs_of
from trifold.verification.checks.differentiation import (
    differentiate,
    forward,
    in_dtype_of_spec,
    require_gradients,
    same_gradients,
    unit_upstream_gradient,
)
from trifold.verification.checks.dtypes import taken
from trifold.verification.checks.instances import launching_calls
from trifold.verification.checks.mapping import same_when_mapped
from trifold.verification.checks.refusals import refuses_what_the_reference_refuses
from trifold.verification.checks.surroundings import (
    follows_parameters,
    keeps_no_argument,
    leaks_nothing,
    permits_hooks,
    same_elsewhere,
)
from trifold.verification.checks.undrawn import with_other_options
from trifold.verification.checks.values import compare
from trifold.verification.comparison import same_values
from trifold.verification.outcomes import MAY_REFUSE, REFUSALS, REFUSALS_NAMED, CheckFailed
from trifold.verification.results import as_tuple
from trifold.verification.seeding import seed
from trifold.verification.tolerance import computable, same_bits, share_memory

_DTYPE_NAMES = frozenset(name for name, value in vars(torch).items() if isinstance(value, torch.dtype))
_ON_CPU = 2048  # elements, at most, in calls that are repeated on the CPU: more than a block has threads
_LARGE_SALT = 11_000
_MODES_OF = 2  # one call of so many is also made in each mode of autograd
_DRAWN = 100  # draws, at most, to find a call with small whole numbers
_FEW = 40  # elements, at most, in a call that is repeated with other numbers of the same sum
_STEPS = 4000  # seeds to try for these
_MAPPED = 3  # calls that are made under torch.vmap
_HELD = 24  # results that are kept while later calls run
_BETWEEN = 4  # of the small calls, that are made between forward and backward of another


def errors(cell: Cell) -> None:
    """Each bad call raises an ordinary exception whose message names the argument at fault."""
    calls = [bad for bad in cell.spec.bad_calls if cell.device in bad.devices]
    if not calls:
        raise CheckFailed(
            "the spec lists no bad call for this device; add those that callers make: Spec(bad_calls=...)"
        )
    if not any(_fits(cell.reference, *bad.make(cell.device)) for bad in calls):
        raise CheckFailed(
            "no bad call has an argument for each parameter: any function refuses these; add calls of which one "
            "argument is wrong, such as a shape or a dtype"
        )
    for bad in calls:
        cell.begin(None, bad.name)
        args, kwargs = bad.make(cell.device)
        try:
            cell.implementation.function(*args, **kwargs)
        except REFUSALS as error:
            absent = [word for word in bad.mentions if word not in str(error)]
            if absent:
                raise CheckFailed(
                    f"{bad.name}: the message does not mention {', '.join(absent)}: {error}", sample=bad.name
                ) from error
        except Exception as error:
            raise CheckFailed(
                f"{bad.name}: raises {type(error).__name__}, not {REFUSALS_NAMED}: {error}",
                sample=bad.name,
            ) from error
        else:
            raise CheckFailed(f"{bad.name}: nothing is raised", sample=bad.name)
        if not _DTYPE_NAMES.isdisjoint(bad.mentions):
            _refuses_empty(cell, bad.name, *mapped((list(args), kwargs), lambda x: x[:0] if x.dim() else x))
        _goes_on(cell, bad.name)
    refuses_what_the_reference_refuses(cell)
    if cell.differentiable:
        _refuses_other_gradients(cell)
    else:
        _refuses_gradients(cell)


def _refuses_empty(cell: Cell, name: str, args: list[Any], kwargs: dict[str, Any]) -> None:
    """A dtype is refused also where there is nothing to compute."""
    with contextlib.suppress(*REFUSALS):
        cell.implementation.function(*args, **kwargs)
        raise CheckFailed(f"{name}, of tensors without elements: nothing is raised", sample=name)


def _goes_on(cell: Cell, refused: str) -> None:
    """A call that was refused has no effect: a correct call after it has the right result."""
    call = cell.small_calls()[0]
    try:
        cell.run_case(lambda call: compare(cell, call), call, f"after a refused call: {refused}")
    except CheckFailed as error:
        raise CheckFailed(f"after a call that was refused, {refused}: {error.message}", call) from error


def _fits(reference: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    try:
        inspect.signature(reference).bind(*args, **kwargs)
    except TypeError:
        return False
    return True


def _refuses_gradients(cell: Cell) -> None:
    """An op without a gradient says so: none of its results requires a gradient, or backward raises."""
    for call in cell.small_calls()[:1]:
        cell.begin(call, "a gradient is requested")
        arguments = call.arguments(cell.device)
        inputs = require_gradients(arguments, call, [path for path, _ in call.floating()])
        try:
            results = as_tuple(cell.implementation.function(*arguments[0], **arguments[1]))
            outputs = [computable(result).sum() for result in results if result.requires_grad]
            if not outputs or not inputs:
                continue
            ones = [torch.ones_like(output) for output in outputs]
            torch.autograd.grad(outputs, inputs, ones, allow_unused=True)
        except RuntimeError as error:
            if "no gradient" not in str(error):
                raise CheckFailed(
                    f"the error for a request of a gradient does not say that there is none: {error}", call
                ) from error
        else:
            raise CheckFailed("it has a gradient, unlike its spec: state it in Spec(gradients=...)", call)


def _refuses_other_gradients(cell: Cell) -> None:
    """An argument without a gradient that requires one is refused with an error that names it.

    Otherwise it would silently get no gradient beside those that have one.
    """
    call = cell.small_calls()[0]
    paths = cell.gradient_paths(call)
    for path in (path for path, _ in call.floating() if path not in paths):
        name = cell.name(path)
        cell.begin(call, f"a gradient of {name} is requested")
        arguments = call.arguments(cell.device)
        inputs = require_gradients(arguments, call, [path, *paths])
        try:
            results = as_tuple(cell.implementation.function(*arguments[0], **arguments[1]))
            outputs = [computable(result).sum() for result in results if result.requires_grad]
            ones = [torch.ones_like(output) for output in outputs]
            grads = torch.autograd.grad(outputs, inputs, ones, allow_unused=True) if outputs else (None,)
        except REFUSALS as error:
            if name.partition("[")[0] not in str(error):
                raise CheckFailed(
                    f"the error for a request of a gradient of {name} does not name it: {error}", call
                ) from error
        else:
            gets = "none, silently; raise an error that names it" if grads[0] is None else "one; state it"
            raise CheckFailed(f"{name} has no gradient by Spec(gradients=...), requires one and gets {gets}", call)


def repeatable(cell: Cell) -> None:
    """The same call has the same bits: three times, in each mode of autograd, between other calls, and at reused
    addresses.

    So have its gradients. A random op must draw other numbers in each call.
    """
    kept: list[_Kept] = []

    def test(call: Call) -> None:
        if cell.device == "cpu" and call.elements > _ON_CPU:
            return
        results = [cell.invoke(call) for _ in range(2)]
        _leaves_generator(cell, call)
        for other in results[1:]:
            if not same_values(cell, call, results[0], other):
                raise CheckFailed("the same call gives other bits the second time", call)
            if any(share_memory(a, b) for a, b in zip(results[0], other, strict=True)):
                raise CheckFailed("two calls return the same memory: the second overwrites what the first gave", call)
        if len(kept) % _MODES_OF == 0:
            _same_in_modes(cell, call, results[0])
        kept.append(_Kept.of(call, results[0]))

    for name, call in cell.fixed_calls_of_one_dtype():
        cell.run_case(test, call, name)
        if len(kept) == _HELD:
            _require_kept(cell, kept)
            kept.clear()
    _require_kept(cell, kept)
    small, further, dtypes = cell.small_calls(), _further_calls(cell), taken(cell)
    in_other_dtypes: list[Call] = []
    for number, call in enumerate(small):
        for dtype in (*dtypes[:1], *_each_in_turn(dtypes[1:], number)):
            other = in_dtype_of_spec(cell, call, dtype)
            cell.run_case(lambda call: same_elsewhere(cell, call), other, "other surroundings")
            cell.run_case(lambda call: keeps_no_argument(cell, call), other, "what is kept")
            in_other_dtypes.append(other)
        cell.run_case(lambda call: follows_parameters(cell, call), call, "parameters that change")
        if cell.differentiable:
            cell.run_case(lambda call: permits_hooks(cell, call), call, "hooks on saved tensors")
        cell.begin(call, "smooth")
        if cell.differentiable:
            _same_gradients(cell, call)
        if cell.spec.random:
            _moves_on(cell, call)
    for name, call in further if cell.device == "cuda" and cell.differentiable else ():
        cell.run_case(lambda call: _same_gradients(cell, call), call, name)
    for call in small[:_MAPPED]:
        cell.run_case(lambda call: same_when_mapped(cell, call, next(others(call))), call, "under torch.vmap")
    for call in small[-1:]:
        cell.run_case(lambda call: _keeps_results(cell, call), call, f"{_HELD} results of one shape")
        if cell.differentiable:
            cell.run_case(lambda call: _keeps_what_is_saved(cell, call), call, "another call before backward")
            cell.run_case(lambda call: _notices_changes(cell, call), call, "arguments that change before backward")
            for dtype in dtypes:
                again = in_dtype_of_spec(cell, call, dtype)
                cell.run_case(lambda call: _same_backward_again(cell, call), again, "backward twice")
    followed = list(small)
    for call in (*(call for _, call in further), *_in_each_layout(cell)):
        if call not in followed:
            followed.append(call)
    for call in followed:
        cell.run_case(lambda call: _follows_changes(cell, call), call, "other numbers in the same memory")
        if cell.gradient_paths(call) and (call.elements <= _ON_CPU or cell.device == "cuda"):
            cell.run_case(
                lambda call: _gradients_follow(cell, call), call, "other numbers in the same memory, backward"
            )
    for call in cell.plain_large_calls():
        cell.run_case(lambda call: _same_in_modes(cell, call, cell.invoke(call)), call, "large")
    for first, second, same in _taken_for_others(cell):
        cell.run_case(functools.partial(_is_not_taken_for, cell, first, same), second, f"the same {same}")
    for call in in_other_dtypes:  # last, since a cache that makes results wrong may grow, too
        cell.run_case(lambda call: leaks_nothing(cell, call), call, "what is freed")
    if not cell.cases:
        raise CheckFailed("the spec has no sample; add one: Spec(samples=...)")
    _leaves_settings(cell)


def _each_in_turn(dtypes: Sequence[torch.dtype], number: int) -> Sequence[torch.dtype]:
    """One of them, or none if there is none."""
    return dtypes[number % len(dtypes) :][:1] if dtypes else ()


def _leaves_settings(cell: Cell) -> None:
    """The settings of the process are the same as before the op was loaded."""
    before, now = cell.process.settings()
    for name in before | now:
        was, is_now = (settings.get(name, "unset") for settings in (before, now))
        if is_now != was:
            raise CheckFailed(f"the op changes {name}, for the whole process, from {was} to {is_now}")


def _leaves_generator(cell: Cell, call: Call) -> None:
    """Only a random op may draw numbers. The call has just been made."""
    if cell.spec.random:
        return
    after = torch.get_rng_state()
    seed(call.seed)  # as before it was made
    if not torch.equal(torch.get_rng_state(), after):
        raise CheckFailed("it draws random numbers, by its spec it does not: Spec(random=True)", call)


def _taken_for_others(cell: Cell) -> Iterator[tuple[Call, Call, str]]:
    """Pairs of calls that a cache could confuse, and what is the same in both: the first and last number of a tensor;
    then their sum, too. Found by trying seeds for tensors of whole numbers from -4 to 4: about one pair in 81 has the
    same ends, and of a dozen numbers about one in 1,000 also has the same sum."""
    drawn = (call for number in range(_DRAWN) for call in cell.drawn_calls(FORMS_LIMITS, 1, salt=FORMS_SALT + number))
    wanted = ["first and last numbers", "first and last numbers, and sum"]
    for call in itertools.chain((call for _, call in cell.fixed_calls()), drawn):
        for _, case in call.floating():
            few = _FEW if len(wanted) == 1 else _ON_CPU
            if case.fill != "exact" or not 3 <= math.prod(case.shape) <= few:
                continue
            numbers = case.make().flatten()
            for step in range(1, 400 if len(wanted) > 1 else _STEPS):
                other = _reseeded(step, case)
                others = other.make().flatten()
                same_ends = others[0] == numbers[0] and others[-1] == numbers[-1] and not torch.equal(others, numbers)
                if same_ends and (len(wanted) > 1 or others.sum() == numbers.sum()):
                    yield call, call.with_cases(functools.partial(exchanged, case, other)), wanted.pop(0)
                    break
            if not wanted:
                return


def _is_not_taken_for(cell: Cell, earlier: Call, same: str, call: Call) -> None:
    cell.invoke(earlier)
    try:
        compare(cell, call)
    except CheckFailed as error:
        raise CheckFailed(f"after a call with the same shape, {same}: {error.message}", call) from error


def _further_calls(cell: Cell) -> Sequence[tuple[str, Call]]:
    """On a GPU the calls that launch every kernel instance; elsewhere, where kernels are slow, a dozen."""
    return launching_calls(cell) if cell.device == "cuda" else list(itertools.islice(cell.fixed_calls(), 12))


def _same_gradients(cell: Cell, call: Call) -> None:
    paths, function = cell.gradient_paths(call), cell.implementation.function
    first, second = (differentiate(cell, call, paths, function).grads for _ in range(2))
    if not same_gradients(cell, call, paths, first, second):
        raise CheckFailed("the same backward gives other bits the second time", call)


def _same_in_modes(cell: Cell, call: Call, plain: tuple[Tensor, ...]) -> None:
    """The call under ``no_grad`` and ``inference_mode``, and with arguments that require a gradient."""
    for name, mode in (("torch.no_grad()", torch.no_grad), ("torch.inference_mode()", torch.inference_mode)):
        with mode():
            results = cell.invoke(call)
        if not same_values(cell, call, plain, results):
            raise CheckFailed(f"the call gives other bits under {name}", call)
    if not cell.differentiable:
        return
    results = forward(cell, call, cell.implementation.function).outputs
    if not same_values(cell, call, plain, results):
        raise CheckFailed("the call gives other bits where its arguments require a gradient", call)


@dataclass(frozen=True)
class _Kept:
    """Results of a call, with copies of their values. Results that share memory in the op's process share it here as
    well."""

    call: Call
    results: tuple[Tensor, ...]
    copies: tuple[Tensor, ...]

    @classmethod
    def of(cls, call: Call, results: tuple[Tensor, ...]) -> _Kept:
        return cls(call, results, tuple(result.clone() for result in results))


def _require_kept(cell: Cell, kept: Sequence[_Kept]) -> None:
    """Results of earlier calls are unchanged after all later calls."""
    for one in kept:
        same = all(same_bits(a, b) for a, b in zip(one.results, one.copies, strict=True))
        if not same or cell.process.changed_since(one.results):
            raise CheckFailed("a later call writes over the memory of this one's result", one.call)


def others(call: Call) -> Iterator[Call]:
    """Repeat the call with other numbers in its tensors."""
    for step in itertools.count(1):
        yield replace(call.with_cases(functools.partial(_reseeded, 100 * step)), seed=call.seed + step)


def _reseeded(step: int, case: AnyCase) -> AnyCase:
    return replace(case, seed=case.seed + step)


def _keeps_results(cell: Cell, call: Call) -> None:
    _require_kept(cell, [_Kept.of(other, cell.invoke(other)) for other in itertools.islice(others(call), _HELD)])


def _keeps_what_is_saved(cell: Cell, call: Call) -> None:
    """Forward, forward of other calls, then backward of the first: the gradients must be those of the first call."""
    function, paths = cell.implementation.function, cell.gradient_paths(call)
    expected = forward(cell, call, function).gradients_of_sum()
    further = [other for other in cell.small_calls() if other != call][:_BETWEEN]
    for between in (next(others(call)), *with_other_options(call), *further):
        first = forward(cell, call, function)
        with contextlib.suppress(*MAY_REFUSE):  # such a number may be out of range
            forward(cell, between, function)
        if not same_gradients(cell, call, paths, first.gradients_of_sum(), expected, unit_upstream_gradient):
            raise CheckFailed(
                "another call between forward and backward changes the gradient: both keep things in one place", call
            )


def _same_backward_again(cell: Cell, call: Call) -> None:
    """Backward with ``retain_graph`` keeps what it needs: a second backward pass has the same gradients."""
    made = forward(cell, call, cell.implementation.function)
    outer = made.upstream(call)  # not of ones, which change nothing that they are multiplied with
    # Copies: if the second has the first's memory, so it has here.
    first = [None if grad is None else grad.clone() for grad in made.gradients(outer, keep=True)]
    if not same_gradients(cell, call, cell.gradient_paths(call), first, made.gradients(outer)):
        raise CheckFailed("the second backward of one graph gives other bits: the first changes what is kept", call)
    made = forward(cell, call, cell.implementation.function)
    of_sum = [made.gradients(made.ones(), keep=True) for _ in range(2)]
    if any(a is not None and b is not None and share_memory(a, b) for a, b in zip(*of_sum, strict=True)):
        raise CheckFailed(
            "two backward passes of one graph return the same memory, for upstream gradients of 1: what adds to a "
            "gradient in place, as autograd does, changes what the op has kept",
            call,
        )


def _notices_changes(cell: Cell, call: Call) -> None:
    """If an argument or a result is changed in place between forward and backward, backward raises or is not affected.

    torch counts in-place changes of the tensors that ``save_for_backward`` was given.
    """
    paths = cell.gradient_paths(call)
    made = call.arguments(cell.device)
    require_gradients(made, call, paths)
    seed(call.seed)
    answer, grads = cell.process.beside("changed_before_backward", *made)
    plain, *changed = runs_of(answer, grads)
    names = [cell.name(path) for path, _ in call.cases()]
    for number, (after, error) in enumerate(zip(changed, answer["errors"], strict=True)):
        if error or same_gradients(cell, call, paths, plain, after, lambda result, dtype, seed: numbered(result)):
            continue
        name = names[number] if number < len(names) else "a result"
        raise CheckFailed(
            f"{name} is changed in place between forward and backward, and the gradient silently changes: pass "
            "backward what save_for_backward has saved, not a detached alias of it, such as x.data",
            call,
        )


def _follows_changes(cell: Cell, call: Call) -> None:
    """After the arguments' memory got other numbers without a change of any version counter, the result is that of the
    new numbers."""
    other = call.with_cases(functools.partial(_reseeded, 1))
    expected = cell.invoke(other)
    cell.invoke(call)
    with cell.process.running(place="same"):
        cell.invoke(call)
        results = cell.invoke(other)
    if not same_values(cell, other, results, expected):
        raise CheckFailed(
            "the result of other numbers at the same addresses is wrong: something is cached by address", call
        )


def _gradients_follow(cell: Cell, call: Call) -> None:
    """The same of the gradients, where also the upstream gradients' memory got other numbers."""
    other = next(others(call))

    def gradients(one: Call) -> tuple[Tensor | None, ...]:
        made = forward(cell, one, cell.implementation.function)
        return made.gradients(made.upstream(one))

    expected = gradients(other)
    gradients(call)
    with cell.process.running(place="same"):
        gradients(call)
        found = gradients(other)
    if not same_gradients(cell, other, cell.gradient_paths(other), found, expected):
        raise CheckFailed(
            "the gradient for other numbers at the same addresses, of arguments and upstream gradients, is wrong: "
            "something is cached by address",
            call,
        )


def _in_each_layout(cell: Cell) -> Iterator[Call]:
    """For each argument and each layout that it has in some small call, the first such call, and likewise of larger
    calls: an op may keep the copy that it makes of an argument in that layout alone, or only a large one."""
    small = (call for number in range(cell.search.examples) for call in cell.drawn_calls(cell.limits, 1, salt=number))
    fixed = [call for _, call in cell.fixed_calls()]
    large = cell.drawn_calls(Limits(elements=4 * _ON_CPU - 1, fewest=2 * _ON_CPU), FORMS, salt=_LARGE_SALT)
    for least, most, calls in (
        (0, _ON_CPU, itertools.chain(fixed, small)),
        (_ON_CPU, 4 * _ON_CPU, [*fixed, *large]),
    ):
        seen: set[tuple[Path, Layout]] = set()
        for call in calls:
            layouts = {(path, case.layout) for path, case in call.cases() if math.prod(case.shape) > 1}
            if least <= call.elements <= most and not layouts <= seen:
                seen |= layouts
                yield call


def _moves_on(cell: Cell, call: Call) -> None:
    args, kwargs = call.arguments(cell.device)
    seed(call.seed)
    first, second = (as_tuple(cell.implementation.function(*args, **kwargs))[0] for _ in range(2))
    if same_bits(first, second):
        raise CheckFailed("two calls in a row draw the same numbers: the generator is not advanced", call)


def branches(cell: Cell) -> str:
    """Each kernel of the prototype, and each reachable kernel instance of the port, has been launched by an earlier
    check."""
    if cell.process.deaths:
        raise CheckFailed("the op's process has died in a check before, and what it had launched is not known")
    launches = cell.process.branches()
    if not launches:
        launcher = "trifold::launch" if cell.kind == "port" else "trifold.prototype.launch"
        raise CheckFailed(f"the {cell.kind} has no kernel: launch kernels with {launcher}")
    cell.cases = len(launches)
    missed = sorted(name for name, count in launches.items() if count == 0)
    if missed:
        raise CheckFailed(f"no case reaches {', '.join(missed)}; add a sample that does, or remove the kernel")
    return f"{len(launches)} kernels, each launched"
