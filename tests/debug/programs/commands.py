"""Runs ``trifold debug`` again and again: reads [[arguments, lines for pdb], ...], writes [[status, output], ...]."""

import contextlib
import io
import json
import sys

from trifold import cli


def command(arguments: list[str], lines: list[str]) -> tuple[int, str]:
    """Return the output of ``trifold debug``, on both streams, when pdb's lines come from a pipe."""
    output = io.StringIO()
    sys.argv = ["trifold", "debug", *arguments]
    sys.stdin = io.StringIO("".join(f"{line}\n" for line in lines))
    status = 0
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        try:
            cli.main()
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else 1
    return status, output.getvalue()


if __name__ == "__main__":
    json.dump([command(*wanted) for wanted in json.load(sys.stdin)], sys.stdout)
