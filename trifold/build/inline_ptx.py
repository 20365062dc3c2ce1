"""``asm`` in device code, for g++: inline PTX becomes C++ (ptx_text.py), without moving any line.

    asm("add.u32 %0, %1, 4;" : "=r"(y) : "r"(x));

becomes a statement expression: it binds the operands, has a C++ statement for each instruction, on the line of its
string, and assigns the outputs. An asm without instructions only keeps the compiler from moving accesses across it, and
does so here if it names "memory". PTX that cannot be translated becomes an error of g++ at its line, and not an
exception, since a branch that the preprocessor skips may contain anything.

An asm is also translated, if it is PTX, in a function whose head does not mark it as device code (a macro may), and in
a macro. The asm of host code, and the symbols of declarations (``asm("name")``), are kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from trifold.build.ptx_text import REMEDY, Untranslatable, is_ptx, translate

HEADER = "trifold/cpu/ptx.h"

_PTX = "::trifold::ptx::"
_ASM = re.compile(r"\b(?:asm|__asm__|__asm)\b(?P<qualifiers>(?:\s|\\\n|\b(?:volatile|__volatile__|inline|goto)\b)*)\(")
_TOKEN = re.compile(
    r"(?P<raw>\bR\"(?P<delimiter>[^()\\\s]{0,16})\((?P<inside>.*?)\)(?P=delimiter)\")"
    r"|(?P<text>\"(?:\\.|[^\"\\\n])*\")|(?P<character>'(?:\\.|[^'\\\n])*')"
    r"|(?P<comment>//(?:\\\n|[^\n])*|/\*.*?\*/)",
    re.DOTALL,
)
_OPERAND = re.compile(r"\s*(?:\[\s*(\w+)\s*\])?\s*\"([^\"]*)\"\s*\((.*)\)\s*", re.DOTALL)
_LINE_END = re.compile(r"\\?\n")
_MORE_OF_A_HEAD = re.compile(r"\s*[,{]")  # after a member's initialiser, as in `f() : a{1}, b{2} {`
_DEVICE = re.compile(r"\b__(?:global|device)__\b")
_CONSTRAINTS = "hrlfdn"


def rewrite(text: str) -> str:
    """The source with the asm of its device code in C++."""
    if "asm" not in text:
        return text
    code = _TOKEN.sub(_blank, text)
    open_heads = _Heads(code)
    parts, end = [], 0
    for match in _ASM.finditer(code):
        closing = _closing(code, match.end() - 1)
        if match.start() < end or closing is None:
            continue
        heads = [] if _in_a_macro(code, match.start()) else open_heads.at(match.start())
        whole = text[match.start() : closing + 1]
        inside = slice(match.end(), closing)
        translated = _translated(text[inside], code[inside], match["qualifiers"], heads)
        if translated is None:
            continue
        missing = len(_LINE_END.findall(whole)) - len(_LINE_END.findall(translated))
        ends = _LINE_END.findall(whole)[-missing:] if missing else []
        parts += [text[end : match.start()], translated, *ends]
        end = closing + 1
    return "".join([*parts, text[end:]])


def needs_header(text: str) -> bool:
    """Whether the result of :func:`rewrite` calls functions of HEADER."""
    return _PTX in text


@dataclass(frozen=True)
class _Piece:
    """A string literal of an asm's text: its offset in the whole text, and its place in the source."""

    begin: int
    text: str
    start: int
    end: int


