"""``python -m trifold.simulator [options] (script.py | -m module) [arguments]``: any program, its kernels simulated."""

from __future__ import annotations

import argparse
import importlib.machinery
import importlib.util
import io
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from trifold import places
from trifold.errors import TrifoldError
from trifold.simulator import report, settings
from trifold.simulator.report import Summary
from trifold.simulator.startup import activate


class ProgramError(TrifoldError):
    """The named program cannot be run."""


def main(arguments: list[str] | None = None) -> int:
    """Runs the program as ``python`` would; returns its exit status, 1 if an exception (such as a finding) escaped, 2
    if it could not be started."""
    given, program = _split(sys.argv[1:] if arguments is None else arguments)
    chosen = _parser().parse_args(given)
    if not program:
        _parser().error("name a script, or a module after -m")
    try:
        names = ("checks", "seed", "schedules", "suppressions", "compute_capability")
        changes = {name: getattr(chosen, name) for name in names}
        summary = Summary(None if chosen.report is None else Path(chosen.report))
        for name in ("lint", "keep_going", "compiled"):
            changes[name] = getattr(chosen, name) or None
        activate(**changes, report=summary.path)
        run = _module(program) if program[0] == "-m" else _script(program)
    except TrifoldError as error:
        print(f"trifold.simulator: {error}", file=sys.stderr)
        return 2
    status = _run(run)
    content = summary.end()
    found, _ = report.findings_of(content)
    mistakes = [finding for finding in found if finding.is_mistake]
    # A finding that ended the program has been printed; later ones did not occur.
    went_on = settings.current().keep_going or not mistakes
    shown = [finding for finding in found if finding.accepted or (went_on and finding.is_mistake)]
    for part in places.summary(shown, content["allowed"] if went_on else []):
        print(part, file=sys.stderr)
    if went_on and mistakes:
        print(places.total(mistakes), file=sys.stderr)
        status = status or 1
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m trifold.simulator",
        usage="%(prog)s [options] (script.py | -m module) [arguments]",
        description="Run a program; its Numba CUDA kernels run on the CPU, with checks.",
        allow_abbrev=False,
    )
    checks = ", ".join(settings.CHECKS)
    parser.add_argument("--checks", metavar="LIST", help=f"all (default), none, or some of {checks}")
    parser.add_argument("--seed", metavar="N", help="order of blocks and threads; 0, the default, is the natural one")
    parser.add_argument("--schedules", metavar="N", help="run each launch in N orders, from --seed on")
    parser.add_argument("--report", metavar="FILE", help="write all findings to this file, as JSON")
    parser.add_argument("--keep-going", action="store_true", help="continue after findings, and list them at the end")
    parser.add_argument("--suppressions", metavar="FILE", help="TOML: findings that are accepted, with reasons")
    parser.add_argument("--lint", action="store_true", help="also report what is not portable: negative indices, …")
    parser.add_argument("--compiled", action="store_true", help="run kernels as native code, where they can be drafted")
    parser.add_argument("--compute-capability", metavar="X.Y", help="the GPU whose limits apply; default: 9.0")
    return parser


def _split(arguments: list[str]) -> tuple[list[str], list[str]]:
    """trifold's options, and the program with its own."""
    with_value = {"--checks", "--seed", "--schedules", "--report", "--suppressions", "--compute-capability"}
    position = 0
    while position < len(arguments):
        argument = arguments[position]
        if argument == "-m" or not argument.startswith("-"):
            break
        position += 2 if argument in with_value else 1
    return arguments[:position], arguments[position:]


def _script(program: list[str]) -> Callable[[], None]:
    path = Path(program[0])
    try:
        with io.open_code(str(path.absolute())) as file:
            source = file.read()
    except OSError as error:
        raise ProgramError(f"{path} cannot be read: {error.strerror}", "name a Python script") from None
    sys.argv = program
    sys.path[0] = str(path.resolve().parent)

    def run() -> None:
        code = compile(source, str(path), "exec", dont_inherit=True)
        exec(code, _main_module(code, __file__=str(path), __cached__=None).__dict__)

    return run


def _module(program: list[str]) -> Callable[[], None]:
    if len(program) < 2:
        raise ProgramError("-m names no module", "give its name: -m package.module")
    name = program[1]
    sys.path[0] = os.getcwd()
    spec = _find(name)
    if spec is not None and spec.submodule_search_locations is not None:
        spec = _find(f"{name}.__main__")
    if spec is None or spec.loader is None or not hasattr(spec.loader, "get_code"):
        raise ProgramError(f"there is no module {name} that can be run", "name a module, or a package with __main__.py")
    found, loader = spec, spec.loader
    sys.argv = [found.origin or name, *program[2:]]

    def run() -> None:
        code = loader.get_code(found.name)
        names = {"__file__": found.origin, "__cached__": found.cached, "__loader__": loader, "__spec__": found}
        exec(code, _main_module(code, __package__=found.parent, **names).__dict__)

    return run


def _find(name: str) -> importlib.machinery.ModuleSpec | None:
    try:
        return importlib.util.find_spec(name)
    except (ImportError, ValueError) as error:
        raise ProgramError(f"{name} cannot be imported: {error}", "look at its import in python itself") from None


def _main_module(code: CodeType, **names: Any) -> ModuleType:
    module = ModuleType("__main__")
    vars(module).update(names)
    sys.modules["__main__"] = module
    return module


def _run(program: Callable[[], None]) -> int:
    """Runs it; an escaping exception is printed as python does, without trifold's frames. Returns its exit status."""
    try:
        program()
    except SystemExit as ended:
        if ended.code is None or isinstance(ended.code, int):
            return ended.code or 0
        print(ended.code, file=sys.stderr)
        return 1
    except Exception as error:
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
            trace = trace.tb_next
        sys.excepthook(type(error), error.with_traceback(trace), trace)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
