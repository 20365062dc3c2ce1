"""Kernels as people write them, and generated ones, for what reads and compiles prototypes."""
