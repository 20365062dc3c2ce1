"""Kernels as native code: ``simulator.options(compiled=True)``, ``python -m trifold.simulator --compiled``.

A launch drafts its kernel in C++ (:mod:`trifold.draft`) for the types of its arguments, builds that for the CPU, and
runs it instead of the kernel, with the interpreter's results and findings. Drafts and builds are cached by text and
types. A kernel that cannot be drafted runs in the interpreter, and at its end the process reports which ones and why.
"""

from trifold.simulator.compiled.fallbacks import interpreted

__all__ = ["interpreted"]
