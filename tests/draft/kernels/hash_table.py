"""A hash table of 256 slots with linear probing, by atomic.cas; while ... else."""

import numpy as np
from numba import cuda, uint32

EMPTY = np.uint32(0xFFFFFFFF)
CAPACITY = 256


@cuda.jit(device=True, inline=True)
def murmur(key):
    h = uint32(key)
    h ^= h >> uint32(16)
    h = uint32(h * uint32(0x85EBCA6B))
    h ^= h >> uint32(13)
    h = uint32(h * uint32(0xC2B2AE35))
    h ^= h >> uint32(16)
    return h


@cuda.jit
def insert(keys, values, table_keys, table_values):
    tid = cuda.grid(1)
    if tid >= keys.shape[0]:
        return
    key = keys[tid]
    slot = murmur(key) & (CAPACITY - 1)
    while True:
        prev = cuda.atomic.cas(table_keys, slot, EMPTY, key)
        if prev in (EMPTY, key):
            cuda.atomic.add(table_values, slot, values[tid])
            return
        slot = (slot + 1) % CAPACITY


@cuda.jit
def lookup(keys, table_keys, table_values, out):
    for tid in range(cuda.grid(1), keys.shape[0], cuda.gridsize(1)):
        slot = murmur(keys[tid]) & (CAPACITY - 1)
        found = False
        while table_keys[slot] != EMPTY:
            if table_keys[slot] == keys[tid]:
                found = True
                break
            slot = (slot + 1) % CAPACITY
        else:
            out[tid] = -1
        if found:
            out[tid] = table_values[slot]


def main(rng):
    keys = rng.integers(0, 60, 150).astype(np.uint32)
    values = rng.integers(0, 9, 150).astype(np.int32)
    tk, tv = np.full(CAPACITY, 0xFFFFFFFF, np.uint32), np.zeros(CAPACITY, np.int32)
    out = np.zeros(80, np.int64)
    insert[5, 32](keys, values, tk, tv)
    lookup[2, 32](np.arange(80, dtype=np.uint32), tk, tv, out)
    return {"out": out}
