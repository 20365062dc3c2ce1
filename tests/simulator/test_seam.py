"""Numba's own surface on our launch: names, configurations, device functions, exceptions, warnings."""

from __future__ import annotations

import gc
import threading
import traceback
import warnings
import weakref

import numba
import numpy as np
import pytest
from numba import cuda
from numba.cuda import grid, threadIdx
from numba.cuda.simulator.kernel import FakeCUDAKernel

from trifold import KernelFault, KernelWarning, simulator
from trifold.errors import LaunchError
from trifold.simulator import seam


@cuda.jit
def fill(out, value):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = value


def test_every_alias_of_a_name():
    nc = cuda

    @nc.jit
    def kernel(out):
        out[grid(1)] = threadIdx.x + numba.cuda.blockIdx.x * nc.blockDim.x

    out = np.zeros(6)
    kernel[2, 3](out)
    assert out.tolist() == [0, 1, 2, 3, 4, 5]


def test_configurations_of_one_kernel_do_not_overwrite_each_other():
    one, two = fill[1, 1], fill[1, 4]
    out = np.zeros(4)
    one(out, 1)
    two(out[1:], 2)
    assert out.tolist() == [1, 2, 2, 2]
    with pytest.raises(ValueError, match="launch configuration was not specified"):
        fill(out, 1)


def test_configurations_keep_numbas_own_messages():
    with pytest.raises(ValueError, match=r"griddim must be a sequence of 1, 2 or 3 integers, got \[1, 2, 3, 4\]"):
        fill[(1, 2, 3, 4), 1]
    with pytest.raises(TypeError, match=r"blockdim must be a sequence of integers, got \[3\.0\]"):
        fill[1, 3.0]
    with pytest.raises(ValueError, match="Can't create ForAll with negative task count"):
        fill.forall(-1)


def test_a_cooperative_grid_may_have_all_blocks_that_the_gpu_holds():
    overload = fill.overloads[()]
    assert overload.max_cooperative_grid_blocks(1024) == 132 * 2  # sm_90: 2,048 threads a multiprocessor
    assert overload.max_cooperative_grid_blocks((16, 16, 4)) == overload.max_cooperative_grid_blocks(1024)
    assert overload.max_cooperative_grid_blocks(1) == 132 * 32  # 32 blocks a multiprocessor
    assert overload.max_cooperative_grid_blocks(32, dynsmemsize=100 * 1024) == 132 * 2  # 228 KiB a multiprocessor
    with simulator.options(compute_capability="7.5"):
        assert overload.max_cooperative_grid_blocks(1024) == 72

    @cuda.jit
    def whole_grid(out):
        cuda.cg.this_grid().sync()
        out[cuda.grid(1)] = 1

    most = overload.max_cooperative_grid_blocks(1024)
    whole_grid[most, 1024](np.zeros(most * 1024))
    with pytest.raises(LaunchError, match="blocks"):
        whole_grid[most + 1, 1024](np.zeros((most + 1) * 1024))


def test_forall_covers_its_tasks_with_whole_blocks():
    out = np.zeros(5)
    fill.forall(5)(out, 1)
    fill.forall(0)(out, 2)
    assert out.tolist() == [1] * 5

    @cuda.jit
    def unguarded(out):
        out[cuda.grid(1)] = 1

    with pytest.raises(IndexError):
        unguarded.forall(5)(out)


@pytest.mark.parametrize(
    ("configuration", "words"),
    [
        ((0, 1), r"fill: grid is \(0, 1, 1\): 0 blocks in x"),
        ((1, -1), "fill: block is .* -1 threads in x"),
        ((1, 1025), "at most 1,024 threads in x"),
        ((1, (32, 64)), "2,048 threads; compute capability 9.0 has at most 1,024"),
        ((1, (1, 1, 65)), "at most 64 threads in z"),
        (((1, 65536), 1), "at most 65,535 blocks in y"),
        ((1, 1, 0, 232449), "232,449 bytes of dynamic shared memory; compute capability 9.0 has at most 232,448"),
        ((1, 1, 0, -1), "-1 bytes of dynamic shared memory"),
    ],
)
def test_configurations_that_the_gpu_refuses(configuration, words):
    with pytest.raises(LaunchError, match=words):
        fill[configuration](np.zeros(1), 1)


def test_limits_of_another_gpu():
    with simulator.options(compute_capability="sm_75"), pytest.raises(LaunchError, match=r"7\.5 has at most 65,536"):
        fill[1, 1, 0, 70000](np.zeros(1), 1)


def test_explicit_signatures_convert_numbers():
    @cuda.jit("void(float64[:], float32, int32)")
    def kernel(out, x, n):
        out[0] = x + x
        out[1] = cuda.clz(n)

    out = np.zeros(2)
    kernel[1, 1](out, 0.1, 1)
    assert out.tolist() == [2 * float(np.float32(0.1)), 31]


