"""Writes the source package: everything that the wheel is built from."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import shutil
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from string import Template
from typing import Any

from packaging.requirements import Requirement

from trifold.build import recipe
from trifold.build.headers import headers_of
from trifold.graduate import card, cpp_sources, vendor
from trifold.graduate.architectures import Targets
from trifold.graduate.backend import abi
from trifold.graduate.backend import plan as plan_file
from trifold.graduate.backend.plan import Plan
from trifold.graduate.card import TEMPLATES
from trifold.graduate.certificates import not_on_cpu
from trifold.graduate.port_file import PortFile, SharedFile
from trifold.graduate.tolerance import Tolerance
from trifold.verification.certificate import Certificate
from trifold.workspace import OpFiles

FORMAT = 2  # of metadata.json
_HASH_DIGITS = 12


@dataclass(frozen=True)
class Content:
    """The contents of a source package.

    Attributes:
        package, distribution, version: its names.
        local_version: whether the wheel's version has a label of the build.
        files: of its ops.
        contents: each op's five files, those that its C++ includes, and those that its port imports from its folder, as
            in the certificate; by their paths in the workspace.
        certificates, tolerances, cases: by op.
        targets: the architectures of the CUDA part.
        made: from :func:`trifold.machine.environment.environment`.
        root: the workspace.
    """

    package: str
    distribution: str
    version: str
    local_version: bool
    files: Sequence[OpFiles]
    contents: Mapping[str, Mapping[str, bytes]]
    certificates: Mapping[str, Certificate]
    tolerances: Mapping[str, Tolerance]
    cases: Mapping[str, Any]
    targets: Targets
    made: Mapping[str, Any]
    root: Path

    @property
    def ops(self) -> tuple[str, ...]:
        return tuple(files.name for files in self.files)

    def ports(self) -> list[PortFile]:
        return [PortFile(files.name, files.port, self._text(files, files.port)) for files in self.files]

    def shared(self, files: OpFiles) -> list[SharedFile]:
        """The Python files that an op's port imports from its folder."""
        folder, others = files.port.parent, {files.prototype, files.port, files.spec}
        paths = [self.root / name for name in self.contents[files.name] if name.endswith(".py")]
        return [
            SharedFile(path, self._text(files, path), PurePosixPath(path.relative_to(folder).as_posix()))
            for path in paths
            if path not in others
        ]

    def shipped(self, files: OpFiles) -> dict[str, str]:
        """The files of an op that are unchanged in the wheel: their paths in workspace and wheel."""
        places = {path: f"cuda_src/{path.relative_to(files.binding.parent).as_posix()}" for path in self.kernels(files)}
        places[files.port] = f"ports/{files.port.name}"
        places |= {one.shown: f"ports/{one.place}" for one in self.shared(files)}
        return {str(path.relative_to(self.root)): f"{self.package}/sources/{place}" for path, place in places.items()}

    def kernels(self, files: OpFiles) -> list[Path]:
        """The C++ files of an op."""
        return [self.root / name for name in self.contents[files.name] if not name.endswith(".py")]

    def _text(self, files: OpFiles, path: Path) -> str:
        return self.contents[files.name][str(path.relative_to(self.root))].decode("utf-8")


def namespace_of(package: str, hashes: Mapping[str, str]) -> str:
    """The torch namespace of a package whose sources have these SHA-256."""
    digest = hashlib.sha256(json.dumps(dict(sorted(hashes.items()))).encode()).hexdigest()
    return f"{package}_{digest[:_HASH_DIGITS]}"


def write(content: Content, root: Path) -> Plan:
    """Write the source package into the empty folder ``root``.

    Raises:
        GraduationError: a port imports a module that the package lacks.
        OSError: for example, the disk is full.
    """
    shared = {one.place: one for files in content.files for one in content.shared(files)}
    packaged = {port.op: port.packaged(content.package, content.ops, shared) for port in content.ports()}
    hashes = _write_sources(content, packaged, shared.values(), root)
    namespace = namespace_of(content.package, hashes)
    plan = _plan(content, shared.values(), namespace)
    _put(root / plan_file.FILE, plan.to_json())
    for name, text in vendor.backend_files().items():
        _put(root / "build_backend" / "graduated_build" / name, text)
    _write_package(content, plan, root / "src" / content.package)
    _write_documents(content, plan, packaged, hashes, root)
    return plan


def _write_sources(
    content: Content, packaged: Mapping[str, str], shared: Collection[SharedFile], root: Path
) -> dict[str, str]:
    """The SHA-256 of each file that determines what the kernels compute."""
    package = f"src/{content.package}"
    texts: dict[str, bytes] = {}
    for files in content.files:
        own = content.contents[files.name]
        texts |= {f"src/{place}": own[path] for path, place in content.shipped(files).items()}
        texts[f"{package}/ports/{files.name}.py"] = packaged[files.name].encode()
    places = {one.place for one in shared}
    texts |= {f"{package}/ports/{one.place}": one.packaged(places).encode() for one in shared}
    texts |= {f"{package}/_port/{name}": text.encode() for name, text in vendor.runtime_files().items()}
    engine = cpp_sources.engine_files()
    kernels = [path for files in content.files for path in content.kernels(files)]
    used = headers_of([*kernels, *engine.values()])
    texts |= {f"csrc/include/{name}": path.read_bytes() for name, path in used.items()}
    texts |= {f"csrc/engine/{name}": path.read_bytes() for name, path in engine.items()}
    for name, data in texts.items():
        _put(root / name, data)
    return {name: hashlib.sha256(data).hexdigest() for name, data in sorted(texts.items())}


