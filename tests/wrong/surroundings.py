"""Ops that rely on the application's state, or change it: settings, random numbers, memory; ops whose calls share
memory; and one that detects that it is verified."""

from __future__ import annotations

from tests.wrong.entry import Wrong, edits

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
            ("import torch\n", "import numpy as np\nimport torch\n"),
            ('    check_floating("sigmoid", x=x)\n', '    check_floating("sigmoid", x=x)\n    np.random.seed(0)\n'),
        ),
        row="repeatable",
        implementation="prototype",
        message="random numbers, those of numpy.random",
    ),
)
