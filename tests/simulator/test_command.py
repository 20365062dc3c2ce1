"""``python -m trifold.simulator``, the environment variables, the report, and the pytest option; each in a process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from trifold import simulator
from trifold.findings import Finding, KernelFault
from trifold.simulator.settings import OptionError, from_environment, parsed, to_environment

RACE = """
import sys
import numpy as np
from numba import cuda

@cuda.jit
def kernel(out):
    out[0] = cuda.threadIdx.x

if __name__ == "__main__":
    print(sys.argv[1:], __name__, sys.path[0])
    kernel[1, int(sys.argv[1])](np.zeros(1))
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "program.py").write_text(RACE)
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text("from . import more\nimport sys\nprint(__package__, sys.argv[1:], more.x)")
    (package / "more.py").write_text("x = 3")
    return tmp_path


def run(folder: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("TRIFOLD_", "NUMBA_"))}
    environment["PYTHONPATH"] = str(Path(__file__).parents[2])
    return subprocess.run(
        [sys.executable, *words], cwd=folder, env=environment | variables, capture_output=True, text=True, timeout=120
    )


def simulate(folder: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return run(folder, "-m", "trifold.simulator", *words, **variables)


def test_a_script_runs_as_python_runs_it(folder):
    done = simulate(folder, "program.py", "1", "--seed")
    assert done.stderr == ""
    assert done.stdout == f"['1', '--seed'] __main__ {folder}\n"
    assert done.returncode == 0


def test_a_finding_ends_it_with_status_1_and_is_in_the_report(folder):
    done = simulate(folder, "--seed", "3", "--report", "out/found.json", "program.py", "2")
    assert done.returncode == 1
    assert "race" in done.stderr
    assert "replay: --seed 3" in done.stderr
    assert "trifold/simulator" not in done.stderr  # the user's lines only
    report = json.loads((folder / "out/found.json").read_text())
    assert report["launches"] == 1
    (finding,) = report["findings"]
    assert finding["kind"] == "race"
    assert finding["replay"] == "replay: --seed 3"
    assert [access["line"] for access in finding["accesses"]] == [8, 8]


def test_a_crash_loses_no_finding(folder):
    source = RACE + "    1\n"
    source = source.replace("    kernel[1,", "    try:\n        kernel[1,").replace(
        "    1\n", "    except RuntimeError: os.abort()"
    )
    (folder / "crash.py").write_text("import os" + source)
    done = simulate(folder, "--report", "found.json", "crash.py", "2")
    assert done.returncode < 0
    assert len(json.loads((folder / "found.json").read_text())["findings"]) == 1


def test_a_report_begins_anew(folder):
    for _ in range(2):
        simulate(folder, "--report", "found.json", "program.py", "2")
    assert len(json.loads((folder / "found.json").read_text())["findings"]) == 1


def test_modules_and_packages(folder):
    done = simulate(folder, "-m", "program", "1")
    assert done.stdout == f"['1'] __main__ {folder}\n"
    done = simulate(folder, "--checks", "none", "-m", "package", "a", "-m")
    assert done.stdout == "package ['a', '-m'] 3\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "name a script, or a module after -m"),
        (["--checks", "races", "program.py"], "there is no check 'races'"),
        (["--seed", "x", "program.py"], "seed is 'x'"),
        (["--schedules", "0", "program.py"], "schedules is '0'"),
        (["--wrong", "program.py"], "unrecognized arguments: --wrong"),
        (["missing.py"], "missing.py cannot be read: No such file or directory"),
        (["-m"], "-m names no module"),
        (["-m", "missing"], "there is no module missing"),
        (["-m", "missing.part"], "missing.part cannot be imported"),
        (["--compute-capability", "5.0", "program.py"], "compute capability '5.0' is not known"),
        (["--report", "program.py/x", "program.py"], "the report cannot be written"),
        (["--suppressions", "missing.toml", "program.py"], "missing.toml cannot be read"),
    ],
)
def test_bad_input_is_one_clear_error(folder, words, message):
    done = simulate(folder, *words)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_environment_variables_reach_child_processes(folder):
    (folder / "parent.py").write_text(
        "import subprocess, sys\nsys.exit(subprocess.call([sys.executable, 'program.py', '2']))"
    )
    done = simulate(folder, "--report", "found.json", "parent.py")
    assert done.returncode == 1
    assert len(json.loads((folder / "found.json").read_text())["findings"]) == 1
    done = run(folder, "program.py", "2", TRIFOLD_SIMULATOR="1", TRIFOLD_SEED="5")
    assert "replay: --seed 5" in done.stderr
    done = run(folder, "program.py", "2", TRIFOLD_SIMULATOR="1", TRIFOLD_CHECKS="none")
    assert done.returncode == 0
    done = run(folder, "program.py", "2", TRIFOLD_SIMULATOR="1", TRIFOLD_SEED="x")
    assert done.stderr.startswith("trifold.simulator: seed is 'x'")
    assert "Traceback" not in done.stderr
    assert done.returncode == 2


