"""An op with few floating dtypes: those of some calls, for which only its port is compiled and its spec draws. A GPU's
build of all dtypes takes about three times as long, and a jittered one minutes of processor time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch

from tests.wrong.entry import Edit
from trifold.spec import Call, TensorCase

#: Floating dtypes, the most exact first: their names in the dispatch, and their C++ types.
SCALARS = {
    torch.float64: ("Double", "double"),
    torch.float32: ("Float", "float"),
    torch.float16: ("Half", "__half"),
    torch.bfloat16: ("BFloat16", "__nv_bfloat16"),
}

#: The error of the dispatch for a dtype that was left out.
NOT_COMPILED = "trifold: no kernel for dtype"

# Drawn calls are filtered, not changed: the fills of an op may depend on the dtype.
_ONLY_THESE_CALLS = """

import dataclasses

import torch

from trifold.spec import Call, IndexCase, Sample, TensorCase
from trifold.verification.checks.differentiation import in_dtype

_compiled = {dtypes}


def _is_compiled(call):
    return all(case.dtype in _compiled for _, case in call.floating())


def _calls(limits, every=spec.calls):
    return every(limits).filter(_is_compiled)


spec = dataclasses.replace(
    spec,
    calls=_calls,
    smooth=[in_dtype(call, _compiled[0]) for call in spec.smooth],
    edges=(),
    gpu_edges=(),
    samples=[{samples}],
)
"""


def dtypes_of(calls: Iterable[Call]) -> tuple[torch.dtype, ...]:
    """The floating dtypes of the calls' tensors, the most exact first."""
    found = {case.dtype for call in calls for _, case in call.cases() if isinstance(case, TensorCase)}
    return tuple(dtype for dtype in SCALARS if dtype in found)


def of_dtypes(dtypes: Sequence[torch.dtype]) -> tuple[Edit, ...]:
    """Reduces the dispatch of floating dtypes to these."""
    return tuple(
        Edit("trifold/binding.h", f"    case ScalarType::{name}: return f.template operator()<{scalar}>();\n", "")
        for dtype, (name, scalar) in SCALARS.items()
        if dtype not in dtypes
    )


def only(calls: Sequence[Call]) -> str:
    """Python for the end of a spec that makes these calls its samples, removes its edges, and makes it draw only calls
    of their dtypes."""
    samples = ", ".join(f"Sample('call {i}', {call!r}, 'reaches a fault')" for i, call in enumerate(calls))
    return _ONLY_THESE_CALLS.format(dtypes=list(dtypes_of(calls)), samples=samples)
