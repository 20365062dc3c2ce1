"""Translates the PTX text of an ``asm`` to C++: a statement for each instruction, a variable for each register.

    add.u32 %0, %1, 4;        ::trifold::ptx::add<::trifold::ptx::u32>(ptx_0, ptx_1, int64_t{4});
    @!done bra again;         if (!(ptx_r1_done)) { goto ptx_l0_again; }

The functions are in <trifold/cpu/ptx.h>; ptx_table.py lists the supported forms.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from trifold.build.ptx_table import SPECIAL_REGISTERS, TYPES, Form, forms

_PTX = "::trifold::ptx::"

_NAME = r"[A-Za-z_$%][\w$]*"
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_LABEL = re.compile(rf"\s*({_NAME})\s*:(?!:)")
_REGISTERS = re.compile(r"\.reg\s*\.(\w+)\s+(.+)", re.DOTALL)
_DECLARED = re.compile(rf"({_NAME})(?:<(\d+)>)?")
_GUARD = re.compile(rf"@(!?)\s*({_NAME})\s+")
_INSTRUCTION = re.compile(r"([A-Za-z][\w.:]*)\s*(.*)", re.DOTALL)
_ADDRESS = re.compile(r"\[\s*([^\s+\-\]]+)\s*(?:([+-])\s*(-?\s*\w+))?\s*\]")
_INTEGER = re.compile(r"(-?)(0[xX][0-9a-fA-F]+|0[bB][01]+|\d+)U?")
_REAL = re.compile(r"-?(?:\d+\.\d*|\.\d+|\d+(?=[eE]))(?:[eE][+-]?\d+)?")
_BITS_OF_REAL = re.compile(r"0([fFdD])([0-9a-fA-F]{8}|[0-9a-fA-F]{16})")

_REGISTER_BITS = {"pred": 1, "f16x2": 32, "bf16x2": 32, "bf16": 16} | {
    name: int(name[1:]) for name in TYPES if name[1:].isdigit()
}

# Opcodes with forms that the CPU lacks, and for which it has no similar form.
_OPCODES = (
    "alloca barrier bmsk brx call clusterlaunchcontrol cp fence getctarank "
    "isspacep istypep lop3 mapa match mbarrier mma multimem pmevent red ret shfl st stacksave "
    "stackrestore suld suq sured sust szext tcgen05 tensormap tex tld4 txq vabsdiff vadd vmad vmax vmin vote vset vshl "
    "vshr vsub wgmma wmma"
)
_OTHERS = frozenset(_OPCODES.split())

# The remedy for PTX that the CPU lacks.
REMEDY = "write it with CUDA's functions, or keep it in #ifdef __CUDACC__ with another way in #else"


class Untranslatable(Exception):
    """PTX that does not run on the CPU; ``at`` is its place in the text, and the message gives the reason."""

    def __init__(self, at: int, what: str) -> None:
        super().__init__(what)
        self.at = at


@dataclass
class _Scope:
    """A pair of braces: the C++ names of its registers and labels."""

    number: int
    outer: _Scope | None
    registers: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)

    def register(self, name: str) -> str | None:
        return self.registers.get(name) or (self.outer.register(name) if self.outer is not None else None)

    def label(self, name: str) -> str | None:
        return self.labels.get(name) or (self.outer.label(name) if self.outer is not None else None)


@dataclass(frozen=True)
class _Statement:
    at: int
    text: str
    scope: _Scope
    label: str = ""  # in C++: the text before the statement


@dataclass(frozen=True)
class Translation:
    """The C++ of a text: declarations first, then statements with their places in the text."""

    declarations: str
    statements: tuple[tuple[int, str], ...]


_OPCODE = re.compile(r"\s*(?:[{}]|@!?\s*[\w%]+|\w+\s*:(?!:))*\s*\.?([a-z]\w*)(\.?)")


def is_ptx(text: str) -> bool:
    """Whether a text is PTX rather than assembly of a CPU, judging by its opcodes."""
    opcodes = [found.groups() for part in re.split(r"[;\n]", text) if (found := _OPCODE.match(part))]
    return any(
        opcode in ("reg", "exit", "trap", "brkpt")
        or (dot and (opcode == "bra" or opcode in forms() or opcode in _OTHERS))
        for opcode, dot in opcodes
    )


def translate(text: str, operands: dict[str, str], *, in_kernel: bool) -> Translation:
    """The C++ of ``text``.

    Args:
        text: PTX, with ``%0`` and so on for operands.
        operands: the C++ variables of ``%0``, ``%[name]`` and so on. As for nvcc, PTX's own ``%`` may be ``%`` or
            ``%%``.
        in_kernel: the text is in a ``__global__`` function, which ``exit`` may leave.

    Raises:
        Untranslatable: the text has a feature that the CPU lacks, or is not PTX.
    """
    return _Translator(operands, in_kernel).run(text)


class _Translator:
    def __init__(self, operands: dict[str, str], in_kernel: bool) -> None:
        self.operands = operands
        self.in_kernel = in_kernel
        self.declarations: list[str] = []
        self.scopes = 0
        self.carry = False
        self.at = 0

    def run(self, text: str) -> Translation:
        blank = _COMMENT.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
        blank = re.sub("%[%=]", lambda match: " %" if match[0] == "%%" else "_0", blank)
        statements = list(self._statements(blank))
        code = tuple((statement.at, self._statement(statement)) for statement in statements)
        labels = [name for statement in statements if (name := statement.label)]
        local = f"__label__ {', '.join(labels)}; " if labels else ""
        return Translation(local + "".join(self.declarations), code)

    def _error(self, what: str) -> Untranslatable:
        """An error: the text is not PTX."""
        return Untranslatable(self.at, what)

    def _missing(self, what: str) -> Untranslatable:
        """An error: PTX that the CPU lacks."""
        return Untranslatable(self.at, f"{what}: {REMEDY}")

    # ------------------------------------------------------------------------------------------------- statements

    def _statements(self, text: str) -> Iterator[_Statement]:
        """Also adds each declaration to its scope."""
        scope = self._scope(None)
        at = 0
        while at < len(text):
            self.at = at
            if text[at].isspace() or text[at] == ";":
                at += 1
            elif text[at] == "{":
                scope = self._scope(scope)
                at += 1
            elif text[at] == "}":
                if scope.outer is None:
                    raise self._error("a } closes nothing")
                scope = scope.outer
                at += 1
            elif label := _LABEL.match(text, at):
                name = scope.labels[label[1]] = f"ptx_l{scope.number}_{_plain(label[1])}"
                yield _Statement(at, "", scope, name)
                at = label.end()
            else:
                end = text.find(";", at)
                if end < 0:
                    raise self._error(f"there is no ; after {_shown(text[at:])}")
                statement = text[at:end].strip()
                if statement.startswith("."):
                    self._directive(statement, scope)
                else:
                    yield _Statement(at, statement, scope)
                at = end + 1
        if scope.outer is not None:
            raise self._error("a { is not closed")

    def _scope(self, outer: _Scope | None) -> _Scope:
        self.scopes += 1
        return _Scope(self.scopes - 1, outer)

    def _directive(self, text: str, scope: _Scope) -> None:
        if re.match(r"\.pragma\b", text):
            return
        registers = _REGISTERS.fullmatch(text)
        if registers is None or registers[1] not in _REGISTER_BITS:
            raise self._missing(f"{_shown(text)} is not yet on the CPU")
        cpp = "bool" if registers[1] == "pred" else f"::std::uint{_REGISTER_BITS[registers[1]]}_t"
        for each in registers[2].split(","):
            declared = _DECLARED.fullmatch(each.strip())
            if declared is None:
                raise self._error(f"{_shown(text)} declares no register")
            for name in [declared[1] + str(i) for i in range(int(declared[2]))] if declared[2] else [declared[1]]:
                scope.registers[name] = f"ptx_r{scope.number}_{_plain(name)}"
                value = "false" if cpp == "bool" else f"static_cast<{cpp}>(-1)"
                self.declarations.append(f"[[maybe_unused]] {cpp} {scope.registers[name]} = {value}; ")

    def _statement(self, statement: _Statement) -> str:
        self.at = statement.at
        if statement.label:
            return f"{statement.label}: ; "
        text, guard = statement.text, ""
        if predicate := _GUARD.match(text):
            guard = f"if ({predicate[1]}({self._register(predicate[2], statement.scope)})) "
            text = text[predicate.end() :]
        elif text.startswith("@"):  # an operand of the asm cannot be a predicate
            raise self._error(f"{_shown(text)} has no predicate that was declared")
        instruction = _INSTRUCTION.fullmatch(text)
        if instruction is None:
            raise self._error(f"{_shown(text)} is not a PTX instruction")
        opcode, rest = instruction[1], instruction[2].strip()
        code = self._instruction(opcode, _split(rest), statement.scope) + "; "
        return f"{guard}{{ {code}}} " if guard else code

    def _instruction(self, opcode: str, operands: list[str], scope: _Scope) -> str:
        word, *modifiers = re.split(r"\.", opcode)
        if opcode in ("bra", "bra.uni"):
            label = scope.label(operands[0]) if len(operands) == 1 else None
            if label is None:
                raise self._error(f"{opcode} {_shown(', '.join(operands))} names no label of this asm")
            return f"goto {label}"
        if opcode == "exit":
            if not self.in_kernel:
                raise self._missing("exit of a function that is not a kernel is not yet on the CPU")
            return "return"
        known = forms().get(word, ())
        fitting = [(form, kept) for form in known if (kept := form.match(modifiers)) is not None]
        if not fitting:
            raise self._unknown(opcode, [form.text for form in known])
        form, kept = next((each for each in fitting if each[0].takes(len(operands))), fitting[0])
        vector = next((int(modifier[1]) for modifier in kept if modifier in ("v2", "v4")), 1)
        arguments = self._arguments(opcode, form, operands, vector, scope)
        types = [f"{_PTX}{name}" for name in kept if name in TYPES]
        tags = [f"{_PTX}modifier::{re.sub('::', '_', name)}_" for name in kept if name not in TYPES]
        parameters = ", ".join([*types, *tags])
        word = "bar" if word == "barrier" else word
        return f"{_PTX}{word}_{f'<{parameters}>' if parameters else ''}({', '.join(arguments)})"

    def _unknown(self, opcode: str, known: list[str]) -> Untranslatable:
        if known and opcode.split(".")[0] not in _OTHERS:
            return self._missing(f"{opcode} is not yet on the CPU, which has {', '.join(known[:4])}")
        if known or opcode.split(".")[0] in _OTHERS:
            return self._missing(f"{opcode} is not yet on the CPU")
        return self._error(f"{opcode} is not a PTX instruction that trifold knows")

    # ---------------------------------------------------------------------------------------------------- operands

    def _arguments(self, opcode: str, form: Form, given: list[str], vector: int, scope: _Scope) -> list[str]:
        if "carry" in form.operands:
            if opcode.split(".")[0] in ("addc", "subc", "madc") and not self.carry:
                raise self._error(f"{opcode} has no carry: put the instruction that makes it into the same asm")
            if not self.carry:
                self.declarations.append("[[maybe_unused]] bool ptx_carry = false; ")
            self.carry = True
        if not form.takes(len(given)):
            raise self._error(f"{opcode} has {len(given)} operands and not {form.least_operands}")
        arguments = []
        for kind, operand in zip(form.in_text, given, strict=False):
            match kind.rstrip("?"):
                case "h":
                    continue
                case "[a]":
                    arguments.append(self._address(operand, scope))
                case "[t]":
                    arguments += self._place_in_tensor(operand, scope)
                case "d|p":
                    first, _, second = (part.strip() for part in operand.partition("|"))
                    arguments += [self._written(first, scope), self._written(second or "_", scope)]
                case "_" if operand != "_":
                    raise self._error(f"{opcode} returns nothing: its destination is _ and not {_shown(operand)}")
                case "d" | "_":
                    arguments.append(self._written(operand, scope))
                case "{d}":
                    arguments.append(self._vector(operand, 0, scope, self._written))
                case "{a}":
                    arguments.append(self._vector(operand, 0, scope, self._read))
                case "V":
                    arguments.append(self._vector(operand, vector, scope, self._written))
                case "D":
                    whole = not operand.startswith("{")
                    arguments.append(
                        self._written(operand, scope) if whole else self._vector(operand, 0, scope, self._written)
                    )
                case "A":
                    whole = not operand.startswith("{") and vector == 1
                    arguments.append(
                        self._read(operand, scope) if whole else self._vector(operand, vector, scope, self._read)
                    )
                case _:
                    arguments.append(self._read(operand, scope))
        return [*arguments, "ptx_carry"] if "carry" in form.operands else arguments

    def _place_in_tensor(self, operand: str, scope: _Scope) -> list[str]:
        """``[map, {x, y}]``."""
        inside = _split(operand[1:-1]) if operand.startswith("[") and operand.endswith("]") else []
        if len(inside) != 2:
            raise self._error(f"{_shown(operand)} is no tensor map with coordinates")
        return [self._address(f"[{inside[0]}]", scope), self._vector(inside[1], 0, scope, self._read)]

    def _vector(self, operand: str, size: int, scope: _Scope, each: Callable[[str, _Scope], str]) -> str:
        """``{a, b}``; ``size`` 1 is a register, and 0 any number."""
        if size == 1 and not operand.startswith("{"):
            return f"{_PTX}pack({each(operand, scope)})"
        parts = _split(operand[1:-1]) if operand.startswith("{") and operand.endswith("}") else []
        if not parts or (size > 1 and len(parts) != size):
            raise self._error(f"{_shown(operand)} is not a list of {size or 'several'} registers")
        return f"{_PTX}pack({', '.join(each(part, scope) for part in parts)})"

    def _written(self, operand: str, scope: _Scope) -> str:
        return f"{_PTX}sink" if operand == "_" else self._register(operand, scope)

    def _read(self, operand: str, scope: _Scope) -> str:
        if number := _INTEGER.fullmatch(operand):
            digits = number[2]
            value = int(digits, 8) if re.fullmatch("0[0-7]+", digits) else int(digits, 0)
            return f"{_PTX}constant({number[1]}{value}ull)"
        if bits := _BITS_OF_REAL.fullmatch(operand):
            return f"::std::uint{4 * len(bits[2])}_t{{0x{bits[2]}u}}"
        if _REAL.fullmatch(operand):
            return f"double{{{operand}}}"
        if operand == "WARP_SZ":
            return f"{_PTX}constant(32)"
        negated, name = operand.startswith("!"), operand.lstrip("!").strip()
        if name in SPECIAL_REGISTERS and scope.register(name) is None:
            return f"{_PTX}{re.sub(r'[%.]', '_', name).strip('_')}()"
        return f"{'!' if negated else ''}{self._register(name, scope)}"

    def _register(self, name: str, scope: _Scope) -> str:
        found = self.operands.get(name) or scope.register(name)
        if found is None and re.match(r"%[a-z]", name):
            raise self._missing(f"{_shown(name)} is not yet on the CPU")
        if found is None:
            raise self._error(f"{_shown(name)} is not a number, an operand or a supported register")
        return found

    def _address(self, operand: str, scope: _Scope) -> str:
        address = _ADDRESS.fullmatch(operand)
        if address is None:
            raise self._error(f"{_shown(operand)} is not an address")
        offset = 0
        if address[2]:
            number = _INTEGER.fullmatch(address[3].replace(" ", ""))
            if number is None:
                raise self._error(f"{_shown(operand)} is not an address")
            offset = int(number[2], 0) * (-1 if (address[2] == "-") != (number[1] == "-") else 1)
        return f"{_PTX}at({self._register(address[1], scope)}, {offset})"


def _split(text: str) -> list[str]:
    """Splits at the commas outside of brackets."""
    parts, depth, begin = [], 0, 0
    for at, character in enumerate(text):
        depth += (character in "[{(") - (character in ")}]")
        if character == "," and depth == 0:
            parts.append(text[begin:at].strip())
            begin = at + 1
    return [*parts, text[begin:].strip()] if text.strip() else []


def _plain(name: str) -> str:
    """A name of PTX as part of a C++ name; different for different names."""
    return re.sub(r"[$%]", lambda match: "_S" if match[0] == "$" else "_P", name)


def _shown(text: str) -> str:
    """For a message: on one line, short, and without characters that would end a string."""
    return re.sub(r'["\\]', "'", " ".join(text.split()))[:60]
