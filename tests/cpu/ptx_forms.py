"""A kernel with an asm for each form of trifold/build/ptx_table.py and each alternative of its modifiers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

from trifold.build.ptx_table import TYPES, Form, forms

_CONSTRAINTS = {"b8": "h", "f16": "h", "bf16": "h", "f16x2": "r", "bf16x2": "r", "tf32": "r", "f32": "f", "f64": "d"}
_LETTER_OF_BITS = {"8": "h", "16": "h", "32": "r", "64": "l"}
_VARIABLES = {"h": "half", "r": "word", "l": "wide", "f": "single", "d": "real"}

# Types of operands that differ from the instruction's (last) type, by the opcode and the operands' positions.
_OTHER_TYPES = {
    "shl": {2: "u32"},
    "shr": {2: "u32"},
    "shf": {3: "u32"},
    "bfe": {2: "u32", 3: "u32"},
    "bfi": {3: "u32", 4: "u32"},
    "bfind": {0: "u32"},
    "clz": {0: "u32"},
    "popc": {0: "u32"},
    "fns": {2: "u32", 3: "s32"},
    "selp": {3: "pred"},
    "setp": {0: "pred", 3: "pred"},
    "testp": {0: "pred"},
    "vote": {1: "pred", 2: "u32"},
    "match": {0: "u32", 2: "u32"},
    "shfl": {2: "u32", 3: "u32", 4: "u32"},
    "elect": {0: "u32", 1: "u32"},
    "mapa": {2: "u32"},
    "getctarank": {0: "u32"},
    "isspacep": {0: "pred", 1: "b64"},
    "movmatrix": {0: "b32", 1: "b32"},
    "dp4a": {0: "u32", 1: "u32", 2: "u32", 3: "u32"},
    "dp2a": {0: "u32", 1: "u32", 2: "u32", 3: "u32"},
}
_SHAPE = re.compile(r"m(\d+)n(\d+)k(\d+)")
_TWICE = {"u16": "u32", "s16": "s32", "u32": "u64", "s32": "s64"}
# Operands that must be constants in PTX.
_CONSTANTS = {
    ("lop3", 4): "0x80",
    ("cp", 0): "0",
    ("cp", 1): "16",
    ("cp", 2): "16",
    ("discard", 1): "128",
    ("applypriority", 1): "128",
    ("setmaxnreg", 0): "64",
}


def instructions() -> Iterator[str]:
    """The statements."""
    seen = set()
    for form in (each for row in forms().values() for each in row):
        for opcode in _opcodes(form):
            if (opcode, form.operands) not in seen:
                seen.add((opcode, form.operands))
                yield _statement(opcode, form)


def source() -> str:
    """The kernel, which is only compiled."""
    statements = "\n".join(f"  {statement}" for statement in instructions())
    return f"""#include <stdint.h>
