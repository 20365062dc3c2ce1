"""Each record names the sources that it is about, those of its commit; and no page quotes one of other sources as new.

Where the last fails: ``python benchmarks/records.py measure`` on a machine that can, or ``python benchmarks/records.py
mark``, which makes the page say that the record is of an older commit.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from benchmarks import record_stamps, records
from benchmarks.records import MORE_TO_DO, RECORDS, RESULTS, ROOT, UNFINISHED, Record, State, marked, record_of
from trifold.record_sources import changed, of_files, recorded

NAMES = [record.name for record in RECORDS]


def document(record: Record, root: Path = ROOT) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((root / record.path).read_text(encoding="utf-8"))
    return read


def test_each_file_of_results_is_known() -> None:
    folder = ROOT / RESULTS
    files = {str(path.relative_to(folder)) for path in folder.rglob("*.json")}
    begun = {name for name in files if name.startswith(f"{UNFINISHED}/")}
    assert files - begun == set(NAMES)
    assert {name.removeprefix(f"{UNFINISHED}/") for name in begun} <= {
        name for name in NAMES if not records.state(record_of(name)).current
    }
    assert len(NAMES) == len(set(NAMES))


@pytest.mark.parametrize("name", NAMES)
def test_a_record_names_the_sources_of_its_commit(name: str) -> None:
    """Whoever puts new digests into an old measurement is found here."""
    record = record_of(name)
    facts = document(record).get("environment", document(record))
    assert facts["sources"]
    assert not facts["dirty"]
    of_commit = record_stamps.sources_at(record, facts["commit"])
    if of_commit is None:
        pytest.skip(f"git has no commit {facts['commit']} here")
    assert changed(facts["sources"], of_commit) == []


def test_pages_say_which_of_the_records_that_they_quote_are_stale() -> None:
    assert not records.unmarked(), "python benchmarks/records.py measure, or: python benchmarks/records.py mark"


# ------------------------------------------------------------------------------------------- what a page may not say

STALE = State(RECORDS[0], "0123456789ab", ("cuda_src/add.cuh",))
CURRENT = State(RECORDS[0], "0123456789ab", ())
PATH = f"`{RECORDS[0].path}`"
MARK = ", of commit 0123456789ab, to be measured anew"


@pytest.mark.parametrize(
    ("before", "state", "after"),
    [
        pytest.param(f"({PATH}).", STALE, f"({PATH}{MARK}).", id="a stale record is quoted as if it were new"),
        pytest.param(f"({PATH}{MARK}).", STALE, f"({PATH}{MARK}).", id="the mark is kept"),
        pytest.param(
            f"{PATH}, of\ncommit 0123456789ab, to be\nmeasured anew",
            STALE,
            f"{PATH}, of\ncommit 0123456789ab, to be\nmeasured anew",
            id="over several lines, too",
        ),
        pytest.param(
            f"{PATH}, of commit 1111111, to be measured anew", STALE, f"{PATH}{MARK}", id="the mark of another commit"
        ),
        pytest.param(f"{PATH}{MARK};", CURRENT, f"{PATH};", id="a mark after a current record"),
        pytest.param("`benchmarks/results/other.json`", STALE, "`benchmarks/results/other.json`", id="no record"),
        pytest.param(
            "![rates](../benchmarks/results/figures.png)",
            STALE,
            "![rates, to be measured anew](../benchmarks/results/figures.png)",
            id="a plot of stale records",
        ),
        pytest.param("![rates](figures.png)", STALE, "![rates, to be measured anew](figures.png)", id="beside it"),
        pytest.param(
            "![rates, to be measured anew](benchmarks/results/figures.png)",
            CURRENT,
            "![rates](benchmarks/results/figures.png)",
            id="a plot of current records",
        ),
    ],
)
def test_the_mark_of_a_page(before: str, state: State, after: str) -> None:
    assert marked(before, {state.record.name: state}) == after


# -------------------------------------------------------------------------------------------------- a tree of our own

# Writes a record of one source into its first argument, or adds a part to the one that is there.
_WRITE = """
import json, sys
from pathlib import Path
from trifold.record_sources import of_files

file, name, part = Path(sys.argv[1]), *sys.argv[2:]
facts = {"commit": "abcdef0", "dirty": False, "sources": of_files(Path.cwd(), [name])}
old = json.loads(file.read_text())["parts"] if file.exists() else []
file.write_text(json.dumps({"environment": facts, "parts": [*old, part]}))
"""


def command(part: str, source: str = "kernel.cu") -> str:
    return f"python write.py {{file}} {source} {part}"


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tree with a kernel, a README that quotes its record, and one record of two parts."""
    (tmp_path / "kernel.cu").write_text("int a;\n")
    (tmp_path / "write.py").write_text(_WRITE)
    (tmp_path / "README.md").write_text(f"It takes 1 µs (`{RESULTS}/gpu.json`).\n")
    monkeypatch.setattr(records, "RECORDS", (gpu(command("one"), command("two")),))
    return tmp_path


def gpu(*commands: str) -> Record:
    return Record("gpu.json", "GPU", lambda root: of_files(root, ["kernel.cu"]), commands, 1)


