"""First calls are made before anything is timed, in processes that then are gone; one that fails costs nothing."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._inductor import config as inductor

from tests.test_bench_command import workspace_in
from trifold.bench import ops
from trifold.bench.entrants import Entrant
from trifold.bench.prepare import FirstCall, compile_here, first_calls, prepare
from trifold.bench.rows import COMPILED, PORT, ROOFLINE, Row
from trifold.bench.run import EVERYTHING, Selection, Task, tasks
from trifold.cells import Device
from trifold.spec.benchmark import Benchmark, Case

CASES = (Case("4x16", (4, 16)), Case("8x16", (8, 16)))


@pytest.fixture(autouse=True)
def _nothing_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton"))
    with inductor.patch(compile_threads=2):
        yield


def planned(device: Device, **options: Any) -> list[Task]:
    benchmark = Benchmark(
        name="one",
        cases=CASES,
        arguments=lambda device, dtype, case: (torch.ones(case.sizes, device=device, dtype=dtype),),
        eager=torch.relu,
        bytes=lambda case, dtype: 512,
        dtypes=(torch.float32,),
        **options,
    )
    return list(tasks("op", benchmark, device, EVERYTHING))


def made(device: Device, against: tuple[str, ...], **options: Any) -> list[tuple[str, str, str]]:
    calls = first_calls(planned(device, **options), against, device)
    return [(call.competitor, call.method, call.case) for call in calls]


def test_what_compiles_is_called_once_and_builds_come_first() -> None:
    assert made("cuda", ("eager", "compile", "quack"), peers="softmax") == [
        (PORT, "graph", "4x16"),
        (ROOFLINE, "graph", "4x16"),
        ("compile", "graph", "4x16"),
        ("compile", "graph", "8x16"),
        ("quack", "graph", "4x16"),
        ("quack", "graph", "8x16"),
    ]


def test_two_ways_to_time_a_pass_share_its_first_call() -> None:
    calls = made("cuda", ("compile",), methods=("graph", "events"))
    assert calls[2:] == [("compile", "graph", "4x16"), ("compile", "graph", "8x16")]


def test_each_pass_that_the_host_is_timed_for_has_its_own() -> None:
    calls = made("cuda", ("compile",), host=CASES[0])
    # Without grad it is the pass that is timed in the graph.
    assert calls[4:] == [("compile", "host: forward", "4x16"), ("compile", "host: forward + backward", "4x16")]


@pytest.mark.parametrize(
    ("device", "options"),
    [
        pytest.param("cuda", {}, id="they do not have the op"),
        pytest.param("cuda", {"peers": "swiglu"}, id="it does not have the op"),
        pytest.param("cpu", {"peers": "softmax"}, id="it needs a GPU"),
    ],
)
def test_a_library_that_cannot_compete_is_not_called(device: Device, options: dict[str, Any]) -> None:
    assert {name for name, *_ in made(device, ("eager", "quack"), **options)} <= {PORT, ROOFLINE}


# ------------------------------------------------------------------------------------------ the processes

SERVER = """
import os, sys, time
from multiprocessing.connection import Connection
folder, _, _, descriptor = sys.argv[1:]
connection = Connection(int(descriptor))
open(os.path.join(folder, str(os.getpid())), "w").close()
connection.send(("", False))
while True:
    case = connection.recv()[4]
    if case == "crash":
        os._exit(3)
    if case == "hang":
        time.sleep(600)
    connection.send(("ValueError: no" if case == "wrong" else "", False))
