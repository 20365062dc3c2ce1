"""Run as a program, in Numba's simulator: what the kernels of semantics.py write, into the file of the argument."""

import sys

import numpy as np

from trifold import simulator

simulator.install()

from tests.draft import semantics  # noqa: E402

if __name__ == "__main__":
    results: dict[str, np.ndarray] = {}
    for name, (kernel, dtypes) in semantics.KERNELS.items():
        (x, y), out = semantics.inputs(*dtypes), np.full(32, -1.0)
        results |= {f"{name}.x": x, f"{name}.y": y, f"{name}.before": out.copy(), f"{name}.out": out}
        kernel[1, 32, 0, 512](x, y, out)
    np.savez(sys.argv[1], **results)  # type: ignore[arg-type]
