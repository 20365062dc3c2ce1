"""TRIFOLD_PATHS selects the kernels that a port built for the CPU uses: its plain ones, or those of a GPU.

With checks the latter run in the row ``gpu paths`` of ``trifold verify``; here they run without checks, on several OS
threads.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
import torch

from tests.wrong.entry import GALLERY
from trifold.build import paths
from trifold.errors import LaunchError
from trifold.implementation import Implementation, load_port, reference
from trifold.spec import Call, Limits, TensorCase
from trifold.spec.load import load_spec
from trifold.verification.calls import Search
from trifold.verification.cell import Cell
from trifold.verification.checks.gradients import require_right
from trifold.verification.checks.values import compare

pytestmark = pytest.mark.usefixtures("quick_builds")

OP = "softmax"  # clusters and streams; the norms, which have more, take half a minute to build


def launched(implementation: Implementation, call: Callable[[], object]) -> set[str]:
    """The kernels that a call launches."""
    library = implementation.kernels("cpu")
    assert library is not None
    before = library.manifest().branches
    call()
    after = library.manifest().branches
    return {name for name, count in after.items() if count > before.get(name, 0)}


def require_right_call(cell: Cell, call: Call) -> None:
    compare(cell, call)
    require_right(cell, call)


def cell_of(implementation: Implementation) -> Cell:
    files = implementation.files
    return Cell(load_spec(files), implementation, "cpu", reference(files), Search(0), Limits(), lambda *case: None)


def test_the_kernels_of_a_gpu_are_right_without_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(paths.PATHS, "gpu")
    port = load_port(GALLERY.op(OP))
    cell = cell_of(port)

    def make_calls() -> None:
        for _, call in cell.gpu_calls():
            require_right_call(cell, call)

    templates = {re.sub("<.*", "", name) for name in launched(port, make_calls)}
    assert templates == {"softmax_rows_kernel", "softmax_backward_rows_kernel", "softmax_backward_stream_kernel"}


def test_the_walk_through_a_launch_names_its_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """docs/architecture.md follows rows of 65,536 bfloat16. The choice of a kernel does not depend on their number."""
    monkeypatch.setenv(paths.PATHS, "gpu")
    port = load_port(GALLERY.op(OP))
    x = torch.zeros(2, 65_536, dtype=torch.bfloat16)
    (name,) = launched(port, lambda: port.function(x))
    page = (GALLERY.root / "docs/architecture.md").read_text(encoding="utf-8")
    assert f"`{name.replace('> >', '>>')}`" in page
    pieces, threads = map(int, re.findall(r"Team::cluster, (\d+), (\d+),", name)[0])
    blocks = x.shape[-1] // (8 * pieces * threads)
    assert f"= {blocks} blocks of {threads} threads" in page


def test_the_cpu_chooses_plain_kernels_unless_asked() -> None:
    port = load_port(GALLERY.op(OP))
    call = Call((TensorCase((3, 16_388), torch.float32, seed=1),))
    assert launched(port, lambda: require_right_call(cell_of(port), call)) == {
        "softmax_kernel<float>",
        "softmax_backward_kernel<float>",
    }


def test_whose_paths_they_are_is_cpu_or_gpu() -> None:
    with pytest.raises(LaunchError, match="TRIFOLD_PATHS is 'tpu'"):
        paths.gpu_paths({paths.PATHS: "tpu"})
