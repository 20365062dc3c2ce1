"""Requests to a drafting process: the digest, by which a draft is found again, is the same in each process."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np
from numba import cuda, float32
from numba.core import types

from trifold.prototype.layout import rows
from trifold.simulator.compiled.request import request_for

FACTORS = (2, 0.5)
PLACES = np.arange(3)


@cuda.jit
def kernel(y: Any, rows: int) -> None:  # a parameter that has the name of a function
    i = cuda.grid(1)
    if operator.lt(i, rows):
        y[i] = float32(math.sqrt(FACTORS[0])) + PLACES[i]


def test_no_address_decides_what_is_asked() -> None:
    assert callable(rows)
    request = request_for(kernel.fn, [types.Array(types.float32, 1, "C"), types.int64])
    assert {"rows", "FACTORS", "PLACES", "float32"} <= request.functions[0].meanings.keys()
    assert " at 0x" not in repr(request.functions)
