"""``trifold debug --port --cuda`` on a GPU."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

GALLERY = Path(__file__).parents[2]


@pytest.mark.gpu
@pytest.mark.slow(seconds=120)
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here")
def test_cuda_gdb_stops_in_one_cuda_thread_on_the_gpu() -> None:
    commands = ("print threadIdx", "print share.vectors", "next", "delete", "continue", "quit")
    command = [sys.executable, "-m", "trifold", "debug", "sigmoid", "--port", "--cuda", "--thread", "3,0,0"]
    typed = "\n".join(commands)
    for _ in range(3):
        done = subprocess.run(command, input=typed, capture_output=True, text=True, timeout=300, cwd=GALLERY)
        if "sigmoid_vector_kernel<float>" in done.stdout:
            break  # else cuda-gdb saw no kernel: once so far, beside processes under compute-sanitizer
    # 37 numbers are 9 vectors and one more
    for expected in ("sigmoid_vector_kernel<float>", "$1 = {x = 3, y = 0, z = 0}", "$2 = 9", "exited normally"):
        assert expected in done.stdout, done.stdout + done.stderr
