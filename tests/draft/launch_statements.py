"""Statements of launch functions: those that are refused, and those that decide whether pointers may overlap."""


def launch_function(op: str, *statements: str) -> str:
    """The text of launch function ``op``, of two tensors and a number, with these statements."""
    lines = (f"    {each}\n" for each in ("y = x.new_empty(x.numel())", *statements, "return y"))
    check = (
        f'    if x.dtype != torch.float32 or z.dtype != torch.float32:\n        raise RuntimeError("{op}: float32")\n'
    )
    return f"\ndef {op}(x: Tensor, z: Tensor, turns: int) -> Tensor:\n{check}{''.join(lines)}"


_LAUNCH = "launch(copy_kernel, 1, {}, output({}), 1)"
_FRESH = _LAUNCH.format("x.reshape(-1)", "y")

#: Statements that are refused if the number may be None.
REFUSED_OF_NONE = {
    "none_product": ("y.fill_(2 * turns)",),
    "none_filled": ("y.fill_(turns)",),
    "none_condition": ("if turns:", "    y.fill_(1)"),
    "none_compared": ("if turns == 2:", "    y.fill_(1)"),
    "none_or": ("y.fill_(1 if turns is None or turns > 2 else turns + 1)", "y.fill_(turns)"),
    "none_launched": (_LAUNCH.replace("1,", "turns,", 1).format("x.reshape(-1)", "y"),),
    "none_passed": (_LAUNCH.format("x.reshape(-1)", "y").replace(", 1)", ", turns)"),),
    "none_size": ("y = x.new_empty(turns)",),
    "none_shape": ("y = x.new_empty(x.shape[0], turns)",),
    "none_range": ("for _ in range(turns):", "    y.fill_(1)"),
    "none_index": ("y = x[turns]",),
    "none_message": ("if x.dim() > 1:", '    raise RuntimeError(f"turns is {turns}")'),
    # What a branch checks is not known after it.
    "none_sometimes": (
        *("if x.dim() > 1:", "    if turns is None:", '        raise RuntimeError("turns")'),
        "y.fill_(turns)",
    ),
}

#: The tensors of one list may lie on several devices.
OF_ONE_LIST = (
    *("a = zs[0]", "if a.dtype != torch.float32:", '    raise RuntimeError("a")'),
    *("for w in zs:", "    if w.dtype != torch.float32:", '        raise RuntimeError("w")'),
    "    launch(copy_kernel, 1, w.reshape(-1), output(a.view(-1)), 1)",
)

#: Statements about lists of tensors, ``zs`` and ``us``, that are refused, and the words for it.
REFUSED_OF_LISTS = {
    "list_part": ("for z in zs[1:]:", "    y.copy_(z)", "a part of a list of tensors is not translated"),
    "list_with_numbers": (
        *("for z, n in zip(zs, range(3)):", "    y.fill_(n)"),
        "write for x, y in zip(xs, ys), or for k, x in enumerate(xs)",
    ),
    "list_compared": ("if zs == [x]:", "    y.fill_(1)", "tensors are not compared here"),
    "list_unpacked": ("a, b = zs", "y.copy_(a)", "what is unpacked here is not known while drafting"),
    "list_in_one_name": ("for pair in zip(zs, zs):", "    y.fill_(1)", "write a name for each list"),
    "list_returned": ("y = zs", "only tensors are returned"),
    # Tensors of us that have no partner in zs are not checked.
    "list_longer": (
        *("for w, u in zip(zs, us):", "    if w.dtype != torch.float32 or u.dtype != w.dtype:"),
        *('        raise RuntimeError("w and u")', "for u in us:", f"    {_LAUNCH.format('u.reshape(-1)', 'y')}"),
        "is not known",
    ),
    "list_left": (
        *(
            "for w, u in zip(zs, us, strict=True):",
            "    if w.dtype not in (torch.float32, torch.float64) or u.dtype != w.dtype:",
        ),
        *('        raise RuntimeError("w and u")', "for u in us:", f"    {_LAUNCH.format('u.reshape(-1)', 'y')}"),
        "launch it in a loop over zs and the other lists",
    ),
}

