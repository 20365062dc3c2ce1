"""Builds ordinary CUDA text (trifold/build/cuda_text.py) for the CPU: a library of one kernel, or a whole program."""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from trifold.build import cache, cuda_text, device_code, inline_ptx, recipe, shared_arrays, sources, toolchain
from trifold.build.compile import produce
from trifold.build.recipe import Recipe
from trifold.errors import BuildError
from trifold.whole_files import write_whole

_CHILD = Path(__file__).with_name("checked.py")
_REWRITERS = [*sorted(Path(cuda_text.__file__).parent.glob("cuda_*.py")), *sources.REWRITERS]
# Options of nvcc and NVRTC that do not concern g++: accuracy, and the GPU, except for __CUDA_ARCH__.
_FOR_GPUS_ONLY = re.compile(
    r"-{1,2}(gpu-architecture|arch|gencode|use_fast_math|fmad|maxrregcount|default-device|lineinfo|"
    r"generate-line-info|expt-relaxed-constexpr|expt-extended-lambda|extended-lambda|O\d?)(=.*)?"
)
_COMPILER_ATOMIC = "__nv_atomic_"  # with which the names of nvcc's atomic functions begin
_ARCHITECTURE = re.compile(r"-{1,2}(?:gpu-architecture|arch)=(?:sm|compute)_(\d+)(\d)[af]?")
_STANDARD = re.compile(r"-{1,2}std(?:=(.*))?")
# trifold's headers need C++17, so programs for an older standard are compiled with it: apart from the little that C++17
# removed, they mean the same.
_FLAGS_OF_STANDARD: dict[str, tuple[str, ...]] = {
    standard: ("-std=gnu++20",) if standard == "c++20" else ("-std=gnu++17", "-fconcepts")
    for standard in ("c++03", "c++11", "c++14", "c++17", "c++20")
}


def build_library(
    path: Path, options: Sequence[str], *, checked: bool, tail: str, capability: str, drop_torch: bool = True
) -> cache.Product:
    """The shared library of ``path``'s text, followed by ``tail``; its device code is for a GPU of this compute
    capability, such as ``"9.0"``.

    Raises:
        BuildError: it does not compile, or has a feature that the CPU lacks; or an option is unknown.
        ToolchainError: g++ is missing or too old.
    """
    build = _Build(checked, False, tail, drop_torch, capability)
    return _build(path, options, build)


def build_program(path: Path, options: Sequence[str], capability: str) -> cache.Product:
    """The program of ``path``'s text, with checks. ``capability`` and errors: as for :func:`build_library`."""
    return _build(path, options, _Build(True, True, "", False, capability))


def kept(code: str, name: str) -> Path:
    """Write this text to a file, so that messages can show its lines."""
    folder = cache.builds_folder().parent / "texts"
    folder.mkdir(mode=0o700, exist_ok=True)
    cache.require_private(folder)
    digest = hashlib.sha256(code.encode()).hexdigest()[:12]
    path = folder / f"{re.sub(r'[^A-Za-z0-9_]', '_', name)}-{digest}.cu"
    if not path.is_file() or path.read_text(encoding="utf-8") != code:
        write_whole(path, code)
    return path


@dataclass(frozen=True)
class _Build:
    """How a text is built: see :func:`build_library`."""

    checked: bool
    program: bool
    tail: str
    drop_torch: bool
    capability: str


def files_of_program(path: Path, options: Sequence[str]) -> tuple[Path, ...]:
    """The file of a program and the user's files that it includes."""
    folders = tuple(Path(option[2:]).resolve() for option in options if option.startswith("-I"))
    return tuple(cuda_text.read_program(path.resolve(), folders, drop_torch=False))


def _build(path: Path, options: Sequence[str], build: _Build) -> cache.Product:
    path = path.resolve()
    standard, options = _standard(options)
    named = [found for option in options if (found := _ARCHITECTURE.fullmatch(option))]
    if named:  # as with nvcc, for whatever GPU launches must fit
        build = replace(build, capability=f"{named[-1][1]}.{named[-1][2]}")
    given = tuple(_resolved(option) for option in options if not _FOR_GPUS_ONLY.fullmatch(option))
    if unknown := [option for option in given if option != "-g" and not option.startswith(("-D", "-U", "-I"))]:
        raise BuildError(
            f"options: {unknown[0]!r} is not an option of the build for the CPU",
            "give only -g, and -D, -U, -I and -std with their value",
        )
    folders = tuple(Path(option[2:]) for option in given if option.startswith("-I"))
    # Read once, so that the entry's name is derived from the compiled text.
    texts = cuda_text.read_program(path, folders, drop_torch=build.drop_torch)

    def plan() -> Recipe:
        return _recipe(texts, standard, given, build)

    inputs = sorted({*texts, *sources.local_sources(path)})
    target = "program" if build.program else "checked" if build.checked else "cpu"
    name = f"{re.sub(r'[^A-Za-z0-9_]', '_', path.stem)}-text_{target}"
    product, _ = produce(name, path, lambda: inputs, plan)
    return product


