"""Normal random numbers for Numba kernels: the device functions of ``<trifold/philox.cuh>``.

Philox 4x32-10 (Salmon, Moraes, Dror, Shaw, SC 2011) and Box–Muller. Words of 32 bits are held in uint64, masked, so
that the arithmetic is the same in Numba's simulator and on a GPU. Normals are computed in float64 for every dtype.
"""

import math

import numpy as np
from numba import cuda

_LOW = np.uint64(0xFFFFFFFF)
_HALF_WORD = np.uint64(32)
_MULTIPLIER_0 = np.uint64(0xD2511F53)
_MULTIPLIER_1 = np.uint64(0xCD9E8D57)
_WEYL_0 = np.uint64(0x9E3779B9)  # golden ratio
_WEYL_1 = np.uint64(0xBB67AE85)  # sqrt(3) - 1


@cuda.jit(device=True)
def philox4x32_10(c0, c1, c2, c3, k0, k1):  # type: ignore[no-untyped-def]
    """The four words for counter (c0, c1, c2, c3) and key (k0, k1); all uint64 below 2^32."""
    for _ in range(10):
        p0 = _MULTIPLIER_0 * c0
        p1 = _MULTIPLIER_1 * c2
        c0 = (p1 >> _HALF_WORD) ^ c1 ^ k0
        c1 = p1 & _LOW
        c2 = (p0 >> _HALF_WORD) ^ c3 ^ k1
        c3 = p0 & _LOW
        k0 = (k0 + _WEYL_0) & _LOW
        k1 = (k1 + _WEYL_1) & _LOW
    return c0, c1, c2, c3


@cuda.jit(device=True)
def philox_group(seed, offset, group):  # type: ignore[no-untyped-def]
    """The four words of group ``group`` in the draw identified by ``(seed, offset)``; all int64."""
    draw = offset // 4
    return philox4x32_10(
        np.uint64(draw & 0xFFFFFFFF),
        np.uint64((draw >> 32) & 0xFFFFFFFF),
        np.uint64(group & 0xFFFFFFFF),
        np.uint64((group >> 32) & 0xFFFFFFFF),
        np.uint64(seed & 0xFFFFFFFF),
        np.uint64((seed >> 32) & 0xFFFFFFFF),
    )


@cuda.jit(device=True)
def philox_uniform(bits):  # type: ignore[no-untyped-def]
    """A uniform number in (0, 1] from 32 bits, rounded to float32 at each step: the same on all devices."""
    return np.float64(np.float32(np.float32(bits) * np.float32(2.0**-32)) + np.float32(2.0**-33))


@cuda.jit(device=True)
def philox_signed_uniform(bits):  # type: ignore[no-untyped-def]
    """A uniform number in [-1, 1] from 32 bits, rounded in the same way."""
    signed = np.int64(bits)
    if signed >= 0x80000000:
        signed -= 0x100000000
    return np.float64(np.float32(np.float32(signed) * np.float32(2.0**-31)) + np.float32(2.0**-32))


@cuda.jit(device=True)
def box_muller(radius_bits, angle_bits):  # type: ignore[no-untyped-def]
    """Two normals: ``sqrt(-2 ln u)`` times cosine and sine of an angle.

    The angle is (π/4)·w; bit 1 of its word mirrors it to the next quarter turn, bit 0 adds a half turn.
    """
    radius = math.sqrt(-2.0 * math.log(philox_uniform(radius_bits)))
    angle = 0.25 * math.pi * philox_signed_uniform(angle_bits)
    quarter = np.int64(angle_bits) & 3
    if quarter & 1:
        radius = -radius
    cosine = radius * math.cos(angle)
    sine = radius * math.sin(angle)
    if quarter & 2:
        return sine, cosine
    return cosine, sine


@cuda.jit(device=True)
def philox_normals(seed, offset, group):  # type: ignore[no-untyped-def]
    """The four normals of a group."""
    w0, w1, w2, w3 = philox_group(seed, offset, group)
    z0, z1 = box_muller(w0, w1)
    z2, z3 = box_muller(w2, w3)
    return z0, z1, z2, z3


@cuda.jit(device=True)
def philox_normal(seed, offset, group, lane):  # type: ignore[no-untyped-def]
    """The normal ``4 * group + lane`` alone."""
    w0, w1, w2, w3 = philox_group(seed, offset, group)
    if lane >= 2:
        w0 = w2
        w1 = w3
    first, second = box_muller(w0, w1)
    return first if lane % 2 == 0 else second
