"""README's figures are those of the committed results."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.figures import BEGIN, END, main, with_block
from tests.test_bench_results import results


def test_readme_says_what_the_committed_results_say() -> None:
    assert main(["--check"]) == 0


@pytest.fixture
def root(tmp_path: Path) -> Path:
    pytest.importorskip("matplotlib")
    folder = tmp_path / "benchmarks" / "results"
    folder.mkdir(parents=True)
    (folder / "gpu.json").write_text(results().to_json(), encoding="utf-8")
    (tmp_path / "README.md").write_text(f"before\n{BEGIN}\n{END}\nafter\n", encoding="utf-8")
    return tmp_path


def test_the_block_is_written_once_and_then_stands(root: Path) -> None:
    assert main(["--check"], root=root) == 1
    assert main([], root=root) == 0
    text = (root / "README.md").read_text(encoding="utf-8")
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "| scale, forward, float32 | graph | large | 2.0 µs | 4 | 50.0% | 2.00 | 1.50 |" in text
    assert (
        "| scale, forward, graph: at least 40% of the copy rate | 0.5000 (worst of 2: small float32) | reached |"
        in text
    )
    assert (root / "benchmarks/results/figures.png").exists()
    assert main(["--check"], root=root) == 0


def test_a_changed_figure_is_noticed(root: Path) -> None:
    main([], root=root)
    path = root / "README.md"
    path.write_text(path.read_text(encoding="utf-8").replace("50.0%", "99.0%"), encoding="utf-8")
    assert main(["--check"], root=root) == 1


@pytest.mark.parametrize("readme", ["", BEGIN, END, f"{END}\n{BEGIN}"])
def test_a_readme_without_the_comments_is_refused(readme: str) -> None:
    with pytest.raises(ValueError, match="needs the lines"):
        with_block(readme, "text")