def test_the_start_up_file_does_nothing_unasked(folder):
    (folder / "look.py").write_text(
        "import sys; print([m for m in sys.modules if m.startswith(('trifold.', 'numba'))])"
    )
    assert run(folder, "look.py").stdout == "[]\n"


def test_importing_the_package_imports_no_numba(folder):
    source = "import sys, trifold, trifold.simulator; trifold.KernelFault\n"
    source += "print('numba' in sys.modules, 'torch' in sys.modules)"
    assert run(folder, "-c", source).stdout == "False False\n"


def test_too_late_is_said(folder):
    source = "import numba.cuda\nfrom trifold import simulator\nsimulator.install()"
    assert "numba.cuda was imported for a GPU before" in run(folder, "-c", source).stderr
    early = "import numba\nfrom trifold import simulator\nsimulator.install()\nfrom numba import cuda; print(cuda.grid)"
    assert run(folder, "-c", early).returncode == 0


def test_numbas_own_simulator_may_be_loaded_already(folder):
    source = "from numba import cuda\nfrom trifold import simulator\nsimulator.install()\nprint(cuda.grid)"
    assert run(folder, "-c", source, NUMBA_ENABLE_CUDASIM="1").returncode == 0


def test_the_pytest_option(folder):
    (folder / "test_it.py").write_text(
        "import numpy as np\nfrom program import kernel\n"
        "def test_right(): kernel[1, 1](np.zeros(1))\ndef test_racy(): kernel[1, 2](np.zeros(1))\n"
    )
    words = ("-m", "pytest", "-q", "-p", "no:cacheprovider")
    done = run(folder, *words, "--simulator", "--simulator-seed", "2", "--simulator-report", "found.json")
    assert "1 failed, 1 passed" in done.stdout
    assert "replay: --seed 2" in done.stdout
    assert len(json.loads((folder / "found.json").read_text())["findings"]) == 1
    assert "2 passed" in run(folder, *words, "--simulator", "--simulator-checks", "none").stdout
    done = run(folder, *words, "--simulator", "--simulator-checks", "wrong")
    assert "there is no check 'wrong'" in done.stderr
    done = run(folder, *words, "--simulator-seed", "2")
    assert "need --simulator" in done.stderr


ALLOWED = """
import sys
import numpy as np
from numba import cuda

@cuda.jit
def kernel(out, x):
    out[0] = cuda.threadIdx.x  # trifold: allow race, any will do
    x[cuda.threadIdx.x] = 1  # trifold: allow race, not any more

@cuda.jit
def wrong(out, x):
    out[0] = cuda.threadIdx.x

if __name__ == "__main__":
    launched = wrong if sys.argv[1:] == ["wrong"] else kernel
    for _ in range(2):
        launched[1, 32](np.zeros(1), np.zeros(32))
    print("ended")
"""


def test_what_is_accepted_is_summed_up_at_the_end(folder):
    (folder / "allowed.py").write_text(ALLOWED)
    done = simulate(folder, "allowed.py")
    assert (done.returncode, done.stdout) == (0, "ended\n")
    assert done.stderr.splitlines() == [
        "accepted by allowed.py:8: race on out in kernel at allowed.py:8, 62 times: any will do",
        "allowed, but did not occur: race at allowed.py:9 (not any more)",
    ]
    (folder / "pyproject.toml").write_text('[tool.trifold]\nsuppressions = "known.toml"\n')
    (folder / "known.toml").write_text(
        '[[suppression]]\nkind = "race"\nkernel = "wrong"\nreason = "of others"\n'
        '[[suppression]]\nkind = "misaligned"\nreason = "long ago"\n'
    )
    done = simulate(folder, "allowed.py", "wrong")
    assert (done.returncode, done.stdout) == (0, "ended\n")
    assert done.stderr.splitlines() == [
        "accepted by known.toml, entry 1: race on out in wrong at allowed.py:13, 62 times: of others",
        "allowed, but did not occur: misaligned at known.toml, entry 2 (long ago)",
    ]


