"""The statements of the generated elementwise formula, the same in the reference, the prototype and the C++ kernel."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from trifold.new.layout import WIDTH
from trifold.new.signature import Signature


class Language(ABC):
    """How one of the three languages writes it.

    Attributes:
        margin: of the statements.
    """

    margin: str

    @abstractmethod
    def value(self, name: str) -> str:
        """A tensor's element, or the tensor."""

    @abstractmethod
    def number(self, product: str) -> str: ...

    @abstractmethod
    def begin(self, term: str) -> str: ...

    @abstractmethod
    def if_given(self, name: str, statement: str) -> Sequence[str]: ...

    @abstractmethod
    def if_set(self, name: str) -> Sequence[str]:
        """Turns the sign."""

    @abstractmethod
    def end(self, value: str) -> str: ...

    def statement(self, text: str) -> str:
        return text

    def square(self, name: str) -> str:
        return f"{self.value(name)} * {self.value(name)}"


class Reference(Language):
    margin = 4 * " "

    def value(self, name: str) -> str:
        return name

    def number(self, product: str) -> str:
        return product

    def begin(self, term: str) -> str:
        return f"total = {term}"

    def if_given(self, name: str, statement: str) -> Sequence[str]:
        return f"if {name} is not None:", f"    {statement}"

    def if_set(self, name: str) -> Sequence[str]:
        return f"if {name}:", "    total = -total"

    def end(self, value: str) -> str:
        return f"return {value}"


class Prototype(Reference):
    margin = 8 * " "

    def __init__(self, result: str = "out") -> None:
        self.result = result

    def value(self, name: str) -> str:
        return f"{name}[i]"

    def if_given(self, name: str, statement: str) -> Sequence[str]:
        return f"if {name}.size > 0:", f"    {statement}"

    def end(self, value: str) -> str:
        return f"{self.result}[i] = {value}"


class Cpp(Language):
    margin = 4 * " "

    def __init__(self, result: str = "out") -> None:
        self.result = result

    def value(self, name: str) -> str:
        return f"C({name}[i])"

    def number(self, product: str) -> str:
        return f"C({product})"

    def begin(self, term: str) -> str:
        return f"C total = {term};"

    def if_given(self, name: str, statement: str) -> Sequence[str]:
        return (f"if ({name} != nullptr) {statement}",)

    def if_set(self, name: str) -> Sequence[str]:
        return (f"if ({name}) total = -total;",)

    def end(self, value: str) -> str:
        return f"{self.result}[i] = T({value});"

    def statement(self, text: str) -> str:
        return f"{text};"


def forward(s: Signature, language: Language) -> str:
    """The sum of the squares, times the numbers, negated by each flag."""
    squares = [language.square(each.name) for each in s.tensors if not each.optional]
    if len(squares) == len(s.tensors) and not s.flags:
        total = " + ".join(squares)
        if s.factors:
            # from the left: a small factor may keep a large square from overflowing
            total = f"{_factor(s, language)} * {total if len(squares) == 1 else f'({total})'}"
        line = language.end(total)
        if len(language.margin + line) <= WIDTH:
            return language.margin + line
    lines = [language.begin(squares[0]), *(language.statement(f"total += {each}") for each in squares[1:])]
    for each in s.tensors:
        if each.optional:
            lines += language.if_given(each.name, language.statement(f"total += {language.square(each.name)}"))
    if s.factors:
        lines.append(language.statement(f"total *= {_factor(s, language)}"))
    return _finish(lines, s, language)


def backward(s: Signature, language: Language) -> str:
    """The derivative for one tensor x: 2 · grad · x, times the numbers, negated by each flag."""
    factor = _factor(s, language, "2") if s.factors else "2"
    product = f"{factor} * {language.value('grad')} * {language.value('x')}"
    line = language.end(product)
    if not s.flags and len(language.margin + line) <= WIDTH:
        return language.margin + line
    return _finish([language.begin(product)], s, language)


def _factor(s: Signature, language: Language, *before: str) -> str:
    return language.number(" * ".join([*before, *(each.name for each in s.factors)]))


def _finish(lines: list[str], s: Signature, language: Language) -> str:
    for flag in s.flags:
        lines += language.if_set(flag.name)
    return "\n".join(language.margin + line for line in [*lines, language.end("total")])
