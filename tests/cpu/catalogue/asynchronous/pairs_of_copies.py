"""Pairs of kernels that copy asynchronously: proxies, groups, what barriers count, forms."""

from __future__ import annotations

from tests.cpu.catalogue.asynchronous.pair import Found, Pair

_UNFENCED = "ordered, but not for the async proxy.*fence.proxy.async after that, before the barrier"
_PENDING = "Nothing orders the two.*has waited for"
_LATE_FENCE = "Only the thread that starts it fences"


def _race(*lines: str, says: str = "") -> Found:
    return Found("race", lines, says)


def _unwritten(*lines: str) -> Found:
    return Found("uninitialised read", lines)


PROXIES = (
    Pair(
        1,
        "generic writes, then a bulk store",
        "store",
        "FENCE();",
        "",
        (_race("// written", "// stored", says=_UNFENCED),),
    ),
    Pair(
        2,
        "a fence in a loop that has no round",
        "rounds_then_store",
        "FENCE();",
        "for (int round = 0; round < rounds; ++round) FENCE();",
        (_race("// written", "// stored", says=_UNFENCED),),
    ),
    Pair(
        4,
        "plain reads, then a bulk load",
        "load",
        "FENCE();",
        "",
        (_race("// read", "// loaded", says=_UNFENCED),),
    ),
    Pair(
        4,
        "a consumer releases its slot with no fence",
        "pipeline",
        "FENCE();",
        "",
        (_race("// consumed", "// loaded", says=_UNFENCED),),
    ),
    Pair(
        5,
        "plain writes of another block, behind a flag",
        "flag",
        'asm volatile("fence.proxy.async.global;" ::: "memory");',
        "",
        (_race("// written", "// loaded", says=_UNFENCED),),
    ),
    Pair(
        6,
        "the fence of the issuer alone",
        "last_store",
        "FENCE();",
        "",
        (Found("race", ("// written", "// stored"), _LATE_FENCE, "warning"),),
    ),
    Pair(
        7,
        "cp.async, then a bulk store",
        "copied",
        "FENCE();",
        "",
        (_race("// copied", "// stored", says=_UNFENCED),),
    ),
)

GROUPS = (
    Pair(
        8,
        "some threads wait for their copies",
        "groups",
        "WAIT(0);",
        "if (t % 2 == 0) WAIT(0);",
        (_race("// copied last", "// read last", says="a syncthreads that comes after"),),
    ),
    Pair(
        9,
        "a thread waits for its copies, and others read them",
        "groups",
        "__syncthreads();",
        "",
        (_race("// copied", "// read$"), _unwritten("// read$")),
    ),
    Pair(
        9,
        "own copies, not waited for",
        "groups",
        "WAIT(1);",
        "WAIT(2);",
        (_race("// copied$", "// doubled", says=_PENDING),),
    ),
    Pair(
        9,
        "copies of the pipeline's functions, not waited for",
        "pipeline_functions",
        "__pipeline_wait_prior(0);",
        "",
        (_race("// copied", "// read", says=_PENDING),),
    ),
    Pair(
        9,
        "the copy of a group of threads, not waited for",
        "group_copies",
        "cg::wait(block);",
        "",
        (_race("// copied last", "// read last", says=_PENDING),),
    ),
    Pair(
        10,
        "one group too many is pending",
        "ring_of_stores",
        "BULK_WAIT_READ(1);",
        "BULK_WAIT_READ(2);",
        (_race("// stored", "// refilled", says="leaves no group of the source pending"),),
    ),
    Pair(
        10,
        "the source is written before it is read",
        "store",
        "BULK_WAIT_READ(0);",
        "",
        (_race("// stored", "// written again", says="source of a bulk operation is free"),),
    ),
    Pair(
        11,
        "waits for the reads, and uses the target",
        "ring_of_stores",
        "BULK_WAIT(0);",
        "BULK_WAIT_READ(0);",
        (_race("// stored", "// its target", says="without .read"),),
    ),
    Pair(
        11,
        "waits for the reads of a store, and others use the target",
        "without_fences",
        "BULK_WAIT(0);",
        "BULK_WAIT_READ(0);",
        (_race("BULK_STORE", "// added", says="without .read"),),
    ),
    Pair(
        12,
        "a block ends before its store has read",
        "last_store",
        "BULK_WAIT_READ(0);",
        "",
        (Found("lifetime", ("// stored",), "exits without having waited.*wait_group.read 0"),),
    ),
)

