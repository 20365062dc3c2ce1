"""The row ``findings`` of a GPU: what it makes of compute-sanitizer's reports.

The op runs in this process; its process under a tool is replaced, and writes the report of the test."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import strategies as st
from torch import Tensor

from tests.sanitize import reports
from trifold import compute_sanitizer
from trifold.compute_sanitizer import TOOLS
from trifold.errors import ToolchainError
from trifold.spec import Call, Limits, Sample, Spec, TensorCase
from trifold.verification.calls import Search
from trifold.verification.cell import Cell, Remote
from trifold.verification.checks import findings_on_gpu as module
from trifold.verification.checks.findings_on_gpu import findings_on_gpu
from trifold.verification.observations import Addresses, Observations
from trifold.verification.outcomes import Absence, CheckFailed, NotRun
from trifold.verification.remote_errors import OpDied, OpHangs
from trifold.workspace import OpFiles

SMALL, LARGE = (Call((TensorCase((n,), dtype),)) for n, dtype in ((8, torch.float32), (64, torch.float64)))
ADDRESS = 0x7F3C7EC00000


@dataclass
class Machine:
    """compute-sanitizer and the GPU.

    Attributes:
        source: the port's binding.
        reports: what each tool writes.
        at_once: a tool writes while the call of float64 runs; else when the process has ended.
        started: the tools whose processes were started.
        called: the tools under which the op was called.
        dies_under: the tool under which the op's process dies.
        hangs_under: the tool under which a call does not return.
        hangs: how many times it does not.
        wrong_under: the tool under which results are wrong.
    """

    source: Path
    reports: dict[str, str] = field(default_factory=lambda: dict.fromkeys(TOOLS, reports.CLEAN))
    at_once: bool = False
    started: list[str] = field(default_factory=list)
    called: set[str] = field(default_factory=set)
    dies_under: str = ""
    hangs_under: str = ""
    hangs: int = 2
    wrong_under: str = ""


class Process:
    """The op's process; with a log, under a tool."""

    def __init__(self, machine: Machine, tool: str = "", log: Path | None = None) -> None:
        self.machine, self.tool, self.log = machine, tool, log
        self.element_bytes, self.calls, self.observed = 0, 0, Observations()
        self.launches = {"double<float>": 0, "double<double>": 0}

    def start(self) -> None:
        if self.tool not in self.machine.started:
            self.machine.started.append(self.tool)

    def load(self, **options: Any) -> None:
        pass

    def branches(self) -> dict[str, int]:
        return dict(self.launches)

    @contextlib.contextmanager
    def running(self, **options: Any) -> Iterator[Observations]:
        self.observed = Observations()
        yield self.observed

    @contextlib.contextmanager
    def another(self, under: Sequence[str], environment: Mapping[str, str], *, slower: float) -> Iterator[Process]:
        tool, log = (
            next(o for o in under if o.startswith(name)).partition("=")[2] for name in ("--tool", "--log-file")
        )
        assert environment == {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1", "TRIFOLD_WHOLE_VECTORS": "1"}
        yield Process(self.machine, tool, Path(log))

    def function(self, x: Tensor) -> Tensor:
        self.calls += 1
        self.launches["double<float>" if x.dtype == torch.float32 else "double<double>"] += 1
        if self.tool:
            assert self.machine.started == list(TOOLS)
            self.machine.called.add(self.tool)
        if self.tool and self.tool == self.machine.dies_under:
            raise OpDied("the op's process was killed by signal 11")
        if self.tool and self.tool == self.machine.hangs_under and self.machine.hangs > 0:
            self.machine.hangs -= 1
            raise OpHangs("no answer for 240 s: the kernel hangs")
        if self.log is not None and self.machine.at_once and x.dtype == torch.float64:
            self.log.write_text(self.machine.reports[self.tool], encoding="utf-8")
        self.observed.addresses.append(Addresses(((ADDRESS, 64),), ((ADDRESS + 512, 64),)))
        return x * (3 if self.tool and self.tool == self.machine.wrong_under else 2)

    def close(self) -> None:
        if self.log is not None:
            self.log.write_text(self.machine.reports[self.tool], encoding="utf-8")


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Machine:
    monkeypatch.setattr(compute_sanitizer, "find", lambda: Path("compute-sanitizer"))
    monkeypatch.setattr(compute_sanitizer, "version", lambda sanitizer: "2026.4.0.0")
    monkeypatch.setattr(compute_sanitizer, "_help", lambda sanitizer: "")
    monkeypatch.setattr(module, "_probe", lambda sanitizer, tool: "")
    source = tmp_path / "double.cu"
    source.touch()
    return Machine(source)


def run(machine: Machine) -> str:
    samples = [Sample(name, call, "") for name, call in (("small", SMALL), ("large", LARGE), ("again", SMALL))]
    spec = Spec(calls=lambda limits: st.just(SMALL), samples=samples, smooth=[SMALL])
    process: Any = Process(machine)
    remote = Remote("port", OpFiles("double", *(machine.source,) * 5), process, ("double",), differentiable=False)

    def reference(x: Tensor) -> Tensor:
        return x * 2

    return findings_on_gpu(Cell(spec, remote, "cpu", reference, Search(1), Limits(), lambda sample: None))


def test_without_a_finding_it_passes_and_says_which_version_ran_on_how_many_calls(machine: Machine) -> None:
    assert run(machine) == "compute-sanitizer 2026.4.0.0; 2 calls"
    assert sorted(machine.started) == sorted(TOOLS)  # one process for each


@pytest.mark.parametrize(
    ("tool", "text", "words"),
    [
        ("memcheck", reports.MEMCHECK, "out-of-bounds in kernel ns::scale<float>"),
        ("racecheck", reports.RACECHECK, "race on shared memory at 0x8c in kernel sums"),
        ("initcheck", reports.INITCHECK, "uninitialised read in kernel add_one"),
        ("synccheck", reports.SYNCCHECK, "barrier divergence in kernel wait"),
    ],
)
def test_a_finding_of_any_tool_fails_the_row_with_the_call_that_made_it(
    machine: Machine, tool: str, text: str, words: str
) -> None:
    machine.reports[tool], machine.at_once = text, True
    with pytest.raises(CheckFailed, match=words) as caught:
        run(machine)
    assert f"({tool})" in caught.value.message
    assert f"compute-sanitizer --tool {tool}" in caught.value.message
    assert caught.value.call == LARGE
    assert caught.value.findings


def test_a_finding_comes_before_wrong_results_of_another_tool_s_run(machine: Machine) -> None:
    machine.reports["racecheck"], machine.wrong_under = reports.RACECHECK, "memcheck"
    with pytest.raises(CheckFailed, match="race on shared memory"):
        run(machine)


def test_the_tensor_at_an_address_is_named(machine: Machine) -> None:
    machine.reports["initcheck"], machine.at_once = reports.INITCHECK.replace("0x7f3c7ec000fc", "0x7f3c7ec0021c"), True
    with pytest.raises(CheckFailed, match=r"the address 0x7f3c7ec0021c \(byte 28 of a result\)"):
        run(machine)
    machine.reports["initcheck"] = reports.INITCHECK.replace("0x7f3c7ec000fc", hex(ADDRESS))
    with pytest.raises(CheckFailed, match=rf"the address {ADDRESS:#x} \(x\)"):
        run(machine)


def test_a_warning_of_racecheck_fails_the_row(machine: Machine) -> None:
    machine.reports["racecheck"] = reports.RACECHECK[reports.RACECHECK.index("========= Warning") :]
    with pytest.raises(CheckFailed, match="warp level programming"):
        run(machine)


def test_a_finding_is_accepted_by_a_comment_at_its_line_and_by_an_entry_of_a_file(machine: Machine) -> None:
    report = reports.RACECHECK.replace("/src/sums.cu", str(machine.source))
    machine.reports["racecheck"] = report
    machine.source.write_text("\n" * 43 + "a[i] = 1;  // trifold: allow race, any of them\n")
    with pytest.raises(CheckFailed, match="thread \\(4, 0, 0\\)") as error:  # the third is at other lines
        run(machine)
    assert len(error.value.findings) == 1
    settings = machine.source.with_name("pyproject.toml")
    settings.write_text('[tool.trifold]\nsuppressions = "known.toml"\n')
    known = machine.source.with_name("known.toml")
    known.write_text('[[suppression]]\nkind = "race"\nkernel = "s?ms"\nfile = "double.cu"\nreason = "ordered"\n')
    said = run(machine)
    assert "double.cu:44: race in sums at double.cu:56 and double.cu:44, once: any of them" in said
    assert "known.toml, entry 1: race in sums at double.cu:61 and double.cu:60, once: ordered" in said
    known.write_text('[[suppression]]\nkind = "race"\nkernel = "others"\nreason = "ordered"\n')
    with pytest.raises(CheckFailed):
        run(machine)


def test_what_is_found_in_torch_s_own_kernels_is_a_remark(machine: Machine) -> None:
    machine.reports["initcheck"] = reports.INITCHECK.replace(
        "add_one(int *)+0x70 in /src/add.cu:41", "void at::native::fill<int>(int *)+0x70"
    )
    assert "initcheck reports torch's own kernels: at::native::fill<int>" in run(machine)


def test_a_kernel_of_the_op_is_not_torch_s_by_its_name(machine: Machine) -> None:
    text = reports.INITCHECK.replace("add_one(int *)", "at::native::fill(int *)")  # with a line, which torch's have not
    machine.reports["initcheck"] = text
    with pytest.raises(CheckFailed, match="uninitialised read"):
        run(machine)


def test_a_report_of_a_form_that_is_not_known_fails_the_row_as_it_stands(machine: Machine) -> None:
    text = reports.CLEAN.replace("ERROR SUMMARY", "Something new happened\n=========\n========= ERROR SUMMARY")
    machine.reports["synccheck"] = text
    with pytest.raises(CheckFailed, match="synccheck reports: Something new happened"):
        run(machine)


def test_a_warning_of_the_tool_itself_is_a_remark(machine: Machine) -> None:
    warning = "Warning: Detected overflow of tracked cuda::barrier structures"
    machine.reports["racecheck"] = reports.CLEAN.replace("ERROR SUMMARY", f"{warning}\n========= ERROR SUMMARY")
    assert f"racecheck reports: {warning}" in run(machine)


def test_wrong_results_under_a_tool_fail_the_row(machine: Machine) -> None:
    machine.wrong_under = "synccheck"
    with pytest.raises(CheckFailed, match="under synccheck: ") as caught:
        run(machine)
    assert caught.value.call == SMALL


def test_a_process_that_dies_under_a_tool_fails_the_row(machine: Machine) -> None:
    machine.dies_under, machine.reports["racecheck"] = "racecheck", ""
    with pytest.raises(CheckFailed, match="under racecheck: the op's process was killed by signal 11"):
        run(machine)
    assert machine.called == set(TOOLS)


def test_a_call_that_hangs_under_a_tool_is_made_again(machine: Machine) -> None:
    machine.hangs_under, machine.hangs = "initcheck", 1
    assert "under initcheck, a call did not return, and was made again" in run(machine)
    assert machine.called == set(TOOLS)


def test_after_a_call_that_hangs_twice_under_a_tool_the_next_ones_are_not_tried(machine: Machine) -> None:
    machine.hangs_under, machine.reports["racecheck"] = "racecheck", ""
    with pytest.raises(CheckFailed, match="under racecheck: no answer for 240 s") as caught:
        run(machine)
    assert caught.value.call == SMALL
    assert machine.called == {"memcheck", "racecheck"}


def test_without_a_tool_it_does_not_run(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing() -> Path:
        raise ToolchainError("there is none", "install it")

    monkeypatch.setattr(compute_sanitizer, "find", nothing)
    with pytest.raises(NotRun, match=f"{Absence.NO_SANITIZER}: install it"):
        run(machine)


def test_a_tool_that_watches_no_kernel_here_does_not_run(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.reports["memcheck"] = reports.NO_CUDA
    with pytest.raises(CheckFailed, match="memcheck ended without a summary"):  # it works: the op is at fault
        run(machine)
    monkeypatch.setattr(module, "_probe", lambda sanitizer, tool: "unsupported driver")
    with pytest.raises(NotRun, match=f"{Absence.SANITIZER_FAILS}: unsupported driver"):
        run(machine)
