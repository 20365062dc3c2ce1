"""A g++ for what is built to run once: it optimises less, and reads torch's headers once for all ports."""

from __future__ import annotations

from pathlib import Path

from trifold.build.toolchain import find_gxx

# What bindings include of torch, and what that includes of the standard library: a third of the time of a small port.
_HEADERS = """\
#include <torch/csrc/stable/accelerator.h>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <tuple>
"""
# The compiled headers of a set of flags appear whole; g++ passes over what it cannot use and reads the headers.
_SCRIPT = """\
#!/usr/bin/env bash
words=() flags=() port= compiles= before=
for word in "$@"; do
  case $word in
    -O3) word=LEVEL ;;
    -O2) word=-O1 ;;
  esac
  words+=("$word")
  case $word in
    -c | -S) compiles=yes ;;
    -DTRIFOLD_DISPATCH_KEY=CPU) port=yes ;;
    -DTRIFOLD_* | -DTORCH_EXTENSION_NAME=*) ;;
    -std=* | -[OfmgDU]* | --param=* | --coverage | -isystem*) flags+=("$word") ;;
    *) [[ $before != -isystem ]] || flags+=("$word") ;;
  esac
  before=$word
done
if [[ -n $port && -n $compiles ]]; then
  headers=$(dirname "${BASH_SOURCE[0]}")/headers.h
  key=$(sha256sum <<<"${flags[*]}")
  compiled=${headers%.h}-${key::16}.h
  if [[ ! -f $compiled.gch ]]; then
    cp "$headers" "$compiled.$$" && mv "$compiled.$$" "$compiled"
    GXX "${flags[@]}" -x c++-header "$headers" -o "$compiled.$$" && mv "$compiled.$$" "$compiled.gch"
  fi
  words+=(-include "$compiled")
fi
exec GXX "${words[@]}"
"""


def quick_gxx(folder: Path, level: str = "-O0") -> Path:
    """The script ``g++`` in ``folder``, which many builds at once may call, and several processes.

    Kernels are compiled with ``level`` in place of -O3, since that takes half the time; the engine with -O1 in place of
    -O2.
    """
    quick = folder / "g++"
    (folder / "headers.h").write_text(_HEADERS)
    quick.write_text(_SCRIPT.replace("GXX", f'"{find_gxx()}"').replace("LEVEL", level))
    quick.chmod(0o755)
    return quick
