"""Builds one port for one device, or returns it from the cache."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from trifold.build import cache, diagnostics, paths, recipe, script, sources, toolchain
from trifold.build.library import BuiltLibrary, CompiledObject
from trifold.build.recipe import Recipe
from trifold.cells import Device, Form
from trifold.errors import BuildError
from trifold.workspace import OpFiles

Notify = Callable[[str], None]

# Of nvcc since CUDA 12.9; the other two contradict it.
_QUICK, _QUICK_SINCE = "--Ofast-compile=max", (12, 9)
_NOT_QUICK = ("-O3", "-lineinfo")

# What nvcc 13.0 says of some kernels that it compiles without --split-compile: its own modules are invalid.
_SPLIT_FAILS, _UNSPLIT = "error: Failed to read bitcode", "--split-compile=1"


def build(
    files: OpFiles,
    device: Device,
    namespace: str,
    *,
    form: Form = "fast",
    gpu_paths: bool | None = None,
    notify: Notify = cache.tell_on_stderr,
) -> BuiltLibrary:
    """The library of ``cuda_src/<op>.cu`` for ``device``, which registers into the torch namespace ``namespace``.

    Built by load_inline unless the cache has a build of these sources, flags, compilers and torch; it is not loaded,
    and needs no schema. The environment of this process is not changed.

    Args:
        files: the op.
        device: ``"cpu"`` (g++) or ``"cuda"`` (nvcc, for the architectures in TORCH_CUDA_ARCH_LIST, else for those of
            the visible devices).
        namespace: a torch namespace; an identifier.
        form: ``"fast"``; ``"debug"``, which keeps variables and lines for gdb and cuda-gdb; for ``"cpu"`` alone
            ``"checked"``, in which each memory access of a kernel is checked (run its calls in trifold.cpu.runtime),
            and ``"coverage"``, which counts lines and branches for gcov; for ``"cuda"`` alone ``"jittered"``, in which
            threads pause at random around synchronisation.
        gpu_paths: whether launches on the CPU choose kernels as on a GPU; default: as TRIFOLD_PATHS says.
        notify: called if another process is building the same library.

    Raises:
        WorkspaceError: the binding or the kernel header is missing.
        ToolchainError: a compiler or ninja is missing, too old, or does not fit torch.
        BuildError: it does not compile; or the cache folder cannot be used.
    """
    started = time.monotonic()
    _require_identifier(namespace)
    if device not in ("cpu", "cuda"):
        raise ValueError(f"device must be 'cpu' or 'cuda', not {device!r}")
    if device == "cuda" and form not in recipe.NVCC_FLAGS_OF_FORM:
        raise ValueError(f"only a build for the CPU has the form {form!r}")
    if device == "cpu" and form == "jittered":
        raise ValueError("only a build for CUDA has the form 'jittered'")
    asked = paths.gpu_paths() if gpu_paths is None else gpu_paths
    plan = _plan(device, form, asked)
    target = device if form == "fast" else form if device == "cpu" else f"{device}-{form}"
    if device == "cpu" and asked:
        target += "-gpu-paths"
    product, cached = _produce(files, target, lambda: plan(files.binding.resolve(), namespace), notify)
    return BuiltLibrary(files.name, device, namespace, product.path, product.log, time.monotonic() - started, cached)


def _plan(device: Device, form: Form, gpu_paths: bool) -> Callable[[Path, str], Recipe]:
    if device == "cuda":
        return lambda binding, namespace: recipe.for_cuda(binding, namespace, form)
    if form == "checked":
        return lambda binding, namespace: recipe.for_checks(binding, namespace, gpu_paths=gpu_paths)
    flags = recipe.FLAGS_OF_FORM[form]
    return lambda binding, namespace: recipe.for_cpu(binding, namespace, flags, gpu_paths=gpu_paths)


def compile_only(
    files: OpFiles,
    arch: str,
    *,
    namespace: str = "trifold",
    form: Form = "fast",
    notify: Notify = cache.tell_on_stderr,
) -> CompiledObject:
    """Compile ``cuda_src/<op>.cu`` with nvcc for ``arch``, without linking: needs no GPU, and no torch with CUDA.

    Args:
        files: the op.
        arch: an architecture, as TORCH_CUDA_ARCH_LIST writes it: ``"9.0"`` or ``"9.0a"``.
        namespace: the torch namespace; an identifier.
        form: one that nvcc builds, see :func:`build`.
        notify: called if another process is compiling the same.

    Raises:
        WorkspaceError, ToolchainError, BuildError: as :func:`build`.
    """
    started = time.monotonic()
    _require_identifier(namespace)
    if re.fullmatch(r"\d+\.\d[a-z]?", arch) is None:
        raise ValueError(f"arch must have the form '9.0' or '9.0a', not {arch!r}")
    if form not in recipe.NVCC_FLAGS_OF_FORM:
        raise ValueError(f"form is {form!r}, which nvcc does not build; choose {', '.join(recipe.NVCC_FLAGS_OF_FORM)}")

    def plan() -> Recipe:
        whole = recipe.for_nvcc_alone(files.binding.resolve(), namespace, arch, form)
        return _quickly(whole) if form == "fast" else whole

    product, cached = _produce(files, f"nvcc{arch}" if form == "fast" else f"nvcc{arch}-{form}", plan, notify)
    return CompiledObject(files.name, arch, product.path, product.log, time.monotonic() - started, cached)


def _quickly(whole: Recipe) -> Recipe:
    """nvcc's recipe with as little optimisation as it can do: nobody runs the result. It takes half the time."""
    if toolchain.nvcc_version(toolchain.find_nvcc().path) < _QUICK_SINCE:
        return whole

    def prepare(name: str, folder: Path) -> tuple[list[str], Path]:
        (nvcc, *flags), made = whole.prepare(name, folder)
        return [nvcc, _QUICK, *(flag for flag in flags if flag not in _NOT_QUICK)], made

    return replace(whole, facts=(*whole.facts, _QUICK), prepare=prepare)


