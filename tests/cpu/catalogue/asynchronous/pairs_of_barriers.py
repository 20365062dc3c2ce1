"""Pairs of kernels with barriers in shared memory."""

from __future__ import annotations

from tests.cpu.catalogue.asynchronous.pair import Found, Pair


def _misuse(*lines: str, says: str = "") -> tuple[Found, ...]:
    return (Found("barrier misuse", lines, says),)


def _deadlock(*lines: str, says: str = "") -> tuple[Found, ...]:
    return (Found("deadlock", lines, says),)


def _race(*lines: str, says: str = "") -> tuple[Found, ...]:
    return (Found("race", lines, says),)


def _unwritten(*lines: str) -> tuple[Found, ...]:
    return (Found("uninitialised read", lines),)


_WAITS_FOR_EMPTY = "while (!ptx::mbarrier_try_wait_parity(&empty[s], (round & 1) ^ 1)) {"
_WAITS_TO_SEND_AGAIN = "while (!ptx::mbarrier_try_wait_parity(ptx::sem_acquire, ptx::scope_cluster, &empty, round)) {"
_SENT_AGAIN = "(// sent|// received)"

COUNTS = (
    Pair(
        19,
        "more arrivals are expected than come",
        "ring",
        "&full[s], 32",
        "&full[s], 33",
        _deadlock("&full", "&empty", says=r"mbarrier full\[0\]: to phase 0, 32 of 33 arrivals have come\n"),
    ),
    Pair(
        19,
        "fewer arrivals are expected than come",
        "ring",
        "&full[s], 32",
        "&full[s], 31",
        (*_misuse("// full"), *_race("// written", "// read")),
        hangs=True,
    ),
    Pair(
        19,
        "one thread arrives and all are counted",
        "phases",
        "&barrier, 1",
        "&barrier, 64",
        _deadlock("&barrier, i & 1", says=r"mbarrier barrier: to phase 0, 1 of 64 arrivals have come\n"),
    ),
    Pair(
        19,
        "a count of two where one is left",
        "phases",
        "ptx::mbarrier_arrive(&barrier);",
        "ptx::mbarrier_arrive(&barrier, 2);",
        _misuse("// arrives", says="with a count of 2, where its phase 0 waits for only 1 more of 1 arrivals"),
    ),
)

STATES = (
    Pair(
        20,
        "no barrier of the block after init",
        "ring",
        "__syncthreads();  // initialised",
        "",
        _misuse(
            "try_wait_parity|mbarrier_arrive",
            says="nothing orders its initialisation before that: put a syncthreads|which nobody has initialised",
        ),
    ),
    Pair(
        21,
        "two threads initialise one barrier",
        "twice",
        "if (t == 0) ptx::mbarrier_init(barrier, 64);",
        "if (t < 2) ptx::mbarrier_init(barrier, 64);",
        _misuse("// by one thread", says="which is initialised already: let one thread do it"),
    ),
    Pair(
        22,
        "arrives at a peer's barrier before it is initialised",
        "neighbours",
        "cluster.sync();  // all are initialised",
        "__syncthreads();",
        _misuse(
            "// arrives",
            says=r"put a barrier of the cluster \(cluster.sync\(\)\) between|which nobody has initialised",
        ),
    ),
    Pair(
        22,
        "a relaxed arrival publishes no initialisation",
        "neighbours_by_pointers",
        "ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);  // known",
        "",
        _misuse("ptx::mbarrier_(arrive|try_wait)", says="nothing orders its initialisation before that"),
    ),
    Pair(
        23,
        "initialised twice, never invalidated",
        "twice",
        'if (t == 0) asm volatile("mbarrier.inval.b64 [%0];" ::"l"(barrier) : "memory");',
        "",
        _misuse(
            "// by one thread",
            says="which is initialised already: once is enough, or mbarrier.inval must come before",
        ),
    ),
    Pair(
        23,
        "data over a live barrier",
        "twice",
        "&storage[32];",
        "&storage[31];",
        _misuse(
            "// data",
            says=r"storage\[6[23]\].*writes it at .*but it is an mbarrier, which thread \(0, 0, 0\) .* has initialised",
        ),
    ),
    Pair(
        23,
        "used after inval",
        "twice",
        "if (t == 0) ptx::mbarrier_init(barrier, 64);",
        "if (t == 0 && round == 0) ptx::mbarrier_init(barrier, 64);",
        _misuse("mbarrier_arrive", says="which is invalidated: from then on it is plain memory. .*invalidates it at"),
    ),
    Pair(
        0,
        "never initialised",
        "counts",
        "ptx::mbarrier_init(&barrier, 5);",
        "",
        _misuse("// two", says="the mbarrier barrier of its block, .*which nobody has initialised"),
    ),
)

