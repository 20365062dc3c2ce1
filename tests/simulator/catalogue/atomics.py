"""Counters, histograms and flags: atomic, not atomic, and both on one place."""

import numpy as np
from numba import cuda, float32, int32

from tests.simulator.catalogue.case import ANY, atomic, read, right, write, wrong

N = 64
BINS = 16


def _run_histogram(kernel):
    x = np.arange(4 * N, dtype=np.int32) * 5 % BINS
    hist = np.zeros(BINS, dtype=np.int32)
    kernel[4, N](x, hist)
    np.testing.assert_array_equal(hist, np.bincount(x, minlength=BINS))


@right(run=_run_histogram)
@cuda.jit
def histogram(x, hist):
    cuda.atomic.add(hist, x[cuda.grid(1)], 1)


@wrong("race", "hist", "global", write("first", 0), read("first", 16), run=_run_histogram)
@cuda.jit
def histogram_without_atomic(x, hist):
    hist[x[cuda.grid(1)]] += 1  # first


@right(run=_run_histogram)
@cuda.jit
def histogram_in_shared_memory(x, hist):
    bins = cuda.shared.array(BINS, int32)
    t = cuda.threadIdx.x
    if t < BINS:
        bins[t] = 0
    cuda.syncthreads()
    cuda.atomic.add(bins, x[cuda.grid(1)], 1)
    cuda.syncthreads()
    if t < BINS:
        cuda.atomic.add(hist, t, bins[t])


@wrong("race", "bins", "shared", atomic("first", 1), read("second", 5), run=_run_histogram)
@cuda.jit
def histogram_merged_too_early(x, hist):
    bins = cuda.shared.array(BINS, int32)
    t = cuda.threadIdx.x
    if t < BINS:
        bins[t] = 0
    cuda.syncthreads()
    cuda.atomic.add(bins, x[cuda.grid(1)], 1)  # first
    if t < BINS:
        cuda.atomic.add(hist, t, bins[t])  # second


@wrong("race", "bins", "shared", write("first", 0), atomic("second", 1), run=_run_histogram,
       or_kinds=("uninitialised read",))  # fmt: skip
@cuda.jit
def histogram_cleared_too_late(x, hist):
    bins = cuda.shared.array(BINS, int32)
    t = cuda.threadIdx.x
    if t == 0:
        for b in range(BINS):
            bins[b] = 0  # first
    cuda.atomic.add(bins, x[cuda.grid(1)], 1)  # second
    cuda.syncthreads()
    if t < BINS:
        cuda.atomic.add(hist, t, bins[t])


def _run_histogram_of_different_blocks(kernel):
    x = np.arange(4 * N, dtype=np.int32) // N * 3 % BINS
    hist = np.zeros(BINS, dtype=np.int32)
    kernel[4, N](x, hist)
    np.testing.assert_array_equal(hist, np.bincount(x, minlength=BINS))


@wrong("race", "hist", "global", write("first", 0), write("first", 0, 1), run=_run_histogram_of_different_blocks)
@cuda.jit
def histogram_stored_by_each_block(x, hist):
    """Right for one block; of several, the last one wins."""
    bins = cuda.shared.array(BINS, int32)
    t = cuda.threadIdx.x
    if t < BINS:
        bins[t] = 0
    cuda.syncthreads()
    cuda.atomic.add(bins, x[cuda.grid(1)], 1)
    cuda.syncthreads()
    if t < BINS:
        hist[t] = bins[t]  # first


def _run_count(kernel):
    x = np.arange(2 * N, dtype=np.int32)
    count = np.full(1, 99, dtype=np.int32)
    kernel[1, 2 * N](x, count)
    assert count[0] == (x % 3 == 0).sum()


@right(run=_run_count)
@cuda.jit
def count_multiples(x, count):
    i = cuda.grid(1)
    if i == 0:
        count[0] = 0
    cuda.syncthreads()
    if x[i] % 3 == 0:
        cuda.atomic.add(count, 0, 1)


@wrong("race", "count", "global", write("first", 0), atomic("second", 3), run=_run_count)
@cuda.jit
def count_multiples_without_barrier(x, count):
    """Thread 0 clears the counter, and adds to it itself before others do: the store is what they race with."""
    i = cuda.grid(1)
    if i == 0:
        count[0] = 0  # first
    if x[i] % 3 == 0:
        cuda.atomic.add(count, 0, 1)  # second


@right(run=_run_count)
@cuda.jit
def count_multiples_by_barrier(x, count):
    i = cuda.grid(1)
    n = cuda.syncthreads_count(int32(x[i] % 3 == 0))
    if i == 0:
        count[0] = n


def _run_first_few(kernel):
    x = np.arange(N, dtype=np.int32)
    y = np.zeros(4, dtype=np.int32)
    count = np.zeros(1, dtype=np.int32)
    kernel[1, N](x, y, count)
    assert count[0] >= 4
    assert (y % 2 == 1).all()
    assert len(set(y.tolist())) == 4


@right(run=_run_first_few)
@cuda.jit
def collect_four(x, y, count):
    """Any four of the odd elements."""
    v = x[cuda.grid(1)]
    if v % 2 == 1:
        place = cuda.atomic.add(count, 0, 1)
        if place < y.size:
            y[place] = v


@wrong("race", "count", "global", atomic("second", 1), read("first", 3), run=_run_first_few)
@cuda.jit
def collect_four_with_plain_test(x, y, count):
    v = x[cuda.grid(1)]
    if v % 2 == 1 and count[0] < y.size:  # first
        place = cuda.atomic.add(count, 0, 1)  # second
        if place < y.size:
            y[place] = v


