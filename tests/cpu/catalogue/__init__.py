"""Kernels in C++, wrong and right: twins of the kernels in the simulator's catalogue, and some that only C++ can
express."""
