"""Renders generated files from templates of jinja2, which are data of this package."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import jinja2

from trifold.debug.editor import launch_json
from trifold.new import elementwise, general, schema, signature
from trifold.new.family import Family, NewError
from trifold.new.layout import cpp_list, python_list
from trifold.workspace import OpFiles

# The template of each of an op's five files, in their order.
_OF_OP = ("prototype.py.j2", "header.cuh.j2", "binding.cu.j2", "port.py.j2", "spec.py.j2")


def op_texts(files: OpFiles, family: Family, wanted: str | None) -> dict[Path, str]:
    """The text of each of an op's files, by its path.

    Args:
        files: their paths.
        family: the kind of op.
        wanted: the requested signature.

    Raises:
        NewError: the family's signature cannot be chosen.
        SignatureError: it is not a signature, or no template supports it.
    """
    if wanted is not None and family != "elementwise":
        raise NewError(
            f"--signature goes with --like elementwise only: the kernel of a {family} op is written for "
            f"{_own_signature(files.name, family)}",
            "omit --signature, and change the arguments in the generated files, in the order given in docs/spec.md, "
            "Templates; or omit --like, and change an elementwise kernel of this signature",
        )
    templates: str = family
    context: dict[str, Any] = {"op": files.name}
    if family == "elementwise":
        parsed = signature.parse(wanted or elementwise.DEFAULT, files.name)
        if parsed is not None:
            context |= elementwise.context(files.name, parsed)
        else:
            templates = "signature"
            context |= general.context(files.name, schema.parse(wanted or "", files.name))
    return {path: _render(f"{templates}/{template}", context) for path, template in zip(files, _OF_OP, strict=True)}


def _own_signature(op: str, family: Family) -> str:
    """The signature of which ops of a family are generated."""
    found = re.search(rf'"{op}(\(.*?)"', _render(f"{family}/port.py.j2", {"op": op}))
    assert found is not None
    return found[1]


def workspace_texts(context: Mapping[str, Any]) -> dict[str, str]:
    """The files of a workspace other than its ops, by their paths in it."""
    return {
        "pyproject.toml": _render("workspace/pyproject.toml.j2", context),
        "README.md": _render("workspace/README.md.j2", context),
        ".gitignore": _render("workspace/gitignore.j2", context),
        ".clang-format": _render("workspace/clang-format.j2", context),
        ".github/workflows/verify.yml": _render("workspace/verify.yml.j2", context),
        ".vscode/settings.json": _render("workspace/settings.json.j2", context),
        ".vscode/launch.json": launch_json(),
    }


def _render(template: str, context: Mapping[str, Any]) -> str:
    loader = jinja2.FunctionLoader(_template)
    environment = jinja2.Environment(
        loader=loader,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.globals |= {"python_list": python_list, "cpp_list": cpp_list}
    return environment.get_template(template).render(context)


def _template(name: str) -> str:
    return resources.files("trifold.new").joinpath("templates", *name.split("/")).read_text(encoding="utf-8")
