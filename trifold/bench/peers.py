"""How other libraries compute the ops that they have too: their entry points, by name, imported when they compete.

Read from Liger-Kernel 0.8.5 and QuACK 0.6.5. Each takes the arguments that the op itself takes, contiguous:

=============  ================================
softmax        x
layer_norm     x, weight, bias (eps = 1e-5)
rms_norm       x, weight (eps = 1e-6)
swiglu         gate, up
cross_entropy  logits, target (mean reduction)
=============  ================================

A pass is timed through the library's own autograd function where a CUDA graph can hold that: the graph keeps the
kernels and drops what the host did, so a backward pass costs what its kernels cost, those that cast or sum weight
gradients included. Where there is none, or one that waits for the GPU, it is the library's next lower entry point, and
the table says so. QuACK refuses float64, softmax over columns that are not a multiple of 16 bytes, and a backward pass
of norms over more than 131,072 columns of float32; Liger's Triton kernels, except that of cross_entropy, more than
65,536 columns: such a case fails with their reason.
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
    """A library that is not installed, does not have the op, or cannot run here."""


@dataclass(frozen=True)
class Peer:
    """A library's way to compute an op.

    Attributes:
        function: of the op's arguments, differentiable unless ``own`` has the passes that need that.
        own: for a pass that is not timed through ``function`` a function of the arguments, which makes the call.
        overwrites: its kernels write into their arguments, so that it needs copies of its own.
        note: what a reader of its figures must know.
    """

    function: Callable[..., Any]
    own: Mapping[Pass, Callable[..., Thunk]] = field(default_factory=dict)
    overwrites: bool = False
    note: str = ""


@dataclass(frozen=True)
class Package:
    """A library that competes: what it is called on the package index, and in which version it was read."""

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
    """A line for each of ``packages`` that cannot be used here: why, and what to do."""
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
    except Exception as error:  # a library that is there may fail by a library of its own, in any way
        absent = isinstance(error, ImportError) and error.name == wanted.module
        why = "is not installed" if absent else f"cannot be imported ({type(error).__name__}: {error})"
        raise PeerAbsent(f"{package} {why}", f"pip install {wanted.distribution}=={wanted.version}") from None


def has(package: str, op: str) -> bool:
    """Whether ``package`` has ``op``, installed or not."""
    return op in _MAKERS[package]


def versions() -> dict[str, str | None]:
    """What is installed of each library, for the results' environment."""
    return {name: installed_version(package.distribution) for name, package in PACKAGES.items()}


def _attribute(module: str, name: str) -> Callable[..., Any]:
    found: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return found


# ------------------------------------------------------------------------------------------------------------- Liger
# `liger_kernel.functional` takes the implementation that it prefers on this GPU: its Triton kernels, or on Hopper and
# with NVIDIA's CUTLASS DSL installed its CuTe kernels where they take the size. Those are for rows of a multiple of 16
# bytes (swiglu's: for any), of softmax and rms_norm up to 32,768 columns and of layer_norm up to 8192 (of a half type,
# and without gradients, 32,768). Each process compiles them anew.


def _liger_softmax() -> Peer:
    return Peer(_attribute("liger_kernel.functional", "softmax"))


def _liger_layer_norm() -> Peer:
    layer_norm = _attribute("liger_kernel.functional", "layer_norm")
    return Peer(functools.partial(layer_norm, eps=_LAYER_NORM_EPS))


def _liger_rms_norm() -> Peer:
    rms_norm = _attribute("liger_kernel.functional", "rms_norm")
    return Peer(functools.partial(rms_norm, eps=_RMS_NORM_EPS))


def _liger_swiglu() -> Peer:
    """Backward of the Triton kernel leaves its gradients where gate and up were."""
    return Peer(_attribute("liger_kernel.functional", "swiglu"), overwrites=True)


def _liger_cross_entropy() -> Peer:
    """One kernel computes the loss and leaves the gradient where the logits were.

    Its autograd function counts targets with ``.item()``, which a graph cannot hold: what is timed is the kernel, as
    Liger's fused linear layer calls it, and the sum over rows.
    """
    importlib.import_module("liger_kernel.functional")  # which says where the implementations are
    dispatch = _attribute("liger_kernel.backends", "dispatch")

    def call(logits: Tensor, target: Tensor, *, gradient: bool) -> Thunk:
        count = int((target != _IGNORED).sum())
        loss = functools.partial(
            dispatch,
            "cross_entropy_loss_and_grad",
            *(logits.detach(), target, None, _IGNORED),
            *(0.0, 0.0, "mean", None),  # square of the log-sum-exp, label smoothing, reduction, soft cap
            *(count, count, 0.0),  # targets that count, the sum of their weights and of all weights
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
    """It has no autograd function, and takes weight and bias in float32 only: they are cast before the clock starts."""
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
    """Loss and gradient together by the kernel that computes both; it reads the logits once, its autograd twice."""
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
