"""``trifold debug --port --cuda`` on a GPU."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

GALLERY = Path(__file__).parents[2]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here")
def test_cuda_gdb_stops_in_one_cuda_thread_on_the_gpu() -> None:
    commands = ("print threadIdx", "print n", "next", "next", "print i", "delete", "continue", "quit")
    done = subprocess.run(
        [sys.executable, "-m", "trifold", "debug", "sigmoid", "--port", "--cuda", "--thread", "3,0,0"],
        input="\n".join(commands),
        capture_output=True,
        text=True,
        timeout=300,
        cwd=GALLERY,
    )
    for expected in ("sigmoid_kernel<float>", "$1 = {x = 3, y = 0, z = 0}", "$2 = 37", "$3 = 3", "exited normally"):
        assert expected in done.stdout, done.stdout + done.stderr
