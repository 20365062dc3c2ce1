"""Indices outside their arrays."""

import numpy as np
from numba import cuda, float32, float64, int32

from tests.simulator.catalogue.case import atomic, read, right, write, wrong

N = 64


def _run_copy(kernel):
    n = 100
    x = np.arange(n, dtype=np.float32)
    y = np.zeros_like(x)
    kernel[2, N](x, y, n)
    np.testing.assert_array_equal(y, 2 * x)


@right(run=_run_copy)
@cuda.jit
def double(x, y, n):
    i = cuda.grid(1)
    if i < n:
        y[i] = 2 * x[i]


@wrong("out-of-bounds", "x", "global", read("first", 36, 1), run=_run_copy)
@cuda.jit
def double_with_guard_off_by_one(x, y, n):
    i = cuda.grid(1)
    if i <= n:
        y[i] = 2 * x[i]  # first


@wrong("out-of-bounds", "x", "global", read("first", 36, 1), run=_run_copy)
@cuda.jit
def double_without_guard(x, y, n):
    i = cuda.grid(1)
    y[i] = 2 * x[i]  # first


@right(run=_run_copy)
@cuda.jit
def double_with_early_return(x, y, n):
    i = cuda.grid(1)
    if i >= n:
        return
    y[i] = 2 * x[i]


def _run_fill(kernel):
    y = np.zeros(100, dtype=np.float32)
    kernel[2, N](y, 3)
    assert (y == 3).all()


@right(run=_run_fill)
@cuda.jit
def fill(y, value):
    i = cuda.grid(1)
    if i < y.size:
        y[i] = value


@wrong("out-of-bounds", "y", "global", write("first", 36, 1), run=_run_fill)
@cuda.jit
def fill_without_guard(y, value):
    y[cuda.grid(1)] = value  # first


def _run_column_sums(kernel):
    rows, columns = 5, 7
    x = np.arange(rows * columns, dtype=np.float64)
    sums = np.zeros(columns)
    kernel[1, 32](x, sums, rows, columns)
    np.testing.assert_array_equal(sums, x.reshape(rows, columns).sum(axis=0))


@right(run=_run_column_sums)
@cuda.jit
def column_sums(x, sums, rows, columns):
    """x is a matrix in row order, as one long array."""
    j = cuda.grid(1)
    if j < columns:
        s = float64(0)
        for i in range(rows):
            s += x[i * columns + j]
        sums[j] = s


@wrong("out-of-bounds", "x", "global", read("first", 0), run=_run_column_sums)
@cuda.jit
def column_sums_with_row_stride_too_long(x, sums, rows, columns):
    """Rows are taken to be padded to eight elements."""
    j = cuda.grid(1)
    if j < columns:
        s = float64(0)
        for i in range(rows):
            s += x[i * (columns + 2) + j]  # first
        sums[j] = s


def _run_neighbour_differences(kernel):
    x = np.arange(40, dtype=np.float32) ** 2
    y = np.zeros_like(x)
    kernel[1, N](x, y)
    np.testing.assert_array_equal(y, x - np.roll(x, 1))


@right(run=_run_neighbour_differences)
@cuda.jit
def ring_difference(x, y):
    """The left neighbour of element 0 is x[-1]: a negative index counts from the end, on the GPU too."""
    i = cuda.grid(1)
    if i < x.size:
        y[i] = x[i] - x[i - 1]


