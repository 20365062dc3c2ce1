"""C++ text read without a parser: finds code, preprocessor lines, and matching brackets.

For any file, including torch's macros, in a build backend that has nothing but Python.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

_SKIPPED = re.compile(
    r"//[^\n]*|/\*.*?\*/|\bR\"(?P<mark>[^()\\\s]*)\(.*?\)(?P=mark)\"|\"(?:\\.|[^\"\\\n])*\"|(?<!\d)'(?:\\.|[^'\\\n])*'",
    re.DOTALL,
)
_DIRECTIVE = re.compile(r"^[ \t]*#[ \t]*(?P<name>\w*)(?P<rest>(?:\\\n|[^\n])*)", re.MULTILINE)
WORD = re.compile(r"[A-Za-z_]\w*")


def without_comments(text: str) -> str:
    """``text`` with blanks for comments and literals, of the same length; line ends and ``extern "C"`` are kept."""
    return _SKIPPED.sub(_blank, text)


def without_directives(code: str) -> str:
    """The same for preprocessor lines."""
    return _DIRECTIVE.sub(_blank, code)


def _blank(match: re.Match[str]) -> str:
    found = match[0]
    return found if found in ('"C"', '"C++"') else re.sub(r"[^\n]", " ", found)


@dataclass(frozen=True)
class Directive:
    """A preprocessor line, with its continuation lines: [start, end) excludes the last line end."""

    start: int
    end: int
    name: str
    rest: str

    @property
    def words(self) -> set[str]:
        return set(WORD.findall(self.rest))

    @property
    def opens(self) -> bool:
        return self.name in ("if", "ifdef", "ifndef")

    @property
    def continues(self) -> bool:
        return self.name.startswith("el")

    @property
    def conditional(self) -> bool:
        return self.opens or self.continues or self.name == "endif"

    @property
    def macro(self) -> str:
        """The name after ``#define`` or ``#undef``; otherwise ""."""
        found = WORD.match(self.rest.strip()) if self.name in ("define", "undef") else None
        return found[0] if found else ""

    @property
    def body(self) -> str:
        """A macro's text, with its parameters."""
        return self.rest.strip()[len(self.macro) :] if self.name == "define" else ""


def directives(code: str) -> Iterator[Directive]:
    """All preprocessor lines. ``code`` has blanks for comments."""
    for match in _DIRECTIVE.finditer(code):
        yield Directive(match.start(), match.end(), match["name"], match["rest"].replace("\\\n", "  "))


def words(code: str) -> set[str]:
    """The names and keywords in it."""
    return set(WORD.findall(code))


# ------------------------------------------------------------------------------------ declarations outside of functions


@dataclass(frozen=True)
class Scope:
    """The head of a namespace or a class, with its brace; its contents follow."""

    start: int
    end: int
    names: frozenset[str]


@dataclass(frozen=True)
class Declaration:
    """A function, another declaration that ends with a semicolon, or a macro that expands to one.

    Attributes:
        head_end: the start of a function's body; for others the end.
        opening: the brace of a function's body; None: it has none.
        crosses: it begins in an ``#if`` that ends inside it, or the other way round.
        names: the names that it declares.
    """

    start: int
    head_end: int
    end: int
    opening: int | None
    crosses: bool
    names: frozenset[str]


@dataclass(frozen=True)
class Group:
    """``#if`` to ``#endif`` around declarations: each branch, with the directive that begins it, and the last one."""

    branches: list[tuple[Directive, list[Scope | Declaration | Directive | Group]]]
    closing: Directive


Node = Scope | Declaration | Directive | Group


