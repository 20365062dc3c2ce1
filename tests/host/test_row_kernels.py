"""The row kernels that a GPU chooses run on the CPU, on each of their paths: right, and clean in several orders.

A path is the template of a kernel; dtype, rows, columns, and where rows begin, decide which one takes a call.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
import torch

from tests.wrong.entry import quick_gxx
from trifold.build import sources
from trifold.errors import LaunchError
from trifold.findings import KernelWarning
from trifold.host import runtime, settings
from trifold.implementation import Implementation, load_checked_port, load_port, reference
from trifold.spec import Call, Limits, TensorCase
from trifold.spec.case import Layout
from trifold.verification.cell import Cell, Search
from trifold.verification.checks.differentiation import RightGradients, differentiate
from trifold.verification.checks.values import compare
from trifold.verification.load_spec import load_spec
from trifold.workspace import OpFiles, Workspace

GALLERY = Workspace.at(Path(__file__).parents[2])
SEEDS = 3
PLAIN = ("softmax", "rms_norm")  # built without checks, too, which takes half a minute for the others

half, single = torch.bfloat16, torch.float32


@dataclass(frozen=True)
class Rows:
    """Rows of an op's argument, and the kernels that take them forward and backward."""

    op: str
    dtype: torch.dtype
    rows: int
    columns: int
    forward: str
    backward: str
    layout: Layout = "contiguous"
    parameters: Layout = "contiguous"

    def __str__(self) -> str:
        dtype = str(self.dtype).removeprefix("torch.")
        layouts = [each for each in (self.layout, self.parameters) if each != "contiguous"]
        return "-".join([self.op, dtype, f"{self.rows}x{self.columns}", *layouts])

    def call(self) -> Call:
        x = TensorCase((self.rows, self.columns), self.dtype, layout=self.layout, seed=1)
        if self.op == "softmax":
            return Call((x,))
        if self.op == "cross_entropy":
            return Call((x, TensorCase((self.rows,), torch.int64, fill="zero")))
        count = 2 if self.op == "layer_norm" else 1
        numbers = [TensorCase((self.columns,), self.dtype, layout=self.parameters, seed=2 + i) for i in range(count)]
        return Call((x, *numbers))


# Eight clusters of a block at once, or one of eight: see resident_clusters in trifold/launch.cuh.
ROWS = (
    # In registers of a cluster, whole and not.
    Rows("softmax", half, 3, 16_392, "rows_kernel", "rows_kernel"),
    Rows("softmax", half, 3, 20_001, "rows_kernel", "rows_kernel"),
    Rows("softmax", single, 3, 16_388, "rows_kernel", "rows_kernel"),
    # The longest rows stream.
    Rows("softmax", single, 4, 131_076, "stream_kernel", "stream_kernel"),
    Rows("cross_entropy", half, 3, 16_392, "rows_kernel", "pieces_kernel"),
    Rows("cross_entropy", half, 3, 20_001, "rows_kernel", "pieces_kernel"),
    Rows("cross_entropy", single, 3, 16_388, "rows_kernel", "pieces_kernel"),
    # Backward, in the order of choose_row_stream: a part of a warp to a row, a warp, warps, clusters.
    Rows("layer_norm", half, 300, 64, "rows_kernel", "stream_kernel"),
    Rows("layer_norm", half, 70, 512, "groups_kernel", "stream_kernel"),
    Rows("layer_norm", half, 70, 1_001, "rows_kernel", "stream_kernel"),
    Rows("layer_norm", half, 20, 2_048, "rows_kernel", "stream_kernel"),
    Rows("layer_norm", half, 20, 4_104, "rows_kernel", "stream_kernel"),
    Rows("layer_norm", half, 9, 5_700, "tensor_kernel", "stream_kernel"),
    Rows("layer_norm", half, 9, 5_700, "tensor_kernel", "kernel", "padded", "offset"),
    Rows("layer_norm", half, 7, 10_004, "rows_kernel", "stream_kernel"),
    Rows("layer_norm", half, 5, 16_400, "rows_kernel", "stream_kernel"),
    Rows("layer_norm", single, 300, 100, "groups_kernel", "stream_kernel"),
    Rows("layer_norm", single, 20, 2_052, "rows_kernel", "stream_kernel"),
    Rows("layer_norm", single, 12, 4_100, "rows_kernel", "stream_kernel"),
    Rows("layer_norm", single, 12, 4_102, "rows_kernel", "stream_kernel"),
    Rows("layer_norm", single, 5, 12_289, "rows_kernel", "stream_kernel"),
    Rows("layer_norm", single, 5, 65_540, "stream_kernel", "stream_kernel"),
    Rows("layer_norm", single, 3, 65_537, "stream_kernel", "kernel"),
    Rows("rms_norm", half, 70, 512, "groups_kernel", "stream_kernel"),
    Rows("rms_norm", half, 20, 4_104, "rows_kernel", "stream_kernel"),
    Rows("rms_norm", half, 9, 5_700, "rows_kernel", "stream_kernel"),
    Rows("rms_norm", half, 3, 20_001, "rows_kernel", "stream_kernel"),
    Rows("rms_norm", single, 300, 100, "groups_kernel", "stream_kernel"),
    Rows("rms_norm", single, 12, 8_196, "rows_kernel", "stream_kernel"),
    Rows("rms_norm", single, 3, 65_540, "stream_kernel", "stream_kernel"),
)  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def _quick_builds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CXX", str(quick_gxx(tmp_path_factory.mktemp("quick"))))
        yield


