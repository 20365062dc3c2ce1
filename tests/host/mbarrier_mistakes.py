"""Mistakes with barriers in shared memory: each is another line in a right kernel of mbarriers.cu."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

TEXT = Path(__file__).with_name("mbarriers.cu").read_text(encoding="utf-8")


@dataclass(frozen=True)
class Mistake:
    """One line of a right kernel that is another one.

    Attributes:
        number: of the class of faults in the field's reports.
        line: a part of the line; the first one in the kernel that has it.
        other: what stands for it.
        kinds: what may be found, as the schedule has it.
        message: a pattern in the finding's words.
        marks: of lines of which one is among the finding's.
        most: it is found in most schedules, and not in each.
    """

    number: int
    name: str
    kernel: str
    line: str
    other: str
    kinds: str
    message: str = ""
    marks: tuple[str, ...] = ()
    most: bool = False

    def __str__(self) -> str:
        return f"{self.number} {self.name}"

    @property
    def text(self) -> str:
        begin = TEXT.index(f" {self.kernel}(const float*") if self.kernel != "counts" else TEXT.index(" counts(")
        at = TEXT.index(self.line, begin)
        return TEXT[:at] + self.other + TEXT[at + len(self.line) :]


MISUSE = "barrier misuse"
MISTAKES = (
    Mistake(
        19,
        "more arrivals are expected than come",
        "ring",
        "&full[s], 32",
        "&full[s], 33",
        "deadlock",
        r"mbarrier full\[0\]: to phase 0, 32 of 33 arrivals have come\n",
    ),
    Mistake(
        19,
        "fewer arrivals are expected than come",
        "ring",
        "&full[s], 32",
        "&full[s], 31",
        "barrier misuse or race or uninitialised read",
    ),
    Mistake(
        19,
        "one thread arrives and all are counted",
        "phases",
        "&barrier, 1",
        "&barrier, 64",
        "deadlock",
        r"mbarrier barrier: to phase 0, 1 of 64 arrivals have come\n",
    ),
    Mistake(
        19,
        "a count of two where one is left",
        "phases",
        "ptx::mbarrier_arrive(&barrier);",
        "ptx::mbarrier_arrive(&barrier, 2);",
        MISUSE,
        "with a count of 2, where its phase 0 waits for only 1 more of 1 arrivals",
        ("// arrives", "// one thread arrives"),
    ),
    Mistake(
        20,
        "no barrier of the block after init",
        "ring",
        "__syncthreads();  // initialised",
        "",
        MISUSE,
        "nothing orders its initialisation before that: put a syncthreads|which nobody has initialised",
    ),
    Mistake(
        21,
        "two threads initialise one barrier",
        "twice",
        "if (t == 0) ptx::mbarrier_init(barrier, 64);",
        "if (t < 2) ptx::mbarrier_init(barrier, 64);",
        MISUSE,
        "which is initialised already: let one thread do it",
        ("// by one thread",),
    ),
    Mistake(
        22,
        "arrives at a peer's barrier before it is initialised",
        "neighbours",
        "cluster.sync();  // all are initialised",
        "__syncthreads();",
        MISUSE,
        r"put a barrier of the cluster \(cluster.sync\(\)\) between|which nobody has initialised",
    ),
    Mistake(
        22,
        "a relaxed arrival publishes no initialisation",
        "neighbours_by_pointers",
        "ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);  // known",
        "",
        MISUSE,
        "nothing orders its initialisation before that",
    ),
    Mistake(
        23,
        "initialised twice, never invalidated",
        "twice",
        'if (t == 0) asm volatile("mbarrier.inval.b64 [%0];" ::"l"(barrier) : "memory");',
        "",
        MISUSE,
        "which is initialised already: once is enough, or mbarrier.inval must come before",
        ("// by one thread",),
    ),
    Mistake(
        23,
        "data over a live barrier",
        "twice",
        "&storage[32];",
        "&storage[31];",
        MISUSE,
        r"storage\[6[23]\].*writes it at .*but it is an mbarrier, which thread \(0, 0, 0\) .* has initialised",
        ("// data",),
    ),
    Mistake(
        23,
        "used after inval",
        "twice",
        "if (t == 0) ptx::mbarrier_init(barrier, 64);",
        "if (t == 0 && round == 0) ptx::mbarrier_init(barrier, 64);",
        MISUSE,
        "which is invalidated: from then on it is plain memory. .*invalidates it at",
    ),
    Mistake(
        24,
        "arrives in a phase before any wait has seen the last one",
        "phases",
        "while (!ptx::mbarrier_try_wait_parity(&barrier, i & 1)) {",
        "for (; false;) {",
        MISUSE,
        "in its phase 1, but no test_wait or try_wait has seen that phase 0 has ended",
        ("// arrives",),
    ),
    Mistake(
        25,
        "parity of the loop's counter",
        "ring",
        "&full[s], round & 1",
        "&full[s], i & 1",
        "race or uninitialised read or deadlock",
    ),
    Mistake(
        26,
        "parity without & 1",
        "ring",
        "(round & 1) ^ 1",
        "round ^ 1",
        MISUSE,
        "for a phase of parity [23]: that is 0 or 1",
    ),
    Mistake(
        26,
        "phase of the producer's first wait",
        "ring",
        "(round & 1) ^ 1",
        "round & 1",
        "deadlock",
        r"mbarrier empty\[0\]: to phase 0, 0 of 32 arrivals have come\n",
    ),
    Mistake(
        27,
        "one try_wait, whose answer nobody looks at",
        "ring",
        "while (!ptx::mbarrier_try_wait_parity(&full[s], round & 1)) {",
        "if (!ptx::mbarrier_try_wait_parity(&full[s], round & 1)) {",
        "race or uninitialised read",
        "",
        ("// read",),
        most=True,
    ),
    Mistake(
        28,
        "written again before all have read",
        "ring",
        "while (!ptx::mbarrier_try_wait_parity(&empty[s], (round & 1) ^ 1)) {",
        "for (; false;) {",
        "race or uninitialised read or barrier misuse",
    ),
    Mistake(
        28,
        "sent again before the other block has read it",
        "neighbours_by_pointers",
        "while (!ptx::mbarrier_try_wait_parity(ptx::sem_acquire, ptx::scope_cluster, &empty, round)) {",
        "for (; round < 1 && false;) {",
        "race or barrier misuse",
    ),
    Mistake(
        33,
        "arrives at a barrier of a block that need not be there any more",
        "neighbours_by_pointers",
        "while (!ptx::mbarrier_try_wait_parity(ptx::sem_acquire, ptx::scope_cluster, &empty, round)) {",
        "while (round < 1 && !ptx::mbarrier_try_wait_parity(ptx::sem_acquire, ptx::scope_cluster, &empty, round)) {",
        "lifetime",
        "has exited|exits without waiting for that",
        ("// released",),
    ),
    Mistake(
        34,
        "data of another block behind an arrive of .cta scope",
        "neighbours",
        "mbarrier.arrive.release.cluster.shared::cluster",
        "mbarrier.arrive.release.cta.shared::cluster",
        "race",
        "they are of different blocks",
        ("// received", "// sent"),
    ),
    Mistake(
        34,
        "data of another block behind a wait of .cta scope",
        "neighbours",
        "ptx::sem_acquire, ptx::scope_cluster, &full",
        "ptx::sem_acquire, ptx::scope_cta, &full",
        "race",
        "they are of different blocks",
        ("// received", "// sent"),
    ),
    Mistake(
        34,
        "a relaxed arrival releases nothing",
        "relaxed",
        "__threadfence_block();  // released",
        "",
        "race",
        "",
        ("// read", "// written"),
    ),
    Mistake(
        36,
        "the form for the own block's barrier on an address of mapa",
        "neighbours",
        "mbarrier.arrive.release.cluster.shared::cluster",
        "mbarrier.arrive.release.cluster.shared::cta",
        MISUSE,
        "which is another block's: that has no form for .shared::cluster",
        ("// arrives",),
    ),
    Mistake(
        36,
        "waits at another block's barrier",
        "neighbours_by_pointers",
        "ptx::scope_cluster, &full, round)",
        "ptx::scope_cluster, cluster.map_shared_rank(&full, next), round)",
        MISUSE,
        "A block initialises, and waits at, barriers of its own shared memory only",
    ),
    Mistake(
        36,
        "initialises another block's barrier",
        "neighbours",
        "ptx::mbarrier_init(&full, 64)",
        "ptx::mbarrier_init(cluster.map_shared_rank(&full, next), 64)",
        MISUSE,
        "initialises the mbarrier full of block .*, which is another block's",
    ),
    Mistake(
        36,
        "stores to another block as to its own",
        "neighbours",
        "st.shared::cluster",
        "st.shared",
        "out-of-bounds",
        "in an instruction for its own block's only",
        ("// sent",),
    ),
    Mistake(
        0, "a count of none", "counts", "&barrier, 5)", "&barrier, 0)", MISUSE, "from 1 to 1048575", ("// for five",)
    ),
    Mistake(
        0,
        "not at 8 bytes",
        "counts",
        "uint64_t barrier;",
        "uint64_t barriers[2]; auto& barrier = *(uint64_t*)((char*)barriers + 4);",
        MISUSE,
        "not begin at a multiple of 8",
    ),
    Mistake(
        0,
        ".noComplete that completes",
        "counts",
        "&barrier, 5)",
        "&barrier, 2)",
        MISUSE,
        "by .noComplete, but phase 0 ends with it",
        ("// two",),
    ),
    Mistake(
        0,
        "more bytes are expected than a barrier counts",
        "counts",
        "], 96;",
        "], 1048576;",
        MISUSE,
        "then expects 1048576 bytes",
        ("// bytes",),
    ),
    Mistake(
        0,
        "never initialised",
        "counts",
        "ptx::mbarrier_init(&barrier, 5);",
        "",
        MISUSE,
        "the mbarrier barrier of its block, .*which nobody has initialised",
        ("// two",),
    ),
    Mistake(
        0,
        "in memory of the thread",
        "phases",
        "__shared__ uint64_t barrier, last;",
        "uint64_t barrier; __shared__ uint64_t last;",
        MISUSE,
        "a barrier lies in shared memory",
    ),
    Mistake(
        0,
        "the address of a variable of the thread",
        "counts",
        "__shared__ uint64_t barrier;",
        "uint64_t barrier;",
        "out-of-bounds",
        "a pointer that leads to no shared memory of its block or cluster",
    ),
)