def test_keep_going_lets_the_program_end_and_its_processes_too(folder):
    (folder / "allowed.py").write_text(ALLOWED)
    (folder / "parent.py").write_text(
        "import subprocess, sys\nsys.exit(subprocess.call([sys.executable, 'allowed.py', 'wrong']))"
    )
    assert simulate(folder, "allowed.py", "wrong").returncode == 1
    for words in (("allowed.py", "wrong"), ("parent.py",)):
        done = simulate(folder, "--keep-going", *words)
        assert (done.returncode, done.stdout) == (1, "ended\n")
        assert done.stderr.startswith("62 times: race on global array element out[0] in kernel wrong: ")
        assert done.stderr.endswith("replay: --seed 0\n\n62 findings at 1 place\n")


SUITE = """
import numpy as np, pytest
from allowed import kernel, wrong

@pytest.mark.parametrize("n", range(5))
def test_wrong(n):
    wrong[1, 32](np.zeros(1), np.zeros(32))

def test_allowed():
    kernel[1, 32](np.zeros(1), np.zeros(32))
"""


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["alone", "xdist"])
def test_a_suite_is_summed_up_by_place(folder, workers):
    (folder / "allowed.py").write_text(ALLOWED)
    (folder / "test_suite.py").write_text(SUITE)
    words = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "--simulator", *workers)
    done = run(folder, *words, "--simulator-keep-going")
    assert done.returncode == 1
    assert "6 passed" in done.stdout
    assert "155 times: race on global array element out[0] in kernel wrong" in done.stdout
    assert "and 2 more tests" in done.stdout
    assert "accepted by allowed.py:8: race on out in kernel at allowed.py:8, 31 times: any will do" in done.stdout
    assert "allowed, but did not occur: race at allowed.py:9 (not any more)" in done.stdout
    assert "155 findings at 1 place\n" in done.stdout
    if workers:
        return
    done = run(folder, *words)
    assert "5 failed, 1 passed" in done.stdout
    assert "5 times: race on global array element out[0] in kernel wrong" in done.stdout
    assert "did not occur" not in done.stdout  # the launches that failed have not come to their ends
    done = run(folder, *words, "-k", "allowed")
    assert (done.returncode, "allowed, but did not occur" in done.stdout) == (0, True)


# Options and findings without a process -------------------------------------------------------------------------------


def test_options_nest_and_come_back():
    before = simulator.current()
    with simulator.options(checks="race", seed=3, lint=True) as outer:
        assert outer.checks == {"race", "bounds", "lint"}
        with simulator.options(checks=["uninitialised"]):
            assert simulator.current().seed == 3
            assert simulator.current().checks == {"uninitialised", "bounds"}
    assert simulator.current() == before
    with pytest.raises(OptionError), simulator.options(seed=-1):
        pass
    assert simulator.current() == before


def test_a_report_may_be_of_some_launches_alone(tmp_path):
    from numba import cuda

    @cuda.jit
    def kernel(out):
        out[0] = cuda.threadIdx.x

    with simulator.options(report=tmp_path / "found.json"), pytest.raises(KernelFault):
        kernel[1, 2](np.zeros(1))
    with pytest.raises(KernelFault):
        kernel[1, 2](np.zeros(1))
    assert len(json.loads((tmp_path / "found.json").read_text())["findings"]) == 1


def test_the_environment_carries_all_options(tmp_path):
    chosen = parsed(
        simulator.current(),
        checks="race",
        seed=7,
        schedules=3,
        report=tmp_path / "r.json",
        compute_capability=(8, 6),
        keep_going=True,
        suppressions=tmp_path / "known.toml",
    )
    assert parsed(simulator.current(), **from_environment(to_environment(chosen))) == chosen


def test_a_fault_travels_between_processes():
    import pickle

    finding = Finding("race", "error", "kernel", "global", "x", (1, 2), "words", (), seed=4)
    fault = pickle.loads(pickle.dumps(KernelFault(finding)))
    assert fault.findings == (finding,)
    assert str(fault) == "words\nreplay: --seed 4"
    assert json.loads(json.dumps(finding.to_json()))["index"] == [1, 2]
