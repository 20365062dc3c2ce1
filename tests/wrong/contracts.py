"""Wrong registrations, argument checks, repeatability and branches; specs that cannot show a mistake."""

from __future__ import annotations

from tests.wrong.entry import Edit, Wrong, edits
from tests.wrong.right import GRADIENT_OF_ONE

_ADD_CHECK = 'trifold::check_alike("add", x, "x", y, "y");'

REGISTRATION = (
    Wrong(
        name="the schema does not match the C++ function",
        why="an argument was added on one side",
        op="sigmoid",
        edits=edits(
            "binding",
            ("(const Tensor& grad_y, const Tensor& y)", "(const Tensor& grad_y, const Tensor& y, double)"),
        ),
        row="build",
        implementation="port",
        message="the schema of sigmoid_backward",
    ),
    Wrong(
        name="an operator is not implemented",
        why="the C++ function is there, its registration is not",
        op="mul",
        edits=edits(
            "port",
            (
                "    op.autograd(\n",
                '    op.define("square(Tensor x) -> Tensor", fake=elementwise_output)\n    op.autograd(\n',
            ),
        ),
        row="build",
        implementation="port",
        message="implements no operator square",
    ),
    Wrong(
        name="an operator has no launch function",
        why="the prototype's function is named otherwise",
        op="sigmoid",
        edits=edits("prototype", ("def sigmoid_backward(", "def sigmoid_grad(")),
        row="build",
        implementation="prototype",
        message="no launch function sigmoid_backward",
    ),
    Wrong(
        name="the fake has another shape",
        why="a fake is run by the compiler only",
        op="round_ste",
        edits=edits("port", ("fake=elementwise_output", "fake=lambda x: x.new_empty(x.numel())")),
        row="opcheck",
        implementation="prototype",
    ),
    Wrong(
        name="the fake has no device",
        why="torch.empty without device= is on the CPU, where everything was tried; torch.compile on a GPU fails",
        op="softmax",
        edits=edits(
            "port",
            ("from torch import Tensor\n", "import torch\nfrom torch import Tensor\n"),
            ('softmax(Tensor x) -> Tensor", fake=row_output', 'softmax(Tensor x) -> Tensor", fake=_fake'),
            (
                "def _backward_of_backward(",
                "def _fake(x):\n    return torch.empty(x.shape, dtype=x.dtype)\n\n\ndef _backward_of_backward(",
            ),
        ),
        row="fake",
        implementation="prototype",
        message="device=x.device",
    ),
    Wrong(
        name="the fake of an operator that few calls reach has another shape",
        why="the last small call, which reaches the other operators, does not reach it",
        op="sigmoid",
        edits=(
            *GRADIENT_OF_ONE,
            *edits("port", ("(define, fake=elementwise_output)", "(define, fake=lambda grad_y, y: y.new_empty(2))")),
        ),
        row="opcheck",
        implementation="prototype",
        message="sigmoid_backward_of_one",
    ),
    Wrong(
        name="the fake has another dtype",
        why="torch.empty(shape) is float32 whatever comes in",
        op="round_ste",
        edits=edits("port", ("fake=elementwise_output", "fake=lambda x: x.new_empty(x.shape).float()")),
        row="fake",
        implementation="prototype",
        message="dtype",
    ),
    Wrong(
        name="the fake is always row-major",
        why="torch.empty(shape) does not keep the operands' order",
        op="add",
        edits=edits("port", ("fake=elementwise_output", "fake=lambda x, y: x.new_empty(x.shape)")),
        row="fake",
        implementation="prototype",
        message="strides",
    ),
    Wrong(
        name="the fake of the backward is always row-major",
        why="torch.empty(shape) does not keep the operands' order",
        op="sigmoid",
        edits=edits(
            "port",
            (
                'Tensor y) -> Tensor", fake=elementwise_output',
                'Tensor y) -> Tensor", fake=lambda grad_y, y: y.new_empty(y.shape)',
            ),
        ),
        row="fake",
        implementation="prototype",
        message="strides",
    ),
    Wrong(
        name="the fake reads the data",
        why="it was copied from the reference",
        op="round_ste",
        edits=edits(
            "port", ("fake=elementwise_output", "fake=lambda x: elementwise_output(x) if x.max() < 1 else x + 1")
        ),
        row="opcheck",
        implementation="prototype",
    ),
    Wrong(
        name="a graph break",
        why="a check of the values asks for them on the host",
        op="add",
        edits=edits("port", ("    out: Tensor =", "    assert not bool(x.isnan().any())\n    out: Tensor =")),
        row="compile",
        implementation="prototype",
    ),
    Wrong(
        name="another formula under torch.compile",
        why="one that inductor fuses, for a part of what eager mode computes",
        op="add",
        edits=edits(
            "port",
            ("    out: Tensor =", "    if torch.compiler.is_compiling():\n        return x - y\n    out: Tensor ="),
            ('"""add: the operator."""\n', '"""add: the operator."""\n\nimport torch\n'),
        ),
        row="compile",
        implementation="prototype",
        message="torch.compile changes the result",
    ),
    Wrong(
        name="a wrong sign, with torch.compile and without",
        why="it is not torch.compile's mistake, and the row must not say that it is",
        op="add",
        edits=edits("prototype", ("x[i] + y[i]", "x[i] - y[i]")),
        row="compile",
        implementation="prototype",
        message="as in eager mode",
    ),
)

