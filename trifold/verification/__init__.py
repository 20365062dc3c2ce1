"""The matrix: every check of every cell. Each cell runs in its own worker process."""
