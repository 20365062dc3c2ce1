"""Timing an op against PyTorch, and against what the memory of the machine can do."""
