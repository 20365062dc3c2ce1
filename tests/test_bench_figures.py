"""The documents' figures are those of the committed results."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from benchmarks.figures import BEGIN, DOCUMENT, END, RESULTS, TABLES, main, with_block
from tests.test_bench_results import case_rows, results, shaped_results


def test_the_documents_say_what_the_committed_results_say() -> None:
    assert main(["--check"]) == 0


@pytest.fixture
def root(tmp_path: Path) -> Path:
    pytest.importorskip("matplotlib")
    folder = tmp_path / "benchmarks" / "results"
    folder.mkdir(parents=True)
    (folder / "gpu.json").write_text(results().to_json(), encoding="utf-8")
    (tmp_path / DOCUMENT).parent.mkdir()
    for document in (DOCUMENT, TABLES):
        (tmp_path / document).write_text(f"before\n{BEGIN}\n{END}\nafter\n", encoding="utf-8")
    return tmp_path


def test_the_block_is_written_once_and_then_stands(root: Path) -> None:
    assert main(["--check"], root=root) == 1
    assert main([], root=root) == 0
    text = (root / TABLES).read_text(encoding="utf-8")
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "| scale, forward, float32 | graph | large | 2.0 µs | 4 | 50.0% | 2.00 | 1.50 |" in text
    assert (
        "| scale, forward, graph: at least 40% of the copy rate | 0.5000 (worst of 2: small float32) | reached |"
        in text
    )
    assert (root / "benchmarks/results/figures.png").exists()
    assert main(["--check"], root=root) == 0


def test_the_summary_has_the_least_and_the_largest_ratio_of_each_table(root: Path) -> None:
    rows = (*case_rows(2e-6), *case_rows(4e-6, case="small", bytes=80))
    (root / RESULTS / "gpu.json").write_text(dataclasses.replace(results(), rows=rows).to_json(), encoding="utf-8")
    main([], root=root)
    text = (root / DOCUMENT).read_text(encoding="utf-8")
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    line = "| scale, forward, float32 | 2 | 25% – 50% | 50% | 1.00 – 2.00 | 0.75 – 1.50 | 0.75 – 1.50 |"
    assert line in text


@pytest.mark.parametrize(("document", "old", "new"), [(DOCUMENT, "2.00", "9.00"), (TABLES, "50.0%", "99.0%")])
def test_a_changed_figure_is_noticed(document: str, old: str, new: str, root: Path) -> None:
    main([], root=root)
    path = root / document
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")
    assert main(["--check"], root=root) == 1


def test_ops_over_shapes_have_every_case_in_a_table_of_their_own(root: Path) -> None:
    (root / RESULTS / "gpu.json").write_text(shaped_results().to_json(), encoding="utf-8")
    main([], root=root)
    text = (root / TABLES).read_text(encoding="utf-8")
    head = "| softmax, forward, float32: GB/s | roofline | port | of the roofline | eager | torch.compile |"
    assert f"{head} × the fastest peer |" in text
    assert "| (32, 32) | 8 | 4 | 50.0% | 2 | 3 | 1.50 |" in text
    assert text.count("![rate over shapes](figures-shapes.png)") == 1
    assert "| scale, forward, float32 | graph | large |" in text
    assert sorted(path.name for path in (root / RESULTS).glob("*.png")) == [
        "figures-shapes.png",
        "figures.png",
    ]


@pytest.mark.parametrize("document", ["", BEGIN, END, f"{END}\n{BEGIN}"])
def test_a_document_without_the_comments_is_refused(document: str) -> None:
    with pytest.raises(ValueError, match="needs the lines"):
        with_block(document, "text")
