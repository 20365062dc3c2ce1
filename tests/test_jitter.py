"""The jittered build: where the text of a port gets pauses, and that nothing else changes."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
import torch

from tests.wrong.entry import GALLERY
from trifold.build import build, compile_only, jitter, sources
from trifold.build.cuda_source import SourceFile
from trifold.implementation import load_port

_PLACE = re.compile(r"\b\d{2,}u\b")


def _rewritten(tmp_path: Path, text: str) -> str:
    path = tmp_path / "kernel.cuh"
    path.write_text(text)
    return _PLACE.sub("N", jitter.rewrite(path))


_PAUSES = "::trifold::jitter::Pauses"

CALLS = {
    "a barrier": "__syncthreads()",
    "a barrier with a value": "__syncthreads_or(x > 0)",
    "a warp's barrier": "__syncwarp(mask)",
    "a fence": "__threadfence_system()",
    "an atomic": "atomicAdd(count + 1, 1u)",
    "a wait for earlier kernels": "cudaGridDependencySynchronize()",
    "cooperative groups": "cg::this_grid().sync()",
    "a pipeline": "__pipeline_wait_prior(0)",
    "an atomic of libcu++": "flag.fetch_add(1, cuda::memory_order_release)",
    "an instruction of cuda::ptx": "cuda::ptx::mbarrier_arrive(cuda::ptx::sem_release, barrier)",
    "a copy of a group": "cg::memcpy_async(block, shared, from, 16)",
}


@pytest.mark.parametrize("name", CALLS)
def test_a_call_pauses_before_it_and_at_the_end_of_its_expression(name: str, tmp_path: Path) -> None:
    call = CALLS[name]
    text = f"__device__ int f(int x) {{\n  int y = g({call}) + 1;\n  return y;\n}}\n"
    assert _rewritten(tmp_path, text) == text.replace(call, f"(void({_PAUSES}(N)), {call})")


def test_a_call_inside_another_one_has_pauses_of_its_own(tmp_path: Path) -> None:
    text = "__device__ void f(int* p) { atomicAdd(p, atomicExch(p + 1, 0)); }"
    inner = f"(void({_PAUSES}(N)), atomicExch(p + 1, 0))"
    assert _rewritten(tmp_path, text) == f"__device__ void f(int* p) {{ (void({_PAUSES}(N)), atomicAdd(p, {inner})); }}"


INSTRUCTIONS = (
    "bar.sync 1, 64;",
    "barrier.cluster.arrive.release.aligned;",
    "mbarrier.arrive.shared::cta.b64 _, [%0];",
    "fence.mbarrier_init.release.cluster;",
    "cp.async.wait_all;",
    "st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];",
    "red.relaxed.gpu.global.add.u32 [%0], 1;",
    "ld.acquire.gpu.global.u32 %0, [%1];",
    "griddepcontrol.wait;",
)


@pytest.mark.parametrize("instruction", INSTRUCTIONS)
def test_an_instruction_that_waits_or_signals_pauses_before_and_after(instruction: str, tmp_path: Path) -> None:
    statement = f'asm volatile("{instruction}" ::: "memory");'
    text = f"__device__ void f(bool b) {{\n  if (b) {statement}\n}}\n"
    changed = f"{{ {_PAUSES} trifold_pauses(N); {statement} }}"
    assert _rewritten(tmp_path, text) == text.replace(statement, changed)


def test_what_only_computes_or_passes_registers_stays_as_it_is(tmp_path: Path) -> None:
    text = (
        '__device__ int f() {\n  int r;\n  asm("mov.u32 %0, %%laneid;" : "=r"(r));\n  return __shfl_sync(~0u, r, 0);\n}'
    )
    assert _rewritten(tmp_path, text) == text


def test_a_kernel_begins_with_a_pause(tmp_path: Path) -> None:
    text = "template <class T>\n__global__ void __launch_bounds__(256) f(T* p) {\n  *p = 1;\n}\n"
    assert _rewritten(tmp_path, text) == text.replace("(T* p) {", "(T* p) { ::trifold::jitter::begin(N);")


def test_a_macro_pauses_where_it_is_used(tmp_path: Path) -> None:
    text = "#define MEET __syncthreads()\n__device__ void f() { MEET; }\n"
    assert _rewritten(tmp_path, text) == text.replace("__syncthreads()", f"(void({_PAUSES}(N)), __syncthreads())")


def test_comments_and_strings_stay_as_they_are(tmp_path: Path) -> None:
    text = 'const char* s = "__syncthreads()";  // __syncthreads()\n'
    assert _rewritten(tmp_path, text) == text


_KNOWN = re.compile(rb"\b(?:__sync(?:threads|warp)\w*|__threadfence\w*|atomic[A-Z]\w*|asm)\b\s*(?:volatile\s*)?\(")


def test_every_place_in_the_gallery_is_read() -> None:
    """The parser understands our headers: what a plain search finds in the code, the tree has as a call."""
    folders = (GALLERY.root / "cuda_src", sources.INCLUDE_ROOT / "trifold")
    for path in [path for folder in folders for path in sorted(folder.glob("*.cu*"))]:
        file = SourceFile(path, ())
        searched = len(_KNOWN.findall(file.masked))
        read = [node for node in file.nodes if node.type in ("call_expression", "gnu_asm_expression")]
        assert searched == sum(_KNOWN.match(file.masked, node.start_byte) is not None for node in read), path


def test_each_line_stays_where_it_is(tmp_path: Path) -> None:
    text = jitter.for_nvcc(GALLERY.op("cumsum").binding, tmp_path)
    assert text.startswith(f"#include <trifold/jitter.cuh>\n#line 1 {sources.quoted(GALLERY.op('cumsum').binding)}\n")
    for name, path in {
        "cumsum.cuh": GALLERY.op("cumsum").header,
        "trifold/reduce.cuh": sources.INCLUDE_ROOT / "trifold" / "reduce.cuh",
    }.items():
        copy = (tmp_path / name).read_text().splitlines()[2:]
        original = path.read_text().splitlines()
        assert len(copy) == len(original)
        changed = [(a, b) for a, b in zip(original, copy, strict=True) if a != b]
        assert changed
        assert all("trifold::jitter" in b for _, b in changed)


@pytest.mark.parametrize("folder", ["before", "with_ops"])
def test_a_header_beside_the_binding_is_the_one_that_gets_pauses(
    folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the folder's place in the alphabet, the compiler does not find trifold's header of that name."""
    monkeypatch.setattr(sources, "INCLUDE_ROOT", tmp_path / "include")
    for root, name in (("include", "ours"), (folder, "edited")):
        header = tmp_path / root / "trifold" / "one.cuh"
        header.parent.mkdir(parents=True)
        header.write_text(f"__device__ void {name}() {{}}\n")
    binding = tmp_path / folder / "op.cu"
    binding.write_text("#include <trifold/one.cuh>\n")
    jitter.for_nvcc(binding, tmp_path / "build")
    assert "edited" in (tmp_path / "build" / "trifold" / "one.cuh").read_text()


