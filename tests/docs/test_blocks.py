"""A block of a page that is wrong fails, and one that cannot run says why."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.docs.blocks import Block, PageError, blocks, hunks, missing_lines
from tests.docs.commands import require_real_commands
from tests.docs.session import Session, unavailable

FENCE = "```"


def page(folder: Path, *parts: tuple[str, str]) -> list[Block]:
    """The blocks of a page of blocks: info strings and texts."""
    path = folder / "page.md"
    path.write_text("".join(f"Prose.\n\n{FENCE}{info}\n{text}\n{FENCE}\n\n" for info, text in parts), encoding="utf-8")
    return blocks(path, "page.md")


def run(folder: Path, *parts: tuple[str, str]) -> Session:
    """A page that was run to its end."""
    found = page(folder, *parts)
    session = Session(found, folder)
    try:
        session.run(found[-1])
    finally:
        session.close()
    return session


WRONG = {
    "a command fails": ((("sh", "ls nothing"),), "exit status 2, not 0"),
    "the first of two commands fails": ((("sh", "false\ntrue"),), "exit status 1, not 0"),
    "a command of a pipe fails": ((("sh", "false | cat"),), "exit status 1, not 0"),
    "a command succeeds that must not": ((("sh exit=1", "true"),), "exit status 0, not 1"),
    "a line is not printed": ((("sh", "echo one"), ("text", "one\ntwo")), "not printed:\ntwo"),
    "Python raises": ((("python", "x = 1"), ("python", "x.y")), "'int' object has no attribute 'y'"),
    "Python prints something else": ((("python", "print(1)"), ("text", "2")), "not printed:\n2"),
    "Python ends": ((("python", "import os\nos._exit(3)"),), "the page's Python died"),
    "an old line is not there": ((("sh", "echo a >f"), ("diff", "--- f\n-b\n+c")), "occur 0 times in f"),
    "an old line is there twice": ((("sh", "printf 'a\\na\\n' >f"), ("diff", "--- f\n-a\n+c")), "occur 2 times in f"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_block_fails(name: str, tmp_path: Path) -> None:
    parts, problem = WRONG[name]
    with pytest.raises(PageError) as raised:
        run(tmp_path, *parts)
    assert problem in str(raised.value)
    assert str(raised.value).startswith("page.md:")


MEANINGLESS = {
    "an unknown mark": ((("sh quick", "true"),), "unknown marks: quick"),
    "a language that nothing runs": ((("ruby", "puts 1"),), "nothing runs a block of ruby"),
    "no language": ((("", "1"),), "no language"),
    "output of no command": ((("text", "1"),), "the output of no command"),
    "two outputs of one command": ((("sh", "true"), ("text", "1"), ("text", "2")), "the output of no command"),
    "slow without a reason": ((("sh slow", "true"),), "slow has no reason"),
}


@pytest.mark.parametrize("name", MEANINGLESS)
def test_a_block_without_a_meaning_is_refused(name: str, tmp_path: Path) -> None:
    parts, problem = MEANINGLESS[name]
    with pytest.raises(PageError, match=problem):
        page(tmp_path, *parts)


def test_a_block_without_an_end_is_refused(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text(f"{FENCE}sh\ntrue\n", encoding="utf-8")
    with pytest.raises(PageError, match=r"page\.md:1: this block has no end"):
        blocks(tmp_path / "page.md", "page.md")


@pytest.mark.parametrize("text", ["-a\n+b", "--- f\na", "--- f"])
def test_what_is_no_diff_is_refused(text: str) -> None:
    with pytest.raises(PageError):
        hunks(Block("page.md", 1, "diff", text))


def test_a_page_has_one_folder_and_one_namespace(tmp_path: Path) -> None:
    run(
        tmp_path,
        ("sh", "mkdir inner\ncd inner"),
        ("python file=seen.py", "value = 1"),
        ("diff", "--- seen.py\n-value = 1\n+value = 2"),
        ("python", "import os, sys\nsys.path.insert(0, os.getcwd())\nimport seen"),
        ("python", "print(seen.value)"),
        ("text", "2"),
        ("sh", "pwd"),
        ("text", "inner"),
    )


def test_lines_behind_a_prompt_are_typed(tmp_path: Path) -> None:
    run(tmp_path, ("sh", "read first; read second; echo $second $first"), ("text", "(Pdb) a\n(gdb) b\nb a"))


def test_expected_lines_may_be_wrapped_and_shortened() -> None:
    output = "a long   line that\ngoes on at file.cu:12 and ends\n"
    assert missing_lines(["a long line that goes", "on at … and ends"], output) == []
    assert missing_lines(["ends … a long"], output) == ["ends … a long"]


def test_what_is_not_run_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gpu, person, slow, tool = page(
        tmp_path,
        ("sh gpu", "false"),
        ("sh interactive", "false"),
        ('sh slow="an hour"', "false"),
        ("sh needs=no-tool", ""),
    )
    assert [person.skipped, slow.skipped] == ["needs a person", "an hour"]
    assert unavailable(tool) == "needs no-tool"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert unavailable(gpu) == "needs a GPU"
    Session([gpu, person, slow, tool], tmp_path).run(tool)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    with pytest.raises(PageError):
        Session([gpu], tmp_path).run(gpu)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("trifold verfy add", "trifold has no command verfy"),
        ("true && trifold verify add --exmples 3", "trifold verify has no option --exmples"),
        ("trifold verify add \\\n  --quick", "trifold verify has no option --quick"),
        ("echo 'no end", "unexpected EOF"),
    ],
)
def test_a_command_that_is_not_run_must_exist(text: str, problem: str) -> None:
    with pytest.raises(PageError, match=problem):
        require_real_commands(Block("page.md", 1, "sh", text, {"gpu": ""}))
    require_real_commands(Block("page.md", 1, "sh", "trifold verify add --examples 3\n", {"gpu": ""}))
