"""The signature of ``trifold new op --signature``: what it may contain, and how each language writes it."""

from __future__ import annotations

import keyword
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch

from trifold.errors import TrifoldError
from trifold.new.names import CPP_KEYWORDS

ArgumentKind = Literal["Tensor", "Tensor?", "float", "int", "bool"]

_PYTHON: dict[ArgumentKind, str] = {
    "Tensor": "Tensor",
    "Tensor?": "Tensor | None",
    "float": "float",
    "int": "int",
    "bool": "bool",
}
_CPP: dict[ArgumentKind, str] = {
    "Tensor": "const Tensor&",
    "Tensor?": "std::optional<Tensor>",
    "float": "double",
    "int": "int64_t",
    "bool": "bool",
}
_KERNEL: dict[ArgumentKind, str] = {**_CPP, "Tensor": "const T*", "Tensor?": "const T*"}

# Names with another meaning in the generated files.
_TAKEN = frozenset(
    (
        *("cuda", "ctx", "grad", "i", "m", "n", "op", "out", "reference", "register", "result", "self", "spec", "std"),
        *("torch", "total", "trifold", "values", "wanted", "wire"),
    )
)
_MOST_ARGUMENTS, _MOST_CHARACTERS = 10, 80  # of all names together: what fits on a line


class SignatureError(TrifoldError):
    """A signature for which no op can be generated."""


@dataclass(frozen=True)
class Argument:
    """One argument of the op.

    Attributes:
        default: as Python text; None if there is none.
        keyword_only: it follows a ``*``.
    """

    kind: ArgumentKind
    name: str
    default: str | None = None
    keyword_only: bool = False

    @property
    def is_tensor(self) -> bool:
        return self.kind in ("Tensor", "Tensor?")

    @property
    def optional(self) -> bool:
        """Whether it is a tensor that may be absent."""
        return self.kind == "Tensor?"

    @property
    def python(self) -> str:
        """A parameter in Python, without its default."""
        return f"{self.name}: {_PYTHON[self.kind]}"

    @property
    def python_with_default(self) -> str:
        return self.python if self.default is None else f"{self.python} = {self.default}"

    @property
    def schema(self) -> str:
        return f"{self.kind} {self.name}"

    @property
    def cpp(self) -> str:
        """A parameter of the binding's function."""
        return f"{_CPP[self.kind]} {self.name}"

    @property
    def kernel(self) -> str:
        """A parameter of a kernel."""
        return f"{_KERNEL[self.kind]} {self.name}"


@dataclass(frozen=True)
class Signature:
    """Arguments of an op that returns one tensor with the shape of its first one."""

    arguments: tuple[Argument, ...]

    @property
    def tensors(self) -> tuple[Argument, ...]:
        return tuple(each for each in self.arguments if each.is_tensor)

    @property
    def scalars(self) -> tuple[Argument, ...]:
        return tuple(each for each in self.arguments if not each.is_tensor)

    @property
    def factors(self) -> tuple[Argument, ...]:
        """The scalars that are numbers."""
        return tuple(each for each in self.scalars if each.kind != "bool")

    @property
    def flags(self) -> tuple[Argument, ...]:
        return tuple(each for each in self.scalars if each.kind == "bool")

    @property
    def first(self) -> Argument:
        return self.tensors[0]

    @property
    def parameters(self) -> list[str]:
        """The parameters of a Python function, with defaults."""
        texts = [each.python_with_default for each in self.arguments]
        keyword_only = [position for position, each in enumerate(self.arguments) if each.keyword_only]
        return [*texts[: keyword_only[0]], "*", *texts[keyword_only[0] :]] if keyword_only else texts


def parse(text: str, op: str) -> Signature | None:
    """Read ``"(Tensor x, float alpha) -> Tensor"``, in torch's schema language.

    Args:
        text: the signature; if there is a name before the bracket, it must be ``op``.

    Returns:
        None if the op is not elementwise: :mod:`trifold.new.schema` supports all types.

    Raises:
        SignatureError: it is not a schema, or the template does not support it; the remedy says what to do.
    """
    parsed = parsed_schema(text, op)
    if not _is_elementwise(parsed):
        return None
    signature = Signature(tuple(_argument(argument) for argument in parsed.arguments))
    _check(signature, op)
    return signature


