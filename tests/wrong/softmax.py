"""Wrong kernels on rows: softmax and cross_entropy."""

from __future__ import annotations

from tests.wrong.entry import Wrong, edits

_PASSES = "// A block a row, in three passes"
_EXPS = "trifold::block_sum_of<softmax_block, C>(columns, [&](int64_t i) { return exp(C(in[i]) - largest); });\n"
_THEN_SUM = "    const C sum = " + _EXPS

# As trifold::block_reduce, without the barrier after the last read.
_HASTY = """template <class C>
__device__ C hasty_max(C value) {
  constexpr int warps = softmax_block / trifold::warp_threads;
  __shared__ C of_warp[warps];
  if (threadIdx.x % trifold::warp_threads == 0) of_warp[threadIdx.x / trifold::warp_threads] = value;
  __syncthreads();
  value = of_warp[0];
  for (int warp = 1; warp < warps; ++warp) value = trifold::Max{}(value, of_warp[warp]);
  return value;
}

"""
_HASTY_TWICE = "    for (int k = 0; k < 2; ++k) largest = hasty_max(trifold::warp_max(largest));\n"

_THEN_QUOTIENT = "        for i in range(cuda.threadIdx.x, columns, cuda.blockDim.x):\n            y["
_SUM = "        total = block_sum(total - lost, of_warp)\n"
_SUM_OF_SOME_LANES = "        if cuda.threadIdx.x < columns:\n            total = warp_sum(total)\n"

