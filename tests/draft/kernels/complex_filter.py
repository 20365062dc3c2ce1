"""Signals of complex64: mixing to another frequency, decimation, magnitude and phase; parts by name."""

import cmath
import math

import numpy as np
from numba import cuda

FACTOR = 4


@cuda.jit
def receive(signal, frequency, taps, out, magnitude, phase):
    i = cuda.grid(1)
    if i >= out.size:
        return
    acc = 0j
    for k in range(taps.size):
        n = FACTOR * i + k
        if n < signal.size:
            mixed = signal[n] * cmath.exp(-2j * cmath.pi * frequency * n)
            acc += mixed * taps[k]
    out[i] = acc
    magnitude[i] = abs(acc)
    t = acc.real
    t += 0.0
    phase[i] = math.atan2(acc.imag, t)


def inputs(rng):
    signal = rng.standard_normal(64) + 1j * rng.standard_normal(64)
    return {"signal": signal.astype(np.complex64), "taps": rng.random(6).astype(np.float32)}


def main(rng):
    given = inputs(rng)
    out, magnitude, phase = np.zeros(16, np.complex64), np.zeros(16, np.float32), np.zeros(16, np.float32)
    receive[1, 32](given["signal"], 0.11, given["taps"], out, magnitude, phase)
    return {"out": out, "magnitude": magnitude, "phase": phase}


def expected(given):
    n = np.arange(64)
    mixed = np.pad(given["signal"] * np.exp(-2j * np.pi * 0.11 * n), (0, 8))
    out = np.array([mixed[4 * i : 4 * i + 6] @ given["taps"] for i in range(16)])
    return {"out": out, "magnitude": np.abs(out)}
