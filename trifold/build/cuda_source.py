"""A parsed file of CUDA text: its functions, kernels and includes, and edits of it."""

from __future__ import annotations

import codecs
import functools
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tree_sitter import Language, Node, Parser

from trifold.build.launch_bounds import CLUSTER_CONSTANT
from trifold.build.sources import INCLUDE_ROOT

DEVICE = re.compile(rb"\b__(?:global|device)__\b")
_WORD = re.compile(rb"[A-Za-z_]\w*")
_LINE_END = re.compile(rb"\\?\n")  # a macro goes on after a backslash
_ALIGNMENT = re.compile(rb"\b__align__[ \t]*\([^()\n]*\)")


@dataclass(frozen=True)
class Kernel:
    """A ``__global__`` function as its text has it.

    Attributes:
        parameters: their names, "" where one has none.
        template: its template parameters; empty if it is no template.
        namespaces: the named ones that it is in, the outermost first.
        cluster: the extents of its ``__cluster_dims__``.
        references: which parameters are references.
        overloaded: the program has another kernel of this name.
    """

    name: str
    parameters: tuple[str, ...]
    template: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    cluster: str = ""
    references: tuple[bool, ...] = ()
    overloaded: bool = False


@dataclass(frozen=True)
class Edit:
    """Replaces bytes [start, end) by ``text``; the newlines among them, and continued lines, are kept after it."""

    start: int
    end: int
    text: str


@functools.cache
def _parser() -> Parser:
    import tree_sitter_cuda

    return Parser(Language(tree_sitter_cuda.language()))


def parse(content: bytes) -> Node:
    """The syntax tree of a text; unreadable parts are error nodes.

    The grammar lacks ``__align__``: after the error that results, a later ``<`` may hide a whole kernel.
    """
    return _parser().parse(_ALIGNMENT.sub(lambda match: b" " * len(match[0]), content)).root_node


def walk(node: Node) -> Iterator[Node]:
    """A node and its descendants, in the order of the text."""
    waiting = [node]
    while waiting:
        current = waiting.pop()
        yield current
        waiting += reversed(current.children)


