"""Results have the types that Numba's CUDA target gives them, for every operator, function and pair of types."""

from __future__ import annotations

import builtins
import json
import math
import operator
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba import cuda

from tests.simulator.arithmetic import inferred
from tests.simulator.arithmetic.values import KINDS
from trifold import _simulator, simulator
from trifold.simulator import arithmetic, types_of

MODULES = {"operator": operator, "builtins": builtins, "math": math, "numpy": np}
# numba-cuda's answers, which are the newer ones, where Numba's own target has others.
NEWER = {"operator.pos float16": "float16", "math.tanh float16": "float16"}


def _of_numba(module: str) -> str:
    """Return the output of a module that asks Numba's compiler."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("TRIFOLD")} | {"NUMBA_ENABLE_CUDASIM": "0"}
    command = [sys.executable, "-W", "ignore", "-m", module]
    answer = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


@pytest.fixture(scope="module")
def numba_types() -> dict[str, str]:
    """By function and types of arguments, the type of the result."""
    table: dict[str, str] = json.loads(_of_numba("tests.simulator.arithmetic.numba_types"))
    return table | {key: kind for key, kind in NEWER.items() if key in table}


def device(name: str) -> Any:
    """Our function; None for one that is not ours."""
    module, _, member = name.partition(".")
    if member in ("lt", "eq"):
        return getattr(operator, member)
    return arithmetic.device_function(getattr(MODULES[module], member))


def sample(kind: str) -> Any:
    return _simulator.boolean(1) if kind == "bool" else arithmetic.CASTS[kind](1)


@pytest.mark.slow
@pytest.mark.extended
def test_every_result_has_numbas_type(numba_types: dict[str, str]) -> None:
    checked, wrong = 0, []
    for key, wanted in numba_types.items():
        name, *kinds = key.split()
        if name == "unified" or (function := device(name)) is None:
            continue
        if name in ("builtins.min", "builtins.max") and len(kinds) == 1:
            continue
        try:
            found = types_of.type_of(function(*map(sample, kinds)))
        except TypeError as refused:
            wrong.append(f"{key}: {refused}")
            continue
        checked += 1
        if isinstance(found, tuple):
            members = re.match(r"UniTuple\((\w+) x 2\)|Tuple\((\w+), (\w+)\)", wanted)
            assert members is not None, wanted
            same = found == ((members[1],) * 2 if members[1] else (members[2], members[3]))
        else:
            same = found == wanted
        if not same:
            wrong.append(f"{key}: Numba {wanted}, here {found}")
    assert not wrong, "\n".join(wrong[:40])
    assert checked > 4000


@pytest.mark.slow
def test_one_variable_for_two_types_is_numbas(numba_types: dict[str, str]) -> None:
    wrong = [
        (first, second)
        for first in KINDS
        for second in KINDS
        if types_of.unified(first, second) != numba_types[f"unified {first} {second}"]
    ]
    assert wrong == []


@pytest.mark.slow
def test_what_numba_refuses_is_a_type_error(numba_types: dict[str, str]) -> None:
    for name in ("lshift", "rshift", "and_", "or_", "xor"):
        assert f"operator.{name} float32 int32" not in numba_types
        with pytest.raises(TypeError, match="unsupported operand"):
            device(f"operator.{name}")(_simulator.float32(1), _simulator.int32(1))


def test_every_function_of_libdevice_is_there() -> None:
    script = "from numba.cuda.libdevicefuncs import functions; print(*functions)"
    environment = {**os.environ, "NUMBA_ENABLE_CUDASIM": "0"}
    answer = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    names = {name.removeprefix("__nv_") for name in answer.stdout.split()}
    assert len(names) > 300
    assert names == {name.removeprefix("libdevice.") for name in _simulator.functions if name.startswith("libdevice.")}


# Programs -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def inferred_types() -> dict[str, str]:
    """By program and type of its inputs, the type of its result."""
    table: dict[str, str] = json.loads(_of_numba("tests.simulator.arithmetic.inferred"))
    return table


@pytest.mark.slow
def test_every_program_has_the_types_that_numba_infers(inferred_types: dict[str, str], tmp_path: Path) -> None:
    """An int32 is kept as an int64 where no result computed from it depends on the difference."""
    programs = list(inferred.cases())
    source = [inferred.function(program, f"f{n}", "found.append({})") for n, (program, _) in enumerate(programs)]
    path = tmp_path / "programs.py"
    path.write_text(inferred.HEADER + "\n\n" + "\n\n".join(source))
    names = runpy.run_path(str(path))
    wrong = []
    for n, (program, kind) in enumerate(programs):
        if (wanted := inferred_types.get(f"{program} | {kind}")) is None:
            continue
        names["found"].clear()
        with simulator.options(checks="none"):
            cuda.jit(names[f"f{n}"])[1, 1](np.ones(2, kind), 1)
        found = types_of.type_of(names["found"][0])
        if found != ("int64" if wanted == "int32" and found == "int64" else wanted):
            wrong.append(f"{program} of {kind}: Numba {wanted}, here {found}")
    assert wrong == []
    assert len(inferred_types) > 500


def test_a_number_that_decides_a_branch_is_read_again(tmp_path: Path) -> None:
    """Numba does not type the branch that a constant rules out; here the constant may change between launches."""
    path = tmp_path / "decided.py"
    program = inferred.function("s = a; if FEW > 3: s = 2.5; s", "f", "found.append({})")
    path.write_text(f"{inferred.HEADER}\n\n{program}")
    names = runpy.run_path(str(path))
    kernel, found = cuda.jit(names["f"]), names["found"]
    for few in (3, 4, 3):
        names["f"].__globals__["FEW"] = few
        kernel[1, 1](np.ones(2, np.float32), 1)
    assert [types_of.type_of(value) for value in found] == ["float32", "float64", "float32"]
