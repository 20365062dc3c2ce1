"""Complex FFT of radix 2, a block a signal: bit reversal by brev, then a butterfly a thread and a step."""

import cmath
import math

import numpy as np
from numba import complex128, cuda

N = 32
LOG_N = 5


@cuda.jit
def fft(signals, spectra):
    data = cuda.shared.array(N, complex128)
    b = cuda.blockIdx.x
    t = cuda.threadIdx.x
    for k in range(t, N, N // 2):
        reverse = cuda.brev(np.uint32(k)) >> np.uint32(32 - LOG_N)
        data[reverse] = signals[b, k]
    cuda.syncthreads()
    half = 1
    while half < N:
        position = t % half
        low = (t // half) * half * 2 + position
        twiddle = cmath.exp(-1j * math.pi * position / half)
        a = data[low]
        c = data[low + half] * twiddle
        data[low] = a + c
        data[low + half] = a - c
        cuda.syncthreads()
        half *= 2
    for k in range(t, N, N // 2):
        spectra[b, k] = data[k]


def inputs(rng):
    return {"signals": rng.standard_normal((3, N)) + 1j * rng.standard_normal((3, N))}


def main(rng):
    spectra = np.zeros((3, N), np.complex128)
    fft[3, N // 2](inputs(rng)["signals"], spectra)
    return {"spectra": spectra}


def expected(given):
    return {"spectra": np.fft.fft(given["signals"])}
