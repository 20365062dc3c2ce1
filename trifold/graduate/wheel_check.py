"""Checks that a graduated wheel is intact: hashes, certificates, symbols, and its tests in a fresh environment."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import textwrap
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from packaging.tags import sys_tags
from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from trifold.errors import GraduationError
from trifold.graduate.backend import abi, archive
from trifold.graduate.backend.elf import SharedLibrary
from trifold.graduate.certificates import EXAMPLES, not_on_cpu
from trifold.graduate.fresh_environment import Environment, fresh_environment, last_line
from trifold.graduate.port_file import PortFile, SharedFile
from trifold.graduate.source_package import FORMAT, namespace_of
from trifold.implementation import require_schemas
from trifold.verification.examples import fewer

SUMS = "SHA256SUMS"
_MOST_SHOWN, _LONGEST = 5, 400  # failed tests, and characters of each
_BUILD_IT_AGAIN = "do not use it; graduate the ops again"


@dataclass(frozen=True)
class Checked:
    """A wheel that passed all checks.

    Attributes:
        sha256: of the file.
        package, namespace: the name to import, and that of its operators in ``torch.ops``.
        needs: the oldest machine that loads it.
        tests: how many ran; ``devices``: on which.
        not_run: the reason for each cell that was not tested.
        device: the GPU's name, or ``cpu``.
        torch: the version with which it was tested.
    """

    wheel: Path
    sha256: str
    package: str
    namespace: str
    ops: tuple[str, ...]
    needs: abi.Needs
    tests: int
    devices: tuple[str, ...]
    not_run: Mapping[str, str]
    device: str
    torch: str

    def to_json(self) -> dict[str, Any]:
        """As plain data, for ``--json``."""
        return asdict(self) | {"wheel": self.wheel.name, "platform": self.needs.platform}


def check(wheel: Path, on_step: Callable[[str], None] = lambda text: None) -> Checked:
    """Check everything about ``wheel``.

    Raises:
        GraduationError: an error; the text names the file, the op or the test.
        SchemaError: the libraries do not implement what the ports define.
        ToolchainError: no fresh environment can be made here.
    """
    on_step(f"{wheel.name}: hashes")
    files = _contents(wheel)
    facts = _facts(wheel, files)
    _require_certificates(files, facts)
    on_step(f"{wheel.name}: symbols")
    needs = _require_symbols(wheel, files, facts)
    _require_this_machine(wheel)
    with fresh_environment() as environment:
        on_step(f"{wheel.name}: install in a fresh environment")
        environment.install(wheel.resolve())
        seen = environment.probe(facts["package"])
        if seen["trifold"] or seen["loaded"]:
            raise GraduationError(f"{wheel.name} was tried where trifold can be imported, which shows nothing")
        if seen["namespace"] != facts["namespace"]:
            raise GraduationError(
                f"{wheel.name} registers into {seen['namespace']}, not {facts['namespace']}", _BUILD_IT_AGAIN
            )
        for op, _, implemented in seen["implemented"]:
            require_schemas(seen["declared"][op], implemented, f"ports/{op}.py", f"{op}.cu")
        on_step(f"{wheel.name}: its tests")
        report = _run_tests(environment, facts["package"])
    return Checked(
        wheel,
        hashlib.sha256(wheel.read_bytes()).hexdigest(),
        facts["package"],
        facts["namespace"],
        tuple(facts["ops"]),
        needs,
        report["tests"],
        tuple(report["devices"]),
        report["not_run"],
        report["device"],
        report["torch"],
    )


# ------------------------------------------------------------------------------------------------------------ hashes


def _contents(wheel: Path) -> dict[str, bytes]:
    """The files of a wheel, all listed in RECORD, with their hashes."""
    if not wheel.is_file():
        raise GraduationError(f"there is no file {wheel}", "name a wheel that trifold graduate made")
    try:
        parse_wheel_filename(wheel.name)
    except InvalidWheelFilename as error:
        raise GraduationError(
            f"{wheel.name} is not the name of a wheel: {error}", "keep the name that it was built with"
        ) from None
    _require_sum(wheel)
    try:
        with zipfile.ZipFile(wheel) as opened:
            names = opened.namelist()
            files = {name: opened.read(name) for name in names}
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, OSError, ValueError) as error:
        raise GraduationError(f"{wheel.name} is damaged: {error}", _BUILD_IT_AGAIN) from None
    if len(names) != len(files):
        raise GraduationError(f"{wheel.name} has two files of one name", _BUILD_IT_AGAIN)
    for name in names:
        parts = PurePosixPath(name).parts
        if name.startswith("/") or ".." in parts or "\\" in name:
            raise GraduationError(f"{wheel.name} would write outside its folder: {name}", _BUILD_IT_AGAIN)
    _require_record(wheel, files)
    return files


def _require_sum(wheel: Path) -> None:
    """If there is a SHA256SUMS next to the wheel, its hash must match."""
    sums = wheel.parent / SUMS
    if not sums.is_file():
        return
    for line in sums.read_text(encoding="utf-8", errors="replace").splitlines():
        digest, _, name = line.partition("  ")
        if name == wheel.name and digest != hashlib.sha256(wheel.read_bytes()).hexdigest():
            raise GraduationError(f"{wheel.name} was changed: {sums} has another hash of it", _BUILD_IT_AGAIN)


def _require_record(wheel: Path, files: Mapping[str, bytes]) -> None:
    own = [name for name in files if name.endswith(".dist-info/RECORD")]
    if len(own) != 1:
        raise GraduationError(f"{wheel.name} is not a wheel: it has {len(own)} RECORD files", _BUILD_IT_AGAIN)
    rows = csv.reader(io.StringIO(files[own[0]].decode("utf-8", "replace")))
    recorded = {row[0]: row[1] for row in rows if len(row) == 3 and row[0] != own[0]}
    for name in sorted((files.keys() - {own[0]}) | recorded.keys()):
        if name not in files or name not in recorded:
            raise GraduationError(
                f"{wheel.name}: {name} is {'not in RECORD' if name in files else 'in RECORD, but missing'}",
                _BUILD_IT_AGAIN,
            )
        if archive.record_hash(files[name]) != recorded[name]:
            raise GraduationError(f"{wheel.name}: {name} was changed, says RECORD", _BUILD_IT_AGAIN)


def _facts(wheel: Path, files: Mapping[str, bytes]) -> dict[str, Any]:
    """metadata.json, which must agree with the files."""
    found = [name for name in files if name.count("/") == 1 and name.endswith("/metadata.json")]
    if len(found) != 1:
        raise GraduationError(
            f"{wheel.name} was not made by trifold graduate: it has no metadata.json", "name one that was"
        )
    try:
        facts: dict[str, Any] = json.loads(files[found[0]])
        if facts["format"] != FORMAT:
            raise ValueError(f"its format is {facts['format']}, this trifold reads {FORMAT}")
        hashes: dict[str, str] = facts["files"]
        package = facts["package"]
        needed = (facts["ops"], facts["sources"], facts["build"], facts["namespace"])
        if not all(isinstance(one, dict) for one in (hashes, *needed[:3])):
            raise TypeError("a table is something else")
    except (ValueError, KeyError, TypeError) as error:
        raise GraduationError(f"{wheel.name}: metadata.json cannot be read: {error}", _BUILD_IT_AGAIN) from None
    if found[0] != f"{package}/metadata.json":
        raise GraduationError(f"{wheel.name}: metadata.json is that of {package}", _BUILD_IT_AGAIN)
    own = {name for name in files if not name.partition("/")[0].endswith(".dist-info")} - {found[0]}
    for name in sorted(own | hashes.keys()):
        content = files.get(name)
        if content is None or archive.sha256(content) != hashes.get(name):
            raise GraduationError(f"{wheel.name}: {name} is not the file that metadata.json speaks of", _BUILD_IT_AGAIN)
    return facts


# ------------------------------------------------------------------------------------------------------ certificates


def _require_certificates(files: Mapping[str, bytes], facts: Mapping[str, Any]) -> None:
    """Each op has a certificate for the sources in the wheel; and the namespace is that of the sources."""
    package, ops, sources = facts["package"], facts["ops"], facts["sources"]
    for op, entry in ops.items():
        try:
            _require_certificate(files, package, op, tuple(ops), entry["certificate"], entry["shipped"])
        except (KeyError, TypeError, AttributeError) as error:
            raise GraduationError(f"the certificate of {op} cannot be read: {error!r}", _BUILD_IT_AGAIN) from None
    for name, digest in sources.items():
        content = files.get(name.removeprefix("src/"))
        if content is not None and archive.sha256(content) != digest:
            raise GraduationError(f"{name} is not the source that was hashed", _BUILD_IT_AGAIN)
    if namespace_of(package, sources) != facts["namespace"]:
        raise GraduationError(f"the namespace {facts['namespace']} is not that of its sources", _BUILD_IT_AGAIN)


def _require_certificate(
    files: Mapping[str, bytes],
    package: str,
    op: str,
    ops: tuple[str, ...],
    certificate: dict[str, Any],
    shipped: Mapping[str, str],
) -> None:
    if certificate["op"] != op:
        raise GraduationError(f"the certificate of {op} is that of {certificate['op']}", _BUILD_IT_AGAIN)
    if certificate["verdict"] != "verified":
        raise GraduationError(
            f"the certificate of {op} says '{certificate['verdict']}'", "verify it, and graduate it again"
        )
    covered = {*certificate["devices"], *certificate["waived"], *(("cpu",) if not_on_cpu(certificate) else ())}
    if not {"cpu", "cuda"} <= covered:
        raise GraduationError(
            f"{op} is verified on {', '.join(certificate['devices'])} alone", "verify it on the other, too"
        )
    few = fewer(certificate["examples"])
    if few and EXAMPLES not in certificate["waived"]:
        raise GraduationError(
            f"{op} was verified with {few}, which was not waived", "verify it with the default, and graduate it again"
        )
    folder = f"{package}/sources"
    wanted = {f"{folder}/cuda_src/{op}.cu", f"{folder}/cuda_src/{op}.cuh", f"{folder}/ports/{op}.py"}
    included = set(shipped.values()) - wanted  # files that its C++ includes, and its port imports
    if not wanted <= set(shipped.values()) or not all(
        place.startswith((f"{folder}/cuda_src/", f"{folder}/ports/_")) for place in included
    ):
        raise GraduationError(
            f"the wheel does not have the sources of {op}: {', '.join(sorted(wanted))}", _BUILD_IT_AGAIN
        )
    for path, place in shipped.items():
        if archive.sha256(files[place]) != certificate["sources"].get(path):
            raise GraduationError(f"{place} is not the {path} that the certificate of {op} is for", _BUILD_IT_AGAIN)
    ports = f"{folder}/ports/"
    shared = {place: PurePosixPath(place.removeprefix(ports)) for place in included if place.startswith(ports)}
    expected = {
        str(name): SharedFile(Path(place), files[place].decode(), name).packaged(shared.values())
        for place, name in shared.items()
    }
    port = f"{ports}{op}.py"
    expected[f"{op}.py"] = PortFile(op, Path(port), files[port].decode()).packaged(package, ops, shared.values())
    for name, text in expected.items():
        if files[f"{package}/ports/{name}"].decode() != text:
            raise GraduationError(
                f"{package}/ports/{name} is not the verified file with its imports changed", _BUILD_IT_AGAIN
            )


# ------------------------------------------------------------------------------------------------- symbols and tests


def _require_symbols(wheel: Path, files: Mapping[str, bytes], facts: Mapping[str, Any]) -> abi.Needs:
    """No library needs more than torch's stable ABI, and the wheel's tag permits no older machine than it needs."""
    every = []
    libraries = dict(_libraries(files))
    engine = {symbol for name, one in libraries.items() if abi.ENGINE_PREFIX in name for symbol in one.defined}
    for name, library in libraries.items():
        needs, foreign = abi.needs(library, engine)
        if foreign:
            raise GraduationError(
                f"{wheel.name}: {name} needs {', '.join(foreign)}, which is neither in torch {abi.FLOOR}'s stable ABI "
                "nor in the system's libraries",
                _BUILD_IT_AGAIN,
            )
        every.append(needs)
    if not every:
        raise GraduationError(f"{wheel.name} has no library", _BUILD_IT_AGAIN)
    least = abi.together(every)
    _, _, _, tags = parse_wheel_filename(wheel.name)
    if {tag.platform for tag in tags} != {least.platform}:
        raise GraduationError(f"{wheel.name} needs {least.platform}, which is not what its name says", _BUILD_IT_AGAIN)
    if facts["build"]["cuda"] != least.cuda:
        raise GraduationError(f"{wheel.name}: metadata.json speaks of another CUDA than its libraries", _BUILD_IT_AGAIN)
    return least


def _libraries(files: Mapping[str, bytes]) -> Iterator[tuple[str, SharedLibrary]]:
    for name, content in files.items():
        if name.endswith(".so"):
            try:
                yield name, SharedLibrary.parse(content)
            except ValueError as error:
                raise GraduationError(f"{name} is not a library: {error}", _BUILD_IT_AGAIN) from None


def _require_this_machine(wheel: Path) -> None:
    _, _, _, tags = parse_wheel_filename(wheel.name)
    if tags.isdisjoint(sys_tags()):
        raise GraduationError(
            f"{wheel.name} cannot be installed on this machine: it is older, or of another kind, than its name says",
            "check it on a newer one, or graduate the ops here",
        )


def _run_tests(environment: Environment, package: str) -> dict[str, Any]:
    report = environment.folder / "tests.json"
    done = environment.run("-m", f"{package}.tests", "--json", str(report))
    try:
        result: dict[str, Any] = json.loads(report.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise GraduationError(
            f"the tests of {package} end with status {done.returncode}: {last_line(done.stderr)}",
            f"see python -m {package}.tests",
        ) from None
    if done.returncode != 0 or result["failures"]:
        failures = "\n".join(
            textwrap.shorten(text, _LONGEST) for text in result["failures"][:_MOST_SHOWN]
        ) or last_line(done.stderr)
        raise GraduationError(f"the tests of {package} fail:\n{failures}", f"see python -m {package}.tests")
    return result
