"""Kernels as native code, beside the interpreter."""
