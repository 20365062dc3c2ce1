"""The calls that the checks of a cell make: those that the spec lists, and drawn ones."""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass, replace
from typing import Any

import hypothesis
import torch
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from trifold.build.paths import gpu_paths
from trifold.errors import SpecError
from trifold.spec import AliasCase, Call, IndexCase, Limits, Spec, TensorCase
from trifold.spec.call import Path, require_call
from trifold.spec.case import AnyCase
from trifold.spec.fills import NEEDED, Fill

FEW = 2048  # elements; of larger calls, checks of accesses make fewer
FEW_SIMULATED = 256  # the same in the simulator, which takes milliseconds for as many

# Small drawn calls, for their dtypes and layouts, which several checks share.
FORMS, FORMS_LIMITS, FORMS_SALT = 24, Limits(elements=64), 3000

# Fills whose numbers neither overflow nor vanish. At others, gradients are compared only where the reference is finite.
ORDINARY = ("exact", "normal", "zero", "tiny", *NEEDED)

# Fills with numbers as large as those of "peak".
_OF_MANY_SIZES = ("wide", "special", "squarable", "huge", "range")

_SWEPT_FROM = 5  # examples; with fewer, sizes are not swept: one size and no tails
_SMALL = 4096  # elements, at most, of a call that replaces a smooth one
_SMALL_CALLS = 3
_ABOVE_A_BLOCK = 11  # 2^11 elements are more than a block has threads
_LONG_CHOICES = 16  # drawn calls from which one of few rows is chosen
_LONG = 18  # from 2^18 elements on, the shape of a call decides whether it takes milliseconds or seconds
_SWEEP_CHOICES = 8  # drawn calls from which such a call is chosen
_LENGTHS, _MOST_LENGTHS = 24, 6  # drawn calls, of which those with long dimensions are chosen; the most of them
_WARP = 32
_MOST_WARPS = 7  # full warps, at most, in a call that tests a tail
_TAIL_CHOICES = 4  # drawn calls, at most, to find one of a single row
_NATIVE_ROWS, _NATIVE_FEW_ROWS = range(1025, 4097), range(2, 6)
# Of calls on a CPU: where kernels are interpreted, and where they are compiled.
IN_SIMULATOR, COMPILED = Limits(elements=20_000), Limits(elements=100_000)
# Each of these kinds of calls has its own range of salts, so that they are drawn independently.
_SMALL_SALT, _TAIL_SALT, _NATIVE_SALT, _ROWS_SALT, _PEAK_SALT, _LENGTH_SALT = 2000, 5000, 6000, 7000, 8000, 9000
_PLAIN_SALT, _NUMBER_SALT = 10_000, 11_000
_NUMBERS = 24  # sizes, at most, that are tried since they stand in the op's sources
_NUMBER_CHOICES, _FEW_NUMBER_CHOICES, _ALL_NUMBER_CHOICES = 16, 6, 96  # drawn calls: for one, at least, and for all


@dataclass(frozen=True)
class Search:
    """How calls are drawn.

    Attributes:
        examples: calls per check that draws.
        seed: of the draws; None: a constant, the same in every run.
    """

    examples: int
    seed: int | None = None


