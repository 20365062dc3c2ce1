"""add: what it must satisfy."""

import torch

from trifold.spec import (
    Spec,
    elementwise,
    elementwise_bad_calls,
    elementwise_benchmarks,
    elementwise_edges,
    elementwise_large,
    elementwise_smooth,
)

spec = Spec(
    calls=elementwise(2),
    smooth=elementwise_smooth(2),
    edges=elementwise_edges(2),
    bad_calls=elementwise_bad_calls("x", "y"),
    properties=[elementwise_large(2, torch.add)],
    computed_by_torch={f"gradient {i}": "it is the upstream gradient, which is passed on" for i in range(2)},
    rounded_once="ports/add.py: half types are added in float32 and rounded once",
    benchmarks=elementwise_benchmarks(torch.add, inputs=2),
)
