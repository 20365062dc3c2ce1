"""CUDA's 8-bit floats on the CPU: every value of the narrow formats, and each rounding decision of the wide ones.

The expected bytes come from the values that torch gives to the 256 bytes of a format: the byte of a number is how many
midpoints between neighbours are below it, and of a midpoint the even one of its two. For the scale factors (e8m0) they
come from the exponents.
"""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch

from trifold.sanitize.program import sanitize

PROGRAM, SCALES = (Path(__file__).with_name("programs") / f"{name}.cu" for name in ("float8", "float8_scales"))
NAN = 0x7F
# What the program prints: the conversions of the types, then of their vectors.
PRINTS = """\
-2.5 57344 -320 57344 -57344 8 -12 12 -57344 12 -1.125 448 127 255 -128 0 0 0 -9.22337e+18 0 1
1.5 -0.3125 1.5 -0.3125 1.5 -0.3125 448 7 1.5 -0.3125 1.5 -0.3125 1.5 -0.3125 10240 7
1 1 1
"""
SCALES_PRINT = """\
4 5.87747e-39 512 65535 2.14748e+09 16 4 16 9.22337e+18 2.30584e+18 0.5 512 127 255 0 1
2 0.5 2 0.5 2 0.5 2 0.5 16384 8
1 1 1
"""
LARGEST_FLOAT = float(np.finfo(np.float32).max)
# Of the scale factors: the rounding to the power of two above, and saturation.
SCALE_WAYS = [(up, saturated) for up in (False, True) for saturated in (False, True)]


@dataclass(frozen=True)
class Format:
    """An 8-bit format.

    Attributes:
        dtype: the same format in torch.
        largest: the byte of the largest finite number.
        beyond: the number that would follow it.
    """

    dtype: torch.dtype
    largest: int
    beyond: float

    def values(self) -> np.ndarray:
        """The 256 values, as float32."""
        return torch.arange(256, dtype=torch.uint8).view(self.dtype).float().numpy()

    def midpoints(self) -> np.ndarray:
        """Between each positive number and the next one, ``beyond`` included."""
        positive = np.append(self.values()[: self.largest + 1], self.beyond).astype(np.float64)
        return (positive[:-1] + positive[1:]) / 2

    def nearest(self, numbers: np.ndarray, *, saturated: bool) -> np.ndarray:
        """The bytes of float64 numbers; of NaN, ``NAN``."""
        midpoints = np.append(self.midpoints(), np.inf)
        below = np.searchsorted(midpoints[:-1], np.abs(numbers))
        is_odd_tie = (np.abs(numbers) == midpoints[below]) & (below < self.largest + 1) & (below % 2 == 1)
        code = below + is_odd_tie
        if saturated:
            code = np.minimum(code, self.largest)
        code = code | np.signbit(numbers).astype(np.int64) << 7
        return np.where(np.isnan(numbers), NAN, code).astype(np.uint8)


# The byte after the largest is NaN in the one and infinity in the other: as CUDA documents numbers beyond.
FORMATS = (Format(torch.float8_e4m3fn, 0x7E, 480.0), Format(torch.float8_e5m2, 0x7B, 65536.0))
WAYS = [(format_, saturated) for format_ in FORMATS for saturated in (False, True)]


def rounding_decisions() -> np.ndarray:
    """Numbers and midpoints of both formats with the doubles and the floats next to them, and extreme ones; of both
    signs."""
    numbers = np.concatenate([np.append(f.values()[: f.largest + 1], f.beyond).astype(np.float64) for f in FORMATS])
    exact = np.concatenate([numbers, *(f.midpoints() for f in FORMATS)])
    single = exact.astype(np.float32)
    extreme = [5e-324, 1e-45, 1.2e-38, 65519.0, 65520.0, 1e10, 3.4e38, 3.5e38, 1.7e308, np.inf]
    up, down = np.float32(np.inf), np.float32(0)
    positive = np.concatenate(
        [
            exact,
            np.nextafter(exact, np.inf),
            np.nextafter(exact, 0),
            np.nextafter(single, up),
            np.nextafter(single, down),
            extreme,
        ]
    )
    return np.concatenate([positive, -positive])


