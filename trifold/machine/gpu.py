"""The GPUs: whether torch can use them, and their limits."""

from __future__ import annotations

from typing import Any

from trifold.machine.diagnosis import Part
from trifold.machine.packages import numbers


def gpu(answer: dict[str, Any]) -> Part:
    driver, gpus, cuda = answer.get("driver"), answer.get("gpus"), answer.get("cuda")
    if gpus:
        names = dict.fromkeys(map(_described, gpus))
        counted = [f"{sum(_described(gpu) == name for gpu in gpus)} × {name}" for name in names]
        return Part("GPU", "ok", f"{'; '.join(counted)}; the driver supports CUDA {driver}")
    if driver is None:
        return Part("GPU", "absent", "there is no CUDA driver on this machine")
    seen = f"the driver supports CUDA {driver}"
    if cuda is None:
        return Part("GPU", "fault", f"{seen}, but torch is a CPU build", "pip install --force-reinstall torch")
    if numbers(driver)[0] < numbers(cuda)[0]:
        return Part("GPU", "fault", f"{seen}, torch needs {cuda}", _torch_for(driver))
    return Part("GPU", "absent", f"{seen}, but torch sees no device; see nvidia-smi and CUDA_VISIBLE_DEVICES")


def _torch_for(driver: str) -> str:
    # CUDA 12.6 is the oldest for which torch 2.11 to 2.13 are published.
    return (
        f"update the NVIDIA driver (it supports CUDA {driver}), or: "
        "pip install --force-reinstall torch --index-url https://download.pytorch.org/whl/cu126"
    )


def _described(gpu: dict[str, Any]) -> str:
    """Its name, and its limits for a launch."""
    major, minor = gpu["capability"]
    shared = f", {gpu['shared_bytes'] // 1024} KiB of shared memory a block" if gpu["shared_bytes"] else ""
    return (
        f"{gpu['name']} (compute capability {major}.{minor}, {gpu['multiprocessors']} multiprocessors{shared}, "
        f"{gpu['bytes'] / 2**30:.0f} GiB)"
    )
