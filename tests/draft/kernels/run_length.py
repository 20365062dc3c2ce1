"""Run-length encoding: a thread that begins a run counts its length, and writes where a scan of the heads says."""

import numpy as np
from numba import cuda


@cuda.jit
def heads(data, flags):
    i = cuda.grid(1)
    if i < data.size:
        flags[i] = 1 if i == 0 or data[i] != data[i - 1] else 0


@cuda.jit
def encode(data, places, flags, symbols, lengths):
    i = cuda.grid(1)
    if i < data.size and flags[i]:
        length = 1
        while i + length < data.size and data[i + length] == data[i]:
            length += 1
        symbols[places[i] - 1] = data[i]
        lengths[places[i] - 1] = length


def inputs(rng):
    return {"data": np.repeat(rng.integers(97, 101, 25, dtype=np.uint8), rng.integers(1, 6, 25))}


def main(rng):
    data = inputs(rng)["data"]
    flags = np.zeros(data.size, np.int32)
    blocks = -(-data.size // 32)
    heads[blocks, 32](data, flags)
    places = np.cumsum(flags)
    symbols, lengths = np.zeros(places[-1], np.uint8), np.zeros(places[-1], np.uint16)
    encode[blocks, 32](data, places, flags, symbols, lengths)
    return {"symbols": symbols, "lengths": lengths}


def expected(given):
    data = given["data"]
    starts = np.flatnonzero(np.concatenate([[True], data[1:] != data[:-1]]))
    return {"symbols": data[starts], "lengths": np.diff(np.append(starts, data.size))}
