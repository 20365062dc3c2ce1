"""VS Code: its launch.json, and debugpy by its protocol with the entries of that file."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.debug.adapter import DebugAdapter
from tests.debug.programs import ENVIRONMENT, FOLDER, ROOT, line_of
from trifold.debug.editor import launch_json

pytest.importorskip("debugpy", reason="the editor's side of debugging needs debugpy: pip install 'trifold[test]'")

PROGRAM = FOLDER / "rotate.py"


def test_this_workspace_has_the_file_that_new_workspaces_get() -> None:
    committed = (ROOT / ".vscode" / "launch.json").read_text(encoding="utf-8")
    assert committed == launch_json(), "cp trifold/debug/launch.json .vscode/launch.json"


def entry(beginning: str, **variables: str) -> dict[str, Any]:
    """An entry of launch.json with VS Code's ``${variables}`` replaced."""
    text = launch_json()
    for name, value in {"workspaceFolder": str(ROOT), **variables}.items():
        text = text.replace("${" + name.replace("_", ":") + "}", value)
    found: dict[str, Any] = next(e for e in json.loads(text)["configurations"] if e["name"].startswith(beginning))
    return found | {
        "console": "internalConsole",
        "python": [sys.executable],
        "env": ENVIRONMENT,
    }


class Editor(DebugAdapter):
    """The protocol as VS Code's user knows it."""

    def start(
        self, configuration: dict[str, Any], program: Path = PROGRAM, breakpoints: dict[str, str] | None = None
    ) -> None:
        """Launch, with breakpoints at the lines of ``program`` that hold a text, each with its condition."""
        self.request("initialize", adapterID="debugpy", pathFormat="path", linesStartAt1=True, columnsStartAt1=True)
        launched = self.send("launch", **configuration)
        self.event("initialized")
        wanted = [
            {"line": line_of(text, program), "condition": condition} for text, condition in (breakpoints or {}).items()
        ]
        self.request("setBreakpoints", source={"path": str(program)}, breakpoints=wanted)
        self.request("configurationDone")
        self.answer(launched)

    def stopped(self) -> str:
        """Wait for the next stop. The line's text, or "ended"."""
        event = self.event("stopped", "terminated")
        if event["event"] == "terminated":
            return "ended"
        self.thread = event["body"]["threadId"]
        self.frames = self.request("stackTrace", threadId=self.thread)["stackFrames"]
        source = Path(self.frames[0]["source"]["path"]).read_text(encoding="utf-8").splitlines()
        return source[int(self.frames[0]["line"]) - 1].strip()

    def go(self, command: str) -> str:
        """next, stepIn, stepOut or continue, and the stop to which it leads."""
        self.request(command, threadId=self.thread)
        return self.stopped()

    def evaluate(self, expression: str) -> str:
        body = self.request("evaluate", expression=expression, frameId=self.frames[0]["id"], context="repl")
        return str(body["result"])

    def variables(self) -> dict[str, str]:
        scopes = self.request("scopes", frameId=self.frames[0]["id"])["scopes"]
        local = next(scope for scope in scopes if scope["name"] == "Locals")["variablesReference"]
        found = self.request("variables", variablesReference=local)["variables"]
        return {variable["name"]: variable["value"] for variable in found}


@pytest.fixture
def editor() -> Iterator[Editor]:
    with Editor() as adapter:
        yield adapter


def test_the_open_file(editor: Editor) -> None:
    conditions = {"value = x[t]": "cuda.threadIdx.x == 3"}
    editor.start(entry("Simulator: the open file", file=str(PROGRAM)), breakpoints=conditions)
    assert editor.stopped() == "value = x[t]"
    assert [frame["name"] for frame in editor.frames] == ["rotate", "main", "<module>"]
    assert {frame["source"]["path"] for frame in editor.frames} == {str(PROGRAM)}

    shown = editor.variables()
    assert shown["t"] == "3"
    assert "[0., 1., 2., 3., 4., 5., 6., 7.]" in shown["x"]
    assert "shared" in shown and not [name for name in shown if name.startswith("__")]
    assert editor.evaluate("cuda.threadIdx.x") == "3"
    assert editor.evaluate("cuda.threadIdx") == "cuda.threadIdx(3, 0, 0)"

    assert editor.go("next") == "other = right_neighbour(shared, value)"
    assert editor.go("stepIn") == "t = cuda.threadIdx.x"
    assert editor.go("next") == "shared[t] = value"
    assert editor.go("next") == "cuda.syncthreads()"
    assert editor.go("next") == "other = shared[(t + 1) % THREADS]"
    assert editor.evaluate("float(shared[4]), t") == "(4.0, 3)"
    assert editor.go("stepOut") == "other = right_neighbour(shared, value)"
    assert editor.go("next") == "other = doubled(other)"
    assert editor.go("next") == "cuda.syncthreads()"
    assert editor.go("next") == "y[t] = other"
    assert editor.evaluate("cuda.threadIdx.x") == "3"
    assert editor.go("continue") == "ended"


def test_a_sample_of_an_op(editor: Editor) -> None:
    editor.start(entry("Simulator: a sample of an op", input_op="sigmoid"))
    assert editor.stopped() == "i = cuda.grid(1)"
    assert editor.frames[0]["name"] == "sigmoid_kernel"
    assert editor.evaluate("cuda.threadIdx.x, cuda.blockIdx.x") == "(0, 0)"
    assert editor.go("next") == "if i < n:"
    assert editor.go("continue") == "ended"


@pytest.mark.extended
def test_the_tests_in_the_open_file(editor: Editor) -> None:
    tests = FOLDER / "faulty.py"
    editor.start(entry("Simulator: the tests in", file=str(tests)), tests, {"following =": "cuda.threadIdx.x == 5"})
    assert editor.stopped() == "following = x[i + 1]"
    assert [frame["name"] for frame in editor.frames] == ["next_of", "shift", "test_shift"]
    assert editor.evaluate("i, cuda.threadIdx.x") == "(5, 5)"
    assert editor.go("continue") == "ended"
