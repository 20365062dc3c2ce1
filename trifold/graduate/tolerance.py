"""The permitted errors of an op's results and gradients, in words: from its spec, for the card."""

from __future__ import annotations

import ast
from dataclasses import asdict, dataclass
from types import FunctionType
from typing import Any

from trifold.spec import Spec
from trifold.spec.load import load_spec
from trifold.workspace import OpFiles

_DEFAULT = 4.0
# The quantity that a spec's formula scales, and the default if the spec has no formula.
_SCALES = {
    "scale": ("results", "the reference on absolute values"),
    "working_scale": ("results, in round-offs of the type that it computes in", ""),
    "gradient_scale": ("gradients", "the reference's gradient on absolute values"),
    "gradient_working_scale": ("gradients, in round-offs of the type that it computes in", ""),
}


@dataclass(frozen=True)
class Tolerance:
    """The error bound for the values and gradients of an op.

    Attributes:
        multiple: the number of unit round-offs, times the scale, that an error may have.
        reason: why, if that is not the default.
        scales: the magnitude of the rounded numbers: of what, and which.
        rounded_once: why results in half types are rounded once; empty if that is not claimed.
    """

    multiple: float
    reason: str
    scales: dict[str, str]
    rounded_once: str

    @classmethod
    def of(cls, files: OpFiles) -> Tolerance:
        """The tolerance in ``verify/<op>.py``.

        Raises:
            SpecError: it does not load.
        """
        spec = load_spec(files)
        return cls(spec.multiple, spec.multiple_reason, _scales(files, spec), spec.rounded_once)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        """In Markdown."""
        why = f" ({self.reason})" if self.multiple != _DEFAULT else ", the default"
        lines = [
            f"Tolerance: an error against the reference in float64 of at most {self.multiple:g} unit round-offs of the "
            f"dtype{why}, times the scale, or of twice what PyTorch's own result in that dtype has. The scale of",
            "",
            *(f"- {of}: {scale}" for of, scale in self.scales.items()),
        ]
        if self.rounded_once:
            lines += ["", f"Results in half types are the exact ones rounded once: {self.rounded_once}"]
        return "\n".join(lines)


def _scales(files: OpFiles, spec: Spec) -> dict[str, str]:
    found = {}
    for name, (of, default) in _SCALES.items():
        function = getattr(spec, name)
        words = default if function is None else _words(files, name, function)
        if words:
            found[of] = words
    return found


def _words(files: OpFiles, name: str, function: Any) -> str:
    """The docstring of a scale, which gives the reason; for a lambda, the formula; otherwise its location."""
    if isinstance(function, FunctionType) and function.__doc__:
        return " ".join(function.__doc__.split())
    for node in ast.walk(ast.parse(files.spec.read_text(encoding="utf-8"))):
        if isinstance(node, ast.keyword) and node.arg == name:
            value = node.value
            return f"`{ast.unparse(value.body if isinstance(value, ast.Lambda) else value)}`, in `{files.spec.name}`"
    return f"a formula of `{files.spec.name}`"
