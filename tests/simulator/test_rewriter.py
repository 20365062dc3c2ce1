"""The rewriter alone: the functions that it makes of kernels, with the device of rewriter_device.py."""

from __future__ import annotations

import ast
import math
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.simulator.rewriter_device import api, barrier, jit, line_of, program, run, shuffle
from trifold.simulator.rewriter.link import is_rewritten
from trifold.simulator.rewriter.polling import polling_loops

# Waiting -------------------------------------------------------------------------------------------------------------


def test_a_kernel_without_a_barrier_is_called_once() -> None:
    @jit
    def kernel(a):
        return a + 1

    assert not program(kernel).waits
    assert run(kernel, 3) == (4, [])


def test_a_barrier_yields_its_line_and_an_operation_its_operands() -> None:
    @jit
    def kernel(a):
        api.barrier()  # first
        return api.shuffle(15, lane=2, value=a)  # second

    first, second = line_of(kernel, "# first"), line_of(kernel, "# second")
    assert run(kernel, 3, replies={(second, 1, 15, 3, 2): "reply"}) == ("reply", [first, (second, 1, 15, 3, 2)])


def test_operands_have_their_defaults_and_may_be_starred() -> None:
    @jit
    def kernel(a):
        shuffle(1, a)
        shuffle(*a)

    _, requests = run(kernel, (8, 9))
    assert [request[1:] for request in requests] == [(1, 1, (8, 9), 0), (1, 8, 9)]


def test_wrong_operands_name_the_operation() -> None:
    @jit
    def kernel(a):
        shuffle(1, wrong=a)

    with pytest.raises(TypeError, match=r"shuffle\(mask, value, lane\)"):
        program(kernel)


@jit
def inner(x):
    barrier()
    return x + 1


@jit
def outer_helper(x):
    return inner(x) + 1


def test_helpers_wait_through_helpers() -> None:
    @jit
    def kernel(a):
        return outer_helper(a)

    result, requests = run(kernel, 1)
    assert result == 3
    assert requests == [line_of(inner, "barrier()")]


@jit
def even(n):
    return True if n == 0 else odd(n - 1)


@jit
def odd(n):
    if n == 0:
        return False
    barrier()
    return even(n - 1)


def test_mutual_recursion() -> None:
    result, requests = run(even, 7)
    assert result is False
    assert len(requests) == 3  # for 6, 4 and 2


def test_closures_and_what_their_cells_hold_later() -> None:
    factor = 2
    helper = inner

    @jit
    def kernel(a):
        return helper(a) + factor

    assert run(kernel, 1)[0] == 4
    made = program(kernel)
    factor = 10
    assert made.is_current()  # it reads numbers when it runs
    helper = outer_helper
    assert not made.is_current()
    assert run(kernel, 1)[0] == 13


def test_device_functions_as_values_chosen_at_run_time() -> None:
    @jit
    def kernel(functions, which, x):
        f = functions[which]
        return f(x)

    assert run(kernel, (inner, math.sqrt), 0, 1) == (2, [line_of(inner, "barrier()")])
    assert run(kernel, (inner, math.sqrt), 1, 4.0) == (("sqrt", 4.0), [])


def test_nested_functions_and_lambdas() -> None:
    @jit
    def kernel(a):
        def add(x: Any, y: Any = a) -> Any:
            barrier()
            return x + y

        twice: Any = lambda x: add(add(x))  # noqa: E731
        return twice(1)

    result, requests = run(kernel, 10)
    assert result == 21
    assert len(requests) == 2


def test_a_nested_function_as_a_value() -> None:
    @jit
    def kernel(a):
        def first(x):
            barrier()
            return x

        second: Any = first if a else None
        return second(a)

    assert run(kernel, 3)[0] == 3


def test_an_array_s_type_of_numbers_converts_without_waiting() -> None:
    @jit
    def kernel(a):
        C = a.dtype.type
        D = C

        def nested():
            return C(2)

        return C(1), nested(), D is C

    assert not program(kernel).waits
    assert run(kernel, np.zeros(1, np.float32))[0] == (("float32", 1), ("float32", 2), True)


def test_a_name_that_is_also_something_else_is_called_as_a_value() -> None:
    @jit
    def waits(a):
        barrier()
        return a

    @jit
    def kernel(a, other):
        C = a.dtype.type
        if other:
            C = waits
        return C(3)

    assert run(kernel, np.zeros(1, np.float32), True)[0] == 3

    @jit
    def parameter(C):
        return C(4)

    assert run(parameter, waits)[0] == 4


def test_a_lambda_kernel_and_several_on_one_line() -> None:
    one, two = jit(lambda a: (barrier(), a)[1]), jit(lambda a: (barrier(), a + 1)[1])
    assert run(one, 1)[0] == 1
    assert run(two, 1)[0] == 2


