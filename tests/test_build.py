"""Real builds of small ports, and what a user sees where one fails."""

from __future__ import annotations

import os
import re
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from trifold.build import BuildRequest, BuiltLibrary, build, build_all, compile_only, recipe
from trifold.errors import BuildError, ToolchainError, WorkspaceError
from trifold.workspace import OpFiles, Workspace

# A port without torch headers compiles in a fraction of a second.
PLAIN = """\
#include "{op}.cuh"

extern "C" __attribute__((visibility("default"))) const char* trifold_manifest() {{
  return "implementation\\t{op}\\t(Tensor) -> Tensor\\nbranch\\tk<float>\\t2\\nbranch\\tk<float>\\t1\\n";
}}
"""

HALVE_HEADER = """\
#pragma once
#include <trifold/cuda.cuh>

template <class T>
__global__ void halve_kernel(const T* x, T* y, int64_t n) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) y[i] = T(trifold::compute_t<T>(x[i]) / 2);
}
"""

HALVE = """\
#include <trifold/binding.h>

#include "halve.cuh"

trifold::Tensor halve(const trifold::Tensor& x) {
  trifold::Tensor y = trifold::elementwise_output(x);
  trifold::dispatch_floating(x.scalar_type(), [&]<class T>() {
    trifold::launch_elementwise<halve_kernel<T>, nullptr, T>(y, x);
  });
  return y;
}

TRIFOLD_LIBRARY(m) {
  trifold::implement<&halve>(m, "halve");
}
"""

requires_nvcc = pytest.mark.skipif(
    shutil.which("nvcc") is None and not Path("/usr/local/cuda/bin/nvcc").is_file(), reason="there is no nvcc"
)

MakeOp = Callable[..., OpFiles]


