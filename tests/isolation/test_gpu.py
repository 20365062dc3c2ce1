"""An op's process that uses a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from tests.isolation.probes import PROBES, replace_function
from tests.wrong.entry import copy_of_gallery
from trifold.cells import CellName
from trifold.isolation.device_memory import staged
from trifold.verification.job import Job
from trifold.verification.remote import OpProcess
from trifold.verification.remote_errors import OpDied
from trifold.verification.worker import _starter

_LOSES_THE_GPU = """
def _lose_the_gpu(x, y):
    from numba import cuda

    @cuda.jit
    def kernel(out):
        out[2**40] = 1

    kernel[1, 1](x)
    return x + y


DOES["lose the gpu"] = _lose_the_gpu


"""


@pytest.fixture
def on_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OpProcess]:
    monkeypatch.setenv("NUMBA_ENABLE_CUDASIM", "0")
    workspace = copy_of_gallery("add", tmp_path)
    replace_function(workspace, PROBES + _LOSES_THE_GPU)
    name = CellName("add", "port", "cuda")
    made = OpProcess(_starter(Job(str(workspace.root), name)), timeout=120, device="cuda")
    made.load(build=False)
    yield made
    made.close()


@pytest.mark.gpu
def test_large_tensors_stay_on_the_gpu(on_gpu: OpProcess) -> None:
    x = torch.randn(2**24 + 3, device="cuda")
    assert on_gpu._open().outgoing.on_gpu, "memory of one process cannot be mapped by the other"
    made = on_gpu.function(x, x, "")
    assert torch.equal(made, x + x)
    again = on_gpu.function(x, made, "change")  # which multiplies x by 2
    assert torch.equal(x, made), "an argument has what the call left there"
    assert torch.equal(again, 2 * made)
    on_gpu.settle()
    assert torch.equal(on_gpu.function(made, made, ""), 2 * made)


@pytest.mark.gpu
def test_small_tensors_of_a_gpu_are_copied_whatever_their_strides_and_large_ones_stay() -> None:
    torch.cuda._sleep(100_000_000)  # so that a copy that is read too early has other numbers
    x = torch.randn(6, 70, 8, device="cuda", dtype=torch.complex64)
    tensors = [
        x,
        x.permute(2, 0, 1),
        x.transpose(0, 1)[..., ::2],
        x.real,
        x.conj(),
        x.conj().imag,
        x[:1].expand(5, 70, 8),
        x[:0],
        x[0, 0, 0],
        x.requires_grad_(),
        torch.arange(3, device="cuda"),
        torch.ones(2),
        torch.ones(2**20 + 1, device="cuda"),
    ]
    copies = staged(tensors)
    assert [copy.device.type for copy in copies] == ["cpu"] * (len(tensors) - 1) + ["cuda"]
    for copy, tensor in zip(copies, tensors, strict=True):
        assert torch.equal(copy.cpu(), tensor.detach().cpu())
    assert copies[-1] is tensors[-1]
    assert not any(copy.requires_grad for copy in copies)


@pytest.mark.gpu
def test_a_fault_on_the_gpu_ends_the_process_and_the_next_one_works(on_gpu: OpProcess) -> None:
    x = torch.ones(8, device="cuda")
    with pytest.raises(OpDied, match="illegal memory access"):
        on_gpu.function(x, x, "lose the gpu")
    assert on_gpu.deaths == 1
    assert torch.equal(on_gpu.function(x, x, ""), x + x)


@pytest.mark.gpu
@pytest.mark.slow(seconds=90)
def test_numba_compiles_a_kernel_for_a_gpu_once_for_all_processes_of_a_cell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled = tmp_path / "compiled"
    monkeypatch.setenv("NUMBA_ENABLE_CUDASIM", "0")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(compiled))
    x = torch.randn(100, device="cuda")
    starter = _starter(Job(str(copy_of_gallery("add", tmp_path).root), CellName("add", "prototype", "cuda")))
    kept: list[dict[Path, int]] = []
    for _ in range(2):
        process = OpProcess(starter, timeout=120, device="cuda")
        process.load(build=False)
        assert torch.equal(process.function(x, x), x + x)
        process.close()
        kept.append({path: path.stat().st_mtime_ns for path in compiled.rglob("*.nbc")})
    assert kept[0]
    assert kept[0] == kept[1]
