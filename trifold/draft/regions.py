"""Kernels by regions: a block's threads run in a loop up to each barrier, instead of each on its own stack.

A region is the code between two barriers. If all threads of a block reach each barrier by the same control flow, the
kernel is rewritten for a whole block: loops and conditions around barriers remain, and each region becomes a loop over
the threads::

    for (int k = 0; k < n; k += 16) {         for (int k = 0; k < n; k += 16) {
      tile[t] = x[k + t];                       for each thread: tile[t] = x[k + t];
      __syncthreads();               becomes
      sum += tile[15 - t];                      for each thread: { sum = sum_of_threads[…]; sum += tile[15 - t]; … }
      __syncthreads();                        }
    }

Memory is accessed in the same order as by threads that wait on their own stacks, so that all results are the same, even
those of races. Variables are of three kinds:

- *of the block*: assigned outside of regions, from arguments, the block's index and other variables of the block only.
  Conditions around barriers read no others;
- *computed again*: assigned once, from threadIdx and variables of the block only, without reading memory;
- *kept*: an array with an element for each thread of the block, if several regions use them.

The technique is that of CUDA-to-CPU compilers: Stratton, Stone, Hwu, "MCUDA", LCPC 2008.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from trifold.draft import cpp
from trifold.draft.printer import function_text
from trifold.draft.walk import assigned_names, bodies, flat, names, rebuilt, walk

_MOST_THREADS = 1024
_BARRIER = "__syncthreads"
_CUDA_NAME = re.compile(r"\b__\w+")
_KNOWN = re.compile(
    r"__(?:global|device|forceinline|shared|constant)__|__syncthreads|__(?:popc|ffs|clz|brev)(?:ll)?|__\w+_rn|"
    r"__double_as_\w+|__half"
)
# Operations that may wait for other threads, or that depend on the running thread implicitly.
_OTHERS = re.compile(r"cooperative_groups|volatile|asm|nanosleep|lane_id|lanes_below|eq_sync|match_\w+_sync|printf")
# Functions of numbers only; and those that are as cheap to repeat as to store.
_PURE = re.compile(
    r"(?:std::)?[a-z]\w*|__\w+_rn|trifold::(?:floor_div|floor_mod|power|(?:python|numpy|numba)_\w+|number_t|degrees|radians).*"
)
_CHEAP = re.compile(r"min|max|abs|trifold::floor_(?:div|mod).*")
_LOOPS = (cpp.For, cpp.ForEach, cpp.While)
_THREAD = "thread_of_block"
_PASSED = cpp.Several([])  # a removed barrier


class _NotByRegionsError(Exception):
    """The kernel's threads need their own stacks."""


def by_regions(kernel: cpp.Function, called: Sequence[cpp.Function]) -> cpp.Function | None:
    """The kernel as code of a block; None: that is impossible. ``called``: the device functions."""
    try:
        return _Kernel(kernel, called).written()
    except _NotByRegionsError:
        return None