__global__ void every_form(uint16_t half, uint32_t word, uint64_t wide, float single, double real) {{
{statements}
}}
"""


def _opcodes(form: Form) -> Iterator[str]:
    """Each alternative of each modifier once, with the first alternative of the others, or without them."""
    ordered = [sorted(alternatives, key=_first) for alternatives, _, _ in form.modifiers]
    plain = ["." + ordered[at][0] if needed else "" for at, (_, needed, _) in enumerate(form.modifiers)]
    for at, alternatives in enumerate(ordered):
        for modifier in alternatives:
            yield form.opcode + "".join([*plain[:at], "." + modifier, *plain[at + 1 :]])
    yield form.opcode + "".join(plain)


def _first(modifier: str) -> tuple[bool, str]:
    return modifier not in ("global", "b32", "u32", "f32"), modifier


def _statement(opcode: str, form: Form) -> str:
    modifiers = opcode.split(".")[1:]
    types = [modifier for modifier in modifiers if modifier in TYPES] or ["u32"]
    vector = next((int(modifier[1]) for modifier in modifiers if modifier in ("v2", "v4")), 0)
    outputs: list[str] = []
    inputs: list[str] = []
    written = []
    for at, kind in enumerate(kind for kind in form.operands if kind != "carry"):
        if kind.endswith("?"):
            if kind == "h?" and "L2::cache_hint" in modifiers:
                written.append(_operand("in", inputs, "b64"))
            continue
        constant = _CONSTANTS.get((form.opcode, at)) if kind == "a" else None
        operand_type = _type(form, at, types, modifiers)
        write = (
            partial(_operand, "out", outputs)
            if kind in ("d", "d|p", "D", "V", "{d}")
            else partial(_operand, "in", inputs)
        )
        if constant or kind == "_":
            written.append(constant or kind)
        elif kind in ("{d}", "{a}"):
            registers = map(write, _registers(form.opcode, at, types, modifiers))
            written.append("{" + ", ".join(registers) + "}")
        elif kind == "[a]":
            written.append(f"[{_operand('in', inputs, 'b64')}]")
        elif kind == "[t]":
            rank = next(int(modifier[0]) for modifier in modifiers if re.fullmatch(r"\dd", modifier))
            base = _operand("in", inputs, "b64")
            written.append(f"[{base}, {{{', '.join(_operand('in', inputs, 'b32') for _ in range(rank))}}}]")
        elif kind == "h":
            written.append(_operand("in", inputs, "b64"))
        elif kind in ("V", "A") and vector:
            written.append("{" + ", ".join([write(operand_type) for _ in range(vector)]) + "}")
        elif kind == "d|p" and operand_type != "pred":
            written.append(write(operand_type) + "|p")
        else:
            written.append(write(operand_type))
    text = f"{opcode} {', '.join(written)};"
    for number in range(len(outputs)):
        text = text.replace(f"<out {number}>", f"%{number}")
    for number in range(len(inputs)):
        text = text.replace(f"<in {number}>", f"%{len(outputs) + number}")
    carry = f".reg .{types[0]} t; add.cc.{types[0]} t, 0, 0; " if re.match("addc|subc|madc", opcode) else ""
    given = ", ".join(f'"{each}"({_VARIABLES[each]})' for each in inputs)
    made = ", ".join(f'"={each}"({_VARIABLES[each]})' for each in outputs)
    start = "{ .reg .pred p; setp.ne.u32 p, 1, 0; "
    return f'asm volatile("{start}{carry}{text} }}" : {made} : {given} : "memory");'


def _type(form: Form, at: int, types: list[str], modifiers: list[str]) -> str:
    opcode = form.opcode
    if "warp" in modifiers:
        return "u32"
    if opcode in ("bar", "barrier") and at > 0:
        return "pred" if "red" in modifiers and at == len(form.operands) - 1 else "u32"
    if opcode == "cp":
        return "b16" if "multicast::cluster" in modifiers else "u32"
    if opcode == "setp" and at == 3:
        return "pred"
    if opcode == "mbarrier":
        return _type_of_mbarrier(at, modifiers)
    if found := _OTHER_TYPES.get(opcode, {}).get(at):
        return found
    if "wide" in modifiers and at in (0, 3):
        return _TWICE[types[-1]]
    if opcode == "slct" and at < 3:
        return types[0]
    return types[0] if at == 0 else types[-1]


def _type_of_mbarrier(at: int, modifiers: list[str]) -> str:
    """Counts, bytes and parities have 32 bits, and states 64."""
    if "pending_count" in modifiers:
        return ("b32", "b64")[at]
    waits = "test_wait" in modifiers or "try_wait" in modifiers
    if at == 0:
        return "pred" if waits else "b64"
    return "b64" if waits and "parity" not in modifiers else "b32"


def _registers(opcode: str, at: int, types: list[str], modifiers: list[str]) -> list[str]:
    """The types of the registers in the list that is an operand."""
    if opcode != "mma":
        return ["b32"] * next(int(modifier[1]) for modifier in modifiers if modifier in ("x1", "x2", "x4"))
    shape = next(found for modifier in modifiers if (found := _SHAPE.fullmatch(modifier)))
    m, n, k = map(int, shape.groups())
    elements, register = ((m * n, m * k, n * k, m * n)[at] // 32, types[at])
    packed = {"f16": 2, "bf16": 2, "s8": 4, "u8": 4}.get(register, 1)
    return ["b32" if packed > 1 else register] * (elements // packed)


def _operand(which: str, section: list[str], operand_type: str) -> str:
    """The mark of an operand that is added to the asm's outputs or inputs."""
    if operand_type == "pred":
        return "p"
    section.append(_CONSTRAINTS.get(operand_type) or _LETTER_OF_BITS[operand_type[1:]])
    return f"<{which} {len(section) - 1}>"