COUNTED = (
    Pair(
        13,
        "read before the barrier",
        "load",
        "AWAIT(&full, round);",
        "",
        (_race("// read", "// loaded"), _unwritten("// read")),
    ),
    Pair(
        13,
        "one of two operands is waited for",
        "two_operands",
        "AWAIT(&full[1], 0);",
        "",
        (_race("// read", "// loaded", says="complete for those that have waited|has waited for"),),
    ),
    Pair(
        13,
        "messages, not waited for",
        "messages",
        "AWAIT_CLUSTER(&full, 0);",
        "",
        (_unwritten("// received"),),
    ),
    Pair(
        13,
        "one of two messages is waited for",
        "ptx_functions",
        "while (!ptx::mbarrier_try_wait_parity(ptx::sem_acquire, ptx::scope_cluster, &sent, 0)) {",
        "for (; false;) {",
        (_race("// sent by st_async", "// reduced", says="complete for those that have waited"),),
    ),
    Pair(
        13,
        "the own arrival, in place of that of the copies",
        "late_arrival",
        "ARRIVE_OF_COPIES(&full);",
        "ARRIVE(&full);",
        (_race("// copied", "// read", says=_PENDING),),
    ),
    Pair(
        14,
        "more bytes are expected than come",
        "load",
        "EXPECT(&full, bytes);",
        "EXPECT(&full, bytes + 64);",
        (Found("deadlock", ("// awaited",), "64 bytes are missing"),),
    ),
    Pair(
        14,
        "the bytes of four blocks are expected from two",
        "multicast",
        "EXPECT(&full, tile_bytes);",
        "EXPECT(&full, 2 * tile_bytes);",
        (Found("deadlock", ("// awaited",), "1024 bytes are missing"),),
    ),
    Pair(
        15,
        "fewer bytes are expected than come",
        "load",
        "EXPECT(&full, bytes);",
        "EXPECT(&full, bytes - 256);",
        (_race("// read", "// loaded", says=_PENDING),),
        hangs=True,
    ),
    Pair(
        16,
        "two blocks send, and the bytes of one are expected",
        "gather",
        "EXPECT(&full, tile_bytes);",
        "EXPECT(&full, half * 4);",
        (_race("// gathered", "// sent"), _unwritten("// gathered")),
        hangs=True,
    ),
    Pair(
        17,
        "a receiver of a multicast expects nothing",
        "multicast",
        "EXPECT(&full, tile_bytes);",
        "EXPECT(&full, rank == 1 ? 0 : tile_bytes);",
        (_race("// read", "// multicast"), Found("deadlock", ("// awaited",))),
    ),
    Pair(
        17,
        "a receiver of a multicast still uses its tile",
        "multicast",
        "cluster.sync();  // all are ready",
        "__syncthreads();",
        (_race("// not ready", "// multicast"),),
    ),
    Pair(
        18,
        "a multicast to a rank outside the cluster",
        "multicast",
        "mask = 3;",
        "mask = 7;",
        (Found("out-of-bounds", ("// multicast",), "names rank 2 of the cluster, which has 2 blocks"),),
    ),
    Pair(
        28,
        "a slot is loaded again before all have read it",
        "pipeline",
        "AWAIT(&empty[slot], (phase & 1) ^ 1);",
        "",
        (Found("barrier misuse", ("EXPECT",), "no test_wait or try_wait has|more come than it"),),
        hangs=True,
    ),
    Pair(
        33,
        "a message to a block that ends without it",
        "unread_messages",
        "AWAIT_CLUSTER(&full, 0);",
        "if (rank < 3) AWAIT_CLUSTER(&full, 0);",
        (Found("lifetime", ("// sent",)),),
    ),
    Pair(
        37,
        "the leader reads what its peer has not waited for",
        "lead",
        "AWAIT(&full, 0);",
        "if (rank == 0) AWAIT(&full, 0);",
        (_race("// loaded", "// gathered"),),
    ),
    Pair(
        42,
        "the end waits for a consumer that has gone",
        "pipeline",
        "round < rounds + 2;",
        "round < rounds + 3;",
        (Found("deadlock", ("// drained",), r"mbarrier empty\[0\]: to phase 2, 0 of 32 arrivals have come"),),
    ),
    Pair(
        52,
        "the own barrier for a copy to another block",
        "gather",
        "at_rank(&full, 0));",
        "window(&full));",
        (Found("barrier misuse", ("// sent",)),),
        hangs=True,
    ),
)

FORMS = (
    Pair(
        50,
        "a target not at 16 bytes",
        "load",
        "BULK_LOAD(tile,",
        "BULK_LOAD(tile + 1,",
        (Found("misaligned", ("// loaded",), "no multiple of 16"),),
    ),
    Pair(
        51,
        "a size that is no multiple of 16",
        "load",
        "from + round * half, bytes,",
        "from + round * half, bytes - 4,",
        (Found("misaligned", ("// loaded",), "with 508 bytes, and it moves only multiples of 16"),),
    ),
    Pair(
        51,
        "a source at an odd place",
        "load",
        "from + round * half, bytes,",
        "from + round * half + 1, bytes,",
        (Found("misaligned", ("// loaded",), "no multiple of 16"),),
    ),
    Pair(
        53,
        "bytes are expected, in place of an initialisation",
        "load",
        "INIT(&full, 1);",
        "EXPECT(&full, tile_bytes);",
        (Found("barrier misuse", ("// initialised",), "which nobody has initialised"),),
    ),
    Pair(
        54,
        "padding that no copy writes",
        "padded_load",
        "if (t < 8) tile[part + t] = 0;",
        "",
        (_unwritten("// read"),),
    ),
)
