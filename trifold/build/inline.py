"""Runs ``torch.utils.cpp_extension.load_inline`` in a separate process: ``python -P inline.py request.json``.

Not imported. load_inline loads the library that it builds, keeps state between calls, skips a build that failed before
in the same process, and lets compilers write to file descriptor 1; none of that reaches the user's process. A library
that cannot be loaded, or that crashes on loading, fails here as well.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path

from torch.utils import cpp_extension

load_inline: Callable[..., object] = cpp_extension.load_inline
request = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
load_inline(
    **request,
    functions=None,
    is_python_module=False,
    no_implicit_headers=True,
    verbose=True,
)
