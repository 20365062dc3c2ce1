"""A spec's statements about an op's results and gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from torch import Tensor

from trifold.spec.choices import require_one_of

Order = Literal["given", "set", "multiset"]


@dataclass(frozen=True, kw_only=True)
class Result:
    """How one result is compared with the reference's.

    Floating and complex results must be within the spec's bound, integers, bools and float8 equal.

    Attributes:
        tie: returns whether elements that differ from the reference's are equally right: from (result, expected,
            arguments of the call...) to a bool tensor that broadcasts to the result. It may raise for an index out of
            range.
        reason: why there are ties.
        order: ``set`` or ``multiset``: the order along ``dim`` is free, and for a set also the multiplicity.
        dim: see ``order``.

    Raises:
        ValueError: ties without a reason, or an unknown order.
    """

    tie: Callable[..., Tensor] | None = None
    reason: str = ""
    order: Order = "given"
    dim: int = -1

    def __post_init__(self) -> None:
        if self.tie is not None and not self.reason:
            raise ValueError("Result(tie=...) needs a reason: why another result than the reference's is right")
        require_one_of("order", self.order, get_args(Order))


@dataclass(frozen=True, kw_only=True)
class Gradients:
    """The gradients of an op.

    Attributes:
        arguments: names of the reference's parameters; None: all floating tensors.
        results: positions of the results that have a gradient; None: all floating ones.
    """

    arguments: Sequence[str] | None = None
    results: Sequence[int] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.arguments, str):
            raise ValueError(f"Gradients(arguments=...) is a sequence of names: ({self.arguments!r},)")


NO_GRADIENTS = Gradients(arguments=())