@wrong("out-of-bounds", "x", "global", read("first", 0), run=_run_neighbour_differences)
@cuda.jit
def ring_difference_from_far_below(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = x[i] - x[i - 1 - x.size]  # first


def _run_dynamic_reverse(kernel):
    x = np.arange(N, dtype=np.float32)
    y = np.zeros_like(x)
    kernel[1, N, 0, 4 * N](x, y)
    np.testing.assert_array_equal(y, x[::-1])


@right(run=_run_dynamic_reverse)
@cuda.jit
def reverse_in_dynamic_shared_memory(x, y):
    tile = cuda.shared.array(0, float32)
    t = cuda.threadIdx.x
    tile[t] = x[t]
    cuda.syncthreads()
    y[t] = tile[cuda.blockDim.x - 1 - t]


@wrong("out-of-bounds", "tile", "shared", write("first", N - 1), run=_run_dynamic_reverse)
@cuda.jit
def reverse_past_dynamic_shared_memory(x, y):
    """Counts from one; the launch has room for as many elements as threads."""
    tile = cuda.shared.array(0, float32)
    t = cuda.threadIdx.x
    tile[t + 1] = x[t]  # first
    cuda.syncthreads()
    y[t] = tile[cuda.blockDim.x - t]


@wrong("out-of-bounds", "tile", "shared", write("first", N // 2), run=_run_dynamic_reverse)
@cuda.jit
def reverse_of_doubles_in_room_for_floats(x, y):
    tile = cuda.shared.array(0, float64)
    t = cuda.threadIdx.x
    tile[t] = x[t]  # first
    cuda.syncthreads()
    y[t] = tile[cuda.blockDim.x - 1 - t]


def _run_histogram(kernel):
    x = np.linspace(0, 1, N)
    hist = np.zeros(8, dtype=np.int32)
    kernel[1, N](x, hist)
    np.testing.assert_array_equal(hist, np.histogram(x, bins=8, range=(0, 1))[0])


@right(run=_run_histogram)
@cuda.jit
def histogram_of_unit_interval(x, hist):
    """The last bin includes its upper edge."""
    b = min(int32(x[cuda.grid(1)] * hist.size), hist.size - 1)
    cuda.atomic.add(hist, b, 1)


@wrong("out-of-bounds", "hist", "global", atomic("first", N - 1), run=_run_histogram)
@cuda.jit
def histogram_without_the_last_edge(x, hist):
    b = int32(x[cuda.grid(1)] * hist.size)
    cuda.atomic.add(hist, b, 1)  # first


def _run_polynomial(kernel):
    """Powers of each element, kept in a local array."""
    x = np.arange(32, dtype=np.float64)
    coefficients = np.array([1.0, -2.0, 3.0, 0.5])
    y = np.zeros_like(x)
    kernel[1, 32](coefficients, x, y)
    np.testing.assert_array_equal(y, np.polyval(coefficients[::-1], x))


@right(run=_run_polynomial)
@cuda.jit
def polynomial(coefficients, x, y):
    powers = cuda.local.array(4, float64)
    i = cuda.grid(1)
    powers[0] = 1
    for k in range(1, 4):
        powers[k] = powers[k - 1] * x[i]
    s = float64(0)
    for k in range(coefficients.size):
        s += coefficients[k] * powers[k]
    y[i] = s


@wrong("out-of-bounds", "powers", "local", write("first", 0), run=_run_polynomial)
@cuda.jit
def polynomial_past_its_local_array(coefficients, x, y):
    powers = cuda.local.array(4, float64)
    i = cuda.grid(1)
    powers[0] = 1
    for k in range(4):
        powers[k + 1] = powers[k] * x[i]  # first
    s = float64(0)
    for k in range(coefficients.size):
        s += coefficients[k] * powers[k]
    y[i] = s


def _run_border(kernel):
    image = np.zeros((6, 9), dtype=np.int32)
    kernel[(2, 1), (8, 8)](image)
    want = np.ones((6, 9), dtype=np.int32)
    want[1:-1, 1:-1] = 0
    np.testing.assert_array_equal(image, want)


@right(run=_run_border)
@cuda.jit
def border(image):
    x, y = cuda.grid(2)
    height, width = image.shape
    if x < width and y < height and (x in (0, width - 1) or y in (0, height - 1)):
        image[y, x] = 1


@wrong("out-of-bounds", "image", "global", write("first", (6, 0, 0)), run=_run_border)
@cuda.jit
def border_with_swapped_index(image):
    """image[x, y] for image[y, x]: in the square part of the picture nobody notices."""
    x, y = cuda.grid(2)
    height, width = image.shape
    if x < width and y < height and (x in (0, width - 1) or y in (0, height - 1)):
        image[x, y] = 1  # first


@wrong("out-of-bounds", "image", "global", write("first", (1, 0, 0), (1, 0, 0)), run=_run_border)
@cuda.jit
def border_past_the_row(image):
    """Column 9 of row 0 is in memory the first element of row 1: no crash on a GPU, a wrong pixel."""
    x, y = cuda.grid(2)
    height, width = image.shape
    if x <= width and y < height and (x in (0, width) or y in (0, height - 1)):
        image[y, x] = 1  # first


def _run_window(kernel):
    """The kernel is given a window of an array."""
    whole = np.zeros(100, dtype=np.float32)
    kernel[1, N](whole[10:60])
    want = np.zeros(100, dtype=np.float32)
    want[10:60] = np.arange(50)
    np.testing.assert_array_equal(whole, want)


@right(run=_run_window)
@cuda.jit
def number_a_window(window):
    i = cuda.grid(1)
    if i < window.size:
        window[i] = i


@wrong("out-of-bounds", "window", "global", write("first", 50), run=_run_window)
@cuda.jit
def number_past_a_window(window):
    """The memory past the end of the window belongs to the same array of the host, but not to the argument."""
    i = cuda.grid(1)
    window[i] = i  # first
