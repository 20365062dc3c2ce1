"""An operator for each type that a schema can have: C++ built for the CPU, called by every way that leads to it."""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import trifold
from tests.cpu.workspace import op_of
from tests.test_build import requires_nvcc
from trifold.build import compile_only
from trifold.cells import CellName
from trifold.cpu import runtime
from trifold.errors import SchemaError
from trifold.implementation import load_checked_port, load_port, require_schemas
from trifold.verification.job import Job
from trifold.verification.remote import OpProcess
from trifold.verification.worker import _starter
from trifold.workspace import OpFiles

pytestmark = pytest.mark.usefixtures("quick_builds")

X = torch.tensor([3.0, 1.0, 2.0])
FLOATS = (
    *(2.0, -0.0, 0.1, 1 / 3, -2.5e-7, 1e-4, 9.9e-5, 123456.75, 1e9, 1.2345e15, 2.0**53, 1e16, 1.5e300),
    *(5e-324, sys.float_info.max, sys.float_info.min, math.pi * 1e10, math.inf, -math.inf, math.nan),
)


@dataclass(frozen=True)
class Row:
    """An operator: its schema after the name, its C++ function, and what some arguments give."""

    schema: str
    function: str
    calls: tuple[tuple[tuple[Any, ...], Any], ...]


