"""``trifold bench``: the ops against eager PyTorch, torch.compile, their prototypes, and the memory's own rate."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trifold.workspace import Workspace

if TYPE_CHECKING:
    from trifold.cells import Device


class DeviceOption(StrEnum):
    cpu = "cpu"
    cuda = "cuda"


def bench(
    ops: Annotated[
        list[str] | None, typer.Argument(help="Ops to measure; default: all that state a benchmark.")
    ] = None,
    device: Annotated[DeviceOption | None, typer.Option(help="Default: cuda where there is a GPU.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Three cases a benchmark, and shorter readings.")] = False,
    only: Annotated[str | None, typer.Option(help="Only tables and cases whose label contains this text.")] = None,
    compiled: Annotated[bool, typer.Option("--compile/--no-compile", help="Let torch.compile compete.")] = True,
    json: Annotated[Path | None, typer.Option(help="Write all figures to this file.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Write a plot (PNG) to this file.")] = None,
    check: Annotated[bool, typer.Option("--check", help="Exit with 1 if a target is missed or a port fails.")] = False,
    workspace: Annotated[Path | None, typer.Option(help="Default: the nearest folder that is one.")] = None,
) -> None:
    """Time ops against eager PyTorch, torch.compile, their prototypes and the memory's own rate."""
    import torch

    from trifold.bench.ops import acceptable, measure_ops
    from trifold.bench.plot import plot as write_plot

    place = Workspace.find() if workspace is None else Workspace.at(workspace)
    on_gpu = torch.cuda.is_available() if device is None else device is DeviceOption.cuda
    chosen: Device = "cuda" if on_gpu else "cpu"
    results = measure_ops(
        place,
        ops or [],
        chosen,
        quick=quick,
        only=only or "",
        compiled=compiled,
        show=lambda part: print(part, flush=True),
    )
    if json is not None:
        json.parent.mkdir(parents=True, exist_ok=True)
        json.write_text(results.to_json(), encoding="utf-8")
    if plot is not None:
        write_plot(results, plot)
    if check and not acceptable(results):
        raise typer.Exit(1)
