"""``__CUDA_ARCH__`` in sources that g++ compiles once, for the host and for the device.

nvcc compiles a source twice, and defines the macro while it compiles device code. Here the text determines which code
is device code, and the preprocessor evaluates the conditions on the macro, so that any condition works:

    __device__, __global__    the function is enclosed in two #include lines, which define and undefine the macro
    __host__ __device__       where its body depends on the macro, it has the body twice, and looks who calls it;
                              constexpr functions too, which device code may call
    other functions           stay as they are: the macro is not defined
    #if outside of functions  both ways of it are found out first; device code follows the device's way, host functions
                              follow the host's, and all else follows either
    macros of such an #if     have the device's text in device code, and the host's elsewhere

What would have two meanings in one place is an error of g++ at its line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from trifold.build import cpp_text
from trifold.build.cpp_text import Declaration, Directive, Group, Scope

Key = TypeVar("Key")

ARCH = "__CUDA_ARCH__"
BEGIN, END = "trifold_device_code_begins.h", "trifold_device_code_ends.h"

_FOR_HOST, _FOR_DEVICE = {"__host__"}, {"__device__", "__global__", "__constant__", "__shared__", "__managed__"}
# Macros that consist of these words change neither the kind of a declaration nor its meaning.
_SPECIFIERS = _FOR_HOST | _FOR_DEVICE | {"inline", "__inline__", "__inline", "__forceinline__", "__noinline__"}
_LAMBDA = re.compile(r"\][^;{}\]]*\Z")
_INCLUDE_BEGIN, _INCLUDE_END = f'#include "{BEGIN}"', f'#include "{END}"'


@dataclass(frozen=True)
class Rewritten(Generic[Key]):
    """Sources with their device code marked, and the headers that they need, by name; none: nothing changed."""

    texts: dict[Key, str]
    headers: dict[str, str] = field(default_factory=dict)


def rewrite(texts: Mapping[Key, str], named: Callable[[Key], str], capability: str) -> Rewritten[Key]:
    """The files of one program; all lines keep their numbers.

    Args:
        texts: the files that may include each other.
        named: a file's name as a string literal of C++, for ``#line``.
        capability: of the GPU: ``"9.0"`` makes the macro 900.
    """
    if not any(ARCH in text for text in texts.values()):
        return Rewritten(dict(texts))
    codes = {key: cpp_text.without_comments(text) for key, text in texts.items()}
    program = _Program(codes.values())
    made = {key: _File(program, text, codes[key], named(key)).rewritten() for key, text in texts.items()}
    number = "".join(capability.split(".")) + "0"
    return Rewritten(made, {BEGIN: program.beginning(number), END: program.ending()})


@dataclass(frozen=True)
class _Leaf:
    """One branch of an ``#if``: the macros that are defined if the host, and if the device, takes it."""

    host: str
    device: str

    @property
    def differs(self) -> str:
        return f"defined({self.host}) != defined({self.device})"


