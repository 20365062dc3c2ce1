"""The program that gdb debugs: ``python -m trifold.debug.driver OP``; it loads the op's port and makes one call.

The port is the build for gdb, which may stop at the call of ``kill``, when the port is loaded.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from trifold import own_process
from trifold.debug import sample as samples
from trifold.implementation import load_port
from trifold.spec.load import load_spec
from trifold.workspace import Workspace


def main() -> None:
    parser = argparse.ArgumentParser(description="Make one call of an op's port, built for gdb.")
    parser.add_argument("op")
    parser.add_argument("--workspace", type=Path, help="default: the nearest one at or above the current folder")
    parser.add_argument("--sample", help="its name or number; default: the first")
    parser.add_argument("--forward", action="store_true", help="do not call the backward function")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    given = parser.parse_args()
    workspace = Workspace.find() if given.workspace is None else Workspace.at(given.workspace)
    files = workspace.op(given.op)
    implementation = load_port(files, "debug")
    implementation.kernels(given.device)
    chosen = samples.choose(samples.named_calls(load_spec(files)), given.sample, files.spec)
    os.kill(os.getpid(), 0)  # does nothing
    samples.run(implementation.function, chosen.call, backward=not given.forward, device=given.device)


if __name__ == "__main__":
    own_process.import_from_here()
    main()
