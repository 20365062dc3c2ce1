"""These tests run prototypes next to their twins: the simulator is switched on before one of them imports numba."""

from trifold import simulator

simulator.install()
