"""Decimal numbers in a column of strings, as a data frame has them: all characters, and where each string begins."""

import numpy as np
from numba import cuda

STRINGS = ["12", "-7", "x1", "", "00450", "-", "99999", "4.5"]


@cuda.jit
def parse(characters, offsets, values, valid):
    row = cuda.grid(1)
    if row >= values.size:
        return
    begin, end = offsets[row], offsets[row + 1]
    sign = 1
    if begin < end and characters[begin] == ord("-"):
        sign = -1
        begin += 1
    value = 0
    ok = begin < end
    for k in range(begin, end):
        digit = characters[k] - ord("0")
        if digit < 0 or digit > 9:
            ok = False
            break
        value = 10 * value + digit
    values[row] = sign * value if ok else 0
    valid[row] = ok


def inputs(rng):
    return {"strings": np.array(STRINGS)}


def main(rng):
    characters = np.frombuffer("".join(STRINGS).encode(), np.uint8).copy()
    offsets = np.cumsum([0, *map(len, STRINGS)]).astype(np.int32)
    values, valid = np.zeros(len(STRINGS), np.int64), np.zeros(len(STRINGS), np.bool_)
    parse[1, 32](characters, offsets, values, valid)
    return {"values": values, "valid": valid}


def expected(inputs):
    valid = np.array([each.lstrip("-").isdigit() for each in STRINGS])
    values = np.array([int(each) if ok else 0 for each, ok in zip(STRINGS, valid, strict=True)])
    return {"values": values, "valid": valid}
