"""Runs ``trifold debug --port`` again and again.

It reads [[workspace, arguments, lines for gdb], ...] and writes [[status, output], ...]. gdb reads and writes this
process's own file descriptors.
"""

import json
import os
import sys
import tempfile

from trifold import cli


def command(workspace: str, arguments: list[str], lines: list[str]) -> tuple[int, str]:
    """Return the output of ``trifold debug`` and gdb, on both streams, when gdb's lines come from a file."""
    sys.argv = ["trifold", "debug", "--port", *arguments]
    os.chdir(workspace)
    status = 0
    with tempfile.TemporaryFile("w+") as given, tempfile.TemporaryFile("w+") as printed:
        given.writelines(f"{line}\n" for line in lines)
        given.flush()
        os.lseek(given.fileno(), 0, os.SEEK_SET)
        os.dup2(given.fileno(), 0)
        os.dup2(printed.fileno(), 1)
        os.dup2(printed.fileno(), 2)
        try:
            cli.main()
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else 1
        sys.stdout.flush()
        sys.stderr.flush()
        printed.seek(0)
        return status, printed.read()


if __name__ == "__main__":
    cases = json.load(sys.stdin)
    results = os.dup(1)
    done = [command(*case) for case in cases]
    with open(results, "w", encoding="utf-8") as stream:
        json.dump(done, stream)
