"""PageRank on compressed columns; pages without links give to all, by an atomic sum."""

import numpy as np
from numba import cuda

DAMPING = 0.85


@cuda.jit
def dangling_rank(out_degree, rank, lost):
    page = cuda.grid(1)
    if page < rank.size and out_degree[page] == 0:
        cuda.atomic.add(lost, 0, rank[page])


@cuda.jit
def spread(starts, sources, out_degree, rank, lost, new_rank):
    page = cuda.grid(1)
    n = rank.size
    if page >= n:
        return
    incoming = lost[0] / n
    for e in range(starts[page], starts[page + 1]):
        source = sources[e]
        incoming += rank[source] / out_degree[source]
    new_rank[page] = (1 - DAMPING) / n + DAMPING * incoming


def inputs(rng):
    return {"links": rng.random((20, 20)) < 0.12}


def main(rng):
    links = inputs(rng)["links"]
    targets, sources = np.nonzero(links.T)
    starts = np.searchsorted(targets, np.arange(21)).astype(np.int32)
    degree = links.sum(1).astype(np.int32)
    rank, new = np.full(20, 1 / 20), np.zeros(20)
    for _ in range(8):
        lost = np.zeros(1)
        dangling_rank[1, 32](degree, rank, lost)
        spread[1, 32](starts, sources, degree, rank, lost, new)
        rank, new = new, rank
    return {"rank": rank}


def expected(given):
    links = given["links"]
    degree = links.sum(1)
    rank = np.full(20, 1 / 20)
    for _ in range(8):
        shares = np.where(degree > 0, rank / np.maximum(degree, 1), 0)
        rank = 0.15 / 20 + 0.85 * (links.T @ shares + rank[degree == 0].sum() / 20)
    return {"rank": rank}