#: Statements that are refused, and the words for it.
REFUSED_STATEMENTS = {
    # No argument is ignored.
    "threads": (_FRESH.replace(", 1)", ", 1, threads=32)"), "launch has no argument threads"),
    "pinned": ("y = x.new_empty(3, pin_memory=True)", "the argument pin_memory of new_empty is not translated"),
    "elsewhere": ("y = x.new_empty(3, device=z.device)", "write torch.empty(sizes, dtype=..., device=...)"),
    "named_shape": ("y = y.reshape(shape=(3,))", "the argument shape of reshape is not translated"),
    "helper_lacks": ("def fill(a, b):", "    a.fill_(b)", "fill(y)", "fill lacks its argument b"),
    "helper_has": ("def fill(a, *, b=1):", "    a.fill_(b)", "fill(y, c=2)", "fill has no argument c"),
    "helper_takes": ("def fill(a):", "    a.fill_(1)", "fill(y, 2)", "fill takes 1 argument, not 2"),
    "helper_twice": ("def fill(a, b):", "    a.fill_(b)", "fill(y, 1, b=2)", "fill gets b twice"),
    "of_gradients": ("if x.requires_grad:", "    turns = 1", "pass a flag: may_need_gradient(x) in ports/*.py"),
    "without_device": ("y = torch.zeros(3, dtype=torch.float32)", "add device=x.device"),
    "squeezed": ("y = x.squeeze()", "write x.squeeze(dim)"),
    "truth": ("if not x:", "    turns = 1", "a tensor, shape or string is no condition"),
    "helper_returns": (
        *("def first(n):", "    for k in range(n):", "        if k > 2:", "            return k", "    return n"),
        *("y.fill_(first(turns))", "assign the result, and break"),
    ),
    "after": ("for n in range(turns):", "    k = n", "y.fill_(k)", "k is assigned in a loop only"),
    "counter": ("for n in range(turns):", "    pass", "y.fill_(n)", "assign it before the loop"),
    "never": ("while True:", "    turns = 1", "a loop that never ends, or never begins"),
    # What a branch checks is not known after it.
    "sometimes": (
        *("if turns > 2:", "    if x.dim() != 2:", '        raise RuntimeError("2")', "a = x.T", "check x.dim() == 2"),
    ),
    "in_a_loop": (
        *("for _ in range(turns):", "    if x.dim() != 2:", '        raise RuntimeError("2")', "a = x.T"),
        "check x.dim() == 2",
    ),
    "powers": ("y.fill_(2 ** turns)", "write a ** max(b, 0), or float(a) ** b"),
    "permuted": ("a = x.permute(turns, 0)", "write numbers: x.permute(1, 0, 2)"),
    "order": ("a = x.permute(0, 0)", "(0, 0) is no order of the dimensions"),
    "transposed": ("a = x.T", "write x.mT"),
    "copied": ("x.copy_(y)", "an argument of the op is changed in place"),
    "copied_later": ("y.copy_(x, True)", "write y.copy_(x)"),
    "converted": ("a = x.to(x.device)", "write x.to(dtype)"),
    "half": ("turns = int(x.half())", "let it be torch.int32 or torch.float32"),
    "maybe": ("turns = x[0].item() if turns else 1", "assign it to a variable before"),
    "flipped": ("a = x.flip(0)", "let a kernel compute it"),
    "attribute": ("turns = 1 if x.is_sparse else 2", ".is_sparse is no condition, unless it is called"),
    "no_layout": ("turns = 1 if x.layout is None else 2", "an attribute that is no number is not compared"),
    "assigned": ("x[0] = 2", "launch a kernel that gets output(...) of it"),
    "assigned_tensor": ("y[0] = x[1]", "write x[i].copy_(y) for a tensor y"),
    "changed_element": ("y[0] += 1", "launch a kernel that changes the elements"),
    "tried": ("try:", "    turns = 1", "finally:", "    turns = 2", "check before: if ...: raise RuntimeError"),
    "plus": ("a = x + 1", "let a kernel, or ports/*.py, compute with tensors"),
    "printed": ("print(turns)", "leave it out"),
    "sorted": ("a = torch.sort(x)", "call it in ports/*.py before the operator"),
    "undefined": ("y.fill_(nothing)", "assign it before, or define it in the module"),
    "steps_of_a_shape": (
        *("if x.shape[::2] != z.shape[:2]:", '    raise RuntimeError("shapes")'),
        "write x.shape[i] or x.shape[i:j]",
    ),
    "sliced": ("a = x[:, ::2]", "write x[start:stop], x[i, :, j]"),
}

