"""Values against the reference."""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from torch import Tensor

from trifold.spec import Call
from trifold.spec.call import Path, tensor_at
from trifold.verification.calls import has_alias
from trifold.verification.cell import Cell
from trifold.verification.checks.apart import results_apart
from trifold.verification.checks.many_rows import with_many_rows
from trifold.verification.checks.native import as_native_code
from trifold.verification.checks.undrawn import right_or_refused
from trifold.verification.comparison import Expected, same_values
from trifold.verification.outcomes import CheckFailed
from trifold.verification.results import as_tuple, form_of_whole
from trifold.verification.tolerance import Copies, form_mismatch, overlap, share_memory

_AGAIN = 8  # calls that are repeated later
_SMALL = 4096  # elements, of calls that are repeated with arguments by keyword


def values(cell: Cell) -> str | None:
    """Every result against the exact one; the arguments must be unchanged.

    A prototype in the simulator also runs on more elements, as native code; if a kernel cannot be translated, the row
    says so.
    """
    cell.calls.clear()

    def test(call: Call) -> None:
        compare(cell, call)
        cell.calls.append(call)

    cell.for_each_call(test)
    of_sizes = (*cell.swept_calls(), *cell.calls_of_length(), *cell.tail_calls(), *cell.calls_of_numbers())
    for call in (*of_sizes, *cell.plain_large_calls(), *cell.peaked_calls(), *cell.expanded_calls()):
        cell.run_case(test, call)
    with_many_rows(cell, functools.partial(compare, cell))
    # The same calls again, long after the first: a result cached by address, shape or number of the call is stale by
    # then.
    for call in cell.calls[: _AGAIN * 3 : 3]:
        cell.run_case(lambda call: (compare(cell, call), None)[1], call, "again, after all others")
    for call, by_keyword in _called_by_keyword(cell):
        cell.run_case(functools.partial(_require_same, cell, call), by_keyword, "by keyword")
    for name, call, without in _without_an_argument(cell):
        cell.run_case(functools.partial(_require_default, cell, name, call), without, f"without {name}")
    right_or_refused(cell, compare)
    cell.compared_all = True
    results_apart(cell)
    large = [*cell.native_edges(), *cell.native_calls()]
    return as_native_code(cell, [(functools.partial(compare, cell), call) for call in large])


def _require_same(cell: Cell, call: Call, by_keyword: Call) -> None:
    if not same_values(cell, call, cell.invoke(call), cell.invoke(by_keyword)):
        raise CheckFailed("called by keyword, by the names of the reference's parameters, the op has another result")


def _require_default(cell: Cell, name: str, call: Call, without: Call) -> None:
    if not same_values(cell, call, cell.invoke(call), cell.invoke(without)):
        raise CheckFailed(f"without {name}, the op has another result than with the reference's default of {name}")


def _called_by_keyword(cell: Cell) -> Iterator[tuple[Call, Call]]:
    """Some of the calls again: with each argument passed by the name of the reference's parameter, defaults included;
    and without the arguments that equal their defaults."""
    defaults = _defaults(cell)
    forms: set[tuple[Any, ...]] = set()
    for call, given in _with_names(cell):
        form = len(call.args), *sorted(call.kwargs)
        if form in forms:
            continue
        forms.add(form)
        yield call, replace(call, args=(), kwargs=defaults | given)
        others = {name: value for name, value in given.items() if name not in defaults or value != defaults[name]}
        if len(others) < len(given):
            yield call, replace(call, args=(), kwargs=others)


def _without_an_argument(cell: Cell) -> Iterator[tuple[str, Call, Call]]:
    """For each parameter that has a default, where the spec's calls pass another value: a call with the reference's
    default, and one without the argument."""
    left = _defaults(cell)
    for call, given in _with_names(cell):
        for name in [name for name, default in left.items() if name in given and given[name] != default]:
            with_default = replace(call, args=(), kwargs=given | {name: left[name]})
            try:
                cell.refer(with_default)
            except CheckFailed:  # it does not take its default with these arguments
                continue
            del left[name]
            without = {each: value for each, value in given.items() if each != name}
            yield name, with_default, replace(call, args=(), kwargs=without)


