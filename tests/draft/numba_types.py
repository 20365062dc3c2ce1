"""Run as a program, without Numba's simulator: where the types of semantics.py's kernels differ from those that Numba's
own pipeline infers, as JSON. No GPU and no code generation: the pipeline ends with type inference.
"""

import json
from collections import defaultdict
from typing import Any

import numba
import numpy as np
from numba import types
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import PassManager
from numba.core.target_extension import target_override
from numba.core.typing import signature
from numba.core.typing.templates import make_concrete_template
from numba.cuda import dispatcher
from numba.cuda.compiler import CUDAFlags
from numba.cuda.descriptor import cuda_target

from tests.draft import semantics
from trifold.draft.infer import Analysis

#: Kernels that call what Numba types by compiling it, for which it wants a GPU: min, max, int, ord and some of cmath.
UNASKABLE = (
    "characters",
    "least_and_largest",
    "least_of_nan",
    "order_of_arguments",
    "order_of_updates",
    "larger_of_wide_words",
    "truncates",
    "complex_numbers",
    "complex_functions",
    "half_numbers",
    "calls_in_chains",
    "defaults",
    "absent",  # what is pruned before types are inferred
    # numba-cuda has functions that Numba itself lacks.
    "functions_of_numpy",
    "functions_of_numpy_of_floats",
    "functions_of_numpy_of_integers",
)


class Typing(CompilerBase):  # type: ignore[misc]
    """Numba's pipeline up to its type inference."""

    def define_pipelines(self) -> list[Any]:
        passes = PassManager("typing")
        passes.passes.extend(DefaultPassBuilder.define_untyped_pipeline(self.state).passes)
        for each in DefaultPassBuilder.define_typed_pipeline(self.state).passes:
            passes.passes.append(each)
            if "NopythonTypeInference" in str(each[0]):
                break
        passes.finalize()
        return [passes]


def _named(kind: types.Type) -> str:
    """A type's name; of an array without its layout, which a part of it may keep."""
    return f"array of {kind.dtype}, {kind.ndim}d" if isinstance(kind, types.Array) else str(kind)


def inferred(function: Any, arguments: tuple[types.Type, ...]) -> tuple[dict[str, set[str]], types.Type]:
    """The types of each variable, by its name, and that of the result. Arguments that are left out are the defaults."""
    missing = function.__code__.co_argcount - len(arguments)
    arguments = (*arguments, *map(types.Omitted, (function.__defaults__ or ())[-missing:] if missing else ()))
    context = cuda_target.typing_context
    context.refresh()
    flags = CUDAFlags()
    flags.no_compile = flags.no_cpython_wrapper = flags.no_cfunc_wrapper = True
    flags.error_model, flags.compute_capability = "numpy", (9, 0)
    with target_override("cuda"):
        pipeline = Typing(context, cuda_target.target_context, None, arguments, None, flags, {})
        try:
            pipeline.compile_extra(function)
        except Exception:  # there is no code to return
            if getattr(pipeline.state, "typemap", None) is None:
                raise
    found: dict[str, set[str]] = defaultdict(set)
    for name, kind in pipeline.state.typemap.items():
        if not str(name).startswith(("$", "arg.")):
            found[str(name).split(".")[0]].add(_named(types.unliteral(kind)))
    return found, pipeline.state.return_type


def _device_function(self: Any, arguments: tuple[types.Type, ...], keywords: dict[str, types.Type]) -> Any:
    """Typed, but not compiled."""
    _, result = inferred(self.py_func, tuple(types.unliteral(each) for each in arguments))
    template = make_concrete_template(self.py_func.__name__, self, [signature(result, *arguments)])
    return template, None, arguments, keywords


def differences() -> list[str]:
    dispatcher.CUDADispatcher.get_call_template = _device_function
    found = []
    for name, (kernel, dtypes) in semantics.KERNELS.items():
        if name in UNASKABLE:
            continue
        arrays = tuple(numba.from_dtype(np.dtype(each))[::1] for each in (*dtypes, np.float64))
        analysis = Analysis()
        analysis.analyse(kernel.py_func, [(each,) for each in arrays], is_kernel=True)
        for (function, arguments), built in analysis.functions.items():
            theirs, result = inferred(function, tuple(each[0] for each in arguments))
            ours: dict[str, set[str]] = defaultdict(set)
            for version in built.versions:
                if version.type and (version.is_read or not version.is_join):
                    ours[version.name].add(_named(version.type[0]))
            found += [
                f"{name}: {variable} is {ours[variable]}, for Numba {theirs[variable]}"
                for variable in sorted(set(ours) & set(theirs))
                if ours[variable] != theirs[variable]
            ]
            if str((built.result or (types.none,))[0]) != str(result):
                found.append(f"{name}: {function.__name__} returns {built.result}, for Numba {result}")
    return found


if __name__ == "__main__":
    print(json.dumps(differences()))
