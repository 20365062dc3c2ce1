"""New tensors of a checked port: writes by torch or the host count as writes, and nothing else does."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor

from tests.cpu.workspace import op_of
from trifold import KernelFault
from trifold.cpu import runtime
from trifold.implementation import load_checked_port

Fresh = Callable[[Tensor, str, int, int], Tensor]

N = 4096  # of int8 elements, some equal the fill pattern of unwritten ones


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Fresh:
    return load_checked_port(op_of("fresh", tmp_path_factory.mktemp("workspace"))).function


@pytest.fixture
def recording() -> Iterator[None]:
    runtime.record_writes(True)
    yield
    runtime.record_writes(False)


DTYPES = (torch.float32, torch.float16, torch.int32, torch.int8)


def numbers(dtype: torch.dtype) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    if dtype.is_floating_point:
        return torch.randn(N, generator=generator).to(dtype)
    limits = torch.iinfo(dtype)
    return torch.randint(limits.min, limits.max, (N,), generator=generator).to(dtype)


BEGUN: dict[str, Callable[[Tensor], Tensor]] = {
    "zero_": torch.zeros_like,
    "new_zeros": torch.zeros_like,
    "empty_like of torch and zero_": torch.zeros_like,
    "fill_ with -1": lambda x: torch.full_like(x, -1),
    "fill_ with 127": lambda x: torch.full_like(x, 127),
    "fill_ with -13": lambda x: torch.full_like(x, -13),
    "a loop of the host": lambda x: torch.full_like(x, 3),
    "copy_": torch.clone,
    "reused memory": torch.clone,
    "a kernel for the second half": lambda x: torch.where(torch.arange(N) < N // 2, 0, 2).to(x.dtype),
}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("how", BEGUN)
def test_what_others_write_is_written(how: str, dtype: torch.dtype, fresh: Fresh) -> None:
    x = numbers(dtype)
    assert torch.equal(fresh(x, how, 0, N), BEGUN[how](x) + 1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
def test_nan_is_written_too(dtype: torch.dtype, fresh: Fresh) -> None:
    assert fresh(numbers(dtype), "fill_ with nan", 0, N).isnan().all()


def test_an_atomic_on_what_torch_has_zeroed(fresh: Fresh) -> None:
    for size in (1, 3, N):
        assert fresh(torch.ones(size), "zero_", 0, -1)[0].item() == 1


def test_the_zeroed_half_can_be_read(fresh: Fresh) -> None:
    assert (fresh(torch.ones(N), "zero_ of the first half", 0, N // 2)[: N // 2] == 1).all()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    ("how", "first", "count", "index"),
    [
        ("nothing", 0, N, 0),
        ("nothing", 100, 1, 100),
        ("empty_like of torch", 0, N, 0),
        ("zero_ of the first half", 0, N, N // 2),
        ("zero_ of the first half", N - 1, 1, N - 1),
    ],
)
def test_what_nobody_writes_is_found(
    how: str, first: int, count: int, index: int, dtype: torch.dtype, fresh: Fresh
) -> None:
    with pytest.raises(KernelFault) as caught:
        fresh(numbers(dtype), how, first, count)
    (finding,) = caught.value.findings
    assert (finding.kind, finding.array, finding.index) == ("uninitialised read", "y", (index,))


@pytest.mark.parametrize("dtype", [torch.float32, torch.int32], ids=str)
def test_one_element_that_is_left_out_is_found(dtype: torch.dtype, fresh: Fresh) -> None:
    with pytest.raises(KernelFault, match=rf"uninitialised read of global array element y\[{N - 1}\]"):
        fresh(numbers(dtype), "zero_ of all but the last", 0, N)


def test_an_atomic_on_what_nobody_wrote(fresh: Fresh) -> None:
    for size in (1, 3, N):
        with pytest.raises(KernelFault, match="uninitialised read"):
            fresh(torch.ones(size), "nothing", 0, -1)


def test_what_torch_writes_is_not_a_kernels(fresh: Fresh, recording: None) -> None:
    y = fresh(torch.ones(N), "zero_", 100, 50)
    written = torch.frombuffer(bytearray(runtime.written(y.data_ptr(), y.nbytes)), dtype=torch.uint8).view(N, 4)
    assert torch.equal(written.bool().all(1).nonzero().flatten(), torch.arange(100, 150))
