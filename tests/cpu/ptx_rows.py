"""Inline PTX and its result, in C++: rows for tests/cpu/test_inline_ptx.py.

``a``, ``b`` and ``c`` are the operands, of the types of their constraints (h, r, l: unsigned; f, d); ``s(x)`` is x as
the signed type of its size, ``u(x)`` as the unsigned one. Expressions use CUDA's functions, or plain C++, so that nvcc
compiles them, too.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """``constraints``: of the result, and of the operands; ``expression``: the expected result."""

    text: str
    constraints: str
    expression: str

    def __str__(self) -> str:
        return self.text.split(" ")[0] if self.text[0] not in "{" else self.text


def binary(opcode: str, constraints: str, expression: str) -> Row:
    """``opcode d, a, b``, with as many operands as there are constraints."""
    operands = ", ".join(f"%{number}" for number in range(len(constraints)))
    return Row(f"{opcode} {operands};", constraints, expression)


def predicate(instruction: str, constraints: str, expression: str) -> Row:
    """An instruction that writes p, of which the result is 1 or 0."""
    return Row(f"{{ .reg .pred p, q; {instruction} selp.u32 %0, 1, 0, p; }}", constraints, expression)


_INTEGERS = [
    binary("add.u32", "rrr", "a + b"),
    binary("add.s64", "lll", "a + b"),
    binary("add.u16", "hhh", "uint16_t(a + b)"),
    binary("add.sat.s32", "rrr", "nearest<int>(int64_t(s(a)) + s(b))"),
    binary("sub.s32", "rrr", "a - b"),
    binary("sub.sat.s32", "rrr", "nearest<int>(int64_t(s(a)) - s(b))"),
    binary("mul.lo.s32", "rrr", "a * b"),
    binary("mul.hi.s32", "rrr", "__mulhi(s(a), s(b))"),
    binary("mul.hi.u32", "rrr", "__umulhi(a, b)"),
    binary("mul.hi.u64", "lll", "__umul64hi(a, b)"),
    binary("mul.hi.s64", "lll", "__mul64hi(s(a), s(b))"),
    binary("mul.wide.s32", "lrr", "int64_t(s(a)) * s(b)"),
    binary("mul.wide.u32", "lrr", "uint64_t(a) * b"),
    binary("mul.wide.u16", "rhh", "uint32_t(a) * b"),
    binary("mul24.lo.s32", "rrr", "__mul24(s(a), s(b))"),
    binary("mul24.hi.u32", "rrr", "uint64_t(a & 0xffffff) * (b & 0xffffff) >> 16"),
    binary("mad.lo.u32", "rrrr", "a * b + c"),
    binary("mad.hi.s32", "rrrr", "u(__mulhi(s(a), s(b))) + c"),
    binary("mad.wide.s32", "lrrl", "uint64_t(int64_t(s(a)) * s(b)) + c"),
    binary("sad.u32", "rrrr", "__usad(a, b, c)"),
    binary("sad.s32", "rrrr", "__sad(s(a), s(b), c)"),
    Row("{ .reg .pred z; setp.eq.u32 z, %2, 0; @!z div.u32 %0, %1, %2; @z mov.b32 %0, %1; }", "rrr",
        "b == 0 ? a : a / b"),
    Row("rem.s64 %0, %1, 1000003;", "ll", "s(a) % 1000003"),
    Row("div.s32 %0, %1, -7;", "rr", "s(a) / -7"),
    binary("neg.s32", "rr", "0u - a"),
    binary("abs.s64", "ll", "s(a) < 0 ? 0 - a : a"),
    binary("min.s32", "rrr", "s(a) < s(b) ? a : b"),
    binary("min.u64", "lll", "a < b ? a : b"),
    binary("max.u32", "rrr", "a > b ? a : b"),
    binary("max.s16", "hhh", "s(a) > s(b) ? a : b"),
    Row("{ .reg .u32 t; add.cc.u32 %0, %1, %2; addc.u32 t, 0, 0; xor.b32 %0, %0, t; }", "rrr",
        "(a + b) ^ (a + b < a ? 1u : 0u)"),
    Row("{ .reg .u32 x, y, z, w; mov.b64 {x, y}, %1; mov.b64 {z, w}, %2; add.cc.u32 x, x, z; addc.u32 y, y, w;\\n"
        " mov.b64 %0, {x, y}; }", "lll", "a + b"),
    Row("{ .reg .u32 x, y, z, w; mov.b64 {x, y}, %1; mov.b64 {z, w}, %2; sub.cc.u32 x, x, z; subc.u32 y, y, w;\\n"
        " mov.b64 %0, {x, y}; }", "lll", "a - b"),
    Row("{ .reg .u32 x, y; mad.lo.cc.u32 x, %1, %2, %3; madc.hi.u32 y, %1, %2, 0; mov.b64 %0, {x, y}; }", "lrrr",
        "uint64_t(a) * b + c"),
    binary("dp4a.s32.s32", "rrrr", "__dp4a(s(a), s(b), s(c))"),
    binary("dp4a.u32.u32", "rrrr", "__dp4a(a, b, c)"),
    binary("dp2a.lo.s32.s32", "rrrr", "__dp2a_lo(s(a), s(b), s(c))"),
]  # fmt: skip

_BITS = [
    binary("mov.b32", "rr", "a"),
    binary("and.b32", "rrr", "a & b"),
    binary("or.b64", "lll", "a | b"),
    binary("xor.b16", "hhh", "uint16_t(a ^ b)"),
    binary("not.b64", "ll", "~a"),
    binary("cnot.b32", "rr", "a == 0 ? 1u : 0u"),
    binary("shl.b32", "rrr", "b > 31 ? 0u : a << b"),
    binary("shr.u64", "llr", "b > 63 ? 0 : a >> b"),
    binary("shr.s32", "rrr", "s(a) >> (b > 31 ? 31 : b)"),
    binary("shf.l.wrap.b32", "rrrr", "__funnelshift_l(a, b, c)"),
    binary("shf.l.clamp.b32", "rrrr", "__funnelshift_lc(a, b, c)"),
    binary("shf.r.wrap.b32", "rrrr", "__funnelshift_r(a, b, c)"),
    binary("shf.r.clamp.b32", "rrrr", "__funnelshift_rc(a, b, c)"),
    binary("prmt.b32", "rrrr", "__byte_perm(a, b, c & 0xffff)"),
    Row("prmt.b32.f4e %0, %1, %2, 3;", "rrr", "__byte_perm(a, b, 0x6543)"),
    Row("prmt.b32.b4e %0, %1, %2, 1;", "rrr", "__byte_perm(a, b, 0x6701)"),
    Row("prmt.b32.ecl %0, %1, %2, 1;", "rrr", "__byte_perm(a, b, 0x3211)"),
    Row("lop3.b32 %0, %1, %2, %3, 0xE8;", "rrrr", "(a & b) | (b & c) | (a & c)"),
    Row("lop3.b32 %0, %1, %2, %3, 0x1e;", "rrrr", "a ^ (b | c)"),
    binary("bfe.u32", "rrrr", "field(a, b & 0xff, c & 0xff, false)"),
    binary("bfe.s32", "rrrr", "field(a, b & 0xff, c & 0xff, true)"),
    Row("bfe.s64 %0, %1, 60, 8;", "ll", "s(a) >> 60"),
    Row(
        "{ .reg .u32 n; shr.b32 n, %3, 8; bfi.b32 %0, %1, %2, %3, n; }", "rrrr",
        "insert(a, b, c & 0xff, c >> 8 & 0xff)"
    ),
    binary("bfind.u32", "rr", "a == 0 ? ~0u : 31u - __clz(s(a))"),
    binary("bfind.shiftamt.s64", "rl", "s(a) == 0 || s(a) == -1 ? ~0u : u(__clzll(s(a) < 0 ? ~a : a))"),
    binary("brev.b32", "rr", "__brev(a)"),
    binary("brev.b64", "ll", "__brevll(a)"),
    binary("clz.b64", "rl", "__clzll(s(a))"),
    binary("popc.b32", "rr", "__popc(a)"),
    Row("{ .reg .b16 low, high; mov.b32 {low, high}, %1; mov.b32 %0, {high, low}; }", "rr", "a << 16 | a >> 16"),
    Row("{ .reg .pred p, q; setp.ne.b32 p, %1, 0; not.pred q, p; xor.pred p, p, q; selp.b32 %0, %2, 3, p; }", "rrr",
        "b"),
]  # fmt: skip

_FLOATS = [
    binary("add.f32", "fff", "__fadd_rn(a, b)"),
    binary("add.rz.f32", "fff", "__fadd_rz(a, b)"),
    binary("add.rp.ftz.f32", "fff", "flush(__fadd_ru(flush(a), flush(b)))"),
    binary("sub.rm.f64", "ddd", "__dsub_rd(a, b)"),
    binary("mul.sat.f32", "fff", "__saturatef(__fmul_rn(a, b))"),
    binary("mul.f64", "ddd", "__dmul_rn(a, b)"),
    binary("fma.rn.f32", "ffff", "__fmaf_rn(a, b, c)"),
    binary("fma.rz.f64", "dddd", "__fma_rz(a, b, c)"),
    binary("mad.rn.f32", "ffff", "__fmaf_rn(a, b, c)"),
    binary("div.rn.f32", "fff", "__fdiv_rn(a, b)"),
    binary("div.rp.f64", "ddd", "__ddiv_ru(a, b)"),
    binary("div.approx.f32", "fff", "__fdividef(a, b)"),
    binary("neg.f32", "ff", "-a"),
    binary("abs.ftz.f32", "ff", "flush(fabsf(a))"),
    binary("min.f32", "fff", "fminf(a, b)"),
    binary("max.f64", "ddd", "fmax(a, b)"),
    binary("max.NaN.f32", "fff", "a != a || b != b ? __int_as_float(0x7fffffff) : fmaxf(a, b)"),
    binary("copysign.f32", "fff", "copysignf(b, a)"),
    binary("rcp.rn.f32", "ff", "__frcp_rn(a)"),
    binary("rcp.approx.ftz.f32", "ff", "flush(__frcp_rn(flush(a)))"),
    binary("sqrt.rz.f32", "ff", "__fsqrt_rz(a)"),
    binary("sqrt.approx.f32", "ff", "sqrtf(a)"),
    binary("ex2.approx.ftz.f32", "ff", "flush(exp2f(flush(a)))"),
    binary("lg2.approx.f32", "ff", "log2f(a)"),
    binary("rsqrt.approx.f32", "ff", "1 / sqrtf(a)"),
    binary("sin.approx.f32", "ff", "sinf(a)"),
    binary("cos.approx.f32", "ff", "cosf(a)"),
    binary("tanh.approx.f32", "ff", "tanhf(a)"),
    Row("add.f32 %0, %1, 0f3F800000;", "ff", "a + 1.0f"),
    Row("mul.f64 %0, %1, 0d3FE0000000000000;", "dd", "a * 0.5"),
    Row("fma.rn.f32 %0, %1, 2.5, -1e-2;", "ff", "__fmaf_rn(a, 2.5f, -1e-2f)"),
    binary("add.f16", "hhh", "bits(__hadd(half_of(a), half_of(b)))"),
    binary("fma.rn.relu.f16x2", "rrrr",
           "pair(__hfma_relu(low(a), low(b), low(c)), __hfma_relu(high(a), high(b), high(c)))"),
    binary("mul.bf16x2", "rrr", "bits(__hmul2(bfloats(a), bfloats(b)))"),
    binary("max.NaN.bf16x2", "rrr",
           "bits(__halves2bfloat162(__hmax_nan(bfloats(a).x, bfloats(b).x), "
           "__hmax_nan(bfloats(a).y, bfloats(b).y)))"),
    binary("neg.f16x2", "rr", "a ^ 0x80008000u"),
]  # fmt: skip

_COMPARISONS = [
    predicate("setp.lt.s32 p, %1, %2;", "rrr", "s(a) < s(b)"),
    predicate("setp.hs.u32 p, %1, %2;", "rrr", "a >= b"),
    predicate("setp.ne.b64 p, %1, %2;", "rll", "a != b"),
    predicate("setp.le.f32 p, %1, %2;", "rff", "a <= b"),
    predicate("setp.ne.f32 p, %1, %2;", "rff", "a < b || a > b"),
    predicate("setp.neu.f64 p, %1, %2;", "rdd", "a != b"),
    predicate("setp.geu.ftz.f32 p, %1, %2;", "rff", "!(flush(a) < flush(b))"),
    predicate("setp.nan.f32 p, %1, %2;", "rff", "a != a || b != b"),
    predicate("setp.gt.f16 p, %1, %2;", "rhh", "__half2float(half_of(a)) > __half2float(half_of(b))"),
    predicate("setp.eq.u32 q, %1, 5; setp.lt.and.s32 p, %1, %2, !q;", "rrr", "s(a) < s(b) && a != 5"),
    predicate("setp.eq.u32 q, %1, 5; setp.lt.xor.u32 q|p, %1, %2, q;", "rrr", "!(a < b) != (a == 5)"),
    predicate("testp.subnormal.f32 p, %1;", "rf", "(u(__float_as_int(a)) << 1) - 1 < 0xffffffu"),
    predicate("testp.infinite.f64 p, %1;", "rd", "isinf(a)"),
    binary("set.lt.u32.s32", "rrr", "s(a) < s(b) ? ~0u : 0u"),
    binary("set.gtu.f32.f32", "fff", "a <= b ? 0.0f : 1.0f"),
    binary("slct.f32.s32", "fffr", "s(c) >= 0 ? a : b"),
]

_CONVERSIONS = [
    binary("cvt.u32.u64", "rl", "uint32_t(a)"),
    binary("cvt.s64.s32", "lr", "s(a)"),
    binary("cvt.u64.u32", "lr", "a"),
    binary("cvt.s32.s8", "rr", "int(int8_t(a))"),
    binary("cvt.sat.u8.s32", "rr", "nearest<uint8_t>(int64_t(s(a)))"),
    binary("cvt.sat.s16.s64", "hl", "uint16_t(nearest<int16_t>(s(a)))"),
    binary("cvt.rzi.s32.f32", "rf", "__float2int_rz(a)"),
    binary("cvt.rni.u32.f32", "rf", "__float2uint_rn(a)"),
    binary("cvt.rpi.s64.f64", "ld", "__double2ll_ru(a)"),
    binary("cvt.rzi.u8.f32", "rf", "a > 0 ? (a < 255 ? uint32_t(a) : 255u) : 0u"),
    binary("cvt.rn.f32.s32", "fr", "__int2float_rn(s(a))"),
    binary("cvt.rz.f32.u64", "fl", "__ull2float_rz(a)"),
    binary("cvt.rp.f64.s64", "dl", "__ll2double_ru(s(a))"),
    binary("cvt.rn.f16.u32", "hr", "bits(__uint2half_rn(a))"),
    binary("cvt.f64.f32", "df", "double(a)"),
    binary("cvt.rn.f32.f64", "fd", "__double2float_rn(a)"),
    binary("cvt.rm.ftz.f32.f64", "fd", "flush(__double2float_rd(a))"),
    binary("cvt.rmi.f32.f32", "ff", "floorf(a)"),
    binary("cvt.rni.f64.f64", "dd", "rint(a)"),
    binary("cvt.sat.f32.f32", "ff", "__saturatef(a)"),
    binary("cvt.f32.f16", "fh", "__half2float(half_of(a))"),
    binary("cvt.rn.f16.f32", "hf", "bits(__float2half_rn(a))"),
    binary("cvt.rz.f16.f32", "hf", "bits(__float2half_rz(a))"),
    binary("cvt.rn.bf16.f32", "hf", "bits(__float2bfloat16_rn(a))"),
    binary("cvt.rn.bf16x2.f32", "rff", "bits(__floats2bfloat162_rn(b, a))"),
    binary("cvt.rn.f16x2.f32", "rff", "bits(__floats2half2_rn(b, a))"),
    binary("cvt.rna.tf32.f32", "rf",
           "a != a ? 0x7fffffffu : isinf(a) ? u(__float_as_int(a)) : (u(__float_as_int(a)) + 0x1000u) & ~0x1fffu"),
]  # fmt: skip

_TEXTS = [
    # A loop, with labels in their own scope.
    Row("{ .reg .u32 n, %%x; .reg .pred p; mov.u32 n, 0; and.b32 %%x, %1, 15;\\n"
        "again: setp.ge.u32 p, n, %%x; @p bra done; add.u32 n, n, 3; bra.uni again;\\n"
        "done: mov.u32 %0, n; }", "rr", "(((a & 15) + 2) / 3) * 3"),
    # Modifiers in another order, and PTX's own single %, which compilers accept.
    Row("{ .reg .u32 t; mov.u32 t, %laneid; add.u32 %0, %1, t; }", "rr", "a + threadIdx.x % 32"),
    Row("fma.ftz.rn.f32 %0, %1, %1, %1;", "ff", "flush(__fmaf_rn(flush(a), flush(a), flush(a)))"),
    # Parametrised registers, and a name that is reused in an inner scope.
    Row("{ .reg .u32 r<3>; mov.b32 r0, %1; { .reg .u32 r0; mov.b32 r0, 7; add.u32 r1, r0, 1; }\\n"
        "add.u32 %0, r0, r1; /* not r2 */ }", "rr", "a + 8"),
    Row("{ .reg .b32 $t; mov.b32 $t, 010; xor.b32 %0, $t, %1; xor.b32 %0, %0, 0b101; add.s32 %0, %0, -1; }", "rr",
        "((8u ^ a) ^ 5u) - 1"),
]  # fmt: skip

ROWS = (*_INTEGERS, *_BITS, *_FLOATS, *_COMPARISONS, *_CONVERSIONS, *_TEXTS)
