"""Copies by tensor maps on the CPU, right and wrong ones (trifold/cpu/tensor_copies.h)."""

from __future__ import annotations

from pathlib import Path

import pytest

from trifold.sanitize.program import sanitize

PROGRAM = Path(__file__).with_name("programs") / "tensors.cu"
LINES = PROGRAM.read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_boxes_are_copied_swizzled_multicast_and_added(seed: int, capfd: pytest.CaptureFixture[str]) -> None:
    report = sanitize(PROGRAM, seed=seed)
    assert (report.entries, report.exit_status) == ([], 0)
    assert capfd.readouterr().out == "0 wrong\n0 wrong\n"


@pytest.mark.parametrize(
    ("mistake", "kind", "marks"),
    [
        ("unfenced", "race", {"doubled", "stored"}),
        ("early", "race", {"loaded", "doubled"}),
        ("misaligned", "misaligned", {"loaded"}),
        ("more bytes", "deadlock", {"waits"}),
        ("unwaited", "lifetime", {"stored"}),
        ("beyond", "out-of-bounds", {"loaded"}),
    ],
)
def test_a_mistake_is_found_at_its_lines(mistake: str, kind: str, marks: set[str]) -> None:
    (finding,) = sanitize(PROGRAM, [mistake]).findings
    assert finding.kind == kind
    assert {LINES[access.line - 1].rpartition("// ")[2] for access in finding.accesses} == marks


@pytest.mark.parametrize(
    ("mistake", "problem", "line"),
    [
        ("dimensions", "another number of coordinates than its tensor map has dimensions", "one, native);"),
        ("encode", "the box's inner dimension is no multiple of 16 bytes", "reinterpret_cast<decltype"),
    ],
)
def test_a_map_that_a_gpu_would_refuse(mistake: str, problem: str, line: str) -> None:
    (shown,) = sanitize(PROGRAM, [mistake]).problems
    number = next(i for i, text in enumerate(LINES, 1) if line in text)
    assert problem in shown
    assert f"tensors.cu:{number}" in shown


GEMM = PROGRAM.with_name("tensor_gemm.cu")


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_matrix_product_by_a_ring_of_multicast_tiles_is_clean(seed: int, capfd: pytest.CaptureFixture[str]) -> None:
    report = sanitize(GEMM, seed=seed)
    assert (report.entries, report.exit_status) == ([], 0)
    assert capfd.readouterr().out == "0 wrong\n"


@pytest.mark.parametrize(
    ("mistake", "kind", "message"),
    [
        ("fewer bytes", "race", "the cp.async.bulk.tensor that thread (128, 0, 0) of block (0, 0, 0) starts"),
        (
            "one stage early",
            "barrier misuse",
            "waits for bytes only of 1 arrivals: more come than it is initialised for",
        ),
        ("own block only", "deadlock", "2048 bytes have come that it does not expect"),
        ("wrong parity", "uninitialised read", "in multiply"),
    ],
)
def test_a_mistake_in_the_ring_is_found(mistake: str, kind: str, message: str) -> None:
    (finding,) = sanitize(GEMM, [mistake]).findings
    assert finding.kind == kind
    assert message in finding.message
