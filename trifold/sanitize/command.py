"""``trifold sanitize``: compute-sanitizer's job on the CPU, or with --gpu its own, for a CUDA program or for ops."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from trifold import places
from trifold.errors import ArgumentError, BuildError
from trifold.findings import Finding

_OP_TIMEOUT_S = 120.0  # per case, as in trifold verify
_PROGRAMS = (".cu", ".cuh", ".cpp", ".cc", ".cxx")


class ProgramOrOps(TyperCommand):
    """Arguments after a program's name are the program's; options may also follow the ops."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        ctx.allow_interspersed_args = not any(Path(each).suffix in _PROGRAMS for each in args)
        return super().parse_args(ctx, args)


def sanitize(
    what: Annotated[
        list[str], typer.Argument(metavar="FILE.cu [ARGS]... | OP...", help="A program and its arguments, or ops.")
    ],
    gpu: Annotated[bool, typer.Option("--gpu", help="Run on the GPU, under compute-sanitizer's four tools.")] = False,
    schedules: Annotated[
        int | None,
        typer.Option(min=1, help="In how many orders of blocks and threads each launch of a program runs; default: 1."),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="The seed of the first of these orders; default: 0, the natural order.")
    ] = None,
    keep_going: Annotated[
        bool, typer.Option("--keep-going", help="Continue after a finding; at the end, list each place once.")
    ] = False,
    suppressions: Annotated[
        Path | None, typer.Option(help="A TOML file of findings that are accepted in a program, each with its reason.")
    ] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the report to this file.")] = None,
    timeout: Annotated[
        float | None,
        typer.Option(
            min=0.1, help="The time limit in seconds: for a program, by default none; for a case of an op, 120."
        ),
    ] = None,
    compute_capability: Annotated[
        str | None,
        typer.Option(
            help="The GPU for which a program is compiled, and whose limits apply to its launches: 9.0, 8.6, …"
        ),
    ] = None,
    std: Annotated[
        str | None, typer.Option("--std", help="A program's C++ standard, as nvcc names it; default: c++17.")
    ] = None,
    define: Annotated[
        list[str] | None, typer.Option("-D", help="Define a macro for the compiler: NAME or NAME=VALUE.")
    ] = None,
    include: Annotated[list[Path] | None, typer.Option("-I", help="Search this folder for headers, too.")] = None,
    workspace: Annotated[Path | None, typer.Option(help="The workspace of the ops; default: the nearest one.")] = None,
) -> None:
    """Run a CUDA program, or the ports of ops, on the CPU with all checks.

    A program reads the standard input and writes the standard output as usual, and its exit status is the command's,
    except: 1, a check found a mistake; 2, the program could not be built.

    With --gpu it runs four times, each time under another tool. Only the first run has the input and the output, and
    exit status 2 also means that a tool could not do its work.
    """
    options = [*(f"-D{each}" for each in define or ()), *(f"-I{each}" for each in include or ())]
    options += [f"-std={std}"] if std is not None else []
    if gpu:
        if any(given is not None for given in (schedules, seed, compute_capability, suppressions)):
            raise ArgumentError(
                "--schedules, --seed, --compute-capability and --suppressions are for the CPU; a GPU has its own order "
                "and limits",
                "leave them out, or leave out --gpu",
            )
        _sanitize_on_gpu(what, workspace, json_file, timeout, options, keep_going)
        return
    if Path(what[0]).suffix not in _PROGRAMS:
        given = {
            "--schedules": schedules,
            "--seed": seed,
            "--keep-going": keep_going or None,
            "--suppressions": suppressions,
            "--compute-capability": compute_capability,
            "--std": std,
            "-D": define,
            "-I": include,
        }
        _refuse([name for name, value in given.items() if value is not None])
        _sanitize_ops(what, workspace, json_file, timeout or _OP_TIMEOUT_S)
        return
    from trifold.sanitize.program import sanitize as run

    with _naming_late_options(what[0], what[1:]):
        report = run(
            Path(what[0]),
            what[1:],
            options=options,
            seed=seed or 0,
            schedules=schedules or 1,
            keep_going=keep_going,
            timeout=timeout,
            compute_capability=compute_capability,
            suppressions=suppressions,
            on_entry=_show_when_all_are_known if keep_going else _show,
        )
    shown = report.findings if keep_going else [finding for finding in report.findings if finding.accepted]
    allowed = [asdict(each) for each in report.allowed] if keep_going or not report.failed else []
    for part in places.summary(shown, allowed):
        print(part, file=sys.stderr)
    if report.failed:
        counts = f"{places.total(report.errors)}, {places.number_of(len(report.problems), 'problem')}"
        print(f"{what[0]}: {counts}", file=sys.stderr)
    _write(json_file, report.to_json())
    raise typer.Exit(report.exit_status)


