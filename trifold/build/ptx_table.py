"""The PTX instructions that run on the CPU, in the notation of the PTX ISA: a row is one form.

``{.x}`` is optional, ``.x/y`` is one of several, and a word in capitals is one of CLASSES. The classes in HINTS are not
passed to the C++ function that runs the instruction: ``trifold::ptx::<opcode>`` in <trifold/cpu/ptx.h>.

Operands: ``d`` is written and ``a`` read, ``[a]`` is an address, ``V`` and ``A`` are as ``d`` and ``a``, or ``{…}``
where the form has ``.v2`` or ``.v4``, ``{d}`` and ``{a}`` are lists of any length, ``[t]`` is the address of a tensor
map with a list of coordinates, ``d|p`` may have a predicate, ``_`` is itself, ``h`` is a hint, ``?`` may be left out;
``carry`` is not in the text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

CLASSES = {
    "INT": "u16 u32 u64 s16 s32 s64",
    "WIDE": "u16 u32 s16 s32",
    "CARRIES": "u32 u64 s32 s64",
    "BITS": "b16 b32 b64",
    "HALF": "f16 f16x2 bf16 bf16x2",
    "MEMORY": "b8 b16 b32 b64 u8 u16 u32 u64 s8 s16 s32 s64 f32 f64",
    "ROUNDING": "rn rz rm rp",
    "TO_WHOLE": "rni rzi rmi rpi",
    "ORDER": "relaxed acquire release acq_rel",
    "SCOPE": "cta cluster gpu sys",
    "SPACE": "const global local shared shared::cta shared::cluster",
    "WRITABLE": "global local shared shared::cta shared::cluster",
    "COMMON": "global shared shared::cta shared::cluster",  # to threads
    "SHARED": "shared shared::cta",
    "OF_CLUSTER": "shared shared::cta shared::cluster",
    "NEAR": "cta cluster",
    "VECTOR": "v2 v4",
    "CACHE": "ca cg cs lu cv",
    "NC_CACHE": "ca cg cs",
    "STORE_CACHE": "wb cg cs wt",
    "EVICT": "L1::evict_normal L1::evict_unchanged L1::evict_first L1::evict_last L1::no_allocate",
    "KEEP": "L2::evict_normal L2::evict_unchanged L2::evict_first L2::evict_last",
    "ELSE": "L2::evict_unchanged L2::evict_first",
    "POLICY": "L2::cache_hint",
    "PREFETCH": "L2::64B L2::128B L2::256B",
    "ORDERED": "lt le gt ge",
    "UNORDERED": "equ neu ltu leu gtu geu num nan",
    "LOGIC": "and or xor",
    "COUNTED": "mbarrier::complete_tx::bytes",
    "RANK": "1d 2d 3d 4d 5d",
    "MODE": "tile",
}
HINTS = {"CACHE", "NC_CACHE", "STORE_CACHE", "EVICT", "KEEP", "ELSE", "POLICY", "PREFETCH", "RANK", "MODE"}

_TYPES = "b8 b16 b32 b64 u8 u16 u32 u64 s8 s16 s32 s64 f16 f16x2 bf16 bf16x2 tf32 f32 f64 pred"
TYPES = frozenset(_TYPES.split())

_ROWS = """
mov.BITS/INT/f32/f64/pred                               | D, A
cvta{.to}.SPACE.u64                                     | d, a
isspacep.global/local/shared/shared::cta/shared::cluster | d, a
mapa{.shared::cluster}.u64                              | d, a, a
mapa.shared::cluster.u32                                | d, a, a
getctarank{.shared::cluster}.u64                        | d, a
getctarank.shared::cluster.u32                          | d, a
selp.BITS/INT/f32/f64                                   | d, a, a, a
slct{.ftz}.b16/b32/b64/u16/u32/u64/s16/s32/s64/f32/f64.s32/f32 | d, a, a, a
set.eq/ne/ORDERED/UNORDERED{.ftz}.u32/s32/f32.u16/u32/u64/s16/s32/s64/f32/f64 | d, a, a
setp.eq/ne.BITS                                         | d|p, a, a
setp.eq/ne.LOGIC.BITS                                   | d|p, a, a, a
setp.eq/ne/lo/ls/hi/hs/ORDERED.INT                      | d|p, a, a
setp.eq/ne/lo/ls/hi/hs/ORDERED.LOGIC.INT                | d|p, a, a, a
setp.eq/ne/ORDERED/UNORDERED{.ftz}.f16/bf16/f32/f64     | d|p, a, a
setp.eq/ne/ORDERED/UNORDERED.LOGIC{.ftz}.f16/bf16/f32/f64 | d|p, a, a, a

