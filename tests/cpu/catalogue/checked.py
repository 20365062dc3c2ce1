"""The op that starts a catalogue's kernels on the CPU, and the findings of all checks in one of them."""

from __future__ import annotations

import shutil
import warnings
import zlib
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from tests.cpu.workspace import op_of
from trifold.findings import Finding, KernelFault, KernelWarning, collect
from trifold.workspace import OpFiles

FOLDER = Path(__file__).parent


def op_in(root: Path, kernels: Path | None = None) -> OpFiles:
    """The op that starts kernels, in ``root``: those of the headers in the folder ``kernels``, one of which is
    ``entries.cuh``; default: the catalogue's."""
    files = op_of("catalogue", root, FOLDER)
    sources = (FOLDER / "start.cuh", *sorted((kernels or FOLDER).glob("*.cuh")))
    for source in sources:
        shutil.copyfile(source, files.header.parent / source.name)
    # A process knows an op by the digest of its own files, to which these do not belong.
    digest = zlib.crc32(b"".join(source.read_bytes() for source in sources))
    with files.header.open("a", encoding="utf-8") as header:
        header.write(f"// with headers {digest:08x}\n")
    return files


def findings_in(case: Any, kernel: Any, checks: AbstractContextManager[Any]) -> list[Finding]:
    """Return the findings of all checks; ``run`` compares the result if no finding stops the kernel."""
    with collect() as found, warnings.catch_warnings(), checks:
        warnings.simplefilter("ignore", KernelWarning)
        try:
            case.run(kernel)
        except KernelFault as fault:
            return list(fault.findings)
    return [finding for finding in found if finding.severity != "lint"]
