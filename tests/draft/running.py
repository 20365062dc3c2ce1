"""Runs modules of kernels with their drafts, compiled for the CPU or with nvcc for a GPU, in place of their kernels.

    python -m tests.draft.running cpu|cuda FOLDER FILE…

writes what the ``main`` of each module gives as FOLDER/<its name>.npz, and prints, as JSON, by file why it has none: ""
where it has. On a GPU, FOLDER/<its name>.numba.npz is what Numba's own code gives there. It is run in a process of its
own, in which Numba's simulator is not switched on.

Each module runs twice: first its launches only draft, then all drafts are compiled as one text, then they are launched.
"""

from __future__ import annotations

import json
import re
import runpy
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

from tests.draft.kernels import SEED
from trifold.cpu import RawKernel
from trifold.draft import DraftedKernel, DraftError, draft_kernel
from trifold.errors import TrifoldError

_SECONDS = 20  # of a module
_SLOT = 16  # bytes of an argument
_INCLUDE = re.compile(r"^#include .*\n", re.MULTILINE)


@dataclass
class Drafts:
    """The drafts of a module's launches, by kernel and argument types."""

    of: dict[tuple[Any, ...], DraftedKernel] = field(default_factory=dict)

    def add(self, kernel: Any, kinds: tuple[Any, ...]) -> None:
        if (kernel, kinds) not in self.of:
            self.of[kernel, kinds] = draft_kernel(kernel, kinds)


def in_one(drafts: list[DraftedKernel]) -> str:
    """A text with one kernel, which calls the draft of a number with what the slots of ``arguments`` hold."""
    includes = sorted({line for each in drafts for line in _INCLUDE.findall(each.text)})
    texts, cases = [], []
    for number, each in enumerate(drafts):
        text = _INCLUDE.sub("", each.text).replace("__global__", "__device__")
        texts.append(f"namespace draft{number} {{\n{text}}}\n")
        cases.append(f"    case {number}: return call(draft{number}::{each.entry}, arguments);\n")
    return f"""{"".join(includes)}#include <utility>
{"".join(texts)}
template <class T>
__device__ T argument(const unsigned char* slot) {{
  T value;
  memcpy(&value, slot, sizeof(T));
  return value;
}}
template <class... P, size_t... i>
__device__ void call(void (*kernel)(P...), const unsigned char* arguments, std::index_sequence<i...>) {{
  kernel(argument<P>(arguments + {_SLOT} * i)...);
}}
template <class... P>
__device__ void call(void (*kernel)(P...), const unsigned char* arguments) {{
  call(kernel, arguments, std::index_sequence_for<P...>{{}});
}}
__global__ void any_of(int which, const unsigned char* arguments) {{
  switch (which) {{
{"".join(cases)}  }}
}}
"""


