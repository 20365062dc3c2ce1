"""Counts the occurrences of a pattern in a text of bytes; the loop's ``else`` is a match."""

import numpy as np
from numba import cuda


@cuda.jit
def find(text, pattern, places, count):
    i = cuda.grid(1)
    if i + pattern.size > text.size:
        return
    for k in range(pattern.size):
        if text[i + k] != pattern[k]:
            break
    else:
        places[i] = True
        cuda.atomic.add(count, 0, 1)


def inputs(rng):
    return {"text": rng.choice(np.frombuffer(b"ab", np.uint8), 120), "pattern": np.frombuffer(b"aab", np.uint8).copy()}


def main(rng):
    given = inputs(rng)
    places, count = np.zeros(120, np.bool_), np.zeros(1, np.uint32)
    find[4, 32](given["text"], given["pattern"], places, count)
    return {"places": places, "count": count}


def expected(given):
    text, pattern = given["text"].tobytes(), given["pattern"].tobytes()
    places = np.array([text.startswith(pattern, i) for i in range(120)])
    return {"places": places, "count": np.array([places.sum()])}