@contextmanager
def gpu_paths() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(settings.PATHS, "gpu")
        yield


@cache
def loaded(op: str, load: Callable[[OpFiles], Implementation]) -> Implementation:
    """With the kernels that a GPU would choose; comments in trifold's headers accept findings, too."""
    files = GALLERY.op(op)
    with gpu_paths():
        implementation = load(files)
        implementation.kernels("cpu")
    runtime.accept(sources.local_sources(files.binding))
    return implementation


def require_right(implementation: Implementation, call: Call) -> None:
    """Results and gradients are within the spec's tolerance."""
    files = implementation.files
    cell = Cell(load_spec(files), implementation, "cpu", reference(files), Search(0), Limits(), lambda *case: None)
    compare(cell, call)
    paths = tuple(cell.gradient_paths(call))
    right = RightGradients.of(cell, call, paths)
    for path, grad in zip(paths, differentiate(cell, call, paths, implementation.function).grads, strict=True):
        assert grad is not None
        assert right.wrong(path, grad) is None, cell.name(path)


def launched(implementation: Implementation, call: Callable[[], None]) -> set[str]:
    """The templates of the kernels that a call launches."""
    library = implementation.kernels("cpu")
    assert library is not None
    before = library.manifest().branches
    call()
    after = library.manifest().branches
    return {re.sub("<.*", "", name) for name, count in after.items() if count > before.get(name, 0)}


def require_paths(rows: Rows, kernels: set[str]) -> None:
    backward = "norm_backward" if "norm" in rows.op else f"{rows.op}_backward"
    patterns = (f"{rows.op}_{rows.forward}", f"(trifold::|layer_|rms_)?{backward}_{rows.backward}")
    for pattern in patterns:
        assert any(re.fullmatch(pattern, name) for name in kernels), (pattern, kernels)


@pytest.mark.parametrize("rows", [rows for rows in ROWS if rows.op in PLAIN], ids=str)
def test_a_path_is_right_without_checks(rows: Rows) -> None:
    port = loaded(rows.op, load_port)
    require_paths(rows, launched(port, lambda: require_right(port, rows.call())))


@pytest.mark.parametrize("rows", ROWS, ids=str)
def test_a_path_is_right_and_clean(rows: Rows) -> None:
    checked = loaded(rows.op, load_checked_port)

    def call() -> None:
        for seed in range(SEEDS if rows.rows * rows.columns < 50_000 else 1):
            with runtime.schedules(1, seed=seed):
                require_right(checked, rows.call())

    with warnings.catch_warnings():
        warnings.simplefilter("error", KernelWarning)
        require_paths(rows, launched(checked, call))


def test_the_cpu_chooses_plain_kernels_unless_asked() -> None:
    rows = Rows("softmax", single, 3, 16_388, "kernel", "kernel")
    port = load_port(GALLERY.op(rows.op))
    require_paths(rows, launched(port, lambda: require_right(port, rows.call())))


def test_whose_paths_they_are_is_cpu_or_gpu() -> None:
    with pytest.raises(LaunchError, match="TRIFOLD_PATHS is 'tpu'"):
        settings.gpu_paths({settings.PATHS: "tpu"})