"""


def serving(tmp_path: Path, cases: list[str], server: str = SERVER, **options: Any) -> dict[str, str]:
    """The reasons by case, of those that failed."""
    (tmp_path / "pids").mkdir()
    (tmp_path / "server.py").write_text(server, encoding="utf-8")
    calls = [FirstCall("op", "forward", "float32", "cpu", case, (4,), "compile") for case in cases]
    finished: list[FirstCall] = []
    program = (sys.executable, str(tmp_path / "server.py"), str(tmp_path / "pids"))
    place = workspace_in(tmp_path)
    result = prepare(calls, place, "cpu", 2, program=program, on_finished=finished.append, **options)
    assert result.made + len(result.failed) == len(calls)
    assert f"Prepared {result.made} of {len(calls)} first calls in 2 processes" in result.text
    assert set(finished) <= set(calls)
    return {one.call.case: one.reason for one in result.failed}


def alive(folder: Path) -> list[int]:
    return [int(path.name) for path in folder.iterdir() if Path("/proc", path.name).exists()]


def test_calls_are_made_and_no_process_is_left(tmp_path: Path) -> None:
    assert serving(tmp_path, [str(n) for n in range(20)]) == {}
    assert alive(tmp_path / "pids") == []


def test_what_fails_there_costs_only_itself(tmp_path: Path) -> None:
    started = time.monotonic()
    cases = ["a", "wrong", "crash", "b", "hang", "c", "crash too", "d"]
    failed = serving(tmp_path, cases, SERVER.replace('case == "crash"', 'case.startswith("crash")'), call_s=0.5)
    assert failed == {
        "wrong": "ValueError: no",
        "crash": "its process ended with 3",
        "crash too": "its process ended with 3",
        "hang": "it took longer than 0.5 s",
    }
    assert alive(tmp_path / "pids") == []
    assert time.monotonic() - started < 30


def test_nobody_waits_for_a_process_that_starts_when_all_is_done(tmp_path: Path) -> None:
    started = time.monotonic()
    late = "import os, sys, time\nif os.listdir(sys.argv[1]): time.sleep(600)\n" + SERVER.lstrip()
    assert serving(tmp_path, ["slow start", "b"], late, start_s=60.0) == {}
    assert time.monotonic() - started < 30


@pytest.mark.parametrize("server", ["raise SystemExit(1)", "import time; time.sleep(600)"])
def test_where_no_process_starts_all_is_left_to_who_times(tmp_path: Path, server: str) -> None:
    assert set(serving(tmp_path, ["a", "b", "c"], server, start_s=0.3).values()) == {"no process was left to make it"}


def test_an_interrupt_leaves_no_process(tmp_path: Path) -> None:
    def interrupt(call: FirstCall) -> None:
        raise KeyboardInterrupt

    (tmp_path / "pids").mkdir()
    (tmp_path / "server.py").write_text(SERVER, encoding="utf-8")
    program = (sys.executable, str(tmp_path / "server.py"), str(tmp_path / "pids"))
    calls = [FirstCall("op", "forward", "float32", "cpu", str(n), (4,), "compile") for n in range(4)]
    with pytest.raises(KeyboardInterrupt):
        prepare(calls, workspace_in(tmp_path), "cpu", 2, program=program, on_finished=interrupt)
    assert alive(tmp_path / "pids") == []


def test_the_worker_itself_makes_calls_and_says_what_failed(tmp_path: Path) -> None:
    place = workspace_in(tmp_path)
    (tmp_path / "ports/gate.py").write_text("raise RuntimeError('no port')\n", encoding="utf-8")
    calls = [FirstCall("gate", "forward", "float32", "cpu", "16", (16,), name) for name in ("liger", PORT)]
    result = prepare(calls, place, "cpu", 1)
    assert result.made == 1, "liger is not there, which is no failure"
    assert [(one.call.competitor, "no port" in one.reason) for one in result.failed] == [(PORT, True)]


def test_a_call_that_leaves_the_gpu_unusable_is_not_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = SERVER.replace(
        '(("ValueError: no" if case == "wrong" else "", False))', '(("no GPU", True))\n    sys.exit()'
    )
    (tmp_path / "pids").mkdir()
    (tmp_path / "server.py").write_text(server, encoding="utf-8")
    calls = [FirstCall("gate", "forward", "float32", "cpu", case, (int(case),), "compile") for case in ("16", "32")]
    program = (sys.executable, str(tmp_path / "server.py"), str(tmp_path / "pids"))
    place = workspace_in(tmp_path)
    result = prepare(calls, place, "cpu", 1, program=program)
    assert result.fatal == {("gate", "forward", "float32", "cpu", case, COMPILED): "no GPU" for case in ("16", "32")}
    monkeypatch.setattr(ops, "implementations", lambda *_: {PORT: Entrant(PORT, torch.sigmoid)})
    monkeypatch.setattr(ops, "prepare", lambda *_, **options: result)
    monkeypatch.setattr(torch, "compile", lambda function, **options: function)
    selection = Selection("forward float32 cpu", ((16,), (64,)))
    results = ops.measure_ops(place, [], "cpu", selection=selection, against=("compile",), workers=1)
    outcomes = {row.case: (row.outcome, row.reason) for row in results.rows if row.competitor == COMPILED}
    assert outcomes == {"16": ("failed", "no GPU"), "64": ("measured", "")}


def test_compilers_run_in_this_process_and_kernels_lie_where_others_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRIFOLD_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("TRITON_CACHE_DIR", raising=False)
    monkeypatch.setattr(os, "environ", dict(os.environ))
    compile_here()
    assert inductor.compile_threads == 1
    assert os.environ["TRITON_CACHE_DIR"] == str(tmp_path / "triton")
    os.environ["TRITON_CACHE_DIR"] = "elsewhere"
    compile_here()
    assert os.environ["TRITON_CACHE_DIR"] == "elsewhere"


# ------------------------------------------------------------------------------------------ the run


def test_all_is_prepared_before_anything_is_timed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = workspace_in(tmp_path)
    done: list[str] = []

    def measured(task: Task, *_: Any) -> list[Row]:
        done.append(task.label)
        return []

    def prepared(calls: list[FirstCall], *_: Any, on_finished: Any) -> Any:
        done.append(f"{len(calls)} calls")
        return prepare([], place, "cpu", 1)

    monkeypatch.setattr(ops, "implementations", lambda *_: {PORT: Entrant(PORT, torch.sigmoid)})
    monkeypatch.setattr(ops, "run", measured)
    monkeypatch.setattr(ops, "table", lambda rows: "")
    monkeypatch.setattr(ops, "prepare", prepared)
    selection = Selection("forward float32 cpu")
    ops.measure_ops(place, [], "cpu", selection=selection, against=("eager", "compile"), workers=2)
    assert done[0] == "5 calls", "the port's, and torch.compile's of four cases"
    assert len(done) == 5
    done.clear()
    ops.measure_ops(place, [], "cpu", selection=selection, against=("eager", "compile"))
    assert len(done) == 4, "nothing is prepared unless that is asked for"
