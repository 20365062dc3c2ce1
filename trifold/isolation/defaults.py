"""Settings and random states of the process, which belong to the application: an op neither relies on them nor changes
them."""

from __future__ import annotations

import contextlib
import functools
import gc
import locale
import logging
import os
import random
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch

_VARIABLES = ("CUDA_", "CUBLAS_", "NCCL_", "OMP_", "MKL_", "PYTORCH_")  # of the names of others that an op may set


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
        "torch.is_inference_mode_enabled()": torch.is_inference_mode_enabled(),
        "torch.is_autocast_enabled()": [torch.is_autocast_enabled(device) for device in ("cpu", "cuda")],
        "torch.backends.cudnn.deterministic": torch.backends.cudnn.deterministic,
        "gc.isenabled()": gc.isenabled(),
        "os.getcwd()": os.getcwd(),
        "torch.set_printoptions()": vars(torch._tensor_str.PRINT_OPTS),
        "numpy.get_printoptions()": np.get_printoptions(),
        "logging.getLogger().level": logging.getLogger().level,
        "signal.getsignal(signal.SIGINT)": signal.getsignal(signal.SIGINT),
        "sys.excepthook": sys.excepthook,
        "sys.getswitchinterval()": sys.getswitchinterval(),
        "locale.setlocale(locale.LC_ALL)": locale.setlocale(locale.LC_ALL),
        "fegetround()": _rounding(),
    }
    variables = {f"os.environ[{name!r}]": os.environ[name] for name in os.environ if name.startswith(_VARIABLES)}
    return {name: str(value) for name, value in (values | variables).items()}


def _rounding() -> str:
    """The direction in which this thread rounds floating-point numbers, in words of <cfenv>."""
    one, little = 1.0, 2.0**-60
    up, down = one + little > one, -one - little < -one
    if up or down:
        return "FE_UPWARD" if up else "FE_DOWNWARD"
    return "FE_TOWARDZERO" if one - little < one else "FE_TONEAREST"


def other_random_states() -> dict[str, object]:
    """:func:`random_states` after a draw, so that they differ from a state that an op may have set."""
    random.random()
    np.random.random()
    return random_states()


def random_states() -> dict[str, object]:
    """The states of Python's and NumPy's random generators, by module."""
    name, keys, *position = np.random.get_state()
    return {"random": random.getstate(), "numpy.random": (name, tuple(keys), *position)}


def called(function: Callable[[], Any], others: Sequence[str], device: str = "") -> Any:
    """What ``function`` returns where an application has other settings, or calls from another thread.

    Args:
        others: names of these, of :class:`trifold.verification.remote_options.Options`.
        device: of the call, for autocast; empty for a backward pass, which is not run under it.
    """

    def run() -> Any:
        with contextlib.ExitStack() as stack:
            if "default dtype" in others:
                stack.enter_context(_restored(torch.get_default_dtype, torch.set_default_dtype, torch.float64))
            if "deterministic" in others:
                # Only warned of: torch has no other form of some of its own operators.
                change = functools.partial(torch.use_deterministic_algorithms, warn_only=True)
                stack.enter_context(_restored(torch.are_deterministic_algorithms_enabled, change, True))
            if "matmul precision" in others:
                current = torch.get_float32_matmul_precision
                stack.enter_context(_restored(current, torch.set_float32_matmul_precision, "medium"))
            if "autocast" in others and device:
                stack.enter_context(torch.autocast(device))
            return function()

    if "thread" not in others:
        return run()
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(run).result()


@contextlib.contextmanager
def _restored(current: Callable[[], Any], change: Callable[[Any], object], value: Any) -> Iterator[None]:
    before = current()
    change(value)
    try:
        yield
    finally:
        change(before)
