"""``trifold draft``: the files of an op's port, written from its prototype."""

from __future__ import annotations

import ast
import contextlib
import difflib
import gc
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated

import typer

from trifold import last_written
from trifold.completion import op_names
from trifold.draft.refusal import DraftError
from trifold.errors import PrototypeError, ToolchainError, WorkspaceError
from trifold.workspace import OpFiles, Workspace, import_file

if TYPE_CHECKING:
    from trifold.spec import Call


@dataclass(frozen=True)
class Draft:
    """The draft of one file, and the file in which the last draft is kept."""

    path: Path
    kept: Path
    text: str

    @property
    def edited(self) -> bool:
        """Whether the file exists, and differs from its last draft."""
        if not self.path.is_file():
            return False
        current = self.path.read_text(encoding="utf-8")
        last = self.kept.read_text(encoding="utf-8") if self.kept.is_file() else None
        return current not in (self.text, last)

    def difference(self) -> str:
        """From the file to the draft, as a unified diff; empty if they are equal."""
        current = self.path.read_text(encoding="utf-8") if self.path.is_file() else ""
        before, after = current.splitlines(keepends=True), self.text.splitlines(keepends=True)
        return "".join(difflib.unified_diff(before, after, str(self.path), f"{self.path} (draft)"))

    def merged(self) -> tuple[str, bool]:
        """The file merged with the changes from the last draft to this one, and whether there was no conflict.

        Raises:
            WorkspaceError: there is no last draft.
            ToolchainError: git, which merges, is not installed.
        """
        if not self.kept.is_file():
            raise WorkspaceError(
                f"{self.path} was not drafted: there is no last draft from which to take the changes",
                "see the differences with --diff, or move the file away and draft it",
            )
        git = shutil.which("git")
        if git is None:
            raise ToolchainError("git is not there, whose merge trifold draft --update uses", "install git")
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", suffix=self.path.suffix) as new:
            new.write(self.text)
            new.flush()
            labels = (part for name in ("edited", "last draft", "new draft") for part in ("-L", name))
            command = [git, "merge-file", "-p", *labels, str(self.path), str(self.kept), new.name]
            done = subprocess.run(command, capture_output=True, encoding="utf-8")
        if done.returncode < 0 or done.returncode > 127:  # else the number of conflicts
            raise ToolchainError(f"git merge-file: {done.stderr.strip()}", "merge the file by hand: see --diff")
        return done.stdout, done.returncode == 0

    def write(self, text: str | None = None) -> None:
        """Write the draft, or ``text``, the result of a merge; the draft is also kept as the last one."""
        for path, content in ((self.path, self.text if text is None else text), (self.kept, self.text)):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8")


@dataclass(frozen=True)
class Drafts:
    """The drafts of an op.

    Attributes:
        cpp: the header and the binding.
        port: ports/OP.py; None: it cannot be drafted.
        remarks: what must be added to a drafted ports/OP.py, or why there is none.
        of_binding: in what the binding differs from the prototype.
        widened: where the kernels compute in float64 with float32 numbers.
    """

    cpp: tuple[Draft, ...]
    port: Draft | None
    remarks: tuple[str, ...]
    of_binding: tuple[str, ...] = ()
    widened: tuple[str, ...] = ()

    @property
    def files(self) -> tuple[Draft, ...]:
        """The drafts, without that of a ports/OP.py that was written or edited by hand."""
        return self.cpp if self.port is None or self.port.edited else (*self.cpp, self.port)


def drafts_of(op: str, workspace: Workspace) -> Drafts:
    """The drafts of an op's files; writes nothing.

    Raises:
        DraftError: something in the prototype cannot be translated; the error names the line.
        PrototypeError: the prototype is missing, or this process has imported Numba's simulator.
    """
    files, prototype = workspace.files(op), _prototype(op, workspace)
    _without_simulator()
    from trifold.draft.binding import draft_op
    from trifold.draft.wiring import draft_port

    module = _imported(prototype, op)
    drafted = draft_op(module, op, lambda: _calls(files))
    texts = ((files.header, drafted.header), (files.binding, drafted.binding))
    cpp = tuple(Draft(path, last_written.place(path, workspace.root), text) for path, text in texts)
    try:
        wiring = draft_port(module, op)
    except DraftError as error:
        not_drafted = () if files.port.is_file() else (f"not drafted: {error}",)
        return Drafts(cpp, None, not_drafted, drafted.remarks, drafted.widened)
    port = Draft(files.port, last_written.place(files.port, workspace.root), wiring.text)
    of_port = _of_kept(port) if port.edited else wiring.remarks
    return Drafts(cpp, port, of_port, drafted.remarks, drafted.widened)


def _of_kept(port: Draft) -> tuple[str, ...]:
    """What to say of a ports/OP.py that is kept: which operators it defines otherwise than the prototype."""
    kept = _operators(port.path.read_text(encoding="utf-8"))
    missing = [schema for name, schema in _operators(port.text).items() if name not in kept]
    if not missing:
        return ()
    return (
        f"kept, since it was not drafted or has been edited, but it does not define {' nor '.join(missing)}, as the "
        "prototype does; change it, or move it away and draft again",
    )


def _operators(text: str) -> dict[str, str]:
    """The schemas of ``op.define("...")`` in the text of a ports/OP.py, by the operators' names with their types."""
    from trifold.port.schema import Schema

    with contextlib.suppress(SyntaxError):
        calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call) and node.args]
        defined = [ast.unparse(each.args[0]) for each in calls if ast.unparse(each.func).endswith(".define")]
        schemas = [Schema.parse(ast.literal_eval(each)) for each in defined if each[0] in "\"'"]
        return {f"{each.name}{each.types}": each.text for each in schemas}
    return {}


