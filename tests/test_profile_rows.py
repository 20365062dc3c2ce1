"""Parsing of Nsight Compute's table."""

from __future__ import annotations

import csv
import io

from benchmarks.profile_rows import profiles

_REASONS = ("barrier", "long_scoreboard", "selected", "wait")
_COLUMNS = (
    "Kernel Name",
    "gpu__time_duration.sum",
    "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
    "smsp__issue_active.avg.pct_of_peak_sustained_active",
    "sm__warps_active.avg.pct_of_peak_sustained_active",
    "launch__registers_per_thread",
    *(f"smsp__average_warps_issue_stalled_{reason}_per_issue_active.ratio" for reason in _REASONS),
)
_UNITS = ("", "ns", "%", "%", "%", "register/thread", *["inst"] * len(_REASONS))
_LAUNCHES = (
    ("void norm_backward_stream_kernel<__nv_bfloat16>(T1 *)", "16,100.5", "29.04", "41", "12", "214", *"1421"),
    ("void add_parts_kernel<__nv_bfloat16>(const float *)", "3,700", "6", "30", "12", "44", *"0123"),
    ("void norm_stream_kernel<float>(const T1 *)", "260,000", "84", "30", "12", "152", *"1234"),
    ("cross_entropy_count_kernel(const long *)", "2,000", "1", "2", "3", "16", *"0000"),
)


def test_each_launch_is_one_of_the_pass_that_was_said_before_it() -> None:
    text = io.StringIO()
    csv.writer(text, quoting=csv.QUOTE_ALL).writerows((_COLUMNS, _UNITS, *_LAUNCHES))
    lines = ["==PROF== Connected", *text.getvalue().splitlines()]
    said = ["layer_norm backward", "layer_norm forward", "cross_entropy training"]
    backward, parts, forward, count = profiles(lines, said)
    assert (backward.kernel, backward.what) == ("norm_backward_stream_kernel", "layer_norm backward")
    assert (backward.microseconds, backward.memory, backward.registers) == (16.1005, 29.0, 214)
    assert list(backward.stalls) == ["long_scoreboard", "selected", "barrier"]
    assert (parts.kernel, parts.what) == ("add_parts_kernel", "layer_norm backward")
    assert (forward.kernel, forward.what) == ("norm_stream_kernel", "layer_norm forward")
    assert (count.kernel, count.what) == ("cross_entropy_count_kernel", "cross_entropy training")
