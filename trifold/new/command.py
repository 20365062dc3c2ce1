"""``trifold new PATH`` and ``trifold new op NAME``."""

from __future__ import annotations

import platform
import shlex
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from trifold import last_written
from trifold.errors import WorkspaceError
from trifold.new.family import FAMILIES, family_of
from trifold.workspace import FOLDERS, OpFiles, Workspace

FIRST_OP = "scaled_square"
WORKFLOW = ".github/workflows/verify.yml"


def new(
    what: Annotated[
        list[str],
        typer.Argument(
            metavar="PATH | op NAME", help="The folder of a new workspace; or the word op, and the name of a new op."
        ),
    ],
    like: Annotated[
        str | None,
        typer.Option(
            help=f"The kind of op to start from: {', '.join(FAMILIES)}; default: elementwise.", show_default=False
        ),
    ] = None,
    signature: Annotated[
        str | None,
        typer.Option(
            help="Instead of --like: the arguments and results of the op, such as "
            '"(Tensor x, Tensor? bias, float alpha) -> Tensor".'
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace files that exist already.")] = False,
    workspace: Annotated[Path | None, typer.Option(help="The workspace of the op; default: the nearest one.")] = None,
) -> None:
    """Make a workspace with a first op, or the five files of an op in an existing workspace.

    The files build, and pass `trifold verify`, as generated. The places to edit are marked with "Change here".
    """
    if what[0] != "op":
        if len(what) > 1:
            raise ValueError(f"one PATH at a time, not {' '.join(what)}; an op is made by: trifold new op NAME")
        if like is not None or signature is not None or workspace is not None:
            raise ValueError("--like, --signature and --workspace go with an op: trifold new op NAME")
        new_workspace(Path(what[0]), force=force)
        return
    if len(what) != 2:
        raise ValueError("write: trifold new op NAME; for a workspace in a folder called op: trifold new ./op")
    found = Workspace.find() if workspace is None else Workspace.at(workspace)
    new_op(found, what[1], like=like or "elementwise", signature=signature, force=force)


def new_workspace(path: Path, *, force: bool) -> None:
    """Make a workspace in ``path``, with one op; returns the next steps.

    Raises:
        WorkspaceError: ``path`` is not empty and ``force`` is not given, or it cannot be written.
        UnusableName: the folder's name cannot become a project's name.
    """
    from trifold.build import compile_commands
    from trifold.new import names, render, write
    from trifold.new.origin import origin

    root = path.expanduser().resolve()
    if root.exists() and not root.is_dir():
        raise WorkspaceError(f"{path} is a file", "name a folder")
    if root.is_dir() and any(root.iterdir()) and not force:
        raise WorkspaceError(f"{path} is not empty", "name a new folder, or add --force to write into this one")
    source = origin()
    context = {
        "project": names.project_name(root.name),
        "op": FIRST_OP,
        "folders": FOLDERS,
        "python": ".".join(platform.python_version_tuple()[:2]),
        "trifold": version("trifold"),
        "origin": source,
    }
    texts = {root / name: text for name, text in render.workspace_texts(context).items()}
    files = Workspace(root).files(FIRST_OP)
    texts |= render.op_texts(files, "elementwise", None)
    write.write_all(texts, force=force)
    _keep_port(files, texts, Workspace.at(root))
    compile_commands.write(Workspace.at(root))
    print(f"{path}: a workspace with the op {FIRST_OP}\n\n    cd {shlex.quote(str(path))}\n    trifold verify")
    if source.here:
        print(f"\nIts CI installs {source.requirement}, which is on this machine alone: correct {WORKFLOW}")


def new_op(workspace: Workspace, name: str, *, like: str, signature: str | None, force: bool) -> None:
    """Make the five files of the op ``name``; returns the next steps.

    Raises:
        UnusableName: an op cannot have this name.
        NewError, SignatureError: there is no such family, or no template for the signature.
        WorkspaceError: a file exists and ``force`` is not given, or cannot be written.
    """
    from trifold.build import compile_commands
    from trifold.new import names, render, write

    names.check_op_name(name)
    files = workspace.files(name)
    texts = render.op_texts(files, family_of(like), signature)
    write.write_all(texts, force=force)
    _keep_port(files, texts, workspace)
    compile_commands.refresh(workspace)
    written = "\n".join(f"    {path.relative_to(workspace.root)}" for path in files)
    print(f"{written}\n\nYours to change: grep -n 'Change here' on them. Then: trifold verify {name}")


def _keep_port(files: OpFiles, texts: Mapping[Path, str], workspace: Workspace) -> None:
    """The C++ is that of the generated prototype: until somebody edits it, `trifold draft` may write it again."""
    for path in (files.header, files.binding):
        last_written.keep(path, texts[path], workspace.root)
