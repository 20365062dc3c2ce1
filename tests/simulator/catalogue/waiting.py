"""Locks, flags and tickets: threads that wait for each other."""

import numpy as np
from numba import cuda, float32, int32

from tests.simulator.catalogue.case import ANY, atomic, read, right, waits, write, wrong

N = 64


def _run_locked_sum(kernel):
    x = np.arange(6, dtype=np.float64)
    total = np.zeros(1)
    lock = np.zeros(1, dtype=np.int32)
    kernel[6, 32](x, total, lock)
    assert total[0] == x.sum()
    assert lock[0] == 0


@right(run=_run_locked_sum)
@cuda.jit
def spin_lock(x, total, lock):
    """The first thread of each block adds under a lock."""
    if cuda.threadIdx.x == 0:
        while cuda.atomic.cas(lock, 0, 0, 1) != 0:
            pass
        cuda.threadfence()
        total[0] += x[cuda.blockIdx.x]
        cuda.threadfence()
        cuda.atomic.exch(lock, 0, 0)


@wrong("deadlock", None, None, waits("poll", "first", 0, 1), run=_run_locked_sum)
@cuda.jit
def spin_lock_never_released(x, total, lock):
    if cuda.threadIdx.x == 0:
        while cuda.atomic.cas(lock, 0, 0, 1) != 0:  # first
            pass
        cuda.threadfence()
        total[0] += x[cuda.blockIdx.x]


@wrong("race", "total", "global", write("first", 0, 0), read("first", 0, 1), run=_run_locked_sum)
@cuda.jit
def spin_lock_without_fence(x, total, lock):
    """The lock keeps others out, but does not make the sum visible before it opens."""
    if cuda.threadIdx.x == 0:
        while cuda.atomic.cas(lock, 0, 0, 1) != 0:
            pass
        total[0] += x[cuda.blockIdx.x]  # first
        cuda.atomic.exch(lock, 0, 0)


@wrong("race", "lock", "global", write("second", 0, 0), atomic("first", 0, 1), run=_run_locked_sum)
@cuda.jit
def spin_lock_opened_by_a_plain_store(x, total, lock):
    if cuda.threadIdx.x == 0:
        while cuda.atomic.cas(lock, 0, 0, 1) != 0:  # first
            pass
        cuda.threadfence()
        total[0] += x[cuda.blockIdx.x]
        cuda.threadfence()
        lock[0] = 0  # second


@wrong("deadlock", None, None, waits("poll", "first", ANY), waits("syncthreads", "second", 0), run=_run_locked_sum)
@cuda.jit
def lock_held_across_a_barrier(x, total, lock):
    """All threads of the block want the lock; who has it waits for them at the barrier."""
    while cuda.atomic.cas(lock, 0, 0, 1) != 0:  # first
        pass
    cuda.threadfence()
    if cuda.threadIdx.x == 0:
        total[0] += x[cuda.blockIdx.x]
    cuda.syncthreads()  # second
    cuda.threadfence()
    cuda.atomic.exch(lock, 0, 0)


def _run_ticket(kernel):
    order = np.full(8, -1, dtype=np.int32)
    ticket = np.zeros(1, dtype=np.int32)
    serving = np.zeros(1, dtype=np.int32)
    length = np.zeros(1, dtype=np.int32)
    kernel[8, 32](order, ticket, serving, length)
    assert sorted(order.tolist()) == list(range(8))
    assert length[0] == 8


@right(run=_run_ticket)
@cuda.jit
def ticket_lock(order, ticket, serving, length):
    if cuda.threadIdx.x == 0:
        mine = cuda.atomic.add(ticket, 0, 1)
        while cuda.atomic.add(serving, 0, 0) != mine:
            cuda.nanosleep(100)
        cuda.threadfence()
        order[length[0]] = cuda.blockIdx.x
        length[0] += 1
        cuda.threadfence()
        cuda.atomic.add(serving, 0, 1)


@wrong("deadlock", None, None, waits("poll", "first", 0, 0), run=_run_ticket)
@cuda.jit
def ticket_lock_that_serves_from_one(order, ticket, serving, length):
    if cuda.threadIdx.x == 0:
        mine = cuda.atomic.add(ticket, 0, 1)
        while cuda.atomic.add(serving, 0, 0) != mine + 1:  # first
            cuda.nanosleep(100)
        cuda.threadfence()
        order[length[0]] = cuda.blockIdx.x
        length[0] += 1
        cuda.threadfence()
        cuda.atomic.add(serving, 0, 1)


def _run_transfer(kernel):
    """Two accounts, each with its lock; two warps transfer in opposite directions."""
    balance = np.array([100, 50], dtype=np.int32)
    kernel[1, N](balance)
    np.testing.assert_array_equal(balance, [100 - 5 + 7, 50 + 5 - 7])


