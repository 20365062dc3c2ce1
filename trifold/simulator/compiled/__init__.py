"""Kernels as native code: ``simulator.options(compiled=True)``, ``python -m trifold.simulator --compiled``.

A launch drafts its kernel in C++ (:mod:`trifold.draft`) for the types of its arguments, builds that for the CPU, and
runs it in the kernel's place, with the interpreter's results and findings. Drafts and builds are kept, each for one
text and types. A kernel that is not drafted runs in the interpreter, and the process says at its end which and why.
"""

from trifold.simulator.compiled.fallbacks import interpreted

__all__ = ["interpreted"]
