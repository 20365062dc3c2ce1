"""Each kernel of the corpus runs in the simulator with all checks, and computes what NumPy does."""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.draft import kernels
from tests.draft.kernels import SEED
from trifold import simulator
from trifold.findings import collect

NAMES = [each.name for each in pkgutil.iter_modules(kernels.__path__)]
ROUND_OFFS = 64  # of the dtype, relative to the largest number of the result


def test_the_corpus_is_large() -> None:
    assert len(NAMES) >= 60


@pytest.mark.parametrize("name", NAMES)
def test_kernel(name: str) -> None:
    module = importlib.import_module(f"{kernels.__name__}.{name}")
    with simulator.options(checks="all"), collect() as findings:
        outputs = module.main(np.random.default_rng(SEED))
    assert [str(finding) for finding in findings] == []
    assert outputs and all(type(output) is np.ndarray for output in outputs.values())
    if hasattr(module, "expected"):
        agree(module, outputs)


def agree(module: ModuleType, outputs: dict[str, Any]) -> None:
    wanted = module.expected(module.inputs(np.random.default_rng(SEED)))
    assert wanted.keys() <= outputs.keys()
    for name, expected in wanted.items():
        output = outputs[name]
        if output.dtype.kind not in "fc":
            np.testing.assert_array_equal(output, expected, err_msg=name)
            continue
        relative = getattr(module, "TOLERANCE", ROUND_OFFS * np.finfo(output.dtype).eps)
        finite = np.abs(expected[np.isfinite(expected)])
        np.testing.assert_allclose(output, expected, rtol=relative, atol=relative * finite.max(initial=0), err_msg=name)
