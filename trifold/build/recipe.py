"""The command that compiles a port, and all that determines its result: flags, compilers, torch, architectures.

torch is imported only when needed, so that trifold doctor can inspect a machine without it.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trifold import installed
from trifold.build import sources, toolchain
from trifold.cells import Form
from trifold.errors import ToolchainError
from trifold.limits import capability_name

# Restricts torch to the stable ABI of 2.11; including any other torch header becomes an error.
TORCH_TARGET = "-DTORCH_TARGET_VERSION=0x020b000000000000"

# -O3: the loop over the threads of a block is vectorised (up to 3 times as fast as with -O2, and builds as fast).
# -ffp-contract=off: a multiply and an add round twice, on every CPU and at every level of vectorisation.
# -fno-gnu-unique and hidden: two libraries in one process have separate inline variables. -fstack-clash-protection: a
# frame larger than the guard page below a stack still touches the guard. -fno-extern-tls-init: `extern __shared__`
# arrays need no initialisation, and no function for it.
GXX_FLAGS = (
    "-O3",
    "-ffp-contract=off",
    "-fvisibility=hidden",
    "-fno-gnu-unique",
    "-fno-extern-tls-init",
    "-fstack-clash-protection",
    "-Wno-unknown-pragmas",
)
# Flags of all builds by g++ except the checked one, in addition to the optimisation level.
_GXX_RULES = GXX_FLAGS[1:]
FLAGS_OF_FORM: Mapping[Form, tuple[str, ...]] = {
    "fast": GXX_FLAGS,
    # Variables stay where they are declared, and each line is separate.
    "debug": ("-O0", "-g", *_GXX_RULES),
    # Blocks run on several OS threads, which share the counters.
    "coverage": ("-O0", "-g", "--coverage", "-fprofile-update=atomic", *_GXX_RULES),
}
_NVCC_RULES = (
    "--expt-relaxed-constexpr",
    "-DUSE_CUDA",
    # torch's own flags disable the half types' conversions and operators; these enable them again.
    "-U__CUDA_NO_HALF_OPERATORS__",
    "-U__CUDA_NO_HALF_CONVERSIONS__",
    "-U__CUDA_NO_HALF2_OPERATORS__",
    "-U__CUDA_NO_BFLOAT16_CONVERSIONS__",
    "-Xcompiler=-fvisibility=hidden,-fno-gnu-unique,-Wno-unknown-pragmas",
)
# --split-compile: several threads compile a library's kernels. Their number is fixed, since the code that is made may
# depend on it.
NVCC_FLAGS = ("-O3", "-lineinfo", "--split-compile=8", *_NVCC_RULES)
# -G: unoptimised device code, for cuda-gdb. -maxrregcount: with pauses, a kernel without __launch_bounds__ might use
# more registers than 1,024 threads have.
NVCC_FLAGS_OF_FORM: Mapping[Form, tuple[str, ...]] = {
    "fast": NVCC_FLAGS,
    "debug": ("-G", "-g", *_NVCC_RULES),
    "jittered": (*NVCC_FLAGS, "-maxrregcount=64"),
}
# A function that is declared but not defined is the linker's error, with its C++ name.
LINK_FLAGS = ("-Wl,--no-undefined",)

# Variables that compilers and torch read, and that affect the result.
READ_BY_COMPILERS = (
    "CPATH",
    "CPLUS_INCLUDE_PATH",
    "LIBRARY_PATH",
    "NVCC_PREPEND_FLAGS",
    "NVCC_APPEND_FLAGS",
    "PYTORCH_NVCC",
)

# libtsan and libubsan are not linked: libtrifold_cpu defines the functions that these flags make the compiler call.
# -Og, since at higher levels g++ moves loads out of the branches that guard them, where they race. But small functions
# are inlined: it does not instrument a struct or a vector type that is read as the argument of a call. Symbols are
# kept: they name the shared arrays. Frame pointers lead to the callers of asynchronous operations
# (engine/cpu/waiting.cpp).
CHECKED_FLAGS = (
    "-Og",
    "-finline-small-functions",
    "-g",
    "-fsanitize=thread,bounds-strict,alignment",
    "--param=tsan-instrument-func-entry-exit=0",
    "--param=tsan-distinguish-volatile=1",
    "-fstack-clash-protection",
    "-fno-extern-tls-init",
    "-fno-builtin-memcpy",
    "-fno-builtin-memmove",
    "-fno-builtin-memset",
    "-fno-omit-frame-pointer",
    "-U_FORTIFY_SOURCE",
    "-ffp-contract=off",
    "-fPIC",
    "-fvisibility=hidden",
    "-fno-gnu-unique",
    "-Wno-unknown-pragmas",
)

# Checks need lines and functions of the debug information, a fourth of it. (gdb uses another build.)
_LINES_ALONE = "-g1"

# libtrifold_cpu also checks the accesses of these C library functions: they remain calls under their own names.
CHECKED_LINK_FLAGS = ("-Wl,--wrap=memcpy,--wrap=memmove,--wrap=memset",)

_CHILD = Path(__file__).with_name("inline.py")
_CHECKED_CHILD = Path(__file__).with_name("checked.py")


@dataclass(frozen=True)
class Recipe:
    """How one binding is compiled.

    Attributes:
        facts: everything except the sources that determines the result.
        environment: variables of the compilers' environment in addition to this process's.
        check: raises ToolchainError if a tool is missing or does not fit; runs compilers to learn their version.
        prepare: ``(name, folder)`` writes the command's inputs into ``folder``; returns the command and the file that
            it makes there.
        for_cpu: g++ compiles the kernels, for the CPU.
    """

    facts: tuple[str, ...]
    environment: Mapping[str, str]
    check: Callable[[], None]
    prepare: Callable[[str, Path], tuple[list[str], Path]]
    for_cpu: bool = False


def for_cpu(
    binding: Path, namespace: str, flags_of_form: tuple[str, ...] = GXX_FLAGS, *, gpu_paths: bool = False
) -> Recipe:
    """g++, through load_inline; with ``gpu_paths``, launches choose among the kernels as for a GPU."""
    gxx, capability = toolchain.find_gxx(), capability_name()
    flags = (*flags_of_form, *_standard(), *definitions(namespace, "CPU"), *_paths(capability, gpu_paths))
    link = (*LINK_FLAGS, *cpu_link_flags(), *(["--coverage"] if "--coverage" in flags else []))

    def check() -> None:
        toolchain.find_ninja()
        toolchain.require_gxx(gxx)

    def prepare(name: str, folder: Path) -> tuple[list[str], Path]:
        arguments = {
            "cpp_sources": [sources.for_gxx(binding, folder, capability)],
            "extra_cflags": list(flags),
            # they pass through a shell and a ninja file
            "extra_ldflags": [shlex.quote(flag).replace("$", "$$") for flag in link],
        }
        include = (folder, binding.parent, sources.INCLUDE_ROOT, sources.CPU_INCLUDE_ROOT)
        return _load_inline(name, folder, include, arguments)

    facts = (
        *_facts_of_the_process(),
        *flags,
        *link,
        str(binding),
        sources.capability_for(binding, capability),
        toolchain.fingerprint(gxx),
        _CHILD.read_text(),
        *(path.read_text() for path in sources.REWRITERS),
    )
    return Recipe(facts, environment(gxx), check, prepare, for_cpu=True)


def for_checks(binding: Path, namespace: str, *, gpu_paths: bool = False) -> Recipe:
    """g++ called directly, for the CPU with checks: gaps are inserted between the shared arrays in the assembly. With
    ``gpu_paths``, launches choose among the kernels as for a GPU."""
    import torch

    gxx, torch_folder, capability = toolchain.find_gxx(), Path(torch.__path__[0]), capability_name()
    compile_flags = (
        "-std=c++20",
        *CHECKED_FLAGS,
        _LINES_ALONE,
        *definitions(namespace, "CPU"),
        *_paths(capability, gpu_paths),
        *(f"-I{folder}" for folder in (binding.parent, sources.INCLUDE_ROOT, sources.CPU_INCLUDE_ROOT)),
        f"-isystem{torch_folder / 'include'}",
    )
    torch_libraries = (f"-L{torch_folder / 'lib'}", "-ltorch_cpu", "-ltorch", "-lc10")
    link_flags = (*torch_libraries, *LINK_FLAGS, *CHECKED_LINK_FLAGS, *cpu_link_flags())

    def check() -> None:
        toolchain.require_gxx(gxx)

    def prepare(name: str, folder: Path) -> tuple[list[str], Path]:
        source, made = folder / f"{name}.cpp", folder / f"{name}.so"
        source.write_text(sources.for_gxx(binding, folder, capability), encoding="utf-8")
        request = {
            "compiler": str(gxx),
            "compile_flags": [f"-I{folder}", *compile_flags],
            "link_flags": link_flags,
            "source": str(source),
            "library": str(made),
        }
        (folder / "request.json").write_text(json.dumps(request), encoding="utf-8")
        return [sys.executable, "-P", str(_CHECKED_CHILD), str(folder / "request.json")], made

    facts = (
        *_facts_of_the_process(),
        *compile_flags,
        *link_flags,
        str(binding),
        sources.capability_for(binding, capability),
        toolchain.fingerprint(gxx),
        _CHECKED_CHILD.read_text(),
        *(path.read_text() for path in sources.REWRITERS),
    )
    return Recipe(facts, environment(gxx), check, prepare, for_cpu=True)


def cpu_link_flags() -> tuple[str, ...]:
    """Link with the library that runs kernels on the CPU, found at load time where it is now."""
    library = installed.cpu_library()
    return (str(library), f"-Wl,-rpath,{library.parent}")


def for_cuda(binding: Path, namespace: str, form: Form = "fast") -> Recipe:
    """nvcc, through load_inline."""
    import torch

    torch_cuda = torch.version.cuda
    if torch_cuda is None:
        raise ToolchainError(
            f"torch {torch.__version__} is a CPU build: it cannot load a library for CUDA",
            "install torch with CUDA: https://pytorch.org/get-started/locally",
        )
    gxx, nvcc, targets = toolchain.find_gxx(), toolchain.find_nvcc(), architectures()
    flags = (*NVCC_FLAGS_OF_FORM[form], *_standard(), *definitions(namespace, "CUDA"))

    def check() -> None:
        toolchain.find_ninja()
        toolchain.require_gxx(gxx)
        toolchain.require_nvcc(nvcc.path, torch_cuda)

    def prepare(name: str, folder: Path) -> tuple[list[str], Path]:
        arguments = {
            "cpp_sources": "",
            "cuda_sources": [_for_nvcc(binding, folder, form)],
            "extra_cuda_cflags": list(flags),
            "extra_ldflags": list(LINK_FLAGS),
        }
        return _load_inline(name, folder, (folder, binding.parent, sources.INCLUDE_ROOT), arguments)

    programs = (toolchain.fingerprint(gxx), toolchain.fingerprint(nvcc.path), str(nvcc.home), targets)
    facts = (
        *_facts_of_the_process(),
        *flags,
        *LINK_FLAGS,
        str(binding),
        *programs,
        _CHILD.read_text(),
        *_rewriters(form),
    )
    cuda = {"CUDA_HOME": str(nvcc.home), "TORCH_CUDA_ARCH_LIST": targets}
    return Recipe(facts, environment(gxx) | cuda, check, prepare)


def _for_nvcc(binding: Path, folder: Path, form: Form) -> str:
    """The text of ``binding`` in a form; files that it includes are written into ``folder`` in that form."""
    if form != "jittered":
        return sources.with_line_directive(binding)
    from trifold.build import jitter

    return jitter.for_nvcc(binding, folder)


def _rewriters(form: Form) -> tuple[str, ...]:
    """The files of trifold that determine how nvcc's input is rewritten."""
    if form != "jittered":
        return ()
    from trifold.build import jitter

    return tuple(path.read_text(encoding="utf-8") for path in jitter.REWRITERS)


