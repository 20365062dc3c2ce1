"""These tests run kernels in the simulator: it is switched on before one of them imports numba."""

import pytest
import torch

from trifold import simulator

simulator.install()


@pytest.fixture
def drawn() -> torch.Generator:
    return torch.Generator().manual_seed(5)