@dataclass
class _Program:
    """State shared by all files of a program.

    Attributes:
        depends: macros whose text or definedness depends on ``__CUDA_ARCH__``; and that macro itself.
        leaves: for macros defined under such an ``#if``: where.
    """

    depends: set[str]
    leaves: dict[str, list[tuple[str, _Leaf, str]]]

    def __init__(self, codes: Iterable[str]) -> None:
        self.depends, self.leaves, self._groups = {ARCH}, {}, 0
        self._bodies: dict[str, list[str]] = {}
        conditions: dict[str, set[str]] = {}
        for code in codes:
            _gather(code, self._bodies, conditions)
        self._conditions = conditions
        while new := self._dependent() - self.depends:
            self.depends |= new
        self.for_host, self.for_device = (self._markers(words) for words in (_FOR_HOST, _FOR_DEVICE))

    def _dependent(self) -> set[str]:
        of_text = {name for name, bodies in self._bodies.items() if cpp_text.words(" ".join(bodies)) & self.depends}
        return of_text | {name for name, words in self._conditions.items() if words & self.depends}

    def _markers(self, words: set[str]) -> set[str]:
        """The words, and the macros that expand to them, except macros that are whole functions."""
        found = set(words)
        while True:
            more = {
                name
                for name, bodies in self._bodies.items()
                if any("{" not in body and cpp_text.words(body) & found for body in bodies)
            }
            if more <= found:
                return found
            found |= more

    def group(self) -> int:
        self._groups += 1
        return self._groups

    def differing(self, code: str) -> str | None:
        """The condition under which this code differs between host and device; None: never."""
        found, waiting = set(), list(cpp_text.words(code) & self.depends)
        while waiting:
            name = waiting.pop()
            if name == ARCH:
                return "1"
            bodies = self._bodies.get(name, [])
            if name not in found and not all(_SPECIFIERS.issuperset(body.split()) for body in bodies):
                found.add(name)
                waiting += cpp_text.words(" ".join(bodies)) & self.depends
        places = [place for name in sorted(found) for place in self.leaves.get(name, [])]
        return " || ".join(f"(defined({mark}) && {leaf.differs})" for mark, leaf, _ in places) or None

    def beginning(self, number: str) -> str:
        lines = [f"#define {ARCH} {number}", *(f'#pragma push_macro("{name}")' for name in self.leaves)]
        places = [(name, *place) for name, all_places in self.leaves.items() for place in all_places]
        for name, mark, leaf, _ in places:
            lines += [f"#if defined({mark}) && {leaf.differs}", f"#undef {name}", "#endif"]
        for _, mark, leaf, directive in places:
            lines += [f"#if defined({mark}) && defined({leaf.device}) && !defined({leaf.host})"]
            lines += [directive, "#endif"]
        return "\n".join([*lines, ""])

    def ending(self) -> str:
        return "\n".join([*(f'#pragma pop_macro("{name}")' for name in self.leaves), f"#undef {ARCH}", ""])


def _gather(code: str, bodies: dict[str, list[str]], conditions: dict[str, set[str]]) -> None:
    """The texts of all macros, and for each the words of the conditions under which it is defined."""
    waiting: list[set[str]] = []
    for directive in cpp_text.directives(code):
        if directive.opens:
            waiting.append(set(directive.words))
        elif directive.name.startswith(("el", "end")) and waiting:
            if directive.name == "endif":
                waiting.pop()
            else:
                waiting[-1] |= directive.words
        elif directive.macro:
            bodies.setdefault(directive.macro, []).append(directive.body)
            # An #ifndef of the macro itself, or of the header, selects nothing.
            conditions.setdefault(directive.macro, set()).update(*waiting)