def _run_contains(kernel):
    x = np.arange(2 * N, dtype=np.int32) % 10
    found = np.zeros(1, dtype=np.int32)
    kernel[2, N](x, 7, found)
    assert found[0] == 1


@wrong("race", "found", "global", write("first", 7), write("first", 17), run=_run_contains, severity="warning")
@cuda.jit
def contains_by_plain_stores(x, wanted, found):
    """All write the same value: harmless on hardware, undefined in CUDA's memory model."""
    if x[cuda.grid(1)] == wanted:
        found[0] = 1  # first


def _run_finders(kernel):
    x = np.arange(2 * N, dtype=np.int32) % 10
    found = np.zeros(1, dtype=np.int32)
    kernel[2, N](x, 7, found)
    assert x[found[0]] == 7


@wrong("race", "found", "global", write("first", 7), write("first", 17), run=_run_finders)
@cuda.jit
def place_of_any_by_plain_stores(x, wanted, found):
    """Each writes another value: which one stays can change from run to run."""
    i = cuda.grid(1)
    if x[i] == wanted:
        found[0] = i  # first


@wrong("race", "found", "global", read("second", 0), write("first", 7), run=_run_contains)
@cuda.jit
def contains_unless_another_has_found_it(x, wanted, found):
    """The read is a race even though all write the same value."""
    if found[0] != 0:  # second
        return
    if x[cuda.grid(1)] == wanted:
        found[0] = 1  # first


@right(run=_run_contains)
@cuda.jit
def contains_by_atomic(x, wanted, found):
    if x[cuda.grid(1)] == wanted:
        cuda.atomic.exch(found, 0, 1)


@right(run=_run_contains)
@cuda.jit
def contains_by_vote(x, wanted, found):
    if cuda.syncthreads_or(int32(x[cuda.grid(1)] == wanted)) and cuda.threadIdx.x == 0:
        cuda.atomic.or_(found, 0, 1)


def _run_product(kernel):
    x = np.array([2, 1, 3, 1, 1, 2, 1, 1], dtype=np.int32)
    product = np.ones(1, dtype=np.int32)
    kernel[2, 4](x, product)
    assert product[0] == 12


@right(run=_run_product)
@cuda.jit
def product_by_compare_and_swap(x, product):
    """An atomic that the hardware lacks, made of one that it has."""
    v = x[cuda.grid(1)]
    old = cuda.atomic.add(product, 0, 0)
    seen = cuda.atomic.cas(product, 0, old, old * v)
    while seen != old:
        old = seen
        seen = cuda.atomic.cas(product, 0, old, old * v)


@right(run=_run_product)
@cuda.jit
def product_by_compare_and_swap_of_a_plain_read(x, product):
    """As the programming guide makes an atomic of another: a wrong guess is found by the compare-and-swap."""
    v = x[cuda.grid(1)]
    old = product[0]
    seen = cuda.atomic.cas(product, 0, old, old * v)
    while seen != old:
        old = seen
        seen = cuda.atomic.cas(product, 0, old, old * v)


@right(run=_run_product)
@cuda.jit
def product_by_compare_and_swap_of_the_first_element(x, product):
    v = x[cuda.grid(1)]
    while True:
        old = product[0]
        if cuda.atomic.compare_and_swap(product, old, old * v) == old:
            break


def _run_largest(kernel):
    x = np.array([2, 1, 3, 1, 1, 2, 1, 1], dtype=np.int32)
    largest = np.zeros(1, dtype=np.int32)
    kernel[2, 4](x, largest)
    assert largest[0] == 3


@wrong("race", "largest", "global", atomic("second", 0), read("first", 1), run=_run_largest)
@cuda.jit
def largest_by_compare_and_swap_after_a_plain_look(x, largest):
    """The read is more than a guess: it decides, too, whether there is a compare-and-swap."""
    v = x[cuda.grid(1)]
    old = largest[0]  # first
    while old < v:
        seen = cuda.atomic.cas(largest, 0, old, v)  # second
        if seen == old:
            break
        old = seen


@wrong("race", "product", "global", atomic("second", 0), read("first", 1), run=_run_product)
@cuda.jit
def product_by_compare_and_swap_with_a_plain_read_again(x, product):
    """The result of the first read is used, too."""
    v = x[cuda.grid(1)]
    expected = product[0] * v  # first
    cuda.threadfence_block()
    old = product[0]
    seen = cuda.atomic.cas(product, 0, old, expected)  # second
    while seen != old:
        old = seen
        seen = cuda.atomic.cas(product, 0, old, old * v)  # second


def _run_extremes(kernel):
    x = np.sin(np.arange(2 * N)).astype(np.float32)
    extremes = np.array([np.inf, -np.inf], dtype=np.float32)
    kernel[2, N](x, extremes)
    np.testing.assert_array_equal(extremes, [x.min(), x.max()])


@right(run=_run_extremes)
@cuda.jit
def extremes_of_all(x, extremes):
    v = x[cuda.grid(1)]
    cuda.atomic.min(extremes, 0, v)
    cuda.atomic.max(extremes, 1, v)


@wrong("race", "extremes", "global", atomic("first", ANY), write("second", 0, 1), run=_run_extremes)
@cuda.jit
def extremes_cleared_by_the_second_block(x, extremes):
    """A block clears what another may already have put there."""
    if cuda.blockIdx.x == 1 and cuda.threadIdx.x == 0:
        extremes[0] = float32(np.inf)  # second
    cuda.syncthreads()
    v = x[cuda.grid(1)]
    cuda.atomic.min(extremes, 0, v)  # first
    cuda.atomic.max(extremes, 1, v)
