"""The hooks of PEP 517 that pip calls to build this package.

pip wheel --no-build-isolation .                                 with CUDA if there is an nvcc
pip wheel --no-build-isolation --config-settings cuda=no .       for the CPU alone
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import tempfile
from pathlib import Path
from typing import Any

from trifold.errors import ToolchainError
from trifold.graduate.backend import abi, archive
from trifold.graduate.backend.plan import Plan

CARD = "CARD.md"
# Placeholder in CARD.md for facts about the wheel.
BUILD_FACTS = "<!-- what was built -->"
METADATA = "metadata.json"

Settings = dict[str, Any] | None


def get_requires_for_build_wheel(config_settings: Settings = None) -> list[str]:
    """Nothing that would have to be downloaded; torch must be installed."""
    return []


get_requires_for_build_sdist = get_requires_for_build_wheel


def build_sdist(sdist_directory: str, config_settings: Settings = None) -> str:
    root = Path.cwd()
    plan = Plan.read(root)
    core = _core(plan, plan.version, (root / CARD).read_text(encoding="utf-8"))
    return archive.write_sdist(Path(sdist_directory), _file_name(plan), plan.version, core, root).name


def build_wheel(wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None) -> str:
    root = Path.cwd()
    plan = Plan.read(root)
    if importlib.util.find_spec("torch") is None:
        raise ToolchainError(
            "torch is not installed where the build runs",
            "install torch first, and build with pip's --no-build-isolation",
        )
    from trifold.graduate.backend import compilers

    wanted = (config_settings or {}).get("cuda", "auto")
    if wanted not in ("auto", "yes", "no"):
        raise ValueError(f"--config-settings cuda={wanted}: it is auto, yes or no")
    cuda = wanted == "yes" or (wanted == "auto" and compilers.find_nvcc() is not None)
    with tempfile.TemporaryDirectory(prefix="graduated-build-") as folder:
        built = compilers.build(root, plan, Path(folder), cuda=cuda)
        libraries = {f"{plan.package}/lib/{one.name}": one.path.read_bytes() for one in built.libraries}
    least = abi.together([library.needs for library in built.libraries])
    facts = json.loads((root / METADATA).read_text(encoding="utf-8"))
    files = _package_files(root, plan) | libraries
    card = _card(root, plan, built.compilers, least)
    files[f"{plan.package}/{CARD}"] = card.encode()
    facts["build"] = {
        "compilers": built.compilers,
        "torch": importlib.metadata.version("torch"),
        "torch_abi": abi.FLOOR,
        "cuda": least.cuda,
        "architectures": list(plan.architectures) if least.cuda else [],
        "ptx": plan.ptx if least.cuda else "",
        "glibc": f"2.{least.glibc}",
        "libstdc++": f"GLIBCXX_3.4.{least.libstdcxx}",
        "libraries": [library.name for library in built.libraries],
    }
    facts["files"] = {name: archive.sha256(content) for name, content in sorted(files.items())}
    files[f"{plan.package}/{METADATA}"] = (json.dumps(facts, indent=2) + "\n").encode()
    label = f"+{'cpu' if least.cuda is None else f'cu{least.cuda}'}" if plan.local_version else ""
    version = f"{plan.version}{label}"
    core = _core(plan, version, card)
    made = archive.write_wheel(Path(wheel_directory), _file_name(plan), version, least.platform, core, files)
    return made.name


def _package_files(root: Path, plan: Plan) -> dict[str, bytes]:
    folder = root / plan.package_folder
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and "__pycache__" not in path.parts]
    return {f"{plan.package}/{path.relative_to(folder)}": path.read_bytes() for path in files}


def _core(plan: Plan, version: str, description: str) -> bytes:
    fields: dict[str, str | tuple[str, ...]] = {
        "Name": plan.distribution,
        "Version": version,
        "Summary": plan.summary,
        "Requires-Python": plan.requires_python,
        "Requires-Dist": plan.requires,
    }
    return archive.metadata(fields, description)


def _file_name(plan: Plan) -> str:
    """In the spelling of file names of wheels and sdists."""
    return plan.distribution.replace("-", "_").replace(".", "_").lower()


def _card(root: Path, plan: Plan, compilers: dict[str, str], least: abi.Needs) -> str:
    by = ", ".join(f"{name} {version}" for name, version in compilers.items())
    if least.cuda is None:
        cuda = "It has no CUDA part: it was built without nvcc."
    else:
        ptx = f", and PTX of {plan.ptx} for newer devices" if plan.ptx else ", and no PTX: newer devices cannot run it"
        cuda = f"CUDA {least.cuda}, for compute capability {', '.join(plan.architectures)}{ptx}."
    text = (
        f"Built by {by}. {cuda} It needs Linux on x86-64 with glibc 2.{least.glibc} and a libstdc++ with "
        f"GLIBCXX_3.4.{least.libstdcxx}, or newer, and of torch only what its stable ABI has since {abi.FLOOR}."
    )
    return (root / CARD).read_text(encoding="utf-8").replace(BUILD_FACTS, text)
