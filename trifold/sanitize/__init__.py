"""``trifold sanitize``: a whole CUDA program, or an op's port, on the CPU with all checks."""
