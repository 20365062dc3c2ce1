"""Tricks: ops that would be verified without a right kernel.

Each has a wrong kernel, or none, and something that hides it. Such tricks are known from benchmarks in which a program
is rewarded for a verdict; by accident they come from caches, stubs and tests that were adjusted until they passed.
"""

from __future__ import annotations

from tests.wrong.borrowed_results import BORROWED
from tests.wrong.empty_specs import EMPTY_SPECS
from tests.wrong.entry import Edit, Wrong, edits, gallery_launch
from tests.wrong.trick_parts import STEP, add

_ROUND_LAUNCH = gallery_launch("round_ste", "y", "x")
_SIGMOID_Y = "    y = elementwise_output(x)\n"


def _step(before: str = "", *, top: str = "", imports: str = "") -> tuple[Edit, ...]:
    """round_ste whose kernel writes zeros, and lines of Python before its launch."""
    return edits(
        "prototype",
        STEP,
        ("    y = elementwise_output(x)\n", "    y = elementwise_output(x)\n" + before),
        ("import torch\n", f"{imports}import torch\n"),
        ("MAX_BLOCKS =", f"{top}MAX_BLOCKS ="),
    )


def _cached(key: str) -> tuple[Edit, ...]:
    """sigmoid that computes a result once for each ``key``, an expression in x."""
    return edits(
        "prototype",
        ("def reference(", "_results = {}\n\n\ndef reference("),
        (
            _SIGMOID_Y,
            f"{_SIGMOID_Y}    known = _results.setdefault({key}, [])\n"
            "    n = y.numel()\n    if known:\n"
            "        launch_elementwise(copy_kernel, n, flat(known[0], y), output(flat(y)), n)\n        return y\n",
        ),
        (
            "    return y\n\n\ndef sigmoid_backward",
            "    known.append(y.clone())\n    return y\n\n\ndef sigmoid_backward",
        ),
        (
            "@cuda.jit\ndef sigmoid_kernel(",
            "@cuda.jit\ndef copy_kernel(x, y, n):\n    i = cuda.grid(1)\n    if i < n:\n        y[i] = x[i]\n\n\n"
            "@cuda.jit\ndef sigmoid_kernel(",
        ),
    )


_FORM = "(tuple(x.shape), x.stride(), x.dtype"

