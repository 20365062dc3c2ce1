"""All faults in the code that only a GPU runs."""

from __future__ import annotations

from tests.wrong.block_faults import BLOCK_FAULTS
from tests.wrong.cluster_faults import CLUSTER_FAULTS
from tests.wrong.fault import Fault
from tests.wrong.phase_faults import PHASE_FAULTS
from tests.wrong.stream_faults import STREAM_FAULTS

FAULTS: tuple[Fault, ...] = (*CLUSTER_FAULTS, *STREAM_FAULTS, *PHASE_FAULTS, *BLOCK_FAULTS)