class SourceFile:
    """One file of a program. ``masked`` is its text with blanks for comments and strings.

    ``rewrite`` changes the text before it is parsed, without moving lines.
    """

    def __init__(
        self, path: Path, folders: tuple[Path, ...], rewrite: Callable[[bytes], bytes] = lambda content: content
    ) -> None:
        self.path = path
        self.content = rewrite(path.read_bytes().removeprefix(codecs.BOM_UTF8))
        self.root = parse(self.content)
        self.nodes = list(walk(self.root))
        self.masked = _without_comments_and_strings(self.content, self.nodes)
        self.functions = [node for node in self.nodes if node.type == "function_definition"]
        self.kernels = tuple(self._kernels())
        self.kernels_declared = set(self._kernels_declared())
        self.defined = set(self._defined())
        self.includes = dict(self._includes(folders))

    def text(self, node: Node) -> str:
        return self.content[node.start_byte : node.end_byte].decode(errors="replace")

    def is_device(self, function: Node) -> bool:
        """Whether it is device code."""
        body = function.child_by_field_name("body")
        head_end = body.start_byte if body is not None else function.end_byte
        return DEVICE.search(self.masked, function.start_byte, head_end) is not None

    def _kernels(self) -> Iterator[Kernel]:
        for function, name, parameters in self._kernel_heads(self.functions):
            template = tuple(self._template_parameters(function))
            declared = self._parts(parameters)
            names = tuple(map(_parameter_name, declared))
            references = tuple(b"&" in each.partition(b"=")[0] for each in declared)
            dims = CLUSTER_CONSTANT.search(self.masked, parameters.end_byte, function.end_byte)
            cluster = "" if dims is None else dims[1].decode()
            yield Kernel(self.text(name), names, template, tuple(self._namespaces(function)), cluster, references)

    def _kernels_declared(self) -> Iterator[tuple[str, int]]:
        """The names of kernels that are declared without a body, and how many parameters they have there."""
        for _, name, parameters in self._kernel_heads(node for node in self.nodes if node.type == "declaration"):
            yield self.text(name), len(self._parts(parameters))

    def _kernel_heads(self, declarations: Iterable[Node]) -> Iterator[tuple[Node, Node, Node]]:
        """Those of the declarations that are of kernels, with their names and parameters."""
        for node in declarations:
            declarator = node.child_by_field_name("declarator")
            while declarator is not None and declarator.type != "function_declarator":
                declarator = declarator.child_by_field_name("declarator")
            if declarator is None or b"__global__" not in self.masked[node.start_byte : declarator.start_byte]:
                continue
            name, parameters = (declarator.child_by_field_name(each) for each in ("declarator", "parameters"))
            if name is not None and parameters is not None:
                yield node, name, parameters

    def _parts(self, parameters: Node) -> list[bytes]:
        return _split(self.masked[parameters.start_byte + 1 : parameters.end_byte - 1])

    def _template_parameters(self, function: Node) -> Iterator[str]:
        parent = function.parent
        if parent is None or parent.type != "template_declaration":
            return
        declared = parent.child_by_field_name("parameters")
        for node in declared.named_children if declared is not None else ():
            if node.type != "comment":
                yield self.text(node)

    def _namespaces(self, node: Node) -> list[str]:
        """The names of the scopes around a node, outermost first."""
        parent = node.parent
        if parent is None:
            return []
        name = parent.child_by_field_name("name") if parent.type == "namespace_definition" else None
        inner = [] if name is None else [part.strip() for part in self.text(name).split("::")]
        return self._namespaces(parent) + inner

    def _defined(self) -> Iterator[str]:
        for node in self.nodes:
            if node.type in ("function_declarator", "preproc_def", "preproc_function_def"):
                name = node.child_by_field_name("declarator") or node.child_by_field_name("name")
                if name is not None:
                    yield self.text(name)

    def function_around(self, offset: int) -> Node | None:
        """The function whose text contains this byte."""
        around = (node for node in self.functions if node.start_byte <= offset < node.end_byte)
        return next(around, None)

    def declared_in(self, function: Node) -> set[str]:
        """The names of a function's parameters and variables."""
        own = _declarator(function)
        return {self.text(node) for node in walk(function) if _declares(node) and node != own}

    @functools.cached_property
    def declared_outside(self) -> set[str]:
        """The names, except kernels, that the file declares outside of functions: functions, macros, types, …."""
        names: set[str] = set()
        waiting = [self.root]
        while waiting:
            node = waiting.pop()
            if _declares(node) and not self._of_kernel(node):
                names.add(self.text(node))
            waiting += [child for child in node.children if child.type not in ("compound_statement", "parameter_list")]
        return names

    def _of_kernel(self, name: Node) -> bool:
        """Whether a name is that of a kernel where it is declared."""
        node: Node | None = name
        while node is not None and node.type not in ("function_definition", "declaration", "field_declaration"):
            node = node.parent
        return node is not None and b"__global__" in self.masked[node.start_byte : name.start_byte]

    def _includes(self, folders: tuple[Path, ...]) -> Iterator[tuple[Node, Path]]:
        for node, name, quoted in self.included():
            for folder in ((self.path.parent,) if quoted else ()) + folders:
                found = folder / name
                if found.is_file() and not found.resolve().is_relative_to(INCLUDE_ROOT):
                    yield node, found.resolve()
                    break

    def included(self) -> Iterator[tuple[Node, str, bool]]:
        """Each ``#include``: its node, the name in it, and whether that is in quotes."""
        for node in self.nodes:
            path = node.child_by_field_name("path") if node.type == "preproc_include" else None
            if path is not None:
                text = self.text(path)
                yield node, text.strip('<>"'), text.startswith('"')

    def bodies(self) -> Iterator[tuple[bytes, list[Node], int]]:
        """The text with its nodes, then each macro's body parsed as a function's; the number is the offset from a byte
        there to the byte here."""
        yield self.content, self.nodes, 0
        before = b"void f() {"
        for node in self.nodes:
            if node.type == "preproc_arg":
                body = before + self.content[node.start_byte : node.end_byte] + b";}"
                yield body, list(walk(parse(body))), node.start_byte - len(before)

    def calls(self, node: Node) -> str:
        """The name of the called function; "" if the node is not a call."""
        callee = node.child_by_field_name("function") if node.type == "call_expression" else None
        return "" if callee is None else self.text(callee)

    def given_to_graph(self, node: Node) -> Node | None:
        """The kernel, where a node is what gives one to ``cudaKernelNodeParams``; else None."""
        if node.type == "assignment_expression":
            left = node.child_by_field_name("left")
            field = left.child_by_field_name("field") if left is not None else None
            return node.child_by_field_name("right") if field is not None and self.text(field) == "func" else None
        if node.type == "initializer_pair":
            designator = node.child_by_field_name("designator")
            is_kernel = designator is not None and self.text(designator) == ".func"
            return node.child_by_field_name("value") if is_kernel else None
        if node.type != "declaration":
            return None
        kind, declared = node.child_by_field_name("type"), node.child_by_field_name("declarator")
        value = declared.child_by_field_name("value") if declared is not None else None
        if kind is None or value is None or self.text(kind) != "cudaKernelNodeParams":
            return None
        return value.named_children[0] if value.named_children else None

    def apply(self, edits: list[Edit]) -> str:
        """The text with the edits; edits inside a removed part are dropped."""
        parts, at = [], 0
        for edit in sorted(edits, key=lambda edit: (edit.start, edit.end)):
            if edit.start < at:
                continue  # inside what is left out
            lines = _LINE_END.findall(self.content, edit.start, edit.end)
            parts += [self.content[at : edit.start], edit.text.encode(), *lines]
            at = edit.end
        return b"".join([*parts, self.content[at:]]).decode(errors="surrogateescape")