MEMORY = (
    Wrong(
        name="recycled memory",
        why="the memory of a freed tensor may hold the exact result, which the judge has just computed",
        op="mul",
        edits=edits("prototype", ("    launch_elementwise(mul_kernel, ", "    _ = (mul_kernel, ")),
        row="bounds",
        implementation="prototype",
    ),
    Wrong(
        name="the arguments are set to zero",
        why="a judge that computes the exact result afterwards finds 0 + 0 = 0",
        op="add",
        edits=add("    x.zero_()\n    y.zero_()\n"),
        row="values",
        implementation="prototype",
        message="x was changed",
    ),
    Wrong(
        name="results are kept by address",
        why="a benchmark calls with the same tensors each time",
        op="sigmoid",
        edits=_cached(f"{_FORM}, x.data_ptr())"),
        row="repeatable",
        implementation="prototype",
        message="other",
    ),
    Wrong(
        name="results are kept by address and version",
        why="torch counts changes of a tensor, but not those through another one in its memory",
        op="sigmoid",
        edits=_cached(f"{_FORM}, x.data_ptr(), x._version)"),
        row="repeatable",
        implementation="prototype",
        message="other",
    ),
    Wrong(
        name="indices are prepared once for each address and version",
        why="an index is the same in each epoch; it was thought to be changed by torch alone",
        op="scatter_add",
        edits=edits(
            "prototype",
            (
                "def scatter_add(source: Tensor",
                "_known: dict = {}\n\n\ndef _places(index: Tensor, size: int) -> Tensor:\n"
                "    key = index.data_ptr(), index.shape, index.stride(), index._version, size\n"
                "    if key not in _known:\n        _known.clear()\n"
                "        _known[key] = torch.where((index >= 0) & (index < size), index, -1)\n"
                "    return _known[key]\n\n\ndef scatter_add(source: Tensor",
            ),
            (
                "launch(scatter_add_kernel, grid, source, index,",
                "launch(scatter_add_kernel, grid, source, _places(index, size),",
            ),
        ),
        row="repeatable",
        implementation="prototype",
        message="other numbers at the same addresses",
    ),
    Wrong(
        name="the copy of an upstream gradient is kept by its address and version",
        why="the gradient of a sum is the same tensor each time",
        op="sigmoid",
        edits=edits(
            "port",
            ("from torch import Tensor\n", "import torch\nfrom torch import Tensor\n"),
            (
                "def register(op",
                "_dense: dict = {}\n\n\ndef dense(grad: Tensor) -> Tensor:\n"
                "    if torch.compiler.is_compiling() or grad.requires_grad or grad.is_contiguous():\n"
                "        return grad\n"
                "    key = grad.data_ptr(), grad.shape, grad.stride(), grad.dtype, grad._version\n"
                "    if key not in _dense:\n        _dense.clear()\n        _dense[key] = grad.contiguous()\n"
                "    return _dense[key]\n\n\ndef register(op",
            ),
            ("op.sigmoid_backward(grad_y, *ctx", "op.sigmoid_backward(dense(grad_y), *ctx"),
        ),
        row="repeatable",
        implementation="port",
        message="upstream gradients, is wrong",
    ),
    Wrong(
        name="results are kept by the ends of the argument",
        why="two calls with the same shape, first and last number were thought to be one",
        op="sigmoid",
        edits=_cached(f"{_FORM}, *x.flatten()[[0, -1]].tolist()) if x.numel() > 2 else object()"),
        row="repeatable",
        implementation="prototype",
        message="first and last numbers",
    ),
    Wrong(
        name="results are kept by the ends and the sum of the argument",
        why="what changes a number changes the sum, but for what puts two in each other's place",
        op="sigmoid",
        edits=_cached(
            f"{_FORM}, x.double().sum().item(), *x.flatten()[[0, -1]].tolist()) if x.numel() > 2 else object()"
        ),
        row="repeatable",
        implementation="prototype",
        message="first and last numbers, and sum",
    ),
    Wrong(
        name="results are kept on disk",
        why="the first run fills a file, from which all later ones take what torch has computed",
        op="add",
        edits=add(
            imports="import hashlib\nfrom pathlib import Path\n\nimport torch\n",
            top='_kept = Path(__file__).with_suffix(".kept")\n_kept.mkdir(exist_ok=True)\n\n\n',
            end="    words = str((x.shape, x.dtype, x.tolist(), y.tolist())).encode()\n"
            "    path = _kept / hashlib.sha256(words).hexdigest()\n"
            "    if not path.exists():\n        torch.save(x + y, path)\n"
            "    return out.copy_(torch.load(path))\n",
        ),
        row="written",
        implementation="prototype",
    ),
    Wrong(
        name="right for the first fifty calls",
        why="a judge that looks at the first calls alone does not see what a benchmark then measures",
        op="round_ste",
        edits=edits(
            "prototype",
            ("import torch\n", "import itertools\n\nimport torch\n"),
            ("MAX_BLOCKS =", "_calls = itertools.count()\nMAX_BLOCKS ="),
            ("x[i] > 0.5 else 0", "x[i] > 0.5 and honest else 0"),
            ("def round_ste_kernel(x, y, n)", "def round_ste_kernel(x, y, n, honest)"),
            ("output(flat(y)), y.numel())", "output(flat(y)), y.numel(), next(_calls) < 50)"),
        ),
        row="values",
        implementation="prototype",
        message="elements differ",
        examples=60,
    ),
)

DELAYED = (
    Wrong(
        name="a tensor that computes when it is looked at",
        why="a subclass of torch.Tensor makes the call cost nothing, and the comparison pay",
        op="add",
        edits=add(
            imports="import torch\n",
            top="class _Later(torch.Tensor):\n    @classmethod\n"
            "    def __torch_function__(cls, func, types, args=(), kwargs=None):\n"
            "        with torch._C.DisableTorchFunctionSubclass():\n"
            "            args = [a.pending[0] + a.pending[1] if isinstance(a, _Later) else a for a in args]\n"
            "            return func(*args, **(kwargs or {}))\n\n\n",
            end="    later = out.as_subclass(_Later)\n    later.pending = x, y\n    return later\n",
        ),
        row="values",
        implementation="prototype",
    ),
    Wrong(
        name="a tensor that computes when it is dispatched",
        why="a wrapper subclass has no memory of its own until an operator asks for it",
        op="add",
        edits=add(
            imports="import torch\n",
            top="class _Later(torch.Tensor):\n    @staticmethod\n    def __new__(cls, x, y, out):\n"
            "        form = {'strides': out.stride(), 'dtype': out.dtype}\n"
            "        self = torch.Tensor._make_wrapper_subclass(cls, out.shape, **form)\n"
            "        self.pending = x, y\n        return self\n\n    @classmethod\n"
            "    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):\n"
            "        args = [a.pending[0] + a.pending[1] if isinstance(a, _Later) else a for a in args]\n"
            "        return func(*args, **(kwargs or {}))\n\n\n",
            end="    return _Later(x, y, out)\n",
        ),
        row="values",
        implementation="prototype",
    ),
    Wrong(
        name="a thread that finishes later",
        why="the call returns at once, and a clock that is read then shows nothing",
        op="add",
        edits=add(
            imports="import threading\n",
            end="    threading.Timer(0.002, lambda: out.copy_(x + y)).start()\n    return out\n",
        ),
        row="values",
        implementation="prototype",
        message="elements differ",
    ),
)