class Holder:
    @staticmethod
    def kernel(a):
        barrier()
        return a

    helper = jit(lambda x: (barrier(), x * 0)[1])


def test_kernels_in_classes() -> None:
    assert run(Holder.kernel, 4)[0] == 4


def test_grid_synchronisation_by_method() -> None:
    @jit
    def kernel(group):
        group.sync()

    made = program(kernel)
    assert made.waits
    assert made.cooperative
    assert run(kernel, None)[1] == [(line_of(kernel, "group.sync()"), 9)]


def test_waiting_in_a_comprehension_falls_back() -> None:
    def kernel(a):
        return [inner(x) for x in a]

    assert [unread.function for unread in program(kernel).unread] == [kernel]


def test_source_that_is_missing_falls_back() -> None:
    names: dict[str, Any] = {}
    exec("def kernel(a):\n    return a * 2", names)
    made = program(names["kernel"])
    assert made.function is names["kernel"]
    assert "in no file" in made.unread[0].reason


# Arithmetic ----------------------------------------------------------------------------------------------------------


def test_products_and_quotients_are_calls_and_sums_are_in_loops() -> None:
    @jit
    def kernel(a, b):
        c = a * b
        d = a / b
        e = a + b
        for _ in range(1):
            e += b
        return c, d, e

    made = run(kernel, 6, 3)[0]
    assert made == (("product", 6, 3), ("quotient", 6, 3), 12)


def test_an_augmented_element_is_evaluated_once() -> None:
    calls = []

    def here(value: Any) -> Any:
        calls.append(value)
        return value

    @jit
    def kernel(a):
        here(a)[here(1)] /= here(0)

    data = [1, 2]
    run(kernel, data)
    assert data == [1, ("quotient", 2, 0)]
    assert calls == [data, 1, 0]


def test_products_of_indices_stay() -> None:
    @jit
    def kernel():
        return api.index.x * 2 + api.index.x

    assert run(kernel)[0] == 15


def test_long_literals_and_host_functions() -> None:
    @jit
    def kernel(a):
        return math.sqrt(a), 0xFFFFFFFF, 7

    assert run(kernel, 2.0)[0] == (("sqrt", 2.0), ("long", 0xFFFFFFFF), 7)


def test_a_cast_and_a_dtype_with_the_same_name_differ() -> None:
    @jit
    def kernel(make):
        return make.of(math.sqrt)

    assert run(kernel, types.SimpleNamespace(of=lambda value: value))[0] is math.sqrt


# What stays ----------------------------------------------------------------------------------------------------------

CONSTANT = 3
TABLE = np.arange(4)


def test_lines_columns_names_and_globals_stay() -> None:
    @jit
    def kernel(a, b=2):
        """Its words."""
        c = a * b + CONSTANT
        api.barrier()
        return c

    function = program(kernel).function
    assert isinstance(function, types.FunctionType)
    original = kernel.fn
    assert isinstance(original, types.FunctionType)
    assert function.__globals__ is original.__globals__
    assert (function.__name__, function.__qualname__) == (original.__name__, original.__qualname__)
    assert (function.__doc__, function.__defaults__) == (original.__doc__, original.__defaults__)
    assert function.__code__.co_filename == original.__code__.co_filename
    assert function.__code__.co_qualname == original.__code__.co_qualname
    assert function.__code__.co_varnames == original.__code__.co_varnames
    assert is_rewritten(function)
    assert not is_rewritten(original)
    lines = {line for *_, line in original.__code__.co_lines() if line}
    decorator = original.__code__.co_firstlineno
    assert {line for *_, line in function.__code__.co_lines() if line} - {decorator + 1} == lines - {decorator}


