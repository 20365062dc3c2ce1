"""``trifold graduate``: verified ops as a wheel that needs torch alone; and the check of such a wheel."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from trifold.completion import op_names
from trifold.workspace import Workspace

if TYPE_CHECKING:
    from trifold.cells import Device
    from trifold.graduate.wheel_check import Checked
    from trifold.record_sources import Sources


class Unverified(StrEnum):
    cuda = "cuda"
    examples = "examples"


def graduate(
    ops: Annotated[
        list[str] | None,
        typer.Argument(help="The ops of the package.", show_default=False, autocompletion=op_names),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The new folder for source package and wheel.")] = None,
    name: Annotated[str | None, typer.Option(help="The package's name.", show_default="OP_kernels")] = None,
    version: Annotated[str, typer.Option(help="The package's version.")] = "0.1.0",
    arch: Annotated[
        list[str] | None, typer.Option(help="An architecture for the CUDA part.", show_default="8.0 and 9.0")
    ] = None,
    allow_unverified: Annotated[
        list[Unverified] | None,
        typer.Option(help="Waive verification on cuda, or with the default number of examples."),
    ] = None,
    local_version: Annotated[
        bool, typer.Option("--local-version", help="Append the build to the wheel's version: 0.1.0+cu13, or +cpu.")
    ] = False,
    check: Annotated[Path | None, typer.Option("--check", metavar="WHEEL", help="Check this wheel instead.")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write what was checked to this file.")] = None,
    workspace: Annotated[Path | None, typer.Option(help="Default: the nearest one.")] = None,
) -> None:
    """Make a wheel of verified ops that needs only torch, and test it in a fresh environment."""
    if check is not None:
        if ops or out is not None:
            raise typer.BadParameter("--check takes neither ops nor --out", param_hint="--check")
        from trifold.graduate.wheel_check import check as check_wheel

        with _status() as show:
            checked = check_wheel(check, show)
        _report(checked, json_file, {})
        return
    if not ops:
        raise typer.BadParameter("name at least one op", param_hint="OPS")
    if out is None:
        raise typer.BadParameter("say where the package shall be: --out DIR", param_hint="--out")
    from trifold import record_sources
    from trifold.graduate.graduate import graduate as run

    place = Workspace.find() if workspace is None else Workspace.at(workspace)
    with _status() as show:
        made = run(
            ops,
            out,
            workspace=place,
            name=name,
            version=version,
            local_version=local_version,
            arch=arch or (),
            allow_unverified=[str(one) for one in allow_unverified or ()],
            on_step=show,
        )
    for op, again in made.reverified.items():
        where = " and ".join(again["devices"])
        print(
            f"{op} verified anew: seed {again['seed']}, {again['cases']} cases on {where}"
            if where
            else f"{op} was not verified anew: this machine has no device of its certificate"
        )
    device: Device = "cuda" if "cuda" in made.checked.devices else "cpu"
    sources = record_sources.of_ops(place, made.checked.ops, device, prototypes=False)
    _report(made.checked, json_file, {"sources": sources})
    if made.without_cuda:
        print(f"for the CPU alone: {made.without_cuda}")
    print(f"source package: {made.folder}")
    print(f"wheel: {made.wheel}")


def _report(checked: Checked, json_file: Path | None, about: dict[str, Sources]) -> None:
    """Print the result of the check, and write it; ``about`` has facts about its sources here."""
    import torch

    from trifold.graduate.backend.abi import FLOOR
    from trifold.machine.environment import environment

    if json_file is not None:
        device = torch.device("cuda" if "cuda" in checked.devices else "cpu")
        facts = {**checked.to_json(), "environment": environment(Path.cwd(), device) | about}
        json_file.parent.mkdir(parents=True, exist_ok=True)
        json_file.write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
    print(
        f"{checked.package} ({', '.join(checked.ops)}): {checked.tests} tests passed on "
        f"{' and '.join(checked.devices) or 'no device'} with torch {checked.torch}, in an environment without trifold"
    )
    for cell, reason in checked.not_run.items():
        print(f"not run: {cell}: {reason}")
    print(
        f"symbols: torch's stable ABI since {FLOOR} alone; {checked.needs.platform}"
        + (f"; CUDA {checked.needs.cuda}" if checked.needs.cuda else "")
    )


@contextmanager
def _status() -> Iterator[Callable[[str], None]]:
    """The current step, in one line that disappears; nothing unless on a terminal."""
    console = Console()
    if not console.is_terminal:
        yield lambda text: None
        return
    with console.status("starting") as status:
        yield status.update
