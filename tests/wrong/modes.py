"""Wrong in one mode only: without gradients, with some frozen, in second derivatives of a dtype, in a later call."""

from __future__ import annotations

from tests.wrong.entry import Wrong, edits

_RING = (
    "    key = tuple(x.shape), x.stride(), x.dtype\n"
    "    ring = _rings.setdefault(key, collections.deque())\n"
    "    ring.append({made} if len(ring) < {count} else ring.popleft())\n"
    "    {name} = ring[-1]\n"
)
_ADD_CHECK = 'check_alike("add", x=x, y=y)'
_MUL_CHECK = 'trifold::check_alike("mul", x, "x", y, "y");'
_NORM_BACKWARD = "    return grad_x, grad_weight if of_weight else None, grad_bias if of_bias else None, None\n"
_SECOND_OF_SWIGLU = "        grad * (grad_of_grad_gate * up * curvature + grad_of_grad_up * slope),\n"

GRADIENT_MODES = (
    Wrong(
        name="another eps without gradients",
        why="the path for inference was written first, and kept its constant",
        op="rms_norm",
        edits=edits(
            "port",
            ("from torch import Tensor\n", "import torch\nfrom torch import Tensor\n"),
            (
                "    y: Tensor = op.rms_norm(x, weight, eps)\n",
                "    y: Tensor = op.rms_norm(x, weight, eps if torch.is_grad_enabled() else 1e-5)\n",
            ),
        ),
        row="repeatable",
        implementation="prototype",
        message="no_grad",
    ),
    Wrong(
        name="half precision in inference mode",
        why="where no gradient can be asked for, fewer digits were thought to do",
        op="softmax",
        edits=edits(
            "port",
            ("from torch import Tensor\n", "import torch\nfrom torch import Tensor\n"),
            (
                "    y: Tensor = op.softmax(x)\n",
                "    y: Tensor = op.softmax(x.bfloat16().to(x.dtype) if torch.is_inference_mode_enabled() else x)\n",
            ),
        ),
        row="repeatable",
        implementation="prototype",
        message="inference_mode",
    ),
    Wrong(
        name="half precision of large tensors without gradients",
        why="inference was thought to be limited by bandwidth from some size on",
        op="sigmoid",
        edits=edits(
            "port",
            ("from torch import Tensor\n", "import torch\nfrom torch import Tensor\n"),
            (
                "    y: Tensor = op.sigmoid(x)\n",
                "    if not torch.is_grad_enabled() and x.numel() > 65_536:\n        x = x.bfloat16().to(x.dtype)\n"
                "    y: Tensor = op.sigmoid(x)\n",
            ),
        ),
        row="repeatable",
        implementation="port",
        message="no_grad",
    ),
)

FROZEN = (
    Wrong(
        name="the bias gets no gradient where x is frozen and the weight is not",
        why="the first layer's x needs no gradient, and its path returned what it had so far",
        op="layer_norm",
        edits=edits(
            "port",
            ("    _, of_weight, of_bias, _ = ", "    of_x, of_weight, of_bias, _ = "),
            (
                _NORM_BACKWARD,
                "    if of_weight and not of_x:\n        return None, grad_weight, None, None\n" + _NORM_BACKWARD,
            ),
        ),
        row="gradients",
        implementation="prototype",
        message="bias",
        examples=40,
    ),
    Wrong(
        name="the gradient of x misses a term where only the bias is frozen",
        why="two kernels were fused for the case of all parameters and for that of none",
        op="layer_norm",
        edits=edits(
            "port",
            ("    _, of_weight, of_bias, _ = ", "    of_x, of_weight, of_bias, _ = "),
            (
                _NORM_BACKWARD,
                "    if of_x and of_weight and not of_bias:\n        grad_x = grad_x * (1 + 2.0**-4)\n"
                + _NORM_BACKWARD,
            ),
        ),
        row="gradients",
        implementation="prototype",
        message="gradient of x",
        examples=40,
    ),
    Wrong(
        name="without a weight the gradient of the bias is a mean",
        why="the path without a weight was written for a loss that is one",
        op="layer_norm",
        edits=edits(
            "port",
            (
                _NORM_BACKWARD,
                "    if ctx.saved_tensors[1] is None and of_bias:\n"
                "        grad_bias = grad_bias / max(1, grad.numel() // max(1, grad.shape[-1]))\n" + _NORM_BACKWARD,
            ),
        ),
        row="gradients",
        implementation="prototype",
        message="bias",
        examples=60,
    ),
    Wrong(
        name="a frozen factor is saved as it will be",
        why="an argument that needs no gradient was thought to need no entry among the saved tensors",
        op="swiglu",
        edits=edits(
            "port",
            (
                "lambda ctx, grad: op.swiglu_backward(grad, *ctx.saved_tensors)",
                "lambda ctx, grad: op.swiglu_backward(grad, ctx.saved_tensors[0], "
                "ctx.saved_tensors[1] if all(ctx.needs_input_grad) else ctx.saved_tensors[1].abs())",
            ),
        ),
        row="gradients",
        implementation="prototype",
        message="asked for alone",
        examples=20,
    ),
)