# They change a copy of x by what they are given, so that a value that was misread shows.
ROWS: dict[str, Row] = {
    "of_int": Row("(Tensor x, int n) -> Tensor", "of_int(const Tensor& x, int64_t n) { return plus(x, n); }",
                  (((X, -7), X - 7), ((X, 2**40), X + 2**40))),
    "of_float": Row("(Tensor x, float n) -> Tensor", "of_float(const Tensor& x, double n) { return plus(x, n); }",
                    (((X, 0.5), X + 0.5),)),
    "of_bool": Row("(Tensor x, bool n) -> Tensor", "of_bool(const Tensor& x, bool n) { return plus(x, n ? 1 : 0); }",
                   (((X, True), X + 1), ((X, False), X))),
    "of_str": Row("(Tensor x, str s) -> Tensor",
                  "of_str(const Tensor& x, const std::string& s) { return plus(x, s.size() + (s == \"täglich\")); }",
                  (((X, ""), X), ((X, "täglich"), X + 9))),
    "of_view": Row("(Tensor x, str s='ab') -> Tensor",
                   "of_view(const Tensor& x, std::string_view s) { return plus(x, s.size()); }",
                   (((X, "abc"), X + 3), ((X,), X + 2))),
    "of_dtype": Row(
        "(Tensor x, ScalarType dtype) -> Tensor",
        "of_dtype(const Tensor& x, ScalarType dtype) {\n"
        "  Tensor y = trifold::empty_contiguous(x, x.sizes(), trifold::dtype_code(dtype));\n"
        "  torch::stable::copy_(y, x);\n  return y;\n}",
        (((X, torch.int64), X.long()), ((X, torch.bfloat16), X.bfloat16()), ((X, torch.bool), X.bool())),
    ),
    "of_device": Row("(Tensor x, Device device) -> Tensor",
                     "of_device(const Tensor& x, Device d) { return plus(x, 10 * (int)d.is_cpu() + d.index()); }",
                     (((X, torch.device("cpu")), X + 9), ((X, torch.device("cuda", 3)), X + 3))),
    "of_optional_int": Row(
        "(Tensor x, int? n) -> Tensor",
        "of_optional_int(const Tensor& x, std::optional<int64_t> n) { return plus(x, n.value_or(-1)); }",
        (((X, 5), X + 5), ((X, 0), X), ((X, None), X - 1)),
    ),
    "of_optional_float": Row(
        "(Tensor x, float? n=None) -> Tensor",
        "of_optional_float(const Tensor& x, std::optional<double> n) { return plus(x, n.value_or(-1)); }",
        (((X, 0.25), X + 0.25), ((X, None), X - 1), ((X,), X - 1)),
    ),
    "of_optional_bool": Row(
        "(Tensor x, bool? n) -> Tensor",
        "of_optional_bool(const Tensor& x, std::optional<bool> n) { return plus(x, n ? *n : 2); }",
        (((X, True), X + 1), ((X, False), X), ((X, None), X + 2)),
    ),
    "of_optional_str": Row(
        "(Tensor x, str? s) -> Tensor",
        "of_optional_str(const Tensor& x, const std::optional<std::string>& s) {\n"
        "  return plus(x, s ? static_cast<double>(s->size()) : -1);\n}",
        (((X, "abc"), X + 3), ((X, ""), X), ((X, None), X - 1)),
    ),
    "of_optional_dtype": Row(
        "(Tensor x, ScalarType? dtype) -> Tensor",
        "of_optional_dtype(const Tensor& x, std::optional<ScalarType> dtype) {\n"
        "  return plus(x, dtype == ScalarType::Half ? 1 : dtype ? 2 : 3);\n}",
        (((X, torch.float16), X + 1), ((X, torch.uint8), X + 2), ((X, None), X + 3)),
    ),
    "of_optional_device": Row(
        "(Tensor x, Device? device) -> Tensor",
        "of_optional_device(const Tensor& x, std::optional<Device> d) { return plus(x, d ? d->is_cpu() : 5); }",
        (((X, torch.device("cpu")), X + 1), ((X, None), X + 5)),
    ),
    "of_optional_tensor": Row(
        "(Tensor x, Tensor? y) -> Tensor",
        "of_optional_tensor(const Tensor& x, const std::optional<Tensor>& y) {\n"
        "  return plus(x, y ? total_of(*y) : -1);\n}",
        (((X, X), X + 6), ((X, None), X - 1)),
    ),
    "of_ints": Row(
        "(Tensor x, int[] ns) -> Tensor",
        "of_ints(const Tensor& x, const std::vector<int64_t>& ns) {\n"
        "  int64_t total = 0;\n  for (const int64_t n : ns) total = 10 * total + n;\n  return plus(x, total);\n}",
        (((X, [1, 2, 3]), X + 123), ((X, []), X), ((X, torch.Size([4, 5])), X + 45)),
    ),
    "of_borrowed_ints": Row(
        "(Tensor x, int[2] ns, int[]? ms) -> Tensor",
        "of_borrowed_ints(const Tensor& x, trifold::Dims ns, std::optional<trifold::Dims> ms) {\n"
        "  return plus(x, 10 * ns[0] + ns[1] + (ms ? 100 * int64_t(ms->size()) : -1));\n}",
        (((X, [1, 2], [7, 7]), X + 212), ((X, [1, 2], None), X + 11)),
    ),
    "of_floats": Row("(Tensor x, float[] ns) -> Tensor",
                     "of_floats(const Tensor& x, const std::vector<double>& ns) { return plus(x, ns.at(1)); }",
                     (((X, [1.5, 2.5]), X + 2.5),)),
    "of_bools": Row(
        "(Tensor x, bool[] ns) -> Tensor",
        "of_bools(const Tensor& x, const std::vector<bool>& ns) { return plus(x, 2 * ns.at(0) + ns.at(1)); }",
        (((X, [True, False]), X + 2),),
    ),
    "of_strs": Row("(Tensor x, str[] ns) -> Tensor",
                   "of_strs(const Tensor& x, const std::vector<std::string>& ns) { return plus(x, ns.at(1).size()); }",
                   (((X, ["a", "bcd"]), X + 3),)),
    "of_tensors": Row(
        "(Tensor[] xs) -> Tensor",
        "of_tensors(const std::vector<Tensor>& xs) {\n"
        "  double total = 0;\n  for (const Tensor& x : xs) total += total_of(x);\n  return plus(xs.at(0), total);\n}",
        ((([X, X + 1],), X + 15), (((X,),), X + 6)),
    ),
    "of_optional_tensors": Row(
        "(Tensor x, Tensor?[] ys) -> Tensor",
        "of_optional_tensors(const Tensor& x, const std::vector<std::optional<Tensor>>& ys) {\n"
        "  double total = 0;\n  for (const auto& y : ys) total += y ? total_of(*y) : 100;\n  return plus(x, total);\n}",
        (((X, [X, None]), X + 106), ((X, []), X)),
    ),
    "to_pair": Row("(Tensor x) -> (Tensor, Tensor)",
                   "to_pair(const Tensor& x) { return {plus(x, 1), plus(x, 2)}; }", (((X,), (X + 1, X + 2)),)),
    "to_list": Row(
        "(Tensor x, int n) -> Tensor[]",
        "to_list(const Tensor& x, int64_t n) {\n"
        "  std::vector<Tensor> all;\n  for (int64_t i = 0; i < n; ++i) all.push_back(plus(x, i));\n  return all;\n}",
        (((X, 3), [X, X + 1, X + 2]), ((X, 0), [])),
    ),
    "to_mixed": Row(
        "(Tensor x) -> (Tensor, Tensor[], int, float, bool, str)",
        "to_mixed(const Tensor& x) { return {plus(x, 1), {x, x}, x.numel(), total_of(x), true, \"abc\"}; }",
        (((X,), (X + 1, [X, X], 3, 6.0, True, "abc")),),
    ),
    # A message of trifold::check has what Python's f"{n} {b}" has.
    "to_words": Row(
        "(Tensor x, float n, bool b) -> str",
        "to_words(const Tensor&, double n, bool b) { return trifold::in_words(n) + \" \" + trifold::in_words(b); }",
        tuple(((X, n, b), f"{n} {b}") for n, b in zip(FLOATS, itertools.cycle((True, False)), strict=False)),
    ),
    "to_ints": Row("(Tensor x) -> int[]", "to_ints(const Tensor& x) { return {x.numel(), 7}; }", (((X,), [3, 7]),)),
    "to_optional": Row(
        "(Tensor x, bool n) -> Tensor?",
        "to_optional(const Tensor& x, bool n) { return n ? std::optional(plus(x, 1)) : std::nullopt; }",
        (((X, True), X + 1), ((X, False), None)),
    ),
    "written_and_nothing": Row("(Tensor(a!) x, int n) -> ()",
                               "written_and_nothing(Tensor x, int64_t n) { add(x, x, n); }", (((X, 2), None),)),
    "written_and_returned": Row("(Tensor(a!) x, int n) -> Tensor(a!)",
                                "written_and_returned(Tensor x, int64_t n) {\n  add(x, x, n);\n  return x;\n}",
                                (((X, 2), X + 2),)),
    "written_list": Row("(Tensor(a!)[] xs, int n) -> ()",
                        "written_list(const std::vector<Tensor>& xs, int64_t n) {\n"
                        "  for (const Tensor& x : xs) add(x, x, n);\n}", ((([X, X], 2), None),)),
}  # fmt: skip
WRITING = {name: row for name, row in ROWS.items() if "!" in row.schema}