#: Statements, and a line of the draft: of an integer that a check bounds, `//` and `%` are C++'s from there on.
BOUNDED_NUMBERS = {
    "parts_of_shapes": (
        (
            "if x.dim() != 3 or z.dim() != 3 or x.shape[:2] != z.shape[:2] or x.shape[1:-1] != x.shape[-2:-1]:",
            '    raise RuntimeError("shapes")',
            _FRESH,
        ),
        ["x.size(0) == z.size(0) && x.size(1) == z.size(1) &&"],
    ),
    "in_a_condition": (
        ("if turns > 0:", "    launch(copy_kernel, turns, x.reshape(-1), output(y), 1)"),
        ["  if (turns > 0) {\n    const Tensor x_argument"],
    ),
    "rounded_up": (
        [
            *("early = (turns + 15) // 16", "launch(copy_kernel, turns, x.reshape(-1), output(y), early)"),
            *("if turns < 1:", '    raise RuntimeError("1")', "y.fill_((turns + 15) // 16 + turns % 4)"),
        ],
        [
            "early = trifold::floor_div(turns + 15, 16);",
            "if (turns > 0) {",
            "filled(y, (turns + 15) / 16 + turns % 4);",
        ],
    ),
    "bounded_in_a_branch": (
        ["if z.dim() == 1:", "    if turns < 1:", '        raise RuntimeError("1")', "y.fill_(turns // 16)"],
        ["filled(y, trifold::floor_div(turns, 16));"],
    ),
    "bounded_before_a_loop": (
        [
            *("left = turns", "if left < 1:", '    raise RuntimeError("1")', "while left > -9:"),
            *("    y.fill_(left // 4)", "    left -= 3"),
        ],
        ["filled(y, trifold::floor_div(left, 4));"],
    ),
    "of_two_blocks": (
        [_FRESH.replace(", 1)", ", 1, block=64)"), _FRESH.replace(", 1)", ", 1, block=(16, 8))")],
        ["__global__ void __launch_bounds__(128)"],
    ),
    "of_a_block_at_most": (
        ["threads = min(x.numel(), 96)", _FRESH.replace(", 1)", ", 1, block=threads)")],
        ["__global__ void __launch_bounds__(96)"],
    ),
    "of_any_block": ([_FRESH.replace(", 1)", ", 1, block=turns)")], ["__global__ void copy_kernel("]),
    "of_the_largest_block": ([_FRESH.replace(", 1)", ", 1, block=1024)")], ["__global__ void copy_kernel("]),
}

#: What is launched, what the kernel does to an element, and its first parameters.
OVERLAPS = {
    "fresh": (
        [_FRESH, _LAUNCH.format("z.reshape(-1)", "y[1:]")],
        "",
        "const float* __restrict__ x, float* __restrict__ y",
    ),
    "chosen": (
        ["a = z if turns > 0 else x.new_zeros(1)", _LAUNCH.format("a.reshape(-1)", "y")],
        "",
        "const float* __restrict__ x, float* __restrict__ y",
    ),
    "in_place": ([_LAUNCH.format("x.reshape(-1)", "z.view(-1)")], "", "const float* x, float* y"),
    # Each launch of a kernel counts.
    "once_in_place": ([_FRESH, _LAUNCH.format("x.reshape(-1)", "x.view(-1)")], "", "const float* x, float* y"),
    "two_parts": ([_LAUNCH.format("y[1:]", "y")], "", "const float* x, float* y"),
    "exchanged": (
        ["a = y.clone()", "for _ in range(turns):", f"    {_LAUNCH.format('a', 'y')}", "    a, y = y, a"],
        "",
        "const float* __restrict__ x, float* __restrict__ y",
    ),
    "taken_over": (
        ["a = y.clone()", "for _ in range(turns):", f"    {_LAUNCH.format('a', 'y')}", "    a, y = y, y"],
        "",
        "const float* x, float* y",
    ),
    "exchanged_for_another": (
        ["a = b = y.clone()", "for _ in range(turns):", "    a, y = y, a", _LAUNCH.format("b", "y")],
        "",
        "const float* x, float* y",
    ),
    "exchanged_twice": (
        [
            *("a, b = y.clone(), y.clone()", "for _ in range(turns):", "    a, y = y, a", "    for _ in range(turns):"),
            *("        b, y = y, b", f"    {_LAUNCH.format('a', 'y')}"),
        ],
        "",
        "const float* __restrict__ x, float* __restrict__ y",
    ),
    # After the first loop, a may be where b was.
    "exchanged_in_turn": (
        [
            *("a, b = y.clone(), y.clone()", "for _ in range(turns):", f"    {_LAUNCH.format('a', 'y')}"),
            *("    a, y = y, a", "for _ in range(turns):", "    b, y = y, b"),
        ],
        "",
        "const float* x, float* y",
    ),
    # Another thread may have written what is read.
    "read_back": ([_FRESH], "+ y[0]", "const float* __restrict__ x, float* y"),
    "added": ([_FRESH], "\n        cuda.atomic.add(y, 0, x[i])", "const float* __restrict__ x, float* y"),
    "exchanged_in_the_kernel": (
        [_FRESH],
        "\n        for _ in range(n):\n            x, y = y, x\n            y[i] = x[0]",
        "float* x, float* y",
    ),
}
