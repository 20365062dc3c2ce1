"""Checks names of graduated packages: pip, PyPI and Python's ``import`` must all accept them."""

from __future__ import annotations

import importlib.metadata
import keyword
import re
import sys
from collections.abc import Sequence

from packaging.requirements import Requirement
from packaging.utils import InvalidName, canonicalize_name
from packaging.version import InvalidVersion, Version

from trifold.errors import GraduationError

# Names in every graduated package besides those of its ops.
OWN_MODULES = ("lib", "package", "ports", "sources", "tests")


def default_name(ops: Sequence[str]) -> str:
    """``sigmoid_kernels`` for one op, ``add_mul_kernels`` for two."""
    return f"{'_'.join(ops)}_kernels"


def require_package_name(name: str) -> str:
    """The name to import for the distribution ``name``: ``my_kernels`` for ``my-kernels``.

    Raises:
        GraduationError: Python, pip or PyPI would refuse it.
    """
    module = re.sub(r"[-.]+", "_", name)
    problem = _problem(name, module)
    if problem:
        raise GraduationError(
            f"the package name '{name}' {problem}",
            "give another one with --name: ASCII letters, digits and single hyphens or underscores, such as my-kernels",
        )
    return module


def _problem(name: str, module: str) -> str:
    try:
        canonicalize_name(name, validate=True)
    except InvalidName:
        return "is refused by PyPI"
    if not (module.isascii() and module.isidentifier()):
        return f"cannot be imported: {module} is not a Python identifier"
    if keyword.iskeyword(module) or keyword.issoftkeyword(module):
        return "is a keyword of Python"
    if module in sys.stdlib_module_names or module.lower() in sys.stdlib_module_names:
        return "is a module of Python's standard library, which PyPI refuses too"
    if canonicalize_name(name) in {"trifold", *distributions("torch")}:
        return "is that of trifold, torch, or something that torch needs"
    return ""


def require_ops(ops: Sequence[str]) -> None:
    """Raise ``GraduationError`` if an op's name is one that every package uses otherwise."""
    for op in ops:
        if op in OWN_MODULES:
            raise GraduationError(
                f"an op named '{op}' cannot graduate: every graduated package has something else of that name",
                "rename it",
            )


def require_version(text: str) -> str:
    """``text`` in its normal form. Raises ``GraduationError`` if it is not a version, or has a local label."""
    try:
        version = Version(text)
    except InvalidVersion:
        raise GraduationError(f"'{text}' is not a version", "give one such as 0.1.0") from None
    if version.local is not None:
        raise GraduationError(
            f"the version '{text}' has a local label",
            f"give {version.public}; --local-version adds the label of the build, as +cu13",
        )
    return str(version)


def distributions(name: str) -> tuple[str, ...]:
    """The installed distribution ``name`` and all that it needs, in their normal form."""
    found: dict[str, None] = {}
    seen: set[str] = set()
    waiting = [Requirement(name)]
    while waiting:
        requirement = waiting.pop()
        one = canonicalize_name(requirement.name)
        if str(requirement) in seen:
            continue
        seen.add(str(requirement))
        try:
            needed = map(Requirement, importlib.metadata.requires(one) or [])
        except importlib.metadata.PackageNotFoundError:
            continue
        found[one] = None
        extras = requirement.extras or {""}
        waiting += [
            each for each in needed if each.marker is None or any(each.marker.evaluate({"extra": e}) for e in extras)
        ]
    return tuple(found)
