"""Run as a program, without Numba's simulator: drafts what the first argument says, and prints JSON.

semantics FILE FORM    all kernels of semantics.py into FILE, in the form "plain" or "simulated"; their parameters
refusals               what is said of each kernel of refused.py
files OP WORKSPACE     what `trifold draft` writes
ops FOLDER             the two texts of each op with a prototype there, or why it is refused
widened                what is said of each kernel of widened_kernels.py
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path

from trifold.workspace import import_file

HERE = Path(__file__).parent


def semantics(path: str, form: str) -> object:
    import numba
    import numpy as np

    from tests.draft import semantics as kernels
    from trifold.draft.kernel import draft_kernels

    asked = []
    for kernel, dtypes in kernels.KERNELS.values():
        arrays = [numba.from_dtype(np.dtype(each))[::1] for each in (*dtypes, np.float64)]
        asked.append((kernel, arrays))
    drafted = draft_kernels(asked, simulated=form == "simulated")
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
            found[name] = (error.place.line, f"{error.problem.partition(': ')[2]}; {error.remedy}")
    return found


def widened() -> object:
    from tests.draft import widened_kernels
    from trifold.draft import widened
    from trifold.draft.infer import Analysis

    found: dict[str, list[str]] = {}
    for name, (kernel, argument_types) in widened_kernels.KERNELS.items():
        built = Analysis().analyse(kernel, [(each,) for each in argument_types], is_kernel=True)
        found[name] = list(widened.widened(built))
    return found


def ops(folder: str) -> object:
    from trifold.draft import DraftError
    from trifold.draft.binding import draft_op

    texts: dict[str, tuple[str, str]] = {}
    refused: dict[str, str] = {}
    for path in sorted(Path(folder).glob("[a-z]*.py")):
        module = import_file(path, f"drafted_{path.stem}")
        try:
            first, second = draft_op(module, path.stem), draft_op(module, path.stem)
        except DraftError as error:
            refused[path.stem] = str(error)
        else:
            assert first == second, "a draft differs from the one before it"
            texts[path.stem] = first.header, first.binding
    return texts, refused


def files(op: str, root: str) -> object:
    from trifold.draft.command import drafts_of
    from trifold.workspace import Workspace

    drafted = drafts_of(op, Workspace.at(Path(root)))
    for each in drafted.files:
        each.write()
    return drafted.remarks


if __name__ == "__main__":
    programs: dict[str, Callable[..., object]] = {
        "semantics": semantics,
        "refusals": refusals,
        "widened": widened,
        "ops": ops,
        "files": files,
    }
    print(json.dumps(programs[sys.argv[1]](*sys.argv[2:])))