class CallSource(ABC):
    """The calls of one cell: base of :class:`trifold.verification.cell.Cell`, which has these attributes as fields.

    Drawing is deterministic: the same spec, limits, salt and seed give the same calls.
    """

    spec: Spec
    device: str
    search: Search
    limits: Limits
    _kept: dict[tuple[Limits, int], list[Call]]  # drawn calls, by limits and salt
    _strategies: dict[Limits, SearchStrategy[tuple[int, Call]]]

    @property
    @abstractmethod
    def kind(self) -> str:
        """``prototype`` or ``port``."""

    @property
    @abstractmethod
    def numbers(self) -> tuple[int, ...]:
        """Integers in the op's own sources (:func:`~trifold.verification.source_numbers.numbers_in`)."""

    @property
    def simulated(self) -> bool:
        """Whether kernels run in the simulator, which runs a million threads a second."""
        return (self.kind, self.device) == ("prototype", "cpu")

    def small_calls(self) -> list[Call]:
        """The spec's smooth calls; without any, small calls of ordinary numbers among fixed and drawn ones."""
        if self.spec.smooth:
            return list(self.spec.smooth)
        fixed = [call for _, call in self.fixed_calls() if 0 < call.elements <= _SMALL and is_ordinary(call)]
        if len(fixed) >= _SMALL_CALLS:
            return fixed[:_SMALL_CALLS]
        drawn = self.drawn_calls(Limits(elements=64), 8 * _SMALL_CALLS, salt=_SMALL_SALT)
        ordinary = [call for call in drawn if call.elements > 0 and is_ordinary(call)]
        return (fixed + ordinary + drawn)[:_SMALL_CALLS]

    def fixed_calls(self) -> Iterator[tuple[str, Call]]:
        """The spec's samples and edges, by name, and its GPU edges where the kernels of a GPU run."""
        for sample in self.spec.samples:
            yield sample.name, sample.call
        for call in self.spec.edges:
            if all(math.prod(case.shape) <= self.limits.elements for _, case in call.cases()):
                yield "edge", call
        if self.device == "cuda" or (self.kind == "port" and gpu_paths()):
            yield from self.gpu_calls()

    def fixed_calls_of_one_dtype(self, above: int = FEW_SIMULATED) -> Iterator[tuple[str, Call]]:
        """As :meth:`fixed_calls`. In the simulator, of calls of more elements than ``above`` that differ in their
        floating dtypes alone, one: for checks of what does not depend on numbers, such as accesses."""
        large: dict[str, list[tuple[str, Call]]] = {}
        for name, call in self.fixed_calls():
            if self.simulated and call.elements > above:
                large.setdefault(repr(_in_float32(call)), []).append((name, call))
            else:
                yield name, call
        for key, same in large.items():
            yield same[zlib.crc32(key.encode()) % len(same)]

    def gpu_calls(self) -> Iterator[tuple[str, Call]]:
        """The spec's calls for kernels that only a GPU uses, by name."""
        for call in self.spec.gpu_edges:
            yield "edge of a GPU", call

    def drawn_calls(self, limits: Limits, count: int, *, salt: int = 0) -> list[Call]:
        """``count`` calls drawn within ``limits``, one for each salt from ``salt`` on; two for salt 0."""
        return [call for number in range(count) for call in self._drawn(limits, salt + number)]

    def _drawn(self, limits: Limits, salt: int) -> list[Call]:
        """The calls of one salt, drawn once and then shared by all checks: one call, or two for salt 0."""
        if (limits, salt) not in self._kept:
            kept: list[Call] = []
            self._search(kept.append, limits, salt, (Phase.generate,))
            self._kept[limits, salt] = kept
        return self._kept[limits, salt]

    def _shrink(self, test: Callable[[Call], None], limits: Limits, salt: int) -> None:
        """Draw the calls of a salt again, shrink one that fails, and raise what ``test`` raises on the shrunk call."""
        self._search(test, limits, salt, (Phase.generate, Phase.shrink))

    def _search(self, test: Callable[[Call], None], limits: Limits, salt: int, phases: tuple[Phase, ...]) -> None:
        """Run ``test`` on one drawn call; for salt 0, or if nothing else can be drawn, also on the simplest call.

        A search has two calls. Hypothesis starts each search with the simplest call, which is the same every time. A
        single long search would be worse: half of its calls are variations of earlier ones.
        """
        calls = 0
        simplest: Call | None = None

        def draw(drawn: tuple[int, Call]) -> None:
            nonlocal calls, simplest
            call = drawn[1]
            require_call("what Spec(calls=...) drew", call)
            calls += 1
            simplest = simplest or call
            if calls > 1:
                test(call)

        configured = settings(
            max_examples=2,
            deadline=None,
            database=None,
            print_blob=False,
            report_multiple_bugs=False,
            phases=phases,
            suppress_health_check=list(HealthCheck),
        )(hypothesis.given(self._strategy(limits))(draw))
        hypothesis.seed((self.search.seed or 0) * 1009 + salt)(configured)()
        if simplest is not None and (salt == 0 or calls == 1):
            test(simplest)

    def _strategy(self, limits: Limits) -> SearchStrategy[tuple[int, Call]]:
        """The spec's strategy, made once: hypothesis validates each new one, which takes as long as drawing from it.

        An integer is drawn before the call. The second example of a search always differs from the simplest one in its
        first choice: without the integer, the first dtype of a spec that draws a dtype first would never be drawn.
        """
        if limits not in self._strategies:
            calls = self.spec.calls(limits)
            if not isinstance(calls, SearchStrategy):
                raise SpecError(
                    f"Spec(calls=...) returned {calls!r}, which is no strategy of hypothesis",
                    "decorate the function that draws a call with @st.composite",
                )
            self._strategies[limits] = st.tuples(st.integers(0, 2**32 - 1), calls)
        return self._strategies[limits]

    def swept_calls(self, *, below: int | None = None) -> Iterator[Call]:
        """A drawn call for each power of two of elements: from 2^4 to below 2^14 in the simulator, 2^21 elsewhere.

        Args:
            below: the exclusive upper bound of the exponent, instead of 14 or 21.
        """
        most = below or (14 if self.simulated else 21)
        for power in range(4, most) if self.search.examples >= _SWEPT_FROM else (_ABOVE_A_BLOCK,):
            # Ops on rows may launch a block for each row, of float64 in particular, which takes seconds for many rows;
            # call_of_rows has calls of many rows.
            calls = self.drawn_calls(_of_power(power), _SWEEP_CHOICES if power >= _LONG else 1, salt=20 * power)
            # Two rows, not one: a matrix of one row or column may be a special case, such as a copy.
            yield min(
                calls,
                key=lambda call: (call.dtype == torch.float64, not _shows_all(call), rows_of(call) < 2, rows_of(call)),
            )

    def calls_of_length(self) -> list[Call]:
        """Of some drawn calls, for each dimension of each tensor that in which it is longest.

        In a call of many elements one dimension is long, and which one is decided by chance: the inner dimension of
        matrices, say, may never be.
        """
        if self.search.examples < _SWEPT_FROM:
            return []
        found = []
        for call in self.drawn_calls(_of_power(12 if self.simulated else 14), _LENGTHS, salt=_LENGTH_SALT):
            shows_all = _shows_all(call)
            for path, case in call.cases():
                for place, size in enumerate(reversed(case.shape)):
                    rank = shows_all, call.dtype != torch.float64, size  # most ops are slowest in float64
                    if size > 1:
                        found.append((rank, (path, place), call))
        longest: dict[object, Call] = {}
        for _, dimension, call in sorted(found, key=lambda entry: entry[0], reverse=True):
            longest.setdefault(dimension, call)
        return list({repr(call): call for call in longest.values()}.values())[:_MOST_LENGTHS]

    def calls_of_numbers(self, *, in_half: bool = True) -> list[Call]:
        """Small calls in which a dimension is as long as an integer in the op's sources says: of each such integer one
        for each dimension, counted from the last, as far as they are drawn; and with ``in_half`` one in a half type and
        one in another. They have normal numbers where the spec draws these, so that none is lost in a sum.

        They find what is wrong for one size alone.
        """
        if self.search.examples < _SWEPT_FROM:
            return []
        found: dict[object, Call] = {}
        in_normal_numbers = functools.partial(_in_normal_numbers, self._drawn_as_normal_numbers())
        numbers = [n for n in self.numbers if 2 * n <= self.limits.elements][:_NUMBERS]
        count = max(_FEW_NUMBER_CHOICES, min(_NUMBER_CHOICES, _ALL_NUMBER_CHOICES // max(1, len(numbers))))
        for turn, number in enumerate(numbers):
            limits = Limits(min(16 * number, self.limits.elements), number, number)
            drawn: list[Call] = []
            with contextlib.suppress(Exception):  # the spec's, or hypothesis's
                drawn = self.drawn_calls(limits, count, salt=_NUMBER_SALT + _NUMBER_CHOICES * turn)
            for call in sorted(map(in_normal_numbers, drawn), key=lambda call: (has_alias(call), call.elements)):
                for _, case in call.cases():
                    for place, size in enumerate(reversed(case.shape)):
                        if size == number:
                            found.setdefault((number, place, in_half and call.dtype.itemsize == 2), call)
        return list({repr(call): call for call in found.values()}.values())

    def _drawn_as_normal_numbers(self) -> set[Path]:
        """The paths of the tensors for which the spec draws normal numbers."""
        return {
            path
            for form in self._forms()
            for path, case in form.cases()
            if isinstance(case, TensorCase) and case.fill == "normal"
        }

    def peaked_calls(self) -> Iterator[Call]:
        """Calls of long rows, which are the last dimension: the largest tensor has one large number in each row, that
        of the first row in the last column; and, if the op's calls have masked numbers, a beginning of the first row is
        masked.

        Of normal numbers, each of a long row has little effect on a maximum or a selection.
        """
        if self.search.examples < _SWEPT_FROM:
            return
        for power in (12,) if self.simulated else (16, 17):
            calls = self.drawn_calls(_of_power(power), _LONG_CHOICES, salt=_PEAK_SALT + power)
            if not any(case.fill in _OF_MANY_SIZES for call in calls for _, case in call.floating()):
                continue  # the op may not take a large number
            # Of an odd number of columns, slices of a row leave some of them over.
            long = min(calls, key=lambda call: (call.dtype == torch.float64, _columns_of(call) % 2 == 0, rows_of(call)))
            yield from _with_largest(long, "peak")
            if any(case.fill == "masked" for call in self._forms() for _, case in call.floating()):
                yield from _with_largest(long, "masked")

    def native_edges(self) -> list[Call]:
        """The spec's edges that are too large for the simulator, for a prototype compiled to native code: of those that
        differ in their floating dtypes alone, one, of float32 if there is one, since each dtype needs a build. The
        largest also as one of the :meth:`peaked_calls`."""
        if not self.simulated or self.search.examples < _SWEPT_FROM:
            return []
        chosen: dict[str, Call] = {}
        for call in self.spec.edges:
            largest = max((math.prod(case.shape) for _, case in call.cases()), default=0)
            if self.limits.elements < largest <= COMPILED.elements:
                key = repr(_in_float32(call))
                if key not in chosen or call.dtype == torch.float32:
                    chosen[key] = call
        edges = list(chosen.values())
        if edges and any(True for _ in self.peaked_calls()):
            edges += _with_largest(max(edges, key=lambda call: call.elements), "peak")
        return edges

    def native_calls(self) -> list[Call]:
        """Large calls for a prototype compiled to native code: one of 1,025 to 4,096 rows, preferably of float32, and
        one of that dtype with two to five rows, of more than 65,536 columns; as far as some are drawn.

        The rows exceed the blocks of a grid that is fixed too small, and the elements the threads of 1,024 blocks of
        256. More rows would be slow: with shuffles, each thread has a stack and synchronizes some twenty times a row,
        and 19,000 rows of one block each take 4 s.
        """
        if not self.simulated or self.search.examples < _SWEPT_FROM:
            return []
        with contextlib.suppress(Exception):  # the spec's, or hypothesis's
            calls = self.drawn_calls(Limits(elements=2**19 - 1, fewest=2**18 + 2**16), 32, salt=_NATIVE_SALT)
            of_rows = min(
                calls,
                key=lambda call: (
                    rows_of(call) not in _NATIVE_ROWS,
                    not _shows_all(call),
                    call.dtype != torch.float32,
                ),
            )
            others = [call for call in calls if call is not of_rows and call.dtype == of_rows.dtype]  # of one build
            long = [call for call in others if rows_of(call) in _NATIVE_FEW_ROWS]
            return [of_rows, *sorted(long, key=_shows_all)[-1:]]
        return []

    def plain_large_calls(self) -> list[Call]:
        """A call of more than 2^18 elements, which are those of 1,024 blocks of 256 threads, with contiguous tensors
        and, if one is drawn, ordinary numbers in float32: a shortcut for large tensors often has such conditions.

        None in the simulator, for which see :meth:`native_calls`.
        """
        if self.simulated or self.search.examples < _SWEPT_FROM:
            return []
        with contextlib.suppress(Exception):  # the spec's, or hypothesis's
            drawn = self.drawn_calls(Limits(elements=2**19 - 1, fewest=2**18 + 2**16), _LONG_CHOICES, salt=_PLAIN_SALT)

            def rank(call: Call) -> tuple[bool, bool, bool, bool, int]:
                plain = is_ordinary(call) and _shows_all(call)
                whole = any(case.fill == "exact" for _, case in call.floating())  # fewer digits would do
                return not plain, call.dtype != torch.float32, whole, rows_of(call) < 2, rows_of(call)

            return [min(drawn, key=rank).with_cases(_contiguous)]
        return []

    def call_of_rows(self, least: int, elements: int) -> Call | None:
        """A call with at least ``least`` rows in a tensor and fewer than ``elements`` elements; None if there is none.

        None in the simulator, which is too slow. Not of float64, for which ops on rows always use one block per row.
        """
        if self.simulated or self.search.examples < _SWEPT_FROM:
            return None
        with contextlib.suppress(Exception):  # the spec's, or hypothesis's
            drawn = self.drawn_calls(Limits(elements=elements - 1, fewest=elements // 2), 24, salt=_ROWS_SALT)
            enough = [call for call in drawn if rows_of(call) >= least and call.dtype != torch.float64]

            def rank(call: Call) -> tuple[bool, bool, bool, int]:
                one_column = call.elements <= rows_of(call)  # a matrix may then be copied as it is
                shows = is_ordinary(call) and _shows_all(call)
                return one_column, not shows, call.dtype != torch.float32, call.elements

            return min(enough, key=rank, default=None)
        return None

    def tail_calls(self) -> Iterator[Call]:
        """Calls for each remainder modulo 32, each tail of a warp or a vector: of the number of elements, and of the
        last dimension.

        A remainder is left out where the spec has no call of exactly that many elements.
        """
        for tail in range(_WARP if self.search.examples >= _SWEPT_FROM else 0):
            some = [_WARP * (1 + (tail + k) % _MOST_WARPS) + tail for k in range(4)]
            # The candidate with the most divisors, so that not all shapes are a single row or column; and that with the
            # fewest, in a single row.
            divided, whole = (choice(some, key=_divisors) for choice in (max, min))
            with contextlib.suppress(Exception):  # the spec's, or hypothesis's
                yield self._of_elements(divided, _TAIL_SALT + tail)
                for turn in range(_TAIL_CHOICES):
                    call = self._of_elements(whole, _TAIL_SALT + _WARP * (turn + 1) + tail)
                    if any(case.shape[-1:] == (whole,) for _, case in call.cases()):
                        yield call
                        break

    def _forms(self) -> list[Call]:
        return self.drawn_calls(FORMS_LIMITS, FORMS, salt=FORMS_SALT)

    def expanded_calls(self) -> Iterator[Call]:
        """For each tensor that the spec's calls expand, two small calls in which it has stride 0, one in its first
        dimension and one in its last; no dimension has one element."""
        every = [*self._forms(), *(call for _, call in self.fixed_calls())]
        may_be = {
            path: None
            for call in every
            for path, case in call.cases()
            if isinstance(case, TensorCase) and case.layout == "expanded"
        }
        for path, last in itertools.product(may_be, (False, True)):
            for call in self._forms():
                case, usable = dict(call.cases()).get(path), _shows_all(call) and not has_alias(call)
                if isinstance(case, TensorCase) and len(case.shape) > 1 < min(case.shape) and usable:
                    dim = len(case.shape) - 1 if last else 0
                    changed = replace(case, layout="expanded", offset=1, dim=dim)
                    yield call.with_cases(functools.partial(exchanged, case, changed))
                    break

    def _of_elements(self, elements: int, salt: int) -> Call:
        """A drawn call of exactly so many elements; raises if the spec has none."""
        return self.drawn_calls(Limits(elements=elements, fewest=elements), 1, salt=salt)[0]


def _divisors(number: int) -> int:
    return sum(number % other == 0 for other in range(2, number))


def _of_power(power: int) -> Limits:
    """From 2^power elements to fewer than twice as many."""
    return Limits(elements=2 ** (power + 1) - 1, fewest=2**power)


def _with_largest(call: Call, fill: Fill) -> Iterator[Call]:
    """The call with the largest tensor filled so, if that has rows."""
    tensors = [case for _, case in call.floating() if isinstance(case, TensorCase)]
    largest = max(tensors, key=lambda case: math.prod(case.shape), default=None)
    if largest is not None and largest.shape and largest.fill not in NEEDED:
        # In other layouts, the rows that are filled are not those of the tensor, or have other ends.
        layout = largest.layout if largest.layout in ("offset", "padded") else "contiguous"
        filled = replace(largest, fill=fill, layout=layout, seed=0)
        yield call.with_cases(functools.partial(exchanged, largest, filled))


def _in_normal_numbers(paths: Set[Path], call: Call) -> Call:
    """The call with normal numbers in the tensors at these paths."""
    for path, case in call.cases():
        if path in paths and isinstance(case, TensorCase):
            call = call.with_cases(functools.partial(exchanged, case, case.in_normal_numbers()))
    return call


def exchanged(case: AnyCase, other: AnyCase, each: AnyCase) -> AnyCase:
    """``other`` if ``each`` is ``case``, else ``each``: for :meth:`Call.with_cases`."""
    return other if each is case else each


def is_ordinary(call: Call) -> bool:
    """Whether its numbers neither overflow nor vanish when computed with."""
    return all(case.fill in ORDINARY for _, case in call.floating())


def describe(call: Call) -> str:
    """A call in one line: "(3, 5) float32 sliced special; …"."""

    def described(value: Any) -> str:
        if isinstance(value, TensorCase):
            return f"{value.shape} {str(value.dtype).removeprefix('torch.')} {value.layout} {value.fill}"
        if isinstance(value, IndexCase):
            return f"{value.shape} indices {value.layout}"
        if isinstance(value, list | tuple):
            return f"[{', '.join(map(described, value))}]"
        return repr(value)

    return "; ".join(map(described, (*call.args, *call.kwargs.values())))


def _shows_all(call: Call) -> bool:
    """Whether no floating-point tensor consists of zeros, or has nans, so that each number shows in the result."""
    return not any(case.fill in ("zero", "special") for _, case in call.floating())


def has_alias(call: Call) -> bool:
    """Whether an argument is another one, or overlaps it."""
    return any(isinstance(value, AliasCase) for value in call.args)


def dtypes_of(call: Call) -> set[str]:
    """The dtypes of a call's tensors, without indices: ``{"float32"}``."""
    return {str(case.dtype).removeprefix("torch.") for _, case in call.cases() if isinstance(case, TensorCase)}


def rows_of(call: Call) -> int:
    """The number of rows of the call's tensor with the most rows."""
    shapes = [case.shape for _, case in call.cases()]
    return max((math.prod(shape[:-1]) for shape in shapes), default=0)


def _columns_of(call: Call) -> int:
    """The last dimension of the call's largest tensor."""
    largest = max((case.shape for _, case in call.cases()), key=math.prod, default=())
    return largest[-1] if largest else 1


def _contiguous(case: AnyCase) -> AnyCase:
    return replace(case, layout="contiguous")


def _in_float32(call: Call) -> Call:
    """The call with one floating dtype and without seeds."""

    def changed(case: AnyCase) -> AnyCase:
        if not isinstance(case, TensorCase):
            return case
        return replace(case, dtype=torch.float32 if case.dtype.is_floating_point else case.dtype, seed=0)

    return replace(call.with_cases(changed), seed=0)