def _plan(content: Content, shared: Collection[SharedFile], namespace: str) -> Plan:
    return Plan(
        package=content.package,
        distribution=content.distribution,
        version=content.version,
        local_version=content.local_version,
        summary=card.summary(content.ports()),
        requires=(torch_requirement([*content.ports(), *shared]),),
        requires_python=_requires_python(),
        namespace=namespace,
        ops=content.ops,
        not_on_cpu=tuple(op for op, certificate in content.certificates.items() if not_on_cpu(certificate)),
        architectures=content.targets.architectures,
        ptx=content.targets.ptx,
        gxx_flags=recipe.GXX_FLAGS,
        engine_hash=_engine_hash(),
        # Without the source lines, whose paths on the building machine mean nothing elsewhere.
        nvcc_flags=tuple(flag for flag in recipe.NVCC_FLAGS if flag != "-lineinfo"),
    )


def _engine_hash() -> str:
    """The hash of the engine's sources and of the headers that they include."""
    engine = cpp_sources.engine_files()
    state = hashlib.sha256()
    for name, path in sorted((engine | headers_of(engine.values())).items()):
        state.update(f"{name}\0".encode() + path.read_bytes())
    return state.hexdigest()[:_HASH_DIGITS]


def _write_package(content: Content, plan: Plan, folder: Path) -> None:
    ports = content.ports()
    values = {
        "summary": plan.summary,
        "package": plan.package,
        "namespace": plan.namespace,
        "version": plan.version,
        "ops": repr(plan.ops),
        "names": ", ".join(f'"{name}"' for name in ("package", *plan.ops)),
        "imports": "\n".join(f"from .ports.{op} import {op}  # noqa: E402" for op in plan.ops),
    }
    _put(folder / "__init__.py", _filled("package_init.py.txt", values))
    stubs = [port.stub() for port in ports]
    imports = sorted({line for lines, _ in stubs for line in lines})
    signatures = "\n".join(signature for _, signature in stubs)
    _put(
        folder / "__init__.pyi",
        _filled("package_init.pyi.txt", {"imports": "\n".join(imports), "signatures": signatures}).lstrip("\n"),
    )
    _put(folder / "py.typed", "")
    _put(
        folder / "ports" / "__init__.py",
        '"""The operators: schema, fake, autograd and public function of each op."""\n',
    )
    random = any(cases["random"] for cases in content.cases.values())
    for name, text in vendor.test_files(random=random).items():
        _put(folder / "tests" / name, text)
    _put(folder / "tests" / "cases.json", json.dumps(content.cases, indent=1) + "\n")


def _write_documents(
    content: Content, plan: Plan, packaged: Mapping[str, str], hashes: Mapping[str, str], root: Path
) -> None:
    values = {
        "distribution": plan.distribution,
        "package": plan.package,
        "summary": plan.summary,
        "requires_python": plan.requires_python,
        "dependencies": ", ".join(f'"{one}"' for one in plan.requires),
        "trifold": str(content.made["trifold"]),
    }
    _put(root / "pyproject.toml", _filled("pyproject.toml.txt", values))
    _put(root / "NOTICE", _filled("NOTICE", values))
    text = card.card(
        plan.package,
        plan.distribution,
        content.ports(),
        packaged,
        content.certificates,
        content.tolerances,
        content.made,
        content.root,
    )
    _put(root / "CARD.md", text)
    _put(root / ".gitignore", "__pycache__/\n/dist/\n")
    licence = _licence_of_trifold()
    if licence is not None:
        _put(root / "LICENSE.trifold", licence)
    if (content.root / "LICENSE").is_file():
        shutil.copyfile(content.root / "LICENSE", root / "LICENSE")
    metadata = {
        "format": FORMAT,
        "package": plan.package,
        "distribution": plan.distribution,
        "version": plan.version,
        "namespace": plan.namespace,
        "made": dict(content.made),
        "ops": {
            files.name: {
                "certificate": content.certificates[files.name],
                "tolerance": content.tolerances[files.name].to_json(),
                "shipped": content.shipped(files),
            }
            for files in content.files
        },
        "sources": dict(hashes),
    }
    _put(root / "metadata.json", json.dumps(metadata, indent=2) + "\n")


def _filled(template: str, values: Mapping[str, str]) -> str:
    return Template((TEMPLATES / template).read_text(encoding="utf-8")).substitute(values)


def _put(path: Path, content: str | bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)


def torch_requirement(ports: Iterable[PortFile | SharedFile]) -> str:
    """The versions of torch that a package supports: trifold's own if an op uses torch's internals; otherwise that of
    the stable ABI and any later one."""
    own = [Requirement(text) for text in importlib.metadata.requires("trifold") or []]
    torch = next(requirement for requirement in own if requirement.name == "torch")
    return str(torch) if any(port.uses_internals() for port in ports) else f"torch>={abi.FLOOR}"


def _requires_python() -> str:
    return importlib.metadata.metadata("trifold")["Requires-Python"]


def _licence_of_trifold() -> bytes | None:
    for file in importlib.metadata.files("trifold") or []:
        if file.name == "LICENSE":
            return Path(str(file.locate())).read_bytes()
    return None
