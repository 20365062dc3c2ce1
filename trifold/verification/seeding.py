"""Sets the state of torch's random numbers before a call."""

from __future__ import annotations

import torch


def seed(number: int) -> None:
    """``torch.manual_seed`` for the CPU and all GPUs.

    torch's own records each call, with a formatted traceback, until CUDA is used: without a GPU, that takes longer than
    the call of a small op.
    """
    torch.default_generator.manual_seed(number)
    if torch.cuda.is_available():
        torch.cuda.manual_seed_all(number)
