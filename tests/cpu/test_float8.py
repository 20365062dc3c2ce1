"""CUDA's 8-bit floats on the CPU: every value of the narrow formats, and each rounding decision of the wide ones.

The expected bytes come from the values that torch gives to the 256 bytes of a format: the byte of a number is how many
midpoints between neighbours are below it, and of a midpoint the even one of its two.
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

PROGRAM = Path(__file__).with_name("programs") / "float8.cu"
NAN = 0x7F
# What the program prints: the conversions of the types, then of their vectors.
PRINTS = """\
-2.5 57344 -320 57344 -57344 8 -12 12 -57344 12 -1.125 448 127 255 -128 0 0 0 -9.22337e+18 0 1
1.5 -0.3125 1.5 -0.3125 1.5 -0.3125 448 7 1.5 -0.3125 1.5 -0.3125 1.5 -0.3125 10240 7
1 1 1
"""


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


def converted(numbers: np.ndarray, folder: Path) -> Results:
    """Run the program under the sanitizer, which finds nothing."""
    given, made = folder / "numbers", folder / "results"
    numbers.astype(np.float64).tofile(given)
    report = sanitize(PROGRAM, [str(given), str(made)])
    assert (report.told, report.exit_status) == ([], 0)
    data = made.read_bytes()
    shapes = [
        (np.float32, (2, 256)),
        (np.uint16, (2, 256)),
        *[(np.uint8, (4, 65536))] * 2,
        *[(np.uint8, (4, len(numbers)))] * 2,
    ]
    arrays, at = [], 0
    for dtype, shape in shapes:
        count = int(np.prod(shape))
        arrays.append(np.frombuffer(data, dtype, count, at).reshape(shape))
        at += arrays[-1].nbytes
    assert at == len(data)
    return Results(*arrays)


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
    bits = np.arange(65536, dtype=np.uint16)
    halves = bits.view(np.float16).astype(np.float64)
    with np.errstate(invalid="ignore"):  # of signalling NaN
        bfloat16s = (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    assert np.array_equal(results.of_halves[way], format_.nearest(halves, saturated=saturated))
    assert np.array_equal(results.of_bfloat16s[way], format_.nearest(bfloat16s, saturated=saturated))


@pytest.mark.parametrize("way", range(4), ids=["e4m3", "e4m3-saturated", "e5m2", "e5m2-saturated"])
def test_a_double_is_rounded_once(way: int, results: Results) -> None:
    format_, saturated = WAYS[way]
    numbers = rounding_decisions()
    with np.errstate(over="ignore"):
        floats = numbers.astype(np.float32).astype(np.float64)
    of_floats = format_.nearest(floats, saturated=saturated)
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


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="there is no nvcc")
def test_nvcc_compiles_the_same_program(tmp_path: Path) -> None:
    command = ["nvcc", "-std=c++17", "-arch=sm_90", "-c", str(PROGRAM), "-o", str(tmp_path / "float8.o")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