def _translated(inside: str, code: str, qualifiers: str, heads: list[str]) -> str | None:
    """The replacement of an asm; None: it is not device code.

    ``inside`` is the text in its parentheses, and ``code`` the same with blanks for strings and comments. ``heads`` are
    those of the functions and blocks around it; in a macro there are none.
    """
    cuts = [-1, *_at_depth_0(code, ":"), len(code)]
    sections = list(pairwise(cuts))
    pieces = list(_pieces(inside, code, sections[0][1]))
    literals = [piece for piece in pieces if isinstance(piece, _Piece)]
    whole = "".join(piece.text for piece in literals)
    is_symbol = len(sections) == 1 and re.fullmatch(r"[\w.$]+", whole)
    hint = len(literals) == len(pieces) and not whole.strip(" \n\t;")
    device = any(map(_DEVICE.search, heads)) or is_ptx(whole) or (hint and _has_operands_of_ptx(inside, sections[1:3]))
    if is_symbol or not device:
        return None
    if len(literals) < len(pieces):
        unread = next(piece for piece in pieces if isinstance(piece, int))
        return _refused(inside, unread, "the text of this asm is not a string literal, so it cannot be translated")
    if "goto" in qualifiers or len(sections) > 4:
        return _refused(inside, 0, "asm goto is not there on the CPU")
    memory = len(sections) > 3 and '"memory"' in inside[sections[3][0] :]
    barrier = "__atomic_signal_fence(__ATOMIC_SEQ_CST); " if memory else ""
    if hint:
        return f"({{ {barrier}}})"
    in_kernel = "__global__" in _function(heads)
    try:
        operands = _Operands(inside, code, sections[1:3])
        made = translate(whole, operands.variables, in_kernel=in_kernel)
    except Untranslatable as error:
        piece = next((each for each in reversed(literals) if each.begin <= error.at), None)
        return _refused(inside, piece.start if piece is not None else 0, str(error))
    parts = [f"({{ {made.declarations}{operands.before}{barrier}"]
    end = 0
    for number, piece in enumerate(literals):
        after = literals[number + 1].begin if number + 1 < len(literals) else len(whole) + 1
        parts += _LINE_END.findall(inside[end : piece.start])
        parts += [statement for at, statement in made.statements if piece.begin <= at < after]
        end = piece.end if not _LINE_END.search(inside[piece.start : piece.end]) else piece.start
    return "".join(parts) + f"{barrier}{operands.after}}})"


def _has_operands_of_ptx(inside: str, sections: list[tuple[int, int]]) -> bool:
    """Whether there are operands, all with constraints that nvcc has and that mean something else in g++."""
    constraints = [each for begin, end in sections for each in re.findall(r'"([^"]*)"\s*\(', inside[begin + 1 : end])]
    return any(each.lstrip("=+&") in ("f", "h", "l", "d") for each in constraints) and all(
        each.lstrip("=+&") in _CONSTRAINTS for each in constraints
    )


class _Operands:
    """The operands of an asm: the C++ that binds and assigns them, and the variables that hold their bits."""

    def __init__(self, inside: str, code: str, sections: list[tuple[int, int]]) -> None:
        self.variables: dict[str, str] = {}
        self.before = self.after = ""
        outputs: list[str] = []
        number = 0
        for section, (begin, end) in enumerate(sections):
            if not code[begin + 1 : end].strip() and not inside[begin + 1 : end].strip():
                continue
            cuts = [begin, *_at_depth_0(code, ",", begin + 1, end), end]
            for first, last in pairwise(cuts):
                operand = _OPERAND.fullmatch(_without_comments(inside[first + 1 : last]))
                if operand is None:
                    raise Untranslatable(0, "an operand of this asm cannot be read")
                self._add(number, *operand.groups(), output=section == 0, outputs=outputs)
                number += 1

    def _add(
        self, number: int, name: str | None, constraint: str, value: str, *, output: bool, outputs: list[str]
    ) -> None:
        letter = constraint.lstrip("=+&")
        value = " ".join(value.split())
        if letter.isdigit() and not output and int(letter) < len(outputs):  # the register of an output
            variable = f"ptx_{letter}"
            self.before += f"{variable} = {_PTX}input<'{outputs[int(letter)]}'>({value}); "
        elif len(letter) != 1 or letter not in _CONSTRAINTS or (output and letter == "n"):
            raise Untranslatable(
                0,
                f"an operand with the constraint {constraint or 'of no letter'} is not yet on the CPU: {REMEDY}",
            )
        elif output:
            variable = f"ptx_{number}"
            made = f"input<'{letter}'>(ptx_place_{number})" if "+" in constraint else f"unwritten<'{letter}'>()"
            self.before += f"auto&& ptx_place_{number} = ({value}); auto {variable} = {_PTX}{made}; "
            self.after += f"{_PTX}assign(ptx_place_{number}, {variable}); "
            outputs.append(letter)
        else:
            variable = f"ptx_{number}"
            self.before += f"[[maybe_unused]] const auto {variable} = {_PTX}input<'{letter}'>({value}); "
        self.variables[f"%{number}"] = variable
        if name is not None:
            self.variables[f"%[{name}]"] = variable