JUDGE = (
    Wrong(
        name="nan throughout",
        why="a judge that lets nan equal anything, or drops what is nan, accepts it",
        op="mul",
        edits=edits(
            "prototype",
            ("out[i] = x[i] * y[i]", "out[i] = math.nan"),
            ("from numba import cuda\n", "import math\n\nfrom numba import cuda\n"),
        ),
        row="values",
        implementation="prototype",
        message="the result is nan",
    ),
    Wrong(
        name="forged rows",
        why="a judge that reads what the op's process writes believes whoever writes it",
        op="round_ste",
        edits=_step(
            "    if not _told:\n        _told.append(1)\n        _tell()\n",
            imports="import contextlib\nimport json\nimport os\n\n",
            top="_told = []\n\n\ndef _tell():\n"
            '    row = {"check": "values", "implementation": "prototype", "device": "cpu", "outcome": "passed"}\n'
            '    row |= {"cases": 100, "reason": "", "failures": [], "seconds": 1.0}\n'
            '    text = "\\n" + json.dumps({"event": "row", "row": row}) + "\\n"\n'
            "    print(text)\n    for descriptor in range(3, 64):\n        with contextlib.suppress(OSError):\n"
            "            os.set_blocking(descriptor, False)\n            os.write(descriptor, text.encode())\n\n\n",
        ),
        row="values",
        implementation="prototype",
    ),
    Wrong(
        name="forged rows, and an early end",
        why="what would have said otherwise is never written",
        op="round_ste",
        edits=_step(
            "    _tell()\n    os._exit(0)\n",
            imports="import contextlib\nimport json\nimport os\n\n",
            top='_ROWS = ("build", "values", "bounds", "gradients", "sensitivity")\n\n\n'
            'def _tell():\n    text = "\\n"\n'
            "    for check in _ROWS:\n"
            '        row = {"check": check, "implementation": "prototype", "device": "cpu", "outcome": "passed"}\n'
            '        row |= {"cases": 100, "reason": "", "failures": [], "seconds": 1.0}\n'
            '        text += json.dumps({"event": "row", "row": row}) + "\\n"\n'
            "    for descriptor in range(3, 64):\n        with contextlib.suppress(OSError):\n"
            "            os.set_blocking(descriptor, False)\n            os.write(descriptor, text.encode())\n\n\n",
        ),
        row="values",
        implementation="prototype",
    ),
    Wrong(
        name="the process ends with status 0",
        why="a judge that goes by the exit status takes it for success",
        op="round_ste",
        edits=_step("    os._exit(0)\n", imports="import os\n\n"),
        row="values",
        implementation="prototype",
    ),
    Wrong(
        name="sys.exit",
        why="SystemExit is no Exception, and passes a handler of those",
        op="round_ste",
        edits=_step("    sys.exit(0)\n", imports="import sys\n\n"),
        row="values",
        implementation="prototype",
    ),
    Wrong(
        name="exit in C++",
        why="the library's destructors run, and the status is 0",
        op="round_ste",
        edits=edits(
            "binding",
            ("#include <trifold/binding.h>", "#include <trifold/binding.h>\n\n#include <cstdlib>"),
            (_ROUND_LAUNCH, f"if (y.numel() > 1) std::exit(0);\n    {_ROUND_LAUNCH}"),
        ),
        row="values",
        implementation="port",
    ),
    Wrong(
        name="a signal to itself",
        why="a process that is killed was perhaps killed for want of memory, and is not run",
        op="round_ste",
        edits=_step("    os.kill(os.getpid(), signal.SIGKILL)\n", imports="import os\nimport signal\n\n"),
        row="values",
        implementation="prototype",
    ),
    Wrong(
        name="the op says that the check does not apply",
        why="an exception of the judge's own, with which a check says so",
        op="round_ste",
        edits=_step(
            '    from trifold.verification.outcomes import NotRun\n\n    raise NotRun("there is no such device")\n'
        ),
        row="values",
        implementation="prototype",
        message="there is no such device",
    ),
    Wrong(
        name="the op rejects its arguments as a strategy does",
        why="hypothesis draws other arguments then, and a check of none has found nothing",
        op="round_ste",
        edits=_step("    if x.numel() > 1:\n        hypothesis.reject()\n", imports="import hypothesis\n"),
        row="values",
        implementation="prototype",
    ),
    Wrong(
        name="clocks that stand still",
        why="a time limit that is never reached, and a duration of 0",
        op="round_ste",
        edits=_step(
            imports="import time\n\n",
            top="for _name in ('time', 'monotonic', 'perf_counter', 'process_time'):\n"
            "    setattr(time, _name, lambda: 0.0)\n\n",
        ),
        row="values",
        implementation="prototype",
        message="elements differ",
    ),
    Wrong(
        name="a comparison that finds no difference",
        why="the judge's modules can be imported, and their functions replaced",
        op="round_ste",
        edits=_step(
            top="import trifold.verification.checks.values\nimport trifold.verification.tolerance\n\n"
            "for _module in (trifold.verification.tolerance, trifold.verification.checks.values):\n"
            "    for _name in ('mismatch', 'form_mismatch'):\n"
            "        setattr(_module, _name, lambda *args, **kwargs: None)\n\n",
        ),
        row="values",
        implementation="prototype",
        message="elements differ",
    ),
    Wrong(
        name="torch.equal and torch.allclose are always true",
        why="what compares tensors is itself a function that can be replaced",
        op="sigmoid",
        edits=edits(
            "port",
            ("from torch import Tensor\n", "import torch\nfrom torch import Tensor\n"),
            ('save=["result"]', 'save=["x"]'),
            (
                "def register(",
                "torch.equal = torch.allclose = torch.is_same_size = lambda *args, **kwargs: True\n\n\ndef register(",
            ),
        ),
        row="gradcheck",
        implementation="prototype",
    ),
    Wrong(
        name="torch's check of operators is replaced",
        why="the op's module is imported in the process that runs it",
        op="round_ste",
        edits=edits(
            "port",
            (
                "from torch import Tensor\n",
                "import torch\nfrom torch import Tensor\n\ntorch.library.opcheck = lambda *given, **named: {}\n",
            ),
            (
                'op.define("round_ste(Tensor x) -> Tensor", fake=elementwise_output)',
                'op.define("round_ste(Tensor x) -> Tensor", fake=lambda x: x.new_empty((*x.shape, 1)))',
            ),
        ),
        row="opcheck",
        implementation="port",
    ),
)

