"""Other libraries' implementations of the ops: their entry points, by name, imported when they compete.

Read from Liger-Kernel 0.8.5 and QuACK 0.6.5. Each has the op's own arguments, contiguous:

=============  ================================
softmax        x
layer_norm     x, weight, bias (eps = 1e-5)
rms_norm       x, weight (eps = 1e-6)
swiglu         gate, up
cross_entropy  logits, target (mean reduction)
=============  ================================

A pass is timed through the library's own autograd function if a CUDA graph can capture it: the graph keeps the kernels
and drops the host's work, so a backward pass costs what its kernels cost, including those that cast or sum weight
gradients. Otherwise, if there is none or it waits for the GPU, the library's next lower entry point is timed, and the
table says so. QuACK refuses float64, softmax over columns that are not a multiple of 16 bytes, and a backward pass of
norms over more than 131,072 columns of float32; Liger's Triton kernels, except that of cross_entropy, more than 65,536
columns: such a case fails with their reason.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor

from trifold.errors import TrifoldError
from trifold.machine.packages import installed_version

Thunk = Callable[[], object]
Pass = Literal["plain", "forward", "backward", "forward + backward"]

_LAYER_NORM_EPS, _RMS_NORM_EPS, _IGNORED = 1e-5, 1e-6, -100


class PeerAbsent(TrifoldError):
    """A library is not installed, does not have the op, or cannot run here."""


@dataclass(frozen=True)
class Peer:
    """A library's implementation of an op.

    Attributes:
        function: of the op's arguments, differentiable unless ``own`` has the passes that need a gradient.
        own: for each pass that is not timed through ``function``, a function of the arguments that makes the call.
        overwrites: its kernels write into their arguments, so that it needs separate copies.
        note: a remark for readers of its figures.
    """

    function: Callable[..., Any]
    own: Mapping[Pass, Callable[..., Thunk]] = field(default_factory=dict)
    overwrites: bool = False
    note: str = ""


@dataclass(frozen=True)
class Package:
    """A library that competes: its name on the package index, and the version that was read."""

    module: str
    distribution: str
    version: str


PACKAGES = {
    "liger": Package("liger_kernel", "liger-kernel", "0.8.5"),
    "quack": Package("quack", "quack-kernels", "0.6.5"),
}


@functools.cache
def peer(package: str, op: str) -> Peer:
    """How ``package`` ("liger" or "quack") computes ``op``.

    Raises:
        PeerAbsent: it is not installed, cannot be imported, or does not have the op.
    """
    makers = _MAKERS[package]
    if op not in makers:
        known = ", ".join(makers)
        raise PeerAbsent(f"{package} has no {op} of its own", f"it competes in {known}; leave it out of --against")
    _load(package)
    return makers[op]()


def absent(packages: Collection[str]) -> list[str]:
    """A line for each of ``packages`` that cannot be used here: the reason and the remedy."""
    lines = []
    for package in PACKAGES:
        if package in packages:
            try:
                _load(package)
            except PeerAbsent as error:
                lines.append(f"{error.problem}: {error.remedy}")
    return lines


def _load(package: str) -> None:
    wanted = PACKAGES[package]
    try:
        importlib.import_module(wanted.module)
    except Exception as error:  # an installed library may fail in any way, because of a library that it uses
        absent = isinstance(error, ImportError) and error.name == wanted.module
        why = "is not installed" if absent else f"cannot be imported ({type(error).__name__}: {error})"
        raise PeerAbsent(f"{package} {why}", f"pip install {wanted.distribution}=={wanted.version}") from None


def has(package: str, op: str) -> bool:
    """Whether ``package`` has ``op``, installed or not."""
    return op in _MAKERS[package]


def versions() -> dict[str, str | None]:
    """The installed version of each library, for the results' environment."""
    return {name: installed_version(package.distribution) for name, package in PACKAGES.items()}


def _attribute(module: str, name: str) -> Callable[..., Any]:
    found: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return found


# ------------------------------------------------------------------------------------------------------------- Liger
# `liger_kernel.functional` selects an implementation for this GPU: its Triton kernels or, on Hopper with NVIDIA's
# CUTLASS DSL installed, its CuTe kernels for the sizes that they support: rows of a multiple of 16 bytes (any for
# swiglu), for softmax and rms_norm up to 32,768 columns and for layer_norm up to 8192 (for a half type without
# gradients, 32,768). Each process compiles them again.


def _liger_softmax() -> Peer:
    return Peer(_attribute("liger_kernel.functional", "softmax"))


def _liger_layer_norm() -> Peer:
    layer_norm = _attribute("liger_kernel.functional", "layer_norm")
    return Peer(functools.partial(layer_norm, eps=_LAYER_NORM_EPS))


def _liger_rms_norm() -> Peer:
    rms_norm = _attribute("liger_kernel.functional", "rms_norm")
    return Peer(functools.partial(rms_norm, eps=_RMS_NORM_EPS))


