"""What ``verify/<op>.py`` imports: the specification of an op as data."""

from trifold.spec.benchmark import Benchmark, Case, Target, elementwise_benchmarks, rows_benchmarks
from trifold.spec.case import DTYPES, FILLS, LAYOUTS, ROW_FILLS, ROW_LAYOUTS, Call, IndexCase, TensorCase
from trifold.spec.elementwise import elementwise_bad_calls, elementwise_large, elementwise_smooth
from trifold.spec.rows import (
    row_calls,
    row_edges,
    row_large,
    row_long,
    row_shapes,
    row_smooth,
    row_tensors,
    rows_alike,
)
from trifold.spec.spec import BadCall, Property, Sample, Spec
from trifold.spec.strategies import Limits, alike, elementwise, elementwise_edges, shapes, sizes, tensors

__all__ = [
    "DTYPES",
    "FILLS",
    "LAYOUTS",
    "ROW_FILLS",
    "ROW_LAYOUTS",
    "BadCall",
    "Benchmark",
    "Call",
    "Case",
    "IndexCase",
    "Limits",
    "Property",
    "Sample",
    "Spec",
    "Target",
    "TensorCase",
    "alike",
    "elementwise",
    "elementwise_bad_calls",
    "elementwise_benchmarks",
    "elementwise_edges",
    "elementwise_large",
    "elementwise_smooth",
    "row_calls",
    "row_edges",
    "row_large",
    "row_long",
    "row_shapes",
    "row_smooth",
    "row_tensors",
    "rows_alike",
    "rows_benchmarks",
    "shapes",
    "sizes",
    "tensors",
]
