"""``trifold draft --prompt``: all that is needed to write a port, and no more."""

from __future__ import annotations

from pathlib import Path

import pytest

from trifold.build.sources import INCLUDE_ROOT
from trifold.draft.command import draft
from trifold.draft.prompt import declarations

ROOT = Path(__file__).parents[2]
HEADER = """
#include <cstdint>
namespace trifold {
// One more.
template <class T>
inline T more(T x) {
  return x + 1;
}
int undocumented();
inline void check_something(int x) { check(x); }

// Two of them.
struct Two {
  int first, second;
  int sum() const { return first + second; }
};
#ifndef TRIFOLD_CPU
// On a GPU.
void here();
#else
// On the CPU.
void there();
#endif
namespace detail {
// Not for others.
int own();
}
}
"""


def test_declarations_have_their_comments_and_no_bodies(tmp_path: Path) -> None:
    (tmp_path / "some.h").write_text(HEADER, encoding="utf-8")
    assert "\n".join(declarations(tmp_path / "some.h")).strip() == (
        "// One more.\ntemplate <class T>\nT more(T x);\nint undocumented();\nvoid check_something(int x);\n\n"
        "// Two of them.\nstruct Two {\n  int first, second;\n  int sum() const;\n}\n\n// On a GPU.\nvoid here();"
    )


def test_it_has_prototype_schema_headers_and_worked_ops(capsys: pytest.CaptureFixture[str]) -> None:
    draft("softmax", diff=False, prompt=True, workspace=ROOT)
    text = capsys.readouterr().out
    assert (ROOT / "prototypes" / "softmax.py").read_text(encoding="utf-8").strip() in text
    assert (ROOT / "ports" / "softmax.py").read_text(encoding="utf-8").strip() in text
    assert "template <auto Kernel, class... Args>\nvoid launch(Stream stream, dim3 grid, dim3 block" in text
    assert "## cuda_src/some_rows.cu\n" in text
    assert "trifold verify softmax" in text
    assert (ROOT / "cuda_src" / "softmax.cuh").read_text(encoding="utf-8") not in text
    assert str(INCLUDE_ROOT) not in text


def test_a_port_that_is_missing_is_drafted_for_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for folder in ("prototypes", "cuda_src", "ports", "verify"):
        (tmp_path / folder).mkdir()
    prototype = (ROOT / "prototypes" / "mul.py").read_text(encoding="utf-8")
    (tmp_path / "prototypes" / "mul.py").write_text(prototype, encoding="utf-8")
    draft("mul", diff=False, prompt=True, workspace=tmp_path)
    assert 'op.define("mul(Tensor x, Tensor y) -> Tensor", fake=elementwise_output)' in capsys.readouterr().out
    assert not list((tmp_path / "cuda_src").iterdir())