def test_of_several_signatures_the_one_that_fits_is_taken():
    @cuda.jit([(numba.float64[::1], numba.float32, numba.float32), (numba.float64[::1], numba.float64, numba.float64)])
    def kernel(out, x, y):
        out[0] = x + y

    out = np.zeros(1)
    kernel[1, 1](out, np.float32(1), np.float32(2.0**-25))
    assert out[0] == 1
    kernel[1, 1](out, 1.0, 2.0**-25)
    assert out[0] == 1 + 2.0**-25


def test_a_signature_takes_no_number_that_it_would_cut():
    @cuda.jit("void(int32[:], int32)")
    def kernel(out, n):
        out[0] = n

    for number in (1.5, 1j, np.float32(2)):
        with pytest.raises(TypeError, match="kernel: none of its signatures takes"):
            kernel[1, 1](np.zeros(1, np.int32), number)


def test_the_signature_of_a_device_function_converts_what_goes_in_and_out():
    @cuda.jit("int32(int32, int32)", device=True)
    def add(a, b):
        """Its words."""
        if a > 2**30:
            return a + b
        return a + b

    @cuda.jit
    def kernel(out):
        out[0] = add(1.5, 2.5)
        out[1] = add(2**31 - 1, 1)

    out = np.zeros(2)
    kernel[1, 1](out)
    assert out.tolist() == [3, -(2**31)]


def test_device_functions_from_many_places():
    @cuda.jit(device=True)
    def once(x):
        return x + 1

    @cuda.jit  # no device=True: it is called by a kernel, so it is one
    def twice(x):
        return once(once(x))

    @numba.njit
    def compiled(x):
        return x * 2

    def plain(x):
        return x - 1

    @cuda.jit
    def kernel(out, f):
        out[0] = twice(compiled(out[0]))
        out[1] = plain(x=out[1])
        out[2] = f(out[2])

    out = np.ones(3)
    kernel[1, 1](out, once)
    assert out.tolist() == [4, 0, 2]


def test_a_device_function_as_a_value_that_waits():
    @cuda.jit(device=True)
    def swapped(tile, t):
        tile[t] = t
        cuda.syncthreads()
        return tile[tile.size - 1 - t]

    @cuda.jit
    def kernel(out, f):
        tile = cuda.shared.array(4, numba.int32)
        g = f
        out[cuda.grid(1)] = g(tile, cuda.threadIdx.x)

    out = np.zeros(4)
    kernel[1, 4](out, swapped)
    assert out.tolist() == [3, 2, 1, 0]


@cuda.jit
def components(x, out):
    v = cuda.float32x3(x[0], 0.1, 3)
    out[0] = v.x * v.y * v.z
    w = cuda.uint8x2(300, x[1])
    out[1] = w.x + 1000 * w.y


def test_components_of_a_vector_have_its_type():
    out = np.zeros(2)
    components[1, 1](np.array([1 / 3, 7.9]), out)
    expected = np.float32(1 / 3) * np.float32(0.1) * np.float32(3)
    assert out.tolist() == [float(expected), 44 + 7000]


def test_a_launch_in_a_kernel_is_refused():
    @cuda.jit
    def kernel(out):
        fill[1, 1](out, 1)

    with pytest.raises(LaunchError, match="dynamic parallelism"):
        kernel[1, 1](np.zeros(1))
    fill[1, 1](np.zeros(1), 1)  # the next launch works


def test_keyword_arguments_of_a_launch_are_refused():
    with pytest.raises(LaunchError, match="by position"):
        fill[1, 1](np.zeros(1), value=1)


def test_tracebacks_show_the_users_lines_only():
    @cuda.jit
    def kernel(out):
        fill_element(out, cuda.grid(1))

    try:
        kernel[1, 4](np.zeros(3))
    except IndexError as fault:
        names = [frame.name for frame in traceback.extract_tb(fault.__traceback__)]
    assert names == ["test_tracebacks_show_the_users_lines_only", "kernel", "fill_element"]


@cuda.jit(device=True)
def fill_element(out, i):
    out[i] = 1


def test_debug_kernels_raise_on_division_by_zero():
    def divide(out, x):
        out[0] = 1.0 / x

    out = np.zeros(1)
    cuda.jit(divide)[1, 1](out, 0.0)
    assert out[0] == np.inf
    for kind in (ZeroDivisionError, FloatingPointError):
        with pytest.raises(kind):
            cuda.jit(debug=True, opt=False)(divide)[1, 1](out, 0.0)