def test_no_source_that_ships_has_pauses() -> None:
    for path in sources.local_sources(GALLERY.op("layer_norm").binding):
        if path != jitter.HEADER and path.suffix in (".cu", ".cuh", ".h"):
            assert "jitter" not in path.read_text(), path


def test_a_build_for_the_cpu_has_no_pauses() -> None:
    with pytest.raises(ValueError, match="only a build for CUDA has the form 'jittered'"):
        build(GALLERY.op("add"), "cpu", "never", form="jittered")
    with pytest.raises(ValueError, match="form is 'checked', which nvcc does not build"):
        compile_only(GALLERY.op("add"), "9.0", form="checked")


@pytest.mark.gpu
@pytest.mark.slow(seconds=60)
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_pauses_take_time_and_change_no_number() -> None:
    implementation = load_port(GALLERY.op("softmax"), "jittered")
    library = implementation.kernels("cuda")
    assert library is not None
    x = torch.randn(4096, 4096, device="cuda")
    times, results = {0: math.inf, 1: math.inf, 2: math.inf}, {}
    for seed in (*times, *times, *times):  # the shortest of three, since other programs use the GPU as well
        library.set_jitter(seed)
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(10):
            results[seed] = implementation.function(x)
        end.record()
        torch.cuda.synchronize()
        times[seed] = min(times[seed], begin.elapsed_time(end))
    assert min(times[1], times[2]) > 1.5 * times[0]
    assert torch.equal(results[0], results[1])
    assert torch.equal(results[0], results[2])


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_lanes_that_pause_apart_do_not_change_each_others_registers() -> None:
    """A pause of some lanes must end where all lanes of the warp meet: after a sleep they did not, see jitter.cuh."""
    implementation = load_port(GALLERY.op("transpose"), "jittered")
    library = implementation.kernels("cuda")
    assert library is not None
    x = torch.randn(3, 37, 65, device="cuda")
    for seed in range(1, 51):
        library.set_jitter(seed)
        assert torch.equal(implementation.function(x), x.transpose(-1, -2)), seed
