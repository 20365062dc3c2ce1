"""Random kernels, for comparing what runs them: simulator, compiled drafts, Numba on a GPU.

    python -m tests.draft.fuzz SEED    prints the module of that seed, in the form of tests/draft/kernels

A program is made of a list of numbers, each of which decides one choice; where the list ends, each further choice is
the simplest. So a shorter list, or one of smaller numbers, is a simpler program: :func:`shrunk` looks for one.

Programs terminate, keep indices in range, have no race, and compile for CUDA: integers that bits are taken of never
become floats, as an int64 and a uint64 in one variable would. No condition and no integer depends on a float that was
computed, so that integers must agree bit for bit, and floats within some ulps.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

SIGNED = ("int64", "int32", "int16", "int8")
#: CPython folds those with an operator.
CONSTANT_INTEGERS = ("0x7F", "0xFFFFFFFF", "(0x10 - 5)", "(0xFF << 24)")
INTEGERS = (*SIGNED, "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float64", "float32", "float16")
THREADS, BLOCKS, SLOTS = 8, 2, 4  # a block's threads, blocks, and results of each kind of a thread
_LENGTH = 600
_DEEPEST = 3

_HEAD = '''"""A generated kernel."""

import math

import numpy as np
from numba import cuda

SCALE = 3
RATIO = np.float32(0.75)
WIDTHS = (1, 2, 4)


@cuda.jit(device=True)
def whole(x):
    return np.int32(x) if -1000.0 < x < 1000.0 else np.int32(7)

'''


@dataclass
class Choices:
    """The numbers that decide a program."""

    numbers: Sequence[int]
    taken: int = 0

    def below(self, count: int) -> int:
        """A number less than ``count``; 0 after the last."""
        number = self.numbers[self.taken] if self.taken < len(self.numbers) else 0
        self.taken += 1
        return number % count

    def one(self, options: Sequence[str]) -> str:
        return options[self.below(len(options))]


@dataclass
class Scope:
    """The names that an expression may use, by what they hold."""

    integers: list[str] = field(default_factory=list)
    floats: list[str] = field(default_factory=list)
    raw: list[str] = field(default_factory=list)  # floats as they were read
    flags: list[str] = field(default_factory=list)
    complexes: list[str] = field(default_factory=list)
    functions: list[str] = field(default_factory=list)

    def with_integers(self, *names: str) -> Scope:
        return Scope([*self.integers, *names], self.floats, self.raw, self.flags, self.complexes, self.functions)


class Expressions:
    """Expressions of each kind, in parentheses where an operator could take them apart."""

    def __init__(self, choices: Choices) -> None:
        self._choices = choices

    def integer(self, scope: Scope, depth: int = _DEEPEST) -> str:
        """Of some integer type; to be taken bits of, used as an operand, or converted."""
        form = self._choices.below(16) if depth else 0
        if form <= 1:
            small = str(self._choices.below(300) - 20)
            return self._choices.one((*scope.integers, small, *CONSTANT_INTEGERS, "SCALE", "WIDTHS[1]"))
        left = self.integer(scope, depth - 1)
        if form == 2:
            return f"({self._choices.one(('-', '~', '+'))}{left})"
        if form == 3:
            return f"np.{self._choices.one(INTEGERS)}({left})"
        if form == 4:
            return f"abs({left})"
        if form == 5:
            kind = self._choices.one(INTEGERS)
            right = self.integer(scope, depth - 1)
            return f"(np.{kind}({left}) if {self.flag(scope, depth - 1)} else np.{kind}({right}))"
        if form == 6:
            return f"({left} {self._choices.one(('<<', '>>'))} ({self.integer(scope, depth - 1)} & 31))"
        if form == 7:
            return f"({left} {self._choices.one(('//', '%'))} ({self.integer(scope, depth - 1)} | 1))"
        if form == 8:
            return f"whole({self._choices.one(scope.raw)})"
        if form == 9:
            return f"({self.flag(scope, depth - 1)} + {left})"
        if form == 10:
            return f"cuda.popc(np.{self._choices.one(('uint32', 'uint64'))}({left}))"
        if form == 11:
            # No power overflows: Numba multiplies with LLVM's nsw, by which such a product may be anything.
            return f"(np.int8({left}) ** ({self.integer(scope, depth - 1)} & 7))"
        if form == 12:
            return f"WIDTHS[np.int64({left}) % 3]"
        right = self.integer(scope, depth - 1)
        return f"({left} {self._choices.one(('+', '-', '*', '&', '|', '^'))} {right})"

    def flag(self, scope: Scope, depth: int = _DEEPEST) -> str:
        form = self._choices.below(6) if depth else 0
        left = self.integer(scope, max(depth - 1, 0))
        compare = ("<", "<=", "==", "!=", ">", ">=")
        if form <= 1:
            right = self.integer(scope, max(depth - 1, 0))
            return f"(np.int64({left}) {self._choices.one(compare)} np.int64({right}))"
        if form == 2:
            return self._choices.one(scope.flags)
        # A branch that a comparison of constants rules out has no types for Numba; for the simulator it has.
        if form == 3 and len(scope.raw) > 1:
            return f"({self._choices.one(scope.raw)} {self._choices.one(compare)} {self._choices.one(scope.raw)})"
        if form == 4:
            return f"({self._choices.one(('not ', '~'))}{self.flag(scope, depth - 1)})"
        word = self._choices.one(("and", "or", "<"))
        if word == "<":
            return f"(-9 < np.int32({left}) < np.int32({self.integer(scope, depth - 1)}))"
        return f"({self.flag(scope, depth - 1)} {word} {self.flag(scope, depth - 1)})"

    def real(self, scope: Scope, depth: int = _DEEPEST) -> str:
        form = self._choices.below(14) if depth else 0
        if form <= 1:
            return self._choices.one((*scope.raw, *scope.floats, "0.5", "2.0", "np.float32(0.1)", "RATIO", "1"))
        left = self.real(scope, depth - 1)
        if form == 2:
            return f"np.{self._choices.one(FLOATS)}({left})"
        if form == 3:
            return f"({self.integer(scope, depth - 1)} / 7)"
        if form == 4:
            function = self._choices.one(("sin", "cos", "atan", "floor", "ceil", "fabs", "tanh"))
            # tanh of a float16 is a float32 for numba 0.68, and a float16 for the simulator, as for numba-cuda.
            return f"math.{function}({left}{' * 1.0' if function == 'tanh' else ''})"
        if form == 5:
            return f"({left} if {self.flag(scope, depth - 1)} else {self.real(scope, depth - 1)})"
        if form == 6:
            return f"math.sqrt(abs({left}))"
        if form == 7:
            return f"{self.complex(scope, depth - 1)}.{self._choices.one(('real', 'imag'))}"
        if form == 8 and scope.functions:
            operands = f"{self.real(scope, depth - 1)}, {self.integer(scope, depth - 1)}"
            return f"{self._choices.one(scope.functions)}({operands})"
        if form == 10:
            return f"np.{self._choices.one(('sin', 'cos', 'arctan', 'tanh'))}(np.float64({left}))"
        right = self.real(scope, depth - 1)
        if form == 11:
            return f"np.{self._choices.one(('maximum', 'minimum', 'fmax'))}(np.float64({left}), np.float64({right}))"
        if form == 9:
            return f"({left} / ({right} * {right} + 1.5))"
        return f"({left} {self._choices.one(('+', '-', '*'))} {right})"

    def complex(self, scope: Scope, depth: int = _DEEPEST) -> str:
        form = self._choices.below(5) if depth else 0
        if form <= 1 or not scope.complexes:
            known = self._choices.one([*scope.complexes, "1j"])
            return f"({known})"
        left = self.complex(scope, depth - 1)
        if form == 2:
            parts = (f"np.float64({self.real(scope, depth - 1)})" for _ in range(2))
            return f"complex({', '.join(parts)})"
        return f"({left} {self._choices.one(('+', '-', '*'))} {self.complex(scope, depth - 1)})"


class Program:
    """The module's text, line by line."""

    def __init__(self, numbers: Sequence[int]) -> None:
        self._choices = Choices(numbers)
        self._make = Expressions(self._choices)
        self._loops = 0
        self._kinds = {f"i{k}": self._choices.one(INTEGERS) for k in range(2)}
        self._inputs = {f"a{k}": self._choices.one(INTEGERS) for k in range(3)}
        self._inputs |= {f"x{k}": self._choices.one(FLOATS) for k in range(2)}
        self._inputs |= {"flags": "bool", "z": self._choices.one(("complex64", "complex128"))}
        self._shared = self._choices.one(("int32", "uint8", "int64", "float32", "float64"))

    def text(self) -> str:
        names = [self._function(k) for k in range(self._choices.below(3))]
        functions = "".join(text for _, text in names)
        scope = Scope(
            ["i", "t", "n", *self._kinds, *(f"{name}[i]" for name in self._inputs if name[0] == "a")],
            ["f0", "f1"],
            ["x0[i]", "x1[i]"],
            ["flags[i]"],
            ["z[i]", "c"],
            [name for name, _ in names],
        )
        lines = self._start(scope)
        for _ in range(1 + self._choices.below(4)):
            lines += self._statement(scope, 2)
        if self._choices.below(2):
            lines += self._exchange(scope)
        lines += self._results(scope)
        body = "\n".join(f"    {line}" for line in lines)
        kernel = f"@cuda.jit\ndef kernel({', '.join(self._inputs)}, integers, floats):\n{body}\n"
        return f"{_HEAD}{functions}\n{kernel}\n{self._host()}"

    def _function(self, number: int) -> tuple[str, str]:
        """A device function of a float and an integer; it may return several types."""
        scope = Scope(["b"], ["a"], ["0.25"], ["True"], [])
        name = f"helper{number}"
        lines = [f"if {self._make.flag(scope, 1)}:", f"    return {self._make.real(scope, 2)}"]
        if self._choices.below(2):
            lines += ["s = a", "for _ in range(2):", f"    s = s * {self._make.real(scope, 1)}"]
            scope.floats.append("s")
        lines.append(f"return {self._make.real(scope, 2)}")
        body = "\n".join(f"    {line}" for line in lines)
        return name, f"\n@cuda.jit(device=True)\ndef {name}(a, b):\n{body}\n\n"

    def _start(self, scope: Scope) -> list[str]:
        """Every variable has a value, and each of the ``n`` a signed type."""
        first = Scope(["i", "t", "a0[i]", "a1[i]"], [], scope.raw, scope.flags, ["z[i]"])
        lines = ["i = cuda.grid(1)", "t = cuda.threadIdx.x", "local = cuda.local.array(4, np.int32)"]
        lines += ["for k in range(4):", "    local[k] = k * 3"]
        lines += [f"n = np.{self._choices.one(SIGNED)}({self._make.integer(first, 1)})"]
        lines += [f"{name} = np.{kind}({self._make.integer(first, 1)})" for name, kind in self._kinds.items()]
        lines += [f"f{k} = {self._make.real(first, 1)}" for k in range(2)]
        return [*lines, f"c = {self._make.complex(first, 1)}"]

    def _statement(self, scope: Scope, depth: int) -> list[str]:
        form = self._choices.below(19 if depth else 8)
        if form <= 1:
            name = self._choices.one([*self._kinds])
            return [f"{name} = np.{self._kinds[name]}({self._make.integer(scope)})"]
        if form == 2:
            return [f"n = np.{self._choices.one(SIGNED)}({self._make.integer(scope)})"]
        if form == 3:
            return [f"{self._choices.one(('f0', 'f1'))} = {self._make.real(scope)}"]
        if form == 4:
            operator = self._choices.one(("+", "-", "*"))
            return [f"{self._choices.one(('f0', 'f1'))} {operator}= {self._make.real(scope, 1)}"]
        if form == 5:
            return [f"n {self._choices.one(('+', '-', '^', '&', '|', '*'))}= np.int16({self._make.integer(scope, 1)})"]
        if form == 6:
            place = f"local[{self._make.integer(scope, 1)} & 3]"
            return [f"{place} {self._choices.one(('', '+', '^'))}= np.int32({self._make.integer(scope, 1)})"]
        if form == 7:
            return [f"c = {self._make.complex(scope, 2)}"]
        if form <= 10:
            lines = [f"if {self._make.flag(scope)}:", *self._block(scope, depth)]
            if form >= 9:
                lines += [f"elif {self._make.flag(scope, 1)}:", *self._block(scope, depth)]
            return [*lines, "else:", *self._block(scope, depth)] if form >= 10 else lines
        if form == 14:
            part = self._choices.one(("[:]", "[1:3]", "[2:]", "[::2]"))
            return [f"local{part} = np.int32({self._make.integer(scope, 1)})"]
        if form == 15:
            (first, second), real = self._kinds, self._make.real(scope, 1)
            values = [f"np.{kind}({self._make.integer(scope, 1)})" for kind in self._kinds.values()]
            return [f"({first}, f0), {second} = ({values[0]}, {real}), {values[1]}"]
        if form == 16:
            return [f"f0, f1 = (f1, f0) if {self._make.flag(scope, 1)} else (f0, f1)"]
        self._loops += 1
        name = f"k{self._loops}"
        inner = scope.with_integers(name)
        if form == 17:
            lines = [f"for {name}, w{name} in enumerate(WIDTHS):"]
            return [*lines, *self._block(scope.with_integers(name, f"w{name}"), depth)]
        if form == 18:
            lines = [f"for {name}, w{name} in zip(WIDTHS, local):"]
            return [*lines, *self._block(scope.with_integers(name), depth)]
        if form == 11:
            bound = f"np.{self._choices.one(('uint8', 'int32', 'uint32', 'int64'))}({self._make.integer(scope, 1)} & 3)"
            return [f"for {name} in range({bound}):", *self._block(inner, depth)]
        if form == 12:
            steps = self._choices.one(("3, -1, -1", "1, 8, 3", "0, 4", "5, 0, -2"))
            lines = [f"for {name} in range({steps}):", *self._block(inner, depth)]
            lines += [f"    if {self._make.flag(inner, 1)}:", f"        {self._choices.one(('break', 'continue'))}"]
            return [*lines, *self._block(inner, depth), "else:", *self._block(scope, depth)]
        lines = [f"{name} = 0", f"while {name} < 3 and {self._make.flag(inner, 1)}:", f"    {name} += 1"]
        return [*lines, *self._block(inner, depth)]

    def _block(self, scope: Scope, depth: int) -> list[str]:
        count = 1 + self._choices.below(2)
        return [f"    {line}" for _ in range(count) for line in self._statement(scope, depth - 1)]

    def _exchange(self, scope: Scope) -> list[str]:
        """Each thread writes its place of a shared array, and reads another's after a barrier."""
        value = self._make.integer(scope) if "int" in self._shared else self._make.real(scope, 1)
        other = self._choices.one(("t ^ 1", "t ^ 4", f"{THREADS - 1} - t", "(t + 3) % cuda.blockDim.x"))
        lines = [f"tile = cuda.shared.array({THREADS}, np.{self._shared})", f"tile[t] = np.{self._shared}({value})"]
        lines += ["cuda.syncthreads()", f"other = tile[{other}]"]
        scope.integers += ["other"] if "int" in self._shared else []
        scope.floats += ["other"] if "float" in self._shared else []
        return lines

    def _results(self, scope: Scope) -> list[str]:
        found = [*self._kinds, "n", "local[0] + local[1] * 3 + local[2] * 5 + local[3] * 7"]
        lines = [f"integers[i, {k}] = np.int64({value})" for k, value in enumerate(found)]
        reals = ["f0", "f1", "c.real", "c.imag"]
        if "other" in scope.floats:
            reals[0] = "f0 + other"
        return [*lines, *(f"floats[i, {k}] = {value}" for k, value in enumerate(reals))]

    def _host(self) -> str:
        """How inputs are drawn: integers of all sizes, floats of small ones."""
        count = THREADS * BLOCKS
        lines = ["", "def inputs(rng):", "    given = {}"]
        for name, kind in self._inputs.items():
            if "int" in kind:
                bits = int(kind.strip("uint"))
                low, high = (0, 2**bits) if kind.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1))
                drawn = f"rng.integers({low}, {high}, {count}, dtype=np.{kind}) >> rng.integers(0, {bits}, {count})"
                if kind == "uint64":
                    drawn += ".astype(np.uint64)"
                lines.append(f'    given["{name}"] = ({drawn}).astype(np.{kind})')
            elif "complex" in kind:
                parts = f"rng.standard_normal({count}) + 1j * rng.standard_normal({count})"
                lines.append(f'    given["{name}"] = ({parts}).astype(np.{kind})')
            else:
                drawn = f"rng.random({count}) < 0.5" if kind == "bool" else f"rng.normal(0, 3, {count})"
                lines.append(f'    given["{name}"] = ({drawn}).astype(np.{kind})')
        lines += ["    return given", "", "", "def main(rng):", "    given = inputs(rng)"]
        lines += [
            f"    integers = np.zeros(({count}, {SLOTS}), np.int64)",
            f"    floats = np.zeros(({count}, {SLOTS}))",
        ]
        passed = ", ".join(f'given["{name}"]' for name in self._inputs)
        lines += [f"    kernel[{BLOCKS}, {THREADS}]({passed}, integers, floats)"]
        return "\n".join([*lines, '    return {"integers": integers, "floats": floats}', ""])


def drawn(seed: int) -> list[int]:
    """The choices of a seed: the same for ever."""
    source = random.Random(seed)
    return [source.randrange(2**16) for _ in range(_LENGTH)]


def module(numbers: Sequence[int]) -> str:
    """The source of the program of these choices."""
    return Program(numbers).text()


def shrunk(numbers: Sequence[int], fails: Callable[[str], bool]) -> list[int]:
    """Fewer and smaller choices, of whose program ``fails`` still holds; parts are left out, then made zero."""
    best = list(numbers)
    size = len(best)
    while size:
        start = 0
        while start < len(best):
            for candidate in (best[:start] + best[start + size :], best[:start] + [0] * size + best[start + size :]):
                if candidate != best and fails(module(candidate)):
                    best = candidate
                    break
            else:
                start += size
        size //= 2
    return best


if __name__ == "__main__":
    print(module(drawn(int(sys.argv[1]))))