ld{.weak}{.SPACE}{.CACHE}{.EVICT}{.POLICY}{.PREFETCH}{.VECTOR}.MEMORY | V, [a], h?
ld.global{.NC_CACHE}.nc{.EVICT}{.POLICY}{.PREFETCH}{.VECTOR}.MEMORY | V, [a], h?
ld.volatile{.COMMON}{.PREFETCH}{.VECTOR}.MEMORY         | V, [a]
ld.relaxed/acquire.SCOPE{.COMMON}{.EVICT}{.POLICY}{.PREFETCH}{.VECTOR}.MEMORY | V, [a], h?
ldu{.global}{.VECTOR}.MEMORY                            | V, [a]
st{.weak}{.WRITABLE}{.STORE_CACHE}{.EVICT}{.POLICY}{.VECTOR}.MEMORY | [a], A, h?
st.volatile{.COMMON}{.VECTOR}.MEMORY                    | [a], A
st.relaxed/release.SCOPE{.COMMON}{.EVICT}{.POLICY}{.VECTOR}.MEMORY | [a], A, h?
atom{.ORDER}{.SCOPE}{.COMMON}.and/or/xor{.POLICY}.b32/b64 | d, [a], a, h?
atom{.ORDER}{.SCOPE}{.COMMON}.exch{.POLICY}.b32/b64   | d, [a], a, h?
atom{.ORDER}{.SCOPE}{.COMMON}.cas.BITS                  | d, [a], a, a
atom{.ORDER}{.SCOPE}{.COMMON}.add{.POLICY}.u32/u64/s32/f32/f64 | d, [a], a, h?
atom{.ORDER}{.SCOPE}{.COMMON}.add.noftz{.POLICY}.HALF | d, [a], a, h?
atom{.ORDER}{.SCOPE}{.global}.add{.POLICY}.VECTOR.f32   | V, [a], A, h?
atom{.ORDER}{.SCOPE}{.COMMON}.inc/dec{.POLICY}.u32    | d, [a], a, h?
atom{.ORDER}{.SCOPE}{.COMMON}.min/max{.POLICY}.u32/u64/s32/s64 | d, [a], a, h?
red{.relaxed/release}{.SCOPE}{.COMMON}.and/or/xor{.POLICY}.b32/b64 | [a], a, h?
red{.relaxed/release}{.SCOPE}{.COMMON}.add{.POLICY}.u32/u64/s32/f32/f64 | [a], a, h?
red{.relaxed/release}{.SCOPE}{.COMMON}.add.noftz{.POLICY}.HALF | [a], a, h?
red{.relaxed/release}{.SCOPE}{.global}.add{.POLICY}.VECTOR.f32 | [a], A, h?
red{.relaxed/release}{.SCOPE}{.COMMON}.inc/dec{.POLICY}.u32 | [a], a, h?
red{.relaxed/release}{.SCOPE}{.COMMON}.min/max{.POLICY}.u32/u64/s32/s64 | [a], a, h?
prefetch{.global/local}.L1/L2/L2::evict_last/L2::evict_normal | [a]
prefetchu.L1                                            | [a]
prefetch{.param/const}.tensormap                        | [a]
discard{.global}.L2                                     | [a], a
applypriority{.global}.L2::evict_normal                 | [a], a
setmaxnreg.inc/dec.sync.aligned.u32                     | a
createpolicy.fractional.KEEP{.ELSE}.b64 | d, h?
membar.cta/gl/sys                                       |
fence{.sc/acq_rel/acquire/release}.SCOPE                |
fence.mbarrier_init.release.cluster                     |