PHASES = (
    Pair(
        24,
        "arrives in a phase before any wait has seen the last one",
        "phases",
        "while (!ptx::mbarrier_try_wait_parity(&barrier, i & 1)) {",
        "for (; false;) {",
        _misuse("// arrives", says="in its phase 1, but no test_wait or try_wait has seen that phase 0 has ended"),
    ),
    Pair(
        25,
        "parity of the loop's counter",
        "ring",
        "&full[s], round & 1",
        "&full[s], i & 1",
        _deadlock("&full", "&empty"),
    ),
    Pair(
        26,
        "parity without & 1",
        "ring",
        "(round & 1) ^ 1",
        "round ^ 1",
        _misuse("&empty", says="for a phase of parity [23]: that is 0 or 1"),
        hangs=True,
    ),
    Pair(
        26,
        "phase of the producer's first wait",
        "ring",
        "(round & 1) ^ 1",
        "round & 1",
        _deadlock("&full", "&empty", says=r"mbarrier empty\[0\]: to phase 0, 0 of 32 arrivals have come\n"),
    ),
    Pair(
        27,
        "one try_wait, whose answer nobody looks at",
        "ring",
        "while (!ptx::mbarrier_try_wait_parity(&full[s], round & 1)) {",
        "if (!ptx::mbarrier_try_wait_parity(&full[s], round & 1)) {",
        (*_race("// read"), *_unwritten("// read")),
        hidden="where the data are there when it is asked, its answer is yes",
    ),
    Pair(
        28,
        "written again before all have read",
        "ring",
        _WAITS_FOR_EMPTY,
        "for (; false;) {",
        _misuse("// full", says="no test_wait or try_wait has seen"),
        hangs=True,
    ),
    Pair(
        28,
        "sent again before the other block has read it",
        "neighbours_by_pointers",
        _WAITS_TO_SEND_AGAIN,
        "for (; round < 1 && false;) {",
        _misuse("next_full", says="no test_wait or try_wait has seen"),
        hangs=True,
    ),
)

SCOPES = (
    Pair(
        33,
        "arrives at a barrier of a block that need not be there any more",
        "neighbours_by_pointers",
        _WAITS_TO_SEND_AGAIN,
        _WAITS_TO_SEND_AGAIN.replace("(!ptx", "(round < 1 && !ptx"),
        (Found("lifetime", ("// released",), "has exited|exits without waiting for that"),),
    ),
    Pair(
        34,
        "data of another block behind an arrive of .cta scope",
        "neighbours",
        "mbarrier.arrive.release.cluster.shared::cluster",
        "mbarrier.arrive.release.cta.shared::cluster",
        _race("// received", "// sent", says="they are of different blocks"),
    ),
    Pair(
        34,
        "data of another block behind a wait of .cta scope",
        "neighbours",
        "ptx::sem_acquire, ptx::scope_cluster, &full",
        "ptx::sem_acquire, ptx::scope_cta, &full",
        _race("// received", "// sent", says="they are of different blocks"),
    ),
    Pair(
        34,
        "a relaxed arrival releases nothing",
        "relaxed",
        "__threadfence_block();  // released",
        "",
        _race("// read", "// written"),
    ),
    Pair(
        36,
        "the form for the own block's barrier on an address of mapa",
        "neighbours",
        "mbarrier.arrive.release.cluster.shared::cluster",
        "mbarrier.arrive.release.cluster.shared::cta",
        _misuse("// arrives", says="which is another block's: that has no form for .shared::cluster"),
        hangs=True,
    ),
    Pair(
        36,
        "waits at another block's barrier",
        "neighbours_by_pointers",
        "ptx::scope_cluster, &full, round)",
        "ptx::scope_cluster, cluster.map_shared_rank(&full, next), round)",
        _misuse("map_shared_rank", says="A block initialises, and waits at, barriers of its own shared memory only"),
        hangs=True,
    ),
    Pair(
        36,
        "initialises another block's barrier",
        "neighbours",
        "ptx::mbarrier_init(&full, 64)",
        "ptx::mbarrier_init(cluster.map_shared_rank(&full, next), 64)",
        _misuse("map_shared_rank", says="initialises the mbarrier full of block .*, which is another block's"),
        hangs=True,
    ),
    Pair(
        36,
        "stores to another block as to its own",
        "neighbours",
        "st.shared::cluster",
        "st.shared",
        (Found("out-of-bounds", ("// sent",), "in an instruction for its own block's only"),),
    ),
)

FORMS = (
    Pair(
        0,
        "a count of none",
        "counts",
        "&barrier, 5)",
        "&barrier, 0)",
        _misuse("// for five", says="from 1 to 1048575"),
    ),
    Pair(
        0,
        "not at 8 bytes",
        "counts",
        "uint64_t barrier;",
        "uint64_t barriers[2]; auto& barrier = *(uint64_t*)((char*)barriers + 4);",
        _misuse("// for five", says="not begin at a multiple of 8"),
    ),
    Pair(
        0,
        ".noComplete that completes",
        "counts",
        "&barrier, 5)",
        "&barrier, 2)",
        _misuse("// two", says="by .noComplete, but phase 0 ends with it"),
    ),
    Pair(
        0,
        "more bytes are expected than a barrier counts",
        "counts",
        "], 96;",
        "], 1048576;",
        _misuse("// bytes", says="then expects 1048576 bytes"),
    ),
    Pair(
        0,
        "in memory of the thread",
        "phases",
        "__shared__ uint64_t barrier, last;",
        "uint64_t barrier; __shared__ uint64_t last;",
        _misuse("// one thread arrives", says="a barrier lies in shared memory"),
    ),
    Pair(
        0,
        "the address of a variable of the thread",
        "counts",
        "__shared__ uint64_t barrier;",
        "uint64_t barrier;",
        (
            Found(
                "out-of-bounds",
                ("__cvta_generic_to_shared",),
                "a pointer that leads to no shared memory of its block or cluster",
            ),
        ),
    ),
)
