"""Steps of the Collatz sequence, and the largest number on the way."""

import numpy as np
from numba import cuda


@cuda.jit
def collatz(start, steps, peak):
    i = cuda.grid(1)
    if i >= start.size:
        return
    n = start[i]
    highest = n
    count = 0
    while True:
        if n <= 1:
            break
        n = n >> 1 if n % 2 == 0 else 3 * n + 1
        highest = max(highest, n)
        count += 1
        if count >= 1000:
            break
    steps[i], peak[i] = count, highest


def inputs(rng):
    return {"start": rng.integers(1, 3000, 40)}


def main(rng):
    start = inputs(rng)["start"]
    steps, peak = np.zeros(40, np.uint16), np.zeros(40, np.int64)
    collatz[2, 32](start, steps, peak)
    return {"steps": steps, "peak": peak}


def expected(given):
    rows = []
    for n in map(int, given["start"]):
        path = [n]
        while path[-1] > 1:
            path.append(path[-1] // 2 if path[-1] % 2 == 0 else 3 * path[-1] + 1)
        rows.append((len(path) - 1, max(path)))
    steps, peak = np.array(rows).T
    return {"steps": steps, "peak": peak}