def test_what_is_measured_is_current_until_the_code_changes(tree: Path) -> None:
    record = records.RECORDS[0]
    assert records.state(record, tree).described == "stale: kernel.cu changed since"
    assert records.measure([record], 60, tree) == []
    assert document(record, tree)["parts"] == ["one", "two"]
    assert records.state(record, tree).current
    assert records.unmarked(tree) == []
    (tree / "kernel.cu").write_text("int a;  // more\n")
    assert records.state(record, tree).current
    (tree / "kernel.cu").write_text("int b;\n")
    assert records.unmarked(tree) == [
        "README.md: gpu.json is stale: kernel.cu changed since; "
        + "; ".join(command.format(file=record.path) for command in record.commands)
    ]
    assert records.mark(tree) == ["README.md"]
    assert "(`benchmarks/results/gpu.json`, of commit abcdef0, to be measured anew)" in (tree / "README.md").read_text()
    assert records.unmarked(tree) == []


def test_a_measurement_that_was_ended_goes_on(tree: Path) -> None:
    slow = gpu(command("one"), f"sleep 60; {command('two')}")
    assert records.measure([slow], 8, tree) == ["gpu.json"]
    unfinished = tree / RESULTS / UNFINISHED / "gpu.json"
    assert json.loads(unfinished.read_text())["parts"] == ["one"]
    assert records.state(slow, tree).unfinished
    resumed = gpu(f"test -s {{file}} || {command('one')}", command("two"))
    assert records.measure([resumed], 60, tree) == []
    assert document(resumed, tree)["parts"] == ["one", "two"]
    assert not unfinished.exists()


def test_a_measurement_that_was_begun_with_other_sources_begins_anew(tree: Path) -> None:
    record = records.RECORDS[0]
    assert records.measure([gpu(command("old"), "sleep 60")], 8, tree) == ["gpu.json"]
    (tree / "kernel.cu").write_text("int b;\n")
    assert records.measure([record], 60, tree) == []
    assert document(record, tree)["parts"] == ["one", "two"]


@pytest.mark.parametrize("wrong", ["true", command("one", source="README.md")], ids=["nothing", "of other sources"])
def test_what_is_not_of_the_sources_takes_no_place(wrong: str, tree: Path) -> None:
    assert records.measure([gpu(wrong)], 60, tree) == ["gpu.json"]
    assert not (tree / RESULTS / "gpu.json").exists()


def test_the_list_has_each_record_with_its_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert records.main(["list", "profile/h200-rows.json"]) == 0
    said = capsys.readouterr().out
    assert "profile/h200-rows.json  (GPU, about" in said
    stale = not records.state(record_of("profile/h200-rows.json")).current
    assert ("python benchmarks/profile_rows.py --json benchmarks/results/profile/h200-rows.json" in said) is stale
    with pytest.raises(SystemExit, match="there is no record 'none'"):
        records.main(["list", "none"])
    assert MORE_TO_DO not in (0, 1, 2)


def test_the_commands_are_those_of_this_tree() -> None:
    """The files that commands name exist."""
    for record in RECORDS:
        for text in record.commands:
            done = subprocess.run(["bash", "-n", "-c", text.format(file="f", scratch="s")], capture_output=True)
            assert done.returncode == 0, text
            words = text.split()
            assert all((ROOT / word).exists() for word in words if word.startswith(("benchmarks/", "tests/"))), text


def test_a_result_that_was_just_measured_is_no_change_of_the_sources(tmp_path: Path) -> None:
    def git(*command: str) -> str:
        name = ("-c", "user.name=a", "-c", "user.email=a@b")
        done = subprocess.run(("git", "-C", str(tmp_path), *name, *command), capture_output=True, text=True, check=True)
        return done.stdout.strip()

    git("init", "-q")
    (tmp_path / RESULTS).mkdir(parents=True)
    (tmp_path / RESULTS / "one.json").write_text("1", encoding="utf-8")
    (tmp_path / "kernel.cu").write_text("1", encoding="utf-8")
    git("add", ".")
    git("commit", "-qm", "first")
    (tmp_path / RESULTS / "one.json").write_text("2", encoding="utf-8")
    (tmp_path / RESULTS / "other.json").write_text("1", encoding="utf-8")
    assert records.commit_of_sources(tmp_path) == git("rev-parse", "HEAD")
    (tmp_path / "kernel.cu").write_text("2", encoding="utf-8")
    assert records.commit_of_sources(tmp_path) is None


def test_a_stamp_is_of_the_records_commit_and_leaves_the_rest(tmp_path: Path) -> None:
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    (tmp_path / "kernel.cu").write_text("int a;\n")
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "a"]):
        subprocess.run([*git, *words], check=True)
    commit = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
    record = gpu()
    path = tmp_path / record.path
    path.parent.mkdir(parents=True)
    was = {"environment": {"commit": commit, "dirty": False}, "µ": 1}
    path.write_text(json.dumps(was, indent=1, ensure_ascii=False) + "\n")
    (tmp_path / "kernel.cu").write_text("int b;\n")
    record_stamps.stamp(record, tmp_path)
    now = document(record, tmp_path)
    assert changed(recorded(now), of_files(tmp_path, ["kernel.cu"])) == ["kernel.cu"]
    assert now.pop("µ") == 1
    assert "µ" in path.read_text()
    path.write_text(json.dumps(was | {"environment": {"commit": commit, "dirty": True}}))
    with pytest.raises(SystemExit, match="its sources are unknown; measure it anew"):
        record_stamps.stamp(record, tmp_path)