def _with_names(cell: Cell) -> Iterator[tuple[Call, dict[str, Any]]]:
    """The small calls whose arguments can all be passed by name, and these."""
    named = _by_name(cell)
    names = [p.name for p in named]
    for call in cell.calls if len(named) == len(cell.parameters) else ():
        given = {**dict(zip(names, call.args, strict=False)), **call.kwargs}
        fits = len(given) == len(call.args) + len(call.kwargs) and set(names).issuperset(given)
        if fits and not has_alias(call) and call.elements <= _SMALL:
            yield call, given


def _by_name(cell: Cell) -> list[inspect.Parameter]:
    return [p for p in cell.parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]


def _defaults(cell: Cell) -> dict[str, Any]:
    return {p.name: p.default for p in _by_name(cell) if p.default is not p.empty}


def compare(cell: Cell, call: Call) -> tuple[Tensor, ...]:
    """A call's results; raises ``CheckFailed`` if they, or the arguments after the call, are wrong."""
    arguments = call.arguments(cell.device)
    tensors = {path: tensor_at(arguments, path) for path, _ in call.cases()}
    copies = Copies(list(tensors.values()))
    whole = cell.invoke_whole(call, arguments)
    results = as_tuple(whole)
    written = cell.written_paths(call)
    paths = list(tensors)
    for path in (paths[number] for number in copies.changed()):
        if path not in written:
            name = cell.name(path)
            raise CheckFailed(
                f'{name} was changed by the call; if the op writes into it, Spec(writes=("{name}", ...))', call
            )
    _require_views(cell, call, results, tensors)
    expected = Expected.of(cell, call)
    got, want = form_of_whole(whole), form_of_whole(expected.whole)
    if got != want and not (isinstance(whole, tuple | list) and _listed(got) == _listed(want)):
        raise CheckFailed(f"the call returns {got}, the reference {want}", call)
    if len(results) != len(expected.native):
        raise CheckFailed(f"{len(results)} results, the reference has {len(expected.native)}", call)
    _require_apart(call, results, expected.native)
    for number, (result, own) in enumerate(zip(results, expected.native, strict=True)):
        wrong = form_mismatch(result, own) or expected.wrong(number, result, signs=True)
        if wrong:
            alone = len(results) == 1 and not cell.spec.writes
            raise CheckFailed(wrong if alone else f"{cell.name_of_result(call, number, results)}: {wrong}", call)
    return results


def _listed(form: str) -> str:
    """Tuples and lists of tensors are the same for a caller of torch's operators."""
    return form.replace("[", "(").replace("]", ")")


def _require_apart(call: Call, results: tuple[Tensor, ...], native: tuple[Tensor, ...]) -> None:
    """No two results have memory in common, unless those of the reference have."""
    for i, j in itertools.combinations(range(len(results)), 2):
        if overlap(results[i], results[j]) and not overlap(native[i], native[j]):
            raise CheckFailed(
                f"results {i} and {j} lie in the same memory: a change of one in place changes the other", call
            )


def _require_views(cell: Cell, call: Call, results: tuple[Tensor, ...], tensors: Mapping[Path, Tensor]) -> None:
    """Results share memory with the argument that the spec names, and with no other."""
    for number, result in enumerate(results):
        of = cell.spec.views.get(number)
        shared = [cell.name(path) for path, tensor in tensors.items() if share_memory(result, tensor)]
        if of is None and shared:
            raise CheckFailed(
                f"a result lies in the memory of {shared[0]}; where that is intended, say so: Spec(views=...)", call
            )
        if of is not None and result.numel() > 0 and of not in shared:
            raise CheckFailed(f"result {number} is no view of {of}, as Spec(views=...) says", call)
