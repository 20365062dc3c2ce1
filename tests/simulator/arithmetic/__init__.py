"""What a GPU computed for generated kernels, and the kernels: the simulator must give the same.

``cases`` writes kernels, ``programs`` those that hypothesis draws, ``on_gpu`` runs them with numba-cuda and records
what came out in ``h200.npz``, which needs no GPU to be checked against.
"""
