"""All wrong implementations."""

from __future__ import annotations

from tests.wrong.contracts import CONTRACT, REGISTRATION, SPECS
from tests.wrong.entry import Wrong
from tests.wrong.findings import FINDINGS
from tests.wrong.gpu import BOUNDS_ON_GPU, GPU
from tests.wrong.gradients import GRADIENTS, SECOND_DERIVATIVES
from tests.wrong.kernels import BOUNDS, VALUES
from tests.wrong.launches import LAUNCHES
from tests.wrong.layouts import LAYOUT
from tests.wrong.modes import MODES
from tests.wrong.noise import NOISE
from tests.wrong.norms import NORMS
from tests.wrong.rare import RARE
from tests.wrong.softmax import CROSS_ENTROPY, SOFTMAX
from tests.wrong.specials import SPECIALS
from tests.wrong.surroundings import SURROUNDINGS
from tests.wrong.tricks import TRICKS

CATALOGUE: tuple[Wrong, ...] = (
    *BOUNDS,
    *VALUES,
    *LAYOUT,
    *GRADIENTS,
    *SECOND_DERIVATIVES,
    *REGISTRATION,
    *CONTRACT,
    *SPECS,
    *NOISE,
    *NORMS,
    *SOFTMAX,
    *CROSS_ENTROPY,
    *FINDINGS,
    *GPU,
    *BOUNDS_ON_GPU,
    *RARE,
    *SPECIALS,
    *MODES,
    *SURROUNDINGS,
    *LAUNCHES,
    *TRICKS,
)
