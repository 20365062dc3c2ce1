"""From verified ops to a wheel without trifold in it."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from trifold.build import diagnostics
from trifold.errors import BuildError, GraduationError, TrifoldError
from trifold.graduate import architectures, cases, cpp_sources, names, source_package, staging, wheel_check
from trifold.graduate.backend.compilers import find_nvcc
from trifold.graduate.certificates import require_certificate
from trifold.graduate.fresh_environment import PipFailed, last_line, pip
from trifold.graduate.reverify import Reverified, reverify
from trifold.graduate.source_package import Content
from trifold.graduate.tolerance import Tolerance
from trifold.graduate.wheel_check import Checked
from trifold.implementation import load_port
from trifold.machine.environment import environment
from trifold.python_imports import shared_modules
from trifold.workspace import OpFiles, Workspace

OnStep = Callable[[str], None]

_OF_WRITING = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)
# The build's own output, within pip's.
_SAID = re.compile(r"^ {6}(.*)$", re.MULTILINE)
_ERROR = re.compile(r"^\s*(?:\w+\.)*(\w*Error): (.+)")
# The build backend is a module of the package that it builds.
_SDIST = "import sys; sys.path.insert(0, 'build_backend'); from graduated_build import hooks; hooks.build_sdist('dist')"


@dataclass(frozen=True)
class Graduated:
    """The result of :func:`graduate`.

    Attributes:
        folder: the source package; ``dist`` in it has wheel and sdist.
        wheel: the checked wheel, in its final place.
        without_cuda: why the wheel has no CUDA part; empty if it has one.
        reverified: by op, the checks of :func:`~trifold.graduate.reverify.reverify` before the wheel was built.
    """

    folder: Path
    wheel: Path
    checked: Checked
    without_cuda: str
    reverified: Mapping[str, Reverified]


def graduate(
    ops: Sequence[str],
    out: Path,
    *,
    workspace: Workspace,
    name: str | None = None,
    version: str = "0.1.0",
    local_version: bool = False,
    arch: Sequence[str] = (),
    allow_unverified: Collection[str] = (),
    on_step: OnStep = lambda text: None,
) -> Graduated:
    """Make a source package in the new folder ``out``, build its wheel, and test that in a fresh environment.

    Before the build, a sample of each op's checks runs again: :func:`~trifold.graduate.reverify.reverify`.

    Args:
        ops: names, at least one.
        out: created only if everything succeeded.
        workspace: the workspace of the ops.
        name: of the package; default: the ops' names and ``kernels``.
        version: of the package.
        local_version: add a label of the build to the wheel's version, ``+cu13`` or ``+cpu``, so that both fit into one
            index.
        arch: architectures for the CUDA part; default: :data:`trifold.graduate.architectures.DEFAULT`.
        allow_unverified: permitted gaps of the certificates: ``cuda``, ``examples`` (fewer than by default).
        on_step: called with a short text for each step.

    Raises:
        GraduationError: a certificate does not hold, an op fails when verified again, a name is refused, ``out``
            exists, or the wheel fails its tests.
        WorkspaceError, SchemaError, SpecError: an op is incomplete.
        ToolchainError, BuildError: it cannot be built here.
    """
    chosen = workspace.select(ops)
    distribution = name or names.default_name([files.name for files in chosen])
    package = names.require_package_name(distribution)
    names.require_ops([files.name for files in chosen])
    version = names.require_version(version)
    nvcc = find_nvcc()
    targets = architectures.targets(arch, nvcc)
    with _readable_errors(out), staging.new_folder(out) as stage:
        on_step("certificates")
        contents = {files.name: _contents(workspace, files) for files in chosen}
        certificates = {
            files.name: require_certificate(workspace, files, contents[files.name], allow_unverified)
            for files in chosen
        }
        for files in chosen:
            _require_whole(files)
        _require_separate(chosen)
        reverified = reverify(workspace, certificates, lambda text: on_step(f"verify anew: {text}"))
        content = Content(
            package=package,
            distribution=distribution,
            version=version,
            local_version=local_version,
            files=chosen,
            contents=contents,
            certificates={op: one | {"reverified": reverified[op]} for op, one in certificates.items()},
            tolerances={files.name: Tolerance.of(files) for files in chosen},
            cases={files.name: _cases(files, on_step) for files in chosen},
            targets=targets,
            made=environment(workspace.root, torch.device("cpu")),
            root=workspace.root,
        )
        source_package.write(content, stage)
        wheel = _build(stage, nvcc is not None, on_step)
        checked = wheel_check.check(wheel, on_step)
    final = out.expanduser().absolute()
    without = "" if nvcc is not None else "there is no nvcc on this machine"
    place = final / "dist" / wheel.name
    return Graduated(final, place, replace(checked, wheel=place), without, reverified)


def _contents(workspace: Workspace, files: OpFiles) -> dict[str, bytes]:
    """The five files, the files that its C++ includes and the modules that its port imports from its folder, read once,
    so that the verified files are those that are shipped."""
    every = dict.fromkeys((*files, *cpp_sources.own_sources(files), *shared_modules(files.port)))
    return {str(path.relative_to(workspace.root)): path.read_bytes() for path in every}


def _cases(files: OpFiles, on_step: OnStep) -> object:
    on_step(f"{files.name}: cases for its tests")
    return cases.record(files)


def _require_whole(files: OpFiles) -> None:
    """The port can be executed, and has a function and an operator with the op's name."""
    try:
        load_port(files)
    except TrifoldError:
        raise
    except Exception as error:  # any exception of the user's file
        raise GraduationError(
            f"{files.port} cannot be executed: {type(error).__name__}: {error}", "correct it"
        ) from None