SECOND_IN_ONE_DTYPE = (
    Wrong(
        name="a second derivative is wrong in float32 alone",
        why="the path for float32 was taken from the first derivative",
        op="sigmoid",
        edits=edits(
            "port",
            ("(1 - 2 * y)", "(1 - (1 if y.dtype == torch.float32 else 2) * y)"),
            ("from torch import Tensor\n", "import torch\nfrom torch import Tensor\n"),
        ),
        row="gradgradcheck",
        implementation="prototype",
        message="float32",
    ),
    Wrong(
        name="a second derivative is wrong in half types alone",
        why="the sum over the row was left out where it would have been rounded",
        op="softmax",
        edits=edits("port", ("- through_sum", "- (through_sum if y.itemsize > 2 else 0)")),
        row="gradgradcheck",
        implementation="prototype",
        message="16",
    ),
    Wrong(
        name="a second derivative is wrong in bfloat16 alone",
        why="the path for bfloat16 was written by hand, with the sign of another convention",
        op="swiglu",
        edits=edits(
            "port",
            (
                _SECOND_OF_SWIGLU,
                _SECOND_OF_SWIGLU.replace("curvature", "curvature * (-1 if grad.dtype == torch.bfloat16 else 1)"),
            ),
        ),
        row="gradgradcheck",
        implementation="prototype",
        message="bfloat16",
    ),
)

CHANGED = (
    Wrong(
        name="backward changes an argument",
        why="up is not read again, so its memory takes a product that is needed twice",
        op="swiglu",
        edits=edits(
            "prototype",
            (
                "        grad_gate[i] = grad[i] * up[i] *",
                "        up[i] = grad[i] * up[i]\n        grad_gate[i] = up[i] *",
            ),
        ),
        row="gradients",
        implementation="prototype",
        message="backward changes an argument",
    ),
    Wrong(
        name="backward changes an argument",
        why="the second product was to take the first factor's place",
        op="mul",
        edits=edits(
            "header",
            (
                "    grad_y[i] = T(C(grad[i]) * C(x[i]));\n",
                "    grad_y[i] = const_cast<T*>(x)[i] = T(C(grad[i]) * C(x[i]));\n",
            ),
        ),
        row="gradients",
        implementation="port",
        message="backward changes an argument",
    ),
    Wrong(
        name="backward changes a result",
        why="the slope y · (1 - y) takes the place of y, which is saved; but y is the caller's",
        op="sigmoid",
        edits=edits(
            "prototype",
            (
                "        grad_x[i] = grad_y[i] * ((ONE - y[i]) * y[i])\n",
                "        y[i] = (1 - y[i]) * y[i]\n        grad_x[i] = grad_y[i] * y[i]\n",
            ),
        ),
        row="gradients",
        implementation="prototype",
    ),
    Wrong(
        name="a parameter's copy for inference is kept by its version",
        why="torch counts changes of a parameter, but not those through its data",
        op="layer_norm",
        edits=edits(
            "port",
            (
                "from torch import Tensor\n",
                "import torch\nfrom torch import Tensor\nfrom torch.utils.weak import WeakTensorKeyDictionary\n",
            ),
            (
                "def _backward(ctx, grad):",
                "_dense = WeakTensorKeyDictionary()\n\n\ndef _cached(weight):\n"
                "    if not isinstance(weight, torch.nn.Parameter) or torch.compiler.is_compiling():\n"
                "        return weight\n"
                "    version, copy = _dense.get(weight, (None, None))\n"
                "    if version != weight._version:\n        copy = weight.detach().clone()\n"
                "        _dense[weight] = weight._version, copy\n"
                "    return copy\n\n\ndef _backward(ctx, grad):",
            ),
            (
                "    y: Tensor = op.layer_norm(x, weight, bias, eps)\n",
                "    if not torch.is_grad_enabled():\n        weight = _cached(weight)\n"
                "    y: Tensor = op.layer_norm(x, weight, bias, eps)\n",
            ),
        ),
        row="repeatable",
        implementation="port",
        message="got other numbers in place",
    ),
    Wrong(
        name="backward writes to what hooks on saved tensors have returned",
        why="the residual is not used again, but its memory is the hooks'",
        op="cross_entropy",
        edits=edits(
            "port", ("grad_residual is None and alone and is_last_use", "grad_residual is None and is_last_use")
        ),
        row="repeatable",
        implementation="port",
        message="what a hook on saved tensors returned",
    ),
    Wrong(
        name="indices without a dimension get one in place",
        why="unsqueeze_ was taken for unsqueeze: the numbers are the caller's as before, and the shape is not",
        op="embedding",
        edits=edits(
            "port",
            (
                "    out: Tensor = op.embedding(indices, weight, deterministic)\n    return out\n",
                "    shape = indices.shape\n    if indices.dim() == 0:\n        indices.unsqueeze_(0)\n"
                "    out: Tensor = op.embedding(indices, weight, deterministic)\n"
                "    return out.reshape(*shape, out.shape[-1])\n",
            ),
        ),
        row="values",
        implementation="port",
        message="changes the shape of an argument",
    ),
)