@contextlib.contextmanager
def _naming_late_options(program: str, arguments: list[str]) -> Iterator[None]:
    """If the program does not compile, name the compiler's options among its own arguments."""
    try:
        yield
    except BuildError as error:
        late = [each for each in arguments if each.startswith(("-I", "-D", "--std"))]
        if not late:
            raise
        what = f"{', '.join(late)} after {program} belongs to the program's arguments: name it before {program}"
        raise BuildError(error.problem, "\n  ".join(filter(None, (what, error.remedy)))) from None


def _show(each: object) -> None:
    if isinstance(each, Finding) and each.accepted:
        return  # counted until the end
    text = f"{places.words(each)}\n" if isinstance(each, Finding) else str(each)
    print(text, file=sys.stderr, flush=True)


def _show_when_all_are_known(each: object) -> None:
    if not isinstance(each, Finding):
        _show(each)


def _refuse(options: list[str]) -> None:
    """An op runs as in ``trifold verify``: schedules and compiler flags cannot be set by options."""
    if options:
        raise ArgumentError(
            f"{', '.join(options)}: only for a program, and ops are named here",
            "leave it out, or name a file: trifold sanitize FILE.cu",
        )


def _sanitize_ops(ops: list[str], workspace: Path | None, json_file: Path | None, timeout: float) -> None:
    """The row ``findings`` of ``trifold verify``, for the ports."""
    from rich.console import Console

    from trifold.verification.matrix import failures
    from trifold.verification.verify import verify

    report = verify(
        *ops,
        workspace=workspace,
        implementations=("port",),
        devices=("cpu",),
        checks=("findings",),
        timeout=timeout,
    )
    console = Console()
    rows = [(op.op, row) for op in report.ops for row in op.rows]
    for op, row in rows:
        remark = f": {row.reason}" if row.reason else ""
        console.print(
            f"{op}: {row.outcome}, {places.number_of(row.cases, 'case')}{remark}", soft_wrap=True, highlight=False
        )
    console.print(*failures(report), sep="\n", crop=False)
    _write(json_file, report.to_json())
    outcomes = {row.outcome for _, row in rows}
    raise typer.Exit(1 if "failed" in outcomes else 2 if "not run" in outcomes else 0)


def _sanitize_on_gpu(
    what: list[str],
    workspace: Path | None,
    json_file: Path | None,
    timeout: float | None,
    options: list[str],
    keep_going: bool,
) -> None:
    from trifold.sanitize.on_gpu import sanitize_op, sanitize_program
    from trifold.workspace import Workspace

    if Path(what[0]).suffix in _PROGRAMS:
        program, arguments = Path(what[0]), what[1:]
        with _naming_late_options(what[0], arguments):
            report = sanitize_program(
                program, arguments, options=options, keep_going=keep_going, timeout=timeout, on_step=_print_on_stderr
            )
        reports = [report]
    else:
        found = Workspace.find() if workspace is None else Workspace.at(workspace)
        names = [found.op(name).name for name in what]
        reports = [sanitize_op(found, name, timeout or _OP_TIMEOUT_S * 4, _print_on_stderr) for name in names]
    for report in reports:
        for finding in report.findings:
            print(f"{finding}\n", file=sys.stderr)
        for problem in report.problems:
            print(f"problem: {problem}", file=sys.stderr)
        print(
            f"{report.subject}: {report.outcome}, {places.number_of(len(report.findings), 'finding')}", file=sys.stderr
        )
    outcomes = {report.outcome for report in reports}
    verdict = "failed" if "failed" in outcomes else "not run" if "not run" in outcomes else "clean"
    _write(json_file, {"verdict": verdict, "subjects": [report.to_json() for report in reports]})
    raise typer.Exit({"failed": 1, "not run": 2, "clean": 0}[verdict])


def _print_on_stderr(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _write(path: Path | None, content: object) -> None:
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
