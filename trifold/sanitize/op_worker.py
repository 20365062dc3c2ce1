"""Runs an op's samples on the GPU, forward and backward, for compute-sanitizer to watch.

``python -m trifold.sanitize.op_worker OP WORKSPACE``; the port was built before.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import torch

from trifold import own_process
from trifold.debug.sample import NamedCall, named_calls, run
from trifold.errors import TrifoldError
from trifold.implementation import load_port
from trifold.spec import Call, Limits, TensorCase
from trifold.spec.load import load_spec
from trifold.workspace import Workspace


def main(op: str, workspace: Path) -> None:
    """Make every call of the op that is small enough; an exception ends the process."""
    warnings.simplefilter("ignore")
    files = Workspace.at(workspace).op(op)
    spec = load_spec(files)
    implementation = load_port(files)
    implementation.kernels("cuda")
    smooth = [NamedCall(f"smooth {number}", call) for number, call in enumerate(spec.smooth, 1)]
    for named in (*named_calls(spec), *smooth):
        if _elements(named.call) <= Limits().elements:
            print(named, flush=True)
            run(implementation.function, named.call, backward=True, device="cuda")
            torch.cuda.synchronize()


def _elements(call: Call) -> int:
    cases = [value for value in (*call.args, *call.kwargs.values()) if isinstance(value, TensorCase)]
    return max((torch.Size(case.shape).numel() for case in cases), default=0)


if __name__ == "__main__":
    own_process.import_from_here()
    try:
        main(sys.argv[1], Path(sys.argv[2]))
    except TrifoldError as error:
        sys.exit(f"trifold: {error}")
