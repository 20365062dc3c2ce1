"""The host's part of a call is measured without kernels: they are left out where every port runs them."""

from __future__ import annotations

import subprocess
from pathlib import Path

from benchmarks.host_path import library_without_kernels
from trifold import installed


def exported(library: Path) -> set[str]:
    listed = subprocess.run(["nm", "-D", "--defined-only", str(library)], check=True, capture_output=True, text=True)
    return {line.split()[-1] for line in listed.stdout.splitlines()}


def test_the_function_left_out_is_the_one_that_ports_call(tmp_path: Path) -> None:
    """Under another signature, the kernels would run and count as the host's time."""
    (name,) = (name for name in exported(library_without_kernels(tmp_path)) if "run_blocks" in name)
    assert name in exported(installed.cpu_library())