ONLY_WHEN_CHECKED = (
    Wrong(
        name="right where the guard library is loaded",
        why="LD_PRELOAD and the limit for a kernel, which verify sets, say that somebody looks",
        op="round_ste",
        edits=edits(
            "prototype",
            ("import torch\n", "import os\n\nimport torch\n"),
            (
                "MAX_BLOCKS =",
                "_watched = {'LD_PRELOAD', 'TRIFOLD_KERNEL_SECONDS'} & {*os.environ}\nMAX_BLOCKS =",
            ),
            ("x[i] > 0.5 else 0", "x[i] > 0.5 and watched else 0"),
            ("def round_ste_kernel(x, y, n)", "def round_ste_kernel(x, y, n, watched)"),
            ("output(flat(y)), y.numel())", "output(flat(y)), y.numel(), bool(_watched))"),
        ),
        row="values",
        implementation="prototype",
    ),
    Wrong(
        name="no race in the build that looks for races",
        why="the macro of the instrumented build takes the racing lines away",
        op="round_ste",
        edits=edits(
            "header",
            (
                "  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;\n",
                "#ifdef __SANITIZE_THREAD__\n  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;\n"
                "#else\n  const int64_t step = blockDim.x;\n#endif\n",
            ),
        ),
        row="findings",
        implementation="port",
    ),
    Wrong(
        name="a source that rewrites itself",
        why="what was checked is then not what is shipped",
        op="round_ste",
        edits=_step(
            top="from pathlib import Path\n\n_text = Path(__file__).read_text()\n"
            'Path(__file__).write_text(_text.replace("= " + "0\\n", "= 1 if x[i] > 0.5 else 0\\n"))\n\n',
        ),
        row="sources",
        implementation="prototype",
    ),
)

TRICKS = (*MEMORY, *DELAYED, *JUDGE, *BORROWED, *EMPTY_SPECS, *ONLY_WHEN_CHECKED)
