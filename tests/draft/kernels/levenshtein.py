"""Edit distance of two byte strings by a wavefront: a thread an entry of an anti-diagonal, of which three are kept."""

import numpy as np
from numba import cuda, int32

MOST = 32


@cuda.jit
def edit_distance(a, b, result):
    diagonals = cuda.shared.array((3, MOST), int32)
    i = cuda.threadIdx.x
    n, m = a.size, b.size
    for d in range(n + m + 1):
        j = d - i
        if i <= n and 0 <= j <= m:
            if i == 0 or j == 0:
                distance = d
            else:
                cost = 0 if a[i - 1] == b[j - 1] else 1
                replaced = diagonals[(d + 1) % 3, i - 1] + cost
                one_more = min(diagonals[(d + 2) % 3, i - 1], diagonals[(d + 2) % 3, i]) + 1
                distance = min(replaced, one_more)
            diagonals[d % 3, i] = distance
            if d == n + m:
                result[0] = distance
        cuda.syncthreads()


def inputs(rng):
    letters = np.frombuffer(b"abcd", np.uint8)
    return {"a": rng.choice(letters, 17), "b": rng.choice(letters, 23)}


def main(rng):
    given = inputs(rng)
    result = np.zeros(1, np.int32)
    edit_distance[1, 32](given["a"], given["b"], result)
    return {"result": result}


def expected(given):
    row = np.arange(24)
    for i, letter in enumerate(given["a"], 1):
        new = [i]
        for j, other in enumerate(given["b"], 1):
            new.append(min(row[j - 1] + (letter != other), row[j] + 1, new[-1] + 1))
        row = np.array(new)
    return {"result": row[-1:]}
