"""Runs the blocks of one page, in order, in one folder and one namespace."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

from tests.docs.blocks import Block, PageError, hunks, missing_lines

_LIMIT = 300.0  # seconds of one block, on a machine that has other work

# The page's Python: a process that holds its namespace, and answers each block with what it printed.
_INTERPRETER = """
import contextlib, io, json, os, sys, traceback
namespace = {"__name__": "page"}
for line in sys.stdin:
    request = json.loads(line)
    os.chdir(request["folder"])
    printed, failure = io.StringIO(), ""
    with contextlib.redirect_stdout(printed):
        try:
            exec(compile("\\n" * request["line"] + request["text"], request["page"], "exec"), namespace)
        except BaseException:
            failure = traceback.format_exc()
    print(json.dumps([printed.getvalue(), failure]), file=sys.__stdout__, flush=True)
"""


class Session:
    """A page's folder, namespace and place.

    Args:
        blocks: of the page.
        folder: what its commands see; ``cd`` in a block counts for those after it.
    """

    def __init__(self, blocks: list[Block], folder: Path) -> None:
        self.blocks = blocks
        self.folder = folder
        self.done = 0
        self._python: subprocess.Popen[str] | None = None

    def run(self, block: Block) -> None:
        """Runs the blocks up to this one that did not run yet; raises ``PageError``."""
        last = self.blocks.index(block)
        while self.done <= last:
            self.done += 1
            self._run(self.blocks[self.done - 1])

    def close(self) -> None:
        """Ends the page's Python."""
        if self._python is not None and self._python.stdin is not None:
            self._python.stdin.close()
            self._python.wait(timeout=60)

    def _run(self, block: Block) -> None:
        if block.skipped or unavailable(block):
            return
        if path := block.marks.get("file"):
            (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / path).write_text(block.text, encoding="utf-8")
        elif block.writes:
            for hunk in hunks(block):
                file = self.folder / hunk.path
                file.write_text(hunk.apply(file.read_text(encoding="utf-8"), block), encoding="utf-8")
        elif block.language == "python":
            self._compare(block, self._execute(block))
        elif block.language == "sh":
            self._compare(block, self._command(block))

    def _compare(self, block: Block, output: str) -> None:
        if missing := missing_lines(block.printed, output):
            raise PageError(str(block), "not printed:\n" + "\n".join(missing) + f"\n\nbut this was:\n{output}")

    def _execute(self, block: Block) -> str:
        if self._python is None:
            self._python = subprocess.Popen(
                [sys.executable, "-c", _INTERPRETER],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env=environment(),
                cwd=self.folder,
            )
        assert self._python.stdin is not None
        assert self._python.stdout is not None
        request = {"text": block.text, "line": block.line, "page": block.page, "folder": str(self.folder)}
        self._python.stdin.write(json.dumps(request) + "\n")
        self._python.stdin.flush()
        answer = self._python.stdout.readline()
        printed, failure = json.loads(answer) if answer else ("", "the page's Python died")
        if failure:
            raise PageError(str(block), f"{printed}{failure}")
        return str(printed)

    def _command(self, block: Block) -> str:
        with tempfile.NamedTemporaryFile("r", encoding="utf-8") as place:
            script = f"trap 'pwd >{place.name}' EXIT\n{block.text}"
            done = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", script],
                input=block.typed,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                cwd=self.folder,
                env=environment(gpu="gpu" in block.marks),
                timeout=_LIMIT,
                check=False,
            )
            self.folder = Path(place.read().strip())
        if done.returncode != (wanted := int(block.marks.get("exit", "0"))):
            raise PageError(str(block), f"exit status {done.returncode}, not {wanted}:\n{done.stdout}")
        return done.stdout


def unavailable(block: Block) -> str:
    """Why this machine cannot run the block; "" where it can."""
    if "gpu" in block.marks and not torch.cuda.is_available():
        return "needs a GPU"
    tool = block.marks.get("needs", "")
    return f"needs {tool}" if tool and shutil.which(tool) is None else ""


def environment(*, gpu: bool = False) -> dict[str, str]:
    """A reader's environment: this Python's is activated, 120 columns, and no GPU unless one is requested."""
    scripts = str(Path(sys.executable).parent)
    path = scripts + os.pathsep + os.environ.get("PATH", "")
    hidden = {} if gpu else {"CUDA_VISIBLE_DEVICES": ""}
    return os.environ | {"PATH": path, "COLUMNS": "120", "NO_COLOR": "1", "TERM": "dumb"} | hidden
