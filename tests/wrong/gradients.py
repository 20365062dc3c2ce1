"""Wrong gradients, first and second."""

from __future__ import annotations

from tests.wrong.entry import Wrong, edits, gallery_launch

_BACKWARD_LAUNCH = gallery_launch("sigmoid_backward", "grad_x", "grad_y", "y")

GRADIENTS = (
    Wrong(
        name="a gradient's sign is swapped",
        why="copied from the rule of the difference",
        op="add",
        edits=edits("port", ("(grad, grad)", "(grad, -grad)")),
        row="gradients",
        implementation="prototype",
        message="gradient of y",
    ),
    Wrong(
        name="a gradient's sign is swapped",
        why="y - 1 for 1 - y",
        op="sigmoid",
        edits=edits("header", ("((C(1) - y) * y)", "((y - C(1)) * y)")),
        row="gradients",
        implementation="port",
        message="gradient of x",
    ),
    Wrong(
        name="a gradient's factor is missing",
        why="the derivative of exp is exp, that of the quotient was forgotten",
        op="sigmoid",
        edits=edits("header", ("grad_y * ((C(1) - y) * y)", "grad_y * y")),
        row="gradcheck",
        implementation="port",
    ),
    Wrong(
        name="an argument gets no gradient",
        why="the second factor is usually a constant",
        op="mul",
        edits=edits("port", ("return op.mul_backward(grad, x, y)", "return op.mul_backward(grad, x, y)[0], None")),
        row="gradients",
        implementation="prototype",
        message="y requires a gradient and gets none",
    ),
    Wrong(
        name="an argument asked for alone gets no gradient",
        why="the case of one constant factor was written for the first one only",
        op="mul",
        edits=edits("port", ("(None, product)", "(None, None)")),
        row="gradients",
        implementation="prototype",
        message="y requires a gradient and gets none",
    ),
    Wrong(
        name="the factors are swapped",
        why="d(xy)/dx is y",
        op="mul",
        edits=edits("port", ("op.mul_backward(grad, x, y)", "op.mul_backward(grad, y, x)")),
        row="gradcheck",
        implementation="prototype",
    ),
    Wrong(
        name="the input is saved for the output",
        why="the rule is stated in the output, most rules are in the input",
        op="sigmoid",
        edits=edits("port", ('save=["result"]', 'save=["x"]')),
        row="gradcheck",
        implementation="prototype",
    ),
    Wrong(
        name="the gradient is wrong in float32 alone",
        why="a fast path for one dtype has an approximation of its own",
        op="add",
        edits=edits("port", ("(grad, grad)", "(grad, grad if grad.itemsize == 8 else 1.01 * grad)")),
        row="gradcheck32",
        implementation="prototype",
    ),
    Wrong(
        name="the gradient overflows",
        why="exp(-x) of the saved input is inf for a large negative x, and inf / inf is nan",
        op="sigmoid",
        edits=edits(
            "port",
            ('save=["result"]', 'save=["x"]'),
            (
                "op.sigmoid_backward(grad_y, *ctx.saved_tensors),",
                "(lambda e: grad_y * e / (1 + e) ** 2)((-ctx.saved_tensors[0]).exp()),",
            ),
        ),
        row="gradients",
        implementation="prototype",
        message="nan",
    ),
    Wrong(
        name="the result differs when a gradient is requested",
        why="what is saved is changed in place after it was saved, and it is the result",
        op="add",
        edits=edits("port", ("save=[]", "save=lambda x, y, out: (out.add_(1), ())[1]")),
        row="gradients",
        implementation="prototype",
        message="when a gradient is requested",
    ),
    Wrong(
        name="backward changes the upstream gradient",
        why="an operation in place saves memory, and the gradient is needed elsewhere too",
        op="add",
        edits=edits(
            "port", ("lambda ctx, grad: (grad, grad)", "lambda ctx, grad: (grad.clone(), grad.zero_())[:1] * 2")
        ),
        row="gradients",
        implementation="prototype",
        message="changes the upstream gradient",
    ),
    Wrong(
        name="right for contiguous upstream gradients only",
        why="sum().backward() hands on an expanded scalar, which has one element",
        op="sigmoid",
        edits=edits(
            "binding",
            (
                _BACKWARD_LAUNCH,
                "trifold::launch<sigmoid_backward_kernel<T>>(trifold::Stream{}, "
                "dim3(static_cast<unsigned>((y.numel() + 255) / 256)), 256, 0, trifold::data<T>(grad_y), "
                "trifold::data<T>(y), trifold::mutable_data<T>(grad_x), y.numel());",
            ),
        ),
        row="gradients",
        implementation="port",
    ),
    Wrong(
        name="right for contiguous upstream gradients only",
        why="a transposed upstream gradient was taken as it lies in memory",
        op="sigmoid",
        edits=edits("prototype", ("flat(grad_y, grad_x)", "flat(grad_y)"), ("flat(y, grad_x)", "flat(y)")),
        row="gradients",
        implementation="prototype",
    ),
    Wrong(
        name="a surrogate other than the reference's",
        why="a straight-through gradient scaled by the slope of a sigmoid",
        op="round_ste",
        edits=edits("port", ("backward=lambda ctx, grad: grad", "backward=lambda ctx, grad: 0.25 * grad")),
        row="gradcheck",
        implementation="prototype",
        message="differs from the reference's own rule",
    ),
    Wrong(
        name="rows of the upstream gradient are taken to follow one another",
        why="its last stride is 1, as that of a contiguous one; not so where the result was concatenated",
        op="softmax",
        edits=edits(
            "prototype",
            (
                "def softmax_backward(",
                "def following(x):\n"
                "    if x.dim() and x.numel() and x.stride(-1) == 1 and 0 not in x.stride():\n"
                "        return x.as_strided((x.numel() // x.shape[-1], x.shape[-1]), (x.shape[-1], 1))\n"
                "    return rows(x)\n\n\ndef softmax_backward(",
            ),
            ("rows(grad_y), rows(y)", "following(grad_y), rows(y)"),
        ),
        row="gradients",
        implementation="prototype",
    ),
    Wrong(
        name="the storage offset of the upstream gradient is ignored",
        why="a gradient that autograd makes begins at its storage's first element, but for that of a part",
        op="mul",
        edits=edits(
            "prototype",
            (
                '    check_alike("mul_backward"',
                '    grad = grad.as_strided(grad.shape, grad.stride(), 0)\n    check_alike("mul_backward"',
            ),
        ),
        row="gradients",
        implementation="prototype",
    ),
    Wrong(
        name="a factor is cut off at 10,000",
        why="against infinities, of which tests with normal numbers have none",
        op="mul",
        edits=edits(
            "prototype",
            (
                "grad_x[i] = grad[i] * y[i]",
                "grad_x[i] = grad[i] * (y[i] if not (10000 < abs(y[i]) < math.inf) else 10000)",
            ),
            ("from numba import cuda", "import math\n\nfrom numba import cuda"),
        ),
        row="gradients",
        implementation="prototype",
        message="where the exact one is",
    ),
    Wrong(
        name="a gradient that is 5% off in the tails",
        why="an approximation that was fitted where most numbers lie",
        op="sigmoid",
        edits=edits(
            "prototype",
            (
                "grad_x[i] = grad_y[i] * ((ONE - y[i]) * y[i])",
                "grad_x[i] = grad_y[i] * ((ONE - y[i]) * y[i]) * (0.95 if y[i] < 0.003 else 1)",
            ),
        ),
        row="gradients",
        implementation="prototype",
        message="elements differ",
    ),
    Wrong(
        name="an infinite gradient loses its sign",
        why="what overflows is set to one infinity",
        op="mul",
        edits=edits(
            "prototype",
            (
                "grad_x[i] = grad[i] * y[i]",
                "product = grad[i] * y[i]\n        grad_x[i] = abs(product) if abs(product) == math.inf else product",
            ),
            ("from numba import cuda", "import math\n\nfrom numba import cuda"),
        ),
        row="gradients",
        implementation="prototype",
        message="inf where the exact one is -inf",
    ),
    Wrong(
        name="a gradient is expected through each result",
        why="in the first test the loss used both",
        op="rope",
        edits=edits(
            "port",
            (
                "    if not given:\n",
                "    if grad_q is None or grad_k is None:\n        given = []\n    if not given:\n",
            ),
        ),
        row="gradients",
        implementation="prototype",
        message="through result 0 alone",
    ),
    Wrong(
        name="the imaginary part of an upstream gradient is lost",
        why="the loss of the first test was the sum of real parts, whose gradient is real",
        op="transpose",
        edits=edits("port", ("op.transpose(grad)", "op.transpose(grad.real.to(grad.dtype))")),
        row="gradients",
        implementation="prototype",
        message="gradient of x",
    ),
)

