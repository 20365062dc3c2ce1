"""k-means: assignment of points to the nearest centre, and the update by atomics; some rounds."""

import numpy as np
from numba import cuda, float64, int32

K = 3


@cuda.jit
def assign(points, centres, labels):
    i = cuda.grid(1)
    if i >= points.shape[0]:
        return
    best = float64(1e300)
    label = -1
    for k in range(centres.shape[0]):
        d = 0.0
        for dim in range(points.shape[1]):
            diff = points[i, dim] - centres[k, dim]
            d += diff * diff
        if d < best:
            best = d
            label = k
    labels[i] = label


@cuda.jit
def accumulate(points, labels, sums, counts):
    local_counts = cuda.shared.array(K, int32)
    if cuda.threadIdx.x < K:
        local_counts[cuda.threadIdx.x] = 0
    cuda.syncthreads()
    i = cuda.grid(1)
    if i < points.shape[0]:
        for dim in range(points.shape[1]):
            cuda.atomic.add(sums, (labels[i], dim), points[i, dim])
        cuda.atomic.add(local_counts, labels[i], 1)
    cuda.syncthreads()
    if cuda.threadIdx.x < K:
        cuda.atomic.add(counts, cuda.threadIdx.x, local_counts[cuda.threadIdx.x])


@cuda.jit
def divide(sums, counts, centres):
    k, dim = cuda.threadIdx.x, cuda.threadIdx.y
    if counts[k] > 0:
        centres[k, dim] = sums[k, dim] / counts[k]


def inputs(rng):
    centres = np.array([[0.0, 0.0], [5.0, 1.0], [1.0, 6.0]])
    return {"points": centres[rng.integers(0, 3, 60)] + rng.standard_normal((60, 2)), "start": centres + 0.5}


def main(rng):
    given = inputs(rng)
    centres, labels = given["start"].copy(), np.zeros(60, np.int32)
    for _ in range(3):
        sums, counts = np.zeros((K, 2)), np.zeros(K, np.int32)
        assign[2, 32](given["points"], centres, labels)
        accumulate[2, 32](given["points"], labels, sums, counts)
        divide[1, (K, 2)](sums, counts, centres)
    return {"centres": centres, "labels": labels, "counts": counts}


def expected(given):
    centres = given["start"].copy()
    for _ in range(3):
        labels = ((given["points"][:, None] - centres[None]) ** 2).sum(2).argmin(1)
        centres = np.stack([given["points"][labels == k].mean(0) for k in range(K)])
    return {"centres": centres, "labels": labels}