@dataclass(frozen=True)
class Results:
    """What the program computed; the first index of conversions to 8 bits is that of ``WAYS``."""

    widened: np.ndarray
    halves: np.ndarray
    of_halves: np.ndarray
    of_bfloat16s: np.ndarray
    of_doubles: np.ndarray
    of_floats: np.ndarray


def as_floats(numbers: np.ndarray) -> np.ndarray:
    """The float64 of the nearest float32."""
    with np.errstate(over="ignore"):
        return numbers.astype(np.float32).astype(np.float64)


def bfloat16s() -> np.ndarray:
    """All of them, by their bits."""
    with np.errstate(invalid="ignore"):  # of signalling NaN
        return (np.arange(65536, dtype=np.uint32) << 16).view(np.float32).astype(np.float64)


def computed(program: Path, numbers: np.ndarray, own: list[np.ndarray], folder: Path) -> list[np.ndarray]:
    """Run a program under the sanitizer, which finds nothing. Its results are the arrays of ``own``, whose contents are
    ignored, and in each of four ways the conversions of the numbers and of their floats."""
    given, made = folder / "numbers", folder / "results"
    numbers.astype(np.float64).tofile(given)
    report = sanitize(program, [str(given), str(made)])
    assert (report.entries, report.exit_status) == ([], 0)
    data, at, arrays = made.read_bytes(), 0, []
    for like in [*own, *[np.empty((4, len(numbers)), np.uint8)] * 2]:
        arrays.append(np.frombuffer(data, like.dtype, like.size, at).reshape(like.shape))
        at += like.nbytes
    assert at == len(data)
    return arrays


def converted(numbers: np.ndarray, folder: Path) -> Results:
    """What programs/float8.cu makes of numbers."""
    widened, halves = np.empty((2, 256), np.float32), np.empty((2, 256), np.uint16)
    return Results(*computed(PROGRAM, numbers, [widened, halves, *[np.empty((4, 65536), np.uint8)] * 2], folder))


def nearest_scales(numbers: np.ndarray, *, up: bool, saturated: bool) -> np.ndarray:
    """The bytes of e8m0 of float64 numbers."""
    fraction, exponent = np.frexp(np.abs(numbers))  # the fraction is at least 1/2
    code = exponent - 1 + 127 + (up & (fraction != 0.5))
    code = np.where((numbers == 0) | (code < 0), 0, code)
    code = np.where((code > 254) | np.isinf(numbers), 254 if saturated else 255, code)
    return np.where(np.isnan(numbers), 255, code).astype(np.uint8)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return converted(rounding_decisions(), tmp_path_factory.mktemp("float8"))


@pytest.mark.parametrize("which", [0, 1], ids=["e4m3", "e5m2"])
def test_each_of_the_256_values_is_widened_exactly(which: int, results: Results) -> None:
    expected = FORMATS[which].values()
    nan = np.isnan(expected)
    assert nan.sum() == (2, 6)[which]
    # The GPU's NaN, whichever it was.
    assert set(results.widened[which][nan].view(np.uint32)) == {0x7FFFFFFF}
    assert set(results.halves[which][nan]) == {0x7FFF}
    assert np.array_equal(results.widened[which][~nan].view(np.uint32), expected[~nan].view(np.uint32))
    assert np.array_equal(results.halves[which][~nan], expected[~nan].astype(np.float16).view(np.uint16))


@pytest.mark.parametrize("way", range(4), ids=["e4m3", "e4m3-saturated", "e5m2", "e5m2-saturated"])
def test_all_16_bit_floats_are_rounded_to_nearest_even(way: int, results: Results) -> None:
    format_, saturated = WAYS[way]
    halves = np.arange(65536, dtype=np.uint16).view(np.float16).astype(np.float64)
    assert np.array_equal(results.of_halves[way], format_.nearest(halves, saturated=saturated))
    assert np.array_equal(results.of_bfloat16s[way], format_.nearest(bfloat16s(), saturated=saturated))


