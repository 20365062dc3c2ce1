"""Whether a command exists, also one that is not run: bash and trifold's command line can read it."""

from __future__ import annotations

import shlex
import subprocess

import typer.main

from tests.docs.blocks import Block, PageError
from trifold.cli import app


def require_real_commands(block: Block) -> None:
    """Raise ``PageError`` for what is no shell, and for a command or option that trifold does not have."""
    parsed = subprocess.run(["bash", "-n", "-c", block.text], capture_output=True, text=True, check=False)
    if parsed.returncode != 0:
        raise PageError(str(block), parsed.stderr)
    for line in block.text.replace("\\\n", " ").splitlines():
        for command in line.split("&&"):
            words = shlex.split(command, comments=True)
            if words[:1] == ["trifold"]:
                _require_options(block, *words[1:])


def _require_options(block: Block, name: str, *arguments: str) -> None:
    command = typer.main.get_group(app).commands.get(name)
    if command is None:
        raise PageError(str(block), f"trifold has no command {name}")
    known = {option for parameter in command.params for option in parameter.opts}
    if unknown := {word for word in arguments if word.startswith("--")} - known:
        raise PageError(str(block), f"trifold {name} has no option {', '.join(sorted(unknown))}")
