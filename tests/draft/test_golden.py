"""The drafts of the gallery's ops, as they are kept in golden/: a change of what is written is seen.

python -m tests.draft.test_golden     writes them anew
"""

from __future__ import annotations

import json
from pathlib import Path

from tests.draft.test_refusals import drafting

ROOT = Path(__file__).parents[2]
GOLDEN = Path(__file__).parent / "golden"

#: Ops whose prototype is refused, and the words in which it is.
REFUSED = {
    "cumsum": ".is_floating_point of this is not translated",
}


def drafted() -> tuple[dict[str, tuple[str, str]], dict[str, str]]:
    """The header and the binding of each op, and what is said of each that is refused."""
    done = drafting("ops", str(ROOT / "prototypes"))
    assert done.returncode == 0, done.stderr
    texts, refused = json.loads(done.stdout)
    return texts, refused


def test_drafts_of_the_gallery_are_the_golden_texts() -> None:
    """In one test: most of the time is that of importing Numba, which a process does once."""
    texts, refused = drafted()
    assert refused.keys() == REFUSED.keys()
    for op, problem in REFUSED.items():
        assert f"prototypes/{op}.py:" in refused[op]
        assert problem in refused[op]
    for op, (header, binding) in texts.items():
        assert header == (GOLDEN / f"{op}.cuh").read_text(encoding="utf-8")
        assert binding == (GOLDEN / f"{op}.cu").read_text(encoding="utf-8")


if __name__ == "__main__":
    for name, (header, binding) in drafted()[0].items():
        (GOLDEN / f"{name}.cuh").write_text(header, encoding="utf-8")
        (GOLDEN / f"{name}.cu").write_text(binding, encoding="utf-8")