class _Kernel:
    def __init__(self, kernel: cpp.Function, called: Sequence[cpp.Function]) -> None:
        texts = [function_text(each) for each in called]
        for text in (function_text(kernel), *texts):
            _require(all(_KNOWN.fullmatch(name) for name in _CUDA_NAME.findall(text)) and not _OTHERS.search(text))
        _require(not any(re.search(rf"atomic|{_BARRIER}", text) for text in texts))
        self.kernel = kernel
        self.called = {each.name for each in called}
        self.parameters = {each.name for each in kernel.parameters}
        self.declared: dict[str, list[cpp.Stmt]] = {}
        self.values: dict[str, list[cpp.Expr | None]] = {}  # values assigned to each variable; None: in a region
        self.counters: set[str] = set()  # counters of loops around barriers
        body = list(flat(kernel.body))
        self._note(body, outside=True)
        _require(
            not any(
                re.fullmatch(rf"\w+_of_threads|\w+_storage|{_THREAD}", name)
                for name in {*self.declared, *self.parameters}
            )
        )
        self.of_block = self._of_block()
        self.regions: list[cpp.Threads] = []
        self.body = self._separated(body)
        self._require_barriers(self.body, touched=False)

    # --------------------------------------------------------------------------------------------- variables

    def _note(self, body: list[cpp.Stmt], *, outside: bool) -> None:
        """Record declarations and assignments. ``outside``: of code that may become a region."""
        for each in body:
            around = outside and _has_barrier(each)
            values: list[tuple[str, cpp.Expr | None]] = []
            if isinstance(each, (cpp.Declare, cpp.For, cpp.ForEach)):
                own = each.names if isinstance(each, cpp.Declare) else [each.name]
                for name in own:
                    self.declared.setdefault(name, []).append(each)
                if isinstance(each, cpp.Declare):
                    values = [(name, each.value if outside else None) for name in own if each.value is not None]
                elif isinstance(each, cpp.For) and isinstance(each.step, cpp.Assign) and around:
                    self.counters.add(each.name)
                    values = [(each.name, value) for value in (each.start, each.step.value)]
                else:
                    values = [(each.name, None)]
            elif isinstance(each, cpp.Assign) and isinstance(each.target, cpp.Name):
                values = [(each.target.text, each.value if outside else None)]
            for name, value in values:
                self.values.setdefault(name, []).append(value)
            for inner in bodies(each):
                self._note(inner, outside=around)

    def _of_block(self) -> set[str]:
        found = {name for name, values in self.values.items() if None not in values} | self.parameters
        found = {name for name in found if not any(map(_is_array, self.declared.get(name, [])))}
        while True:
            self.of_block = found
            left = {name for name in found if all(map(self._same_in_all, self.values.get(name, [])))}
            if left == found:
                return found
            found = left

    def _same_in_all(self, value: cpp.Expr | None) -> bool:
        """Whether all threads of a block compute the same value."""
        return value is not None and self._is_pure(value) and all(map(self._is_of_block, names(value)))

    def _is_of_block(self, name: str) -> bool:
        """Whether a variable is the block's; a name that the kernel does not declare is a constant."""
        return name in self.of_block or name not in {*self.declared, *self.parameters, "threadIdx"}

    def _is_fixed(self, name: str) -> bool:
        """Whether it keeps one value throughout its scope, except in the iterations of a loop around barriers."""
        return name in self.counters or (self._is_of_block(name) and len(self.values.get(name, [])) < 2)

    def _is_pure(self, node: cpp.Expr | cpp.Stmt, functions: re.Pattern[str] = _PURE) -> bool:
        """Whether it neither reads nor changes memory, and always computes the same."""
        for each in walk(node):
            if isinstance(each, cpp.CallTo):
                name = each.function
                if not functions.fullmatch(name) or name.partition("<")[0] in self.called or "atomic" in name:
                    return False
            elif isinstance(each, (cpp.Index, cpp.Invoke)) or (isinstance(each, cpp.Prefix) and each.operator in "&*"):
                return False
        return True

    # --------------------------------------------------------------------------------------------- regions

    def _separated(self, body: Iterable[cpp.Stmt]) -> list[cpp.Stmt]:
        """The statements of the block, including barriers, with regions between them."""
        found: list[cpp.Stmt] = []
        pending: list[cpp.Stmt] = []

        def close() -> None:
            if pending:
                self.regions.append(cpp.Threads(pending.copy(), line=pending[0].line))
                found.append(self.regions[-1])
                pending.clear()

        for each in body:
            if _is_barrier(each) or _has_barrier(each):
                close()
                found.append(_PASSED if _is_barrier(each) else self._around(each))
            elif isinstance(each, cpp.Declare) and each.type.startswith("__shared__"):
                found += _stored(each.type, each.names[0], each.names[0], each.extents)
            elif isinstance(each, cpp.Declare) and (_is_dynamic(each.value) or set(each.names) <= self.of_block):
                if each.value is not None and not all(map(self._is_fixed, names(each.value))):
                    close()
                found.append(each)
            elif isinstance(each, cpp.Assign) and assigned_names(each) & self.of_block:
                close()
                found.append(each)
            elif not isinstance(each, (cpp.Remark, cpp.Blank)):
                _require(not _jumps(each) and not assigned_names(each) & self.parameters)
                pending.append(each)
        close()
        return found

    def _around(self, each: cpp.Stmt) -> cpp.Stmt:
        """A loop or condition that contains a barrier."""
        if not isinstance(each, (cpp.For, cpp.While, cpp.If)):
            raise _NotByRegionsError
        _require(self._same_in_all(each.test) and (not isinstance(each, cpp.For) or each.name in self.of_block))
        changed: dict[str, Any] = {"body": self._separated(flat(each.body))}
        if isinstance(each, cpp.If):
            changed["otherwise"] = self._separated(flat(each.otherwise))
        return replace(each, **changed)

    def _require_barriers(self, body: Sequence[cpp.Stmt], *, touched: bool) -> bool:
        """Require a barrier between any two regions that access memory. Returns whether memory is accessed after the
        last barrier."""
        for each in body:
            if isinstance(each, cpp.Threads):
                if not all(map(self._is_pure, each.body)):
                    _require(not touched)
                    touched = True
            elif each is _PASSED:
                touched = False
            elif isinstance(each, (cpp.For, cpp.While)):
                once = self._require_barriers(each.body, touched=touched)
                touched = self._require_barriers(each.body, touched=once) or touched
            elif isinstance(each, cpp.If):
                ways = (each.body, each.otherwise)
                branches = [self._require_barriers(way, touched=touched) for way in ways]
                touched = any(branches)
        return touched

    # --------------------------------------------------------------------------------------------- what is written

    def written(self) -> cpp.Function:
        mentioned = [names(region) for region in self.regions]
        home = {
            name: number
            for number, region in enumerate(self.regions)
            for each in region.body
            if isinstance(each, cpp.Declare)
            for name in each.names
        }
        again = self._computed_again(home)
        kept: list[cpp.Declare] = []
        for name, number in home.items():
            others = any(name in found and n != number for n, found in enumerate(mentioned))
            if others or any(name in names(value) for value in again.values()):
                (declared, *more) = self.declared[name]
                _require(not more)
                if name not in again and isinstance(declared, cpp.Declare):
                    _require(not _is_array(declared))
                    kept.append(replace(declared, names=[name]))
        for number, region in enumerate(self.regions):
            self._complete(region, mentioned[number], {n for n in home if home[n] == number}, again, kept)
        body: list[cpp.Stmt] = [
            cpp.Declare("const dim3", ["blockDim"], cpp.Name("::blockDim")),
            cpp.Declare("const dim3", ["gridDim"], cpp.Name("::gridDim")),
            cpp.Declare("const uint3", ["blockIdx"], cpp.Name("::blockIdx")),
        ]
        for each in kept:
            kind = f"static thread_local {each.type.removeprefix('const ')}"
            body += _stored(kind, each.names[0], f"{each.names[0]}_of_threads", f"[{_MOST_THREADS}]")
        first = next((each.line for each in self.kernel.body if each.line), 0)
        for declared in body:  # a debugger that stops at the kernel shows its first line
            declared.line = first
        parameters = [cpp.Parameter("trifold::ByRegions", ""), *self.kernel.parameters]
        body += self.body
        return replace(self.kernel, qualifiers="inline", parameters=parameters, body=body)

    def _computed_again(self, home: dict[str, int]) -> dict[str, cpp.Expr]:
        """Variables that are recomputed, and their values, in the order of their declarations."""
        found: dict[str, cpp.Expr] = {}
        for name in home:
            declared, *more = self.declared[name]
            if more or not isinstance(declared, cpp.Declare) or declared.value is None or _is_array(declared):
                continue
            if len(self.values[name]) == 1 and self._is_pure(declared.value, _CHEAP):
                known = {*found, "threadIdx"}
                if all(each in known or self._is_fixed(each) for each in names(declared.value)):
                    found[name] = declared.value
        return found

    def _complete(
        self,
        region: cpp.Threads,
        mentioned: set[str],
        own: set[str],
        again: dict[str, cpp.Expr],
        kept: Sequence[cpp.Declare],
    ) -> None:
        """Insert the variables of other regions, and make accesses use the thread of the loop."""
        needed = mentioned - own
        for name in reversed(again):
            if name in needed:
                needed |= names(again[name]) - own
        first: list[cpp.Stmt] = [self.declared[name][0] for name in again if name in needed]
        last: list[cpp.Stmt] = []
        assigned = set().union(*map(assigned_names, region.body))
        for each in kept:
            (name,) = each.names
            place = cpp.Index(cpp.Name(f"{name}_of_threads"), (cpp.Name(_THREAD),))
            if name in needed:
                first.append(cpp.Declare(each.type.removeprefix("const "), [name], place))
            if name in own or name in assigned:
                last.append(cpp.Assign(place, "=", cpp.Name(name)))
        nodes = list(walk(region))
        if any(isinstance(each, cpp.Return) for each in nodes):
            _require(region is self.regions[-1] and any(region is each for each in self.body))
        loops = [each for each in nodes if isinstance(each, _LOOPS)]
        # A thread whose atomics repeatedly leave memory unchanged may be waiting for another thread.
        _require(not any("atomic" in called for loop in loops for called in _calls(loop)))
        calls = _calls(region)
        region.sets_index = bool(loops) or any("atomic" in each or each in self.called for each in calls)
        region.body = [rebuilt(each, _by_thread) for each in [*first, *region.body, *last]]