@pytest.fixture(autouse=True)
def cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for variable in ("CXX", "CC", "CUDA_HOME", "CUDA_PATH", "TORCH_CUDA_ARCH_LIST"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("TRIFOLD_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def make_op(tmp_path: Path) -> MakeOp:
    """Writes an op's binding and header into a separate workspace; returns the op's files."""

    def make(op: str = "thing", *, binding: str = PLAIN, header: str = "#pragma once\n", at: str = "ws") -> OpFiles:
        for folder in ("prototypes", "cuda_src", "ports", "verify"):
            (tmp_path / at / folder).mkdir(parents=True, exist_ok=True)
        files = Workspace.at(tmp_path / at).files(op)
        files.binding.write_text(binding.format(op=op) if binding is PLAIN else binding)
        files.header.write_text(header)
        return files

    return make


@pytest.fixture
def compiler_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A g++ on PATH that writes a line into this file each time it compiles, and then does it."""
    record, real = tmp_path / "calls", shutil.which("g++")
    assert real is not None
    record.touch()
    program(tmp_path / "bin" / "g++", f'case "$*" in *" -c "*) echo "$*" >> {record};; esac\nexec {real} "$@"')
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    return record


def program(path: Path, script: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


registries: list[torch.library.Library] = []  # a definition ends with the registry that made it


def define_halve(namespace: str) -> Callable[[torch.Tensor], torch.Tensor]:
    registries.append(torch.library.Library(namespace, "DEF"))
    registries[-1].define("halve(Tensor x) -> Tensor")
    operator: Callable[[torch.Tensor], torch.Tensor] = getattr(torch.ops, namespace).halve
    return operator


def run_python(script: str) -> subprocess.Popen[str]:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen(
        [sys.executable, "-c", script], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def calls(record: Path) -> int:
    return len(record.read_text().splitlines())


def test_a_built_library_registers_before_or_after_its_schema_and_tells_what_it_holds(make_op: MakeOp) -> None:
    files = make_op("halve", binding=HALVE, header=HALVE_HEADER)
    before = dict(os.environ)
    library = build(files, "cpu", "trifold_test_halve")
    assert not library.cached
    assert library.seconds < 30
    assert library.path.is_file()
    assert "g++" in library.log.read_text()
    assert dict(os.environ) == before

    loaded = library.load()
    assert loaded.manifest().implementations == {"halve": "(Tensor) -> Tensor"}
    assert loaded.manifest().branches["halve_kernel<float>"] == 0
    halve = define_halve("trifold_test_halve")
    x = torch.tensor([3.0, -1.0])
    assert torch.equal(halve(x), x / 2)
    assert loaded.manifest().branches["halve_kernel<float>"] == 1
    assert loaded.manifest().branches["halve_kernel<double>"] == 0


def test_a_second_build_is_a_cached_one_and_runs_no_compiler(make_op: MakeOp, compiler_calls: Path) -> None:
    files = make_op()
    first = build(files, "cpu", "a")
    assert calls(compiler_calls) == 1
    second = build(files, "cpu", "a")
    assert calls(compiler_calls) == 1
    assert (first.cached, second.cached) == (False, True)
    assert second.path == first.path
    assert second.seconds < first.seconds / 3
    assert second.manifest().branches == {"k<float>": 3}
    script = f"""
import sys, torch
from trifold.build import build
from trifold.workspace import Workspace
library = build(Workspace.at({str(files.binding.parent.parent)!r}).files("thing"), "cpu", "a").load()
assert library.cached, library
assert "torch.utils.cpp_extension" not in sys.modules and "setuptools" not in sys.modules
"""
    assert run_python(script).wait(timeout=60) == 0
    assert calls(compiler_calls) == 1


def test_what_decides_the_result_decides_the_cache(
    make_op: MakeOp, compiler_calls: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = make_op(header='#pragma once\n#include "deeper.h"\n')
    deeper = files.header.with_name("deeper.h")
    deeper.write_text("inline int value() { return 1; }\n")
    paths = {build(files, "cpu", "a").path}
    deeper.write_text("inline int value() { return 2; }\n")
    paths.add(build(files, "cpu", "a").path)
    assert len(paths) == calls(compiler_calls) == 2
    files.header.with_name("unrelated.h").write_text("")
    deeper.write_text("inline int value() { return 1; }\n")
    assert build(files, "cpu", "a").cached
    of_a = recipe.for_cpu(files.binding, "a").facts
    assert of_a != recipe.for_cpu(files.binding, "b").facts
    monkeypatch.setenv("CPATH", "/elsewhere")
    assert of_a != recipe.for_cpu(files.binding, "a").facts


def test_a_build_that_nobody_asks_for_is_removed_in_time(make_op: MakeOp, cache_folder: Path) -> None:
    names = ("thing-cpu-old", "thing-cpu-used", "thing-nvcc9.0-old", "thing_b-cpu-old")
    for name in names:
        stamp = cache_folder / "builds" / name / "stamp.json"
        stamp.parent.mkdir(parents=True, mode=0o700)
        stamp.touch()
        if name != "thing-cpu-used":
            os.utime(stamp, (0, 0))
    for folder in (cache_folder, cache_folder / "builds"):
        folder.chmod(0o700)
    build(make_op(), "cpu", "a")
    assert {name for name in names if (cache_folder / "builds" / name).exists()} == set(names[1:])


def test_a_source_saved_during_the_build_is_not_taken_for_the_older_one(
    make_op: MakeOp, compiler_calls: Path, tmp_path: Path
) -> None:
    files = make_op()
    stub = tmp_path / "bin" / "g++"
    save_once = f"""case "$*" in *" -c "*) [ -s {compiler_calls} ] || echo "// saved" >> {files.header};; esac\n"""
    stub.write_text(stub.read_text().replace("case ", save_once + "case ", 1))
    library = build(files, "cpu", "a")
    assert "saved" in files.header.read_text()
    assert calls(compiler_calls) == 2
    assert build(files, "cpu", "a").path == library.path
    assert [path for path in library.path.parents[1].iterdir() if path.is_dir()] == [library.path.parent]


def test_an_error_of_gxx_is_shown_at_the_users_own_line_and_nothing_else(make_op: MakeOp) -> None:
    at = "it's a $HOME of {ours}"  # signs that a shell, ninja and format strings take for their own
    files = make_op(
        "wrong", binding='#include "wrong.cuh"\n\nint f() {\n  return 1\n}\nint g() { return missing; }\n', at=at
    )
    with pytest.raises(BuildError) as caught:
        build(files, "cpu", "a")
    assert caught.value.problem.splitlines() == [
        f"{files.binding}:4:11: error: expected ';' before '}}' token",
        f"{files.binding}:6:18: error: 'missing' was not declared in this scope",
    ]
    log = Path(caught.value.remedy.partition(": ")[2])
    assert "expected ';'" in log.read_text()
    # mended, it builds in the same process
    files.binding.write_text('#include "wrong.cuh"\n')
    assert not build(files, "cpu", "a").cached


@requires_nvcc
def test_an_error_of_nvcc_is_shown_at_the_users_own_line_and_nothing_else(make_op: MakeOp) -> None:
    kernel = "__global__ void k(float* x) {\n  x[threadIdx.x] = missing;\n}\n"
    files = make_op("wrong", binding='#include "wrong.cuh"\n', header=kernel)
    with pytest.raises(BuildError) as caught:
        compile_only(files, "9.0")
    assert caught.value.problem == f'{files.header}:2:20: error: identifier "missing" is undefined'
    files.header.write_text(kernel.replace("missing", "1"))
    first, second = compile_only(files, "9.0"), compile_only(files, "9.0")
    assert (first.cached, second.cached) == (False, True)
    assert first.path.read_bytes()[:4] == b"\x7fELF"
    with pytest.raises(ValueError, match=r"arch must have the form '9\.0'"):
        compile_only(files, "sm_90")


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("int f();\nint g() { return f(); }\n", "undefined reference to `f()'"),
        ("#include <cstdlib>\nint f = (std::abort(), 1);\n", "crashes while it is loaded (signal 6)"),
    ],
    ids=["a function that is nowhere defined", "a static initialiser that aborts"],
)
def test_a_library_that_cannot_be_loaded_is_no_result(make_op: MakeOp, body: str, says: str) -> None:
    files = make_op(binding=body)
    with pytest.raises(BuildError) as caught:
        build(files, "cpu", "a")
    assert says in caught.value.problem


def test_a_library_without_a_manifest_says_what_is_missing() -> None:
    path = Path(torch.__path__[0]) / "lib" / "libc10.so"
    with pytest.raises(BuildError, match=r"include <trifold/binding\.h>"):
        BuiltLibrary("thing", "cpu", "a", path, path, 0.0, False).manifest()


def test_of_two_processes_that_build_the_same_op_one_waits_and_says_so(
    make_op: MakeOp, compiler_calls: Path, tmp_path: Path
) -> None:
    files = make_op()
    stub = tmp_path / "bin" / "g++"
    stub.write_text(stub.read_text().replace("exec", "sleep 0.3\nexec"))
    script = f"""
from trifold.build import build, cache
from trifold.workspace import Workspace
cache.SILENT_WAIT_S = 0.05
print(build(Workspace.at({str(files.binding.parent.parent)!r}).files("thing"), "cpu", "a").cached)
"""
    running = [run_python(script) for _ in range(2)]
    outputs = sorted(process.communicate(timeout=60)[0] for process in running)
    assert outputs[0] == "False\n"
    assert re.fullmatch(
        r"trifold: waiting for another process that builds thing-cpu-\w+ \(lock: .*\)\nTrue\n", outputs[1]
    )
    assert calls(compiler_calls) == 1


def test_the_ops_of_build_all_fail_one_by_one(make_op: MakeOp) -> None:
    good = BuildRequest(make_op("good"), "cpu", "a")
    wrong = BuildRequest(make_op("wrong", binding="int f() { return missing; }\n"), "cpu", "a")
    absent = BuildRequest(Workspace.at(good.files.binding.parent.parent).files("absent"), "cpu", "a")
    finished: list[str] = []
    outcomes = build_all([wrong, good, absent, good], progress=lambda request, _: finished.append(request.files.name))
    assert [request.files.name for request in outcomes] == ["wrong", "good", "absent"]
    assert sorted(finished) == ["absent", "good", "wrong"]
    assert isinstance(outcomes[good], BuiltLibrary)
    assert isinstance(outcomes[wrong], BuildError)
    assert isinstance(outcomes[absent], WorkspaceError)


def test_an_interrupt_of_build_all_begins_nothing_more(make_op: MakeOp, compiler_calls: Path) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    requests = [BuildRequest(make_op(name), "cpu", "a") for name in ("first", "second", "third")]
    with pytest.raises(KeyboardInterrupt):
        build_all(requests, progress=interrupt, workers=1)
    assert calls(compiler_calls) <= 2


def test_what_a_killed_build_left_is_removed_and_never_loaded(
    make_op: MakeOp, compiler_calls: Path, cache_folder: Path, tmp_path: Path
) -> None:
    files = make_op()
    stub = tmp_path / "bin" / "g++"
    kill_once = f'case "$*" in *" -c "*) [ -s {compiler_calls} ] || kill -9 "$BUILDER";; esac\n'
    stub.write_text(stub.read_text().replace("case ", kill_once + "case ", 1))
    killed = run_python(f"""
import os
from trifold.build import build
from trifold.workspace import Workspace
os.environ["BUILDER"] = str(os.getpid())
build(Workspace.at({str(files.binding.parent.parent)!r}).files("thing"), "cpu", "a")
""")
    assert killed.wait(timeout=60) == -signal.SIGKILL
    (leftover,) = (cache_folder / "builds").glob("thing-cpu-*.partial-*")
    (leftover / "lock").touch()  # torch would wait for ever for whoever made it
    library = build(files, "cpu", "a")
    assert not leftover.exists()
    assert library.manifest().implementations == {"thing": "(Tensor) -> Tensor"}
    assert {path.suffix for path in library.path.parent.iterdir()} == {".so", ".log", ".json"}

    # By a new file: this process has the old one mapped, and would die of its end being cut off.
    cut = library.path.with_suffix(".cut")
    cut.write_bytes(library.path.read_bytes()[:100])
    os.replace(cut, library.path)
    assert not build(files, "cpu", "a").cached
    assert build(files, "cpu", "a").cached


def test_a_folder_that_others_can_write_is_refused(make_op: MakeOp, monkeypatch: pytest.MonkeyPatch) -> None:
    files = make_op()
    library = build(files, "cpu", "a")
    root = library.path.parents[2]
    assert stat.S_IMODE(root.stat().st_mode) == 0o700
    for path in (root, library.path.parent, library.path):
        mode = stat.S_IMODE(path.stat().st_mode)
        path.chmod(mode | stat.S_IWGRP)
        with pytest.raises(BuildError, match=r"others can write .*"):
            build(files, "cpu", "a")
        path.chmod(mode)
    assert build(files, "cpu", "a").cached
    monkeypatch.setattr(os, "geteuid", lambda: root.stat().st_uid + 1)
    with pytest.raises(BuildError, match="belongs to another user"):
        build(files, "cpu", "a")


def test_a_cache_that_cannot_be_made_is_named(make_op: MakeOp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = make_op()
    (tmp_path / "file").touch()
    monkeypatch.setenv("TRIFOLD_CACHE_DIR", str(tmp_path / "file" / "cache"))
    with pytest.raises(BuildError, match=r"cannot be created.*\n.*set TRIFOLD_CACHE_DIR"):
        build(files, "cpu", "a")
    monkeypatch.setenv("TRIFOLD_CACHE_DIR", str(tmp_path / "a$b"))
    with pytest.raises(BuildError, match="which ninja cannot read"):
        build(files, "cpu", "a")


def test_arguments_are_checked(make_op: MakeOp) -> None:
    files = make_op()
    with pytest.raises(ValueError, match="device must be 'cpu' or 'cuda', not 'gpu'"):
        build(files, "gpu", "a")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="namespace must be an identifier, not 'a-b'"):
        build(files, "cpu", "a-b")
    files.header.unlink()
    with pytest.raises(WorkspaceError, match=r"thing\.cuh"):
        build(files, "cpu", "a")


def test_cuda_with_a_cpu_torch_says_so(make_op: MakeOp, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.version, "cuda", None)
    with pytest.raises(ToolchainError, match="is a CPU build"):
        build(make_op(), "cuda", "a")


def test_nvcc_and_torch_of_different_cuda_majors(
    make_op: MakeOp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvcc = program(tmp_path / "toolkit" / "bin" / "nvcc", "echo 'Cuda compilation tools, release 12.4, V12.4.99'")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "toolkit"))
    monkeypatch.setenv("TORCH_CUDA_ARCH_LIST", "9.0")
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    with pytest.raises(ToolchainError) as caught:
        build(make_op(), "cuda", "a")
    assert caught.value.problem == (
        f"{nvcc} is CUDA 12.4, but torch was built with CUDA 13.0: the major versions must agree"
    )
    assert "set CUDA_HOME to a CUDA 13.0 toolkit" in caught.value.remedy


#: nvcc with the fault of its release 13.0: it fails unless it compiles all kernels in one piece.
NO_SPLIT_COMPILE = """
case "$*" in *--version*) echo 'Cuda compilation tools, release 13.0, V13.0.88'; exit;; esac
echo "nvcc with NVCC_APPEND_FLAGS=$NVCC_APPEND_FLAGS" >> "$(dirname "$0")/runs"
case "$NVCC_APPEND_FLAGS" in *--split-compile=1) ;; *) echo 'error: Failed to read bitcode'; exit 1;; esac
while [ "$1" != -o ]; do shift; done
: > "$2"
"""


def test_kernels_that_nvcc_cannot_compile_in_pieces_are_compiled_whole(
    make_op: MakeOp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvcc = program(tmp_path / "toolkit" / "bin" / "nvcc", NO_SPLIT_COMPILE)
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "toolkit"))
    monkeypatch.setenv("NVCC_APPEND_FLAGS", "-w")
    assert compile_only(make_op(), "9.0").path.is_file()
    assert (nvcc.parent / "runs").read_text().splitlines() == [
        "nvcc with NVCC_APPEND_FLAGS=-w",
        "nvcc with NVCC_APPEND_FLAGS=-w --split-compile=1",
    ]


@pytest.mark.gpu
def test_a_cuda_build_runs_and_is_cached(make_op: MakeOp) -> None:
    if not torch.cuda.is_available():
        pytest.skip("there is no CUDA device")
    files = make_op("halve", binding=HALVE, header=HALVE_HEADER)
    library = build(files, "cuda", "trifold_test_halve_cuda").load()
    halve = define_halve("trifold_test_halve_cuda")
    x = torch.randn(1000, device="cuda")
    assert torch.equal(halve(x), x / 2)
    assert library.manifest().branches["halve_kernel<float>"] == 1
    assert build(files, "cuda", "trifold_test_halve_cuda").cached


@requires_nvcc
@pytest.mark.extended
def test_an_op_whose_rows_clusters_share_compiles_for_a_gpu_without_clusters() -> None:
    assert compile_only(Workspace(Path(__file__).parents[1]).files("rms_norm"), "8.0").arch == "8.0"
