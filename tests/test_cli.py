"""The command line at first sight: version, help, completion, tables; and the names that `import trifold` has."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.metadata import version
from io import StringIO
from pathlib import Path

import pytest
import typer.main
from rich.console import Console
from typer.testing import CliRunner

from trifold import completion, tables
from trifold.cli import app

ROOT = Path(__file__).parents[1]
COMMANDS = sorted(typer.main.get_group(app).commands)


def run(*arguments: str, **environment: str) -> str:
    """Return the command's output, in 80 columns."""
    command = [sys.executable, "-m", "trifold", *arguments]
    set_to = {"COLUMNS": "80", "NO_COLOR": "1", "TERM": "dumb"} | environment
    return subprocess.run(command, env=os.environ | set_to, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_the_terminal_breaks_the_lines_of_a_commands_help(command: str) -> None:
    (text,) = (each.help for name, each in typer.main.get_group(app).commands.items() if name == command)
    assert text
    for paragraph in text.split("\n\n"):
        assert "\n" not in paragraph


def test_version() -> None:
    assert CliRunner().invoke(app, ["--version"]).output == f"trifold {version('trifold')}\n"


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_h_is_help_and_nothing_of_it_is_cut(command: str) -> None:
    asked = [command] if command else []
    long, short = (CliRunner().invoke(app, [*asked, option], env={"COLUMNS": "80"}) for option in ("--help", "-h"))
    assert long.exit_code == short.exit_code == 0
    assert long.output == short.output
    assert max(map(len, long.output.splitlines())) <= 80
    parameters = typer.main.get_group(app).commands[command].params if command else []
    assert all(option in long.output for parameter in parameters for option in parameter.opts if option[0] == "-")


def test_h_after_a_program_is_the_programs() -> None:
    done = CliRunner().invoke(app, ["sanitize", "nowhere.cu", "-h"])
    assert "Usage" not in done.output
    assert done.exit_code != 0


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_shown_for_each_shell(shell: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")
    shown = CliRunner().invoke(app, ["--show-completion", shell], prog_name="trifold")
    assert shown.exit_code == 0
    assert "_TRIFOLD_COMPLETE" in shown.output


@pytest.mark.parametrize(
    ("words", "proposed"),
    [
        ("trifold ver", ["verify"]),
        ("trifold verify so", ["softmax"]),
        ("trifold verify softmax s", ["scatter_add", "sigmoid", "swiglu"]),  # not the one that is there
        ("trifold debug so", ["softmax"]),
        ("trifold bench so", ["softmax"]),
        ("trifold graduate so", ["softmax"]),
        ("trifold verify --device cu", ["cuda"]),
        ("trifold verify --implementation po", ["port"]),
        ("trifold verify --check gradcheck3", ["gradcheck32"]),
    ],
)
def test_a_shell_is_told_what_may_follow(words: str, proposed: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    last = str(len(words.split()) - 1)
    environment = {"_TRIFOLD_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": last}
    assert CliRunner().invoke(app, [], prog_name="trifold", env=environment).output.split() == proposed


def test_outside_a_workspace_no_op_is_proposed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    context = typer.Context(typer.main.get_group(app).commands["verify"])
    assert completion.op_names(context, "") == []
    context.params = {"workspace": str(ROOT), "ops": ["add"]}
    assert "mul" in completion.op_names(context, "")
    assert "add" not in completion.op_names(context, "")


def test_list_cuts_nothing_in_80_columns(tmp_path: Path) -> None:
    for folder in ("prototypes", "cuda_src", "ports", "verify"):
        (tmp_path / folder).mkdir()
    name = "an_op_of_18_letter"
    (tmp_path / "ports" / f"{name}.py").write_text("")
    shown = run("list", "--workspace", str(tmp_path))
    assert max(map(len, shown.splitlines())) <= 80
    assert "…" not in shown
    assert name in shown
    cell = "".join(line[20:] for line in shown.splitlines()[1:])
    assert "verify" in cell


def test_a_table_folds_what_is_too_long() -> None:
    console = Console(width=30, file=StringIO())
    table = tables.plain("op", "found")
    table.add_row("softmax", "/a/path/without/any/place/to/break/it")
    with console.capture() as capture:
        console.print(table)
    lines = capture.get().splitlines()
    assert "".join(line[9:].strip() for line in lines[1:]) == "/a/path/without/any/place/to/break/it"
    assert lines[1].startswith("softmax  ")


def test_import_trifold_is_enough_for_each_name_of_the_documentation() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    names = sorted(set(re.findall(r"(?<![\w./-])trifold\.([A-Za-z_]\w*)", text)) - {"findings"})
    assert {"load", "verify", "KernelFault", "cpu", "simulator", "spec"} <= set(names)
    check = f"import trifold\nfor name in {names}: getattr(trifold, name)"
    subprocess.run([sys.executable, "-c", check], check=True)


def test_all_has_what_the_documentation_uses_and_leaves_numba_alone() -> None:
    names = "load, verify, KernelFault, cpu, host, simulator"
    check = f"from trifold import *\nimport sys\nassert 'numba' not in sys.modules\n{names}"
    subprocess.run([sys.executable, "-c", check], check=True)


def test_the_former_name_of_the_cpus_package_has_its_kernels() -> None:
    import trifold

    assert trifold.host.RawKernel is trifold.cpu.RawKernel


def test_an_unknown_name_is_an_attribute_error() -> None:
    import trifold

    assert trifold.__version__ == version("trifold")
    assert {"load", "cpu", "host", "prototype"} <= set(dir(trifold))
    with pytest.raises(AttributeError, match="no attribute 'lod'"):
        _ = trifold.lod
