"""The document's figures are those of the committed results."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.figures import BEGIN, DOCUMENT, END, RESULTS, main, with_block
from tests.test_bench_results import results, shaped_results


def test_the_document_says_what_the_committed_results_say() -> None:
    assert main(["--check"]) == 0


@pytest.fixture
def root(tmp_path: Path) -> Path:
    pytest.importorskip("matplotlib")
    folder = tmp_path / "benchmarks" / "results"
    folder.mkdir(parents=True)
    (folder / "gpu.json").write_text(results().to_json(), encoding="utf-8")
    (tmp_path / DOCUMENT).parent.mkdir()
    (tmp_path / DOCUMENT).write_text(f"before\n{BEGIN}\n{END}\nafter\n", encoding="utf-8")
    return tmp_path


def test_the_block_is_written_once_and_then_stands(root: Path) -> None:
    assert main(["--check"], root=root) == 1
    assert main([], root=root) == 0
    text = (root / DOCUMENT).read_text(encoding="utf-8")
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
    path = root / DOCUMENT
    path.write_text(path.read_text(encoding="utf-8").replace("50.0%", "99.0%"), encoding="utf-8")
    assert main(["--check"], root=root) == 1


def test_ops_over_shapes_have_every_case_in_a_table_of_their_own(root: Path) -> None:
    (root / RESULTS / "gpu.json").write_text(shaped_results().to_json(), encoding="utf-8")
    main([], root=root)
    text = (root / DOCUMENT).read_text(encoding="utf-8")
    head = "| softmax, forward, float32: GB/s | roofline | port | of the roofline | eager | torch.compile |"
    assert f"{head} × the fastest peer |" in text
    assert "| (32, 32) | 8 | 4 | 50.0% | 2 | 3 | 1.50 |" in text
    assert text.count("![rate over shapes](../benchmarks/results/figures-shapes.png)") == 1
    assert "| scale, forward, float32 | graph | large |" in text
    assert sorted(path.name for path in (root / RESULTS).glob("*.png")) == [
        "figures-shapes.png",
        "figures.png",
    ]


@pytest.mark.parametrize("document", ["", BEGIN, END, f"{END}\n{BEGIN}"])
def test_a_document_without_the_comments_is_refused(document: str) -> None:
    with pytest.raises(ValueError, match="needs the lines"):
        with_block(document, "text")
