"""Generated ops pass ``trifold verify`` as they are: an op of each family, and one of a signature."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest
from typer.testing import CliRunner

import trifold
from trifold.cli import app

OPS = {
    "scaled_square": (),  # the workspace's first one
    "row_norm": ("--like", "rows"),
    "energy": ("--like", "reduction"),
    "noisy": ("--like", "sampling"),
    "running": ("--like", "scan"),
    "placed": ("--like", "scatter"),
    "turned": ("--like", "results"),
    "counted": ("--like", "no-gradient"),
    "listed": ("--signature", "(Tensor x, Tensor?[] ys, str how, int[]? k) -> (Tensor, Tensor[])"),
    "gated": ("--signature", "(Tensor x, float alpha, Tensor? gate=None, *, int count=2, bool negate=False) -> Tensor"),
}
_EXAMPLES = 4
# What differs between prototypes. The others look at the wiring, which is the port's too, and take longest.
_OF_PROTOTYPES = (
    "bounds",
    "values",
    "sensitivity",
    "gradients",
    "gradcheck",
    "errors",
    "repeatable",
    "findings",
    "rounding",
    "written",
    "branches",
)
_OF_PORTS = (*_OF_PROTOTYPES, "gradgradcheck", "opcheck", "fake", "compile")
# Its kernels differ from scaled_square's in their arguments alone.
_OF_GATED = ("values", "gradients", "gradgradcheck", "opcheck", "errors")
_OF_LISTED = ("values", "opcheck", "errors")
_WITH_GRADIENT = ("gradients", "gradcheck", "gradgradcheck", "rounding")


def _checks(op: str, implementation: str) -> tuple[str, ...]:
    if op in ("gated", "listed"):
        return _OF_GATED if op == "gated" else _OF_LISTED
    checks = _OF_PROTOTYPES if implementation == "prototype" else _OF_PORTS
    return tuple(check for check in checks if check not in _WITH_GRADIENT) if op == "counted" else checks


_FIRST = ("scaled_square", "counted", "listed")  # with a gradient, without one, and with arguments of each kind
CASES = [
    pytest.param(op, implementation, marks=() if op in _FIRST else pytest.mark.extended)
    for op in OPS
    for implementation in ("prototype", "port")
]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The workspace of all these ops."""
    root = tmp_path_factory.mktemp("new") / "kernels"
    assert CliRunner().invoke(app, ["new", str(root)]).exit_code == 0
    for op, options in OPS.items():
        if options:
            made = CliRunner().invoke(app, ["new", "op", op, "--workspace", str(root), *options])
            assert made.exit_code == 0, made.exception
    return root


@pytest.mark.parametrize(("op", "implementation"), CASES)
@pytest.mark.usefixtures("quick_builds")
def test_a_generated_op_is_right(op: str, implementation: str, root: Path) -> None:
    checks = _checks(op, implementation)
    (report,) = trifold.verify(
        op, workspace=root, implementations=(implementation,), devices=("cpu",), checks=checks, examples=_EXAMPLES
    ).ops
    assert not [row.failures for row in report.rows if row.outcome != "passed"]
    assert {row.check for row in report.rows if row.cases > 0} >= set(checks)


@pytest.mark.parametrize("op", OPS)
@pytest.mark.usefixtures("quick_builds")
def test_the_example_of_its_docstring_is_right(op: str, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests of a graduated package run it, too."""
    monkeypatch.chdir(root)
    runner = doctest.DocTestRunner()
    for test in doctest.DocTestFinder().find(trifold.load(op), op, module=False, globs={}):
        runner.run(test)
    assert runner.summarize(verbose=False).failed == 0
