"""Launches that go on after findings: those that the user accepts, and with keep_going all of them."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
from numba import cuda

from trifold import KernelFault, simulator
from trifold.acceptance import AcceptanceError
from trifold.findings import Finding, KernelWarning, collect
from trifold.simulator.settings import accepted
from trifold.workspace import import_file


@cuda.jit
def flagged(out, x):
    i = cuda.grid(1)
    out[0] = i  # trifold: allow race, any of them will do
    # trifold: allow uninitialised read, its own line has no room
    x[i] = cuda.local.array(2, np.float32)[1]


@cuda.jit
def flagged_and_wrong(out, x):
    i = cuda.grid(1)
    out[0] = i  # trifold: allow uninitialised read, another kind
    x[i] = i


@cuda.jit
def never_launched(out, x):
    out[0] = cuda.grid(1)  # trifold: allow race, any of them will do


@cuda.jit
def half_flagged(out, x):
    i = cuda.grid(1)
    out[0] = i  # trifold: allow race, with the other writes of this line
    x[i] = out[1]
    out[1] = i


@cuda.jit
def filled(out, x):
    i = cuda.grid(1)
    out[0] = 7  # trifold: allow race of writes, all the same
    x[i] = out[0]


@cuda.jit
def half_flagged_reads(out, x):
    i = cuda.grid(1)
    if i == 0:
        cuda.atomic.add(out, 0, 1)
        cuda.atomic.add(out, 1, 1)
    else:
        x[i] = out[0]  # trifold: allow race, an old value will do
        x[i] = out[1]


@cuda.jit
def same_or_other(out, x):
    i = cuda.grid(1)
    out[0] = 7
    out[1] = 1 if i < 30 else i


@cuda.jit
def looks(out, x):
    """Plain reads beside atomics, for which no compare-and-swap follows, but another operation on the element, a
    barrier, or the thread's end."""
    i = cuda.grid(1)
    if i == 0:
        cuda.atomic.add(out, 0, 1)
        cuda.atomic.add(out, 1, 1)
    else:
        x[i] = out[0]
        cuda.atomic.cas(out, 0, 9, 9)
        x[i] += out[1]
    cuda.syncthreads()
    if i == 0:
        cuda.atomic.add(out, 2, 1)
    else:
        x[i] += out[2]


@cuda.jit
def counted(out, x):
    out[0] += 1
    x[cuda.grid(1)] = 2


@cuda.jit
def out_of_bounds(out, x):
    """Reads give poison, writes are dropped, atomics do nothing, rows of a matrix are of poison too."""
    i = cuda.grid(1)
    read = x[i + 64]
    out[2] = 1 if read == read else 0  # not a number
    out[3] = cuda.atomic.add(out, 9, 1)
    matrix = cuda.local.array((2, 3), np.float32)
    matrix[4] = i
    row = matrix[3]
    out[4] = 1 if row[1] == row[1] else 0
    row[1] = 5
    x[i - 200] = 7
    out[1] = 3


@cuda.jit
def misaligned(out, x):
    bytes_of_x = x.view(np.int8)
    out[0] = bytes_of_x[1:5].view(np.int32)[0]


@cuda.jit
def two_barriers(out, x):
    if cuda.threadIdx.x < 8:
        cuda.syncthreads()
    else:
        cuda.syncthreads()
    x[cuda.grid(1)] = 1


@cuda.jit
def not_in_mask(out, x):
    cuda.syncwarp(2)
    x[cuda.grid(1)] = 1


@cuda.jit
def waits_for_nobody(out, x):
    x[cuda.grid(1)] = 1
    while cuda.atomic.add(out, 1, 0) == 0:
        pass
    x[cuda.grid(1)] = 2


def run(kernel, threads=32, blocks=1):
    """The findings, and what the kernel leaves in out and x."""
    out, x = np.zeros(8, np.int32), np.zeros(64, np.float32)
    with collect() as found:
        kernel[blocks, threads](out, x)
    return found, out, x


def line_of(kernel) -> int:
    return kernel.fn.__code__.co_firstlineno


def only(findings: list[Finding], kind: str) -> Finding:
    (one,) = [finding for finding in findings if finding.kind == kind]
    return one


def test_a_comment_accepts_its_kind_at_its_line_and_counts_it():
    found, out, x = run(flagged)
    race, read = only(found, "race"), only(found, "uninitialised read")
    assert (race.accepted, race.count) == ("any of them will do", 31)
    assert (read.accepted, read.count) == ("its own line has no room", 32)
    assert race.accepted_at.endswith(f"test_tolerance.py:{line_of(flagged) + 3}")
    assert not race.is_mistake
    assert out[0] == 31
    assert np.isnan(x[:32]).all()


@pytest.mark.parametrize(
    "kernel", [flagged_and_wrong, half_flagged, half_flagged_reads, filled], ids=lambda kernel: kernel.__name__
)
def test_another_kind_or_another_line_is_not_accepted(kernel):
    with pytest.raises(KernelFault, match="race on global array element out"):
        run(kernel)


def test_a_wrong_comment_is_told_at_the_first_launch(tmp_path: Path):
    file = tmp_path / "misspelt.py"
    file.write_text(
        "from numba import cuda\n@cuda.jit\ndef kernel(out, x):\n    out[0] = 1  # trifold: allow rice, all equal\n"
    )
    kernel = import_file(file, "misspelt").kernel
    for _ in range(2):
        with pytest.raises(AcceptanceError, match=r"misspelt\.py:4: there is no finding of the kind 'rice'"):
            run(kernel)


