"""Kernels in C++, wrong and right: the twins of the simulator's catalogue, and some that only C++ can have."""
