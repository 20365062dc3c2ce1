"""The drafts of the gallery's ops, as they are kept in golden/: a change of what is written is seen.

python -m tests.draft.test_golden     writes them anew
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.draft.test_refusals import drafting

ROOT = Path(__file__).parents[2]
GOLDEN = Path(__file__).parent / "golden"

#: Ops whose prototype is refused, and the words in which it is.
REFUSED = {
    "cumsum": ".is_floating_point of this is not translated",
    "histogram": "which function this calls is decided by the call",
    "transpose": "`in` is translated for a tuple",
}
OPS = sorted(path.stem for path in (ROOT / "prototypes").glob("*.py"))


def drafted(op: str) -> tuple[str, str]:
    done = drafting("op", str(ROOT / "prototypes" / f"{op}.py"), op)
    assert done.returncode == 0, done.stderr
    header, binding = json.loads(done.stdout)
    return header, binding


@pytest.mark.parametrize("op", [op for op in OPS if op not in REFUSED])
def test_draft_is_the_golden_text(op: str) -> None:
    header, binding = drafted(op)
    assert header == (GOLDEN / f"{op}.cuh").read_text(encoding="utf-8")
    assert binding == (GOLDEN / f"{op}.cu").read_text(encoding="utf-8")


@pytest.mark.parametrize("op", sorted(REFUSED))
def test_prototype_is_refused(op: str) -> None:
    done = drafting("op", str(ROOT / "prototypes" / f"{op}.py"), op)
    assert done.returncode != 0
    assert f"prototypes/{op}.py:" in done.stderr
    assert REFUSED[op] in done.stderr


if __name__ == "__main__":
    for name in OPS:
        if name not in REFUSED:
            texts = drafted(name)
            (GOLDEN / f"{name}.cuh").write_text(texts[0], encoding="utf-8")
            (GOLDEN / f"{name}.cu").write_text(texts[1], encoding="utf-8")
