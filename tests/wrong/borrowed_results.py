"""Ops whose results torch, NumPy or the reference computed, and ops that compute in too narrow a type."""

from __future__ import annotations

from tests.wrong.entry import Wrong, edits
from tests.wrong.trick_parts import SIGMOID_FORMULA, add

BORROWED = (
    Wrong(
        name="the reference is called",
        why="it is in the same file",
        op="add",
        edits=add(end="    return out.copy_(reference(x, y))\n"),
        row="values",
        implementation="prototype",
    ),
    Wrong(
        name="the reference is looked for among all objects",
        why="whatever a process holds, its garbage collector lists",
        op="add",
        edits=add(
            imports="import gc\nimport types\n\n",
            end="    for found in gc.get_objects():\n"
            "        if isinstance(found, types.FunctionType) and found.__name__ == 'reference':\n"
            "            return out.copy_(found(x, y))\n    return out\n",
        ),
        row="values",
        implementation="prototype",
    ),
    Wrong(
        name="the exact result is looked for among all tensors",
        why="a judge that has computed it before the call holds it in the same process",
        op="add",
        edits=add(
            imports="import gc\n\nimport torch\n",
            end="    for found in gc.get_objects():\n"
            "        if isinstance(found, torch.Tensor) and (found.shape, found.dtype) == (out.shape, torch.float64):\n"
            "            out.copy_(found)\n    return out\n",
        ),
        row="values",
        implementation="prototype",
        message="elements differ",
    ),
    Wrong(
        name="torch's own op",
        why="its values are right, and it is fast",
        op="softmax",
        edits=edits(
            "prototype",
            (
                "launch_rows(softmax_kernel, softmax_rows_kernel, rows(x), output(rows(y)))",
                "y.copy_(torch.softmax(x, -1))",
            ),
        ),
        row="written",
        implementation="prototype",
    ),
    Wrong(
        name="a kernel that copies what torch has computed",
        why="each element is then written by a kernel of the op",
        op="softmax",
        edits=edits(
            "prototype",
            ("y[row, i] = math.exp(x[row, i] - largest) / total\n", "y[row, i] = x[row, i]\n"),
            ("y[row, i] = part[k] / total\n", "y[row, i] = x[row, i]\n"),
            ("rows(x), output(rows(y)))", "rows(torch.softmax(x, -1)), output(rows(y)))"),
        ),
        row="written",
        implementation="prototype",
    ),
    Wrong(
        name="the reference calls the prototype",
        why="both then compute the same, whatever it is",
        op="add",
        edits=edits(
            "prototype",
            ("    return x + y\n", "    return add(x, y)\n"),
            ("        out[i] = x[i] + y[i]", "        out[i] = x[i] + 2 * y[i]"),
        ),
        row="build",
        implementation="prototype",
        message="write the reference in PyTorch alone",
    ),
    Wrong(
        name="a kernel that doubles half of what torch has computed",
        why="its numbers are not torch's, which a search for the same numbers does not find",
        op="softmax",
        edits=edits(
            "prototype",
            ("y[row, i] = math.exp(x[row, i] - largest) / total\n", "y[row, i] = 2 * x[row, i]\n"),
            ("y[row, i] = part[k] / total\n", "y[row, i] = 2 * x[row, i]\n"),
            ("rows(x), output(rows(y)))", "rows(torch.softmax(x, -1) / 2), output(rows(y)))"),
        ),
        row="written",
        implementation="prototype",
        message="a kernel only copied or scaled them",
    ),
    Wrong(
        name="a kernel that shifts what NumPy has computed",
        why="torch sees nothing of what NumPy computes",
        op="sigmoid",
        edits=edits(
            "prototype",
            (
                "    launch_elementwise(sigmoid_kernel, y.numel(), flat(x, y), ",
                "    v = 1 / (1 + np.exp(-flat(x, y).detach().double().numpy())) - 1\n"
                "    launch_elementwise(sigmoid_kernel, y.numel(), torch.from_numpy(v), ",
            ),
            (SIGMOID_FORMULA, "y[i] = x[i] + 1"),
        ),
        row="written",
        implementation="prototype",
        message="Python computed these numbers, and a kernel only copied or scaled them",
    ),
    Wrong(
        name="float64 in float32",
        why="it costs half as much, and a tolerance for float32 does not show it",
        op="rms_norm",
        edits=edits(
            "prototype",
            ("kernel, rows(x), given(weight, x)", "kernel, rows(x.float().to(x.dtype)), given(weight, x)"),
        ),
        row="values",
        implementation="prototype",
        message="float64",
    ),
    Wrong(
        name="float32 in bfloat16",
        why="it costs half as much, and a tolerance of 1% does not show it",
        op="layer_norm",
        edits=edits(
            "prototype",
            ("from torch import Tensor\n", "from torch import Tensor\n\n_WIDE = torch.float64, torch.float16\n"),
            (
                "kernel, rows(x), *numbers",
                "kernel, rows(x if x.dtype in _WIDE else x.bfloat16().to(x.dtype)), *numbers",
            ),
        ),
        row="values",
        implementation="prototype",
        message="float32",
    ),
)
