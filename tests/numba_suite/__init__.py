"""Numba's own simulator tests (``numba.cuda.tests``), run under trifold's simulator.

    python -m tests.numba_suite                 both suites: Numba's built-in target and numba-cuda's
    python -m tests.numba_suite --help

A test that passes under Numba's simulator must pass under ours, unless it is listed in faulty.toml with the fault of
Numba's that it asserts. What passes under Numba's simulator is recorded in baselines/ (``--record``), or measured in
the same run (``--stock``). Exit status: 0 clean, 1 some test lost, 2 could not run.
"""
