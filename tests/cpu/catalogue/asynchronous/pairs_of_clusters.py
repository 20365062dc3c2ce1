"""Pairs of kernels that use each other's shared memory, the barrier of a cluster, or barriers with a number."""

from __future__ import annotations

from tests.cpu.catalogue.asynchronous.pair import Found, Pair

_ARRIVES = "__cluster_barrier_arrive();"


def _race(*lines: str, says: str = "they are of different blocks") -> Found:
    return Found("race", lines, says)


CLUSTERS = (
    Pair(
        32,
        "remote access before the peer need have begun",
        "shift",
        "cluster.sync();  // all have begun",
        "",
        (
            Found(
                "lifetime",
                ("// sent$",),
                r"but it is shared memory of block .*, and nothing says that this block has begun.*before the first",
            ),
        ),
    ),
    Pair(
        33,
        "remote access to a block that has exited",
        "shift",
        "cluster.sync();  // the end",
        "",
        (Found("lifetime", ("// sent again",), "and the end of the kernel"),),
    ),
    Pair(
        35,
        "a relaxed arrival publishes data",
        "shift",
        _ARRIVES,
        "__cluster_barrier_arrive_relaxed();",
        (_race("// received", "// sent$", says="an arrival that is not relaxed"),),
    ),
    Pair(
        35,
        "no wait before the data are read",
        "shift",
        "__cluster_barrier_wait();",
        "",
        (Found("uninitialised read", ("// received",)),),
    ),
    Pair(
        35,
        "written after the arrival",
        "shift",
        _ARRIVES,
        f"{_ARRIVES} cluster.map_shared_rank(tile, rank)[t] = x[i];",
        (_race("// arrives", "// received"),),
    ),
    Pair(
        0,
        "past the peer's array",
        "shift",
        "cluster.map_shared_rank(tile, rank)[t] = x[i];",
        "cluster.map_shared_rank(tile, rank)[t + 1] = x[i];",
        (Found("out-of-bounds", ("// sent$",), r"tile\[64\]"),),
    ),
    Pair(
        0,
        "all blocks send to one",
        "shift",
        "rank = static_cast<int>(own + 3) % 4;",
        "rank = 0;",
        (_race("// sent$"),),
    ),
    Pair(
        0,
        "sent again before it was received",
        "shift",
        "cluster.sync();  // all have received",
        "",
        (_race("// sent again", "// received"),),
    ),
    Pair(
        0,
        "some threads of a block elsewhere",
        "shift",
        _ARRIVES,
        f"if (own == 2 && t >= 32) __syncthreads(); {_ARRIVES}",
        (Found("deadlock", ("// all have sent", "// arrives"), r"threads \(32\.\.63, 0, 0\) have not arrived"),),
    ),
    Pair(
        0,
        "arrives twice",
        "shift",
        _ARRIVES,
        f"{_ARRIVES} {_ARRIVES}",
        (Found("barrier divergence", ("// arrives",), "arrives at the barrier of its cluster a second"),),
        hangs=True,
    ),
    Pair(
        0,
        "waits without an arrival",
        "shift",
        _ARRIVES,
        "",
        (Found("barrier divergence", ("// all have sent",), "without having arrived"),),
        hangs=True,
    ),
)

NAMED_BARRIERS = (
    Pair(
        38,
        "a count of more threads than come",
        "make_and_take",
        "count = 64;",
        "count = 96;",
        (Found("deadlock", ("// wait", "// refill")),),
    ),
    Pair(
        38,
        "two counts for one barrier",
        "make_and_take",
        "BAR_ARRIVE(1, count);",
        "BAR_ARRIVE(1, 32);",
        (Found("barrier divergence", ("// wait", "// announce")),),
        hangs=True,
    ),
    Pair(
        38,
        "the barrier of other warps",
        "pairs_of_warps",
        "pair = t / 64;",
        "pair = t / 32 % 2;",
        (_race("// written", "// read", says=""), Found("uninitialised read", ("// read",))),
    ),
    Pair(
        39,
        "the maker runs ahead",
        "make_and_take",
        "BAR_SYNC(2, 64);",
        "",
        (_race("// make", "// take$", says=""),),
        hangs=True,
    ),
    Pair(
        39,
        "announces twice",
        "make_and_take",
        "BAR_ARRIVE(1, count);",
        "BAR_ARRIVE(1, count); BAR_ARRIVE(1, count);",
        (_race("// make", "// take$", says=""),),
        hangs=True,
    ),
    Pair(
        0,
        "takes without waiting",
        "make_and_take",
        "BAR_SYNC(1, count);",
        "BAR_ARRIVE(1, count);",
        (_race("// make", "// take$", says=""), Found("uninitialised read", ("// take$",))),
        hangs=True,
    ),
    Pair(
        40,
        "one lane waits for its warp",
        "make_and_take",
        "BAR_SYNC(1, count);",
        "if (t == 0) BAR_SYNC(1, count);",
        (Found("uninitialised read", ("// take$",)),),
    ),
)