def test_schedules_find_what_one_order_hides_and_print_once(capsys):
    @cuda.jit
    def kernel(out):
        print(cuda.threadIdx.x)
        out[cuda.threadIdx.x] += 1

    out = np.zeros(2)
    with simulator.options(schedules=5, seed=2):
        kernel[1, 2](out)
    assert out.tolist() == [1, 1]
    assert sorted(capsys.readouterr().out.split()) == ["0", "1"]

    @cuda.jit(debug=True, opt=False)
    def first_wins(out):
        if cuda.atomic.add(out, 0, 1) == 0 and cuda.threadIdx.x != 0:
            raise ValueError("another thread came first")

    out = np.zeros(1)
    with simulator.options(schedules=20), pytest.raises(ValueError, match="another thread came first"):
        first_wins[1, 32](out)
    assert out[0] == 32  # the result is the first schedule's, whatever another one does


def test_the_first_schedule_is_that_of_the_seed():
    @cuda.jit
    def racy(out):
        out[0] = cuda.threadIdx.x

    with simulator.options(schedules=3, seed=4), pytest.raises(KernelFault) as fault:
        racy[1, 2](np.zeros(1))
    assert fault.value.findings[0].seed == 4
    assert "replay: --seed 4" in str(fault.value)


def test_checks_can_be_chosen():
    @cuda.jit
    def racy(out):
        out[0] = cuda.threadIdx.x

    with simulator.options(checks="none"):
        racy[1, 2](np.zeros(1))
    with simulator.options(checks="none"), pytest.raises(IndexError):
        racy[1, 2](np.zeros(0))
    with simulator.options(checks="race"), pytest.raises(KernelFault):
        racy[1, 2](np.zeros(1))


amount = 1
change = cuda.jit(device=True)(lambda x: x + amount)


def test_a_global_that_changes_is_seen(monkeypatch):
    namespace = globals()

    @cuda.jit
    def kernel(out):
        out[0] = change(out[0])

    out = np.zeros(1)
    kernel[1, 1](out)
    monkeypatch.setitem(namespace, "amount", 10)
    kernel[1, 1](out)
    monkeypatch.setitem(namespace, "change", cuda.jit(device=True)(lambda x: x * 2))
    kernel[1, 1](out)
    assert out[0] == 22


def test_programs_do_not_outlive_their_kernels():
    def make(n):
        @cuda.jit(device=True)
        def helper(x):
            cuda.syncthreads()
            return x + n

        @cuda.jit("void(float64[:])")
        def kernel(out):
            out[0] = helper(n)

        return kernel

    out = np.zeros(1)
    kernels = [make(n) for n in range(3)]
    for n, kernel in enumerate(kernels):
        kernel[1, 1](out)
        assert out[0] == 2 * n
    functions = [weakref.ref(kernel.fn) for kernel in kernels]
    del kernels, kernel
    gc.collect()
    assert [function() for function in functions] == [None] * 3


def test_grid_groups_by_import():
    from numba.cuda.cg import this_grid

    @cuda.jit
    def kernel(out):
        out[cuda.grid(1)] = cuda.grid(1)
        this_grid().sync()
        if cuda.grid(1) == 0:
            out[0] = out[7]

    out = np.zeros(8)
    kernel[4, 2](out)
    assert out[0] == 7


def test_python_threads_launch_at_once():
    @cuda.jit
    def count(out):
        tile = cuda.shared.array(1, numba.int32)
        if cuda.threadIdx.x == 0:
            tile[0] = 0
        cuda.syncthreads()
        cuda.atomic.add(tile, 0, 1)
        cuda.syncthreads()
        if cuda.threadIdx.x == 0:
            out[cuda.blockIdx.x] = tile[0]

    results = [np.zeros(20) for _ in range(4)]
    threads = [threading.Thread(target=count[20, 32], args=(out,)) for out in results]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all((out == 32).all() for out in results)


def test_interrupted_launches_leave_nothing_behind():
    @cuda.jit
    def kernel(out):
        cuda.syncthreads()
        if cuda.threadIdx.x == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        kernel[1, 8](np.zeros(1))
    fill[1, 1](np.zeros(1), 1)


def test_kernels_keep_what_numba_gives_them():
    assert fill.py_func is fill.fn
    assert fill.specialize(np.zeros(1), 1) is fill
    assert isinstance(fill[1, 1], FakeCUDAKernel)
    assert fill[1, 1].__name__ == "fill"


def test_taken_out_the_seam_leaves_numba_as_it_was():
    ours = FakeCUDAKernel.__call__
    seam.take_out()
    try:
        assert FakeCUDAKernel.__call__ is not ours
        assert not hasattr(cuda, "grid")
    finally:
        seam.put_in()
    out = np.zeros(1)
    fill[1, 1](out, 3)
    assert out[0] == 3


def test_a_warning_of_a_kernel_points_at_the_launch():
    @cuda.jit
    def kernel(x, y):
        y[cuda.grid(1)] = x[cuda.grid(1)] + 1

    data = np.zeros(4)
    with pytest.warns(KernelWarning, match="x and y are the same host memory") as issued:
        kernel[1, 4](data, data)  # here
    assert issued[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kernel[1, 4](cuda.to_device(data), cuda.to_device(data))
        device = cuda.to_device(data)
        kernel[1, 4](device, device)