SOFTMAX = (
    Wrong(
        name="no barrier before shared memory is used again",
        why="nothing is written behind the last read, in this call",
        op="softmax",
        edits=edits("header", (_PASSES, _HASTY + _PASSES), (_THEN_SUM, _HASTY_TWICE + _THEN_SUM)),
        row="findings",
        implementation="port",
        message="race on shared array",
    ),
    Wrong(
        name="a slot of shared memory is read before it is copied to",
        why="on a GPU the copies have come, nearly always; on the CPU no plain kernel has any",
        op="softmax",
        edits=edits("header", ("        stream.wait(q);\n", "")),
        row="gpu paths",
        implementation="port",
        message="softmax_backward_stream_kernel",
    ),
    Wrong(
        name="the row's stride is taken for its length",
        why="rows follow one another in a tensor that was not cut from another",
        op="softmax",
        edits=edits("header", ("x + row * x_stride", "x + row * columns")),
        row="values",
        implementation="port",
    ),
    Wrong(
        name="a sum in half",
        why="the sum has the type of what is added, which stops growing after 256 or 2,048 equal terms",
        op="softmax",
        edits=edits(
            "header",
            (
                _THEN_SUM,
                "    C sum = 0;\n"
                "    for (int64_t i = threadIdx.x; i < columns; i += softmax_block)\n"
                "      sum = C(T(sum + exp(C(in[i]) - largest)));\n"
                "    sum = trifold::block_sum<softmax_block>(sum);\n",
            ),
        ),
        row="values",
        implementation="port",
        message="16",
    ),
    Wrong(
        name="the maximum is not subtracted",
        why="softmax is written down without it",
        op="softmax",
        edits=edits("prototype", ("    largest = block_max(largest, of_warp)\n", "    largest = 0.0\n")),
        row="values",
        implementation="prototype",
        message="nan",
    ),
    Wrong(
        name="the maximum starts at 0",
        why="a fresh accumulator is 0",
        op="softmax",
        edits=edits("prototype", ("largest = C(-math.inf)\n        for i", "largest = C(0)\n        for i")),
        row="values",
        implementation="prototype",
        message="nan",
    ),
    Wrong(
        name="a comparison loses nan",
        why="masked numbers are left out of maximum and sum, by a comparison that nan fails too",
        op="softmax",
        edits=edits(
            "prototype",
            ("largest = larger(largest, x[row, i])", "largest = x[row, i] if x[row, i] > largest else largest"),
            (
                "math.exp(x[row, i] - largest))",
                "math.exp(x[row, i] - largest) if x[row, i] > -math.inf else C(0))",
            ),
        ),
        row="values",
        implementation="prototype",
        message="exact is nan",
    ),
    Wrong(
        name="lanes without a column stay away from the shuffle",
        why="what they have is 0, and the mask names all lanes",
        op="softmax",
        edits=edits(
            "prototype",
            ("block_sum, larger, team_max", "block_sum, larger, warp_sum, team_max"),
            (_SUM + _THEN_QUOTIENT, _SUM_OF_SOME_LANES + _SUM + _THEN_QUOTIENT),
        ),
        row="findings",
        implementation="prototype",
        message="warp divergence",
    ),
    Wrong(
        name="the sum of the gradient is left out",
        why="the derivative of each probability by its own logit alone",
        op="softmax",
        edits=edits("prototype", ("(grad_y[row, i] - total)", "(grad_y[row, i] - grad_y[row, i] * y[row, i])")),
        row="gradcheck",
        implementation="prototype",
    ),
    Wrong(
        name="y stands in its gradient once",
        why="the second derivative was taken for a constant y",
        op="softmax",
        edits=edits("port", (".sum(-1, keepdim=True)) - through_sum", ".sum(-1, keepdim=True))")),
        row="gradgradcheck",
        implementation="prototype",
    ),
    Wrong(
        name="the maximum starts at 0 in C++",
        why="a fresh accumulator is 0; a row of negative numbers has another maximum",
        op="softmax",
        edits=edits("header", ("C largest = -C(INFINITY);", "C largest = 0;")),
        row="values",
        implementation="port",
        message="nan",
    ),
    Wrong(
        name="what is beyond a row counts in registers",
        why="the last pieces of a team are filled with 0, as for a sum",
        op="softmax",
        edits=edits("header", ("x_stride, at, T(-INFINITY))", "x_stride, at, T(0.0f))")),
        row="values",
        implementation="port",
    ),
    Wrong(
        name="the sum of earlier tiles is scaled by exp(-inf - -inf) where the first one is masked",
        why="maximum and sum are updated tile by tile, in one pass; no row tried began with a masked tile",
        op="softmax",
        edits=edits(
            "prototype",
            (
                "        largest = C(-math.inf)\n"
                "        for i in range(cuda.threadIdx.x, columns, cuda.blockDim.x):\n"
                "            largest = larger(largest, x[row, i])\n"
                "        largest = block_max(largest, of_warp)\n"
                "        total, lost = C(0), C(0)\n"
                "        for i in range(cuda.threadIdx.x, columns, cuda.blockDim.x):\n"
                "            total, lost = add_compensated(total, lost, math.exp(x[row, i] - largest))\n",
                "        largest = C(-math.inf)\n        total, lost = C(0), C(0)\n"
                "        for first in range(0, columns, cuda.blockDim.x):\n"
                "            i = first + cuda.threadIdx.x\n"
                "            value = x[row, i] if i < columns else C(-math.inf)\n"
                "            now = block_max(larger(largest, value), of_warp)\n"
                "            factor = math.exp(largest - now)\n"
                "            total, lost = total * factor, lost * factor\n"
                "            if i < columns:\n"
                "                total, lost = add_compensated(total, lost, math.exp(value - now))\n"
                "            largest = now\n",
            ),
        ),
        row="values",
        implementation="prototype",
        message="differ",
    ),
)