def _require_separate(chosen: Sequence[OpFiles]) -> None:
    """No two ops of a package define an operator of the same name."""
    owner: dict[str, str] = {}
    for files in chosen:
        for operator in load_port(files).operators.schemas:
            if operator in owner:
                raise GraduationError(
                    f"{owner[operator]} and {files.name} both define the operator {operator}",
                    "rename one, or graduate them into two packages",
                )
            owner[operator] = files.name


def _build(stage: Path, cuda: bool, on_step: OnStep) -> Path:
    """Write the sdist into ``dist`` and build the wheel from it, with a file of both hashes; returns the wheel."""
    dist = stage / "dist"
    dist.mkdir()
    environment_of_build = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
    subprocess.run([sys.executable, "-c", _SDIST], cwd=stage, env=environment_of_build, check=True, capture_output=True)
    (sdist,) = dist.iterdir()
    on_step("build the wheel")
    offline = ["--no-build-isolation", "--no-deps", "--no-index", "--no-cache-dir"]
    settings = ["--config-settings", f"cuda={'yes' if cuda else 'no'}"]
    try:
        pip(["wheel", *offline, *settings, "--wheel-dir", str(dist), str(sdist)])
    except PipFailed as failed:
        raise _build_error(failed.log, stage) from None
    (wheel,) = dist.glob("*.whl")
    sums = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in sorted(dist.iterdir())]
    (dist / wheel_check.SUMS).write_text("".join(sums), encoding="utf-8")
    return wheel


def _build_error(log: str, stage: Path) -> BuildError:
    """The compiler's errors, else Python's last error; the whole log is kept."""
    with tempfile.NamedTemporaryFile("w", prefix="trifold-graduate-", suffix=".log", delete=False) as kept:
        kept.write(log)
    said = "\n".join(_SAID.findall(log))
    errors = [match[2] for line in said.splitlines() if (match := _ERROR.match(line))]
    if any(one.file is not None for one in diagnostics.diagnostics(said, stage)):
        problem = diagnostics.summarise(said, stage)
    else:
        problem = f"the build fails: {errors[-1] if errors else last_line(log)}"
    return BuildError(problem, f"the whole output: {kept.name}")


@contextmanager
def _readable_errors(out: Path) -> Iterator[None]:
    """Turns file system errors into messages with a remedy."""
    try:
        yield
    except OSError as error:
        verb = "written" if error.errno in _OF_WRITING else "used"
        raise GraduationError(
            f"{error.filename or out} cannot be {verb}: {error.strerror or error}",
            "check that file, and the free space on the disks of --out and of TMPDIR",
        ) from None
    except subprocess.CalledProcessError as error:
        said = last_line((error.stderr or b"").decode(errors="replace"))
        raise GraduationError(f"the sdist cannot be written: {said}", "check the disk's free space") from None
