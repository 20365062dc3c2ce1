"""// and % of signed and unsigned integers of all widths: rounded down, as Python has it, and by hand toward zero."""

import numpy as np
from numba import cuda


@cuda.jit
def divide(a, b, quotient, remainder, truncated):
    i = cuda.grid(1)
    if i < a.size and b[i] != 0:
        quotient[i] = a[i] // b[i]
        remainder[i] = a[i] % b[i]
        q, r = divmod(a[i], b[i])
        truncated[i] = q + 1 if r != 0 and (a[i] < 0) != (b[i] < 0) else q


KINDS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32")


def inputs(rng):
    given = {}
    for kind in KINDS:
        info = np.iinfo(kind)
        given[f"a {kind}"] = rng.integers(info.min, info.max, 40, dtype=kind)
        given[f"b {kind}"] = rng.integers(max(info.min, -9), 10, 40, dtype=kind)
    return given


def main(rng):
    given = inputs(rng)
    outputs: dict[str, np.ndarray] = {}
    for kind in KINDS:
        q, r, t = (np.zeros(40, kind) for _ in range(3))
        divide[2, 32](given[f"a {kind}"], given[f"b {kind}"], q, r, t)
        outputs |= {f"quotient {kind}": q, f"remainder {kind}": r, f"truncated {kind}": t}
    return outputs


def expected(given):
    wanted = {}
    for kind in KINDS:
        rows = []
        for a, b in zip(map(int, given[f"a {kind}"]), map(int, given[f"b {kind}"]), strict=True):
            rows.append((a // b, a % b, (-1 if (a < 0) != (b < 0) else 1) * (abs(a) // abs(b))) if b else (0, 0, 0))
        for name, column in zip(("quotient", "remainder", "truncated"), np.array(rows).T, strict=True):
            wanted[f"{name} {kind}"] = column.astype(kind)
    return wanted
