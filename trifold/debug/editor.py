"""A workspace's files for VS Code."""

from __future__ import annotations

from importlib import resources


def launch_json() -> str:
    """``.vscode/launch.json``: the open file, a sample of an op, and the tests of the open file in the simulator;
    and a sample of an op in its port, with the C++ extension's debugger (gdb).

    The simulator's own code is excluded from the call stack and from steps: by "justMyCode" if trifold is an installed
    package, and by the rule for trifold wherever it is.
    """
    return resources.files("trifold.debug").joinpath("launch.json").read_text(encoding="utf-8")