add/sub.INT                                             | d, a, a
add/sub.sat.s32                                         | d, a, a
add/sub.cc.CARRIES                                      | d, a, a, carry
addc/subc{.cc}.CARRIES                                  | d, a, a, carry
add/sub/mul{.ROUNDING}{.ftz}{.sat}.f32                  | d, a, a
add/sub/mul{.ROUNDING}.f64                              | d, a, a
add/sub/mul{.rn}{.ftz}{.sat}.f16/f16x2                  | d, a, a
add/sub/mul{.rn}.bf16/bf16x2                            | d, a, a
mul.lo/hi.INT                                           | d, a, a
mul.wide.WIDE                                           | d, a, a
mul24.lo/hi.u32/s32                                     | d, a, a
mad.lo/hi.INT                                           | d, a, a, a
mad.wide.WIDE                                           | d, a, a, a
mad.lo/hi.cc.CARRIES                                    | d, a, a, a, carry
madc.lo/hi{.cc}.CARRIES                                 | d, a, a, a, carry
mad.ROUNDING{.ftz}{.sat}.f32                            | d, a, a, a
mad.ROUNDING.f64                                        | d, a, a, a
fma.ROUNDING{.ftz}{.sat}.f32                            | d, a, a, a
fma.ROUNDING.f64                                        | d, a, a, a
fma.rn{.ftz}{.sat}{.relu}.f16/f16x2                     | d, a, a, a
fma.rn{.relu}.bf16/bf16x2                               | d, a, a, a
sad.INT                                                 | d, a, a, a
div/rem.INT                                             | d, a, a
div.approx/full{.ftz}.f32                               | d, a, a
div.ROUNDING{.ftz}.f32                                  | d, a, a
div.ROUNDING.f64                                        | d, a, a
neg/abs.s16/s32/s64                                     | d, a
neg/abs{.ftz}.f16/f16x2/f32                             | d, a
neg/abs.bf16/bf16x2/f64                                 | d, a
min/max.INT                                             | d, a, a
min/max.relu.s32                                        | d, a, a
min/max{.ftz}{.NaN}.f16/f16x2/f32                       | d, a, a
min/max{.NaN}.bf16/bf16x2                               | d, a, a
min/max.f64                                             | d, a, a
copysign.f32/f64                                        | d, a, a
testp.finite/infinite/number/notanumber/normal/subnormal.f32/f64 | d, a
rcp/sqrt.approx{.ftz}.f32                               | d, a
rcp/sqrt.ROUNDING{.ftz}.f32                             | d, a
rcp/sqrt.ROUNDING.f64                                   | d, a
rsqrt/sin/cos/lg2.approx{.ftz}.f32                      | d, a
rsqrt.approx.f64                                        | d, a
ex2.approx{.ftz}.f16/f16x2/f32                          | d, a
ex2.approx.ftz.bf16/bf16x2                              | d, a
tanh.approx.f16/f16x2/bf16/bf16x2/f32                   | d, a

and/or/xor.BITS/pred                                    | d, a, a
not.BITS/pred                                           | d, a
cnot.BITS                                               | d, a
shl.BITS                                                | d, a, a
shr.BITS/INT                                            | d, a, a
shf.l/r.clamp/wrap.b32                                  | d, a, a, a
prmt.b32                                                | d, a, a, a
prmt.b32.f4e/b4e/rc8/ecl/ecr/rc16                       | d, a, a, a
lop3.b32                                                | d, a, a, a, a
bfe.u32/u64/s32/s64                                     | d, a, a, a
bfi.b32/b64                                             | d, a, a, a, a
bfind{.shiftamt}.u32/u64/s32/s64                        | d, a
brev/clz/popc.b32/b64                                   | d, a
fns.b32                                                 | d, a, a, a
dp4a.u32/s32.u32/s32                                    | d, a, a, a
dp2a.lo/hi.u32/s32.u32/s32                              | d, a, a, a

cvt.u8/u16/u32/u64/s8/s16/s32/s64.u8/u16/u32/u64/s8/s16/s32/s64 | d, a
cvt.sat.s8.u8                                           | d, a
cvt.sat.u8/u16/u32/u64.s8                               | d, a
cvt.sat.u8/u16/u32/u64/s8.s16                           | d, a
cvt.sat.u8/s8/s16.u16                                   | d, a
cvt.sat.u8/u16/u32/u64/s8/s16.s32                       | d, a
cvt.sat.u8/u16/s8/s16/s32.u32                           | d, a
cvt.sat.u8/u16/u32/u64/s8/s16/s32.s64                   | d, a
cvt.sat.u8/u16/u32/s8/s16/s32/s64.u64                   | d, a
cvt.TO_WHOLE{.ftz}{.sat}.u8/u16/u32/u64/s8/s16/s32/s64.f16/bf16/f32/f64 | d, a
cvt.TO_WHOLE{.sat}.f16.f16                              | d, a
cvt.TO_WHOLE{.ftz}{.sat}.f32.f32                        | d, a
cvt.TO_WHOLE{.sat}.f64.f64                              | d, a
cvt.ROUNDING{.sat}.f16/bf16/f32/f64.u8/u16/u32/u64/s8/s16/s32/s64 | d, a
cvt.ROUNDING{.ftz}{.sat}.f16.f32                        | d, a
cvt.ROUNDING{.ftz}{.sat}.f32.f64                        | d, a
cvt.ROUNDING{.sat}.f16.f64                              | d, a
cvt.rn/rz{.relu}.f16/bf16.f32                           | d, a
cvt.rn/rz{.relu}.f16x2/bf16x2.f32                       | d, a, a
cvt.rna.tf32.f32                                        | d, a
cvt{.ftz}{.sat}.f32.f16/f32                             | d, a
cvt{.ftz}{.sat}.f64.f32                                 | d, a
cvt{.sat}.f16/f64.f16                                   | d, a
cvt{.sat}.f64.f64                                       | d, a
cvt.f32/f64.bf16                                        | d, a

