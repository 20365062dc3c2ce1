"""Times an op against PyTorch, and against the memory rate of the machine."""
