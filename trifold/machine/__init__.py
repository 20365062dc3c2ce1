"""This machine's tools, the cells of the matrix that it can run, and the exact commands that install missing tools."""
