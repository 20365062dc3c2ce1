"""What ``verify/<op>.py`` imports: the specification of an op as data."""

from trifold.spec.benchmark import Benchmark, Case, Target, elementwise_benchmarks
from trifold.spec.case import DTYPES, FILLS, LAYOUTS, Call, TensorCase
from trifold.spec.elementwise import elementwise_bad_calls, elementwise_large, elementwise_smooth
from trifold.spec.spec import BadCall, Property, Sample, Spec
from trifold.spec.strategies import Limits, alike, elementwise, elementwise_edges, shapes, sizes, tensors

__all__ = [
    "DTYPES",
    "FILLS",
    "LAYOUTS",
    "BadCall",
    "Benchmark",
    "Call",
    "Case",
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
    "shapes",
    "sizes",
    "tensors",
]