_NAMES = ("identifier", "field_identifier", "type_identifier")
_NAMED = ("preproc_def", "preproc_function_def", "class_specifier", "struct_specifier", "alias_declaration")


def _declares(name: Node) -> bool:
    """Whether a name is the declared name at this place."""
    parent = name.parent
    if parent is None or name.type not in _NAMES:
        return False
    if parent.type in _NAMED:
        return parent.child_by_field_name("name") == name
    if parent.type == "init_declarator":
        return parent.child_by_field_name("declarator") == name
    return "declarator" in parent.type or parent.child_by_field_name("declarator") == name


def _declarator(function: Node) -> Node | None:
    """The name of a function where it is defined."""
    node = function.child_by_field_name("declarator")
    while node is not None and node.type not in _NAMES:
        node = node.child_by_field_name("declarator")
    return node


def _without_comments_and_strings(content: bytes, nodes: list[Node]) -> bytes:
    masked = bytearray(content)
    for node in nodes:
        if node.type in ("comment", "string_literal", "raw_string_literal", "char_literal"):
            blank = re.sub(rb"[^\n]", b" ", content[node.start_byte : node.end_byte])
            masked[node.start_byte : node.end_byte] = blank
    return bytes(masked)


def _split(parameters: bytes) -> list[bytes]:
    """Splits at the commas outside of brackets."""
    parts, depth = [b""], 0
    for i in range(len(parameters)):
        c = parameters[i : i + 1]
        depth += (c in b"<([{") - (c in b">)]}")
        if c == b"," and depth == 0:
            parts.append(b"")
        else:
            parts[-1] += c
    return parts if parameters.strip() else []


def _parameter_name(declaration: bytes) -> str:
    words = _WORD.findall(declaration.partition(b"=")[0].partition(b"[")[0])
    return words[-1].decode() if len(words) > 1 else ""
