"""Philox and Box–Muller: published vectors and exact normals, in torch, in Numba's simulator and in C++."""

import ctypes
import math
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

from trifold.build.recipe import cpu_link_flags
from trifold.implementation import prototype_module
from trifold.workspace import Workspace

ROOT = Path(__file__).parents[1]

# Random123, tests/kat_vectors, "philox4x32 10": counter, key, result.
VECTORS = {
    "zeros": ((0,) * 4, (0,) * 2, (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    "ones": ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    "digits of pi": (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
}
Words = tuple[int, ...]

CPP = r"""
#include <trifold/philox.cuh>

extern "C" void bits(const uint32_t* counter, const uint32_t* key, uint32_t* out) {
  const auto words = trifold::philox4x32_10({{counter[0], counter[1], counter[2], counter[3]}}, {{key[0], key[1]}});
  for (int k = 0; k < 4; ++k) out[k] = words.word[k];
}
extern "C" void pair32(uint32_t radius_bits, uint32_t angle_bits, float* out) {
  const auto z = trifold::box_muller(radius_bits, angle_bits, 0.0f);
  out[0] = z.first;
  out[1] = z.second;
}
extern "C" void normals32(int64_t seed, int64_t offset, int64_t first, int64_t groups, float* out) {
  for (int64_t g = 0; g < groups; ++g) {
    float z[4];
    trifold::normals(trifold::philox_group(seed, offset, first + g), z);
    for (int k = 0; k < 4; ++k) out[4 * g + k] = z[k];
  }
}
extern "C" void normals64(int64_t seed, int64_t offset, int64_t first, int64_t groups, double* out) {
  for (int64_t g = 0; g < groups; ++g)
    for (int k = 0; k < 4; ++k) out[4 * g + k] = trifold::philox_normal<double>(seed, offset, first + g, k);
}
"""


@pytest.fixture(scope="module")
def prototype() -> ModuleType:
    return prototype_module(Workspace.at(ROOT).files("normal_sample"), "cpu")


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("there is no g++ here")
    folder = tmp_path_factory.mktemp("philox")
    (folder / "philox.cpp").write_text(CPP)
    include = ROOT / "trifold" / "include"
    command = [compiler, "-std=c++20", "-O2", "-Wall", "-Werror", "-Wno-unknown-pragmas", "-fPIC", "-shared"]
    paths = [f"-I{include}", "philox.cpp", *cpu_link_flags(), "-o", "philox.so"]
    subprocess.run([*command, *paths], cwd=folder, check=True)
    library = ctypes.CDLL(str(folder / "philox.so"))
    for function in (library.normals32, library.normals64):
        function.argtypes = [ctypes.c_int64] * 4 + [ctypes.c_void_p]
    library.pair32.argtypes = [ctypes.c_uint32, ctypes.c_uint32, ctypes.c_void_p]
    return library


def _torch_bits(_: ModuleType) -> Callable[[Words, Words], Words]:
    def bits(counter: Words, key: Words) -> Words:
        from trifold.prototype.normals import philox

        words = philox(*(tuple(torch.tensor([w]) for w in words) for words in (counter, key)))
        return tuple(int(word) for word in words)

    return bits


def _simulated_bits(prototype: ModuleType) -> Callable[[Words, Words], Words]:
    from numba import cuda

    from trifold.device.philox import philox4x32_10
    from trifold.prototype import launch, output

    @cuda.jit  # type: ignore[untyped-decorator, unused-ignore]
    def kernel(c: Any, k: Any, out: Any) -> None:
        c0, c1, c2, c3 = np.uint64(c[0]), np.uint64(c[1]), np.uint64(c[2]), np.uint64(c[3])
        out[0], out[1], out[2], out[3] = philox4x32_10(c0, c1, c2, c3, np.uint64(k[0]), np.uint64(k[1]))

    def bits(counter: Words, key: Words) -> Words:
        out = torch.zeros(4, dtype=torch.int64)
        launch(kernel, 1, torch.tensor(counter), torch.tensor(key), output(out), block=1)
        return tuple(out.tolist())

    return bits


def _compiled_bits(compiled: ctypes.CDLL) -> Callable[[Words, Words], Words]:
    def bits(counter: Words, key: Words) -> Words:
        out = (ctypes.c_uint32 * 4)()
        compiled.bits((ctypes.c_uint32 * 4)(*counter), (ctypes.c_uint32 * 2)(*key), out)
        return tuple(out)

    return bits


@pytest.fixture(params=["torch", "simulator", "c++"])
def bits(request: pytest.FixtureRequest) -> Callable[[Words, Words], Words]:
    if request.param == "c++":
        return _compiled_bits(request.getfixturevalue("compiled"))
    make = {"torch": _torch_bits, "simulator": _simulated_bits}[request.param]
    return make(request.getfixturevalue("prototype"))


@pytest.mark.parametrize("vector", VECTORS)
def test_bits_are_the_published_ones(bits: Callable[[Words, Words], Words], vector: str) -> None:
    counter, key, expected = VECTORS[vector]
    assert bits(counter, key) == expected


@pytest.mark.parametrize("vector", VECTORS)
def test_swapped_key_words_give_other_bits(bits: Callable[[Words, Words], Words], vector: str) -> None:
    counter, (k0, k1), expected = VECTORS[vector]
    assert bits(counter, (k1 ^ 1, k0)) != expected


# ------------------------------------------------------------------------------------------------- normals


def _exact(seed: int, offset: int, group: int) -> list[float]:
    """The normals of a group in Python's own arithmetic, on integers of any size and floats of 64 bits."""
    words = [offset // 4 & 0xFFFFFFFF, offset // 4 >> 32, group & 0xFFFFFFFF, group >> 32]
    key = [seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF]
    for _ in range(10):
        p0, p1 = 0xD2511F53 * words[0], 0xCD9E8D57 * words[2]
        words = [p1 >> 32 ^ words[1] ^ key[0], p1 & 0xFFFFFFFF, p0 >> 32 ^ words[3] ^ key[1], p0 & 0xFFFFFFFF]
        key = [key[0] + 0x9E3779B9 & 0xFFFFFFFF, key[1] + 0xBB67AE85 & 0xFFFFFFFF]
    return [*_box_muller(words[0], words[1]), *_box_muller(words[2], words[3])]


def _box_muller(radius_word: int, angle_word: int) -> tuple[float, float]:
    u = np.float32(np.float32(radius_word) * np.float32(2.0**-32) + np.float32(2.0**-33))
    signed = angle_word - (angle_word >> 31 << 32)
    angle = math.pi / 4 * float(np.float32(np.float32(signed) * np.float32(2.0**-31) + np.float32(2.0**-32)))
    radius = math.sqrt(-2 * math.log(u)) * (-1) ** (angle_word & 1)
    pair = radius * math.cos(angle), radius * math.sin(angle)
    return (pair[1], pair[0]) if angle_word & 2 else pair


STREAMS = [(0, 0, 0), (1, 4, 7), (-5, 2**34, 2**33 + 1), (2**63 - 1, 2**62, 2**40)]


@pytest.mark.parametrize(("seed", "offset", "first"), STREAMS)
def test_normals_of_each_form_are_the_exact_ones(
    prototype: ModuleType, compiled: ctypes.CDLL, seed: int, offset: int, first: int
) -> None:
    groups = 16
    exact = np.array([_exact(seed, offset, first + g) for g in range(groups)]).reshape(-1)
    z32, z64 = np.empty(4 * groups, np.float32), np.empty(4 * groups)
    compiled.normals32(seed, offset, first, groups, z32.ctypes.data)
    compiled.normals64(seed, offset, first, groups, z64.ctypes.data)
    np.testing.assert_allclose(z64, exact, rtol=1e-15)
    np.testing.assert_allclose(z32, exact, rtol=5e-7)  # 4 ulp
    if first == 0:
        for dtype, rtol in ((torch.float64, 1e-15), (torch.float32, 1e-6)):
            z = prototype.normals(torch.tensor([seed]), offset, 4 * groups - 1, dtype)
            np.testing.assert_allclose(z.numpy(), exact[:-1], rtol=rtol)


def test_float_box_muller_is_accurate_where_its_factors_vanish(compiled: ctypes.CDLL) -> None:
    near_one = int(0.65 * 2**32)  # where the logarithm's two branches meet
    radius_words = [0, 1, 2**20, 2**31, near_one - 256, near_one + 256, 2**32 - 2**10, 2**32 - 2**7, 2**32 - 1]
    angle_words = [
        0,
        1,
        2,
        2**16 + 1,
        2**29,
        2**30 + 1,
        2**31 - 129,
        2**31 - 1,
        2**31,
        2**31 + 385,
        2**32 - 2,
        2**32 - 1,
    ]
    z = np.empty(2, np.float32)
    for radius_word in radius_words:
        for angle_word in angle_words:
            compiled.pair32(radius_word, angle_word, z.ctypes.data)
            exact = _box_muller(radius_word, angle_word)
            np.testing.assert_allclose(z, exact, rtol=5e-7, err_msg=f"words {radius_word}, {angle_word}")
