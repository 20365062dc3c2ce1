"""These tests run kernels in the simulator: it is switched on before one of them imports numba."""

from trifold import simulator

simulator.install()