HEADER = """\
#pragma once
#include <trifold/cuda.cuh>

__global__ void add_kernel(const float* x, float* y, float n, int64_t count) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count) y[i] = x[i] + n;
}
"""
BINDING = """\
#include <trifold/binding.h>

#include "types.cuh"

using trifold::Device, trifold::ScalarType, trifold::Tensor;

void add(const Tensor& y, const Tensor& x, double n) {
  trifold::launch<add_kernel>(trifold::Stream(), 1, 32, 0, trifold::data<float>(x), trifold::mutable_data<float>(y),
                              static_cast<float>(n), x.numel());
}
Tensor plus(const Tensor& x, double n) {
  Tensor y = trifold::elementwise_output(x);
  add(y, x, n);
  return y;
}
double total_of(const Tensor& x) {
  double total = 0;
  for (int64_t i = 0; i < x.numel(); ++i) total += static_cast<const float*>(x.const_data_ptr())[i];
  return total;
}
Tensor types(const Tensor& x) { return x; }
"""
PORT = """
from trifold.port import wire


def register(op):
    op.define("types(Tensor x) -> Tensor", fake=lambda x: x)
    for schema in {schemas!r}:
        op.define(schema, fake=lambda *args: args[0])


def types(name, *args):
    return getattr(op, name)(*args)


op = wire(__name__, register)
"""
RETURNS = {
    "Tensor": "Tensor",
    "Tensor[]": "std::vector<Tensor>",
    "Tensor?": "std::optional<Tensor>",
    "Tensor(a!)": "Tensor",
    "int[]": "std::vector<int64_t>",
    "str": "std::string",
    "()": "void",
    "(Tensor, Tensor)": "std::tuple<Tensor, Tensor>",
    "(Tensor, Tensor[], int, float, bool, str)":
        "std::tuple<Tensor, std::vector<Tensor>, int64_t, double, bool, std::string>",
}  # fmt: skip


def binding() -> str:
    functions = [f"{RETURNS[row.schema.partition(' -> ')[2]]} {row.function}\n" for row in ROWS.values()]
    registered = "".join(f'  trifold::implement<&{name}>(m, "{name}");\n' for name in ["types", *ROWS])
    return f"{BINDING}{''.join(functions)}TRIFOLD_LIBRARY(m) {{\n{registered}}}\n"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> OpFiles:
    schemas = [name + row.schema for name, row in ROWS.items()]
    root = tmp_path_factory.mktemp("workspace")
    return op_of("types", root, cuh=HEADER, cu=binding(), py=PORT.format(schemas=schemas))


