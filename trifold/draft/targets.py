"""Assignments to several targets, and unpacking, for :class:`trifold.draft.builder.Builder`."""

from __future__ import annotations

import ast

from numba import types

from trifold.draft import tree as t
from trifold.draft.folding import folded
from trifold.draft.refusal import DraftError, Place
from trifold.draft.source import Source


class Targets:
    """A base class of the builder."""

    source: Source
    local: set[str]
    aliases: dict[str, t.Known]
    dtypes: dict[str, t.Expr]

    def _version(self, name: str, place: Place) -> t.Version:
        raise NotImplementedError

    def _expression(self, node: ast.expr) -> t.Expr:
        raise NotImplementedError

    def _indices(self, node: ast.expr) -> list[t.Expr]:
        raise NotImplementedError

    def _let(self, name: str, value: t.Expr, place: Place, last: int) -> t.Let:
        version = self._version(name, place)
        version.value = value
        return t.Let(place, last, version, value)

    def _alias(self, name: str, known: t.Known) -> None:
        """``tid = cuda.threadIdx``: another name for something that is no number."""
        if self.source.stores(name) > 1 or name in self.source.parameters:
            problem = f"{name}, a name for something that is no number, is assigned more than once"
            raise DraftError(known.place, problem, "give each its own name")
        self.aliases[name] = known

    def _assign(self, target: ast.expr, value: ast.expr, place: Place, last: int) -> list[t.Stmt]:
        match target, value:
            case ast.Name(id=name), ast.Attribute(attr="type", value=ast.Attribute(attr="dtype", value=array)):
                self.dtypes[name] = self._expression(array)
                return []
        match target:
            case ast.Name(id=name):
                built = self._expression(value)
                if isinstance(built, t.Known):
                    self._alias(name, built)
                    return []
                return [self._let(name, built, place, last)]
            case ast.Subscript(value=base, slice=ast.Constant(value=str(name))) | ast.Attribute(value=base, attr=name):
                built = self._expression(value)
                return [t.Store(place, last, self._expression(base), [], built, member=name)]
            case ast.Subscript(value=base, slice=index):
                built = self._expression(value)
                return [t.Store(place, last, self._expression(base), self._indices(index), built)]
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                if any(isinstance(each, ast.Starred) for each in elements):
                    break_up = "assign the elements one by one"
                    raise DraftError(place, "an assignment to a starred name is not translated", break_up)
                return self._unpack(elements, value, place, last)
        raise DraftError(place, "this assignment is not translated", "assign to one variable or element at a time")

    def _unpack(self, targets: list[ast.expr], value: ast.expr, place: Place, last: int) -> list[t.Stmt]:
        if isinstance(value, ast.IfExp) and any(isinstance(each, ast.Call) for each in ast.walk(value.test)):
            name = self._new_name("chosen", value)  # the condition selects each element, and is computed once
            held: list[t.Stmt] = [self._let(name.id, self._expression(value.test), place, last)]
            choice = ast.copy_location(ast.IfExp(name, value.body, value.orelse), value)
            return [*held, *self._unpack(targets, choice, place, last)]
        flat = _flattened(targets, value)
        if flat is not None:
            targets, parts = flat
            value = ast.copy_location(ast.Tuple(parts, ast.Load()), value)
        if not all(isinstance(each, ast.Name) for each in targets):
            return self._assign_parts(targets, value, place, last)
        built, versions = self._expression(value), []
        written = built.elements if isinstance(value, ast.Tuple) and isinstance(built, t.TupleOf) else []
        if any(isinstance(each, t.Known) for each in written):
            return self._assign_parts(targets, value, place, last)
        for part, each in enumerate(targets):
            assert isinstance(each, ast.Name)
            version = self._version(each.id, place)
            if isinstance(built, t.TupleOf) and part < len(built.elements):
                version.value = built.elements[part]
            else:
                version.value, version.part = built, part
            versions.append(version)
        return [t.Unpack(place, last, versions, built)]

    def _assign_all(self, targets: list[ast.expr], value: ast.expr, place: Place, last: int) -> list[t.Stmt]:
        """``a = b = value``, which computes the value once."""
        if folded(value) is not None:
            return [each for target in targets for each in self._assign(target, value, place, last)]
        first, *others = targets
        if not isinstance(first, ast.Name):
            first, others = self._new_name("value", first), targets
        computed = self._expression(value)
        converts = isinstance(computed, t.Call) and isinstance(computed.function, types.Number)
        if converts and all(isinstance(each, t.Constant) for each in computed.children()):  # float32(0)
            return [each for target in targets for each in self._assign(target, value, place, last)]
        built: list[t.Stmt] = [self._let(first.id, computed, place, last)]
        again = ast.copy_location(ast.Name(first.id, ast.Load()), first)
        for target in others:
            built += self._assign(target, again, place, last)
        return built

    def _new_name(self, wanted: str, at: ast.expr) -> ast.Name:
        """A variable name that is not in the kernel's text."""
        name, number = wanted, 2
        while name in self.local:
            name, number = f"{wanted}{number}", number + 1
        self.local.add(name)
        return ast.copy_location(ast.Name(name, ast.Load()), at)

    def _assign_parts(self, targets: list[ast.expr], value: ast.expr, place: Place, last: int) -> list[t.Stmt]:
        """``a[i], b = ...`` or ``(a, b), c = ...``: all values are computed, then assigned from left to right."""
        direct = self._assign_directly(targets, value, place, last)
        if direct is not None:
            return direct
        in_order = any(
            isinstance(each, ast.Subscript | ast.Attribute) for target in targets for each in ast.walk(target)
        )
        names: list[ast.expr] = []
        for number, target in enumerate(targets):
            alone = isinstance(target, ast.Name) and not in_order
            names.append(target if alone else self._new_name(_part_name(target, number), target))
        whole = ast.copy_location(ast.Tuple(names, ast.Store()), targets[0])
        built = self._assign(whole, value, place, last)
        for target, own in zip(targets, names, strict=True):
            if target is not own:
                built += self._assign(target, own, place, last)
        return built

    def _assign_directly(
        self, targets: list[ast.expr], value: ast.expr, place: Place, last: int
    ) -> list[t.Stmt] | None:
        """Separate assignments, if no value reads an earlier target; or a swap of two elements."""
        if not isinstance(value, ast.Tuple) or len(value.elts) != len(targets):
            return None
        pairs = list(zip(targets, value.elts, strict=True))
        if any(isinstance(target, ast.Tuple | ast.List) for target in targets):
            return None
        if not any(_may_read(own, target) for n, (_, own) in enumerate(pairs) for target in targets[:n]):
            return [each for target, own in pairs for each in self._assign(target, own, place, last)]
        if len(pairs) == 2 and [ast.unparse(own) for _, own in pairs] == [ast.unparse(each) for each in targets[::-1]]:
            name = self._new_name(f"old_{_base_name(targets[0])}", targets[0])
            kept = self._assign(name, pairs[1][1], place, last)
            return [*kept, *self._assign(*pairs[0], place, last), *self._assign(targets[1], name, place, last)]
        return None