@cuda.jit(device=True)
def acquire(lock, k):
    while cuda.atomic.cas(lock, k, 0, 1) != 0:  # first
        pass
    cuda.threadfence_block()


@cuda.jit(device=True)
def release(lock, k):
    cuda.threadfence_block()
    cuda.atomic.exch(lock, k, 0)


@right(run=_run_transfer, helpers=(acquire, release))
@cuda.jit
def transfer_with_ordered_locks(balance):
    lock = cuda.shared.array(2, int32)
    t = cuda.threadIdx.x
    if t < 2:
        lock[t] = 0
    cuda.syncthreads()
    source = t // 32
    if t % 32 == 0:
        acquire(lock, 0)
    cuda.syncwarp()
    if t % 32 == 0:
        acquire(lock, 1)
        amount = 5 + 2 * source
        balance[source] -= amount
        balance[1 - source] += amount
        release(lock, 1)
        release(lock, 0)


@wrong("deadlock", None, None, waits("poll", "first", 0), run=_run_transfer,
       helpers=(acquire, release))  # fmt: skip
@cuda.jit
def transfer_with_crossed_locks(balance):
    """Each warp has its own account's lock and waits for the other's."""
    lock = cuda.shared.array(2, int32)
    t = cuda.threadIdx.x
    if t < 2:
        lock[t] = 0
    cuda.syncthreads()
    source = t // 32
    if t % 32 == 0:
        acquire(lock, source)
    cuda.syncthreads()
    if t % 32 == 0:
        acquire(lock, 1 - source)
        amount = 5 + 2 * source
        balance[source] -= amount
        balance[1 - source] += amount
        release(lock, 1 - source)
        release(lock, source)


def _run_pipeline(kernel):
    """Even blocks produce, odd blocks consume."""
    data = np.zeros(4 * N, dtype=np.float32)
    ready = np.zeros(4, dtype=np.int32)
    sums = np.zeros(4, dtype=np.float32)
    kernel[8, N](data, ready, sums)
    np.testing.assert_array_equal(sums, np.arange(4 * N, dtype=np.float32).reshape(4, N).sum(axis=1))


@right(run=_run_pipeline)
@cuda.jit
def producer_and_consumer(data, ready, sums):
    """The consumer is the lower block: it waits for one that starts later."""
    pair = cuda.blockIdx.x // 2
    t = cuda.threadIdx.x
    if cuda.blockIdx.x % 2 == 1:
        data[pair * N + t] = pair * N + t
        cuda.threadfence()
        cuda.syncthreads()
        if t == 0:
            cuda.atomic.exch(ready, pair, 1)
    else:
        if t == 0:
            while cuda.atomic.add(ready, pair, 0) == 0:
                pass
            cuda.threadfence()
        cuda.syncthreads()
        cuda.atomic.add(sums, pair, data[pair * N + t])


@wrong("race", "data", "global", write("first", ANY, 1), read("second", ANY, 0), run=_run_pipeline)
@cuda.jit
def producer_without_fence(data, ready, sums):
    pair = cuda.blockIdx.x // 2
    t = cuda.threadIdx.x
    if cuda.blockIdx.x % 2 == 1:
        data[pair * N + t] = pair * N + t  # first
        cuda.syncthreads()
        if t == 0:
            cuda.atomic.exch(ready, pair, 1)
    else:
        if t == 0:
            while cuda.atomic.add(ready, pair, 0) == 0:
                pass
            cuda.threadfence()
        cuda.syncthreads()
        cuda.atomic.add(sums, pair, data[pair * N + t])  # second


@wrong("race", "data", "global", write("first", ANY, 1), read("second", ANY, 0), run=_run_pipeline)
@cuda.jit
def producer_with_block_fence(data, ready, sums):
    """A fence of block scope orders nothing for the other block."""
    pair = cuda.blockIdx.x // 2
    t = cuda.threadIdx.x
    if cuda.blockIdx.x % 2 == 1:
        data[pair * N + t] = pair * N + t  # first
        cuda.threadfence_block()
        cuda.syncthreads()
        if t == 0:
            cuda.atomic.exch(ready, pair, 1)
    else:
        if t == 0:
            while cuda.atomic.add(ready, pair, 0) == 0:
                pass
        cuda.syncthreads()
        cuda.atomic.add(sums, pair, data[pair * N + t])  # second


