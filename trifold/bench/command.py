"""``trifold bench``: the ops against eager PyTorch, torch.compile, other libraries, and the memory's own rate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trifold.bench.rows import DEFAULT_RIVALS, RIVALS, Results
from trifold.completion import op_names
from trifold.errors import TrifoldError
from trifold.whole_files import write_whole
from trifold.workspace import Workspace

if TYPE_CHECKING:
    from trifold.cells import Device


MORE_TO_DO = 3  # exit status: cases are left after --stop-after


class DeviceOption(StrEnum):
    cpu = "cpu"
    cuda = "cuda"


def bench(
    ops: Annotated[
        list[str] | None,
        typer.Argument(help="Ops to measure; default: all that state a benchmark.", autocompletion=op_names),
    ] = None,
    device: Annotated[DeviceOption | None, typer.Option(help="Default: cuda if there is a GPU.")] = None,
    against: Annotated[str, typer.Option(help=f"Competitors, separated by commas: {', '.join(RIVALS)}.")] = ",".join(
        DEFAULT_RIVALS
    ),
    only: Annotated[str | None, typer.Option(help="Only tables and cases whose label contains this text.")] = None,
    shapes: Annotated[
        str | None,
        typer.Option(
            help="Only cases of these sizes: 16384x4096,2048x65536 or 2^20. Or random:80: in place of these cases "
            "80 that --seed draws, and a report of the slowest."
        ),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Which shapes --shapes random:80 draws; default: 0.", show_default=False)
    ] = None,
    dtypes: Annotated[str | None, typer.Option(help="Only these: float32,bfloat16.")] = None,
    methods: Annotated[str | None, typer.Option(help="Only these timing methods: graph,events,host.")] = None,
    prepare: Annotated[
        int,
        typer.Option(min=0, help="Processes that compile all cases in parallel before anything is timed."),
    ] = 0,
    quick: Annotated[bool, typer.Option("--quick", help="Three cases a benchmark, and shorter readings.")] = False,
    json: Annotated[Path | None, typer.Option(help="Write all figures to this file, after each case.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Measure only what the --json file lacks.")] = False,
    part: Annotated[
        str, typer.Option(help="2/4: the second of four parts of the cases. With --resume, all come into one file.")
    ] = "1/1",
    stop_after: Annotated[
        float | None,
        typer.Option(min=0, help="Minutes after which no further case is begun; exit status 3: some are left."),
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Write a plot (PNG) to this file.")] = None,
    check: Annotated[bool, typer.Option("--check", help="Exit with 1 if a target is missed or a port fails.")] = False,
    compare: Annotated[
        Path | None,
        typer.Option(help="Exit with 1 if a port is slower than in this file, relative to a memory copy."),
    ] = None,
    limit: Annotated[str, typer.Option(help="The slowdown of a case that --compare accepts.")] = "5%",
    workspace: Annotated[Path | None, typer.Option(help="Default: the nearest one.")] = None,
) -> None:
    """Time ops against eager PyTorch, torch.compile, other libraries and the rate of a memory copy."""
    import torch

    from trifold.bench import compare as comparison
    from trifold.bench.drawn import Drawing
    from trifold.bench.entrants import rivals
    from trifold.bench.ops import acceptable, measure_ops
    from trifold.bench.plot import plot as write_plot
    from trifold.bench.run import Selection

    place = Workspace.find() if workspace is None else Workspace.at(workspace)
    on_gpu = torch.cuda.is_available() if device is None else device is DeviceOption.cuda
    chosen: Device = "cuda" if on_gpu else "cpu"
    before = None if compare is None else Results.read(compare)
    begun = _begun(json) if resume else None
    drawing = Drawing.parse(shapes, seed)
    sizes = () if drawing is not None else _shapes(shapes)
    most = comparison.limit(limit)
    results = measure_ops(
        place,
        ops or [],
        chosen,
        selection=Selection(only or "", sizes, _words(dtypes), _words(methods), quick, _part(part)),
        against=rivals(against),
        drawing=drawing,
        workers=prepare,
        before=begun,
        stop_after=math.inf if stop_after is None else 60 * stop_after,
        show=lambda part: print(part, flush=True),
        save=lambda results: None if json is None else _write(results, json),
    )
    if plot is not None:
        for path in write_plot(results, plot):
            print(f"wrote {path}")
    status = 1 if check and not acceptable(results) else 0
    if before is not None:
        status = _compared(results, before, most) or status
    if not results.environment["complete"]:
        status = status or MORE_TO_DO
    if status:
        raise typer.Exit(status)


def _compared(results: Results, before: Results, most: float) -> int:
    """Print what became slower; 0: nothing by more than ``most``, 1: something, 2: there is nothing to compare."""
    from trifold.bench import compare

    found, failed = compare.changes(results.rows, before.rows), compare.failures(results.rows, before.rows)
    if not found and not failed:
        print("\nNothing is comparable: no case of a port was measured against the memory's rate in both")
        return 2
    print("\n" + compare.report(found, failed, most))
    return int(bool(failed) or any(change.slower > most for change in found))


def _begun(path: Path | None) -> Results | None:
    """The results of an earlier run; None if there is no file yet."""
    if path is None:
        raise TrifoldError("--resume: there is no file to resume", "name it with --json")
    return Results.read(path) if path.exists() else None


def _write(results: Results, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, results.to_json())


def _part(text: str) -> tuple[int, int]:
    """Raises :class:`TrifoldError` if ``text`` is not a part such as 2/4."""
    part, slash, parts = text.partition("/")
    if slash and part.isdecimal() and parts.isdecimal() and 1 <= int(part) <= int(parts):
        return int(part), int(parts)
    raise TrifoldError(f"--part {text}: it names no part", "write 2/4 for the second of four")


def _words(text: str | None) -> tuple[str, ...]:
    return tuple(filter(None, (word.strip() for word in (text or "").split(","))))


def _shapes(text: str | None) -> tuple[tuple[int, ...], ...]:
    return tuple(_shape(word) for word in _words(text))


def _shape(text: str) -> tuple[int, ...]:
    """Raises :class:`TrifoldError` if ``text`` is not a shape such as 16384x4096 or 2^20."""

    def size(factor: str) -> int:
        base, power, exponent = factor.partition("^")
        return int(base) ** int(exponent) if power else int(base)

    parts: Sequence[str] = text.replace("×", "x").split("x")
    try:
        return tuple(size(part) for part in parts)
    except ValueError:
        raise TrifoldError(
            f"--shapes: '{text}' is not a shape", "write sizes with x between: 16384x4096, 2^20"
        ) from None
