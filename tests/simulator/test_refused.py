"""Code that the simulator runs but Numba's CUDA target does not compile is reported at its line."""

from __future__ import annotations

import importlib.metadata
import inspect
import json
import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba import cuda

from tests.simulator import refused_kernels
from trifold import simulator
from trifold.findings import Finding, KernelWarning, collect
from trifold.simulator import refused

_OWN_TARGET = not any(each.metadata["Name"] == "numba-cuda" for each in importlib.metadata.distributions())
_COMPILE = """
import json
from numba import types
from numba.cuda.compiler import compile_cuda
from tests.simulator import refused_kernels as kernels
answers = {}
for name in [n for each in kernels.NAMES for n in (each, each + "_right")]:
    try:
        compile_cuda(getattr(kernels, name), None, (types.float64[::1], types.int64), cc=(9, 0))
        answers[name] = True
    except Exception:
        answers[name] = False
print(json.dumps(answers))
"""


def reported(function: Any) -> list[Finding]:
    with warnings.catch_warnings(), simulator.options(lint=True), collect() as found:
        warnings.simplefilter("ignore", KernelWarning)
        cuda.jit(function)[1, 1](np.zeros(4), 3)
    return found


@pytest.mark.parametrize("name", refused_kernels.NAMES)
def test_a_kernel_that_does_not_compile_is_reported(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refused, "_has_numba_cuda", lambda: False)
    function = getattr(refused_kernels, name)
    lines, first = inspect.getsourcelines(function)
    line = first + next(n for n, text in enumerate(lines) if "# refused" in text)
    (finding,) = reported(function)
    assert (finding.kind, finding.accesses[0].line) == ("does not compile", line)
    assert finding.severity == ("lint" if name in refused_kernels.OF_NUMBAS_OWN else "warning")
    assert f"refused_kernels.py:{line}" in finding.message
    assert reported(getattr(refused_kernels, f"{name}_right")) == []


@pytest.mark.slow
@pytest.mark.skipif(not _OWN_TARGET, reason="numba-cuda takes the place of numba's own target")
def test_numba_refuses_what_is_reported_and_compiles_the_other() -> None:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("TRIFOLD")} | {"NUMBA_ENABLE_CUDASIM": "0"}
    command = [sys.executable, "-W", "ignore", "-c", _COMPILE]
    answer = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    compiled = json.loads(answer.stdout)
    calls = {"smaller", "argument_left_out", "argument_left_out_right"}  # whose compilation asks a GPU
    wrong = {name for name, it_did in compiled.items() if it_did != name.endswith("_right")}
    assert wrong <= calls


def test_what_numba_cuda_compiles_is_not_reported_where_it_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    of_own_target = refused.Refusal(1, "calls min", "write a if a < b else b", own_target=True)
    monkeypatch.setattr(refused, "_has_numba_cuda", lambda: True)
    assert not list(refused.findings("kernel", refused_kernels.smaller, [of_own_target]))  # type: ignore[arg-type]


def test_a_user_sees_it_in_a_plain_run_with_the_remedy() -> None:
    with pytest.warns(KernelWarning, match=r"does not compile it: write a literal, or compute it outside the kernel"):
        cuda.jit(refused_kernels.computed_shape)[1, 1](np.zeros(4), 3)


def test_lints_are_silent_in_plain_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refused, "_has_numba_cuda", lambda: False)
    with collect() as found:
        cuda.jit(refused_kernels.smaller)[1, 1](np.zeros(4), 3)
    assert found == []


@cuda.jit
def _accepting(x):
    x[0] = np.sqrt(x[0])  # trifold: allow does not compile, it runs in the simulator alone


def test_a_comment_accepts_it() -> None:
    with warnings.catch_warnings(), collect() as found:
        warnings.simplefilter("error")
        _accepting[1, 1](np.ones(1))
    assert [finding.accepted for finding in found] == ["it runs in the simulator alone"]
    assert Path(__file__).name in found[0].accepted_at


def test_a_decorator_is_no_part_of_the_kernel() -> None:
    @cuda.jit([f"void({kind}[:])" for kind in ("float32", "float64")])
    def kernel(x):
        x[0] = 1

    with collect() as found:
        kernel[1, 1](np.ones(1))
    assert found == []
