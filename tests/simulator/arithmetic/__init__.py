"""Generated kernels and a GPU's results for them, which the simulator must reproduce.

``cases`` writes kernels, ``programs`` those that hypothesis draws, ``on_gpu`` runs them with numba-cuda and records
what came out in ``h200.npz``, which needs no GPU to be checked against.
"""
