"""C++ variables for Python's: one for all versions that meet, declared where all its uses are in scope."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from numba import types

from trifold.draft import tree as t
from trifold.draft.cpp import fits, limits
from trifold.draft.macros import MACROS
from trifold.draft.refusal import DraftError
from trifold.draft.tree import Interval, Type

Path = tuple[tuple[int, int], ...]  # from the function's body inwards: a list of statements, and an index in it

#: Words that nothing in C++ can be named.
KEYWORDS = MACROS | frozenset(
    """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char class compl concept const constexpr
    continue co_await co_return co_yield decltype default delete do double dynamic_cast else enum explicit export
    extern false float for friend goto if inline int long mutable namespace new noexcept not not_eq nullptr operator
    or or_eq private protected public register reinterpret_cast requires return short signed sizeof static
    static_assert static_cast struct switch template this thread_local throw true try typedef typeid typename union
    unsigned using virtual void volatile wchar_t while xor xor_eq
    """.split()  # noqa: SIM905
)


@dataclass(eq=False)
class Variable:
    name: str
    type: Type  # in C++
    versions: list[t.Version]
    interval: Interval | None = None
    home: tuple[int, ...] = ()  # the enclosing lists of statements of its declaration
    before: t.Stmt | None = None  # the statement at which, or before which, it is declared
    is_parameter: bool = False
    of_loop: bool = False  # declared by a for statement
    assignments: int = 0
    starts: bool = False  # that statement initialises it


@dataclass(eq=False)
class Variables:
    function: t.Function
    of: dict[t.Version, Variable] = field(default_factory=dict)
    all: list[Variable] = field(default_factory=list)


def choose_variables(function: t.Function, taken: set[str]) -> Variables:
    """Assign a variable to each version that is read. ``taken``: names that C++ uses otherwise."""
    chosen = Variables(function)
    places = _Places(function)
    groups = _meeting(function)
    named: dict[str, list[Variable]] = {}
    for versions in groups:
        variable = _variable(versions, places)
        others = named.setdefault(versions[0].name, [])
        if not variable.of_loop:
            related = [o for o in others if not o.of_loop and _related(o.home, variable.home)]
            # Two values of one name are never needed at the same time.
            same = next((o for o in related if o.type == variable.type and not _is_array(o.type)), None)
            if same is not None:
                same.versions += variable.versions
                _settle(same, places)
                for version in versions:
                    chosen.of[version] = same
                continue
            if related:
                variable.name = free_name(f"{variable.name}{len(related) + 1}", taken | set(named))
        others.append(variable)
        chosen.all.append(variable)
        for version in versions:
            chosen.of[version] = variable
    for variable in chosen.all:
        if variable.name in KEYWORDS or variable.name in taken:
            variable.name = free_name(f"{variable.name}_", taken)
    return chosen


def free_name(name: str, taken: set[str]) -> str:
    """The name, or one that nothing has."""
    while name in taken:
        name += "_"
    return name


def _is_array(kind: Type) -> bool:
    return any(isinstance(each, types.Array | types.Record) for each in kind)


def _related(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    """Whether one of the two contains the other."""
    least = min(len(a), len(b))
    return a[:least] == b[:least]


def _meeting(function: t.Function) -> list[list[t.Version]]:
    """The groups of versions that share a variable: those that meet at a join that is read."""
    parent: dict[t.Version, t.Version] = {}

    def root(version: t.Version) -> t.Version:
        while parent.get(version, version) is not version:
            version = parent[version]
        return version

    for version in function.versions:
        if version.is_join and version.is_read:
            for source in version.sources:
                _require_type(version, source)
                parent[root(source)] = root(version)
    groups: dict[t.Version, list[t.Version]] = {}
    for version in function.versions:
        if version.is_read or version.parameter is not None or version.counts or version.runs_over:
            groups.setdefault(root(version), []).append(version)
    return sorted(groups.values(), key=lambda group: min(function.versions.index(v) for v in group))


def _require_type(join: t.Version, source: t.Version) -> None:
    """A variable of a wider type can hold the assigned value, but must not be read in the value's own type."""
    if source.type == join.type or source.type is None or join.type is None:
        return
    if all(_holds(wide, narrow, None) for wide, narrow in zip(join.type, source.type, strict=True)):
        return
    if any(isinstance(each, types.BaseTuple | types.Array | types.Record) for each in join.type):
        raise DraftError(
            source.place, f"{join.name} is of different types by different ways", "give it one type, or two names"
        )


def _variable(versions: list[t.Version], places: _Places) -> Variable:
    joined = [version for version in versions if version.is_join and version.is_read]
    # What meets has the type of the last join: Numba unifies types as they meet.
    kinds = {version.type for version in joined} or {versions[0].type}
    if len(kinds) > 1:
        kinds = _widest(joined)
    if len(kinds) > 1:
        first = joined[0]
        names = " and ".join(sorted(str(kind[0]) for kind in kinds if kind))
        raise DraftError(first.place, f"{first.name} is {names} at different places", "use two names")
    (kind,) = kinds
    assert kind is not None
    for version in versions:
        if version in places.read_directly and not all(
            _holds(wide, narrow, version.interval) for wide, narrow in zip(kind, version.type or (), strict=True)
        ):
            raise DraftError(
                version.place,
                f"{version.name} is {version.type[0] if version.type else '?'} here, and {kind[0]} where it meets "
                "other values of this name",
                "convert it where it is assigned, or use two names",
            )
    name = versions[0].name if versions[0].name != "_" else "turn"
    loops = [version for version in versions if version.counts or version.runs_over]
    parameters = [version for version in versions if version.parameter is not None]
    variable = Variable(name, kind, list(versions))
    if parameters:
        variable.is_parameter = True
    elif loops and len(versions) == 1 and not places.assigned_in(loops[0]):
        variable.of_loop = True
    _settle(variable, places)
    return variable


