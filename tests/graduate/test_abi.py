"""The imports of a library are read from its own tables, and those outside of torch's stable ABI are found."""

from __future__ import annotations

import re
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from trifold.build.toolchain import find_gxx
from trifold.graduate.backend import abi
from trifold.graduate.backend.elf import SharedLibrary
from trifold.installed import cpu_library

_SOURCE = """
#include <cstdio>
#include <new>
extern "C" int aoti_torch_get_dim(void*, long*);
extern "C" int torch_of_tomorrow();
extern "C" [[gnu::weak]] int perhaps();
namespace own { int forgotten(int); }
extern "C" int all_of_it() {
  long dim;
  std::puts("");
  return own::forgotten(aoti_torch_get_dim(new int, &dim)) + torch_of_tomorrow() + (perhaps ? perhaps() : 0);
}
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("abi")
    (folder / "all.cpp").write_text(_SOURCE)
    made = folder / "all.so"
    subprocess.run([str(find_gxx()), "-shared", "-fPIC", str(folder / "all.cpp"), "-o", str(made)], check=True)
    return made


def test_symbols_and_libraries_are_read(library: Path) -> None:
    read = SharedLibrary.read(library)
    assert "libc.so.6" in read.needed
    assert "all_of_it" in read.defined
    by_name = {symbol.name: symbol for symbol in read.undefined}
    assert (by_name["puts"].library, by_name["puts"].version[:6]) == ("libc.so.6", "GLIBC_")
    assert by_name["perhaps"].weak
    assert not by_name["torch_of_tomorrow"].weak


def test_readelf_agrees(library: Path) -> None:
    for path in (library, cpu_library()):
        text = subprocess.run(["readelf", "-W", "--dyn-syms", path], capture_output=True, text=True, check=True).stdout
        undefined = {match[1] for match in re.finditer(r" UND (\w+)", text)}
        assert {symbol.name for symbol in SharedLibrary.read(path).undefined} == undefined


def test_what_nobody_has_is_foreign(library: Path) -> None:
    needs, foreign = abi.needs(SharedLibrary.read(library))
    assert foreign == ("_ZN3own9forgottenEi", "torch_of_tomorrow")
    assert (needs.shims, needs.cuda) == (1, None)
    assert abi.needs(SharedLibrary.read(library), ["torch_of_tomorrow"])[1] == ("_ZN3own9forgottenEi",)


def with_versions(*versions: str) -> SharedLibrary:
    return SharedLibrary((), (), (), tuple((library_of(version), version) for version in versions))


def library_of(version: str) -> str:
    return {"GLIBC": "libc.so.6", "GCC": "libgcc_s.so.1"}.get(version.partition("_")[0], "libstdc++.so.6")


@pytest.mark.parametrize(
    ("versions", "glibc"),
    [
        ((), 17),
        (("GLIBC_2.2.5",), 17),
        (("GLIBC_2.2.5", "GLIBC_2.34", "GLIBC_2.4"), 34),
        (("GLIBC_2.34", "GLIBCXX_3.4.28"), 34),
        (("GLIBC_2.28", "GLIBCXX_3.4"), 28),
        (("GLIBC_2.28", "GLIBCXX_3.4.30"), 35),
        (("GLIBC_2.28", "GLIBCXX_3.4.31"), 39),
        (("GLIBC_2.17", "CXXABI_1.3.13"), 34),
        (("GLIBC_2.17", "CXXABI_FLOAT128", "CXXABI_TM_1"), 24),
        (("GLIBC_2.17", "GCC_3.0", "GCC_4.8.0"), 17),
        (("GLIBC_2.17", "GCC_12.0.0"), 35),
        (("GLIBC_2.34", "GLIBC_ABI_DT_RELR"), 36),
        (("GLIBC_2.41",), 41),
    ],
)
def test_the_tag_is_of_the_oldest_distributions_that_have_all(versions: tuple[str, ...], glibc: int) -> None:
    needs, foreign = abi.needs(with_versions(*versions))
    assert (needs.platform, foreign) == (f"manylinux_2_{glibc}_x86_64", ())


@pytest.mark.parametrize("version", ["GLIBC_PRIVATE", "GLIBC_ABI_OF_TOMORROW", "GLIBCXX_3.4.99", "CXXABI_2.0"])
def test_a_version_that_no_distribution_is_known_to_have_is_foreign(version: str) -> None:
    assert abi.needs(with_versions("GLIBC_2.34", version))[1] == (version,)


def test_a_mark_of_the_format_is_read_though_no_symbol_has_it(tmp_path: Path) -> None:
    """Packed relocations, which glibc has since 2.36."""
    (tmp_path / "packed.cpp").write_text(
        '#include <cstdio>\nint one;\nint* table[64] = {&one};\nvoid f() { std::puts(""); }\n'
    )
    made = tmp_path / "packed.so"
    flags = ["-shared", "-fPIC", "-Wl,-z,pack-relative-relocs"]
    done = subprocess.run([str(find_gxx()), *flags, str(tmp_path / "packed.cpp"), "-o", str(made)])
    if done.returncode != 0:
        pytest.skip("this linker knows no packed relocations")
    library = SharedLibrary.read(made)
    if ("libc.so.6", "GLIBC_ABI_DT_RELR") not in library.versions:
        pytest.skip("this linker ignores what it does not know")
    assert abi.needs(library)[0].platform == "manylinux_2_36_x86_64"


def test_the_tag_of_torchs_own_libraries_is_no_newer_than_that_of_its_wheels() -> None:
    """torch 2.11 to 2.13 are manylinux_2_28."""
    library = SharedLibrary.read(Path(torch.__path__[0]) / "lib" / "libtorch_cpu.so")
    assert abi.needs(library)[0].distribution <= 28


def test_the_list_of_functions_is_that_of_the_headers(tmp_path: Path) -> None:
    """Of torch's headers, for a library that is to run from 2.11 on."""
    include = Path(torch.__path__[0]) / "include"
    (tmp_path / "shims.cpp").write_text("#include <torch/csrc/stable/library.h>\n")
    flags = ["-std=c++20", "-E", "-P", "-DUSE_CUDA", "-DTORCH_TARGET_VERSION=0x020b000000000000", f"-I{include}"]
    command = [str(find_gxx()), *flags, str(tmp_path / "shims.cpp")]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    declared = set(re.findall(r"\b((?:aoti_torch|torch)_\w+)\s*\(", " ".join(text.split())))
    assert set(abi._SHIMS) - declared == set()


@settings(deadline=None, derandomize=True)
@given(data=st.data())
def test_a_broken_file_is_an_error_and_nothing_else(data: st.DataObject, library: Path) -> None:
    content = library.read_bytes()
    where = data.draw(st.integers(0, len(content) - 1))
    broken = (
        content[: data.draw(st.integers(0, len(content)))]
        if data.draw(st.booleans())
        else bytes([*content[:where], data.draw(st.integers(0, 255)), *content[where + 1 :]])
    )
    with suppress(ValueError):
        SharedLibrary.parse(broken)