def _liger_swiglu() -> Peer:
    """Backward of the Triton kernel overwrites gate and up with its gradients."""
    return Peer(_attribute("liger_kernel.functional", "swiglu"), overwrites=True)


def _liger_cross_entropy() -> Peer:
    """One kernel computes the loss and overwrites the logits with the gradient.

    Its autograd function counts targets with ``.item()``, which a graph cannot capture: the kernel is timed as Liger's
    fused linear layer calls it, with the sum over rows.
    """
    importlib.import_module("liger_kernel.functional")  # the module with the implementations
    dispatch = _attribute("liger_kernel.backends", "dispatch")

    def call(logits: Tensor, target: Tensor, *, gradient: bool) -> Thunk:
        count = int((target != _IGNORED).sum())
        loss = functools.partial(
            dispatch,
            "cross_entropy_loss_and_grad",
            *(logits.detach(), target, None, _IGNORED),
            *(0.0, 0.0, "mean", None),  # square of the log-sum-exp, label smoothing, reduction, soft cap
            *(count, count, 0.0),  # number of targets that count, the sum of their weights and of all weights
            *(False, False, False, gradient),  # no further outputs
        )
        return lambda: torch.sum(loss()[0])

    def backward(*_: Any) -> Thunk:
        raise PeerAbsent("liger's cross_entropy has no backward pass", "its forward pass computes the gradient")

    return Peer(
        lambda logits, target: call(logits, target, gradient=False)(),
        own={
            "plain": functools.partial(call, gradient=False),
            "forward + backward": functools.partial(call, gradient=True),
            "backward": backward,
        },
        overwrites=True,
        note="its kernel: its autograd function waits for the GPU",
    )


# ------------------------------------------------------------------------------------------------------------- QuACK


def _quack_softmax() -> Peer:
    return Peer(_attribute("quack.softmax", "softmax"))


def _quack_rms_norm() -> Peer:
    return Peer(functools.partial(_attribute("quack.rmsnorm", "rmsnorm"), eps=_RMS_NORM_EPS))


def _quack_layer_norm() -> Peer:
    """It has no autograd function, and accepts weight and bias only in float32: they are cast before the clock
    starts."""
    layernorm_fwd = _attribute("quack.rmsnorm", "layernorm_fwd")
    layernorm_bwd = _attribute("quack.rmsnorm", "layernorm_bwd")

    def forward(x: Tensor, weight: Tensor, bias: Tensor) -> Callable[..., Any]:
        return functools.partial(layernorm_fwd, x, weight.float(), bias.float(), eps=_LAYER_NORM_EPS)

    def with_statistics(x: Tensor, weight: Tensor, bias: Tensor) -> Callable[[], tuple[Tensor, Tensor, Tensor]]:
        return functools.partial(forward(x, weight, bias), return_rstd=True, return_mean=True)

    def backward(x: Tensor, weight: Tensor, bias: Tensor) -> Thunk:
        y, rstd, mean = with_statistics(x, weight, bias)()
        return functools.partial(layernorm_bwd, x, weight.float(), torch.randn_like(y), rstd, mean, has_bias=True)

    def both(x: Tensor, weight: Tensor, bias: Tensor) -> Thunk:
        first, wide, grad = with_statistics(x, weight, bias), weight.float(), torch.randn_like(x)

        def call() -> object:
            _, rstd, mean = first()
            return layernorm_bwd(x, wide, grad, rstd, mean, has_bias=True)

        return call

    return Peer(
        lambda x, weight, bias: forward(x, weight, bias)(),
        own={"plain": forward, "forward": with_statistics, "backward": backward, "forward + backward": both},
        note="weight and bias in float32, the only dtype that it takes",
    )


def _quack_cross_entropy() -> Peer:
    """Loss and gradient together by the kernel that computes both and reads the logits once; its autograd reads
    twice."""
    cross_entropy_fwd = _attribute("quack.cross_entropy", "cross_entropy_fwd")

    def both(logits: Tensor, target: Tensor) -> Thunk:
        fused = functools.partial(cross_entropy_fwd, logits.detach(), target, return_dx=True)

        def call() -> object:
            loss, gradient = fused()
            return loss.sum(), gradient

        return call

    return Peer(_attribute("quack.cross_entropy", "cross_entropy"), own={"forward + backward": both})


_MAKERS: dict[str, dict[str, Callable[[], Peer]]] = {
    "liger": {
        "softmax": _liger_softmax,
        "layer_norm": _liger_layer_norm,
        "rms_norm": _liger_rms_norm,
        "swiglu": _liger_swiglu,
        "cross_entropy": _liger_cross_entropy,
    },
    "quack": {
        "softmax": _quack_softmax,
        "layer_norm": _quack_layer_norm,
        "rms_norm": _quack_rms_norm,
        "cross_entropy": _quack_cross_entropy,
    },
}