CONTRACT = (
    Wrong(
        name="the fake has the strides of a sum of both operands",
        why="that is what other operators of two operands have; silu(gate) * up has those of gate",
        op="swiglu",
        edits=edits("port", ("fake=lambda gate, up: elementwise_output(gate))", "fake=elementwise_output)")),
        row="fake",
        implementation="prototype",
    ),
    Wrong(
        name="int64 is accepted",
        why="nothing in Python stops it",
        op="sigmoid",
        edits=edits("prototype", ('check_floating("sigmoid", x=x)\n', "pass\n")),
        row="errors",
        implementation="prototype",
        message="integer dtype",
    ),
    Wrong(
        name="int64 is accepted without elements",
        why="there is nothing to compute, so that the argument is returned before it is checked",
        op="round_ste",
        edits=edits(
            "port",
            (
                "    y: Tensor = op.round_ste(x)\n",
                "    if isinstance(x, Tensor) and x.numel() == 0:\n        return x\n    y: Tensor = op.round_ste(x)\n",
            ),
        ),
        row="errors",
        implementation="prototype",
        message="integer dtype, of tensors without elements",
    ),
    Wrong(
        name="an assertion for an argument check",
        why="it is short; python -O removes it, and callers do not catch it",
        op="sigmoid",
        edits=edits("prototype", ('check_floating("sigmoid", x=x)', 'assert x.is_floating_point(), "x is int64"')),
        row="errors",
        implementation="prototype",
        message="AssertionError",
    ),
    Wrong(
        name="no argument check",
        why="the dispatch over dtypes refuses some of it, in words that do not name the argument",
        op="add",
        edits=edits("binding", (_ADD_CHECK, "")),
        row="errors",
        implementation="port",
        message="does not mention x",
    ),
    Wrong(
        name="another shape is accepted",
        why="the number of elements is taken from the first argument",
        op="add",
        edits=edits("binding", (_ADD_CHECK, 'trifold::check_floating("add", x, "x");')),
        row="errors",
        implementation="port",
        message="another shape: nothing is raised",
    ),
    Wrong(
        name="a table that requires a gradient gets none",
        why="backward returns None for it, and whoever trains the table sees no error",
        op="rope",
        edits=edits("port", ("if torch.is_grad_enabled():", "if False:")),
        row="errors",
        implementation="prototype",
        message="cos has no gradient by Spec(gradients=...), requires one and gets none, silently",
    ),
    Wrong(
        name="other bits at every second call",
        why="a sum in the order in which threads arrive; here its last bit comes and goes",
        op="sigmoid",
        edits=edits(
            "prototype",
            ("import math\n", "import itertools\nimport math\n"),
            ("def reference(", "_calls = itertools.count()\n\n\ndef reference("),
            ("    return y\n", "    return y if next(_calls) % 2 else y * (1 - torch.finfo(y.dtype).eps / 2)\n"),
        ),
        row="repeatable",
        implementation="prototype",
        message="other bits",
    ),
    Wrong(
        name="one buffer for all results",
        why="a static output saves the allocation, and the next call overwrites what the last one returned",
        op="sigmoid",
        edits=edits(
            "prototype",
            ("def reference(", "_buffers = {}\n\n\ndef reference("),
            (
                "y = elementwise_output(x)",
                "y = _buffers.setdefault((x.shape, x.stride(), x.dtype), elementwise_output(x))",
            ),
        ),
        row="repeatable",
        implementation="prototype",
        message="memory",
    ),
    Wrong(
        name="a kernel that no input reaches",
        why="the condition for the fast path can never hold",
        op="add",
        edits=(
            *edits(
                "header",
                (
                    "template <class T>\n__global__ void add_vector_kernel",
                    "template <class T>\n__global__ void add_huge_kernel() {}\n\n"
                    "template <class T>\n__global__ void add_vector_kernel",
                ),
            ),
            *edits(
                "binding",
                (
                    "    trifold::launch_elementwise<",
                    "    if (out.numel() < 0) return trifold::launch<add_huge_kernel<T>>({}, 1, 1, 0);\n"
                    "    trifold::launch_elementwise<",
                ),
            ),
        ),
        row="branches",
        implementation="port",
        message="no case reaches add_huge_kernel",
    ),
    Wrong(
        name="parameters of other names",
        why="positional calls alone are tested",
        op="mul",
        edits=edits(
            "port",
            ("def mul(x: Tensor, y: Tensor)", "def mul(a: Tensor, b: Tensor)"),
            ("out: Tensor = op.mul(x, y)", "out: Tensor = op.mul(a, b)"),
        ),
        row="values",
        implementation="prototype",
        message="unexpected keyword argument 'x'",
    ),
    Wrong(
        name="a refused call leaves its mark",
        why="a flag against a call within a call is not taken back where the check of arguments raises",
        op="mul",
        edits=edits(
            "prototype",
            (
                "def mul(x: Tensor, y: Tensor) -> Tensor:\n",
                "def mul(x: Tensor, y: Tensor) -> Tensor:\n    nested = bool(_calls)\n    _calls.append(x)\n",
            ),
            ("output(flat(out)), out.numel())\n", "output(flat(out)), out.numel() - nested)\n    _calls.clear()\n"),
            ("@cuda.jit\ndef mul_kernel", "_calls = []\n\n\n@cuda.jit\ndef mul_kernel"),
        ),
        row="errors",
        implementation="prototype",
        message="after a call that was refused, integer dtype",
    ),
    Wrong(
        name="what is saved does not count its changes",
        why=".data was to spare memory, and the indices of the next batch are written into the same tensor",
        op="embedding",
        edits=edits(
            "port",
            (
                "save=lambda indices, weight, deterministic, out: (indices,",
                "save=lambda indices, weight, deterministic, out: (indices.data,",
            ),
        ),
        row="repeatable",
        implementation="prototype",
        message="indices is changed in place between forward and backward",
    ),
    Wrong(
        name="backward writes over what it has saved, in float16",
        why="a buffer was to be used once more, and no loss of the tests was differentiated twice",
        op="rms_norm",
        edits=edits(
            "prototype",
            (
                "    return grad_x, grad_weight\n",
                "    if x.dtype == torch.float16:\n        rstd.data.zero_()\n    return grad_x, grad_weight\n",
            ),
        ),
        row="repeatable",
        implementation="prototype",
        message="the second backward",
    ),
    Wrong(
        name="a result requires a gradient for which nobody asked",
        why="it was tried out in training, where an argument does",
        op="sigmoid",
        edits=edits(
            "port",
            ("    return y\n", "    return y.requires_grad_() if torch.is_grad_enabled() else y\n"),
            ("from torch import Tensor", "import torch\nfrom torch import Tensor"),
        ),
        row="values",
        implementation="prototype",
        message="a result requires a gradient",
    ),
)