def test_a_traceback_points_at_the_same_columns() -> None:
    @jit
    def kernel(a):
        b = a + 1
        return (b + b, a["no"])

    def where(function: Callable[..., Any]) -> tuple[int | None, ...]:
        with pytest.raises(TypeError) as raised:
            function(1)
        entry = raised.traceback[-1]._rawentry
        return list(entry.tb_frame.f_code.co_positions())[entry.tb_lasti // 2]

    made = program(kernel).function
    assert isinstance(made, types.FunctionType)
    assert made.__code__ is not kernel.fn.__code__
    assert where(made) == where(kernel.fn)


def test_globals_are_read_live(monkeypatch: pytest.MonkeyPatch) -> None:
    @jit
    def kernel():
        return CONSTANT

    made = program(kernel)
    monkeypatch.setitem(globals(), "CONSTANT", 8)
    assert made.function() == 8


def test_arrays_by_name_are_captured() -> None:
    @jit
    def kernel(i):
        return TABLE[i]

    made = program(kernel)
    (captured,) = made.captured
    assert captured.name == "TABLE"
    assert captured.host is TABLE
    captured.array = TABLE + 10
    assert made.function(1) == 11


@pytest.mark.parametrize(
    "statements",
    [
        "with open(a) as f: pass",
        "try:\n  x = a * 1\nexcept E as e:\n  raise\nfinally:\n  pass",
        "match a:\n  case {'k': [1, *rest], **others} if rest: x = rest\n  case -1 | 'a': pass",
        "if (n := a) * 2 > 1: x = n",
        "x = [i * y for i in a for y in i if y]",
        "x = {k: v for k, v in a}; y = {i for i in a}; z = (i for i in a)",
        "x: int = 3; y: 'unknown * name'",
        "x, *y = a; x[1:2, ...] = y; del x",
        "x = f'{a!r:>{w}} {a * 2}'; assert a, x",
        "for i, (j, k) in a:\n  continue\nelse:\n  pass",
        "global G; G = a; G *= a",
        "x = a if a else -a; y = not a; z = a < 1 < 2 and a is None or a in (1, 2)",
        "def g(*p, k=a, **o): nonlocal_ = p; return g(*p, **o)",
        "class C: x = a * 2",
        "x = lambda *p, k=1: p * k",
    ],
)
def test_all_statements_pass(statements: str, tmp_path: Any) -> None:
    source = "def kernel(a, w=1):\n" + "\n".join(f"    {line}" for line in statements.split("\n"))
    path = tmp_path / "module.py"
    path.write_text(source)
    names: dict[str, Any] = {}
    exec(compile(source, str(path), "exec"), names)
    assert not program(names["kernel"]).unread


# Polling -------------------------------------------------------------------------------------------------------------

POLLS = {
    "lock": "while atomic(m, 0, 1) != 0: pass",
    "flag": "while f[0] == 0: pass",
    "lock in the body": "done = False\nwhile not done:\n  if atomic(m) == 0:\n    x[0] += 1\n    done = True",
    "look-back": "while True:\n  s = st[j]\n  if s == 0: continue\n  t += v[j]\n  if s == 2: break\n  j -= 1",
    "bounded": "for _ in range(1000):\n  if f[0]: break",
    "return": "while True:\n  if atomic(f) > k: return",
    "exchange": "while True:\n  old = a[i]\n  if atomic(a, i, old, old + v) == old: break",
    "given up": "n = 0\nwhile f[0] == 0 and n < 5:\n  n += 1",
    "through a name": "v = f[0]\nwhile v != 3:\n  v = f[0]",
    "the same index": "while True:\n  i = 0\n  if f[i]: break",
    "walrus": "while (v := f[0]) == 0: pass",
    "inner loop": "found = False\nwhile not found:\n  for k in range(4):\n    if f[k]: found = True",
}
RUNS = {
    "grid stride": "i = g\nwhile i < n:\n  y[i] = x[i]\n  i += s",
    "reduction": "while n > 0:\n  if t < n: s[t] += s[t + n]\n  barrier()\n  n //= 2",
    "bisection": "while lo < hi:\n  mid = (lo + hi) // 2\n  if a[mid] < x: lo = mid + 1\n  else: hi = mid",
    "search": "for i in range(n):\n  if a[i] > x: break",
    "scan": "while a[i] < x: i += 1",
    "list": "while p != -1: p = nxt[p]",
    "roots": "while q[i] != i: i = q[i]",
    "own element": "while x[t] > e:\n  x[t] = x[t] / 2",
    "own element, augmented": "while x[t] > e:\n  x[t] /= 2",
    "iteration": "for k in range(10):\n  z = z * z + c\n  if z > 4: return k",
    "sum": "for i in range(n):\n  s += a[i]",
    "endless": "while True:\n  v = a[i]\n  if v < 0: break\n  i += 1",
}


def reads_memory(node: ast.AST) -> bool:
    if isinstance(node, ast.Subscript):
        return isinstance(node.ctx, ast.Load)
    return isinstance(node, ast.Call) and ast.unparse(node.func) == "atomic"


@pytest.mark.parametrize("name", [*POLLS, *RUNS])
def test_loops_that_poll(name: str) -> None:
    source = POLLS.get(name) or RUNS[name]
    assert bool(polling_loops(ast.parse(source), reads_memory)) == (name in POLLS)


def test_a_polling_loop_yields_when_it_goes_round() -> None:
    @jit
    def kernel(flag):
        while not flag[0]:  # poll
            flag[1] -= 1
            if flag[1] == 1:
                continue
            if flag[1] == 0:
                break

    line = line_of(kernel, "# poll")
    assert run(kernel, [1, 5])[1] == []
    assert run(kernel, [0, 3])[1] == [(line, 7)] * 2
