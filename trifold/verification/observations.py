"""What an op's process observed during calls, apart from their results."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from trifold.findings import Finding


@dataclass(frozen=True)
class Addresses:
    """The memory of a call in the op's process, as pairs (address, bytes).

    Attributes:
        arguments: in order; for a backward pass, those of its call and then the upstream gradients.
        results: without results in the memory of arguments.
    """

    arguments: tuple[tuple[int, int], ...]
    results: tuple[tuple[int, int], ...]


@dataclass
class Observations:
    """What the op's process observed during some calls.

    Attributes:
        findings: of the engine, without those that ended a launch: warnings, lints and those that the user accepts.
        allowed: comments that allow findings of the kernels that ran, as fields of an Acceptance.
        damage: writes outside of tensors that the guard allocator found, in words.
        unguarded: whether a result was in memory that the guard does not watch.
        written: by the address of a result's storage in this process: for each byte, whether a kernel of the op wrote
            it last.
        copied: by the same address, what computed the numbers of a result that no kernel wrote.
        addresses: of the memory of each call and each backward pass.
    """

    findings: list[Finding] = field(default_factory=list)
    allowed: list[dict[str, Any]] = field(default_factory=list)
    damage: list[str] = field(default_factory=list)
    unguarded: bool = False
    written: dict[int, Tensor] = field(default_factory=dict)
    copied: dict[int, str] = field(default_factory=dict)
    addresses: list[Addresses] = field(default_factory=list)
