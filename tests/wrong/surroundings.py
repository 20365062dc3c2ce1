"""Ops that rely on the application's state, or change it: settings, random numbers, memory; ops whose calls share
memory; and one that detects that it is verified."""

from __future__ import annotations

from tests.wrong.entry import Wrong, edits

_SAVE_OF_MUL = "save=lambda x, y, out: (x if may_need_gradient(y) else None, y if may_need_gradient(x) else None)"

_SAVE_BY_FLAG = _SAVE_OF_MUL.replace("may_need_gradient(", "Tensor.requires_grad.__get__(")

SURROUNDINGS = (
    Wrong(
        name="copies of tables that have gaps are kept by address",
        why="tables rarely change, and copying them took longer than the kernel",
        op="rope",
        edits=edits(
            "prototype",
            ("def _heads(x", "_copies = {}\n\n\ndef _heads(x"),
            (
                "    arguments = *operands, cos, sin, *results, positions, pairs, inverse\n",
                "    cos, sin = (\n"
                "        x if x.is_contiguous() else\n"
                "        _copies.setdefault((x.data_ptr(), x.shape, x.stride(), x.dtype), x.contiguous())\n"
                "        for x in (cos, sin)\n"
                "    )\n"
                "    arguments = *operands, cos, sin, *results, positions, pairs, inverse\n",
            ),
        ),
        row="repeatable",
        implementation="prototype",
        message="cached by address",
    ),
    Wrong(
        name="the output has the default dtype where that is the right one",
        why="the branch for the other dtypes was added later",
        op="sigmoid",
        edits=edits(
            "prototype",
            (
                '    check_floating("sigmoid", x=x)\n    y = elementwise_output(x)\n',
                '    check_floating("sigmoid", x=x)\n    y = elementwise_output(x)\n'
                "    if x.dtype == torch.float32:\n"
                "        y = torch.empty_strided(x.shape, y.stride(), device=x.device)\n",
            ),
        ),
        row="repeatable",
        implementation="prototype",
        message="with another default dtype",
    ),
    Wrong(
        name="a number is drawn that nobody uses",
        why="it is left over from a test with noise; each later dropout of the model is another one",
        op="swiglu",
        edits=edits(
            "port",
            ("    out: Tensor = op.swiglu(gate, up)\n", "    torch.rand(1)\n    out: Tensor = op.swiglu(gate, up)\n"),
        ),
        row="repeatable",
        implementation="prototype",
        message="draws random numbers",
    ),
    Wrong(
        name="a setting of torch is changed when the op is loaded",
        why="it made a comparison with torch's own matrix product faster",
        op="add",
        edits=edits(
            "port",
            ("from torch import Tensor\n", "import torch\nfrom torch import Tensor\n"),
            ("op = wire(", 'torch.set_float32_matmul_precision("high")\nop = wire('),
        ),
        row="repeatable",
        implementation="prototype",
        message="torch.get_float32_matmul_precision()",
    ),
    Wrong(
        name="an argument is changed, and changed back",
        why="it saves the memory of an intermediate result, and nobody is to see it",
        op="mul",
        edits=edits(
            "prototype",
            (
                "        out[i] = x[i] * y[i]\n",
                "        x[i] = -x[i]\n        out[i] = -(x[i] * y[i])\n        x[i] = -x[i]\n",
            ),
            ("flat(x, out), flat(y, out), output(flat(out))", "output(flat(x, out)), flat(y, out), output(flat(out))"),
        ),
        row="written",
        implementation="prototype",
        message="a kernel writes into x",
    ),
    Wrong(
        name="each argument is kept",
        why="a cache by version was given up, and still fills",
        op="mul",
        edits=edits(
            "prototype",
            ("@cuda.jit\ndef mul_kernel", "_seen = []\n\n\n@cuda.jit\ndef mul_kernel"),
            ('    check_alike("mul", x=x, y=y)\n', '    check_alike("mul", x=x, y=y)\n    _seen.append(x)\n'),
        ),
        row="repeatable",
        implementation="prototype",
        message="the op still holds 1 of its arguments and results",
    ),
    Wrong(
        name="torch computes where nothing is recorded",
        why="it is faster, and rounds better",
        op="sigmoid",
        edits=edits(
            "prototype",
            (
                "from torch import Tensor\n",
                "from torch import Tensor\n\nfrom trifold.simulator.settings import current\n",
            ),
            (
                "    return y\n\n\ndef sigmoid_backward",
                "    if 'lint' not in current().checks:\n"
                "        y.copy_(torch.sigmoid(x.double()))\n"
                "    return y\n\n\ndef sigmoid_backward",
            ),
        ),
        row="findings",
        implementation="prototype",
        message="whether the kernels are checked shows in the result",
    ),
    Wrong(
        name="one workspace for all calls",
        why="an allocation is saved; calls in two streams, or of two threads, share it",
        op="rms_norm",
        edits=edits(
            "rows/norms_backward.h",
            (
                "  const Tensor parts = empty_strided(like, {wanted ? sums.numbers() : 0}, {1}, compute_dtype(like));",
                "  static Tensor kept = empty_strided(like, {1}, {1}, compute_dtype(like));\n"
                "  if (kept.numel() < sums.numbers())\n"
                "    kept = empty_strided(like, {sums.numbers()}, {1}, compute_dtype(like));\n"
                "  const Tensor parts = kept;",
            ),
        ),
        row="repeatable",
        implementation="port",
        missed="a GPU alone chooses these kernels; the row findings makes a call between two launches of others",
    ),
    Wrong(
        name="the sums of parts are kept for each shape",
        why="an allocation is saved; of two calls in two streams, one adds up the other's parts",
        op="layer_norm",
        edits=edits(
            "prototype",
            ("WARPS_PER_BLOCK = THREADS_PER_BLOCK // 32\n", "WARPS_PER_BLOCK = THREADS_PER_BLOCK // 32\n_parts = {}\n"),
            (
                "        parts = statistics.new_empty((2, shares, columns))\n",
                "        key = shares, columns, statistics.dtype\n"
                "        if key not in _parts:\n"
                "            _parts[key] = statistics.new_empty((2, shares, columns))\n"
                "        parts = _parts[key]\n",
            ),
        ),
        row="findings",
        implementation="prototype",
        message="both write to the same memory, which the op keeps",
    ),
    Wrong(
        name="NumPy's random numbers are seeded",
        why="a table of random numbers is made in each call, and is to be the same; a data loader shuffles no more",
        op="sigmoid",
        edits=edits(
            "prototype",
            ('    check_floating("sigmoid", x=x)\n', '    check_floating("sigmoid", x=x)\n    np.random.seed(0)\n'),
        ),
        row="repeatable",
        implementation="prototype",
        message="random numbers, those of numpy.random",
    ),
    Wrong(
        name="a thread that did not load the op lacks what it made there",
        why="a variable of threads was set where the module was imported; autograd's own threads call, too",
        op="sigmoid",
        edits=edits(
            "prototype",
            ("import math\n", "import math\nimport threading\n"),
            ("def reference(", "_local = threading.local()\n_local.calls = 0\n\n\ndef reference("),
            (
                '    check_floating("sigmoid", x=x)\n',
                '    check_floating("sigmoid", x=x)\n    _local.calls += 1\n',
            ),
        ),
        row="repeatable",
        implementation="prototype",
        message="in another thread, it fails",
    ),
    Wrong(
        name="arguments are cast under autocast",
        why="matrix products are; torch itself leaves sigmoid's arguments as they are",
        op="sigmoid",
        edits=edits(
            "port",
            ("from torch import Tensor\n", "import torch\nfrom torch import Tensor\n"),
            (
                "    y: Tensor = op.sigmoid(x)\n",
                "    if torch.is_autocast_enabled(x.device.type):\n"
                "        x = x.to(torch.get_autocast_dtype(x.device.type))\n"
                "    y: Tensor = op.sigmoid(x)\n",
            ),
        ),
        row="repeatable",
        implementation="prototype",
        message="under torch.autocast, a result is torch.bfloat16",
    ),
    Wrong(
        name="with deterministic algorithms rows are in order, and their indices are not",
        why="the path for torch's flag was never run",
        op="scatter_add",
        edits=edits(
            "port",
            ("from torch import Tensor\n", "import torch\nfrom torch import Tensor\n"),
            (
                "    out: Tensor = op.scatter_add(",
                "    if torch.are_deterministic_algorithms_enabled():\n"
                "        source = source[index.argsort()]\n"
                "    out: Tensor = op.scatter_add(",
            ),
        ),
        row="repeatable",
        implementation="prototype",
        message="with torch.use_deterministic_algorithms(True)",
    ),
    Wrong(
        name="the weight of a module is converted once",
        why="a weight is constant in inference; an optimizer changes it, and the first one is used for ever",
        op="layer_norm",
        edits=edits(
            "port",
            ("from torch import Tensor\n", "import torch\nfrom torch import Tensor\n"),
            ("def register(", "_kept = {}\n\n\ndef register("),
            (
                "    y: Tensor = op.layer_norm(x, weight, bias, eps)",
                "    if isinstance(weight, torch.nn.Parameter):\n"
                "        weight = _kept.setdefault(id(weight), weight.detach().clone())\n"
                "    y: Tensor = op.layer_norm(x, weight, bias, eps)",
            ),
        ),
        row="repeatable",
        implementation="prototype",
        message="got other numbers in place",
    ),
    Wrong(
        name="arguments that require a gradient are kept",
        why="they are found by backward in a table, from which only backward removes them",
        op="mul",
        edits=edits(
            "port",
            (
                "def _backward(ctx",
                "_saved = []\n\n\ndef _save(x, y, out):\n"
                "    if x.requires_grad and y.requires_grad:\n        _saved.append((x, y))\n"
                "    return x if y.requires_grad else None, y if x.requires_grad else None\n\n\n"
                "def _backward(ctx",
            ),
            (_SAVE_OF_MUL, "save=_save"),
        ),
        row="repeatable",
        implementation="prototype",
        message="after a call with gradients, without a backward pass, the op still holds 2",
    ),
    Wrong(
        name="within vmap a gradient is missing",
        why="what is kept depends on requires_grad, which within vmap is False for what is taken from a batch",
        op="mul",
        edits=edits("port", (_SAVE_OF_MUL, _SAVE_BY_FLAG)),
        row="repeatable",
        implementation="prototype",
        message="under torch.vmap a gradient is missing",
    ),
    Wrong(
        name="a variable of the environment is set when the op is loaded",
        why="it was left over from a search for a fault; each launch of the application now waits for its kernel",
        op="add",
        edits=edits(
            "port",
            ("from torch import Tensor\n", "import os\n\nfrom torch import Tensor\n"),
            ("op = wire(", 'os.environ["CUDA_LAUNCH_BLOCKING"] = "1"\nop = wire('),
        ),
        row="repeatable",
        implementation="prototype",
        message="os.environ['CUDA_LAUNCH_BLOCKING'], for the whole process, from unset to 1",
    ),
    Wrong(
        name="sums are rounded up, and so are those of the application from then on",
        why="the bound of an interval needs it, and the mode was not set back",
        op="add",
        edits=edits(
            "binding",
            ('#include "add.cuh"\n', '#include "add.cuh"\n\n#include <cfenv>\n'),
            ("  Tensor out = ", "  std::fesetround(FE_UPWARD);\n  Tensor out = "),
        ),
        row="repeatable",
        implementation="port",
        message="fegetround(), for the whole process, from FE_TONEAREST to FE_UPWARD",
    ),
    Wrong(
        name="float16 has the precision of bfloat16 where algorithms are to be deterministic",
        why="the deterministic path was written for bfloat16, and called for all half types",
        op="softmax",
        edits=edits(
            "port",
            ("from torch import Tensor\n", "import torch\nfrom torch import Tensor\n"),
            (
                "    y: Tensor = op.softmax(x)\n",
                "    if torch.are_deterministic_algorithms_enabled() and x.dtype == torch.float16:\n"
                "        x = x.bfloat16().to(x.dtype)\n"
                "    y: Tensor = op.softmax(x)\n",
            ),
        ),
        row="repeatable",
        implementation="prototype",
        message="use_deterministic_algorithms",
    ),
    Wrong(
        name="the buffers of all calls are kept until the kernels have run",
        why="nobody took them out of the list again",
        op="scatter_add",
        edits=edits(
            "binding",
            (
                "  if constexpr (is_half) buffer = trifold::scratch<T, C>(out, n);\n",
                "  if constexpr (is_half) {\n    buffer = trifold::scratch<T, C>(out, n);\n"
                "    static auto& alive = *new std::vector<Tensor>;\n    alive.push_back(buffer);\n  }\n",
            ),
        ),
        row="repeatable",
        implementation="port",
        message="a memory leak",
    ),
    Wrong(
        name="torch computes where the op is compiled",
        why="a graph of torch's operators can be fused with others; it lacks the maximum",
        op="softmax",
        edits=edits(
            "port",
            ("from torch import Tensor\n", "import torch\nfrom torch import Tensor\n"),
            (
                "    y: Tensor = op.softmax(x)\n",
                "    if torch.compiler.is_compiling():\n"
                "        e = x.exp()\n        return e / e.sum(-1, keepdim=True)\n"
                "    y: Tensor = op.softmax(x)\n",
            ),
        ),
        row="compile",
        implementation="prototype",
        message="no kernel of the op is launched",
    ),
    Wrong(
        name="factors have the precision of bfloat16 where the application permits it to torch's products",
        why="the setting is about torch's matmul, and the op says that it has no TF32",
        op="matmul_tiled",
        edits=edits(
            "port",
            ("from torch import Tensor\n", "import torch\nfrom torch import Tensor\n"),
            (
                "    out: Tensor = op.matmul_tiled(a, b)\n",
                '    if torch.get_float32_matmul_precision() != "highest" and a.dtype == torch.float32:\n'
                "        a = a.bfloat16().float()\n"
                "    out: Tensor = op.matmul_tiled(a, b)\n",
            ),
        ),
        row="repeatable",
        implementation="prototype",
        message="set_float32_matmul_precision",
    ),
)
