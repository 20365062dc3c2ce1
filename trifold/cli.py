"""The command line. A user's mistake prints a sentence and a remedy, without a stack trace.

Exit status: 0 done or verified, 1 failed, 2 could not run.
"""

from __future__ import annotations

import inspect
import json
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer
from rich.console import Console

from trifold import completion, tables
from trifold.bench.command import DeviceOption, bench
from trifold.debug.command import debug
from trifold.draft.command import draft
from trifold.errors import TrifoldError
from trifold.graduate.command import graduate
from trifold.new.command import new
from trifold.sanitize.command import ProgramOrOps, sanitize
from trifold.verification.examples import COMPILED, IN_SIMULATOR
from trifold.workspace import Workspace

app = typer.Typer(
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    help="GPU kernels from a PyTorch reference to a Numba prototype to a C++ CUDA port, verified to agree.",
)

WorkspaceOption = Annotated[
    Path | None,
    typer.Option(
        "--workspace",
        help="A folder with prototypes/, cuda_src/, ports/ and verify/.",
        show_default="the current folder, or its nearest parent that has them",
    ),
]


def _workspace(path: Path | None) -> Workspace:
    return Workspace.find() if path is None else Workspace.at(path)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"trifold {version('trifold')}")
        raise typer.Exit


def _checks(incomplete: str) -> list[str]:
    """For a shell's completion: the checks of every op; properties are known only to the specs."""
    from trifold.verification.checks import CHECKS
    from trifold.verification.report import BUILD

    return [name for name in (BUILD, *(check.name for check in CHECKS)) if name.startswith(incomplete)]


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


@app.command("list")
def list_ops(workspace: WorkspaceOption = None) -> None:
    """List the ops of the workspace, and the state of each."""
    from trifold.verification.stages import stages

    found = _workspace(workspace)
    table = tables.plain("op", "files", "verified", "certificate")
    for stage in stages(found):
        table.add_row(stage.op, stage.files, stage.verified, stage.certificate)
    Console().print(table if table.row_count else f"{found.root} has no op yet")


@app.command()
def verify(
    ops: Annotated[
        list[str] | None,
        typer.Argument(
            help="Names of ops, as trifold list shows them; default: all.",
            show_default=False,
            autocompletion=completion.op_names,
        ),
    ] = None,
    workspace: WorkspaceOption = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write the report to this file; - is standard output.")
    ] = None,
    implementation: Annotated[
        list[str] | None,
        typer.Option(help="prototype or port; default: both.", autocompletion=completion.implementations),
    ] = None,
    device: Annotated[
        list[str] | None,
        typer.Option(
            help="cpu or cuda; default: both, as far as the machine has them.", autocompletion=completion.devices
        ),
    ] = None,
    check: Annotated[
        list[str] | None,
        typer.Option(
            help="Run this check, a row of the matrix, such as values; repeat the option for several; default: all.",
            autocompletion=_checks,
        ),
    ] = None,
    examples: Annotated[
        int | None,
        typer.Option(
            min=1,
            help=f"How many calls each check draws; default: {IN_SIMULATOR} in the simulator, "
            f"{COMPILED} where kernels are compiled.",
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(min=0, help="The seed from which calls are drawn; another one draws other calls."),
    ] = None,
    timeout: Annotated[float, typer.Option(min=0.1, help="The time limit for one case, in seconds.")] = 120.0,
    coverage: Annotated[
        bool, typer.Option("--coverage", help="Show the lines and branches that no input reaches on the CPU.")
    ] = False,
) -> None:
    """Check prototype and port against the reference, on each device, and show the matrix of all checks.

    A failure is shown with its cause and a program that reproduces it.

    Exit status 0: all that was requested has passed; 1: a check failed; 2: a part of it could not run. Ctrl-C, and
    SIGTERM, end the run: what was checked until then is shown and written, and the status is 130.
    """
    from trifold.verification.matrix import render
    from trifold.verification.progress import shown
    from trifold.verification.verify import Interrupted
    from trifold.verification.verify import verify as run

    found = _workspace(workspace)
    implementations, devices, checks = implementation or ("prototype", "port"), device or ("cpu", "cuda"), check or ()
    if json_file is not None and str(json_file) != "-":
        json_file.parent.mkdir(parents=True, exist_ok=True)  # before the run, which takes minutes
    console = Console(stderr=str(json_file) == "-")
    interrupted = False
    with shown(console) as watch, _terminated_like_interrupted():
        try:
            report = run(
                *(ops or ()),
                workspace=found,
                implementations=implementations,
                devices=devices,
                checks=checks,
                examples=examples,
                seed=seed,
                timeout=timeout,
                coverage=coverage,
                watch=watch,
            )
        except Interrupted as early:
            report, interrupted = early.report, True
    console.print(render(report), crop=False)
    text = json.dumps(report.to_json(), indent=2)
    if str(json_file) == "-":
        print(text)
    elif json_file is not None:
        json_file.write_text(text + "\n", encoding="utf-8")
    if interrupted:
        raise typer.Exit(_INTERRUPTED)
    asked = report.passed(implementations, devices, checks)
    raise typer.Exit({"verified": 0, "failed": 1, "incomplete": 0 if asked else 2}[report.verdict])