def for_nvcc_alone(binding: Path, namespace: str, arch: str, form: Form = "fast") -> Recipe:
    """nvcc called directly, without linking: needs neither a GPU nor a torch with CUDA, nor ninja.

    nvcc's front end checks the host code too, and no more: generating code for it takes most of a small op's time.
    """
    import torch

    torch_cuda = torch.version.cuda
    gxx, nvcc = toolchain.find_gxx(), toolchain.find_nvcc()
    number = arch.replace(".", "")
    torch_include = Path(torch.__path__[0]) / "include"
    folders = (binding.parent, sources.INCLUDE_ROOT)
    flags = (
        "-std=c++20",
        f"-gencode=arch=compute_{number},code=sm_{number}",
        f"-ccbin={gxx}",
        *NVCC_FLAGS_OF_FORM[form],
        *definitions(namespace, "CUDA"),
        *(f"-I{folder}" for folder in folders),
        *(f"-isystem={folder}" for folder in (torch_include, torch_include / "torch" / "csrc" / "api" / "include")),
    )

    def check() -> None:
        toolchain.require_gxx(gxx)
        toolchain.require_nvcc(nvcc.path, torch_cuda)

    def prepare(name: str, folder: Path) -> tuple[list[str], Path]:
        source, made = folder / f"{name}.cu", folder / f"{name}.cubin"
        source.write_text(_for_nvcc(binding, folder, form), encoding="utf-8", errors="surrogateescape")
        return [str(nvcc.path), f"-I{folder}", *flags, "-cubin", str(source), "-o", str(made)], made

    programs = (toolchain.fingerprint(gxx), toolchain.fingerprint(nvcc.path))
    facts = (*_facts_of_the_process(), *flags, str(binding), *programs, *_rewriters(form))
    return Recipe(facts, environment(gxx), check, prepare)


def definitions(namespace: str, dispatch_key: str) -> tuple[str, ...]:
    """The macros that a binding needs: the stable ABI's version, the namespace and the dispatch key."""
    return (TORCH_TARGET, f"-DTRIFOLD_NAMESPACE={namespace}", f"-DTRIFOLD_DISPATCH_KEY={dispatch_key}")


def _paths(capability: str, gpu_paths: bool) -> tuple[str, ...]:
    """The macro by which launches on the CPU choose kernels as for a GPU of this capability, if requested."""
    return (f"-DTRIFOLD_GPU_PATHS={capability.replace('.', '')}0",) if gpu_paths else ()


def _standard() -> tuple[str, ...]:
    """C++20 where torch 2.11's load_inline would choose C++17; from 2.12 on it chooses C++20 or newer itself."""
    import torch

    release = tuple(int(part) for part in torch.__version__.split(".")[:2])
    return ("-std=c++20",) if release < (2, 12) else ()


def _facts_of_the_process() -> tuple[str, ...]:
    import torch

    return (torch.__version__, str(torch.version.cuda), *facts_of_environment())


def facts_of_environment() -> tuple[str, ...]:
    return tuple(f"{name}={os.environ.get(name, '')}" for name in READ_BY_COMPILERS)


def _load_inline(
    name: str, folder: Path, include: tuple[Path, ...], arguments: dict[str, Any]
) -> tuple[list[str], Path]:
    request = arguments | {
        "name": name,
        "build_directory": str(folder),
        # in a ninja file a dollar begins a variable
        "extra_include_paths": [str(path).replace("$", "$$") for path in include],
    }
    (folder / "request.json").write_text(json.dumps(request), encoding="utf-8")
    # -P: keeps inline.py's folder off sys.path
    return [sys.executable, "-P", str(_CHILD), str(folder / "request.json")], folder / f"{name}.so"


def environment(gxx: Path) -> dict[str, str]:
    """Variables of the compilers' environment in addition to this process's."""
    # Messages in English, for diagnostics.py; CC is nvcc's host compiler.
    changes = {"LC_ALL": "C", "PYTHONUTF8": "1", "CXX": str(gxx), "CC": str(gxx)}
    if shutil.which("ninja") is None:
        try:
            changes["PATH"] = f"{os.environ.get('PATH', os.defpath)}{os.pathsep}{toolchain.find_ninja().parent}"
        except ToolchainError:
            return changes  # a cached library needs no ninja; otherwise Recipe.check reports it
    return changes


def architectures() -> str:
    """TORCH_CUDA_ARCH_LIST, else the visible devices' capabilities in its format: ``"9.0"``.

    For a device newer than torch knows, the newest one that torch knows, with PTX to be translated.
    """
    import torch

    chosen = os.environ.get("TORCH_CUDA_ARCH_LIST", "").strip()
    if chosen and chosen != "native":
        return chosen
    if not torch.cuda.is_available():
        raise ToolchainError(
            "no CUDA device is visible, so there is no architecture to compile for",
            "set TORCH_CUDA_ARCH_LIST (9.0 for an H100 or H200), or check nvidia-smi and CUDA_VISIBLE_DEVICES",
        )
    known = [int("".join(filter(str.isdigit, name))) for name in torch.cuda.get_arch_list() if name.startswith("sm_")]
    newest = max(divmod(number, 10) for number in known)
    devices = {torch.cuda.get_device_capability(index) for index in range(torch.cuda.device_count())}
    names = {f"{c[0]}.{c[1]}" if c <= newest else f"{newest[0]}.{newest[1]}+PTX" for c in devices}
    return ";".join(sorted(names))
