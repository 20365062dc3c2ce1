"""Attention by tiles of keys, with the softmax's maximum and sum carried along."""

import math

import numpy as np
from numba import cuda, float32

D = 16
TILE = 8


@cuda.jit
def attention(Q, K, V, out, scale):
    ks = cuda.shared.array((TILE, D), float32)
    vs = cuda.shared.array((TILE, D), float32)
    acc = cuda.local.array(D, float32)
    t = cuda.threadIdx.x
    row = cuda.blockIdx.x * TILE + t
    n = K.shape[0]
    m = float32(-math.inf)
    total = float32(0.0)
    for d in range(D):
        acc[d] = 0.0
    for start in range(0, n, TILE):
        for d in range(D):
            inside = start + t < n
            ks[t, d] = K[start + t, d] if inside else 0.0
            vs[t, d] = V[start + t, d] if inside else 0.0
        cuda.syncthreads()
        if row < Q.shape[0]:
            for j in range(min(TILE, n - start)):
                s = float32(0.0)
                for d in range(D):
                    s += Q[row, d] * ks[j, d]
                s *= scale
                m_new = max(m, s)
                alpha = math.exp(m - m_new)
                p = math.exp(s - m_new)
                total = total * alpha + p
                for d in range(D):
                    acc[d] = acc[d] * alpha + p * vs[j, d]
                m = m_new
        cuda.syncthreads()
    if row < Q.shape[0]:
        for d in range(D):
            out[row, d] = acc[d] / total


def main(rng):
    Q, K, V = (rng.normal(size=(n, D)).astype(np.float32) for n in (21, 27, 27))
    out = np.zeros_like(Q)
    attention[3, TILE](Q, K, V, out, np.float32(D**-0.5))
    return {"out": out}
