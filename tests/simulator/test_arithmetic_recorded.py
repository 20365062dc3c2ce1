"""The simulator computes what an H200 computed, recorded in ``arithmetic/h200.xz``: types, wraps, edges, functions."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from numba import cuda

from tests.simulator.arithmetic import cases, contraction, functions, record
from tests.simulator.arithmetic.record import Recorded

ABOUT, CASES = record.recorded()

# Where LLVM calls a result poison, the GPU's register may hold bits beyond the type: those that the type has agree.
# A float beyond uint8 is converted in 16 bits; ptxas negates an int16 in 32.
LOW_BITS = {"uint8": 8, "abs(x)": 16}

# In units in the last place: what the functions of CUDA may be off by, where that is more than 1 (CUDA C++ Programming
# Guide, "Mathematical Functions", accuracy tables); ours are the exact values, rounded.
ULPS = 2
WIDER = {"lgamma": 6, "gamma": 10, "tgamma": 10, "erfc": 5}
# The same guide bounds these by their absolute errors, as large as these near their zeros and for large arguments.
BESSEL = {"f": 2.3e-6, "d": 5e-12}
# PTX's approximations (ISA, "sin.approx" and its neighbours): absolute for sin and cos within pi, relative for others.
FAST = 2e-4


@cache
def kernels(folder: Path) -> ModuleType:
    """All recorded kernels as a module of a file: the simulator rewrites source."""
    path = folder / "recorded_kernels.py"
    lines = ["import math", "import numpy as np", "from numba import cuda", "from numba.cuda import libdevice", ""]
    for number, case in enumerate(CASES):
        lines += [f"# {case.name}", case.source.replace("def kernel(", f"def kernel{number}(")]
    path.write_text("\n".join(lines))
    specification = importlib.util.spec_from_file_location("recorded_kernels", path)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """From a case's number to the simulator's rows by label."""
    module = kernels(tmp_path_factory.mktemp("kernels"))

    def run(number: int) -> dict[str, np.ndarray[Any, Any]]:
        case = CASES[number]
        count = len(case.inputs[0])
        arrays = {
            letter: np.zeros((max(1, case.letters.count(letter)), count), {"f": "f8", "i": "i8"}[letter])
            for letter in "fi"
        }
        kernel = cuda.jit(getattr(module, f"kernel{number}"))
        kernel[1, count](*(column.copy() for column in case.inputs), arrays["f"], arrays["i"])
        return {
            label: arrays[letter][case.letters[:place].count(letter)]
            for place, (label, letter) in enumerate(zip(case.labels, case.letters, strict=True))
        }

    return run


def numbered(*prefixes: str) -> list[Any]:
    """Cases whose names begin so."""
    return [
        pytest.param(number, id=case.name)
        for number, case in enumerate(CASES)
        if case.name.startswith(prefixes) and "" not in case.errors
    ]


def describe(case: Recorded, label: str, places: Any, found: Any, wanted: Any) -> str:
    place = int(np.flatnonzero(places)[0])
    operands = ", ".join(repr(column[place]) for column in case.inputs)
    return f"{label} of ({operands}): the GPU gave {wanted[place]!r}, the simulator {found[place]!r}"


def differ(found: Any, wanted: Any) -> Any:
    """Where two rows differ in their bits; all NaNs count as equal."""
    same = found == wanted
    if found.dtype.kind == "f":
        same &= np.signbit(found) == np.signbit(wanted)
        same |= np.isnan(found) & np.isnan(wanted)
    return ~same


def _holds(kind: str, row: Any) -> bool:
    with np.errstate(over="ignore"):
        return not differ(row.astype(kind).astype("f8"), row).any()


def distances(found: Any, wanted: Any) -> Any:
    """How many numbers of the narrowest type that holds both rows lie between each two."""
    kind = next(k for k in ("f2", "f4", "f8") if all(_holds(k, row) for row in (found, wanted)))
    integer = kind.replace("f", "i")
    lowest = int(np.iinfo(integer).min)

    def ordered(row: Any) -> list[int]:
        return [int(bits) if bits >= 0 else lowest - int(bits) for bits in row.astype(kind).view(integer)]

    steps = [abs(a - b) for a, b in zip(ordered(found), ordered(wanted), strict=True)]
    steps = [2**62 if np.isnan(a) != np.isnan(b) else n for a, b, n in zip(found, wanted, steps, strict=True)]
    return np.where(differ(found, wanted), np.array(steps, dtype=object), 0)


# A pair of types each; numbers of threads that are not warps; kernels of one launch each.
SINGLE = ("bool", "int", "uint", "float", "unary", "store", "atomic")


@pytest.mark.parametrize("number", numbered(*SINGLE))
def test_single_operations_and_integer_programs_agree_bit_for_bit(number: int, simulated: Any) -> None:
    case, found = CASES[number], simulated(number)
    for label, wanted in case.rows.items():
        if label in case.errors:
            continue
        places = differ(found[label], wanted)
        alone = wanted.dtype.kind == "i" and case.name.startswith(("unary", "store"))
        bits = LOW_BITS.get(label) if alone else None
        if bits is not None:
            places &= (found[label] - wanted) % 2**bits != 0
        assert not places.any(), describe(case, label, places, found[label], wanted)


@pytest.mark.parametrize("number", numbered("mixed"))
def test_variables_of_several_types_agree_bit_for_bit(number: int, simulated: Any) -> None:
    case, found = CASES[number], simulated(number)
    for label, wanted in case.rows.items():
        places = differ(found[label], wanted)
        assert not places.any(), describe(case, label, places, found[label], wanted) + f"\n{case.source}"


@pytest.mark.parametrize("number", numbered("pow", "math", "libdevice", "fp16", "fma"))
def test_functions_agree_within_their_errors(number: int, simulated: Any) -> None:
    case, found = CASES[number], simulated(number)
    for label, wanted in case.rows.items():
        row, name = found[label], label.rpartition(".")[2].partition("[")[0]
        if wanted.dtype.kind == "i":
            places = differ(row, wanted)
        elif name.startswith("fast_"):
            places = ~np.isclose(row, wanted, FAST, FAST, equal_nan=True) & _within_reach(case)
        elif name[:2] in ("j0", "j1", "jn", "y0", "y1", "yn"):
            places = ~np.isclose(row, wanted, 1e-13 if "f" not in name else 1e-5, BESSEL["f" if "f" in name else "d"])
            places &= ~(np.isnan(wanted) & (np.abs(case.inputs[-1]) < 1e-30))  # CUDA's recurrence overflows there
            places &= ~(np.isnan(wanted) & np.isnan(row))
        else:
            places = distances(row, wanted) > WIDER.get(name.removesuffix("f") if name != "erf" else name, ULPS)
        assert not places.any(), describe(case, label, places, row, wanted)


def _within_reach(case: Recorded) -> Any:
    """Operands for which PTX states an error of its approximations."""
    reach = np.ones(len(case.inputs[0]), bool)
    for column in case.inputs:
        reach &= np.isfinite(column) & (np.abs(column) < 3.2)
    return reach


@pytest.mark.parametrize("number", numbered("chain"))
def test_chains_agree_within_what_contraction_explains(number: int, simulated: Any) -> None:
    case, found = CASES[number], simulated(number)
    kind = str(case.inputs[0].dtype)
    for label, wanted in case.rows.items():
        for place in range(len(wanted)):
            operands = {name: float(column[place]) for name, column in zip("xyz", case.inputs, strict=True)}
            here = np.arange(len(wanted)) == place
            (separate,) = contraction.results(label, operands, kind, fuse=False)
            assert not differ(found[label][here], np.array([separate]))[0], f"{label} of {operands}: {separate!r}"
            if differ(found[label][here], wanted[here])[0]:
                legal = contraction.results(label, operands, kind)
                assert wanted[place] in legal, describe(case, label, here, found[label], wanted)


def test_contraction_does_not_explain_a_wrong_result() -> None:
    operands = {"x": 1.0 + 2.0**-20, "y": 1.0 - 2.0**-20, "z": -1.0}
    legal = contraction.results("x * y + z", operands, "float32")
    assert legal == {0.0, -(2.0**-40)}
    assert 2.0**-40 not in legal


def test_some_chains_were_contracted() -> None:
    """Else the comparison would show nothing."""
    changed = 0
    for case in CASES:
        if case.name.startswith("chain"):
            for label, row in case.rows.items():
                operands = {name: float(column[0]) for name, column in zip("xyz", case.inputs, strict=True)}
                changed += contraction.results(label, operands, str(case.inputs[0].dtype), fuse=False) != {row[0]}
    assert changed > 5


def test_recorded_kernels_are_those_that_the_tests_would_write_now() -> None:
    written = {case.name: case for case in (*cases.single_operations(), *functions.calls())}
    for case in CASES:
        if case.name.startswith(("integers", "mixed", "chain")):  # drawn by the hypothesis of that day
            continue
        assert case.source == written[case.name].source
        for kept, made in zip(case.inputs, written[case.name].inputs, strict=True):
            assert kept.tobytes() == made.tobytes()


@pytest.mark.gpu
@pytest.mark.skipif(shutil.which("nvidia-smi") is None, reason="no NVIDIA GPU")
def test_this_machines_gpu_computes_what_was_recorded(tmp_path: Path) -> None:
    record.write(tmp_path / "cases.npz")
    runner = Path(record.__file__).with_name("on_gpu.py")
    without_simulator = {name: value for name, value in os.environ.items() if not name.startswith("TRIFOLD")}
    subprocess.run(
        [sys.executable, "-W", "ignore", str(runner), str(tmp_path / "cases.npz"), str(tmp_path / "results.npz")],
        env=without_simulator | {"NUMBA_ENABLE_CUDASIM": "0"},
        check=True,
    )
    record.keep(tmp_path / "cases.npz", tmp_path / "results.npz", tmp_path / "recorded.xz")
    about, found = record.recorded(tmp_path / "recorded.xz")
    old = {case.name: case for case in CASES}
    for case in found:
        same_inputs = all(a.tobytes() == b.tobytes() for a, b in zip(case.inputs, old[case.name].inputs, strict=True))
        if case.source != old[case.name].source or not same_inputs:
            continue  # another version of hypothesis draws other cases
        for label, row in case.rows.items():
            assert not differ(row, old[case.name].rows[label]).any(), (json.dumps(about), case.name, label)
