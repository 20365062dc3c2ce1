"""A lock that blocks take in turns, to add up what no atomic operation adds."""

import numpy as np
from numba import cuda


@cuda.jit
def longest(lengths, lock, record):
    if cuda.threadIdx.x == 0:
        while cuda.atomic.compare_and_swap(lock, 0, 1) == 1:
            pass
        cuda.threadfence()
        if lengths[cuda.blockIdx.x] > record[0]:
            record[0] = lengths[cuda.blockIdx.x]
            record[1] = cuda.blockIdx.x
        cuda.threadfence()
        cuda.atomic.exch(lock, 0, 0)


def inputs(rng):
    return {"lengths": rng.permutation(40)[:9]}


def main(rng):
    record = np.full(2, -1)
    longest[9, 4](inputs(rng)["lengths"], np.zeros(1, np.int32), record)
    return {"record": record}


def expected(given):
    lengths = given["lengths"]
    return {"record": np.array([lengths.max(), lengths.argmax()])}