_BRACKET = re.compile(r"[{}();]")
_LABEL = re.compile(r"\s*(?:public|private|protected)\s*:(?!:)")
# A macro that is a declaration, after others that open or close a namespace.
_CALL_ALONE = re.compile(
    r"\s*(?:\w*(?:BEGIN|END|NAMESPACE)\w*\s*)*(?:[A-Z_][A-Z0-9_]*\s*\([^{}]*\))?\s*",
)
_ATTRIBUTE = re.compile(
    r"\[\[.*?\]\]|\b(?:__align__|alignas|__attribute__|__launch_bounds__|__cluster_dims__|__maxnreg__|__declspec)\s*"
    r"\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)",
    re.DOTALL,
)
_INNERMOST = re.compile(r"\([^(){}]*\)|\{[^(){}]*\}")
_TEMPLATE = re.compile(r"\s*template\s*<(?:[^<>]|<(?:[^<>]|<[^<>]*>)*>)*>")
_OF_SCOPE = re.compile(
    r"\s*(?:inline\s+)?namespace\b|\s*extern\s*\"C|\s*(?:\w+\s+)*?(?:class|struct|union)\b(?:[^()=]*$|[^()=]*[^:]:[^:])"
)
_ENUM = re.compile(r"\s*(?:typedef\s+)?enum\b")
_OPERATOR = re.compile(r"\boperator\s*(?:[^\s\w(]+|\(\s*\))")
_MEMBERS = re.compile(r"\)[\w\s]*:(?!:)")


def outline(code: str) -> tuple[list[Node], int | None]:
    """The declarations outside of functions, in order, and the offset from which brackets do not match; None: all do.

    Args:
        code: a file without its comments.
    """
    return _Outline(code).read()


def closing(code: str, opening: int) -> int | None:
    """The bracket that closes the one at ``opening``. Of an ``#if`` in between, one branch counts."""
    text = _Outline(code)
    number = next((i for i, (at, _, _) in enumerate(text.tokens) if at == opening), None)
    found = text.closing(number) if number is not None else None
    return None if found is None else text.tokens[found][0]


class _Outline:
    def __init__(self, code: str) -> None:
        self.code, self.plain = code, without_directives(code)
        tokens = [(match.start(), match[0], None) for match in _BRACKET.finditer(self.plain)]
        lines = [(directive.start, "#", directive) for directive in directives(code)]
        self.tokens: list[tuple[int, str, Directive | None]] = sorted([*tokens, *lines], key=lambda token: token[0])

    def closing(self, number: int) -> int | None:
        """The index of the token that closes this one."""
        depth, depths, i = 0, [], number
        while i < len(self.tokens):
            _, kind, directive = self.tokens[i]
            depth += (kind in "({") - (kind in ")}")
            if depth == 0:
                return i
            if directive is not None and directive.opens:
                depths.append(depth)
            elif directive is not None and directive.continues:
                if depths:
                    depth = depths[-1]
                else:
                    i = self._end_of_group(i)
            elif directive is not None and directive.name == "endif" and depths:
                depths.pop()
            i += 1
        return None

    def _end_of_group(self, i: int) -> int:
        """From one branch of an #if to its #endif."""
        depth = 0
        while i + 1 < len(self.tokens):
            i += 1
            directive = self.tokens[i][2]
            if directive is not None:
                depth += directive.opens - (directive.name == "endif")
                if depth < 0:
                    return i
        return i

    def _specifiers(self, i: int) -> int | None:
        """If this is an #if around the first words of a declaration, such as its specifiers, the token after its
        #endif."""
        directive = self.tokens[i][2]
        if directive is None or not directive.opens:
            return None
        end = self._end_of_group(i)
        inside = self.tokens[i + 1 : end]
        closes = self.tokens[end][2]
        if closes is None or closes.name != "endif" or any(token[1] in "{};" for token in inside):
            return None
        if any(token[2] is not None and not token[2].conditional for token in inside):
            return None
        text = self.plain[directive.end : closes.start]
        return end + 1 if text.strip() and not _CALL_ALONE.fullmatch(text) else None

    def read(self) -> tuple[list[Node], int | None]:
        found: list[Scope | Declaration | Directive] = []
        position = depth = 0
        saved: list[tuple[int, int]] = []
        i = 0
        while i < len(self.tokens):
            at, kind, directive = self.tokens[i]
            if label := _LABEL.match(self.plain, position, at):
                position = label.end()
            head = self.plain[position:at]
            start = at - len(self.code[position:at].lstrip())
            if directive is not None and not head.strip() and (after := self._specifiers(i)) is not None:
                position, i = directive.start, after  # a head begins
                continue
            if directive is not None:
                if head.strip() and (not directive.conditional or _CALL_ALONE.fullmatch(head)):
                    found.append(self._declaration(start, position + len(head.rstrip()), None, False))
                    head = ""
                if not head.strip():
                    found.append(directive)
                    position = directive.end
                if directive.opens:
                    saved.append((position, depth))
                elif directive.continues and saved:
                    depth = saved[-1][1]
                elif directive.name == "endif" and saved:
                    saved.pop()
            elif kind == ";":
                if head.strip():
                    found.append(self._declaration(start, at + 1, None, self._crosses(start, at)))
                position = at + 1
            elif kind == "}":
                if depth == 0:
                    return _grouped(found), position
                depth, position = depth - 1, at + 1
            elif kind == "{" and (what := _kind(head)) == "scope":
                found.append(Scope(start, at + 1, frozenset(_names(head))))
                depth, position = depth + 1, at + 1
            elif kind in "({":
                close = self.closing(i)
                if close is None:
                    return _grouped(found), position
                i = close
                if kind == "{" and what == "function":
                    end = self.tokens[close][0] + 1
                    found.append(self._declaration(start, end, at, self._crosses(start, end)))
                    position = end
            i += 1
        return _grouped(found), None if depth == 0 else position

    def _declaration(self, start: int, end: int, opening: int | None, crosses: bool) -> Declaration:
        head_end = end if opening is None else opening
        return Declaration(start, head_end, end, opening, crosses, frozenset(_names(self.plain[start:head_end])))

    def _crosses(self, start: int, end: int) -> bool:
        depth = 0
        for at, _, directive in self.tokens:
            if directive is not None and start < directive.end and at < end:
                depth += directive.opens - (directive.name == "endif")
                if depth < 0 or (depth == 0 and directive.continues):
                    return True
        return depth != 0


