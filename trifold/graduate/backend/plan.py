"""The build plan: the part of the source package that graduation wrote for this backend."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

FILE = "build_backend/plan.json"


@dataclass(frozen=True)
class Plan:
    """The package that is built.

    Attributes:
        package: the name to import.
        distribution: the name for pip.
        version: without the label of the build.
        local_version: whether the wheel's version has a label of the build: ``+cu13``, or ``+cpu``.
        requires: the distributions that it needs.
        requires_python: a version specifier.
        namespace: the torch namespace that the libraries register into.
        ops: in the order of their names.
        not_on_cpu: those among them whose port has no CPU build.
        architectures: such as ``9.0``; those to compile for.
        ptx: the architecture whose PTX newer devices translate; none: empty.
        gxx_flags, nvcc_flags: those with which the ports were verified.
        engine_hash: of the runtime for kernels on the CPU.
        include: folders with headers, relative to the root; ``cpu_include`` for g++ alone.
        sources: the folder with the kernels; ``engine``: the one with the runtime for kernels on the CPU.
    """

    package: str
    distribution: str
    version: str
    local_version: bool
    summary: str
    requires: tuple[str, ...]
    requires_python: str
    namespace: str
    ops: tuple[str, ...]
    not_on_cpu: tuple[str, ...]
    architectures: tuple[str, ...]
    ptx: str
    gxx_flags: tuple[str, ...]
    nvcc_flags: tuple[str, ...]
    engine_hash: str
    include: str = "csrc/include"
    cpu_include: str = "csrc/include/cuda_for_cpu"
    engine: str = "csrc/engine"

    @property
    def package_folder(self) -> str:
        return f"src/{self.package}"

    @property
    def sources(self) -> str:
        return f"{self.package_folder}/sources/cuda_src"

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=2) + "\n"

    @classmethod
    def read(cls, root: Path) -> Plan:
        data: dict[str, Any] = json.loads((root / FILE).read_text(encoding="utf-8"))
        fields: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in data.items()
        }
        return cls(**fields)
