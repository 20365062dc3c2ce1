"""Which arguments of an op are known to be on one device. A launch needs all of its tensors on one."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Any

from trifold.draft import host_values as v


class OneDevice:
    """The groups of arguments, by name, that are known to be on one device."""

    def __init__(self) -> None:
        self._groups: list[set[str]] = []

    def compared(self, *tensors: v.Tensor) -> None:
        """The function itself compares the devices of these tensors."""
        self._join({name for tensor in tensors for name in v.devices_in(tensor.memory)})

    def unknown(
        self, arguments: Mapping[str, Any], launched: Iterable[v.Tensor], key: v.Tensor | None, *, keep: bool
    ) -> list[tuple[str, str]]:
        """The pairs of arguments whose devices must be compared before a launch.

        Args:
            arguments: the op's, by name.
            launched: the tensors that the kernel takes.
            key: the first of each pair, if the kernel takes it.
            keep: whether every later statement is only reached after these comparisons.
        """
        names = list(dict.fromkeys(name for tensor in launched for name in v.devices_in(tensor.memory)))
        given = [name for name in names if arguments[name].present]  # the others may be None
        if not given:
            return [pair for pair in itertools.combinations(names, 2) if not self._are_known(*pair)]
        first = next((name for name in given if arguments[name] is key), given[0])
        others = [name for name in names if not self._are_known(first, name)]
        if keep:
            self._join(set(names))
        return [(first, name) for name in others if name != first]

    def _are_known(self, *names: str) -> bool:
        return any(group.issuperset(names) for group in self._groups)

    def _join(self, names: set[str]) -> None:
        joined = names.union(*(group for group in self._groups if group & names))
        self._groups = [*(group for group in self._groups if not group & names), joined]
