"""Benchmarks over shapes drawn at random, ``trifold bench --shapes random:80 --seed 1``, and their evaluation.

An op was tuned for the cases that its spec states. Shapes drawn with a new seed show sizes that nobody listed.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from random import Random

import torch

from trifold.bench.rows import PORT, ROOFLINE, Row
from trifold.bench.table import align
from trifold.errors import SpecError, TrifoldError
from trifold.spec.benchmark import Benchmark, Case, Target
from trifold.spec.drawn import Draw, between

LEAST_BYTES, MOST_BYTES = 16 << 20, 2 << 30  # of a tensor, in each dtype of the benchmark
CPU_MOST_BYTES = 32 << 20  # so that backward of a pair of tensors moves less than trifold.bench.run.CPU_BYTES
# Share of the device's memory: at its peak a case holds input, output, upstream gradient and saved tensors of five
# competitors, and three copies for the roofline.
TENSORS = 32
TRIES = 1000  # attempts for one shape, before fewer are drawn

COPY_BYTES = 64 << 20  # from this size on a case must come near the copy rate
LEAST_RATIO, MEDIAN_RATIO, LEAST_OF_COPY = 0.95, 1.0, 0.80
_TARGETS = (
    Target(measure="over the fastest peer", at_least=LEAST_RATIO),
    Target(measure="over the fastest peer", at_least=MEDIAN_RATIO, mean="median"),
    Target(measure="roofline", at_least=LEAST_OF_COPY, least_bytes=COPY_BYTES),
)


@dataclass(frozen=True)
class Drawing:
    """How many shapes to draw, and with which seed.

    Each benchmark starts from the seed: forward and backward have the same shapes, whichever ops are measured, and the
    first 40 of 80 are those of 40. A device's memory only removes the largest ones.
    """

    count: int
    seed: int

    def __str__(self) -> str:
        return f"random:{self.count}, seed {self.seed}"

    @classmethod
    def parse(cls, shapes: str | None, seed: int | None) -> Drawing | None:
        """The values of ``--shapes`` and ``--seed``; None: ``--shapes`` lists sizes.

        Raises:
            TrifoldError: the count is not a positive number, or there is a seed and nothing to draw.
        """
        kind, colon, count = (shapes or "").strip().partition(":")
        if kind != "random":
            if seed is not None:
                raise TrifoldError("--seed: there is nothing to draw", "say how many shapes: --shapes random:80")
            return None
        if not colon or not count.isdecimal() or int(count) == 0:
            raise TrifoldError(f"--shapes {shapes}: how many shapes?", "write --shapes random:80")
        return cls(int(count), seed or 0)

    def applied(self, benchmark: Benchmark, device: torch.device) -> Benchmark:
        """``benchmark`` over the drawn cases, with the targets for drawn ones; the host's time is not measured.

        Raises:
            SpecError: no case fits the limits of size.
        """
        cases = tuple(self._cases(benchmark, most_bytes(device)))
        if not cases:
            raise SpecError(f"{benchmark.name}: no shape could be drawn", "state Benchmark(draw=...)")
        return dataclasses.replace(benchmark, cases=cases, host=None, targets=_TARGETS)

    def _cases(self, benchmark: Benchmark, memory: int) -> Iterable[Case]:
        sizes = [dtype.itemsize for dtype in benchmark.dtypes]
        least = LEAST_BYTES // min(sizes)
        most = max(min(MOST_BYTES, memory) // max(sizes), least)
        draw = benchmark.draw or _as_in_the_cases(benchmark, 2 * min(MOST_BYTES, memory))
        random, seen = Random(self.seed), set[tuple[int, ...]]()
        for _ in range(TRIES * self.count):
            if len(seen) == self.count:
                break
            drawn = draw(random, least, most)
            if drawn and drawn not in seen:
                seen.add(drawn)
                yield Case(" × ".join(map(str, drawn)), drawn)


def most_bytes(device: torch.device) -> int:
    """Most bytes of a tensor such that all tensors of a case fit on ``device``."""
    if device.type == "cpu":
        return CPU_MOST_BYTES
    return int(torch.cuda.get_device_properties(device).total_memory) // TENSORS


def _as_in_the_cases(benchmark: Benchmark, most: int) -> Draw:
    """Each size between the smallest and the largest that a case has in its place, if a call moves at most ``most``
    bytes; an empty shape otherwise."""
    rank = len(benchmark.cases[0].sizes)
    places = list(zip(*(case.sizes for case in benchmark.cases if len(case.sizes) == rank), strict=True))

    def draw(random: Random, *_: int) -> tuple[int, ...]:
        sizes = tuple(between(random, min(place), max(place)) for place in places)
        moved = max(benchmark.bytes(Case("", sizes), dtype) for dtype in benchmark.dtypes)
        return sizes if moved <= most else ()

    return draw


def report(drawing: Drawing, rows: Iterable[Row]) -> str:
    """The results of the drawn cases for each op and pass: a table, and below it each case that is too slow.

    A ratio is the time of the fastest timed competitor over the port's.
    """
    ports = [row for row in rows if row.competitor == PORT and not row.method.startswith("host")]
    passes: dict[str, list[Row]] = {}
    for row in ports:
        passes.setdefault(_pass(row), []).append(row)
    head: tuple[str, ...] = ("op", "", "cases", "least ratio", "median", f"< {LEAST_RATIO}")
    lines = [(*head, "least of roofline", "median", f"< {LEAST_OF_COPY:.0%}", "")]
    lines += [_line(name, of_pass) for name, of_pass in passes.items()]
    absent = [(0.0, _place(row), f"{row.outcome}: {row.reason}") for row in ports if row.seconds is None]
    parts = [
        f"Shapes {drawing}: times of the fastest competitor over the port's; "
        f"shares of the roofline where {COPY_BYTES >> 20} MiB move or more",
        align(lines),
        *_listed(f"Below {LEAST_RATIO} of the fastest competitor", _too_slow(ports, _ratio, LEAST_RATIO)),
        *_listed(f"Below {LEAST_OF_COPY:.0%} of the roofline", _too_slow(ports, _of_roofline, LEAST_OF_COPY)),
        *_listed("Not measured", absent),
    ]
    return "\n".join(parts)


def _pass(row: Row) -> str:
    return f"{row.op} · {row.benchmark}" + ("" if row.method != "events" else " · events")


def _place(row: Row) -> str:
    return f"{_pass(row)} · {row.dtype} · {row.case}"


def _ratio(row: Row) -> tuple[float, str] | None:
    fastest = row.fastest_peer
    return None if fastest is None else (fastest[1].value, f"× {fastest[0]}")


def _of_roofline(row: Row) -> tuple[float, str] | None:
    share = row.ratios.get(ROOFLINE)
    return None if share is None or row.bytes < COPY_BYTES else (share.value, f"{row.gb_per_s or 0:,.0f} GB/s")


_Measure = Callable[[Row], tuple[float, str] | None]


def _values(rows: Iterable[Row], measure: _Measure) -> list[float]:
    return [found[0] for row in rows if (found := measure(row)) is not None]


def _too_slow(rows: Iterable[Row], measure: _Measure, least: float) -> list[tuple[float, str, str]]:
    measured = [(*found, _place(row)) for row in rows if (found := measure(row)) is not None]
    return sorted((value, place, unit) for value, unit, place in measured if value < least)


def _line(name: str, rows: Sequence[Row]) -> tuple[str, ...]:
    ratios, shares = _values(rows, _ratio), _values(rows, _of_roofline)
    return (
        *(name, "", str(sum(row.seconds is not None for row in rows))),
        *((f"{min(ratios):.2f}", f"{statistics.median(ratios):.2f}") if ratios else ("-", "-")),
        str(sum(value < LEAST_RATIO for value in ratios)),
        *((f"{min(shares):.1%}", f"{statistics.median(shares):.1%}") if shares else ("-", "-")),
        *(str(sum(value < LEAST_OF_COPY for value in shares)), ""),
    )


def _listed(title: str, found: Sequence[tuple[float, str, str]]) -> list[str]:
    if not found:
        return [f"{title}: none"]
    cells = [(place, "", f"{value:.3f}" if value else "", remark) for value, place, remark in found]
    return [f"{title}: {len(found)}", align(cells)]
