"""Settings and random states of the process, which belong to the application: an op neither relies on them nor changes
them."""

from __future__ import annotations

import contextlib
import gc
import os
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch


def settings() -> dict[str, str]:
    """The settings that a call of an op must not change, by name, in words."""
    values = {
        "torch.get_default_dtype()": torch.get_default_dtype(),
        "torch.get_default_device()": torch.get_default_device(),
        "torch.is_grad_enabled()": torch.is_grad_enabled(),
        "torch.get_num_threads()": torch.get_num_threads(),
        "torch.get_float32_matmul_precision()": torch.get_float32_matmul_precision(),
        "torch.are_deterministic_algorithms_enabled()": torch.are_deterministic_algorithms_enabled(),
        "torch.is_anomaly_enabled()": torch.is_anomaly_enabled(),
        "torch.backends.cudnn.allow_tf32": torch.backends.cudnn.allow_tf32,
        "torch.backends.cudnn.benchmark": torch.backends.cudnn.benchmark,
        "torch.set_flush_denormal()": (torch.tensor(2.0**-149) * 1 == 0).item(),
        "numpy.geterr()": np.geterr(),
        "gc.isenabled()": gc.isenabled(),
        "os.getcwd()": os.getcwd(),
    }
    return {name: str(value) for name, value in values.items()}


def other_random_states() -> dict[str, object]:
    """:func:`random_states` after a draw, so that they differ from a state that an op may have set."""
    random.random()
    np.random.random()
    return random_states()


def random_states() -> dict[str, object]:
    """The states of Python's and NumPy's random generators, by module."""
    name, keys, *position = np.random.get_state()
    return {"random": random.getstate(), "numpy.random": (name, tuple(keys), *position)}


@contextlib.contextmanager
def others(request: dict[str, Any]) -> Iterator[None]:
    """If the request says so, make torch's default dtype float64 within the context."""
    if not request.get("other defaults"):
        yield
        return
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(before)
