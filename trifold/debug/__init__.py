"""Debugging kernels in the simulator: stepping for pdb, ``trifold debug``, and what editors need."""