CROSS_ENTROPY = (
    Wrong(
        name="the class of a piece, not of an element",
        why="a thread holds pieces of several elements",
        op="cross_entropy",
        edits=edits(
            "header", ("row[target.column] = T((at_target", "row[target.column / at.size * at.size] = T((at_target")
        ),
        row="gradients",
        implementation="port",
    ),
    Wrong(
        name="ignore_index is ignored",
        why="no class of a first test is -100",
        op="cross_entropy",
        edits=edits("prototype", ("if target == ignored:", "if target == -100:")),
        row="values",
        implementation="prototype",
    ),
    Wrong(
        name="the mean is one over all rows",
        why="the sum is divided by what the tensor's shape says",
        op="cross_entropy",
        edits=edits(
            "prototype", ("loss[0] = total / C(counted) if counted > 0 else C(math.nan)", "loss[0] = total / C(rows)")
        ),
        row="values",
        implementation="prototype",
    ),
    Wrong(
        name="smoothing weighs the wrong term",
        why="what the class keeps and what is shared out were exchanged",
        op="cross_entropy",
        edits=edits(
            "prototype",
            ("(C(1) - smoothing) * at_target", "smoothing * at_target"),
            ("loss - smoothing * (plain / C(columns))", "loss - (C(1) - smoothing) * (plain / C(columns))"),
        ),
        row="values",
        implementation="prototype",
    ),
    Wrong(
        name="smoothing leaves the gradient as it is",
        why="the option was added to the loss",
        op="cross_entropy",
        edits=edits(
            "header",
            ("known ? smoothing / C(columns) : C(NAN)", "known ? C(0) : C(NAN)"),
            ("everywhere + (C(1) - smoothing)", "everywhere + C(1)"),
        ),
        row="gradients",
        implementation="port",
    ),
    Wrong(
        name="the class is not compared with their number",
        why="targets come from a data set that was made for this model",
        op="cross_entropy",
        edits=edits(
            "prototype",
            ("known = target >= 0 and target < columns\n        if", "known = target < columns + 1\n        if"),
            ("known = target >= 0 and target < columns\n    if", "known = target < columns + 1\n    if"),
        ),
        row="property: unknown class",
        implementation="prototype",
        message="out of bounds",
    ),
    Wrong(
        name="the row's own upstream gradient is not asked for",
        why="a mean and a sum have one for all",
        op="cross_entropy",
        edits=edits("prototype", ("grad_loss[row if grad_loss.size > 1 else 0]", "grad_loss[0]")),
        row="gradients",
        implementation="prototype",
    ),
    Wrong(
        name="the kept gradient is scaled in place",
        why="it is used once, unless the graph is retained",
        op="cross_entropy",
        edits=edits("prototype", ("    grad_logits = row_output(residual)\n", "    grad_logits = residual\n")),
        row="property: backward again",
        implementation="prototype",
    ),
    Wrong(
        name="a retained graph's gradient is scaled in place",
        why="no first training loop retains one",
        op="cross_entropy",
        edits=edits(
            "port", ("grad_residual is None and alone and is_last_use(residual, grad_loss):", "grad_residual is None:")
        ),
        row="property: backward again",
        implementation="prototype",
    ),
    Wrong(
        name="a retained graph's gradient is scaled in place, without create_graph",
        why="whether gradients are enabled in backward tells whether it is differentiated, not whether it is repeated",
        op="cross_entropy",
        edits=edits("port", ("alone and is_last_use(residual, grad_loss):", "alone and not torch.is_grad_enabled():")),
        row="repeatable",
        implementation="prototype",
        message="modified by an inplace operation",
    ),
    Wrong(
        name="an operator that writes in place does not say so",
        why="its schema was copied from the operator that does not",
        op="cross_entropy",
        edits=edits("port", ("Tensor(a!) residual", "Tensor residual")),
        row="opcheck",
        implementation="prototype",
    ),
    Wrong(
        name="the first row's upstream gradient is that of all",
        why="that of a mean or a sum is a single number",
        op="cross_entropy",
        edits=edits("header", ("return stride == 0 && factor<C>(0) == C(1);", "return factor<C>(0) == C(1);")),
        row="property: gradient of 1",
        implementation="port",
    ),
    Wrong(
        name="the second derivative is that of a constant",
        why="what the forward pass keeps looks like data",
        op="cross_entropy",
        edits=edits("port", ("return residual, target, count,", "return residual.detach(), target, count,")),
        row="gradgradcheck",
        implementation="prototype",
    ),
)