def _may_read(value: ast.expr, target: ast.expr) -> bool:
    """Whether a value may change when the target is assigned."""
    if isinstance(target, ast.Name):
        return target.id in t.read_names([value])
    return any(isinstance(each, ast.Subscript | ast.Attribute | ast.Call) for each in ast.walk(value))


def _base_name(target: ast.expr) -> str:
    while isinstance(target, ast.Subscript | ast.Attribute):
        target = target.value
    return target.id if isinstance(target, ast.Name) else "value"


def _part_name(target: ast.expr, number: int) -> str:
    """The name of an element of a tuple that is itself unpacked."""
    if isinstance(target, ast.Tuple) and all(isinstance(each, ast.Name) for each in target.elts):
        return "_".join(each.id for each in target.elts if isinstance(each, ast.Name))
    return f"new_{_base_name(target)}" if isinstance(target, ast.Subscript | ast.Attribute) else f"new{number}"


def _flattened(targets: list[ast.expr], value: ast.expr) -> tuple[list[ast.expr], list[ast.expr]] | None:
    """``(a, b), c = (x, y), z`` as ``a, b, c = x, y, z``; None: another form."""
    if not isinstance(value, ast.Tuple) or len(value.elts) != len(targets):
        return None
    flat: tuple[list[ast.expr], list[ast.expr]] = [], []
    for target, part in zip(targets, value.elts, strict=True):
        inner = _flattened(target.elts, part) if isinstance(target, ast.Tuple | ast.List) else None
        for own, more in zip(flat, inner or ([target], [part]), strict=True):
            own += more
    return flat