bar{.cta}.sync                                          | a, a?
bar{.cta}.arrive                                        | a, a
barrier{.cta}.sync{.aligned}                            | a, a?
barrier{.cta}.arrive{.aligned}                          | a, a
barrier.cluster.arrive{.release/relaxed}{.aligned}       |
barrier.cluster.wait{.acquire}{.aligned}                |
bar.warp.sync                                           | a
bar{.cta}.red.popc.u32                                  | d, a, a
bar{.cta}.red.popc.u32                                  | d, a, a, a
bar{.cta}.red.and/or.pred                               | d, a, a
bar{.cta}.red.and/or.pred                               | d, a, a, a
barrier{.cta}.red.popc{.aligned}.u32                    | d, a, a
barrier{.cta}.red.popc{.aligned}.u32                    | d, a, a, a
barrier{.cta}.red.and/or{.aligned}.pred                 | d, a, a
barrier{.cta}.red.and/or{.aligned}.pred                 | d, a, a, a
mbarrier.init{.SHARED}.b64                              | [a], a
mbarrier.inval{.SHARED}.b64                             | [a]
mbarrier.expect_tx/complete_tx{.OF_CLUSTER}.b64         | [a], a
mbarrier.expect_tx/complete_tx.relaxed.NEAR{.OF_CLUSTER}.b64 | [a], a
mbarrier.arrive/arrive_drop{.SHARED}.b64                | d, [a], a?
mbarrier.arrive/arrive_drop.release/relaxed.NEAR{.SHARED}.b64 | d, [a], a?
mbarrier.arrive/arrive_drop.shared::cluster.b64         | _, [a], a?
mbarrier.arrive/arrive_drop.release/relaxed.NEAR.shared::cluster.b64 | _, [a], a?
mbarrier.arrive/arrive_drop.expect_tx{.SHARED}.b64      | d, [a], a
mbarrier.arrive/arrive_drop.expect_tx.release/relaxed.NEAR{.SHARED}.b64 | d, [a], a
mbarrier.arrive/arrive_drop.expect_tx.shared::cluster.b64 | _, [a], a
mbarrier.arrive/arrive_drop.expect_tx.release/relaxed.NEAR.shared::cluster.b64 | _, [a], a
mbarrier.arrive/arrive_drop.noComplete{.SHARED}.b64     | d, [a], a
mbarrier.arrive/arrive_drop.noComplete.release.cta{.SHARED}.b64 | d, [a], a
mbarrier.test_wait{.parity}{.SHARED}.b64                | d, [a], a
mbarrier.test_wait{.parity}.acquire/relaxed.NEAR{.SHARED}.b64 | d, [a], a
mbarrier.try_wait{.parity}{.SHARED}.b64                 | d, [a], a, a?
mbarrier.try_wait{.parity}.acquire/relaxed.NEAR{.SHARED}.b64 | d, [a], a, a?
mbarrier.pending_count.b64                              | d, a
cp.async.ca/cg.SHARED.global{.PREFETCH}                 | [a], [a], a, a?
cp.async.ca/cg.SHARED.global.POLICY{.PREFETCH}          | [a], [a], a, h
cp.async.ca/cg.SHARED.global.POLICY{.PREFETCH}          | [a], [a], a, a, h
cp.async.commit_group                                   |
cp.async.wait_group                                     | a
cp.async.wait_all                                       |
cp.async.mbarrier.arrive{.noinc}{.SHARED}.b64           | [a]
cp.async.bulk.shared::cta/shared::cluster.global.COUNTED{.POLICY} | [a], [a], a, [a], h?
cp.async.bulk.shared::cluster.global.COUNTED.multicast::cluster{.POLICY} | [a], [a], a, [a], a, h?
cp.async.bulk.shared::cluster.shared::cta.COUNTED       | [a], [a], a, [a]
cp.async.bulk.global.shared::cta.bulk_group{.POLICY}    | [a], [a], a, h?
cp.async.bulk.tensor.RANK.shared::cta/shared::cluster.global{.MODE}.COUNTED{.POLICY} | [a], [t], [a], h?
cp.async.bulk.tensor.RANK.shared::cluster.global{.MODE}.COUNTED.multicast::cluster{.POLICY} | [a], [t], [a], a, h?
cp.async.bulk.tensor.RANK.global.shared::cta{.MODE}.bulk_group{.POLICY} | [t], [a], h?
cp.async.bulk.prefetch.tensor.RANK.L2.global{.MODE}{.POLICY} | [t], h?
cp.reduce.async.bulk.tensor.RANK.global.shared::cta.add/min/max/and/or/xor{.MODE}.bulk_group{.POLICY} | [t], [a], h?
cp.async.bulk.commit_group                              |
cp.async.bulk.wait_group{.read}                         | a
cp.async.bulk.prefetch.L2.global{.POLICY}               | [a], a, h?
cp.reduce.async.bulk.shared::cluster.shared::cta.COUNTED.and/or/xor.b32 | [a], [a], a, [a]
cp.reduce.async.bulk.shared::cluster.shared::cta.COUNTED.add.u32/s32/u64 | [a], [a], a, [a]
cp.reduce.async.bulk.shared::cluster.shared::cta.COUNTED.min/max.u32/s32 | [a], [a], a, [a]
cp.reduce.async.bulk.shared::cluster.shared::cta.COUNTED.inc/dec.u32 | [a], [a], a, [a]
cp.reduce.async.bulk.global.shared::cta.bulk_group{.POLICY}.and/or/xor.b32/b64 | [a], [a], a, h?
cp.reduce.async.bulk.global.shared::cta.bulk_group{.POLICY}.add.u32/s32/u64/f32/f64 | [a], [a], a, h?
cp.reduce.async.bulk.global.shared::cta.bulk_group{.POLICY}.add.noftz.f16/bf16 | [a], [a], a, h?
cp.reduce.async.bulk.global.shared::cta.bulk_group{.POLICY}.inc/dec.u32 | [a], [a], a, h?
cp.reduce.async.bulk.global.shared::cta.bulk_group{.POLICY}.min/max.u32/s32/u64/s64/f16/bf16 | [a], [a], a, h?
st.async{.weak}{.shared::cluster}.COUNTED{.VECTOR}.b32/b64/u32/u64/s32/s64/f32/f64 | [a], A, [a]
red.async.relaxed.cluster{.shared::cluster}.COUNTED.and/or/xor.b32 | [a], a, [a]
red.async.relaxed.cluster{.shared::cluster}.COUNTED.add.u32/s32/u64 | [a], a, [a]
red.async.relaxed.cluster{.shared::cluster}.COUNTED.min/max.u32/s32 | [a], a, [a]
red.async.relaxed.cluster{.shared::cluster}.COUNTED.inc/dec.u32 | [a], a, [a]
fence.proxy.async{.global/shared::cta/shared::cluster}  |
fence.proxy.alias                                       |
griddepcontrol.wait/launch_dependents                   |
shfl.sync.up/down/bfly/idx.b32                          | d|p, a, a, a, a
vote.sync.all/any/uni.pred                              | d, a, a
vote.sync.ballot.b32                                    | d, a, a
match.any.sync.b32/b64                                  | d, a, a
match.all.sync.b32/b64                                  | d|p, a, a
redux.sync.add/min/max.u32/s32                          | d, a, a
redux.sync.and/or/xor.b32                               | d, a, a
elect.sync                                              | d|p, a
mma.sync.aligned.m16n8k8/m16n8k16.row.col.f16.f16.f16.f16 | {d}, {a}, {a}, {a}
mma.sync.aligned.m16n8k8/m16n8k16.row.col.f32.f16.f16.f32 | {d}, {a}, {a}, {a}
mma.sync.aligned.m16n8k8/m16n8k16.row.col.f32.bf16.bf16.f32 | {d}, {a}, {a}, {a}
mma.sync.aligned.m16n8k4/m16n8k8.row.col.f32.tf32.tf32.f32 | {d}, {a}, {a}, {a}
mma.sync.aligned.m8n8k4/m16n8k4/m16n8k8/m16n8k16.row.col.f64.f64.f64.f64 | {d}, {a}, {a}, {a}
mma.sync.aligned.m8n8k16/m16n8k16/m16n8k32.row.col{.satfinite}.s32.s8/u8.s8/u8.s32 | {d}, {a}, {a}, {a}
ldmatrix.sync.aligned.m8n8.x1/x2/x4{.trans}{.SHARED}.b16 | {d}, [a]
stmatrix.sync.aligned.m8n8.x1/x2/x4{.trans}{.SHARED}.b16 | [a], {a}
movmatrix.sync.aligned.m8n8.trans.b16                   | d, a
activemask.b32                                          | d
nanosleep.u32                                           | a
trap                                                    |
brkpt                                                   |
"""


@dataclass(frozen=True)
class Form:
    """A row: the opcode's first word; for each modifier its alternatives, whether it is required, and whether it is
    only a hint; and the operands."""

    text: str
    opcode: str
    modifiers: tuple[tuple[frozenset[str], bool, bool], ...]
    operands: tuple[str, ...]

    @property
    def in_text(self) -> tuple[str, ...]:
        """The operands in an instruction's text."""
        return tuple(kind for kind in self.operands if kind != "carry")

    @property
    def least_operands(self) -> int:
        return sum(not kind.endswith("?") for kind in self.in_text)

    def takes(self, count: int) -> bool:
        """Whether an instruction may have this many operands."""
        return self.least_operands <= count <= len(self.in_text)

    def match(self, given: list[str]) -> list[str] | None:
        """The relevant modifiers, in the form's order; None: another form. Compilers accept them in any order, except
        types."""
        found: dict[int, str] = {}
        last_type = -1
        for modifier in given:
            is_type = modifier in TYPES
            places = (at for at, (alternatives, _, _) in enumerate(self.modifiers) if modifier in alternatives)
            place = next((at for at in places if at not in found and not (is_type and at < last_type)), None)
            if place is None:
                return None
            last_type = place if is_type else last_type
            found[place] = modifier
        if any(needed and at not in found for at, (_, needed, _) in enumerate(self.modifiers)):
            return None
        return [found[at] for at in sorted(found) if not self.modifiers[at][2]]


