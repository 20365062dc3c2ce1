"""A graduated wheel: what is in it, that it works without trifold, and that every change of it is found."""

from __future__ import annotations

import ast
import hashlib
import json
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.graduate.conftest import OPS, PACKAGE, Made
from tests.wrong.entry import GALLERY
from trifold.errors import GraduationError
from trifold.graduate import wheel_check
from trifold.graduate.backend import abi, archive, compilers, hooks
from trifold.graduate.backend.elf import SharedLibrary
from trifold.graduate.backend.plan import FILE, Plan
from trifold.graduate.tolerance import Tolerance
from trifold.installed import cpu_library

MODULE = "two_kernels"
Files = dict[str, bytes]


def contents(wheel: Path) -> Files:
    with zipfile.ZipFile(wheel) as opened:
        return {name: opened.read(name) for name in opened.namelist()}


def facts(wheel: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(contents(wheel)[f"{MODULE}/metadata.json"])
    return found


# -------------------------------------------------------------------------------------------------------- what it is


def test_the_folder_has_sources_wheel_sdist_and_nothing_half_written(made: Made) -> None:
    folder = made.result.folder
    assert [path.name for path in folder.parent.iterdir() if path.name.startswith(".")] == []
    dist = {path.name for path in (folder / "dist").iterdir()}
    assert dist == {made.result.wheel.name, "two_kernels-0.1.0.tar.gz", "SHA256SUMS"}
    assert re.fullmatch(r"two_kernels-0\.1\.0-py3-none-manylinux_2_\d+_x86_64\.whl", made.result.wheel.name)
    assert not list(folder.rglob("__pycache__"))
    with tarfile.open(folder / "dist" / "two_kernels-0.1.0.tar.gz") as sdist:
        carried = {name.partition("/")[2] for name in sdist.getnames()} - {"PKG-INFO"}
    here = [path.relative_to(folder) for path in folder.rglob("*") if path.is_file()]
    assert carried == {str(path) for path in here if path.parts[0] != "dist"}


def test_kernels_are_those_of_the_workspace(made: Made, wheel: Path) -> None:
    files = contents(wheel)
    for op in OPS:
        own = made.workspace.files(op)
        for path, folder in ((own.binding, "cuda_src"), (own.header, "cuda_src"), (own.port, "ports")):
            assert files[f"{MODULE}/sources/{folder}/{path.name}"] == path.read_bytes()


def test_modules_that_ports_share_are_taken_along(made: Made, wheel: Path) -> None:
    files, folder = contents(wheel), made.workspace.folder("ports")
    for name in ("_shapes/__init__.py", "_shapes/dense.py"):
        assert files[f"{MODULE}/sources/ports/{name}"] == (folder / name).read_bytes()
    assert b"from ..._port import elementwise_output\n" in files[f"{MODULE}/ports/_shapes/dense.py"]


def test_nothing_in_it_imports_trifold(made: Made, wheel: Path) -> None:
    pattern = re.compile(rb"^\s*(from|import) trifold\b", re.MULTILINE)
    scripts = {name: text for name, text in contents(wheel).items() if name.endswith((".py", ".pyi"))}
    scripts |= {str(path): path.read_bytes() for path in made.result.folder.rglob("*.py")}
    assert {name for name, text in scripts.items() if pattern.search(text) and "/sources/" not in name} == set()
    metadata = contents(wheel)["two_kernels-0.1.0.dist-info/METADATA"].decode()
    assert re.findall(r"^Requires-Dist: (\w+)", metadata, re.MULTILINE) == ["torch"]
    assert f"Name: {PACKAGE}\n" in metadata


def test_stubs_say_what_the_functions_take(wheel: Path) -> None:
    files = contents(wheel)
    stub = ast.parse(files[f"{MODULE}/__init__.pyi"])
    assert {node.name for node in stub.body if isinstance(node, ast.FunctionDef)} == set(OPS)
    assert files[f"{MODULE}/py.typed"] == b""


def test_metadata_and_card_say_what_was_verified_and_what_not(made: Made, wheel: Path) -> None:
    for op in OPS:
        certificate = facts(wheel)["ops"][op]["certificate"]
        assert (certificate["op"], certificate["devices"], certificate["waived"]) == (op, ["cpu"], ["cuda"])
        assert certificate["examples"] == {"prototype cpu": 48, "port cpu": 80}
        assert facts(wheel)["ops"][op]["tolerance"] == Tolerance.of(GALLERY.files(op)).to_json()
        assert certificate["reverified"]["seed"] == made.result.reverified[op]["seed"] == 7
    card = contents(wheel)[f"{MODULE}/CARD.md"].decode()
    assert "**Not verified on cuda**" in card
    assert "values passed anew: 40 cases on cpu, with the seed 7." in card
    assert "It has no CUDA part: it was built without nvcc." in card
    assert "Dtypes in which values were compared: float32, bfloat16." in card
    assert card.count("Tolerance: an error against the reference in float64 of at most") == len(OPS)
    assert "shared_noise: bool=False" in card
    assert {"commit", "dirty", "torch", "trifold", "python"} <= facts(wheel)["made"].keys()
    assert {"g++"} == facts(wheel)["build"]["compilers"].keys()


@pytest.mark.parametrize(
    ("asked", "cuda", "version"),
    [(False, None, "0.1.0"), (False, 13, "0.1.0"), (True, None, "0.1.0+cpu"), (True, 13, "0.1.0+cu13")],
)
def test_only_on_request_has_the_version_a_label(
    asked: bool, cuda: int | None, version: str, made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name alone: nothing is compiled."""
    source = tmp_path / "source"
    shutil.copytree(made.result.folder, source)
    plan = Plan.read(source)
    assert not plan.local_version
    (source / FILE).write_text(replace(plan, local_version=asked).to_json())
    needs = abi.Needs(34, 30, 35, cuda, 1)
    library = compilers.Library("round_ste.so", source / "NOTICE", needs, ())
    monkeypatch.setattr(compilers, "build", lambda *args, **more: compilers.Built((library,), {"g++": "12.2.0"}))
    monkeypatch.chdir(source)
    assert hooks.build_wheel(str(tmp_path)) == f"two_kernels-{version}-py3-none-manylinux_2_35_x86_64.whl"


def test_the_tests_for_random_numbers_come_with_an_op_that_draws_them(wheel: Path) -> None:
    assert f"{MODULE}/tests/test_random.py" in contents(wheel)


def test_libraries_say_nothing_of_where_they_were_built(made: Made, wheel: Path) -> None:
    libraries = [text for name, text in contents(wheel).items() if name.endswith(".so")]
    assert len(libraries) == 3  # one for each op, and the engine
    places = [str(made.result.folder.parent).encode(), b"pip-req-build", sys.prefix.encode()]
    assert not any(place in library for library in libraries for place in places)


def test_its_engine_has_all_functions_that_a_kernel_may_call(wheel: Path, tmp_path: Path) -> None:
    """Whatever its op uses: asynchronous copies, clusters, mathematical functions, the runtime API."""
    (engine,) = (text for name, text in contents(wheel).items() if "/lib/lib" in name and name.endswith(".so"))
    (tmp_path / "engine.so").write_bytes(engine)

    def functions(library: Path) -> set[str]:
        return {name for name in SharedLibrary.read(library).defined if name.startswith("_ZN7trifold3cpu")}

    only_of_checked_builds = re.compile("_ZN7trifold3cpu[0-9]+checked_")
    needed = {name for name in functions(cpu_library()) if not only_of_checked_builds.match(name)}
    assert len(needed) > 50
    assert needed - functions(tmp_path / "engine.so") == set()


def test_its_tests_ran_without_trifold(made: Made) -> None:
    checked = made.result.checked
    assert (checked.devices, checked.ops) == (("cpu",), OPS)
    assert checked.tests >= 10
    assert set(checked.not_run) == {f"{op} on cuda" for op in OPS}
    assert made.result.without_cuda == "there is no nvcc on this machine"
    assert any("install in a fresh environment" in step for step in made.steps)


_IN_ONE_PROCESS = """
import importlib, json, sys
sys.path.insert(0, sys.argv[1])
first = importlib.import_module("two_kernels")
taken = {name: sys.modules.pop(name) for name in list(sys.modules) if name.startswith("two_kernels")}
sys.path.insert(0, sys.argv[2])
second = importlib.import_module("two_kernels")
import torch
x = torch.tensor([0.2, 0.7])
print(json.dumps([first.round_ste(x).tolist(), second.round_ste(x).tolist(),
                  first.package.namespace, second.package.namespace]))
for name in [name for name in sys.modules if name.startswith("two_kernels")]:
    del sys.modules[name]
try:
    importlib.import_module("two_kernels")
except ImportError as error:
    print(error)
"""


def test_two_versions_live_in_one_process(wheel: Path, tmp_path: Path) -> None:
    """A second version is the first under another hash, which has the same length."""
    namespace = facts(wheel)["namespace"]
    other = namespace[:-12] + "0123456789ab"
    for folder, name in (("one", namespace), ("two", other)):
        for file, data in contents(wheel).items():
            path = tmp_path / folder / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data.replace(namespace.encode(), name.encode()))
    done = subprocess.run(
        [sys.executable, "-c", _IN_ONE_PROCESS, str(tmp_path / "one"), str(tmp_path / "two")],
        capture_output=True,
        text=True,
        check=True,
    )
    answer, refusal = done.stdout.splitlines()
    assert json.loads(answer) == [[0.0, 1.0], [0.0, 1.0], namespace, other]
    assert "a package of the same sources is loaded in this process already" in refusal


# ------------------------------------------------------------------------------------------------------ what is found


def rewritten(wheel: Path, folder: Path, change: Callable[[Files], None], *, recorded: bool = True) -> Path:
    """The wheel with its files changed; RECORD fits them, unless it is to be left as it was."""
    files = contents(wheel)
    change(files)
    info = "two_kernels-0.1.0.dist-info"
    if not recorded:
        path = folder / wheel.name
        with zipfile.ZipFile(path, "w") as made:
            for name, data in files.items():
                made.writestr(name, data)
        return path
    core = files.pop(f"{info}/METADATA")
    for name in (f"{info}/WHEEL", f"{info}/RECORD"):
        files.pop(name, None)
    platform = wheel.stem.partition("none-")[2]
    return archive.write_wheel(folder, "two_kernels", "0.1.0", platform, core, files)


def with_facts(change: Callable[[dict[str, Any]], object]) -> Callable[[Files], None]:
    """metadata.json changed, and then its hashes made those of the files."""

    def apply(files: Files) -> None:
        found = json.loads(files[f"{MODULE}/metadata.json"])
        change(found)
        found["files"] = {name: hashlib.sha256(files[name]).hexdigest() for name in found["files"] if name in files}
        files[f"{MODULE}/metadata.json"] = json.dumps(found).encode()

    return apply


def with_text(name: str, old: bytes, new: bytes) -> Callable[[Files], None]:
    """A file changed, and then the hashes made those of the files."""

    def apply(files: Files) -> None:
        assert old in files[name]
        files[name] = files[name].replace(old, new)
        with_facts(lambda found: None)(files)

    return apply


def swap_certificates(found: dict[str, Any]) -> None:
    first, second = (found["ops"][op] for op in OPS)
    first["certificate"], second["certificate"] = second["certificate"], first["certificate"]


def relabelled(found: dict[str, Any]) -> None:
    found["ops"]["round_ste"]["certificate"] = {
        **found["ops"]["normal_sample"]["certificate"],
        "op": "round_ste",
    }


def certificate(**changes: object) -> Callable[[Files], None]:
    return with_facts(lambda found: found["ops"]["round_ste"]["certificate"].update(changes))


def flip(name: str) -> Callable[[Files], None]:
    def apply(files: Files) -> None:
        data = bytearray(files[name])
        data[len(data) // 2] ^= 1
        files[name] = bytes(data)

    return apply


LIBRARY, PORT = f"{MODULE}/lib/round_ste.cpu.so", f"{MODULE}/ports/round_ste.py"
NOT_IN_RECORD: list[tuple[str, Callable[[Files], object], str]] = [
    ("a byte of a library", flip(LIBRARY), "round_ste.cpu.so was changed, says RECORD"),
    ("a byte of a port", flip(PORT), "ports/round_ste.py was changed, says RECORD"),
    ("a byte of the metadata", flip(f"{MODULE}/metadata.json"), "metadata.json was changed, says RECORD"),
    ("a file less", lambda files: files.pop(PORT), "is in RECORD, but missing"),
    ("a file more", lambda files: files.update({f"{MODULE}/more.py": b""}), "more.py is not in RECORD"),
    ("no RECORD", lambda files: files.pop("two_kernels-0.1.0.dist-info/RECORD"), "it has 0 RECORD files"),
    ("a path outside", lambda files: files.update({"../more.py": b""}), "would write outside"),
]
IN_RECORD: list[tuple[str, Callable[[Files], object], str]] = [
    ("a byte of a library", flip(LIBRARY), "is not the file that metadata.json speaks of"),
    ("a file more", lambda files: files.update({f"{MODULE}/more.py": b""}), "is not the file that metadata.json"),
    ("no metadata", lambda files: files.pop(f"{MODULE}/metadata.json"), "was not made by trifold graduate"),
    ("metadata of a later format", with_facts(lambda found: found.update(format=99)), "its format is 99"),
    ("metadata without ops", with_facts(lambda found: found.pop("ops")), "metadata.json cannot be read"),
    ("certificates swapped", with_facts(swap_certificates), "the certificate of round_ste is that of normal_sample"),
    ("a certificate relabelled", with_facts(relabelled), "is not the .* that the certificate of round_ste is for"),
    ("a failed certificate", certificate(verdict="failed"), "says 'failed'"),
    ("a device neither verified nor waived", certificate(waived=[]), "is verified on cpu alone"),
    ("few examples that were not waived", certificate(examples={"port cpu": 5}), "was verified with 5 of 80 examples"),
    ("a certificate without sources", certificate(sources={}), "is not the .* that the certificate"),
    (
        "the sources of another op",
        with_facts(lambda found: found["ops"]["round_ste"].update(shipped=found["ops"]["normal_sample"]["shipped"])),
        "does not have the sources of round_ste",
    ),
    ("no certificate", with_facts(lambda found: found["ops"]["round_ste"].pop("certificate")), "cannot be read"),
    (
        "an edited kernel",
        with_text(f"{MODULE}/sources/cuda_src/round_ste.cuh", b"0.5", b"0.4"),
        "round_ste.cuh is not the cuda_src/round_ste.cuh that the certificate",
    ),
    (
        "an edited module that ports share",
        with_text(f"{MODULE}/ports/_shapes/dense.py", b"fake = ", b"fake = None or "),
        "ports/_shapes/dense.py is not the verified file",
    ),
    ("an edited port", with_text(PORT, b"grad: grad", b"grad: None"), "is not the verified file"),
    ("edited wiring", with_text(f"{MODULE}/_port/wiring.py", b"def ", b"def  "), "is not the source that was hashed"),
    (
        "another namespace",
        with_facts(lambda found: found.update(namespace="two_kernels_0")),
        "is not that of its sources",
    ),
    ("no library", with_text(LIBRARY, b"\x7fELF", b"\x7fOLF"), "is not a library"),
]


@pytest.mark.parametrize(("change", "says"), [row[1:] for row in NOT_IN_RECORD], ids=[row[0] for row in NOT_IN_RECORD])
def test_a_changed_wheel_is_found_by_record(
    change: Callable[[Files], None], says: str, wheel: Path, tmp_path: Path
) -> None:
    with pytest.raises(GraduationError, match=says):
        wheel_check.check(rewritten(wheel, tmp_path, change, recorded=False))


@pytest.mark.parametrize(("change", "says"), [row[1:] for row in IN_RECORD], ids=[row[0] for row in IN_RECORD])
def test_a_change_that_record_knows_is_found_by_metadata(
    change: Callable[[Files], None], says: str, wheel: Path, tmp_path: Path
) -> None:
    with pytest.raises(GraduationError, match=says):
        wheel_check.check(rewritten(wheel, tmp_path, change))


@pytest.mark.parametrize("part", range(8))
def test_one_byte_changed_in_the_file_is_found(part: int, made: Made, tmp_path: Path) -> None:
    for file in (made.result.folder / "dist").iterdir():
        shutil.copyfile(file, tmp_path / file.name)
    path = tmp_path / made.result.wheel.name
    data = bytearray(path.read_bytes())
    data[len(data) * part // 8] ^= 4
    path.write_bytes(data)
    with pytest.raises(GraduationError, match=r"was changed|is damaged"):
        wheel_check.check(path)


def test_what_is_no_wheel_is_said(wheel: Path, tmp_path: Path) -> None:
    with pytest.raises(GraduationError, match="there is no file"):
        wheel_check.check(tmp_path / "none.whl")
    other = tmp_path / "card.whl"
    other.write_text("")
    with pytest.raises(GraduationError, match="is not the name of a wheel"):
        wheel_check.check(other)
    (tmp_path / wheel.name).write_text("")
    with pytest.raises(GraduationError, match="is damaged"):
        wheel_check.check(tmp_path / wheel.name)


def test_a_name_that_promises_an_older_machine_is_found(wheel: Path, tmp_path: Path) -> None:
    renamed = tmp_path / re.sub(r"manylinux_2_\d+", "manylinux_2_17", wheel.name)
    shutil.copyfile(wheel, renamed)
    with pytest.raises(GraduationError, match="which is not what its name says"):
        wheel_check.check(renamed)


def test_a_wrong_result_fails_the_tests_in_the_fresh_environment(wheel: Path, tmp_path: Path) -> None:
    """The same wheel, in which the recorded exact results are others."""

    def change(files: Files) -> None:
        name = f"{MODULE}/tests/cases.json"
        recorded: Mapping[str, Any] = json.loads(files[name])
        for value in recorded["round_ste"]["results"][0]["results"]:
            value["exact"] = [x + 1 for x in value["exact"]]
        files[name] = json.dumps(recorded).encode()
        with_facts(lambda found: None)(files)

    with pytest.raises(GraduationError, match="test_values_are_those_of_the_reference") as raised:
        wheel_check.check(rewritten(wheel, tmp_path, change))
    assert "round_ste" in raised.value.problem


def test_a_bad_call_that_the_wheel_accepts_is_named(wheel: Path, tmp_path: Path) -> None:
    def change(files: Files) -> None:
        name = f"{MODULE}/tests/cases.json"
        recorded: Mapping[str, Any] = json.loads(files[name])
        recorded["round_ste"]["bad_calls"][0] |= {"name": "a good one", "args": [0.5], "mentions": ["nothing of it"]}
        files[name] = json.dumps(recorded).encode()
        with_facts(lambda found: None)(files)

    with pytest.raises(GraduationError, match="round_ste: a good one"):
        wheel_check.check(rewritten(wheel, tmp_path, change))
