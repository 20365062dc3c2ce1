"""The matrix: every check of every cell, each cell in a worker process of its own."""
