"""All pairs, and the classes of faults without one.

The numbers are those of a list of 54 faults with clusters, barriers in shared memory and asynchronous copies, each from
a public report; 0: a mistake that is not in the list.
"""

from __future__ import annotations

from tests.cpu.catalogue.asynchronous import pairs_of_barriers, pairs_of_clusters, pairs_of_copies
from tests.cpu.catalogue.asynchronous.pair import Pair

CLASSES = range(1, 55)

PAIRS: tuple[Pair, ...] = (
    *pairs_of_copies.PROXIES,
    *pairs_of_copies.GROUPS,
    *pairs_of_copies.COUNTED,
    *pairs_of_copies.FORMS,
    *pairs_of_barriers.COUNTS,
    *pairs_of_barriers.STATES,
    *pairs_of_barriers.PHASES,
    *pairs_of_barriers.SCOPES,
    *pairs_of_barriers.FORMS,
    *pairs_of_clusters.CLUSTERS,
    *pairs_of_clusters.NAMED_BARRIERS,
)

_WGMMA = "wgmma, which is refused at its line on the CPU"
_TCGEN05 = "tcgen05, which is refused at its line on the CPU"
_TENSOR_MAP = "tensor maps, which a pair has not: programs/tensors.cu has right and wrong ones"
_CHANGED_MAP = "tensor maps that a kernel changes, of which the CPU has none"
_DEPENDENT = "dependent launches, which a raw kernel does not start: programs/dependent.cu has right and wrong ones"

#: Why a class has no pair.
WITHOUT_PAIR = {
    3: _WGMMA,
    29: _WGMMA,
    30: _WGMMA,
    31: _WGMMA,
    41: _TCGEN05,
    43: _TCGEN05,
    44: _DEPENDENT,
    45: _DEPENDENT,
    46: "a load that a compiler moves: no line of a kernel is wrong",
    47: _CHANGED_MAP,
    48: _CHANGED_MAP,
    49: _TENSOR_MAP,
}
