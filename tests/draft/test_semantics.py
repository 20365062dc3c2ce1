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
    """The names of all kernels of semantics_*.py, without importing Numba."""
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in sorted(HERE.glob("semantics_*.py"))]
    functions = [
        node for tree in trees for node in tree.body if isinstance(node, ast.FunctionDef) and node.decorator_list
    ]
    return [node.name for node in functions if isinstance(node.decorator_list[0], ast.Attribute)]


@pytest.fixture(scope="module", params=["plain", "simulated"])
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """The drafted text, as it is written and as the compiled simulator runs it, and what inputs and simulator give."""
    folder = tmp_path_factory.mktemp("semantics")
    done = drafting("semantics", str(folder / "semantics.cu"), request.param)
    assert done.returncode == 0, done.stderr
    command = [sys.executable, "-m", "tests.draft.simulating", str(folder / "simulated.npz")]
    environment = os.environ | {"NUMBA_ENABLE_CUDASIM": "1"}
    subprocess.run(command, check=True, cwd=HERE.parents[1], env=environment)
    parameters = json.loads(done.stdout)
    kernel = RawKernel(
        _in_one((folder / "semantics.cu").read_text(), parameters), "any_of", ("-std=c++20",), checks=False
    )
    return SimpleNamespace(kernel=kernel, parameters=parameters, simulated=np.load(folder / "simulated.npz"))


def _in_one(text: str, kernels: dict[str, list[tuple[int, str, int]]]) -> str:
    """The kernels as device functions of one kernel, which is compiled once: a second saved for each."""
    arrays = [f"Memory{{{name}}}" for name in ("x", "y", "out")]
    cases = ""
    for number, (name, parameters) in enumerate(kernels.items()):
        given = ", ".join(arrays[argument] if kind == "array" else "32" for argument, kind, _ in parameters)
        cases += f"    case {number}: return {name}({given});\n"
    return f"""{text.replace("__global__", "__device__")}
struct Memory {{
  unsigned char* begin;
  template <class T>
  __device__ operator T*() const {{
    return reinterpret_cast<T*>(begin);
  }}
}};
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
    arguments = (np.int32(which), *(each.view(np.uint8) for each in (x, y, out)))
    both.kernel(1, 32, arguments, shared_mem=512)
    # Within 2 ulp of a double; of mathematics, g++'s functions and Python's are the same.
    np.testing.assert_allclose(out, expected, rtol=2**-51, atol=0)
