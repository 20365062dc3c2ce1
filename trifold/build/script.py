"""Runs one of the scripts that call compilers, in a separate process."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, NoReturn

_forks = False


def fork_from_now_on() -> None:
    """From now on this process forks for each script: a fresh process would import torch again, 2 s of a build.

    For a process without threads that has imported torch, and has not used CUDA.
    """
    global _forks
    _forks = True


def run(command: Sequence[str], folder: Path, environment: Mapping[str, str], output: IO[bytes]) -> int:
    """Run the command; return its exit status as ``subprocess.Popen.wait`` does.

    Args:
        command: a program and its arguments; or this Python, ``-P``, a script and its arguments.
        folder: where it runs.
        environment: its complete environment.
        output: the file for its output and its errors.
    """
    python, *rest = command
    if _forks and python == sys.executable and rest[0] == "-P":
        return _run_in_fork(rest[1:], folder, environment, output)
    return subprocess.run(
        command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
    ).returncode


def _run_in_fork(arguments: Sequence[str], folder: Path, environment: Mapping[str, str], output: IO[bytes]) -> int:
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        end_with(lambda: _run_here(arguments, folder, environment, output))
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _run_here(arguments: Sequence[str], folder: Path, environment: Mapping[str, str], output: IO[bytes]) -> int:
    os.chdir(folder)
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(output.fileno(), 1)
    os.dup2(output.fileno(), 2)
    sys.stdin, sys.stdout, sys.stderr = (
        open(stream, mode, closefd=False)  # noqa: SIM115
        for stream, mode in enumerate("rww")
    )
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = list(arguments)
    try:
        runpy.run_path(arguments[0], run_name="__main__")
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        return end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    return 0


def end_with(last: Callable[[], int]) -> NoReturn:
    """Run a function in a forked process and exit with its result, or with 1 if it raises."""
    status = 1
    try:
        status = last()
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
