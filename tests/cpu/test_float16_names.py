"""The dialect's functions of 16-bit floats have the names that CUDA's headers have."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from trifold.build.sources import INCLUDE_ROOT
from trifold.build.toolchain import find_gxx

HEADER = "trifold/cpu/float16_functions.h"
TOOLKIT = Path("/usr/local/cuda/include")


def own_text() -> str:
    """Return the header's own text, with macros expanded."""
    command = [str(find_gxx()), "-E", "-std=c++20", f"-I{INCLUDE_ROOT}", "-x", "c++", "-"]
    done = subprocess.run(command, input=f"#include <{HEADER}>\n", capture_output=True, text=True, check=True)
    own, is_own = [], False
    for line in done.stdout.splitlines():
        if marker := re.match(r'# \d+ "(.*?)"', line):
            is_own = marker[1].endswith(HEADER)
        elif is_own:
            own.append(line)
    return "\n".join(own)


def heads(text: str) -> Iterator[str]:
    """The text before each outermost brace."""
    depth, begin = 0, 0
    for at, c in enumerate(text):
        if c == "{":
            if depth == 0:
                yield text[begin:at].strip()
            depth += 1
        elif c == "}":
            depth -= 1
            begin = at + 1


def defined_names() -> set[str]:
    """The names of the functions that are in no namespace."""
    names = set()
    for head in heads(own_text()):
        if not head.endswith(")"):
            continue
        parameters = len(head)
        depth = 0
        while parameters == len(head) or depth > 0:
            parameters -= 1
            depth += {")": 1, "(": -1}.get(head[parameters], 0)
        names.add(re.split(r"\W", head[:parameters].rstrip())[-1])
    return names


def test_they_are_spelled_as_in_the_toolkit() -> None:
    headers = [TOOLKIT / name for name in ("cuda_fp16.h", "cuda_bf16.h")]
    if not all(header.is_file() for header in headers):
        pytest.skip(f"there is no CUDA toolkit with cuda_fp16.h and cuda_bf16.h in {TOOLKIT}")
    theirs = {word for header in headers for word in re.findall(r"\w+", header.read_text(encoding="utf-8"))}
    ours = defined_names()
    assert {"__hmax2_nan", "__hfma2_relu", "__heq2", "__hbeq2", "h2sqrt", "__floats2bfloat162_rn"} <= ours
    assert ours - theirs == set()
