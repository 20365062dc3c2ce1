"""Probes torch and Numba in separate processes, which may crash or hang."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

# The time limit for a process that imports torch or Numba, in seconds.
LIMIT_S = 20.0

TORCH_PROBE = """
import ctypes, json
answer = {"driver": None}
try:
    version = ctypes.c_int()
    if ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(version)) == 0:
        answer["driver"] = f"{version.value // 1000}.{version.value % 1000 // 10}"
except OSError:
    pass
try:
    import torch
    answer["torch"], answer["cuda"] = torch.__version__, torch.version.cuda
    answer["gpus"] = [] if not torch.cuda.is_available() else [
        {
            "name": p.name,
            "capability": [p.major, p.minor],
            "multiprocessors": p.multi_processor_count,
            "shared_bytes": getattr(p, "shared_memory_per_block_optin", 0),
            "bytes": p.total_memory,
        }
        for p in map(torch.cuda.get_device_properties, range(torch.cuda.device_count()))
    ]
except Exception as error:
    answer["error"] = f"{type(error).__name__}: {error}"
print(json.dumps(answer))
"""

NUMBA_PROBE = """
import json
answer = {}
try:
    import numba, numpy
    from numba import cuda
    answer["numba"] = numba.__version__

    @cuda.jit
    def count(x):
        x[cuda.grid(1)] += cuda.grid(1)

    x = numpy.zeros(4)
    count[2, 2](x)
    answer["works"] = x.tolist() == [0, 1, 2, 3]
except Exception as error:
    answer["error"] = f"{type(error).__name__}: {error}"
print(json.dumps(answer))
"""


def ask(script: str, environment: dict[str, str]) -> dict[str, Any]:
    """Run ``script`` in a separate Python; return the JSON object that it prints last, or ``{"error": ...}``."""
    try:
        done = subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=LIMIT_S,
        )
        answer = json.loads(done.stdout.splitlines()[-1])
        return answer if isinstance(answer, dict) else {"error": "no answer"}
    except subprocess.TimeoutExpired:
        return {"error": f"no answer within {LIMIT_S:g} s"}
    except (OSError, ValueError, IndexError):
        return {"error": "Python ends without an answer"}