@wrong("race", "data", "global", write("first", ANY, 1), read("second", ANY, 0), run=_run_pipeline, or_kinds=())
@cuda.jit
def producer_that_announces_too_early(data, ready, sums):
    pair = cuda.blockIdx.x // 2
    t = cuda.threadIdx.x
    if cuda.blockIdx.x % 2 == 1:
        if t == 0:
            cuda.threadfence()
            cuda.atomic.exch(ready, pair, 1)
        data[pair * N + t] = pair * N + t  # first
    else:
        if t == 0:
            while cuda.atomic.add(ready, pair, 0) == 0:
                pass
            cuda.threadfence()
        cuda.syncthreads()
        cuda.atomic.add(sums, pair, data[pair * N + t])  # second


@wrong("race", "ready", "global", read("first", 0, 0), atomic("second", 0, 1), run=_run_pipeline)
@cuda.jit
def consumer_that_polls_by_plain_reads(data, ready, sums):
    pair = cuda.blockIdx.x // 2
    t = cuda.threadIdx.x
    if cuda.blockIdx.x % 2 == 1:
        data[pair * N + t] = pair * N + t
        cuda.threadfence()
        cuda.syncthreads()
        if t == 0:
            cuda.atomic.exch(ready, pair, 1)  # second
    else:
        if t == 0:
            while ready[pair] == 0:  # first
                pass
            cuda.threadfence()
        cuda.syncthreads()
        cuda.atomic.add(sums, pair, data[pair * N + t])


def _run_handshake(kernel):
    x = np.array([3, 4], dtype=np.int32)
    y = np.zeros(2, dtype=np.int32)
    flag = np.zeros(2, dtype=np.int32)
    kernel[2, 1](x, y, flag)
    np.testing.assert_array_equal(y, [4, 3])


@right(run=_run_handshake)
@cuda.jit
def blocks_tell_then_wait(x, y, flag):
    b = cuda.blockIdx.x
    cuda.atomic.exch(y, 1 - b, x[b])
    cuda.threadfence()
    cuda.atomic.exch(flag, b, 1)
    while cuda.atomic.add(flag, 1 - b, 0) == 0:
        pass


@wrong("deadlock", None, None, waits("poll", "first", 0, 0), waits("poll", "first", 0, 1), run=_run_handshake)
@cuda.jit
def blocks_wait_then_tell(x, y, flag):
    b = cuda.blockIdx.x
    while cuda.atomic.add(flag, 1 - b, 0) == 0:  # first
        pass
    cuda.atomic.exch(y, 1 - b, x[b])
    cuda.threadfence()
    cuda.atomic.exch(flag, b, 1)


def _run_all_arrive(kernel):
    arrived = np.zeros(1, dtype=np.int32)
    y = np.zeros(5, dtype=np.int32)
    kernel[5, 32](arrived, y)
    np.testing.assert_array_equal(y, np.full(5, 5))


@right(run=_run_all_arrive)
@cuda.jit
def grid_barrier_by_hand(arrived, y):
    """All blocks count themselves in and wait for the others: they must be resident together."""
    if cuda.threadIdx.x == 0:
        cuda.threadfence()
        cuda.atomic.add(arrived, 0, 1)
        while cuda.atomic.add(arrived, 0, 0) < cuda.gridDim.x:
            pass
        y[cuda.blockIdx.x] = cuda.atomic.add(arrived, 0, 0)


@wrong("deadlock", None, None, *[waits("poll", "first", 0, b) for b in range(5)], run=_run_all_arrive)
@cuda.jit
def grid_barrier_for_a_block_too_many(arrived, y):
    if cuda.threadIdx.x == 0:
        cuda.threadfence()
        cuda.atomic.add(arrived, 0, 1)
        while cuda.atomic.add(arrived, 0, 0) <= cuda.gridDim.x:  # first
            pass
        y[cuda.blockIdx.x] = cuda.atomic.add(arrived, 0, 0)


def _run_halves(kernel):
    x = np.arange(32, dtype=np.float32)
    y = np.zeros_like(x)
    kernel[1, 32](x, y)
    np.testing.assert_array_equal(y, x[::-1])


@wrong(
    "warp divergence", None, None, waits("syncwarp", "first", 0), waits("syncthreads", "second", 16), run=_run_halves
)
@cuda.jit
def rendezvous_here_and_barrier_there(x, y):
    """The lower lanes wait for the whole warp, the upper ones for the whole block."""
    tile = cuda.shared.array(32, float32)
    t = cuda.threadIdx.x
    tile[t] = x[t]
    if t < 16:
        cuda.syncwarp()  # first
    else:
        cuda.syncthreads()  # second
    y[t] = tile[31 - t]


@right(run=_run_halves)
@cuda.jit
def rendezvous_for_all(x, y):
    tile = cuda.shared.array(32, float32)
    t = cuda.threadIdx.x
    tile[t] = x[t]
    cuda.syncwarp()
    y[t] = tile[31 - t]
