"""The GPUs that a wheel's CUDA part is compiled for."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from trifold.build.toolchain import Nvcc
from trifold.errors import GraduationError, ToolchainError

# Ampere's and Hopper's data-centre GPUs; GPUs in between run Ampere's code, newer ones translate PTX.
DEFAULT = ("8.0", "9.0")


@dataclass(frozen=True)
class Targets:
    """The targets of nvcc.

    Attributes:
        architectures: machine code, ascending: ``("8.0", "9.0")``.
        ptx: the newest of them with PTX that later devices can translate; empty if there is none.
    """

    architectures: tuple[str, ...]
    ptx: str


def targets(wanted: Sequence[str], nvcc: Nvcc | None) -> Targets:
    """The targets ``wanted`` (default if empty), checked against ``nvcc`` if there is one.

    Each text may hold several, separated by commas, semicolons or blanks: ``8.0;9.0a``.

    Raises:
        GraduationError: one has another form, or nvcc does not support it.
        ToolchainError: nvcc does not run.
    """
    names = [name for text in wanted for name in re.split(r"[,; ]+", text) if name] or list(DEFAULT)
    for name in names:
        if re.fullmatch(r"\d{1,2}\.\d[af]?", name) is None:
            raise GraduationError(
                f"--arch {name}: an architecture has the form 9.0 or 9.0a", "give --arch 9.0, for example"
            )
    known = _known_to(nvcc) if nvcc is not None else [name.rstrip("af") for name in names]
    for name in names:
        base = name.rstrip("af")
        if base not in known or (base != name and _order(base) < _order("9.0")):  # which began with 9.0a
            raise GraduationError(
                f"--arch {name}: {nvcc.path if nvcc else 'nvcc'} does not know it", f"it knows {', '.join(known)}"
            )
    ordered = tuple(sorted(dict.fromkeys(names), key=_order))
    # Code for one family of devices (9.0a) has no PTX that others can translate.
    general = [name for name in ordered if name[-1].isdigit()]
    return Targets(ordered, general[-1] if general else "")


def _known_to(nvcc: Nvcc) -> list[str]:
    try:
        done = subprocess.run(
            [str(nvcc.path), "--list-gpu-code"], capture_output=True, text=True, timeout=60, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise ToolchainError(
            f"{nvcc.path} does not say which architectures it knows: {error}", "reinstall it"
        ) from None
    codes = re.findall(r"^sm_(\d+)(\d)[af]?$", done.stdout, re.MULTILINE)
    return sorted({f"{major}.{minor}" for major, minor in codes}, key=_order)


def _order(name: str) -> tuple[float, str]:
    return float(name.rstrip("af")), name
