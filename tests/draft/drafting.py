"""Run as a program, without Numba's simulator: drafts what the first argument says, and prints JSON.

semantics FILE         all kernels of semantics.py into FILE; their parameters
refusals               what is said of each kernel of refused.py
op PROTOTYPE NAME      the two texts of an op
types                  where the types of the gallery's kernels differ from those that Numba infers
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path

from trifold.workspace import import_file

HERE = Path(__file__).parent


def semantics(path: str) -> object:
    import numba
    import numpy as np

    from tests.draft import semantics as kernels
    from trifold.draft.kernel import draft_kernels

    asked = []
    for name, dtypes in kernels.KERNELS.items():
        arrays = [numba.from_dtype(np.dtype(each))[::1] for each in (*dtypes, np.float64)]
        asked.append((getattr(kernels, name), arrays))
    drafted = draft_kernels(asked)
    Path(path).write_text(drafted[0].text, encoding="utf-8")
    return {each.entry: [(p.argument, p.kind, p.dimension) for p in each.parameters] for each in drafted}


def refusals() -> object:
    from tests.draft import refused
    from trifold.draft import DraftError, draft_kernel

    found: dict[str, tuple[int, str] | None] = {}
    for name, argument_types in refused.KERNELS.items():
        try:
            draft_kernel(getattr(refused, name), argument_types)
            found[name] = None
        except DraftError as error:
            found[name] = (error.place.line, error.problem.partition(": ")[2])
    return found


def op(prototype: str, name: str) -> object:
    from trifold.draft.binding import draft_op

    module = import_file(Path(prototype), f"drafted_{name}")
    first, second = draft_op(module, name), draft_op(module, name)
    assert first == second, "a draft differs from the one before it"
    return [first.header, first.binding]


if __name__ == "__main__":
    programs: dict[str, Callable[..., object]] = {"semantics": semantics, "refusals": refusals, "op": op}
    print(json.dumps(programs[sys.argv[1]](*sys.argv[2:])))
