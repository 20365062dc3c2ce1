"""Runs pdb sessions in the simulator: reads {name: commands} from standard input, writes {name: transcript}.

One process for all of them: numba takes a second to import.
"""

import bdb
import contextlib
import io
import json
import pdb
import re
import sys
from pathlib import Path

import trifold.simulator

trifold.simulator.install()

from tests.debug.programs import line_of, rotate  # noqa: E402  numba is imported in its simulator
from trifold.simulator.debugger import KernelDebugger  # noqa: E402


def session(debugger_type: type[pdb.Pdb], commands: list[str]) -> str:
    """Return pdb's output. The session ends after the last command; a launch that still runs is abandoned."""
    output = io.StringIO()
    text = "".join(f"{with_lines(command)}\n" for command in commands)
    debugger = debugger_type(stdin=io.StringIO(text), stdout=output, nosigint=True, readrc=False)
    with contextlib.suppress(bdb.BdbQuit):
        debugger.runcall(rotate.main)
    debugger.clear_all_breaks()
    return output.getvalue()


def with_lines(command: str) -> str:
    """``@text@`` in a command is replaced by the number of the program's line that contains ``text``."""
    return re.sub("@(.*)@", lambda found: str(line_of(found[1], Path(rotate.__file__))), command)


if __name__ == "__main__":
    debuggers = {"pdb": pdb.Pdb, "trifold": KernelDebugger}
    sessions = json.load(sys.stdin)
    json.dump(
        {name: session(debuggers[name.partition(":")[0]], wanted) for name, wanted in sessions.items()}, sys.stdout
    )