# ------------------------------------------------------------------------------------------------- the tree


def _require(right: bool) -> None:
    if not right:
        raise _NotByRegionsError


def _stored(kind: str, name: str, used: str, extents: str) -> list[cpp.Stmt]:
    """A variable in thread storage, whose address is computed once."""
    found = cpp.CallTo("trifold::found_once", (cpp.Name(f"{name}_storage"),))
    return [cpp.Declare(kind, [f"{name}_storage"], extents=extents), cpp.Declare("auto&", [used], found)]


def _calls(node: cpp.Stmt) -> set[str]:
    """The functions that it calls, without template arguments."""
    return {each.function.partition("<")[0] for each in walk(node) if isinstance(each, cpp.CallTo)}


def _is_array(declared: cpp.Stmt) -> bool:
    """Whether it declares an array, a pointer or a struct."""
    if not isinstance(declared, cpp.Declare):
        return False
    return bool(declared.extents) or not re.fullmatch(r"(const )?\w+", declared.type)


def _is_dynamic(value: cpp.Expr | None) -> bool:
    """Whether it is dynamic shared memory."""
    return isinstance(value, cpp.CallTo) and value.function.startswith("trifold::dynamic_shared")


def _is_barrier(each: cpp.Stmt) -> bool:
    return isinstance(each, cpp.Run) and isinstance(each.value, cpp.CallTo) and each.value.function == _BARRIER


def _has_barrier(each: cpp.Stmt) -> bool:
    return any(isinstance(inner, cpp.CallTo) and inner.function == _BARRIER for inner in walk(each))


def _jumps(each: cpp.Stmt) -> bool:
    """Whether it leaves an enclosing loop or iteration."""
    if isinstance(each, cpp.Jump):
        return True
    return not isinstance(each, _LOOPS) and any(_jumps(inner) for body in bodies(each) for inner in body)


def _by_thread(node: Any) -> Any:
    """An access with the thread that makes it as an argument; other nodes unchanged."""
    if isinstance(node, cpp.CallTo) and node.function.startswith("trifold::element<"):
        function = node.function.replace("element", "element_of", 1)
        return replace(node, function=function, arguments=(cpp.Name("threadIdx"), *node.arguments))
    return node