class _File:
    """One file, and its edits."""

    def __init__(self, program: _Program, text: str, code: str, name: str) -> None:
        self.program, self.text, self.code, self.name = program, text, code, name
        self.plain = cpp_text.without_directives(code)
        self.edits: list[tuple[int, int, str]] = []

    def rewritten(self) -> str:
        if not cpp_text.words(self.code) & self.program.depends:
            return self.text
        nodes, unread = cpp_text.outline(self.code)
        self._emit(nodes, None)
        if unread is not None and (found := self._first_use(unread)) is not None:
            self._refuse(found, "1", f"{ARCH}: the brackets of this file cannot be matched")
        parts, at = [], 0
        for start, end, new in sorted(self.edits, key=lambda edit: edit[:2]):
            parts += [self.text[at:start], new]
            at = end
        return "".join([*parts, self.text[at:]])

    def _first_use(self, begin: int) -> int | None:
        """The start of the first line that depends on the macro."""
        for word in cpp_text.WORD.finditer(self.code, begin):
            if word[0] in self.program.depends:
                return self.code.rfind("\n", 0, word.start()) + 1
        return None

    # ------------------------------------------------------------------------------------------------ the outline

    def _emit(self, nodes: list[cpp_text.Node], leaf: _Leaf | None) -> None:
        for node in nodes:
            match node:
                case Group() if self._depends(*(directive.rest for directive, _ in node.branches)):
                    self._choose(node, leaf)
                case Group():
                    for _, inside in node.branches:
                        self._emit(inside, leaf)
                case Declaration() if node.opening is not None:
                    self._function(node, leaf)
                case Declaration() if self._kind(node) == "device":
                    self._device(node.start, node.end, leaf, self._depends(self.code[node.start : node.end]))
                case Declaration() | Scope():
                    self._either(node.start, self.code[node.start : node.end])
                case Directive() if node.opens and self._depends(node.rest):
                    self._refuse(node.start, "1", f"{ARCH}: a declaration begins in this #if and ends outside of it")
                case Directive() if node.macro and leaf is not None:
                    self._macro(node, leaf)

    def _depends(self, *codes: str) -> bool:
        return any(cpp_text.words(code) & self.program.depends for code in codes)

    def _kind(self, node: Declaration) -> str:
        words = cpp_text.words(self.plain[node.start : node.head_end])
        device, host = bool(words & self.program.for_device), bool(words & self.program.for_host)
        if not device and not host and node.opening is not None and "constexpr" in words:
            return "both"  # device code may call it (nvcc's --expt-relaxed-constexpr)
        return "both" if device and host else "device" if device else "host"

    def _either(self, start: int, code: str) -> None:
        """Code that both host and device see: it must not differ."""
        if (condition := self.program.differing(code)) is not None:
            what = f"{ARCH} here has one value for the host and another for the device: use it in functions alone"
            self._refuse(start, condition, what)

    def _function(self, node: Declaration, leaf: _Leaf | None) -> None:
        kind, opening = self._kind(node), node.opening
        assert opening is not None
        depends = self._depends(self.code[node.start : node.end])
        if depends and node.crosses:
            # After this, some of the branches in which the function begins are not compiled.
            says = f"{ARCH}: this function begins in an #if and ends outside of it"
            self._edit(node.end, f"\n{self._error(node.start, says)}{self._here(node.end)}")
        elif kind == "device":
            self._device(node.start, node.end, leaf, depends)
        elif kind == "both":
            self._either(node.start, self._head(node.start, opening))
            if self._depends(self.code[opening : node.end]):
                self._double(opening, node.end - 1)
        else:
            if depends:
                self._lambdas(opening, node.end)
            if leaf is not None:
                self._between(node.start, node.end, f"#ifdef {leaf.host}", "#endif")

    def _head(self, start: int, opening: int) -> str:
        """The head of a function, without an #if that only selects specifiers."""
        code, plain = self.code[start:opening], self.plain[start:opening]
        depth, before, chosen = 0, 0, ""
        for directive in cpp_text.directives(code):
            chosen += plain[before : directive.start] if depth else ""
            depth += directive.opens - (directive.name == "endif")
            before = directive.end
        specifiers = self.program.for_host | self.program.for_device | _SPECIFIERS
        return plain if specifiers.issuperset(chosen.split()) else code

    def _lambdas(self, begin: int, end: int) -> None:
        """The device code within a host function."""
        last = begin
        for bracket in re.finditer(r"[;{}]", self.plain[begin:end]):
            at = begin + bracket.start()
            head = self.plain[last + 1 : at]
            last = max(last, at)
            if bracket[0] != "{" or not (found := _LAMBDA.search(head)):
                continue
            words, close = cpp_text.words(found[0]), cpp_text.closing(self.code, at)
            if close is None or not words & self.program.for_device or not self._depends(self.code[at:close]):
                continue
            last = close
            if words & self.program.for_host:
                self._double(at, close)
            else:
                self._between(at + 1, close, _INCLUDE_BEGIN, _INCLUDE_END)

    def _device(self, start: int, end: int, leaf: _Leaf | None, depends: bool) -> None:
        before = [f"#ifdef {leaf.device}"] if leaf is not None else []
        after = ["#endif"] if leaf is not None else []
        if depends:
            before, after = [*before, _INCLUDE_BEGIN], [_INCLUDE_END, *after]
        if before:
            self._between(start, end, "\n".join(before), "\n".join(after))

    def _double(self, opening: int, close: int) -> None:
        """The body for the host, and the body for the device; the caller determines which one runs."""
        self._edit(opening + 1, " if (!::trifold::cpu::in_device_code()) {")
        body = self.text[opening + 1 : close]
        device = f"{_INCLUDE_BEGIN}{self._here(opening + 1)}{body}\n{_INCLUDE_END}{self._here(close)}"
        self._edit(close, f"}} else {{\n{device}}}")

    # ----------------------------------------------------------------------------------- an #if outside of functions

    def _choose(self, group: Group, outer: _Leaf | None) -> None:
        number = self.program.group()
        leaves = [
            _Leaf(f"TRIFOLD_HOST_{number}_{i}", f"TRIFOLD_DEVICE_{number}_{i}") for i in range(len(group.branches))
        ]
        first = group.branches[0][0]
        lines = [f"#line {self._line(first.start)} {self.name}"]
        lines += [f"#undef {each}" for leaf in leaves for each in (leaf.host, leaf.device)]
        for device in (False, True):
            choice = [
                line
                for (directive, _), leaf in zip(group.branches, leaves, strict=True)
                for line in (self._whole(directive), f"#define {leaf.device if device else leaf.host}")
            ]
            choice.append("#endif")
            if device:
                choice = [_INCLUDE_BEGIN, *choice, _INCLUDE_END]
            if outer is not None:
                choice = [f"#ifdef {outer.device if device else outer.host}", *choice, "#endif"]
            lines += choice
        for i, ((directive, inside), leaf) in enumerate(zip(group.branches, leaves, strict=True)):
            lines += [*(["#endif"] if i else []), f"#if defined({leaf.host}) || defined({leaf.device})"]
            lines += list(self._conflicts(group, leaves, i))
            self.edits.append((directive.start, directive.end, self._lines(lines, directive.end)))
            self._emit(inside, leaf)
            lines = []
        # The lines that were added to branches that are not taken count.
        self._edit(group.closing.end, self._lines([""], group.closing.end))

    def _conflicts(self, group: Group, leaves: list[_Leaf], i: int) -> Iterator[str]:
        """Errors if the device takes this branch, the host another one, and both declare the same name."""
        here, leaf = self._names(group.branches[i][1], "host"), leaves[i]
        for j, (_, inside) in enumerate(group.branches):
            shared = sorted(here & self._names(inside, "device")) if i != j else []
            if shared:
                says = f"{shared[0]} is declared twice by {ARCH}, for the host and for the device: declare it once, "
                says += "with the #if in its body"
                yield f"#if defined({leaf.device}) && defined({leaves[j].host})"
                yield from (self._error(group.branches[i][0].start, says), "#endif")

    def _names(self, nodes: list[cpp_text.Node], without: str) -> set[str]:
        """The names that the nodes declare, except host functions, or device-only ones."""
        names: set[str] = set()
        for node in nodes:
            if isinstance(node, Group):
                names.update(*(self._names(inside, without) for _, inside in node.branches))
            elif isinstance(node, Scope) or (isinstance(node, Declaration) and not self._is(node, without)):
                names |= node.names
        return names

    def _is(self, node: Declaration, what: str) -> bool:
        kind = self._kind(node)
        return kind == what and (what == "device" or node.opening is not None)

    def _macro(self, directive: Directive, leaf: _Leaf) -> None:
        mark = f"TRIFOLD_MACRO_{self.program.group()}"
        self.program.leaves.setdefault(directive.macro, []).append((mark, leaf, self._whole(directive)))
        before = [f"#define {mark}", f"#ifdef {leaf.host}", f"#line {self._line(directive.start)} {self.name}"]
        self._edit(directive.start, "\n".join([*before, ""]))
        self._edit(directive.end, self._lines(["", "#endif"], directive.end))

    def _whole(self, directive: Directive) -> str:
        """Its text, without a comment that may continue on the next line."""
        text = self.text[directive.start : directive.end]
        return f"#{directive.name}{directive.rest}" if "/*" in text else text

    # ------------------------------------------------------------------------------------------------------- edits

    def _edit(self, at: int, new: str) -> None:
        self.edits.append((at, at, new))

    def _between(self, start: int, end: int, before: str, after: str) -> None:
        self._edit(start, f"\n{before}{self._here(start)}")
        self._edit(end, f"\n{after}{self._here(end)}")

    def _refuse(self, start: int, condition: str, what: str) -> None:
        self._edit(start, f"\n#if {condition}\n{self._error(start, what)}\n#endif{self._here(start)}")

    def _error(self, at: int, what: str) -> str:
        return f'#line {self._line(at)} {self.name}\n#pragma GCC error "{what}"'

    def _line(self, at: int) -> int:
        return self.text.count("\n", 0, at) + 1

    def _here(self, at: int) -> str:
        """Ends a preprocessor line; the text after it has the line and column of ``at``."""
        return f"\n#line {self._line(at)} {self.name}\n{' ' * (at - self.text.rfind(chr(10), 0, at) - 1)}"

    def _lines(self, lines: list[str], end: int) -> str:
        """Preprocessor lines that replace one that ends at ``end``."""
        return "\n".join([*lines, f"#line {self._line(end) + 1} {self.name}"])
