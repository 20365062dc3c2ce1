"""Parsing of a compiler's output. The logs are g++ 12's and nvcc 13's own, cut."""

from __future__ import annotations

from pathlib import Path

import pytest

from trifold.build.diagnostics import LONGEST_MESSAGE, summarise

USER = Path("/home/u/ws/cuda_src")

KILLED = "error: a compiler was killed (signal 9), as Linux does where memory runs out: build fewer at once"

LOGS = {
    "g++: at the user's line, warnings and notes left out": (
        """\
[1/2] /usr/bin/g++ -MMD -MF main.o.d -c main.cpp -o main.o
FAILED: main.o
/home/u/ws/cuda_src/a.cu: In function 'torch::stable::Tensor f(const torch::stable::Tensor&)':
/home/u/ws/cuda_src/a.cu:10:3: error: expected ',' or ';' before 'return'
   10 |   return z;
      |   ^~~~~~
/home/u/ws/cuda_src/a.cu:11:1: warning: no return statement in function returning non-void [-Wreturn-type]
/home/u/ws/cuda_src/a.cu:12:9: error: no matching function for call to 'g(int) [with T = std::vector<int [3]>]'
/home/u/ws/cuda_src/a.cu:8:5: note: candidate: 'void g()'
ninja: build stopped: subcommand failed.
RuntimeError: Error building extension 'a'
""",
        [
            "/home/u/ws/cuda_src/a.cu:10:3: error: expected ',' or ';' before 'return'",
            "/home/u/ws/cuda_src/a.cu:12:9: error: no matching function for call to 'g(int)'",
        ],
    ),
    "g++: why the candidates of a call do not match": (
        """\
/home/u/ws/cuda_src/a.cu:6:41: error: no matching function for call to 'empty(const Tensor&, int, ScalarType)'
/opt/trifold/include/trifold/binding.h:4:8: note: candidate: 'Tensor empty(const Tensor&, int, int32_t)'
/opt/trifold/include/trifold/binding.h:4:44: note:   no known conversion for argument 3 from 'ScalarType' to 'int32_t'
/opt/trifold/include/trifold/binding.h:5:8: note: candidate: 'Tensor empty(const Tensor&, int)'
/opt/trifold/include/trifold/binding.h:5:8: note:   candidate expects 2 arguments, 3 provided
/home/u/ws/cuda_src/a.cu:8:19: error: no matching function for call to 'g(int, double)'
/home/u/ws/cuda_src/a.cu:7:22: note: candidate: 'template<class T> T g(T, T)'
/home/u/ws/cuda_src/a.cu:8:19: note:   deduced conflicting types for parameter 'T' ('int' and 'double')
""",
        [
            "/home/u/ws/cuda_src/a.cu:6:41: error: no matching function for call to 'empty(const Tensor&, int, "
            "ScalarType)': no known conversion for argument 3 from 'ScalarType' to 'int32_t', or candidate expects 2 "
            "arguments, 3 provided",
            "/home/u/ws/cuda_src/a.cu:8:19: error: no matching function for call to 'g(int, double)': deduced "
            "conflicting types for parameter 'T' ('int' and 'double')",
        ],
    ),
    "g++: an error in a header is shown where the user instantiates it": (
        """\
In file included from /opt/trifold/include/trifold/binding.h:7,
                 from /home/u/ws/cuda_src/a.cu:1:
/opt/trifold/include/trifold/binding.h: In instantiation of 'std::string trifold::schema_of(R (*)(A ...))':
/opt/trifold/include/trifold/binding.h:327:49:   required from 'void trifold::implement(const char*)'
/home/u/ws/cuda_src/a.cu:16:48:   required from here
/opt/trifold/include/trifold/binding.h:316:55: error: static assertion failed: a type that no schema has
/opt/trifold/include/trifold/binding.h:316:55: note: 'false' evaluates to false
""",
        ["/home/u/ws/cuda_src/a.cu:16:48: error: static assertion failed: a type that no schema has"],
    ),
    "g++: an error in a header that is not instantiated is shown where the user includes it": (
        """\
In file included from /opt/torch/include/ATen/core/Tensor.h:3,
                 from /opt/torch/include/ATen/ATen.h:7,
                 from /home/u/ws/cuda_src/a.cuh:4,
                 from /home/u/ws/cuda_src/a.cu:2:
/opt/torch/include/c10/core/Scalar.h:5:2: error: #error "This file should not be included"
""",
        ['/home/u/ws/cuda_src/a.cuh:4: error: #error "This file should not be included"'],
    ),
    "nvcc: the caret gives the column": (
        """\
/home/u/ws/cuda_src/a.cu(10): error: expected a ";"
    return z;
    ^

/home/u/ws/cuda_src/a.cu(11): warning #940-D: missing return statement at end of non-void function "f"
  }
  ^

/home/u/ws/cuda_src/a.cu(12): error: identifier "nothing" is undefined
  int f() { return nothing; }
                   ^

2 errors detected in the compilation of "cuda.cu".
""",
        [
            '/home/u/ws/cuda_src/a.cu:10:3: error: expected a ";"',
            '/home/u/ws/cuda_src/a.cu:12:18: error: identifier "nothing" is undefined',
        ],
    ),
    "nvcc: an error in a header is shown where the user instantiates it": (
        """\
/opt/trifold/include/trifold/binding.h(316): error: static assertion failed with "a type that no schema has"
    static_assert(((schema_type<std::remove_cvref_t<A>> != nullptr) && ...),
    ^
          detected during:
            instantiation of "std::string trifold::schema_of(R (*)(A...)) [with R=Tensor, A=<float>]" at line 327
            instantiation of "void trifold::implement<Function>() [with Function=<unnamed>::f]" at line 16 of \
/home/u/ws/cuda_src/a.cu

1 error detected in the compilation of "cuda.cu".
""",
        ['/home/u/ws/cuda_src/a.cu:16: error: static assertion failed with "a type that no schema has"'],
    ),
    "nvcc: each pass repeats an error": (
        '/home/u/ws/cuda_src/a.cu(3): error: expected a ";"\n' * 2,
        ['/home/u/ws/cuda_src/a.cu:3: error: expected a ";"'],
    ),
    "ptxas": (
        """\
ptxas /tmp/tmpxft_00003545_00000000-6_a.ptx, line 21; error   : Not a name of any known instruction: 'bogus'
ptxas fatal   : Ptx assembly aborted due to errors
""",
        ["error: Not a name of any known instruction: 'bogus'"],
    ),
    "nvcc refuses its arguments": (
        "nvcc fatal   : Unsupported gpu architecture 'compute_30'\n",
        ["error: nvcc fatal   : Unsupported gpu architecture 'compute_30'"],
    ),
    "the linker": (
        """\
FAILED: a.so
/usr/bin/ld: main.o: in function `g()':
main.cpp:(.text+0x5): undefined reference to `f()'
/usr/bin/ld: main.cpp:(.text+0x9): undefined reference to `f()'
collect2: error: ld returned 1 exit status
RuntimeError: Error building extension 'a'
""",
        ["error: undefined reference to `f()'"],
    ),
    "g++'s compiler is killed": (
        "g++: fatal error: Killed signal terminated program cc1plus\ncompilation terminated.\n",
        [KILLED],
    ),
    "one of nvcc's programs is killed, which it does not report": (
        "FAILED: [code=137] cuda.cuda.o\nnvcc -c cuda.cu -o cuda.cuda.o\nninja: build stopped: subcommand failed.\n"
        "RuntimeError: Error building extension 'a'\n",
        [KILLED],
    ),
    "nvcc's shell reports it": ("Killed\nninja: build stopped: subcommand failed.\n", [KILLED]),
    "killed, after an error in the user's file": (
        "/home/u/ws/cuda_src/a.cu:1:2: error: no\nKilled\n",
        ["/home/u/ws/cuda_src/a.cu:1:2: error: no"],
    ),
    "nvcc's optimiser": (
        "FAILED: [code=1] cuda.o\nerror: Failed to read bitcode\n\nninja: build stopped: subcommand failed.\n",
        ["error: Failed to read bitcode"],
    ),
    "load_inline itself fails": (
        'Traceback (most recent call last):\n  File "x.py", line 1\nValueError: Unknown CUDA arch (1.0)\n',
        ["error: ValueError: Unknown CUDA arch (1.0)"],
    ),
    "nothing that looks like an error": ("one\n\ntwo\n", ["one", "two"]),
    "nothing at all": ("", ["error: the compilers said nothing"]),
    "colours": (
        "\x1b[01m\x1b[K/home/u/ws/cuda_src/a.cu:1:2:\x1b[m\x1b[K \x1b[01;31m\x1b[Kerror: \x1b[m\x1b[Kno\n",
        ["/home/u/ws/cuda_src/a.cu:1:2: error: no"],
    ),
    "at most a handful": (
        "".join(f"/home/u/ws/cuda_src/a.cu:{n}:1: error: wrong\n" for n in range(1, 8)),
        [*(f"/home/u/ws/cuda_src/a.cu:{n}:1: error: wrong" for n in range(1, 6)), "... and 2 more errors"],
    ),
}


@pytest.mark.parametrize("name", LOGS)
def test_errors(name: str) -> None:
    log, expected = LOGS[name]
    assert summarise(log, USER).splitlines() == expected


def test_a_long_message_is_cut() -> None:
    line = summarise(f"/home/u/ws/cuda_src/a.cu:1:1: error: {'x' * 1000}\n", USER)
    assert len(line) == len("/home/u/ws/cuda_src/a.cu:1:1: error: ") + LONGEST_MESSAGE
    assert line.endswith("x...")


def test_a_path_in_the_current_folder_is_shown_relative_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    log = f"{tmp_path}/cuda_src/add.cu:12:3: error: no\n"
    assert summarise(log, tmp_path / "cuda_src") == "cuda_src/add.cu:12:3: error: no"