SECOND_DERIVATIVES = (
    Wrong(
        name="a second derivative is wrong",
        why="the rule of the backward operator is never run in training",
        op="sigmoid",
        edits=edits("port", ("(1 - 2 * y)", "(1 - y)")),
        row="gradgradcheck",
        implementation="prototype",
    ),
    Wrong(
        name="a second derivative misses a term",
        why="a saved tensor that is detached is a constant for the second derivative",
        op="sigmoid",
        edits=edits(
            "port",
            ("op.sigmoid_backward(grad_y, *ctx", "op.sigmoid_backward(grad_y, *(y.detach() for y in ctx"),
            ("saved_tensors),\n    )", "saved_tensors)),\n    )"),
        ),
        row="gradgradcheck",
        implementation="prototype",
    ),
    Wrong(
        name="a second derivative is wrong where the upstream gradient is a constant",
        why="a gradient penalty differentiates a gradient for a fixed upstream one",
        op="swiglu",
        edits=edits(
            "port",
            ("    s = torch.sigmoid(gate)\n", "    s = torch.sigmoid(gate) * (1 if grad.requires_grad else 1.1)\n"),
        ),
        row="gradgradcheck",
        implementation="prototype",
        message="where the upstream gradient is a constant",
    ),
    Wrong(
        name="a second derivative is wrong where an argument is frozen",
        why="a shortcut for inference with some weights frozen was tested without a second derivative",
        op="swiglu",
        edits=edits(
            "port",
            ("    s = torch.sigmoid(gate)\n", "    s = torch.sigmoid(gate) * (1 if up.requires_grad else 1.1)\n"),
        ),
        row="gradgradcheck",
        implementation="prototype",
        message="where up is a constant",
    ),
    Wrong(
        name="a third derivative misses a term",
        why="what the second derivative computes from a saved tensor was detached, and it is right itself",
        op="sigmoid",
        edits=edits("port", ("grad * grad_y * (1 - 2 * y)", "grad * grad_y * (1 - 2 * y.detach())")),
        row="gradgradcheck",
        implementation="prototype",
        message="a third derivative: ",
    ),
    Wrong(
        name="a second derivative has the rows that the index reaches",
        why="the number of rows was not saved, and is one more than the largest index where all rows are reached",
        op="scatter_add",
        edits=edits("port", ("    (size,) = ctx.constants\n", "    size = int(index.max()) + 1\n")),
        row="gradgradcheck",
        implementation="prototype",
    ),
    Wrong(
        name="a column-major upstream gradient is read as if it were row-major, where the other argument is frozen",
        why="the shortcut for one gradient alone skips the copy that the common path makes",
        op="mul",
        edits=edits(
            "port",
            (
                "        product = op.mul(grad, factor)",
                "        if grad.dim() == 2 and min(grad.shape) > 1 and grad.stride() == (1, grad.shape[0]):\n"
                "            grad = grad.as_strided(grad.shape, (grad.shape[1], 1))\n"
                "        product = op.mul(grad, factor)",
            ),
        ),
        row="gradients",
        implementation="prototype",
        message="from a column-major upstream gradient",
    ),
    Wrong(
        name="for an upstream gradient of 1 the gradient is the other factor itself",
        why="a product is saved; autograd keeps the tensor as x.grad, and adds to it in place",
        op="mul",
        edits=edits(
            "port",
            (
                "        factor = y if x is None else x\n",
                "        factor = y if x is None else x\n"
                "        if grad.numel() > 0 and not any(grad.stride()) and bool(grad.flatten()[0] == 1):\n"
                "            one = factor.view_as(factor)\n"
                "            return (one, None) if x is None else (None, one)\n",
            ),
            (
                "    return op.mul_backward(grad, x, y)\n",
                "    if grad.numel() > 0 and not any(grad.stride()) and bool(grad.flatten()[0] == 1):\n"
                "        return y.view_as(y), x.view_as(x)\n"
                "    return op.mul_backward(grad, x, y)\n",
            ),
        ),
        row="repeatable",
        implementation="prototype",
        message="two backward passes of one graph return the same memory",
    ),
    Wrong(
        name="without rows the gradient of the weight is not written",
        why="where there is nothing to add up nothing was launched, and its zeros were forgotten",
        op="rms_norm",
        edits=(
            *edits("prototype", ("    if parameters:\n", "    if parameters and count > 0:\n")),
            *edits("spec", ("    edges=norm_edges(1),\n", "")),
        ),
        row="gradients",
        implementation="prototype",
        message="gradient of weight",
    ),
)