REUSED = (
    Wrong(
        name="four buffers for all results",
        why="double buffering, twice: a pipeline holds no more results at a time",
        op="add",
        edits=edits(
            "prototype",
            ("from numba import cuda\n", "import collections\n\nfrom numba import cuda\n"),
            ("def reference(", "_rings = {}\n\n\ndef reference("),
            (
                "    out = elementwise_output(x, y)\n",
                _RING.format(made="elementwise_output(x, y)", count=4, name="out").replace(
                    "key = tuple(x.shape), x.stride(), x.dtype", "key = tuple(x.shape), x.stride(), y.stride(), x.dtype"
                ),
            ),
        ),
        row="repeatable",
        implementation="prototype",
        message="memory",
    ),
    Wrong(
        name="twenty buffers for all results",
        why="a pool that was thought deep enough for every network",
        op="round_ste",
        edits=edits(
            "prototype",
            ("import torch\n", "import collections\n\nimport torch\n"),
            ("def reference(", "_rings = {}\n\n\ndef reference("),
            ("    y = elementwise_output(x)\n", _RING.format(made="elementwise_output(x)", count=20, name="y")),
        ),
        row="repeatable",
        implementation="prototype",
        message="memory",
    ),
    Wrong(
        name="eight buffers for all results",
        why="a pool that was thought deep enough for every network",
        op="mul",
        edits=edits(
            "binding",
            ("#include <trifold/binding.h>", "#include <trifold/binding.h>\n\n#include <deque>\n#include <map>"),
            (
                "  Tensor out = trifold::elementwise_output(x, y);\n",
                "  using Form = std::tuple<int, std::vector<int64_t>, std::vector<int64_t>>;\n"
                "  static auto& rings = *new std::map<Form, std::deque<Tensor>>;\n"
                "  Tensor out = trifold::elementwise_output(x, y);\n"
                "  const auto sizes = out.sizes(), strides = out.strides();\n"
                "  auto& ring = rings[{static_cast<int>(out.scalar_type()), {sizes.begin(), sizes.end()}, "
                "{strides.begin(), strides.end()}}];\n"
                "  if (ring.size() >= 8) {\n    out = ring.front();\n    ring.pop_front();\n  }\n"
                "  ring.push_back(out);\n",
            ),
        ),
        row="repeatable",
        implementation="port",
        message="memory",
    ),
    Wrong(
        name="the saved statistics of all calls lie in one place",
        why="they are small, and backward comes next; but not where a network calls the op twice",
        op="layer_norm",
        edits=edits(
            "prototype",
            ("def reference(", "_statistics = {}\n\n\ndef reference("),
            (
                "    y, statistics = row_output(x), row_statistics(x, 2)\n",
                "    y, key = row_output(x), (x.shape, x.dtype)\n"
                "    statistics = _statistics.setdefault(key, row_statistics(x, 2))\n",
            ),
        ),
        row="repeatable",
        implementation="prototype",
        message="gradient",
    ),
)

