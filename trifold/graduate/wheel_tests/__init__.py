"""The tests of a graduated package, on the installed package itself: ``python -m <package>.tests``.

They need torch and Python's standard library. If there is a GPU and the package has kernels for it, each test runs on
both devices. Inputs and exact results were recorded from the verified reference when the package was made.
"""
