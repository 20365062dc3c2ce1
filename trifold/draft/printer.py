"""Prints the C++ tree in this project's format (clang-format, Google's style with 120 columns)."""

from __future__ import annotations

import functools
import shutil
import subprocess
import sys
from pathlib import Path

from trifold.draft import cpp
from trifold.errors import ToolchainError

STYLE = (
    "{BasedOnStyle: Google, ColumnLimit: 120, AllowShortCaseLabelsOnASingleLine: true, "
    "AllowShortFunctionsOnASingleLine: Inline, IncludeBlocks: Preserve}"
)

_PRECEDENCE = {
    "*": 10, "/": 10, "%": 10,
    "+": 9, "-": 9,
    "<<": 8, ">>": 8,
    "<": 7, "<=": 7, ">": 7, ">=": 7,
    "==": 6, "!=": 6,
    "&": 5, "^": 4, "|": 3, "&&": 2, "||": 1,
}  # fmt: skip
_TERNARY, _PREFIX, _POSTFIX = 0, 11, 12

# Operators whose precedence surprises, or for which a compiler warns: parenthesised although not necessary.
_CLEARER = {"<<", ">>", "&", "^", "|"}


def expression(node: cpp.Expr) -> str:
    return _print(node)[0]


def _print(node: cpp.Expr) -> tuple[str, int]:
    match node:
        case cpp.Name(text=text):
            return text, _POSTFIX
        case cpp.Literal(text=text):
            return text, _PREFIX if text.startswith("-") else _POSTFIX
        case cpp.Prefix(operator=op, operand=operand):
            inner = _within(operand, _PREFIX)
            return op + (f"({inner})" if inner.startswith(op) else inner), _PREFIX
        case cpp.Infix(operator=op, left=left, right=right):
            level = _PRECEDENCE[op]
            again = isinstance(right, cpp.Infix) and right.operator == op and op in ("&&", "||")
            return f"{_operand(left, op, level)} {op} {_operand(right, op, level if again else level + 1)}", level
        case cpp.Ternary(test=test, chosen=chosen, otherwise=otherwise):
            return f"{_within(test, 1)} ? {_within(chosen, 1)} : {_within(otherwise, _TERNARY)}", _TERNARY
        case cpp.CallTo(function=function, arguments=arguments):
            return f"{function}({', '.join(expression(each) for each in arguments)})", _POSTFIX
        case cpp.Index(base=base, indices=indices):
            return _within(base, _POSTFIX) + "".join(f"[{expression(each)}]" for each in indices), _POSTFIX
        case cpp.Member(base=base, name=name):
            return f"{_within(base, _POSTFIX)}.{name}", _POSTFIX
        case cpp.Cast(to=to, operand=operand):
            if isinstance(operand, cpp.Literal) and cpp.holds(to, operand.value):
                return f"{to}{{{expression(operand)}}}", _POSTFIX
            if isinstance(operand, cpp.Name) and cpp.widens(operand.type, to):
                return f"{to}{{{expression(operand)}}}", _POSTFIX
            form = f"{to}({{}})" if to[0].isupper() or to.startswith("trifold::") else f"static_cast<{to}>({{}})"
            return form.format(expression(operand)), _POSTFIX
        case cpp.Braces(elements=elements, of=of):
            return of + "{" + ", ".join(expression(each) for each in elements) + "}", _POSTFIX
        case cpp.Invoke(callee=callee, arguments=arguments):
            return f"{_within(callee, _POSTFIX)}({', '.join(expression(each) for each in arguments)})", _POSTFIX
    raise AssertionError(type(node).__name__)


def _within(node: cpp.Expr, least: int) -> str:
    text, level = _print(node)
    return text if level >= least else f"({text})"


def _operand(node: cpp.Expr, op: str, least: int) -> str:
    if isinstance(node, cpp.Infix):
        mixed = op in _CLEARER or (op == "||" and node.operator == "&&")
        if mixed and node.operator != op:
            return f"({expression(node)})"
    return _within(node, least)


