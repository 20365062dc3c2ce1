"""A drafted kernel computes on the CPU what its prototype computes in the simulator."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from tests.draft.test_refusals import drafting
from trifold.cpu import RawKernel

HERE = Path(__file__).parent


def _kernels() -> list[str]:
    """The names of all kernels of semantics.py, without importing Numba."""
    tree = ast.parse((HERE / "semantics.py").read_text(encoding="utf-8"))
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.decorator_list]
    return [node.name for node in functions if isinstance(node.decorator_list[0], ast.Attribute)]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """The drafted text, and what inputs and simulator give."""
    folder = tmp_path_factory.mktemp("semantics")
    done = drafting("semantics", str(folder / "semantics.cu"))
    assert done.returncode == 0, done.stderr
    command = [sys.executable, "-m", "tests.draft.simulating", str(folder / "simulated.npz")]
    environment = os.environ | {"NUMBA_ENABLE_CUDASIM": "1"}
    subprocess.run(command, check=True, cwd=HERE.parents[1], env=environment)
    parameters = json.loads(done.stdout)
    kernel = RawKernel(
        _in_one((folder / "semantics.cu").read_text(), list(parameters)), "any_of", ("-std=c++20",), checks=False
    )
    return SimpleNamespace(kernel=kernel, parameters=parameters, simulated=np.load(folder / "simulated.npz"))


def _in_one(text: str, names: list[str]) -> str:
    """The kernels as device functions of one kernel, which is compiled once: a second saved for each."""
    cases = "".join(f"    case {number}: return call({name}, x, y, out);\n" for number, name in enumerate(names))
    return f"""{text.replace("__global__", "__device__")}
template <class X, class Y, class Out>
__device__ void call(void (*kernel)(X*, Y*, Out*), void* x, void* y, void* out) {{
  kernel(static_cast<X*>(x), static_cast<Y*>(y), static_cast<Out*>(out));
}}
__global__ void any_of(int which, unsigned char* x, unsigned char* y, unsigned char* out) {{
  switch (which) {{
{cases}  }}
}}
"""


def test_all_kernels_are_drafted(both: SimpleNamespace) -> None:
    assert sorted(both.parameters) == sorted(_kernels())


@pytest.mark.parametrize("name", _kernels())
def test_draft_and_prototype_agree(name: str, both: SimpleNamespace) -> None:
    x, y, out, expected = (both.simulated[f"{name}.{each}"] for each in ("x", "y", "before", "out"))
    which = list(both.parameters).index(name)
    both.kernel(1, 32, (np.int32(which), *(each.view(np.uint8) for each in (x, y, out))))
    # Within 2 ulp of a double; of mathematics, g++'s functions and Python's are the same.
    np.testing.assert_allclose(out, expected, rtol=2**-51, atol=0)