_MODIFIER = re.compile(r"\{\.([^}]+)\}|\.([^.{]+)")


@cache
def forms() -> dict[str, tuple[Form, ...]]:
    """All rows by the opcode's first word."""
    table: dict[str, tuple[Form, ...]] = {}
    for row in filter(None, _ROWS.splitlines()):
        text, operands = (part.strip() for part in row.split(" |", 1))
        opcodes = re.match(r"[\w/]+", text)
        assert opcodes is not None
        modifiers = tuple(_modifier(match) for match in _MODIFIER.finditer(text[opcodes.end() :]))
        for opcode in opcodes[0].split("/"):
            form = Form(
                opcode + text[opcodes.end() :],
                opcode,
                modifiers,
                tuple(operand.strip() for operand in operands.split(",") if operand.strip()),
            )
            table[opcode] = (*table.get(opcode, ()), form)
    return table


def _modifier(match: re.Match[str]) -> tuple[frozenset[str], bool, bool]:
    names = (match[1] or match[2]).split("/")
    words = frozenset(word for name in names for word in CLASSES.get(name, name).split())
    return words, match[1] is None, all(name in HINTS for name in names)


# Special registers, as functions of the same names in C++; %pm is missing.
_SPECIAL = (
    "%tid.x %tid.y %tid.z %ntid.x %ntid.y %ntid.z %ctaid.x %ctaid.y %ctaid.z %nctaid.x %nctaid.y %nctaid.z %laneid "
    "%warpid %nwarpid %smid %nsmid %gridid %clock %clock_hi %clock64 %globaltimer %globaltimer_lo %globaltimer_hi "
    "%cluster_ctaid.x %cluster_ctaid.y %cluster_ctaid.z %cluster_nctaid.x %cluster_nctaid.y %cluster_nctaid.z "
    "%clusterid.x %clusterid.y %clusterid.z %nclusterid.x %nclusterid.y %nclusterid.z %cluster_ctarank "
    "%cluster_nctarank %is_explicit_cluster "
    "%lanemask_eq %lanemask_le %lanemask_lt %lanemask_ge %lanemask_gt"
)
SPECIAL_REGISTERS = frozenset(_SPECIAL.split())
