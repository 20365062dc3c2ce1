"""The source package: the verified files, only the headers that they use, and recorded cases that can fail."""

from __future__ import annotations

import ast
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.graduate.verified import verified_workspace
from tests.wrong.entry import GALLERY
from trifold.build import launch_bounds
from trifold.build.headers import headers_of
from trifold.errors import GraduationError
from trifold.graduate import cases, cpp_sources, vendor
from trifold.graduate.backend import compilers
from trifold.graduate.vendor import vendored
from trifold.graduate.wheel_tests.calls import bad_arguments, call_of, of_tensors
from trifold.spec import AliasCase, BadCall, Call, TensorCase
from trifold.spec.load import load_spec

_BOUNDED = """\
__global__ void __launch_bounds__(64) kernel(float* y) {
  extern __shared__ float shared[];
}
"""
_IMPORTS_TRIFOLD = re.compile(r"^\s*(from|import) trifold\b", re.MULTILINE)


def test_no_file_that_is_carried_imports_trifold() -> None:
    for files in (vendor.backend_files(), vendor.runtime_files(), vendor.test_files(random=True)):
        for name, text in files.items():
            assert not _IMPORTS_TRIFOLD.search(text), name
            if name.endswith(".py"):
                ast.parse(text)


def test_a_module_that_is_not_carried_is_refused() -> None:
    with pytest.raises(ValueError, match=r"trifold\.cli is not in the graduated package"):
        vendored("from trifold.cli import main\n", vendor.IN_BACKEND)


def test_kernels_for_gxx_have_their_shared_arrays_and_their_launch_bounds(tmp_path: Path) -> None:
    """As in a build of the workspace: the package's backend has a copy of what rewrites them."""
    assert {"device_code.py", "launch_bounds.py", "shared_arrays.py"} <= vendor.backend_files().keys()
    sources = tmp_path / "sources"
    sources.mkdir()
    (sources / "op.cu").write_text(_BOUNDED)
    (sources / "op.cuh").write_text("__device__ int one() { return 1; }\n")
    assert compilers._for_gxx(sources, tmp_path / "no headers", tmp_path / "gxx") == ()
    assert (tmp_path / "gxx" / "op.cu").read_text().splitlines() == [
        '#line 1 "op.cu"',
        "__global__ void __launch_bounds__(64) kernel(float* y) {" + launch_bounds.constant("64"),
        "  float (&shared)[] = ::trifold::cpu::DynamicShared();",
        "}",
    ]
    assert (tmp_path / "gxx" / "op.cuh").read_text() == '#line 1 "op.cuh"\n__device__ int one() { return 1; }\n'


def test_kernels_with_inline_ptx_have_what_translates_and_runs_it(tmp_path: Path) -> None:
    assert {"inline_ptx.py", "ptx_table.py", "ptx_text.py"} <= vendor.backend_files().keys()
    sources = tmp_path / "sources"
    sources.mkdir()
    (sources / "op.cu").write_text('__global__ void kernel(float* y) {\n  asm volatile("bar.sync 0;");\n}\n')
    assert compilers._for_gxx(sources, tmp_path / "no headers", tmp_path / "gxx") == ("-include", "trifold/cpu/ptx.h")
    assert "asm" not in (tmp_path / "gxx" / "op.cu").read_text()
    carried = headers_of([sources / "op.cu"])
    assert {"trifold/cpu/ptx.h", "trifold/cpu/ptx/memory.h", "trifold/cpu/warp.h"} <= carried.keys()


def test_only_the_headers_that_are_used_are_carried() -> None:
    def used(op: str) -> set[str]:
        files = GALLERY.files(op)
        return set(headers_of([files.binding, files.header]))

    assert {"trifold/binding.h", "trifold/cuda.cuh", "trifold/launch.cuh", "trifold/cpu/warp.h"} <= used("add")
    assert "trifold/philox.cuh" not in used("add")
    assert "trifold/philox.cuh" in used("normal_sample")
    assert "cuda_for_cpu/cuda_fp16.h" in used("add")  # which is CUDA's own under nvcc
    assert not any("cooperative_groups" in name or "raw_kernel" in name for name in used("add"))


def test_files_that_the_kernels_include_are_carried(tmp_path: Path) -> None:
    """Beside or below them, directly or not; each under the name by which it is included."""
    files = verified_workspace(tmp_path, "add").files("add")
    assert cpp_sources.own_sources(files) == (files.binding, files.header)
    folder = files.header.parent
    (folder / "rows").mkdir()
    (folder / "rows" / "more.cuh").write_text('#include "last.cuh"\n#include <vector>\n')
    (folder / "rows" / "last.cuh").write_text('#include "../rows/more.cuh"\n#include <trifold/cuda.cuh>\n')
    files.header.write_text(f'#include "rows/more.cuh"\n{files.header.read_text()}')
    more = {folder / "rows" / "more.cuh", folder / "rows" / "last.cuh"}
    assert set(cpp_sources.own_sources(files)) == {files.binding, files.header, *more}
    compilers._for_gxx(folder, tmp_path / "no headers", tmp_path / "gxx")
    assert (tmp_path / "gxx" / "rows" / "last.cuh").read_text().startswith('#line 1 "rows/last.cuh"\n')