@pytest.mark.parametrize("way", range(4), ids=["e4m3", "e4m3-saturated", "e5m2", "e5m2-saturated"])
def test_a_double_is_rounded_once(way: int, results: Results) -> None:
    format_, saturated = WAYS[way]
    numbers = rounding_decisions()
    of_floats = format_.nearest(as_floats(numbers), saturated=saturated)
    assert np.array_equal(results.of_doubles[way], format_.nearest(numbers, saturated=saturated))
    assert np.array_equal(results.of_floats[way], of_floats)
    # The test can tell: next to a midpoint, rounding to float first gives the midpoint.
    assert not np.array_equal(results.of_doubles[way], of_floats)


def test_a_nan_of_64_bits_keeps_its_sign_and_what_fits_of_its_fraction(tmp_path: Path) -> None:
    nans = np.array([0x7FF8 << 48, 0xFFF8 << 48, 0x7FFC << 48, 0x7FF0000000000001], np.uint64)
    made = converted(nans.view(np.float64), tmp_path).of_doubles
    assert [f"{way.tobytes().hex(' ')}" for way in made] == ["7f ff 7f 7f"] * 2 + ["7e fe 7f 7e"] * 2


def test_the_types_convert_as_documented(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    converted(np.zeros(1), tmp_path)
    assert capfd.readouterr().out == PRINTS


def test_scales_are_powers_of_two(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    powers = 2.0 ** np.arange(-130, 130)
    single = powers[:-2].astype(np.float32)
    positive = [powers, np.nextafter(powers, np.inf), np.nextafter(powers, 0), np.nextafter(single, np.float32(np.inf))]
    numbers = np.concatenate([*positive, np.nextafter(single, np.float32(0)), [0, 5e-324, 1e300, np.inf, np.nan]])
    numbers = np.concatenate([numbers, -numbers])
    own: list[np.ndarray] = [np.empty(256, np.float32), np.empty((4, 65536), np.uint8)]
    widened, of_bfloat16s, of_doubles, of_floats = computed(SCALES, numbers, own, tmp_path)
    assert np.array_equal(widened, np.append(2.0 ** np.arange(-127, 128), np.nan), equal_nan=True)
    # CUDA converts a double through a float, which stays finite.
    through_floats = np.where(np.isinf(numbers), numbers, np.clip(numbers, -LARGEST_FLOAT, LARGEST_FLOAT))
    for way, (up, saturated) in enumerate(SCALE_WAYS):
        for made, given in (
            (of_bfloat16s, bfloat16s()),
            (of_doubles, through_floats),
            (of_floats, as_floats(numbers)),
        ):
            assert np.array_equal(made[way], nearest_scales(given, up=up, saturated=saturated))
    assert capfd.readouterr().out == SCALES_PRINT


def test_a_rounding_that_scales_do_not_have_fails_cuda_s_assertion(tmp_path: Path) -> None:
    program = tmp_path / "program.cu"
    program.write_text(
        "#include <cuda_fp8.h>\n"
        "__global__ void k(unsigned char* y) { *y = __nv_cvt_float_to_e8m0(3, __NV_NOSAT, cudaRoundNearest); }\n"
        "int main() { unsigned char* y; cudaMalloc(&y, 1); k<<<1, 1>>>(y); cudaFree(y); }\n"
    )
    (problem,) = sanitize(program).problems
    assert "a failed assertion, rounding == cudaRoundZero || rounding == cudaRoundPosInf" in problem


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="there is no nvcc")
@pytest.mark.parametrize("program", [PROGRAM, SCALES], ids=lambda program: program.stem)
def test_nvcc_compiles_the_same_program(program: Path, tmp_path: Path) -> None:
    command = ["nvcc", "-std=c++17", "-arch=sm_90", "-c", str(program), "-o", str(tmp_path / "float8.o")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
