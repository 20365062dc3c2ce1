"""Tensors that a prototype's launch function allocates: what torch writes of them counts as written, nothing else."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from numba import cuda
from torch import Tensor

from tests.cpu.workspace import op_of
from trifold import KernelFault, simulator
from trifold.implementation import load_prototype
from trifold.prototype import launch, output
from trifold.simulator import fresh

N = 1000


@cuda.jit
def add_one(y, first, n):
    i = cuda.grid(1)
    if i < n:
        y[first + i] += 1


@cuda.jit
def count(y):
    cuda.atomic.add(y, 0, 1)


@cuda.jit
def write(y, n):
    i = cuda.grid(1)
    if i < n:
        y[i] = 2


def numbers(dtype: torch.dtype) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    if dtype.is_floating_point:
        return torch.randn(N, generator=generator).to(dtype)
    limits = torch.iinfo(dtype)
    return torch.randint(limits.min, limits.max, (N,), generator=generator).to(dtype)


def run(begin: Callable[[Tensor], Tensor], x: Tensor, first: int = 0, n: int = N) -> Tensor:
    """What a launch function makes that begins its output so, and then adds one to elements [first, first + n)."""

    def launcher(x: Tensor) -> Tensor:
        y = begin(x)
        launch(add_one, -(-n // 64), output(y), first, n, block=64)
        return y

    return fresh.watching(launcher)(x)


def empty(x: Tensor) -> Tensor:
    return torch.empty(x.shape, dtype=x.dtype)


def half_zeroed(x: Tensor) -> Tensor:
    y = torch.empty_like(x)
    y[: N // 2].zero_()
    return y


def every_second(x: Tensor) -> Tensor:
    return x.new_empty(2 * N)[::2].zero_()


def half_by_a_kernel(x: Tensor) -> Tensor:
    y = half_zeroed(x)
    launch(write, 8, output(y[N // 2 :]), N - N // 2, block=64)
    return y


BEGUN: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]] = {
    "zero_": (lambda x: empty(x).zero_(), torch.zeros_like),
    "fill_": (lambda x: empty(x).fill_(-1), lambda x: torch.full_like(x, -1)),
    "copy_": (lambda x: torch.empty_strided(x.shape, x.stride(), dtype=x.dtype).copy_(x), torch.clone),
    "an index": (lambda x: empty(x).index_copy_(0, torch.arange(N), x), torch.clone),
    "NumPy": (lambda x: torch.from_numpy(np.zeros_like(x.numpy())), torch.zeros_like),
    "every second element": (every_second, torch.zeros_like),
    "a kernel": (half_by_a_kernel, lambda x: torch.where(torch.arange(N) < N // 2, 0, 2).to(x.dtype)),
}
DTYPES = (torch.float64, torch.float32, torch.float16, torch.int32, torch.int8)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("how", BEGUN)
def test_what_others_write_is_written(how: str, dtype: torch.dtype) -> None:
    begin, begun = BEGUN[how]
    x = numbers(dtype)
    expected = begun(x)
    assert torch.equal(run(begin, x), expected.float().add(1).to(dtype) if dtype == torch.float16 else expected + 1)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    ("begin", "first", "count", "index"),
    [(empty, 0, N, 0), (empty, 17, 1, 17), (half_zeroed, 0, N, N // 2), (half_zeroed, N - 1, 1, N - 1)],
)
def test_what_nobody_writes_is_found(
    begin: Callable[[Tensor], Tensor], first: int, count: int, index: int, dtype: torch.dtype
) -> None:
    with pytest.raises(KernelFault) as caught:
        run(begin, numbers(dtype), first, count)
    (finding,) = caught.value.findings
    assert (finding.kind, finding.array, finding.index) == ("uninitialised read", "y", (index,))


def test_a_copy_of_what_nobody_wrote_is_unwritten_where_a_launch_makes_it() -> None:
    with pytest.raises(KernelFault, match=r"uninitialised read of global array element y\[0\]"):
        run(lambda x: x.new_empty(2 * N)[::2], numbers(torch.float32))


@pytest.mark.parametrize("begins", [True, False])
def test_an_atomic(begins: bool) -> None:
    def launcher() -> Tensor:
        y = torch.empty(1, dtype=torch.int32)
        if begins:
            y.zero_()
        launch(count, 3, output(y), block=1)
        return y

    if begins:
        assert fresh.watching(launcher)().item() == 3
    else:
        with pytest.raises(KernelFault, match="uninitialised read"):
            fresh.watching(launcher)()


def test_what_a_kernel_has_not_written_is_unwritten_for_the_next_one_in_every_schedule() -> None:
    def launcher() -> Tensor:
        y = torch.empty(N)
        launch(write, 8, output(y), N // 2, block=64)
        launch(add_one, 8, output(y), 0, N // 2, block=64)
        return y

    with simulator.options(schedules=3):
        y = fresh.watching(launcher)()
        assert (y[: N // 2] == 3).all()
        assert y[N // 2 :].isnan().all(), "what is not written is nan in every floating type"
        with pytest.raises(KernelFault, match=rf"y\[{N // 2}\]"):
            fresh.watching(lambda: launch(add_one, 16, output(launcher()), 0, N, block=64))()


def test_nothing_is_unwritten_without_the_check_and_after_the_call() -> None:
    with simulator.options(checks="race"):
        run(empty, numbers(torch.int8))
    y = fresh.watching(empty)(numbers(torch.float32))
    assert fresh.unwritten(y) is None
    launch(add_one, 1, output(y), 0, 1)


PROTOTYPE = """
import torch
from numba import cuda
from trifold.prototype import launch, output

@cuda.jit
def total_kernel(x, y):
    cuda.atomic.add(y, 0, x[cuda.grid(1)])

def total(x):
    y = x.new_empty(1)
    {begin}
    launch(total_kernel, 1, x, output(y), block=32)
    return y
"""
PORT = """
from trifold.port import wire

def register(op):
    op.define("total(Tensor x) -> Tensor", fake=lambda x: x.new_empty(1))

def total(x):
    return op.total(x)

op = wire(__name__, register)
"""


def total(tmp_path, begin: str) -> Callable[[Tensor], Tensor]:
    files = op_of("total", tmp_path, cuh="", cu="", py=PORT)
    files.prototype.write_text(PROTOTYPE.format(begin=begin))
    return load_prototype(files, "cpu").function


def test_the_launch_functions_of_an_op_are_watched(tmp_path) -> None:
    assert total(tmp_path, "y.zero_()")(torch.ones(32)).item() == 32


def test_a_sum_of_an_op_that_nobody_begins(tmp_path) -> None:
    with pytest.raises(KernelFault, match="uninitialised read"):
        total(tmp_path, "pass")(torch.ones(32))
