"""Builds a whole CUDA program with nvcc, for a GPU."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from trifold.build import cache, recipe, sources, toolchain
from trifold.build.compile import produce
from trifold.build.recipe import Recipe

# -lineinfo: compute-sanitizer names lines. Optimisation and C++ standard are the program's own.
_FLAGS = ("-O3", "-lineinfo")


def build_with_nvcc(path: Path, arch: str, options: Sequence[str] = ()) -> cache.Product:
    """Compile the CUDA file ``path``, which has ``main``, as a program.

    Args:
        arch: of the GPU, as nvcc names it: ``"sm_90"``.
        options: ``-D``, ``-U``, ``-I`` and ``-std`` for nvcc.

    Raises:
        BuildError: it does not compile.
        ToolchainError: nvcc or g++ is missing or too old.
    """
    path = path.resolve()

    def plan() -> Recipe:
        gxx, nvcc = toolchain.find_gxx(), toolchain.find_nvcc()
        folders = [f"-I{Path(each[2:]).resolve()}" if each.startswith("-I") else each for each in options]
        flags = (*_FLAGS, f"-arch={arch}", f"-ccbin={gxx}", *folders, f"-I{path.parent}", f"-I{sources.INCLUDE_ROOT}")

        def prepare(name: str, folder: Path) -> tuple[list[str], Path]:
            return [str(nvcc.path), *flags, str(path), "-o", str(folder / name)], folder / name

        programs = (toolchain.fingerprint(gxx), toolchain.fingerprint(nvcc.path))
        facts = (*recipe.facts_of_environment(), *flags, str(path), *programs)
        return Recipe(facts, recipe.environment(gxx), lambda: toolchain.require_gxx(gxx), prepare)

    name = f"{re.sub(r'[^A-Za-z0-9_]', '_', path.stem)}-text_gpu"
    product, _ = produce(name, path, lambda: sources.local_sources(path), plan)
    return product