def _require_identifier(namespace: str) -> None:
    if not (namespace.isascii() and namespace.isidentifier()):
        raise ValueError(f"namespace must be an identifier, not {namespace!r}")


def _produce(files: OpFiles, target: str, plan: Callable[[], Recipe], notify: Notify) -> tuple[cache.Product, bool]:
    files.require(files.binding, files.header)

    def inputs() -> tuple[Path, ...]:
        return sources.local_sources(files.binding)

    return produce(f"{files.name}-{target}", files.binding, inputs, plan, notify)


def produce(
    name: str,
    source: Path,
    inputs: Callable[[], Iterable[Path]],
    plan: Callable[[], Recipe],
    notify: Notify = cache.tell_on_stderr,
) -> tuple[cache.Product, bool]:
    """The product of a recipe, and whether it came from the cache.

    Args:
        name: the beginning of the entry's name in the cache.
        source: the user's file; errors in it and in its folder are shown at their own lines.
        inputs: the files that determine the product.
        plan: returns the recipe.
        notify: called if another process is building the same.

    Raises:
        ToolchainError, BuildError: see :func:`build`.
    """

    def entry_of(steps: Recipe) -> cache.Entry:
        return cache.Entry(cache.builds_folder() / f"{name}-{sources.digest(inputs(), steps.facts)[:20]}")

    while True:
        steps = plan()
        entry = entry_of(steps)
        product = entry.product()
        if product is not None:
            return product, True
        with entry.locked(notify):
            product = entry.product()
            if product is not None:
                return product, True
            steps.check()
            with entry.attempt() as attempt:
                made = _run(source, steps, entry, attempt)
                # Sources saved meanwhile would otherwise be stored under the hash of the older ones.
                if entry_of(steps) == entry:
                    return entry.keep(attempt, made), False


def _run(source: Path, steps: Recipe, entry: cache.Entry, attempt: Path) -> Path:
    """Run the compilers in the folder ``attempt``; return the file that they made.

    Raises:
        BuildError: they failed. Their whole output is kept in the cache.
    """
    name = re.sub(r"\W", "_", entry.folder.name)
    command, made = steps.prepare(name, attempt)
    environment = {**os.environ, **steps.environment}
    status, text = _logged(command, attempt, environment)
    if status != 0 and _SPLIT_FAILS in text:
        flags = f"{environment.get('NVCC_APPEND_FLAGS', '')} {_UNSPLIT}".strip()
        status, text = _logged(command, attempt, environment | {"NVCC_APPEND_FLAGS": flags})
    if status == 0 and made.is_file():
        return made
    for_cpu = sources.local_sources(source) if steps.for_cpu else ()
    problem = diagnostics.summarise(text, source.resolve().parent, for_cpu)
    if status < 0 and made.is_file():
        place = diagnostics.shown(source.resolve())
        problem = f"{place}: error: the library crashes while it is loaded (signal {-status})"
    raise BuildError(problem, f"the compilers' whole output: {entry.keep_failure_log(attempt)}")


def _logged(command: Sequence[str], attempt: Path, environment: Mapping[str, str]) -> tuple[int, str]:
    """Run the command; return its exit status and its output, which is in the attempt's log."""
    log = attempt / cache.LOG
    with log.open("wb") as output:
        status = script.run(command, attempt, environment, output)
    return status, log.read_text(encoding="utf-8", errors="replace")