def parsed_schema(text: str, op: str) -> Any:
    """Torch's own parse of a signature; raises :class:`SignatureError` if it is not a signature of ``op``."""
    text = text.strip()
    before, bracket, _ = text.partition("(")
    if not bracket:
        raise SignatureError(
            f"--signature: '{text}' has no brackets", 'write it as "(Tensor x, float alpha) -> Tensor"'
        )
    if before.strip() not in ("", op):
        raise SignatureError(f"--signature: it is of '{before.strip()}', but the op is '{op}'", "omit the name")
    if "->" not in text:
        raise SignatureError("--signature: it does not say what the op returns", "end it with '-> Tensor'")
    try:
        return torch._C.parse_schema(f"trifold::{op}{text[len(before) :]}")
    except RuntimeError as error:
        raise SignatureError(
            f"--signature: '{text}' is not a schema: {_first_line(error)}",
            'write it as "(Tensor x, float alpha) -> Tensor"',
        ) from None


def _first_line(error: RuntimeError) -> str:
    """Without torch's request to report a bug."""
    line = str(error).strip().partition("\n")[0].rpartition("report a bug to PyTorch. ")[2]
    return line.partition(" in trifold::")[0].rstrip(": ")


def _is_elementwise(parsed: Any) -> bool:
    """Whether one new tensor is computed from tensors, numbers and flags, and the first tensor is always present."""
    if [str(value.real_type) for value in parsed.returns] != ["Tensor"] or parsed.returns[0].alias_info is not None:
        return False
    if any(each.alias_info is not None or _kind(each) not in _PYTHON for each in parsed.arguments):
        return False
    tensors = [each for each in parsed.arguments if _kind(each) in ("Tensor", "Tensor?")]
    if any(each.kwarg_only or (_kind(each) == "Tensor" and each.has_default_value()) for each in tensors):
        return False
    return bool(tensors) and _kind(tensors[0]) == "Tensor"


def _kind(argument: Any) -> str:
    kind = argument.real_type
    text = str(kind)
    return f"{kind.getElementType()}?" if text.startswith("Optional[") else text


def _argument(argument: Any) -> Argument:
    default = repr(argument.default_value) if argument.has_default_value() else None
    kind: Any = _kind(argument)
    return Argument(kind, str(argument.name), default, bool(argument.kwarg_only))


def _check(signature: Signature, op: str) -> None:
    check_count([each.name for each in signature.arguments])
    for argument in signature.arguments:
        check_name(argument.name, op)


def check_count(names: Sequence[str]) -> None:
    """Raise :class:`SignatureError` if there are too many arguments for a line, or two have one name."""
    if len(names) > _MOST_ARGUMENTS:
        raise SignatureError(
            f"--signature: {len(names)} arguments; at most {_MOST_ARGUMENTS} are generated",
            "generate fewer, and add the others by hand",
        )
    if sum(map(len, names)) > _MOST_CHARACTERS:
        raise SignatureError(
            f"--signature: the names of all arguments have more than {_MOST_CHARACTERS} characters", "shorten some"
        )
    if twice := [name for name in names if names.count(name) > 1]:
        raise SignatureError(f"--signature: two arguments are called '{twice[0]}'", "give one another name")


def check_name(name: str, op: str) -> None:
    """Raise :class:`SignatureError` if an argument of ``op`` cannot be called ``name``."""
    if keyword.iskeyword(name) or name in CPP_KEYWORDS:
        problem = "which is a word of Python or C++"
    elif name in _TAKEN or name == op or name.startswith(("grad_", "has_")):
        problem = "which the generated files call something else"
    elif not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        problem = "which is not in lower case"
    elif len(name) > 24:
        problem = "which is longer than 24 characters"
    else:
        return
    raise SignatureError(f"--signature: an argument is called '{name}', {problem}", "give it another name")