def _calls(files: OpFiles) -> list[Call]:
    """Calls of the op's spec, if there is one."""
    from trifold.draft.from_calls import calls_of
    from trifold.spec.load import load_spec

    return calls_of(load_spec(files)) if files.spec.is_file() else []


@contextmanager
def _without_collecting() -> Iterator[None]:
    """Disables garbage collection, which takes a fifth of the time of importing torch and Numba. Their modules are also
    excluded from collection when the process ends."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def _prompt(op: str, workspace: Workspace) -> str:
    """The text for ``--prompt``. Raises what :func:`drafts_of` raises if ports/OP.py is missing and cannot be
    drafted."""
    from trifold.draft.prompt import prompt
    from trifold.draft.wiring import draft_port

    files, prototype = workspace.files(op), _prototype(op, workspace)
    if files.port.is_file():
        return prompt(op, workspace, files.port.read_text(encoding="utf-8"))
    return prompt(op, workspace, draft_port(_imported(prototype, op), op).text)


def _imported(prototype: Path, op: str) -> ModuleType:
    from trifold.draft.signatures import not_compiled

    with not_compiled():
        return import_file(prototype, f"trifold_drafted_{op}")


def _prototype(op: str, workspace: Workspace) -> Path:
    path = workspace.files(op).prototype
    if not path.is_file():
        raise WorkspaceError(f"{path} does not exist", f"write it, or run: trifold new op {op}")
    return path


def _without_simulator() -> None:
    """Make sure that Numba's simulator is off: it hides the CUDA target, from which types are taken."""
    if "numba" not in sys.modules:
        os.environ.pop("NUMBA_ENABLE_CUDASIM", None)
    import numba

    if numba.config.ENABLE_CUDASIM:
        raise PrototypeError(
            "a prototype cannot be drafted in a process in which Numba's simulator is switched on",
            "unset NUMBA_ENABLE_CUDASIM before Python starts",
        )


def draft(
    op: Annotated[str, typer.Argument(help="An op of the workspace.", show_default=False, autocompletion=op_names)],
    diff: Annotated[
        bool, typer.Option("--diff", help="Write nothing; show how the files differ from the draft. Status 1 if so.")
    ] = False,
    update: Annotated[
        bool,
        typer.Option("--update", help="Merge what has changed since the last draft into files that were edited."),
    ] = False,
    prompt: Annotated[
        bool,
        typer.Option("--prompt", help="Write nothing; print all that a model or a person has to read to write it."),
    ] = False,
    workspace: Annotated[
        Path | None,
        typer.Option(help="A folder with prototypes/, cuda_src/, ports/ and verify/.", show_default="nearest parent"),
    ] = None,
) -> None:
    """Write cuda_src/OP.cuh and .cu, the op's port in C++, and where it is missing ports/OP.py, from prototypes/OP.py.

    A file that was written or edited by hand is never overwritten; C++ that `trifold new op` has generated, and nobody
    has edited, is. With --update, what has changed in the prototype since the last draft is merged into it, unless both
    have changed the same lines: then nothing is written. Exit status 1: there was such a conflict, or --diff has shown
    a difference.
    """
    found = Workspace.find() if workspace is None else Workspace.at(workspace)
    with _without_collecting():
        if prompt:
            print(_prompt(op, found), end="")
            return
        drafted = drafts_of(op, found)
    drafts = drafted.files
    if diff:
        differences = [each.difference() for each in drafts]
        print("".join(differences), end="")
        raise typer.Exit(1 if any(differences) else 0)
    if update:
        _update(drafted, found)
        return
    edited = [each.path for each in drafts if each.edited]
    if edited:
        names = " and ".join(str(path.relative_to(found.root)) for path in edited)
        raise WorkspaceError(
            f"{names}: edited since it was drafted or generated, or written by hand; nothing is written",
            f"see the differences with trifold draft {op} --diff, merge them with --update, or move the file away",
        )
    for each in drafts:
        each.write()
        print(f"wrote {each.path.relative_to(found.root)}")
    for remark in drafted.widened:
        print(f"prototypes/{remark}")
    for remark in drafted.of_binding:
        print(f"cuda_src/{op}.cu: {remark}")
    for remark in drafted.remarks:
        print(f"ports/{op}.py: {remark}")


def _update(drafted: Drafts, workspace: Workspace) -> None:
    """Merge files that were edited with the new draft; overwrite the others with it."""
    follows = drafted.port is not None and drafted.port.kept.is_file()
    files = (*drafted.cpp, drafted.port) if follows and drafted.port is not None else drafted.files
    merged = [(each, *each.merged()) if each.edited else (each, each.text, True) for each in files]
    conflicts = [(each, text) for each, text, clean in merged if not clean]
    for each, text in conflicts:
        beside = each.kept.with_name(f"{each.kept.name}.merged")
        beside.write_text(text, encoding="utf-8")
        name, place = (path.relative_to(workspace.root) for path in (each.path, beside))
        print(f"{name}: edited where the prototype has changed, too; nothing is written. Both stand in {place}")
    if conflicts:
        raise typer.Exit(1)
    for each, text, _ in merged:
        said = "is as it was" if each.path.is_file() and each.path.read_text(encoding="utf-8") == text else "updated"
        each.write(text)
        print(f"{each.path.relative_to(workspace.root)}: {said}")