def packed(
    draft: DraftedKernel, arguments: tuple[Any, ...], kinds: tuple[Any, ...]
) -> tuple[np.ndarray, dict[int, np.ndarray]]:
    """The slots that a draft's parameters are read from; the arrays, by where in these their addresses are."""
    from numba.np import numpy_support

    slots = np.zeros((max(len(draft.parameters), 1), _SLOT), np.uint8)
    arrays: dict[int, np.ndarray] = {}
    for number, (slot, parameter) in enumerate(zip(slots, draft.parameters, strict=False)):
        given = arguments[parameter.argument]
        match parameter.kind:
            case "array":
                value: Any = np.uint64(given.ctypes.data)
                arrays[number * _SLOT] = given
            case "stride":
                value = np.int64(given.strides[parameter.dimension] // given.itemsize)
            case "length":
                value = np.int64(given.shape[parameter.dimension])
            case "size":
                value = np.int64(given.size)
            case _:
                kind = kinds[parameter.argument]
                whole = np.asarray(given, numpy_support.as_dtype(getattr(kind, "dtype", kind)))  # a tuple of one type
                value = whole if whole.ndim else whole[()]
        slot[: value.nbytes] = np.frombuffer(value.tobytes(), np.uint8)
    return slots.reshape(-1), arrays


def _extent(given: Any) -> tuple[int, ...]:
    return tuple(map(int, given)) if isinstance(given, tuple) else (int(given),)


class _Launches:
    """The value of ``kernel[…]`` while a module runs: ``launch(kernel, configuration, arguments, their types)``.

    A kernel that is declared with the types of its arguments gets them in these.
    """

    def __init__(self) -> None:
        from numba.cuda import dispatcher

        self._declared: dict[Any, tuple[Any, ...]] = {}

        def configured(kernel: Any, configuration: tuple[Any, ...]) -> Any:
            def launch(*arguments: Any) -> None:
                kinds = self._declared.get(kernel) or tuple(map(kernel.typeof_pyval, arguments))
                self.launch(kernel, configuration, arguments, kinds)

            return launch

        def declare(kernel: Any, kinds: tuple[Any, ...]) -> None:
            self._declared[kernel] = kinds

        dispatcher.CUDADispatcher.__getitem__ = configured
        dispatcher.CUDADispatcher.compile = declare
        dispatcher.CUDADispatcher.disable_compile = lambda _kernel: None

    def launch(
        self, kernel: Any, configuration: tuple[Any, ...], arguments: tuple[Any, ...], kinds: tuple[Any, ...]
    ) -> None:
        raise NotImplementedError


def _limited(main: Any) -> Any:
    """Return the result of ``main``, unless it takes too long."""

    def stop(_signal: int, _frame: FrameType | None) -> None:
        raise TimeoutError(f"more than {_SECONDS} s")

    signal.signal(signal.SIGALRM, stop)
    signal.alarm(_SECONDS)
    try:
        return main(np.random.default_rng(SEED))
    finally:
        signal.alarm(0)


def compiled_for(device: str, text: str, folder: Path) -> Callable[..., None]:
    """Launches the kernel ``any_of`` of a text: grid, block, which, slots, the arrays in these, shared bytes, whether
    the blocks wait for one another."""
    if device == "cuda":
        from tests.draft.on_gpu import OnGpu

        return OnGpu(text, folder)
    kernel = RawKernel(text, "any_of", ("-std=c++20",), checks=False)
    kernel.compile()

    def launch(grid: Any, block: Any, which: int, slots: Any, _arrays: Any, shared: int, cooperative: bool) -> None:
        kernel(grid, block, (np.int32(which), slots), shared_mem=shared, cooperative=cooperative)

    return launch


def run_by_numba(folder: Path, files: list[str]) -> dict[str, str]:
    """The results of Numba's own code, on the GPU; by file why there are none."""
    reasons: dict[str, str] = {}
    for file in files:
        try:
            outputs = _limited(runpy.run_path(file)["main"])
        except Exception as error:
            reasons[file] = f"Numba: {type(error).__name__}: {error}"
        else:
            np.savez(folder / f"{Path(file).stem}.numba.npz", **outputs)
    return reasons


def run(device: str, folder: Path, files: list[str]) -> dict[str, str]:
    reasons: dict[str, str] = run_by_numba(folder, files) if device == "cuda" else {}
    launches = _Launches()
    mains: dict[str, Any] = {}
    drafts: dict[str, Drafts] = {}
    for file in [each for each in files if each not in reasons]:
        mains[file], drafts[file] = runpy.run_path(file)["main"], Drafts()
        launches.launch = lambda kernel, _, __, kinds, own=drafts[file]: own.add(kernel, kinds)  # type: ignore[method-assign,misc]
        try:
            _limited(mains[file])
        except (DraftError, TimeoutError) as error:
            reasons[file] = str(error)
    every = [each for file in files if file not in reasons for each in drafts[file].of.values()]
    compiled = compiled_for(device, in_one(every), folder)
    for file in files:
        if file in reasons:
            continue

        def launch(kernel: Any, configuration: Any, arguments: Any, kinds: Any, own: str = file) -> None:
            grid, block, *others = configuration
            draft = drafts[own].of[kernel, kinds]
            slots, arrays = packed(draft, arguments, kinds)
            shared = int(others[1]) if len(others) > 1 else 0
            cooperative = "this_grid" in draft.text
            compiled(_extent(grid), _extent(block), every.index(draft), slots, arrays, shared, cooperative)

        launches.launch = launch  # type: ignore[method-assign]
        try:
            outputs = _limited(mains[file])
        except (TimeoutError, TrifoldError, RuntimeError) as error:
            reasons[file] = str(error)
        else:
            np.savez(folder / Path(file).stem, **outputs)
            reasons[file] = ""
    return reasons


if __name__ == "__main__":
    print(json.dumps(run(sys.argv[1], Path(sys.argv[2]), sys.argv[3:])))