_ZEROS = 'lambda limits: st.just(Call((TensorCase((5,), fill="zero"), TensorCase((5,), fill="zero"))))'
_ONLY_ZEROS = edits(
    "spec",
    ("import torch\n", "import torch\nfrom hypothesis import strategies as st\n"),
    ("    Spec,\n", "    Call,\n    Spec,\n    TensorCase,\n"),
    ("calls=elementwise(2)", f"calls={_ZEROS}"),
    ("    edges=elementwise_edges(2),\n", ""),
)

SPECS = (
    Wrong(
        name="a spec on which zeros pass",
        why="inputs from torch.zeros are quickly written",
        op="mul",
        edits=_ONLY_ZEROS,
        row="sensitivity",
        implementation="prototype",
        message="zeros",
    ),
    Wrong(
        name="a spec on which zero gradients pass",
        why="inputs from torch.zeros are quickly written",
        op="mul",
        edits=_ONLY_ZEROS,
        row="gradients",
        implementation="prototype",
        message="zeros would not pass for",
    ),
    Wrong(
        name="a spec on which a copy passes",
        why="the identity element as the second argument",
        op="add",
        edits=tuple(
            Edit(e.file, e.old, e.new.replace('TensorCase((5,), fill="zero"), ', 'TensorCase((5,), fill="normal"), '))
            for e in _ONLY_ZEROS
        ),
        row="sensitivity",
        implementation="prototype",
        message="a copy of x",
    ),
    Wrong(
        name="a shape that would broadcast is taken, and no bad call has it",
        why="whoever forgets a check forgets it twice",
        op="add",
        edits=(
            *edits(
                "prototype",
                ("check_alike,", "check_floating,"),
                ('check_alike("add", x=x, y=y)', 'check_floating("add", x=x, y=y)'),
            ),
            *edits("spec", ('elementwise_bad_calls("x", "y")', 'elementwise_bad_calls("x", "y")[:3]')),
        ),
        row="values",
        implementation="prototype",
        message="the op takes y of shape (1,",
    ),
    Wrong(
        name="a derivative declared a surrogate",
        why="it makes a numerical gradcheck go away",
        op="sigmoid",
        edits=edits(
            "spec",
            ("    smooth=elementwise_smooth(1),\n", '    smooth=elementwise_smooth(1),\n    surrogate="it is hard",\n'),
        ),
        row="gradcheck",
        implementation="prototype",
        message="it is the derivative after all",
    ),
    Wrong(
        name="a surrogate that is not declared",
        why="the gradient is useful, and no derivative",
        op="round_ste",
        edits=edits("spec", ("    surrogate=", "    multiple_reason=")),
        row="gradcheck",
        implementation="prototype",
        message="Jacobian mismatch",
    ),
    Wrong(
        name="of one tensor passed twice, both results are one tensor",
        why="the second would have the same numbers; whoever changes one in place changes the other",
        op="rope",
        edits=edits(
            "prototype",
            (
                "    return q_out, k_out\n\n\ndef _heads",
                "    if (q.data_ptr(), q.shape, q.stride()) == (k.data_ptr(), k.shape, k.stride()):\n"
                "        return q_out, q_out\n"
                "    return q_out, k_out\n\n\ndef _heads",
            ),
        ),
        row="values",
        implementation="prototype",
        message="results 0 and 1 lie in the same memory",
    ),
    Wrong(
        name="indices of 32 bits are read as such of 64",
        why="a pointer was cast, not checked, and whoever forgets a check forgets it twice",
        op="embedding",
        edits=(
            *edits(
                "binding",
                (
                    "  trifold::check(indices.scalar_type() == trifold::ScalarType::Long, op, "
                    '": indices must be int64, not ",\n'
                    '                 trifold::Dtype{indices}, "; convert it with indices.long()");\n',
                    "",
                ),
            ),
            *edits(
                "spec",
                (
                    '        _bad_call("int32 indices", ("indices", "int64", "int32"), '
                    "indices=torch.zeros(3).int()),\n",
                    "",
                ),
            ),
        ),
        row="values",
        implementation="port",
        message="the op takes indices in int32, where they are int64 in each call of the spec",
    ),
)