def _grouped(flat: list[Scope | Declaration | Directive]) -> list[Node]:
    """Makes a group of each #if that ends among the declarations."""
    nodes: list[Node] = []
    open_groups: list[tuple[list[Node], Group]] = []
    for each in flat:
        if isinstance(each, Directive) and each.opens:
            group = Group([(each, [])], each)
            open_groups.append((nodes, group))
            nodes = group.branches[0][1]
        elif isinstance(each, Directive) and each.continues and open_groups:
            nodes = []
            open_groups[-1][1].branches.append((each, nodes))
        elif isinstance(each, Directive) and each.name == "endif" and open_groups:
            nodes, group = open_groups.pop()
            nodes.append(replace(group, closing=each))
        else:
            nodes.append(each)
    while open_groups:  # those that end in a declaration
        nodes, group = open_groups.pop()
        for directive, inside in group.branches:
            nodes += [directive, *inside]
    return nodes


def _kind(head: str) -> str:
    """The kind of block that the brace after a head begins: a "scope" of declarations, a "function", or a "value" of
    another declaration."""
    head = _TEMPLATE.sub("", _ATTRIBUTE.sub(" ", head))
    if not _ENUM.match(head) and _OF_SCOPE.match(head):
        return "scope"
    head = _flat(head)
    if "()" not in head or "=" in _OPERATOR.sub("", head) or re.search(r"\brequires\s*(\(\))?\s*$", head):
        return "value"
    member = _MEMBERS.search(head) is not None and re.search(r"[\w>]\s*$", head) is not None
    return "value" if member else "function"


def _flat(head: str) -> str:
    """With the contents of its brackets removed."""
    while (shorter := _INNERMOST.sub("\0", head)) != head:
        head = shorter
    return head.replace("\0", "()")


def _names(head: str) -> Iterator[str]:
    """The names declared by a declaration with this head."""
    head = _flat(_TEMPLATE.sub("", _ATTRIBUTE.sub(" ", head)))
    while (shorter := re.sub(r"<[^<>]*>", "", head)) != head:
        head = shorter
    if found := re.search(r"\b(?:class|struct|union|enum|namespace)\b[\s\w]*?(\w+)\s*(?:[:;{]|$)", head):
        if "namespace" not in head:
            yield found[1]
    elif found := re.search(r"(\w+)\s*\(\)", head) or re.search(r"(\w+)\s*(?:=|\[|;|$)", head):
        yield found[1]
