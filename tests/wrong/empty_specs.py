"""Tricks with the spec: specs that require little, or accept anything."""

from __future__ import annotations

from tests.wrong.entry import Edit, Wrong, edits
from tests.wrong.trick_parts import ADD_FORMULA, SIGMOID_FORMULA, STEP, add

_SCALE = "    scale=lambda reference, x: reference(x),\n"
_HALF_FOR_SIGMOID = Edit("prototype", SIGMOID_FORMULA, "y[i] = 0.5 if v == v else v")
_CALL_IMPORTS = (
    ("import torch\n", "import torch\nfrom hypothesis import strategies as st\n"),
    ("    Spec,\n", "    Call,\n    Spec,\n    TensorCase,\n"),
)


def _only(condition: str) -> tuple[tuple[str, str], ...]:
    """Edits of the spec of add, after which it has only calls for which ``condition`` is true."""
    return (
        ("calls=elementwise(2)", "calls=lambda limits: elementwise(2)(limits).filter(_wanted)"),
        ("edges=elementwise_edges(2)", "edges=[call for call in elementwise_edges(2) if _wanted(call)]"),
        ("spec = Spec(", f"def _wanted(call):\n    return {condition}\n\n\nspec = Spec("),
    )


EMPTY_SPECS = (
    Wrong(
        name="a spec that replaces the comparison",
        why="it is Python, and runs where results are judged",
        op="round_ste",
        edits=(
            *edits("prototype", STEP),
            *edits(
                "spec",
                (
                    "def _step(",
                    "import trifold.verification.checks.values\nimport trifold.verification.tolerance\n\n"
                    "for _module in (trifold.verification.tolerance, trifold.verification.checks.values):\n"
                    "    for _name in ('mismatch', 'form_mismatch'):\n"
                    "        setattr(_module, _name, lambda *args, **kwargs: None)\n\n\ndef _step(",
                ),
            ),
        ),
        row="values",
        implementation="prototype",
    ),
    Wrong(
        name="a reference that replaces the comparison",
        why="it is the judge's too, and so is what it uses",
        op="round_ste",
        edits=edits(
            "prototype",
            STEP,
            (
                "class _StraightThrough(",
                "def _settle():\n    import trifold.verification.checks.values as values\n\n"
                "    values.mismatch = lambda *args, **kwargs: None\n    return 0.5\n\n\n"
                "_HALF = _settle()\n\n\nclass _StraightThrough(",
            ),
            ("return (x > 0.5).to(x.dtype)", "return (x > _HALF).to(x.dtype)"),
        ),
        row="values",
        implementation="prototype",
    ),
    Wrong(
        name="a reference as wrong as the kernel",
        why="both are by one hand, and zeros agree with zeros",
        op="add",
        edits=(*add(), *edits("prototype", ("    return x + y\n", "    return (x + y).zero_()\n"))),
        row="sensitivity",
        implementation="prototype",
        message="zeros",
    ),
    Wrong(
        name="an infinite scale",
        why="each error is small beside it",
        op="sigmoid",
        edits=(
            _HALF_FOR_SIGMOID,
            *edits("spec", (_SCALE, "    scale=lambda reference, x: torch.full_like(x, float('inf')),\n")),
        ),
        row="sensitivity",
        implementation="prototype",
        message="zeros",
    ),
    Wrong(
        name="a scale of 1e18",
        why="each error is small beside it",
        op="sigmoid",
        edits=(
            _HALF_FOR_SIGMOID,
            *edits("spec", (_SCALE, "    scale=lambda reference, x: torch.full_like(x, 1e18),\n")),
        ),
        row="sensitivity",
        implementation="prototype",
        message="zeros",
    ),
    Wrong(
        name="a multiple of 1e18",
        why="a reason is a text, and any text will do",
        op="mul",
        edits=(
            *edits("prototype", ("out[i] = x[i] * y[i]", "out[i] = x[i] * y[i] / 4")),
            *edits(
                "spec",
                (
                    "    calls=elementwise(2),\n",
                    '    calls=elementwise(2),\n    multiple=1e18,\n    multiple_reason="rounding",\n',
                ),
            ),
        ),
        row="sensitivity",
        implementation="prototype",
        message="zeros",
    ),
    Wrong(
        name="a scale that is infinite at some sizes alone",
        why="the impostors are rejected at the other sizes",
        op="sigmoid",
        edits=(
            *edits("prototype", (SIGMOID_FORMULA, f"{SIGMOID_FORMULA} if n < 64 or n > 1500 or v != v else 0.5")),
            *edits(
                "spec",
                (
                    _SCALE,
                    "    scale=lambda reference, x: reference(x) + (float('inf') if 64 <= x.numel() <= 1500 else 0),\n",
                ),
            ),
        ),
        row="sensitivity",
        implementation="prototype",
        message="64 to 127 elements",
        examples=48,
    ),
    Wrong(
        name="a gradient's scale that is infinite at most sizes",
        why="the impostors are rejected at the few sizes below",
        op="mul",
        edits=(
            *edits(
                "prototype",
                (
                    "        grad_x[i] = grad[i] * y[i]\n",
                    "        product = grad[i] * y[i]\n"
                    "        grad_x[i] = product if n <= 20 or abs(product) > 1000 else product * 0.5\n",
                ),
            ),
            *edits(
                "spec",
                (
                    "spec = Spec(",
                    "spec = Spec(\n    gradient_scale=lambda reference, grad, x, y: tuple(\n"
                    "        torch.full_like(one, float('inf') if one.numel() > 20 else 9.0) for one in (x, y)\n    ),",
                ),
            ),
        ),
        row="gradients",
        implementation="prototype",
        message="would accept zeros: state a smaller scale for these sizes",
        examples=48,
    ),
    Wrong(
        name="calls of one element",
        why="what is right for one element is right for all",
        op="add",
        edits=(
            *edits("prototype", (ADD_FORMULA, "out[i] = x[0] + y[0]")),
            *edits(
                "spec",
                *_CALL_IMPORTS,
                (
                    "calls=elementwise(2)",
                    "calls=lambda limits: st.integers(0, 99).map("
                    "lambda s: Call((TensorCase((1,), seed=s), TensorCase((1,), seed=s + 1))))",
                ),
                ("    edges=elementwise_edges(2),\n", ""),
            ),
        ),
        row="sensitivity",
        implementation="prototype",
    ),
    Wrong(
        name="layouts that are never drawn",
        why="it was written for contiguous tensors, and so was its spec; it takes others too",
        op="add",
        edits=(
            *edits("prototype", ("flat(y, out)", "y.as_strided((y.numel(),), (1,))")),
            *edits(
                "spec",
                *_only("all(getattr(x, 'layout', '') == 'contiguous' for x in call.args)"),
            ),
        ),
        row="values",
        implementation="prototype",
        message="where it is contiguous in each call of the spec: refuse it, or be right and draw it",
    ),
    Wrong(
        name="layouts that are never drawn, except at an offset",
        why="a slice of a vector is contiguous, too; what has gaps or another order is not tried",
        op="add",
        edits=(
            *edits("prototype", ("flat(y, out)", "y.as_strided((y.numel(),), (1,))")),
            *edits(
                "spec",
                *_only("all(getattr(x, 'layout', '') in ('contiguous', 'offset') for x in call.args)"),
            ),
        ),
        row="values",
        implementation="prototype",
        message="where it is contiguous in each call of the spec: refuse it, or be right and draw it",
    ),
    Wrong(
        name="a dtype that is never drawn",
        why="half types were to follow; they are not refused",
        op="add",
        edits=(
            *edits("prototype", ("    return out\n", "    return out * 0 if out.dtype == torch.float16 else out\n")),
            *edits("prototype", ("from numba import cuda\n", "import torch\nfrom numba import cuda\n")),
            *edits(
                "spec",
                *_only("call.dtype != torch.float16"),
            ),
        ),
        row="values",
        implementation="prototype",
        message="the op takes float16, which no call of the spec has: refuse it, or be right and draw it",
    ),
    Wrong(
        name="an option that is never drawn, and ignored",
        why="everybody uses its default",
        op="embedding",
        edits=(
            *edits("port", ("indices.flatten().argsort(stable=True) if deterministic else None", "None")),
            *edits(
                "spec",
                ('{"deterministic": True} if draw(st.booleans()) else {}', "{}"),
                ("deterministic=deterministic),\n            reason,", "deterministic=False),\n            reason,"),
                ("layout, deterministic=deterministic)\n", "layout, deterministic=False)\n"),
            ),
        ),
        row="sensitivity",
        implementation="prototype",
        message="deterministic is False in each case of the values check: an op that ignores it would pass",
    ),
    Wrong(
        name="no bad call",
        why="what is not asked cannot be wrong",
        op="round_ste",
        edits=(
            *edits("prototype", ('    check_floating("round_ste", x=x)\n', "")),
            *edits("spec", ('    bad_calls=elementwise_bad_calls("x"),\n', "")),
        ),
        row="errors",
        implementation="prototype",
    ),
    Wrong(
        name="a bad call without arguments",
        why="each function refuses it, also one that checks nothing",
        op="add",
        edits=(
            *edits(
                "spec",
                (
                    '    bad_calls=elementwise_bad_calls("x", "y"),\n',
                    '    bad_calls=[BadCall("none", lambda device: ((), {}), ())],\n',
                ),
                ("    Spec,\n", "    BadCall,\n    Spec,\n"),
            ),
            *edits("prototype", ('    check_alike("add", x=x, y=y)\n', "")),
        ),
        row="errors",
        implementation="prototype",
        message="one argument is wrong",
    ),
    Wrong(
        name="a property that does not apply",
        why="a check that is not run is not failed",
        op="round_ste",
        edits=(
            *edits("prototype", ("x[i] > 0.5", "x[i] >= 0.5")),
            *edits(
                "spec",
                (
                    "    for dtype in DTYPES:\n        half =",
                    "    from trifold.verification.outcomes import NotRun\n\n"
                    '    raise NotRun("ties need a GPU")\n    for dtype in DTYPES:\n        half =',
                ),
            ),
        ),
        row="property: ties",
        implementation="prototype",
    ),
    Wrong(
        name="smooth calls whose gradients are 0",
        why="any multiple of 0 is 0",
        op="mul",
        edits=(
            *edits("port", ("return op.mul_backward(grad, x, y)", "return op.mul_backward(3 * grad, x, y)")),
            *edits(
                "spec",
                ("    Spec,\n", "    Call,\n    Spec,\n    TensorCase,\n"),
                (
                    "smooth=elementwise_smooth(2)",
                    'smooth=(Call((TensorCase((1,), torch.float64, fill="zero"),) * 2),)',
                ),
            ),
        ),
        row="gradcheck",
        implementation="prototype",
    ),
)