def test_what_ran_is_what_could_have_been_met():
    run(flagged)
    ran = {int(place.rpartition(":")[2]) for place in accepted.used if "test_tolerance.py:" in place}
    assert {line_of(flagged) + 3, line_of(flagged) + 4} <= ran
    assert line_of(never_launched) + 2 not in ran


@pytest.mark.parametrize(
    ("entry", "accepts"),
    [
        ('kernel = "count*"', True),
        ('array = "ou?"', True),
        ('file = "simulator/test_*.py"', True),
        ('kernel = "counted"\narray = "out"\nfile = "*"', True),
        ("", True),
        ('kernel = "count"', False),
        ('array = "x"', False),
        ('file = "other/test_tolerance.py"', False),
    ],
)
def test_an_entry_accepts_what_all_its_fields_match(entry: str, accepts: bool, tmp_path: Path):
    file = tmp_path / "known.toml"
    file.write_text(f'[[suppression]]\nkind = "race"\nreason = "only the flag counts"\n{entry}\n')
    with simulator.options(suppressions=file, checks="race"):
        if accepts:
            finding, *_ = run(counted)[0]
            assert (finding.accepted, finding.accepted_at) == ("only the flag counts", f"{file}, entry 1")
        else:
            with pytest.raises(KernelFault):
                run(counted)
    with pytest.raises(KernelFault):
        run(counted)


def test_keep_going_lets_the_kernel_finish_and_counts_each_place():
    with simulator.options(keep_going=True):
        found, out, x = run(counted, blocks=2)
        assert (x == 2).all()
        assert out[0] == 64
        assert {(finding.kind, finding.array, len(finding.accesses)) for finding in found} == {("race", "out", 2)}
        # Reads after writes and writes after reads, of which each thread but the first meets some.
        assert sum(finding.count for finding in found) >= 63
        assert all(finding.is_mistake for finding in found)
    with pytest.raises(KernelFault):
        run(counted)


def suppressions(folder: Path) -> Path:
    file = folder / "known.toml"
    file.write_text('[[suppression]]\nkind = "race"\nreason = "any of them will do"\n')
    return file


def test_writes_of_the_same_value_are_accepted_and_counted_as_others_are(tmp_path: Path):
    with simulator.options(suppressions=suppressions(tmp_path)), warnings.catch_warnings():
        warnings.simplefilter("error", KernelWarning)
        found, out, _ = run(same_or_other)
    # Of the second element, 29 threads write what was there, and 2 write something else.
    assert [(finding.index, finding.count) for finding in found] == [((0,), 31), ((1,), 31)]
    assert {finding.accepted for finding in found} == {"any of them will do"}
    assert list(out[:2]) == [7, 31]


def test_keep_going_counts_writes_of_the_same_value_apart_from_others():
    with simulator.options(keep_going=True), pytest.warns(KernelWarning, match="both wrote the same value"):
        found, _, _ = run(same_or_other)
    counts = [(finding.index, finding.severity, finding.count) for finding in found]
    assert counts == [((0,), "warning", 31), ((1,), "warning", 29), ((1,), "error", 2)]
    with simulator.options(keep_going=True), warnings.catch_warnings(), collect() as found:
        warnings.simplefilter("error", KernelWarning)
        with pytest.raises(KernelWarning):
            run(same_or_other)
    assert len(found) == 3
    with pytest.warns(KernelWarning), pytest.raises(KernelFault, match=r"out\[1\]"):
        run(same_or_other)


@pytest.mark.parametrize("accepts", [True, False], ids=["accepted", "keep going"])
def test_reads_that_no_compare_and_swap_follows_are_counted_at_their_lines(accepts: bool, tmp_path: Path):
    with simulator.options(keep_going=not accepts, suppressions=suppressions(tmp_path) if accepts else None):
        found, _, x = run(looks)
    reads = [(finding.accesses[0].operation, finding.accesses[0].line - line_of(looks)) for finding in found]
    assert reads == [("read", 9), ("read", 11), ("read", 16)]
    assert {(finding.kind, finding.count, finding.is_mistake) for finding in found} == {("race", 31, not accepts)}
    assert list(x[:32]) == [0] + 31 * [3]
    with pytest.raises(KernelFault, match=r"out\[0\]"):
        run(looks)


@pytest.mark.filterwarnings("ignore::trifold.findings.KernelWarning")
def test_an_access_outside_an_array_does_not_happen():
    with simulator.options(keep_going=True):
        found, out, x = run(out_of_bounds)
    lines = {finding.accesses[0].line for finding in found if finding.kind == "out-of-bounds"}
    assert len(lines) == 5
    assert (x == 0).all()
    assert list(out) == [0, 3, 0, -875836469, 0, 0, 0, 0]  # 0xCBCBCBCB


@pytest.mark.filterwarnings("ignore::trifold.findings.KernelWarning")
@pytest.mark.parametrize(
    ("kernel", "kind"),
    [(two_barriers, "barrier divergence"), (not_in_mask, "warp divergence"), (misaligned, "misaligned")],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_what_a_gpu_would_do_in_some_way_goes_on(kernel, kind):
    with simulator.options(keep_going=True):
        found, _, x = run(kernel)
    assert only(found, kind).is_mistake
    if kernel is not misaligned:
        assert (x[:32] == 1).all()
    with pytest.raises(KernelFault, match=kind):
        run(kernel)


def test_a_deadlock_ends_its_launch_and_not_the_program():
    with simulator.options(keep_going=True):
        found, _, x = run(waits_for_nobody, threads=1)
    assert [finding.kind for finding in found] == ["deadlock"]
    assert x[0] == 1