_INTERRUPTED = 128 + signal.SIGINT


@contextmanager
def _terminated_like_interrupted() -> Iterator[None]:
    """SIGTERM is a KeyboardInterrupt here, so that a time limit loses nothing."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


app.command()(bench)
app.command()(debug)
app.command()(draft)
app.command()(graduate)
app.command()(new)
app.command(cls=ProgramOrOps)(sanitize)


@app.command()
def doctor(json_output: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Report what this machine can run, and the commands that install what it lacks."""
    from trifold.machine.examine import examine
    from trifold.machine.render import render as render_diagnosis

    diagnosis = examine()
    if json_output:
        print(json.dumps(diagnosis.to_json(), indent=2))
    else:
        Console().print(render_diagnosis(diagnosis))


@app.command("compile-commands")
def compile_commands(
    device: Annotated[
        DeviceOption,
        typer.Option(help="Parse the C++ as built for the CPU, with all code active; or for CUDA, with its toolkit."),
    ] = DeviceOption.cpu,
    workspace: WorkspaceOption = None,
) -> None:
    """Write compile_commands.json, with which clangd, VS Code and CLion parse the C++ of the workspace.

    It names folders of this machine: run it again where the environment or the clone moved, and do not commit it.
    """
    from trifold.build import compile_commands as database

    found = _workspace(workspace)
    print(f"{found.root / database.NAME}: {database.write(found, device.value)} files, as built for {device.value}")


@app.command()
def clean(
    older_than: Annotated[
        float | None, typer.Option(metavar="DAYS", min=0.0, help="Only builds that have not been used for this long.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Remove nothing; print what would be removed.")] = False,
) -> None:
    """Remove compiled ports from the cache, except those that another process is building."""
    from trifold.build import cache, cleaning

    done = cleaning.clean(older_than_days=older_than, dry_run=dry_run)
    for name in done.removed if dry_run else ():
        print(name)
    for name in done.held:
        print(f"under way, and left alone: {name}")
    verb = "would be removed" if dry_run else "removed"
    builds = f"{len(done.removed)} build{'' if len(done.removed) == 1 else 's'}"
    print(f"{builds} {verb} from {cache.cache_folder()}: {done.size / 2**20:.1f} MiB")


def _in_paragraphs(docstring: str) -> str:
    """A docstring's paragraphs, each on one line, which a terminal of any width can break."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in inspect.cleandoc(docstring).split("\n\n"))


for _command in app.registered_commands:
    assert _command.callback is not None and _command.callback.__doc__ is not None
    _command.help = _in_paragraphs(_command.callback.__doc__)


def main() -> None:
    """Run the command line."""
    try:
        app()
    except TrifoldError as error:
        print(f"trifold: {error}", file=sys.stderr)
        sys.exit(2)
    except (ValueError, OSError) as error:
        print(f"trifold: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