def _resolved(option: str) -> str:
    """Runs the compilers in another folder."""
    return f"-I{Path(option[2:]).resolve()}" if option.startswith("-I") else option


def _standard(options: Sequence[str]) -> tuple[tuple[str, ...], list[str]]:
    """The flags for the C++ standard in the last of ``options``, and the remaining options.

    Raises:
        BuildError: nvcc has no such standard.
    """
    chosen, others, at = "c++17", [], 0
    while at < len(options):
        found = _STANDARD.fullmatch(options[at])
        if found is None:
            others.append(options[at])
        elif found[1] is None and at + 1 < len(options):
            at += 1
            chosen = options[at]
        else:
            chosen = found[1] or ""
        at += 1
    if chosen not in _FLAGS_OF_STANDARD:
        raise BuildError(
            f"-std: {chosen!r} is not a C++ standard of nvcc", f"give one of {', '.join(_FLAGS_OF_STANDARD)}"
        )
    return _FLAGS_OF_STANDARD[chosen], others


def _headers_of(texts: Sequence[cuda_text.Source]) -> Iterator[str]:
    """The flags that include headers of which few programs need the declarations."""
    if any(inline_ptx.needs_header(each.text) for each in texts):
        yield from ("-include", inline_ptx.HEADER)
    if any(_COMPILER_ATOMIC in each.text for each in texts):
        yield from ("-include", "trifold/cpu/compiler_atomics.h")


def _recipe(
    texts: dict[Path, cuda_text.Source], standard: tuple[str, ...], options: tuple[str, ...], build: _Build
) -> Recipe:
    gxx, path = toolchain.find_gxx(), next(iter(texts))
    rewritten = device_code.rewrite(
        {file: source.text for file, source in texts.items()}, sources.quoted, build.capability
    )
    shared_outside = any(source.shared_outside for source in texts.values())
    flags = (
        *standard,
        *([f"-D{shared_arrays.DEFINITION}"] if shared_outside else []),
        *(recipe.CHECKED_FLAGS if build.checked else (*recipe.GXX_FLAGS, "-fPIC")),
        *(option for option in options if not option.startswith("-I")),
        *("-include", "trifold/cpu/runtime_api.h", "-include", "trifold/cpu/program_macros.h"),
        *_headers_of(tuple(texts.values())),
        f"-I{path.parent}",
        *(option for option in options if option.startswith("-I")),
        f"-I{sources.INCLUDE_ROOT}",
    )
    link = (*recipe.LINK_FLAGS, *recipe.cpu_link_flags(), *(recipe.CHECKED_LINK_FLAGS if build.checked else ()))

    def check() -> None:
        toolchain.require_gxx(gxx)

    def prepare(name: str, folder: Path) -> tuple[list[str], Path]:
        for header, text in rewritten.headers.items():
            (folder / header).write_text(text, encoding="utf-8")
        for file, text in rewritten.texts.items():
            written = f"#line 1 {sources.quoted(file)}\n{text}\n"
            if file == path:
                written += build.tail
            (folder / cuda_text.file_name(file)).write_text(written, encoding="utf-8", errors="surrogateescape")
        source_file = folder / f"{name}.cpp"
        (folder / cuda_text.file_name(path)).rename(source_file)
        made = folder / (name if build.program else f"{name}.so")
        request = {
            "compiler": str(gxx),
            "compile_flags": [*flags, f"-I{folder}"],
            "link_flags": link,
            "source": str(source_file),
            "library": str(made),
            "checked": build.checked,
            "program": build.program,
        }
        (folder / "request.json").write_text(json.dumps(request), encoding="utf-8")
        return [sys.executable, "-P", str(_CHILD), str(folder / "request.json")], made

    facts = (
        *recipe.facts_of_environment(),
        *flags,
        *link,
        str(path),
        build.tail,
        *rewritten.headers.values(),
        toolchain.fingerprint(gxx),
        _CHILD.read_text(encoding="utf-8"),
        *(path.read_text(encoding="utf-8") for path in _REWRITERS),
    )
    return Recipe(facts, recipe.environment(gxx), check, prepare)
