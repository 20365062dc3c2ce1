"""Builds ordinary CUDA text (trifold/host/cuda_text.py) for the CPU: a library of one kernel, or a whole program."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from trifold.build import cache, recipe, sources, toolchain
from trifold.build.compile import produce
from trifold.build.recipe import Recipe
from trifold.errors import BuildError
from trifold.host import cuda_text

_CHILD = Path(__file__).with_name("checked.py")
_REWRITERS = [*sorted(Path(cuda_text.__file__).parent.glob("cuda_*.py")), *sources.REWRITERS]
# nvcc's and NVRTC's options that say nothing to g++: which GPU, which standard (ours is C++20), how exact.
_FOR_GPUS_ONLY = re.compile(
    r"-{1,2}(std|gpu-architecture|arch|gencode|use_fast_math|fmad|maxrregcount|default-device|lineinfo|"
    r"generate-line-info|expt-relaxed-constexpr|expt-extended-lambda|extended-lambda|O\d?)(=.*)?"
)


def build_library(
    path: Path, options: Sequence[str], *, checked: bool, tail: str, drop_torch: bool = True
) -> cache.Product:
    """The shared library of ``path``'s text, and of ``tail``, which follows it.

    Raises:
        BuildError: it does not compile, or has what the CPU has not; or an option is unknown.
        ToolchainError: g++ is missing or too old.
    """
    return _build(path, options, checked=checked, program=False, tail=tail, drop_torch=drop_torch)


def build_program(path: Path, options: Sequence[str]) -> cache.Product:
    """The program of ``path``'s text, with checks. Raises as :func:`build_library`."""
    return _build(path, options, checked=True, program=True, tail="", drop_torch=False)


def files_of_program(path: Path, options: Sequence[str]) -> tuple[Path, ...]:
    """The file of a program and those of the user's own that it includes."""
    folders = tuple(Path(option[2:]).resolve() for option in options if option.startswith("-I"))
    return tuple(cuda_text.read_program(path.resolve(), folders, drop_torch=False))


def _build(
    path: Path, options: Sequence[str], *, checked: bool, program: bool, tail: str, drop_torch: bool
) -> cache.Product:
    path = path.resolve()
    given = tuple(_resolved(option) for option in options if not _FOR_GPUS_ONLY.fullmatch(option))
    if unknown := [option for option in given if not option.startswith(("-D", "-U", "-I"))]:
        raise BuildError(
            f"options: {unknown[0]!r} means nothing to the build for the CPU",
            "give only -D, -U and -I, with their value",
        )
    folders = tuple(Path(option[2:]) for option in given if option.startswith("-I"))
    # Read once: what is compiled is what the entry's name was made of.
    texts = cuda_text.read_program(path, folders, drop_torch=drop_torch)

    def plan() -> Recipe:
        return _recipe(texts, given, checked, program, tail)

    inputs = sorted({*texts, *sources.local_sources(path)})
    target = "program" if program else "checked" if checked else "cpu"
    name = f"{re.sub(r'[^A-Za-z0-9_]', '_', path.stem)}-text_{target}"
    product, _ = produce(name, path, lambda: inputs, plan)
    return product


def _resolved(option: str) -> str:
    """The compilers run in another folder."""
    return f"-I{Path(option[2:]).resolve()}" if option.startswith("-I") else option


def _recipe(
    texts: dict[Path, cuda_text.Source], options: tuple[str, ...], checked: bool, program: bool, tail: str
) -> Recipe:
    gxx, path = toolchain.find_gxx(), next(iter(texts))
    flags = (
        "-std=gnu++20",
        *(recipe.CHECKED_FLAGS if checked else (*recipe.GXX_FLAGS, "-fPIC")),
        *(option for option in options if not option.startswith("-I")),
        "-include",
        "trifold/host/runtime_api.h",
        f"-I{path.parent}",
        *(option for option in options if option.startswith("-I")),
        f"-I{sources.INCLUDE_ROOT}",
    )
    link = (*recipe.LINK_FLAGS, *recipe.host_flags(), *(recipe.CHECKED_LINK_FLAGS if checked else ()))

    def check() -> None:
        toolchain.require_gxx(gxx)

    def prepare(name: str, folder: Path) -> tuple[list[str], Path]:
        for file, source in texts.items():
            written = f"#line 1 {sources.quoted(file)}\n{source.text}\n"
            if file == path:
                written += tail
            (folder / cuda_text.file_name(file)).write_text(written, encoding="utf-8", errors="surrogateescape")
        source_file = folder / f"{name}.cpp"
        (folder / cuda_text.file_name(path)).rename(source_file)
        made = folder / (name if program else f"{name}.so")
        request = {
            "compiler": str(gxx),
            "compile_flags": [*flags, f"-I{folder}"],
            "link_flags": link,
            "source": str(source_file),
            "library": str(made),
            "checked": checked,
            "program": program,
        }
        (folder / "request.json").write_text(json.dumps(request), encoding="utf-8")
        return [sys.executable, "-P", str(_CHILD), str(folder / "request.json")], made

    facts = (
        *recipe.facts_of_environment(),
        *flags,
        *link,
        str(path),
        tail,
        toolchain.fingerprint(gxx),
        _CHILD.read_text(encoding="utf-8"),
        *(path.read_text(encoding="utf-8") for path in _REWRITERS),
    )
    return Recipe(facts, recipe.environment(gxx), check, prepare)