@pytest.fixture(scope="module")
def process(files: OpFiles) -> Iterator[OpProcess]:
    made = OpProcess(_starter(Job(str(files.port.parent.parent), CellName("types", "port", "cpu"))), timeout=60)
    made.load(build=True)
    yield made
    made.close()


Call = Callable[..., Any]


@pytest.fixture(params=["fast", "checked", "in its process"])
def call(request: pytest.FixtureRequest, files: OpFiles) -> Call:
    if request.param == "in its process":
        function: Call = request.getfixturevalue("process").function
        return function
    if request.param == "checked":
        return load_checked_port(files).function
    return trifold.load("types", workspace=files.port.parent.parent)


def same(made: Any, expected: Any) -> bool:
    if isinstance(expected, Tensor):
        return isinstance(made, Tensor) and made.dtype == expected.dtype and torch.equal(made, expected)
    if isinstance(expected, list | tuple):
        return len(made) == len(expected) and all(map(same, made, expected))
    return type(made) is type(expected) and bool(made == expected)


def copied(value: Any) -> Any:
    if isinstance(value, list):
        return [copied(one) for one in value]
    return value.clone() if isinstance(value, Tensor) else value


@pytest.mark.parametrize("name", ROWS)
def test_every_type_travels(name: str, call: Call) -> None:
    for given, expected in ROWS[name].calls:
        args = copied(list(given))
        made = call(name, *args)
        assert same(made, expected), made
        after = [X + 2] if name in WRITING else [X]
        assert all(torch.equal(args[0], x) for x in after) if isinstance(args[0], Tensor) else True


@pytest.mark.parametrize("name", ROWS)
def test_through_the_dispatcher(name: str, files: OpFiles) -> None:
    overload = load_port(files).overload(name)
    for given, expected in ROWS[name].calls:
        assert same(overload(*copied(list(given))), expected)


@requires_nvcc
def test_nvcc_compiles_every_type(files: OpFiles) -> None:
    assert compile_only(files, "9.0").path.is_file()


@pytest.mark.parametrize("name", WRITING)
def test_what_is_written_begins_anew_in_each_schedule(name: str, files: OpFiles) -> None:
    ((given, _),) = WRITING[name].calls
    args = copied(list(given))
    with runtime.schedules(3):
        load_checked_port(files).function(name, *args)
    written = args[0] if isinstance(args[0], list) else [args[0]]
    assert all(torch.equal(x, X + 2) for x in written)


@pytest.mark.parametrize("name", WRITING)
def test_an_argument_that_is_written_has_no_gradient(name: str, files: OpFiles) -> None:
    x = X.clone().requires_grad_()
    function = load_port(files).function
    with pytest.raises(RuntimeError, match=f"{name} writes over an argument and has no gradient"):
        function(name, [x] if name == "written_list" else x, 2)


@pytest.mark.parametrize("name", ["of_tensors", "of_optional_tensors"])
def test_a_list_of_tensors_without_a_formula_refuses_to_be_differentiated(name: str, files: OpFiles) -> None:
    x = X.clone().requires_grad_()
    function = load_port(files).function
    made = function(name, [x]) if name == "of_tensors" else function(name, X, [None, x])
    with pytest.raises(RuntimeError, match=f"{name} has no gradient"):
        made.sum().backward()


@pytest.mark.parametrize(
    ("schema", "function"),
    [
        ("(Tensor x, int n) -> Tensor", "(Tensor, float) -> Tensor"),
        ("(Tensor x, int? n) -> Tensor", "(Tensor, int) -> Tensor"),
        ("(Tensor x, int[] n) -> Tensor", "(Tensor, int[]?) -> Tensor"),
        ("(Tensor x, ScalarType n) -> Tensor", "(Tensor, int) -> Tensor"),
        ("(Tensor x) -> Tensor[]", "(Tensor) -> Tensor"),
        ("(Tensor x) -> ()", "(Tensor) -> Tensor"),
        ("(Tensor x) -> (Tensor, Tensor[])", "(Tensor) -> (Tensor[], Tensor)"),
    ],
)
def test_types_that_differ_are_named(schema: str, function: str) -> None:
    declared = trifold.port.Schema.parse(f"f{schema}").types
    with pytest.raises(SchemaError, match="make the schema and the C"):
        require_schemas({"f": declared}, {"f": function}, Path("ports/f.py"), Path("cuda_src/f.cu"))