def _widest(joined: list[t.Version]) -> set[Type | None]:
    """The one of these versions' types that has every value of all others; all types, if none does."""
    kinds = {version.type for version in joined}
    for wide in kinds:
        pairs = [(zip(wide or (), version.type or (), strict=True), version.interval) for version in joined]
        if all(_holds(a, b, interval) for pair, interval in pairs for a, b in pair):
            return {wide}
    return kinds


def _holds(wide: types.Type, narrow: types.Type, interval: Interval | None) -> bool:
    """Whether a variable of the wide type has each value of the narrow one."""
    if wide == narrow:
        return True
    if isinstance(wide, types.Array) and isinstance(narrow, types.Array):
        return (wide.dtype, wide.ndim, wide.layout) == (narrow.dtype, narrow.ndim, "A")
    if isinstance(narrow, types.Integer | types.Boolean):
        bounds = interval or limits(narrow) or (0, 0)
        if isinstance(wide, types.Float):
            exact = 2**53 if wide == types.float64 else 2**24
            return -exact <= bounds[0] and bounds[1] <= exact
        return fits(bounds, wide)
    for family in (types.Float, types.Complex):
        if isinstance(narrow, family) and isinstance(wide, family):
            return bool(narrow.bitwidth <= wide.bitwidth)
    return False


def _settle(variable: Variable, places: _Places) -> None:
    intervals = [version.interval for version in variable.versions]
    known = [each for each in intervals if each is not None]
    if known:
        variable.interval = min(low for low, _ in known), max(high for _, high in known)
        if not variable.is_parameter:
            variable.type = narrowed(variable.type, variable.interval)
    paths = [path for version in variable.versions for path in places.of.get(version, [])]
    variable.assignments = sum(not version.is_join and version.parameter is None for version in variable.versions)
    if variable.is_parameter or not paths:
        return
    depth = 0
    while (
        all(len(path) > depth + 1 for path in paths) and len({(path[depth], path[depth + 1][0]) for path in paths}) == 1
    ):
        depth += 1
    variable.home = tuple(step[0] for step in paths[0][: depth + 1])
    first = min(path[depth][1] for path in paths)
    variable.before = places.statement[variable.home[-1], first]
    variable.starts = isinstance(variable.before, (t.Let, t.Unpack)) and any(
        len(path) == depth + 1 and path[depth][1] == first and places.is_definition(version, path)
        for version in variable.versions
        for path in places.of.get(version, [])
    )


def narrowed(kind: Type, interval: Interval | None) -> Type:
    """int instead of int64, if it has all of the values."""
    if all(each in (types.int64, types.uint64) for each in kind) and fits(interval, types.int32):
        return (types.int32,) * len(kind)
    return kind


class _Places:
    """The places where each version is assigned and read."""

    def __init__(self, function: t.Function) -> None:
        self.of: dict[t.Version, list[Path]] = {}
        self.statement: dict[tuple[int, int], t.Stmt] = {}
        self.definitions: set[tuple[t.Version, Path]] = set()
        self.read_directly: set[t.Version] = set()
        self._assigned: dict[t.Version, bool] = {}
        at: dict[t.Stmt, Path] = {}
        for statement, path in self._walk(function.body, ()):
            at[statement] = path
            for outer in t.expressions(statement):
                for each in t.walk_expression(outer):
                    if isinstance(each, t.Read):
                        self.read_directly.add(each.version)
                        self._note(each.version, path)
            for version in _defined_by(statement):
                self._note(version, path)
                self.definitions.add((version, path))
        for version in function.versions:
            if version.joined_at is not None and version.is_read:
                self._note(version, at[version.joined_at])
        for version in function.versions:
            if version.counts or version.runs_over:
                loop = version.counts or version.runs_over
                assert loop is not None
                inner = {v.name for s in t.walk(loop.body) for v in _defined_by(s)}
                around = at[loop]
                lives_on = any(path[: len(around)] != around for path in self.of.get(version, []))
                self._assigned[version] = (
                    lives_on
                    or version.name in inner
                    or any(v.is_join and v.is_read and version in v.sources for v in function.versions)
                )

    def _walk(self, body: list[t.Stmt], around: Path) -> Iterator[tuple[t.Stmt, Path]]:
        for number, statement in enumerate(body):
            path = (*around, (id(body), number))
            self.statement[id(body), number] = statement
            yield statement, path
            for inner in t.bodies(statement):
                yield from self._walk(inner, path)

    def _note(self, version: t.Version, path: Path) -> None:
        self.of.setdefault(version, []).append(path)

    def is_definition(self, version: t.Version, path: Path) -> bool:
        return (version, path) in self.definitions

    def assigned_in(self, version: t.Version) -> bool:
        """Whether a loop's variable is also assigned within the loop, or used after it."""
        return self._assigned[version]


def _defined_by(statement: t.Stmt) -> list[t.Version]:
    match statement:
        case t.Let(version=version):
            return [version]
        case t.Unpack(versions=versions):
            return versions
        case t.ForRange(version=version) | t.ForTuple(version=version) if version is not None:
            return [version]
    return []
