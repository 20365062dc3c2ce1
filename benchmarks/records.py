"""The records in benchmarks/results/: which are current, and the commands that measure the stale ones again.

    python benchmarks/records.py list              each record: current or stale, its commit, its commands if stale
    python benchmarks/records.py measure           run the commands of the stale records that this machine can measure
    python benchmarks/records.py mark              mark quoted records as stale or current in README and docs
    python benchmarks/records.py stamp RECORD...   write the sources of a record's commit, from git, into the record

A record is current if the sources that it lists (trifold/record_sources.py) equal those in the tree. ``measure`` starts
nothing after ``--seconds`` and ends the command that then runs. The same command continues, on this machine or on
another one with a copy of benchmarks/results/, where ``unfinished/`` has incomplete records. Exit status 3: some are
left. A page that quotes a stale record says so after its path, in the words that ``mark`` writes; a test checks this.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from trifold import record_sources
from trifold.record_sources import Sources
from trifold.workspace import Workspace

ROOT = Path(__file__).resolve().parents[1]
RESULTS = "benchmarks/results"
UNFINISHED = "unfinished"
PAGES = ("README.md", "docs/*.md", f"{RESULTS}/*.md", "benchmarks/notes/*.md")
LIMIT_S = 570.0
MORE_TO_DO = 3

Machine = Literal["cpu", "GPU", "two GPUs"]
Subject = Callable[[Path], Sources]

ELEMENTWISE = ("add", "mul", "sigmoid")
ROW_OPS = ("softmax", "layer_norm", "rms_norm", "swiglu", "cross_entropy")
GRADUATED = ("mul", "sigmoid")
_RAW_KERNELS = ("trifold/cpu/raw_*.py", "trifold/include/trifold/cpu/raw_kernel.h")
_ENGINE = (
    "trifold/engine/**/*.cpp",
    "trifold/engine/**/*.h",
    "trifold/include/trifold/cpu.h",
    "trifold/include/trifold/cpu/*",
    "trifold/cpu/*.py",
    # The layout of older commits, which some records are of.
    "trifold/include/trifold/host.h",
    "trifold/include/trifold/host/*",
    "trifold/host/*.py",
    *(f"!{pattern}" for pattern in _RAW_KERNELS),
)
_KERNELS_ON_CPU = ("benchmarks/cpu.cpp", "benchmarks/host.cpp")  # the latter in older commits
_CATALOGUES = ("tests/cpu/catalogue/*", "tests/host/catalogue/*")  # the latter in older commits
_TOOLS = ("trifold/compute_sanitizer/*.py",)
# The planted faults, and the expected findings.
_PLANTED = ("*_faults", "fault", "faults", "few_kernels", "on_the_cpu", "row_lines")


@dataclass(frozen=True)
class Record:
    """One file of results.

    Attributes:
        name: below benchmarks/results/.
        machine: the hardware that it is measured on.
        subject: the sources that it depends on, in a given tree.
        commands: for bash, in order, in the root of the tree; ``{file}`` is the output, ``{scratch}`` an empty folder.
            If there are several, each fills a part of the file, and continues where it was ended.
        minutes: for all commands, on a machine with an H200 and 16 cores, or on two cores for ``cpu``; estimated.
    """

    name: str
    machine: Machine
    subject: Subject
    commands: tuple[str, ...]
    minutes: float

    @property
    def path(self) -> str:
        return f"{RESULTS}/{self.name}"


def _ops(device: Literal["cpu", "cuda"], *ops: str, prototypes: bool = True, checked: bool = False) -> Subject:
    """The subject of a record of these ops; of all ops if none is given."""

    def subject(root: Path) -> Sources:
        workspace = Workspace.at(root)
        return record_sources.of_ops(
            workspace,
            ops or workspace.ops(),
            device,
            prototypes=prototypes,
            checked=checked,
            toolkit=root / "trifold",
        )

    return subject


def _files(*patterns: str) -> Subject:
    return lambda root: record_sources.of_files(root, patterns)


def _both(one: Subject, other: Subject) -> Subject:
    return lambda root: one(root) | other(root)


def _bench(ops: Sequence[str], options: str = "") -> tuple[str, ...]:
    """One command per op, all writing to one file."""
    return tuple(f"trifold bench {op} --device cuda --prepare 16{options} --json {{file}} --resume" for op in ops)


def _host_of_wheel(waived: str = "") -> tuple[str, ...]:
    ops = " ".join(GRADUATED)
    return (
        f"trifold verify {ops} && trifold graduate {ops} --name some_kernels{waived} --out {{scratch}}/wheel && "
        "python benchmarks/graduated.py {scratch}/wheel/dist/*.whl --json {file}",
    )


_PEERS = " --against eager,compile,liger,quack"
_WHOLE_WHEEL = "trifold graduate $(basename -s .py verify/[a-z]*.py) --name gallery_kernels --arch 9.0"

RECORDS: tuple[Record, ...] = (
    Record("h200-elementwise.json", "GPU", _ops("cuda", *ELEMENTWISE), _bench(ELEMENTWISE), 5),
    Record("h200-normal_sample.json", "GPU", _ops("cuda", "normal_sample"), _bench(["normal_sample"]), 2),
    Record("h200-rows.json", "GPU", _ops("cuda", *ROW_OPS, prototypes=False), _bench(ROW_OPS, _PEERS), 7),
    Record(
        "profile/h200-rows.json",
        "GPU",
        _ops("cuda", *ROW_OPS[:3], "cross_entropy", prototypes=False),
        ("python benchmarks/profile_rows.py --json {file}",),
        1,
    ),
    Record("verify/h200.json", "GPU", _ops("cuda", checked=True), ("trifold verify --json {file}",), 8),
    Record(
        "graduated/h200.json",
        "GPU",
        _ops("cuda", prototypes=False),
        (_WHOLE_WHEEL + " --out {scratch}/wheel --json {file}",),  # with the certificates of the verification above
        8,
    ),
    Record("graduated/h200-host.json", "GPU", _ops("cuda", *GRADUATED, prototypes=False), _host_of_wheel(), 3),
    Record(
        "cpu/ports-on-gpu.json",
        "GPU",
        _both(_ops("cuda", prototypes=False), _files(*_ENGINE)),
        ("NVCC_APPEND_FLAGS=--fmad=false python -m tests.cpu.both_devices {file}",),
        6,
    ),
    Record(
        "cpu/compute-sanitizer.json",
        "GPU",
        _files(*_CATALOGUES, *_TOOLS, *_ENGINE),
        ("TRIFOLD_RECORD=$(dirname {file}) python -m pytest -q -n 0 -m gpu tests/cpu/test_sanitizer_agreement.py",),
        5,
    ),
    Record(
        "cpu/asynchronous.json",
        "GPU",
        _files(*_CATALOGUES, "tests/cpu/catalogue/asynchronous/*", *_TOOLS, *_ENGINE),
        ("python -m tests.cpu.catalogue.asynchronous {file}",),
        5,
    ),
    Record(
        "drafts/h200.json",
        "GPU",
        _both(_ops("cuda"), _files("tests/draft/golden/*")),
        ("python benchmarks/drafts.py --json {file}",),
        5,
    ),
    Record(
        "verify/h200-x2.json",  # what one GPU cannot show
        "two GPUs",
        _ops("cuda", checked=True),
        ("trifold verify --check 'second device' --json {file}",),
        3,
    ),
    Record(
        "verify/seeds.json",
        "cpu",
        _ops("cpu", checked=True),
        ("python benchmarks/seeds.py --json {file}",),
        200,
    ),
    Record(
        "cpu/cpu.json",
        "cpu",
        _both(
            _ops("cpu", "normal_sample", prototypes=False),
            _both(_files(*_ENGINE, *_KERNELS_ON_CPU), _files(*_RAW_KERNELS)),
        ),
        ("python benchmarks/cpu.py --json {file}",),
        2,
    ),
    Record(
        "cpu/planted-faults.json",
        "cpu",
        _both(
            _ops("cpu", *ROW_OPS, "cumsum", "topk", "matmul_tiled", "transpose", "histogram", prototypes=False),
            _files(*(f"tests/wrong/{name}.py" for name in _PLANTED), *_ENGINE),
        ),
        ("python -m tests.wrong.try_faults --device cpu --jobs 1 --json {file}",),
        15,
    ),
    Record(
        "host/row-ops.json",
        "cpu",
        _ops("cpu", *ROW_OPS, prototypes=False),
        ("python benchmarks/host_path.py --json {file}",),
        2,
    ),
    Record(
        "graduated/cpu.json",
        "cpu",
        _ops("cpu", *GRADUATED, prototypes=False),
        _host_of_wheel(" --allow-unverified cuda"),
        3,
    ),
    Record(
        "simulator/cpu.json",
        "cpu",
        _files(
            "trifold/simulator/*.py", "trifold/engine/**/*.cpp", "trifold/engine/**/*.h", "benchmarks/simulator*.py"
        ),
        ("python benchmarks/simulator.py --json {file}",),
        3,
    ),
)


@dataclass(frozen=True)
class State:
    """Whether a record is current.

    Attributes:
        commit: the one that it was measured at; empty if there is no record yet.
        changed: the files that differ now; empty if it is current.
        unfinished: parts of it have been measured again.
    """

    record: Record
    commit: str
    changed: tuple[str, ...]
    unfinished: bool = False

    @property
    def current(self) -> bool:
        return not self.changed

    @property
    def described(self) -> str:
        if self.current:
            return "current"
        first = ", ".join(self.changed[:2]) + (f" and {len(self.changed) - 2} more" if len(self.changed) > 2 else "")
        return f"stale{', begun anew' if self.unfinished else ''}: {first} changed since"


def record_of(name: str) -> Record:
    """Raise ``SystemExit`` if there is no such record."""
    for record in RECORDS:
        if name in (record.name, record.path):
            return record
    raise SystemExit(f"records.py: there is no record '{name}'; records.py list has all")


def sources(name: str, root: Path = ROOT) -> Sources:
    """Return the sources of the record ``name`` in the tree; a program writes them into the record that it measures."""
    return record_of(name).subject(root)


def state(record: Record, root: Path = ROOT) -> State:
    """Compare ``record`` with the tree in ``root``."""
    now = record.subject(root)
    document = _read(root / record.path)
    if document is None:
        return State(record, "", tuple(now), (root / RESULTS / UNFINISHED / record.name).exists())
    commit = str(document.get("environment", document).get("commit") or "")
    changed = tuple(record_sources.changed(record_sources.recorded(document), now))
    return State(record, commit[:_SHOWN], changed, (root / RESULTS / UNFINISHED / record.name).exists())


_SHOWN = 12  # digits of a commit


def _read(path: Path) -> dict[str, Any] | None:
    if not path.exists():
        return None
    document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return document


# ---------------------------------------------------------------------------------------------------------- the pages

_MARK = re.compile(r",\s+of\s+(?:commit\s+[0-9a-f]{7,40}|no\s+commit),\s+to\s+be\s+measured\s+anew")
_QUOTE = re.compile(rf"`{RESULTS}/(?P<name>[\w./-]+\.json)`(?P<mark>{_MARK.pattern})?")
_PLOT = re.compile(r"!\[(?P<text>[^\]]*?)(?P<mark>, to be measured anew)?\]\((?P<path>(?:[^)]*/)?figures[\w-]*\.png)\)")
_PLOTTED = ("h200-elementwise.json", "h200-normal_sample.json", "h200-rows.json")


def mark_of(state: State) -> str:
    """Return the text after the path of a record where it is quoted; empty for a current one."""
    if state.current:
        return ""
    return f", of {f'commit {state.commit}' if state.commit else 'no commit'}, to be measured anew"


def marked(page: str, states: dict[str, State]) -> str:
    """Return the text of a page with the right mark after the path of each record, and in the text of each plot."""

    def quote(match: re.Match[str]) -> str:
        known = states.get(match["name"])
        old, new = match["mark"] or "", mark_of(known) if known else ""
        kept = old if " ".join(old.split()) == new else new  # the old mark may contain a line break
        return f"`{RESULTS}/{match['name']}`{kept}"

    stale = any(name in states and not states[name].current for name in _PLOTTED)
    page = _QUOTE.sub(quote, page)
    return _PLOT.sub(
        lambda match: f"![{match['text']}{', to be measured anew' if stale else ''}]({match['path']})", page
    )


def states_of(root: Path = ROOT) -> dict[str, State]:
    """Return the state of each record, by name."""
    return {record.name: state(record, root) for record in RECORDS}


def unmarked(root: Path = ROOT) -> list[str]:
    """Return, for each page with a wrong mark, a line with the command that corrects it."""
    states = states_of(root)
    wrong = []
    for path in _pages(root):
        text = path.read_text(encoding="utf-8")
        right = marked(text, states)
        if right != text:
            quoted = {match["name"] for match in _QUOTE.finditer(text)} & states.keys()
            says = [f"{name} is {states[name].described}{_anew(states[name])}" for name in sorted(quoted)]
            wrong.append(f"{path.relative_to(root)}: {'; '.join(says)}")
    return wrong


def _anew(state: State) -> str:
    """Return the commands that measure a stale record."""
    commands = [] if state.current else [_shown(command, state.record) for command in state.record.commands]
    return "".join(f"; {command}" for command in commands)


def _shown(command: str, record: Record) -> str:
    return command.format(file=record.path, scratch="/tmp/scratch")


def _pages(root: Path) -> Iterator[Path]:
    for pattern in PAGES:
        yield from sorted(root.glob(pattern))


def mark(root: Path = ROOT) -> list[str]:
    """Write the marks; return the pages that were changed."""
    states, done = states_of(root), []
    for path in _pages(root):
        text = path.read_text(encoding="utf-8")
        right = marked(text, states)
        if right != text:
            path.write_text(right, encoding="utf-8")
            done.append(str(path.relative_to(root)))
    return done


# ------------------------------------------------------------------------------------------------------------ measuring


def machines() -> tuple[Machine, ...]:
    """Return the kinds of record that this machine can measure."""
    import torch

    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    return (("cpu",), ("GPU",), ("GPU", "two GPUs"))[min(gpus, 2)]


def measure(records: Sequence[Record], seconds: float, root: Path = ROOT) -> list[str]:
    """Run the commands of ``records`` until ``seconds`` have passed; return the names of those that are not current
    then.

    A record replaces the old one when all its commands have ended and its sources are those in the tree. Until then it
    is in ``benchmarks/results/unfinished``.
    """
    end = time.monotonic() + seconds
    left = [record.name for record in records]
    for record in records:
        if time.monotonic() >= end:
            break
        file = root / RESULTS / UNFINISHED / record.name
        file.parent.mkdir(parents=True, exist_ok=True)
        if _run_all(record, file, end, root):
            (root / record.path).parent.mkdir(parents=True, exist_ok=True)
            file.replace(root / record.path)
            left.remove(record.name)
            print(f"{record.name}: measured", flush=True)
    return left


def _run_all(record: Record, file: Path, end: float, root: Path) -> bool:
    """Return whether the file is complete and of the sources in the tree when the commands have ended."""
    written = _read(file) if len(record.commands) > 1 else None
    now = record.subject(root)
    if written is not None and not record_sources.recorded(written).items() <= now.items():
        file.unlink()  # begun with other sources
    for command in record.commands:
        left = end - time.monotonic()
        if left <= 0 or not _run(command, file, left, root):
            print(f"{record.name}: ended by the limit; run the same command again", flush=True)
            return False
    document = _read(file)
    if document is None:
        print(f"{record.name}: its command wrote nothing", file=sys.stderr, flush=True)
        return False
    if wrong := record_sources.changed(record_sources.recorded(document), now):
        print(f"{record.name}: what was written is of other sources: {', '.join(wrong[:3])}", file=sys.stderr)
        return False
    return True


def commit_of_sources(root: Path) -> str | None:
    """The commit whose sources the tree has: results may have changed since, as by the record measured before. None if
    other files have, or without git."""

    def git(*command: str) -> str | None:
        done = subprocess.run(("git", "-C", str(root), *command), capture_output=True, text=True, check=False)
        return None if done.returncode else done.stdout.strip()

    changes = git("status", "--porcelain", "--", ".", f":!{RESULTS}")
    return git("rev-parse", "HEAD") if changes == "" else None


def _run(command: str, file: Path, seconds: float, root: Path) -> bool:
    """Return whether ``command`` ended by itself. (A nonzero status may be a missed target, which is a result.)"""
    with tempfile.TemporaryDirectory() as scratch:
        text = command.format(file=file, scratch=scratch)
        print(f"$ {text}", flush=True)
        path = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", "")))
        python_path = os.pathsep.join(filter(None, (str(root), os.environ.get("PYTHONPATH"))))
        environment = os.environ | {"PATH": path, "PYTHONPATH": python_path}
        if commit := commit_of_sources(root):
            environment.setdefault("TRIFOLD_COMMIT", commit)
        child = subprocess.Popen(["bash", "-c", text], cwd=root, env=environment, start_new_session=True)
        try:
            child.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            return False
    return True


# -------------------------------------------------------------------------------------------------------------- command


def _list(states: dict[str, State]) -> None:
    for one in states.values():
        print(f"{one.record.name}  ({one.record.machine}, about {one.record.minutes:g} min)")
        print(f"    {one.described}; measured at {one.commit or 'no commit'}")
        if not one.current:
            for command in one.record.commands:
                print(f"    {_shown(command, one.record)}")
    for machine in ("GPU", "two GPUs", "cpu"):
        of_machine = [one.record for one in states.values() if not one.current and one.record.machine == machine]
        if of_machine:
            minutes = sum(record.minutes for record in of_machine)
            print(f"{machine}: {len(of_machine)} stale, about {minutes:g} min: python benchmarks/records.py measure")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("list", "measure", "mark", "stamp"))
    parser.add_argument("records", nargs="*", help="names of records; default: all that are stale")
    parser.add_argument("--seconds", type=float, default=LIMIT_S, help=f"of measure; default {LIMIT_S:g}")
    parser.add_argument("--machine", choices=("cpu", "GPU", "two GPUs"), help="only records of such a machine")
    options = parser.parse_intermixed_args(arguments)
    named = [record_of(name) for name in options.records]
    if options.command == "list":
        _list({record.name: state(record) for record in named or RECORDS})
    elif options.command == "stamp":
        from benchmarks.record_stamps import stamp

        for record in named:
            stamp(record)
    elif options.command == "mark":
        print("\n".join(mark()) or "nothing to change")
    else:
        wanted = (options.machine,) if options.machine else tuple(one for one in machines() if one != "cpu") or ("cpu",)
        stale = [record for record in named or RECORDS if not state(record).current and record.machine in wanted]
        left = measure(stale, options.seconds)
        print(f"not yet current: {', '.join(left)}" if left else "all are current")
        return MORE_TO_DO if left else 0
    return 0


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))  # for benchmarks.record_stamps
    sys.exit(main())