def test_an_op_that_includes_another_ops_header_carries_it() -> None:
    files = GALLERY.files("topk")
    assert GALLERY.files("argmax").header in cpp_sources.own_sources(files)


def test_a_file_for_which_the_package_has_no_place_is_refused(tmp_path: Path) -> None:
    files = verified_workspace(tmp_path, "add").files("add")
    (files.header.parent.parent / "more.cuh").write_text("")
    files.header.write_text(f'#include "../more.cuh"\n{files.header.read_text()}')
    with pytest.raises(GraduationError, match=r"add\.cuh includes \.\./more\.cuh, which a graduated package does not"):
        cpp_sources.own_sources(files)


def test_recorded_cases_are_json_and_tell_zeros_from_results() -> None:
    recorded: dict[str, Any] = json.loads(json.dumps(cases.record(GALLERY.files("mul"))))
    assert {value["dtype"] for case in recorded["results"] for value in case["results"]} == {
        "float64",
        "float32",
        "float16",
        "bfloat16",
    }
    for part in ("results", "gradients"):
        values = [value for case in recorded[part] for value in case["results"]]
        assert any(abs(x) > a for value in values for x, a in zip(value["exact"], value["allowed"], strict=True))
        assert all(a < 1 for value in values for a in value["allowed"])
    mistakes = {bad["name"]: bad for bad in recorded["bad_calls"]}
    assert [value["moves"] for value in mistakes["another device"]["args"]] == [True, False]
    assert mistakes["integer dtype"]["args"][0]["dtype"] == "int64"
    assert mistakes["not a tensor"]["args"] == ["three", "three"]


def test_only_a_package_with_random_numbers_has_tests_of_them() -> None:
    assert vendor.test_files(random=True).keys() - vendor.test_files(random=False).keys() == {"test_random.py"}
    others = "".join(vendor.test_files(random=False).values())
    assert "repeat_by_seed" not in others


def test_random_ops_and_surrogates_say_so() -> None:
    assert cases.record(GALLERY.files("normal_sample"))["random"]
    assert "passed on" in cases.record(GALLERY.files("round_ste"))["surrogate"]


def test_indices_are_recorded_beside_floating_tensors() -> None:
    recorded = cases.record(GALLERY.files("cross_entropy"))
    logits, target = recorded["smooth"][0]["args"]
    assert (logits["dtype"], target["below"]) == ("float64", 4)
    assert all(len(case["results"]) == 1 for case in recorded["gradients"])  # of the logits alone
    assert recorded["bad_calls"][0]["args"][0]["dtype"] == "int64"


def test_an_op_without_a_small_sample_is_tested_with_drawn_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    files = GALLERY.files("histogram")
    large = [sample for sample in load_spec(files).samples if sample.call.elements > 64]
    monkeypatch.setattr(cases, "load_spec", lambda files: replace(load_spec(files), samples=large, edges=()))
    recorded = cases.record(files)
    assert len(recorded["results"]) > 10
    assert recorded == cases.record(files)


def test_an_argument_that_is_another_one_is_recorded_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    twice = Call((TensorCase((3,), torch.float64, seed=1), AliasCase(0)))
    monkeypatch.setattr(cases, "load_spec", lambda files: replace(load_spec(files), smooth=(twice,), edges=()))
    recorded = json.loads(json.dumps(cases.record(GALLERY.files("mul"))))
    assert call_of(recorded["smooth"][0]) == twice
    function, inputs = of_tensors(torch.mul, recorded["smooth"][0], "cpu")
    (grad,) = torch.autograd.grad(function(*inputs), inputs, torch.ones(3, dtype=torch.float64))
    assert torch.equal(grad, 2 * inputs[0])


@pytest.mark.parametrize(
    "tensor",
    [
        torch.arange(15.0).reshape(3, 5).t(),
        torch.arange(12.0)[1::2],
        torch.ones(3, 1).expand(3, 4),
        torch.arange(5.0).unfold(0, 3, 1),
        torch.ones(0, 4, dtype=torch.int64),
        torch.tensor(True),
    ],
    ids=lambda x: f"{tuple(x.shape)} {x.stride()}",
)
def test_a_bad_call_is_made_again_with_its_strides_and_lists(tensor: Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    bad = BadCall("layout", lambda device: (([tensor, tensor + 1], "cat"), {"of": (tensor.to(device), 2)}), ())
    monkeypatch.setattr(cases, "load_spec", lambda files: replace(load_spec(files), bad_calls=(bad,)))
    recorded = json.loads(json.dumps(cases.record(GALLERY.files("mul"))["bad_calls"][0]))
    (first, word), named = bad_arguments(recorded, "cpu")
    assert (word, named["of"][1]) == ("cat", 2)
    for made, given in ((first[0], tensor), (first[1], tensor + 1), (named["of"][0], tensor)):
        assert (made.dtype, made.stride()) == (given.dtype, given.stride())
        assert torch.equal(made, given)
