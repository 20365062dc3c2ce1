"""Copies a function's comments and empty lines to C++."""

from __future__ import annotations

from trifold.draft import cpp
from trifold.draft import tree as t
from trifold.draft.source import Source


class Remarks:
    def __init__(self, source: Source) -> None:
        self.source = source
        self.first = source.lines_begin
        body_begins = source.body[0].lineno if source.body else source.tree.lineno
        self.waiting = [c for c in source.comments if c.alone and c.line > source.tree.lineno]
        self.beside = {c.line: c.text for c in source.comments if not c.alone}
        self.last = body_begins - 1

    def of(self, statement: t.Stmt, *, first: bool) -> tuple[list[cpp.Stmt], str]:
        """The comments before a statement, and the one at the end of its line."""
        line = statement.place.line
        before: list[cpp.Stmt] = []
        own = [comment for comment in self.waiting if comment.line < line]
        self.waiting = self.waiting[len(own) :]
        begins = own[0].line if own else line
        if not first and begins > self.last + 1 and not self._text(begins - 1).strip():
            before.append(cpp.Blank())
        before += [cpp.Remark(comment.text) for comment in own]
        beside = [self.beside.pop(n) for n in range(line, statement.last_line + 1) if n in self.beside]
        self.last = max(self.last, statement.last_line)
        return before, " ".join(beside)

    def _text(self, line: int) -> str:
        return self.source.lines[line - self.first]
