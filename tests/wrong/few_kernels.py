"""Checked builds of an op, with a GPU's paths, that contain only the kernels that some calls launch.

The op's own build has hundreds: each kernel for each dtype, for each cut of a row, for each tuning constant. A build
without any kernel, whose launches only count, shows which of them the calls launch. A build of those then takes
seconds, most of them for torch's headers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.wrong.entry import Edit, edited_copy
from tests.wrong.fault import Pass
from tests.wrong.few_dtypes import dtypes_of, of_dtypes
from trifold.build import paths, sources
from trifold.cpu import runtime
from trifold.implementation import Implementation, load_checked_port, reference
from trifold.spec import Call, Limits
from trifold.spec.load import load_spec
from trifold.verification.calls import Search
from trifold.verification.cell import Cell
from trifold.verification.checks.differentiation import differentiate

_LAUNCH = "trifold/launch.cuh"
_ADDRESS = "  kernel.code = reinterpret_cast<const void*>(Kernel);\n"
_RUN = "  describe_launch(kernel, [](const Args&... args) { Kernel(args...); }, run_grid, args...);\n"
_KERNEL_OF = "template <auto Kernel>\ncpu::Kernel kernel_of("
# The name that kernel_name() extracts from the compiler's.
_HAS = """\
template <auto Kernel>
constexpr bool is_built() {{
  std::string_view name = __PRETTY_FUNCTION__;
  name.remove_prefix(name.find("Kernel = ") + std::string_view("Kernel = ").size());
  name = name.substr(0, name.find(';') == std::string_view::npos ? name.rfind(']') : name.find(';'));
  return {condition};
}}
"""


#: Launches only count, and no kernel is compiled.
WITHOUT_KERNELS = (Edit(_LAUNCH, _ADDRESS, ""), Edit(_LAUNCH, _RUN, ""))


def of_kernels(names: Iterable[str]) -> tuple[Edit, ...]:
    """Only kernels of these names are compiled; a launch of another one raises RuntimeError with its name."""
    condition = " || ".join(f'name == "{name}"' for name in sorted(names)) or "false"
    return (
        Edit(_LAUNCH, _KERNEL_OF, _HAS.format(condition=condition) + _KERNEL_OF),
        Edit(_LAUNCH, _ADDRESS, _ADDRESS.replace("  kernel", "  if constexpr (is_built<Kernel>()) kernel", 1)),
        Edit(
            _LAUNCH,
            _RUN,
            _RUN.replace("  describe", "  if constexpr (is_built<Kernel>())\n    describe", 1)
            + "  else\n    throw std::runtime_error(branch<Kernel>.name);\n",
        ),
    )


@contextmanager
def gpu_paths() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(paths.PATHS, "gpu")
        yield


def built(op: str, edits: tuple[Edit, ...], root: Path) -> Implementation:
    """The checked port of the edited op, with a GPU's paths, from a workspace that is written into ``root``.

    Comments in its sources accept findings, as in trifold's headers.
    """
    files = edited_copy(op, edits, root).op(op)
    # A process loads a port once for each contents of the op's own files, even if headers of trifold differ.
    with files.binding.open("a", encoding="utf-8") as binding:
        binding.write(f"// {root}\n")
    with gpu_paths():
        implementation = load_checked_port(files)
        implementation.kernels("cpu")
    runtime.accept(sources.local_sources(files.binding))
    return implementation


def cell_of(implementation: Implementation) -> Cell:
    files = implementation.files
    return Cell(load_spec(files), implementation, "cpu", reference(files), Search(0), Limits(), lambda *case: None)


def run(cell: Cell, call: Call, in_pass: Pass) -> None:
    """Make the call forward, or forward and backward."""
    if in_pass == "forward":
        cell.invoke(call)
    else:
        differentiate(cell, call, tuple(cell.gradient_paths(call)), cell.implementation.function)


def launched_by(op: str, runs: Collection[tuple[Call, Pass]], root: Path) -> list[frozenset[str]]:
    """The names of the kernels that each call launches, as the op's own host code chooses them. Writes a workspace
    without kernels into ``root``."""
    edits = (*WITHOUT_KERNELS, *of_dtypes(dtypes_of(call for call, _ in runs)))
    implementation = built(op, edits, root)
    library = implementation.kernels("cpu")
    assert library is not None
    cell, names, before = cell_of(implementation), [], library.manifest().branches
    for call, in_pass in runs:
        run(cell, call, in_pass)
        after = library.manifest().branches
        names.append(frozenset(name for name, launches in after.items() if launches > before.get(name, 0)))
        before = after
    return names
