"""CUB's device functions as competitors: ``device_functions/*.cu``, built by nvcc with the CUB of its toolkit.

Read from CUB 3.0.1, of CUDA 13.0. Each has the op's own arguments:

==============================  ======================  ============================================================
DeviceScan::InclusiveSum        x                       along the last dimension; InclusiveSumByKey of several rows
DeviceHistogram::HistogramEven  x, bins, low, high
DeviceSegmentedReduce::ArgMax   x                       a segment for each row
==============================  ======================  ============================================================

Like a user's code, each call queries the size of the temporary storage and allocates it from torch's caching allocator.
Offsets are compiled in 32 bits, CUB's fastest: ``x`` has fewer than 2³¹ elements. There is no gradient.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from trifold.bench.gradients import split, tensors
from trifold.bench.native import native
from trifold.bench.peers import PeerAbsent
from trifold.build import toolchain
from trifold.errors import ToolchainError
from trifold.spec.benchmark import Arguments, Benchmark
from trifold.spec.case import DTYPES

_SOURCES = Path(__file__).with_name("device_functions")
_LEAST_TOLERANCE = 1e-4  # relative to the largest number; a float32 sum of 2²⁸ is off by a tenth of that


@dataclass(frozen=True)
class DeviceFunction:
    """One of CUB's device functions.

    Attributes:
        source: the file in ``device_functions/``.
        schema: of the registered function.
        note: a remark for readers of its figures.
    """

    source: str
    schema: str
    note: str = ""

    def load(self) -> Callable[..., Any]:
        """The function, built on first use; if that fails, one that raises the reason."""
        return native(_SOURCES / self.source, self.schema)


_FUNCTIONS = {
    "DeviceScan::InclusiveSum": DeviceFunction("inclusive_sum.cu", "inclusive_sum(Tensor x) -> Tensor"),
    "DeviceHistogram::HistogramEven": DeviceFunction(
        "histogram_even.cu",
        "histogram_even(Tensor x, int bins, float low, float high) -> Tensor",
        "its counts are int32, and its last bin is open on the right",
    ),
    "DeviceSegmentedReduce::ArgMax": DeviceFunction("arg_max.cu", "arg_max(Tensor x) -> (Tensor, Tensor)"),
}


def function_of(benchmark: Benchmark) -> DeviceFunction:
    """The device function that competes with the op of ``benchmark``.

    Raises:
        PeerAbsent: the benchmark states none, or one that is not available here, or measures a gradient; or there is no
            nvcc, or none with CUB.
    """
    if benchmark.cub is None:
        raise PeerAbsent("the benchmark states no function of CUB")
    if benchmark.backward or benchmark.training:
        raise PeerAbsent("CUB's functions have no gradient")
    found = _FUNCTIONS.get(benchmark.cub.function)
    if found is None:
        raise PeerAbsent(f"{benchmark.cub.function} of CUB is not compiled here", f"state {', '.join(_FUNCTIONS)}")
    if missing := absent():
        raise PeerAbsent(missing)
    return found


def absent() -> str:
    """Why CUB cannot be compiled here, with a remedy; empty if it can."""
    try:
        home = toolchain.find_nvcc().home
    except ToolchainError as error:
        return f"{error.problem}: {error.remedy}"
    return "" if _header(home) else f"the CUDA toolkit in {home} has no CUB: {toolchain.INSTALL_CUDA}"


def version() -> str | None:
    """The version of the CUB in nvcc's toolkit, such as "3.0.1"; None if there is none."""
    try:
        header = _header(toolchain.find_nvcc().home)
    except ToolchainError:
        return None
    found = header and re.search(r"define CUB_VERSION (\d+)", header.read_text(encoding="utf-8"))
    if not found:
        return None
    major, rest = divmod(int(found[1]), 100_000)
    return f"{major}.{rest // 100}.{rest % 100}"


def _header(home: Path) -> Path | None:
    candidates = (home / "include" / folder / "cub" / "version.cuh" for folder in ("cccl", ""))  # of CUDA 13, and 12
    return next((path for path in candidates if path.is_file()), None)


def refusal(arguments: Arguments, dtypes: Sequence[torch.dtype] = DTYPES) -> str:
    """Why a function does not accept these arguments; empty if it does.

    Args:
        dtypes: of tensors for which its results are those of the op.
    """
    args, kwargs = split(arguments)
    x = args[0] if args else kwargs.get("x")
    if not isinstance(x, Tensor):
        return "CUB takes a tensor x as the first argument"
    if x.dtype not in DTYPES:
        return f"CUB is compiled for float64, float32, float16 and bfloat16 here, not for {x.dtype}".replace(
            "torch.", ""
        )
    if x.dtype not in dtypes:
        return f"CUB's results in {x.dtype} are not those of the op".replace("torch.", "")
    if not x.is_contiguous():
        return "CUB is called with contiguous tensors, and x is not contiguous"
    if not 0 < x.numel() < 2**31:
        return f"CUB is compiled for 1 to 2^31 - 1 elements here, and x has {x.numel():,}"
    return ""


def require_agreement(function: Callable[..., Any], benchmark: Benchmark, arguments: Arguments) -> None:
    """Call ``function`` once and compare its results: as the benchmark states, else with eager PyTorch in float64.

    Integers must be equal; other numbers may differ by a round-off of their dtype, relative to the largest number, or
    by 1e-4 of that.

    Raises:
        ValueError: they differ.
    """
    args, kwargs = split(arguments)
    result = function(*args, **kwargs)
    agrees = benchmark.cub.agrees if benchmark.cub is not None else None
    if agrees is not None:
        if not agrees(result, *args, **kwargs):
            raise ValueError("its results are not those of the op")
        return
    exact = benchmark.eager(*map(_wide, args), **{name: _wide(value) for name, value in kwargs.items()})
    results, expected = tensors(result), tensors(exact)
    if len(results) != len(expected):
        raise ValueError(f"it returns {len(results)} tensors, eager {len(expected)}")
    for position, (got, want) in enumerate(zip(results, expected, strict=True)):
        if got.shape != want.shape:
            raise ValueError(f"its result {position} has shape {tuple(got.shape)}, eager's {tuple(want.shape)}")
        if not got.is_floating_point():
            if not torch.equal(got.double(), want.double()):
                raise ValueError(f"its result {position} is not that of eager PyTorch")
            continue
        off = float((got.double() - want).abs().max() / want.abs().max().clamp(min=torch.finfo(got.dtype).tiny))
        if not off <= max(torch.finfo(got.dtype).eps, _LEAST_TOLERANCE):
            raise ValueError(f"its result {position} is off by {off:.2g} of the largest number of eager PyTorch")


def _wide(value: Any) -> Any:
    return value.double() if isinstance(value, Tensor) and value.is_floating_point() else value
