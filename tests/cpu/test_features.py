"""Features of CUDA besides arithmetic work on the CPU as documented, and checks find their misuse."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from torch import Tensor

from tests.cpu.workspace import HERE, op_of
from trifold import KernelFault
from trifold.build.sources import INCLUDE_ROOT
from trifold.cpu import runtime
from trifold.findings import collect
from trifold.implementation import load_checked_port, load_port
from trifold.workspace import OpFiles

Features = Callable[[Tensor, int], Tensor]

BLOCK = 64
X = torch.arange(2 * BLOCK, dtype=torch.float32)
ONE = X[:BLOCK]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> OpFiles:
    return op_of("features", tmp_path_factory.mktemp("workspace"))


@pytest.fixture(scope="module")
def plain(files: OpFiles) -> Features:
    return load_port(files).function


@pytest.fixture(scope="module")
def checked(files: OpFiles) -> Features:
    return load_checked_port(files).function


@dataclass(frozen=True)
class Right:
    """A right kernel: its number, and the expected results for the first elements of X."""

    name: str
    number: int
    expected: Tensor

    def __str__(self) -> str:
        return self.name


LANE = torch.arange(BLOCK) % 4
RIGHT = (
    Right("extern shared arrays in a function and outside are one", 0, ONE.flip(0)),
    Right("extern shared arrays in a template", 2, X.reshape(-1, 2).sum(1).repeat_interleave(2)),
    Right("constant and device variables", 3, ONE * (LANE + 1) + LANE**2),
    Right("a device variable that a kernel writes", 5, (LANE**2).float()),
    Right("assertions that hold", 7, torch.ones(2 * BLOCK)),
    Right("reductions of a warp, of halves, of three lanes", 11, torch.ones(BLOCK)),
    Right("tiles and coalesced groups", 12, ONE.reshape(-1, 8).sum(1).repeat_interleave(8)),
    Right("atomics of all types", 14, torch.full((BLOCK,), 11111.0)),
    Right("hints, clocks, qualifiers", 15, 2 * ONE + 6),
    Right("tensors in a struct", 19, ONE + 1),
    Right("inline PTX", 21, ONE.reshape(-1, 2).flip(1).flatten()),
    Right("torch's half", 17, (ONE.half() * ONE.half() + 1).float()),
    Right("torch's bfloat16", 18, (ONE.bfloat16() * ONE.bfloat16() + 1).float()),
    Right("atomics on a device variable", 101, (5 * ONE.sum())[None]),
)


@pytest.mark.parametrize("case", RIGHT, ids=str)
def test_it_works_as_in_cuda(case: Right, plain: Features) -> None:
    assert torch.equal(plain(X, case.number)[: case.expected.numel()], case.expected)


@pytest.mark.parametrize("case", RIGHT, ids=str)
def test_checks_find_nothing_in_its_right_use(case: Right, checked: Features) -> None:
    with runtime.schedules(3), collect() as found:
        assert torch.equal(checked(X, case.number)[: case.expected.numel()], case.expected)
    assert found == []


@dataclass(frozen=True)
class Wrong:
    """A wrong kernel: its number, and its finding; ``line`` is a part of the line of the finding."""

    name: str
    number: int
    kind: str
    memory: str
    array: str
    index: int
    line: str

    def __str__(self) -> str:
        return self.name


WRONG = (
    Wrong("extern shared memory, too small", 1, "out-of-bounds", "shared", "dynamic shared memory", 63, "tile[t] = x"),
    Wrong("a sum in a device variable", 4, "race", "global", "total", 0, "total += x"),
    Wrong("beyond a device variable", 6, "out-of-bounds", "global", "squares", 4, "y[threadIdx.x] = tables::squares["),
    Wrong("beyond a tensor in a struct", 20, "out-of-bounds", "global", "tensor", 128, "pair.to[i] ="),
    Wrong("__ldg of written data", 16, "uninitialised read", "global", "y", 1, "__ldg(y + (threadIdx.x + 1)"),
    Wrong("inline PTX without its barrier", 22, "uninitialised read", "shared", "dynamic shared memory", 1, "y[t] ="),
    Wrong("an atomic and a plain write", 100, "race", "global", "y", 0, "y[0] = 2;"),
)


@pytest.mark.parametrize("case", WRONG, ids=str)
def test_checks_find_its_misuse(case: Wrong, checked: Features) -> None:
    with pytest.raises(KernelFault) as caught:
        checked(X, case.number)
    (finding,) = caught.value.findings
    expected = (case.kind, case.memory, case.array, (case.index,))
    assert (finding.kind, finding.memory, finding.array, finding.index) == expected
    access = finding.accesses[0]
    assert Path(access.file).name == "features.cuh"
    assert case.line in Path(access.file).read_text().splitlines()[access.line - 1]
    assert torch.equal(checked(X, 0)[:BLOCK], ONE.flip(0))


ENDINGS = (
    (
        8,
        r"a failed assertion, t != worst, in kernel assert_kernel .*thread \(6, 0, 0\) of block \(1, 0, 0\) at",
        "t != w",
    ),
    (9, r"failed assertion.* in kernel late_assert_kernel .*thread \(5, 0, 0\) of block \(0, 0, 0\) at", ") != worst"),
    (10, r"a trap in kernel trap_kernel ends the launch: thread \(3, 0, 0\) of block \(0, 0, 0\) at", "__trap();"),
    (13, r"a barrier of the grid in a launch that is not cooperative.*thread \(0, 0, 0\)", "grid.sync();"),
)


@pytest.mark.parametrize(("number", "says", "line"), ENDINGS)
def test_a_kernel_that_gives_up_ends_its_launch_only(
    number: int, says: str, line: str, plain: Features, checked: Features
) -> None:
    source = (HERE / "features.cuh").read_text().splitlines()
    at = next(i for i, text in enumerate(source, 1) if line in text)
    for function in (plain, checked):
        with pytest.raises(RuntimeError, match=rf"{says}.*features\.cuh:{at}"):
            function(X, number)
        assert torch.equal(function(X, 0)[:BLOCK], ONE.flip(0))


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="there is no nvcc")
def test_nvcc_compiles_the_same_source(tmp_path: Path) -> None:
    command = ["nvcc", "-std=c++20", "-arch=sm_90", "-x", "cu", f"-I{INCLUDE_ROOT}", "-c", str(HERE / "features.cuh")]
    done = subprocess.run([*command, "-o", str(tmp_path / "made.o")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