def _comment(text: str) -> str:
    """A comment. A backslash at its end, or the trigraph for it, would make the next line a part of it."""
    line = f"// {text}".rstrip()
    return f"{line}." if line.endswith(("\\", "??/")) else line


class Printer:
    def __init__(self, line_directives: bool) -> None:
        self.lines: list[str] = []
        self.directives = line_directives
        self.path = ""

    def file(self, file: cpp.File) -> str:
        self.lines += [_comment(line) for line in file.comment]
        self.lines += ["#pragma once", ""] if file.once else [""]
        self.lines += [f"#include {name}" if name else "" for name in file.includes]
        before: object = None
        for part in file.parts:
            if not (isinstance(before, cpp.ConstantDefinition) and isinstance(part, cpp.ConstantDefinition)):
                self.lines.append("")
            before = part
            match part:
                case cpp.ConstantDefinition(type=kind, name=name, value=value, remark=remark):
                    self._put(f"inline constexpr {kind} {name} = {value};", remark)
                case cpp.AliasDefinition(name=name, value=value):
                    template = ", ".join(f"class {each}" for each in part.parameters)
                    self.lines += [f"template <{template}>", f"using {name} = {value};"]
                case cpp.PairsDefinition(type=kind, name=name, pairs=pairs):
                    values = ", ".join(f"{{{key}, {value}}}" for key, value in pairs)
                    self._put(f"constexpr std::pair<int64_t, {kind}> {name}[] = {{{values}}};")
                case cpp.TableDefinition(type=kind, name=name, shape=shape):
                    extents = "".join(f"[{length}]" for length in shape)
                    values = _nested_braces(shape, part.values)
                    self._put(f"static __constant__ const {kind} {name}{extents} = {values};")
                case cpp.Struct(name=name, template=template, members=members):
                    self.lines += [f"template <{template}>"] if template else []
                    self.lines += [f"struct {name} {{", *(f"{kind} {member};" for kind, member in members), "};"]
                case cpp.Assertion(test=test):
                    self._put(f"static_assert({test});")
                case cpp.Function():
                    self.function(part)
        return "\n".join(self.lines).strip() + "\n"

    def _put(self, text: str, remark: str = "") -> None:
        self.lines.append(f"{text}  {_comment(remark)}" if remark else text)

    def function(self, function: cpp.Function) -> None:
        self.path = function.path
        self.lines += [_comment(line) for line in function.comment]
        self.lines += [f"template <{function.template}>"] if function.template else []
        parameters = ", ".join(f"{each.type} {each.name}" for each in function.parameters)
        self._put(f"{function.qualifiers} {function.result} {function.name}({parameters}) {{")
        self._body(function.body)
        self.lines.append("}")

    def _body(self, body: list[cpp.Stmt]) -> None:
        for statement in body:
            self._statement(statement)

    def _statement(self, node: cpp.Stmt) -> None:
        if self.directives and node.line and not isinstance(node, (cpp.Remark, cpp.Blank)):
            self.lines.append(f'#line {node.line} "{self.path}"')
        match node:
            case cpp.Remark(text=text):
                self.lines.append(_comment(text))
            case cpp.Blank():
                self.lines.append("")
            case cpp.If(test=test, body=body, otherwise=otherwise):
                if node.constant:
                    self._nested(f"if constexpr ({expression(test)})", body, node.remark)
                else:
                    self._if(test, body, otherwise, node.remark)
            case cpp.While(test=test, body=body):
                self._nested(f"while ({expression(test)})", body, node.remark)
            case cpp.For():
                step = self._simple(node.step)
                head = f"for ({node.type} {node.name} = {expression(node.start)}; {expression(node.test)}; {step})"
                self._nested(head, node.body, node.remark)
            case cpp.Several(body=body):
                self._body(body)
            case cpp.Scope(body=body):
                self.lines.append("{")
                self._body(body)
                self.lines.append("}")
            case cpp.Threads(body=body, sets_index=sets_index):
                head = f"trifold::for_each_thread<{str(sets_index).lower()}>(blockDim, [&]"
                self.lines.append(
                    f"{head}(uint3 threadIdx, unsigned thread_of_block) __attribute__((always_inline)) {{"
                )
                self._body(body)
                self.lines.append("});")
            case cpp.Dispatch(function=function, over=over, body=body):
                self.lines.append(f"{function}({expression(over)}, [&]<class {node.parameter}>() {{")
                self._body(body)
                self.lines.append("});")
            case cpp.ForEach():
                self._nested(f"for ({node.type} {node.name} : {expression(node.values)})", node.body, node.remark)
            case _:
                self._put(self._simple(node) + ";", node.remark)

    def _nested(self, head: str, body: list[cpp.Stmt], remark: str) -> None:
        if len(body) == 1 and not remark and not self.directives and self._is_simple(body[0]):
            self.lines.append(head)
            self._statement(body[0])
            return
        self._put(f"{head} {{", remark)
        self._body(body)
        self.lines.append("}")

    def _is_simple(self, node: cpp.Stmt) -> bool:
        return isinstance(node, (cpp.Assign, cpp.Run, cpp.Return, cpp.Jump)) and not node.remark

    def _if(self, test: cpp.Expr, body: list[cpp.Stmt], otherwise: list[cpp.Stmt], remark: str) -> None:
        if not otherwise:
            self._nested(f"if ({expression(test)})", body, remark)
            return
        self._put(f"if ({expression(test)}) {{", remark)
        self._body(body)
        while len(otherwise) == 1 and isinstance(otherwise[0], cpp.If) and not self.directives:
            chained = otherwise[0]
            self._put(f"}} else if ({expression(chained.test)}) {{", chained.remark)
            self._body(chained.body)
            otherwise = chained.otherwise
        if otherwise:
            self.lines.append("} else {")
            self._body(otherwise)
        self.lines.append("}")

    def _simple(self, node: cpp.Stmt) -> str:
        match node:
            case cpp.Declare(type=kind, names=names, value=value, extents=extents):
                text = f"{kind} {', '.join(names)}{extents}"
                return text if value is None else f"{text} = {expression(value)}"
            case cpp.Assign(target=target, operator=op, value=value):
                one = isinstance(value, cpp.Literal) and value.value == 1 and not isinstance(value.value, float)
                if one and op in ("+=", "-="):
                    return f"{op[0] * 2}{expression(target)}"
                return f"{expression(target)} {op} {expression(value)}"
            case cpp.Run(value=value):
                return expression(value)
            case cpp.Return(value=value):
                return "return" if value is None else f"return {expression(value)}"
            case cpp.Jump(word=word):
                return word
        raise AssertionError(type(node).__name__)


def _nested_braces(shape: tuple[int, ...], values: list[cpp.Expr]) -> str:
    if len(shape) == 1:
        return expression(cpp.Braces(tuple(values)))
    step = len(values) // shape[0]
    rows = [_nested_braces(shape[1:], values[start : start + step]) for start in range(0, len(values), step)]
    return "{" + ", ".join(rows) + "}"


def function_text(function: cpp.Function) -> str:
    """The unformatted text of one function."""
    printer = Printer(line_directives=False)
    printer.function(function)
    return "\n".join(printer.lines)


def print_file(file: cpp.File, *, line_directives: bool = False) -> str:
    text = Printer(line_directives).file(file)
    return text if line_directives else formatted(text)


@functools.cache
def _clang_format() -> str:
    beside = Path(sys.executable).with_name("clang-format")
    found = str(beside) if beside.is_file() else shutil.which("clang-format")
    if found is None:
        raise ToolchainError("clang-format is missing", "pip install clang-format==23.1.5")
    return found


def formatted(text: str) -> str:
    """The text in this project's format."""
    command = [_clang_format(), f"--style={STYLE}", "--assume-filename=kernel.cuh"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout
