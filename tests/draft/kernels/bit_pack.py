"""Packs flags into words by ballots, and four numbers of 5 bits into each 32-bit word's low bits."""

import numpy as np
from numba import cuda, uint32


@cuda.jit
def pack_flags(flags, words):
    i = cuda.grid(1)
    set_bits = cuda.ballot_sync(0xFFFFFFFF, i < flags.size and flags[i])
    if cuda.laneid == 0 and i // 32 < words.size:
        words[i // 32] = set_bits


@cuda.jit
def pack_numbers(numbers, words):
    i = cuda.grid(1)
    if i < words.size:
        word = uint32(0)
        for k in range(4):
            place = 4 * i + k
            if place < numbers.size:
                word |= (uint32(numbers[place]) & uint32(31)) << uint32(5 * k)
        words[i] = word


def inputs(rng):
    return {"flags": rng.random(100) < 0.5, "numbers": rng.integers(0, 32, 50, dtype=np.int16)}


def main(rng):
    given = inputs(rng)
    flag_words, number_words = np.zeros(4, np.uint32), np.zeros(13, np.uint32)
    pack_flags[2, 64](given["flags"], flag_words)
    pack_numbers[1, 32](given["numbers"], number_words)
    return {"flag_words": flag_words, "number_words": number_words}


def expected(given):
    flags = np.pad(given["flags"], (0, 28)).reshape(4, 32).astype(np.uint64)
    numbers = np.pad(given["numbers"], (0, 2)).reshape(13, 4).astype(np.uint64)
    return {
        "flag_words": (flags << np.arange(32, dtype=np.uint64)).sum(1),
        "number_words": (numbers << (5 * np.arange(4, dtype=np.uint64))).sum(1),
    }