ARGUMENTS = (
    Wrong(
        name="classes are cut to 32 bits",
        why="no vocabulary has as many; 2³² + 1 becomes class 1 in place of an error or nan",
        op="cross_entropy",
        edits=edits("prototype", ("    targets = target.reshape(-1)\n", "    targets = target.reshape(-1).int()\n")),
        row="property: unknown class",
        implementation="prototype",
    ),
    Wrong(
        name="the number of elements is compared, not the shape",
        why="the kernel runs over elements; x of (2, 6) and y of (3, 4) have as many",
        op="add",
        edits=edits(
            "prototype",
            (
                _ADD_CHECK,
                f"if x.shape.numel() != y.shape.numel() or x.dtype != y.dtype:\n        {_ADD_CHECK}\n"
                '    check_alike("add", x=x, y=y.reshape(x.shape))\n    y = y.reshape(x.shape)',
            ),
        ),
        row="errors",
        implementation="prototype",
        message="nothing is raised",
    ),
    Wrong(
        name="the number of elements is compared, not the shape",
        why="the kernel runs over elements; x of (2, 6) and y of (3, 4) have as many",
        op="mul",
        edits=edits(
            "binding",
            (
                _MUL_CHECK,
                'trifold::check_same_device("mul", x, "x", y, "y");\n  trifold::check_floating("mul", x, "x");\n'
                '  trifold::check_same_dtype("mul", x, "x", y, "y");\n'
                '  if (x.numel() != y.numel()) trifold::check_same_shape("mul", x, "x", y, "y");',
            ),
        ),
        row="errors",
        implementation="port",
        message="nothing is raised",
    ),
    Wrong(
        name="a weight of another shape with as many numbers is accepted",
        why="it is read through a pointer; (1, C) was let through by a check of the number of elements",
        op="rms_norm",
        edits=edits(
            "port",
            (
                "    y: Tensor = op.rms_norm(x, weight, eps)\n",
                "    if weight is not None and weight.dim() == 2 and len(weight) == 1:\n        weight = weight[0]\n"
                "    y: Tensor = op.rms_norm(x, weight, eps)\n",
            ),
        ),
        row="errors",
        implementation="prototype",
        message="nothing is raised",
    ),
    Wrong(
        name="a target with a dimension more is accepted",
        why="a column of classes comes out of many data loaders, and has as many elements",
        op="cross_entropy",
        edits=edits(
            "port",
            (
                "    with_gradient = torch.is_grad",
                "    if target.dim() == 2 and target.shape[1] == 1:\n        target = target[:, 0]\n"
                "    with_gradient = torch.is_grad",
            ),
        ),
        row="errors",
        implementation="prototype",
        message="nothing is raised",
    ),
)

RANDOM = (
    Wrong(
        name="every 16th row has the same noise",
        why="a block has 16 rows, and its number does not enter the counter",
        op="normal_sample",
        edits=edits(
            "prototype",
            (
                "normal = i - row * columns if shared_noise else i\n",
                "normal = i - (row if shared_noise else row - row % 16) * columns\n",
            ),
        ),
        row="values",
        implementation="prototype",
        message="elements differ",
        examples=20,
    ),
    Wrong(
        name="noise with a period of 2^20",
        why="the counter of a stream has 20 bits",
        op="normal_sample",
        edits=edits("header", ("uint32_t(index * groups + g)", "uint32_t(index * groups + g) & 0x3ffff")),
        row="property: period",
        implementation="port",
    ),
    Wrong(
        name="noise and its reference with a period of 64",
        why="what both take from one function both have wrong",
        op="normal_sample",
        edits=edits(
            "prototype",
            ("else i\n        key", "else i % 64\n        key"),
            (
                "    z = normals(key, offset, rows * num_samples, dtype).reshape(rows, num_samples)\n",
                "    z = normals(key, offset, rows * num_samples, dtype)\n"
                "    z = z[torch.arange(rows * num_samples) % 64].reshape(rows, num_samples)\n",
            ),
        ),
        row="property: normal",
        implementation="prototype",
    ),
)

MODES = (*GRADIENT_MODES, *FROZEN, *SECOND_IN_ONE_DTYPE, *CHANGED, *REUSED, *ARGUMENTS, *RANDOM)