def _refused(inside: str, at: int, what: str) -> str:
    """An error on the line of ``inside[at]``."""
    lines = "".join(_LINE_END.findall(inside[:at]))
    message = re.sub(r'["\\]', "'", what)
    return f'{lines}_Pragma("GCC error \\"inline PTX: {message}\\"") static_cast<void>(0)'


def _pieces(inside: str, code: str, end: int) -> Iterator[_Piece | int]:
    """The literals of the text, which ends at ``end``; or the place of something else."""
    at = begin = 0
    for token in _TOKEN.finditer(inside, 0, end):
        if re.sub(r"\\\n|\s", "", inside[at : token.start()]):
            break
        at = token.end()
        if token["comment"] is not None:
            continue
        if token["character"] is not None:
            break
        text = token["inside"] if token["raw"] is not None else _unquoted(token["text"])
        yield _Piece(begin, text, token.start(), token.end())
        begin += len(text)
    rest = re.sub(r"\\\n", "  ", inside[at:end])
    if rest.strip():
        yield at + len(rest) - len(rest.lstrip())


def _unquoted(literal: str) -> str:
    """Return the text of a C++ string literal."""
    held = {"n": "\n", "t": "\t", "r": " ", "v": " ", "f": " ", "\n": ""}
    return re.sub(r"\\(.)", lambda match: held.get(match[1], match[1]), literal[1:-1], flags=re.DOTALL)


def _without_comments(text: str) -> str:
    """The text with blanks for comments and for the backslashes that end lines."""
    return _TOKEN.sub(lambda match: " " if match["comment"] is not None else match[0], text).replace("\\\n", "  ")


def _blank(match: re.Match[str]) -> str:
    """Padded to the length of the text that it replaces, with its line ends."""
    return re.sub(r"[^\n\\]|\\(?!\n)", " ", match[0])


def _closing(code: str, opening: int) -> int | None:
    depth = 0
    for bracket in re.compile(r"[()]").finditer(code, opening):
        depth += 1 if bracket[0] == "(" else -1
        if depth == 0:
            return bracket.start()
    return None


def _at_depth_0(code: str, mark: str, begin: int = 0, end: int | None = None) -> list[int]:
    """The positions of ``mark`` outside of brackets."""
    depth, found = 0, []
    for at in range(begin, len(code) if end is None else end):
        depth += (code[at] in "([{") - (code[at] in ")]}")
        if depth == 0 and code[at] == mark:
            found.append(at)
    return found


def _in_a_macro(code: str, at: int) -> bool:
    """Whether this line is part of a ``#define``, possibly begun on an earlier line."""
    begin = code.rfind("\n", 0, at) + 1
    while begin >= 2 and code[begin - 2] == "\\":
        begin = code.rfind("\n", 0, begin - 1) + 1
    return re.match(r"[ \t]*#[ \t]*define\b", code[begin:at]) is not None


class _Heads:
    """For each place, the text before each brace that is open there, outermost first; places ascend."""

    def __init__(self, code: str) -> None:
        self.code = code
        self.marks = re.finditer(r"[{};]", code)
        self.next = next(self.marks, None)
        self.begin = 0
        self.opened: list[tuple[int, int]] = []

    def at(self, place: int) -> list[str]:
        while self.next is not None and self.next.start() < place:
            self._pass(self.next)
            self.next = next(self.marks, None)
        return [self.code[begin:end] for begin, end in self.opened]

    def _pass(self, mark: re.Match[str]) -> None:
        begin, self.begin = self.begin, mark.end()
        if mark[0] == "{":
            self.opened.append((begin, mark.start()))
        elif mark[0] == "}" and self.opened:
            start, _ = self.opened.pop()
            if _MORE_OF_A_HEAD.match(self.code, mark.end()):
                self.begin = start


def _function(heads: list[str]) -> str:
    """The head of the innermost function or lambda."""
    return next((head for head in reversed(heads) if _DEVICE.search(head) or re.search(r"\]\s*(\(|$)", head)), "")
