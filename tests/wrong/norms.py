"""Wrong norms of rows, and wrong sums over rows."""

from __future__ import annotations

from tests.wrong.entry import Wrong, edits

_SQUARES, _MEAN = "all.value[j].squares", "all.value[j].mean"

NORMS = (
    Wrong(
        name="the variance as E[x²] - E[x]²",
        why="one pass over the row instead of two; where the mean is large, both terms are, and their digits cancel",
        op="layer_norm",
        edits=edits(
            "header",
            (
                "      const C difference = C(in[i]) - m;\n      return difference * difference;\n",
                "      return C(in[i]) * C(in[i]);\n",
            ),
            ("squares / C(columns) + eps", "squares / C(columns) - m * m + eps"),
            (
                f"close_rsqrt<T>({_SQUARES} / count",
                f"close_rsqrt<T>(({_SQUARES} + columns * {_MEAN} * {_MEAN}) / columns - {_MEAN} * {_MEAN}",
            ),
            (
                "(own.squares / count",
                "((own.squares + columns * own.mean * own.mean) / columns - own.mean * own.mean",
            ),
        ),
        row="property: shift",
        implementation="port",
        message="differs from layer_norm(x) in torch.float32",
    ),
    Wrong(
        name="an odd row's edges have their weights for biases",
        why="the two lines that ask for them are alike",
        op="layer_norm",
        edits=edits("header", ("own.at_edge(bias, T(0.0f))", "own.at_edge(weight, T(0.0f))")),
        row="property: one pass",
        implementation="port",
        device="cuda",
        message="7001",
    ),
    Wrong(
        name="a group's rows are made with the numbers of its first one",
        why="the lanes that answer for a row were thought to be those that hold it",
        op="layer_norm",
        edits=edits("header", ("group.of_row(make, row)", "group.of_row(make, 0)")),
        row="values",
        implementation="port",
    ),
    Wrong(
        name="rows of x are taken to follow one another",
        why="a view of some columns has rows that lie further apart",
        op="rms_norm",
        edits=edits("header", ("rows, x_stride, at, T(0.0f))", "rows, columns, at, T(0.0f))")),
        row="values",
        implementation="port",
    ),
    Wrong(
        name="eps outside the root",
        why="as Adam has it",
        op="rms_norm",
        edits=edits(
            "prototype",
            (
                "math.sqrt(block_sum(squares - lost, of_warp) / C(columns) + C(eps))",
                "(math.sqrt(block_sum(squares - lost, of_warp) / C(columns)) + C(eps))",
            ),
        ),
        row="values",
        implementation="prototype",
    ),
    Wrong(
        name="the sum of squares for their mean",
        why="the norm of a vector is the root of the sum",
        op="rms_norm",
        edits=edits("prototype", ("lost, of_warp) / C(columns) + C(eps)", "lost, of_warp) + C(eps)")),
        row="values",
        implementation="prototype",
    ),
    Wrong(
        name="the variance of a sample",
        why="torch.var divides by n - 1",
        op="layer_norm",
        edits=edits(
            "prototype", ("lost, of_warp) / C(columns) + C(eps)", "lost, of_warp) / C(max(columns - 1, 1)) + C(eps)")
        ),
        row="values",
        implementation="prototype",
    ),
    Wrong(
        name="the mean over rows for their sum",
        why="the loss is a mean, so a mean was taken here too",
        op="layer_norm",
        edits=edits(
            "prototype",
            ("return grad_x, grad_weight, grad_bias", "return grad_x, grad_weight, grad_bias / max(count, 1)"),
        ),
        row="gradcheck",
        implementation="prototype",
        message="Jacobian mismatch",
    ),
    Wrong(
        name="the gradient of the weight is that of the first block",
        why="the second step was tried on few rows, which one block sums",
        op="layer_norm",
        edits=edits("prototype", ("sum_parts(parts, grad_weight", "sum_parts(parts[:, :1], grad_weight")),
        row="gradients",
        implementation="prototype",
        message="gradient of weight",
    ),
    Wrong(
        name="mean and variance are constants in backward",
        why="they were saved, and what is saved looks like one",
        op="layer_norm",
        edits=edits(
            "prototype",
            ("r * (g - mean_g - (x[row, i] - m) * r * mean_gx)", "r * g"),
        ),
        row="gradcheck",
        implementation="prototype",
        message="input 0",
    ),
    Wrong(
        name="x is a constant in the second derivatives",
        why="backward is linear in the upstream gradient, and that was taken for all",
        op="rms_norm",
        edits=edits(
            "port", ("return of_grad, of_x, of_weight, None, None", "return of_grad, None, of_weight, None, None")
        ),
        row="gradgradcheck",
        implementation="prototype",
    ),
)
