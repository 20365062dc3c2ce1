"""Stands in for numba-cuda's module of this name, which would put numba-cuda in the place of ``numba.cuda``.

Python imports it at start-up from numba-cuda's .pth file; with this folder first in PYTHONPATH it finds this one
instead, so that Numba's built-in target runs in an environment that has both, in child processes too.
"""
