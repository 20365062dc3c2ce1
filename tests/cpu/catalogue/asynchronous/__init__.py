"""Clusters, barriers in shared memory and asynchronous copies: pairs of kernels, one of them wrong by one line."""
