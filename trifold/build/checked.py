"""Compiles one source for the CPU by calling g++: ``python -P checked.py request.json``.

Not imported. For a checked build, g++ compiles to assembly, in which unused bytes are inserted after each thread-local
variable (which shared arrays are), so that an index one past the end hits no other array, and a table states how much
shared memory each function uses. Then it is assembled and linked. A program is linked as a library too, with an
executable that starts it: the linker fixes the address of an executable's thread-local storage, while blocks that wait
for each other need copies of it (engine/cpu/slots.h).
"""

import json
import re
import subprocess
import sys
from pathlib import Path

GAP_BYTES = 64

# Not the instrumented copies of the standard library's templates: no other library may use them.
EXPORTS = "{ global: trifold_*; main; local: *; };\n"


_TABLE = "trifold_shared_arrays"  # engine/cpu/module.cpp

_SECTION = re.compile(r"\s*\.(?:section\s+)?(\.[\w.]+|text|data|bss)\b")
_OF_THE_LIBRARY = (".data", ".bss", ".trifold_constant")
_OBJECT = re.compile(r"\s*\.type\s+\S+, @object")
_LOCAL = re.compile(r"\s*\.comm\s")


def with_gaps(assembly: str) -> str:
    """The assembly with gaps between its variables; symbols keep their sizes.

    One follows each zeroed thread-local variable, and one precedes each variable of the library.
    """
    lines: list[str] = []
    section, alignment = "", ""
    for line in assembly.splitlines():
        if found := _SECTION.match(line):
            section, alignment = "." + found[1].lstrip("."), ""
        elif re.match(r"\s*\.align\s", line):
            alignment = line
        of_the_library = section.startswith(_OF_THE_LIBRARY) and not section.startswith(".data.rel.ro")
        if of_the_library and _OBJECT.match(line):
            lines += [f"\t.zero\t{GAP_BYTES}", *([alignment] if alignment else [])]
        lines.append(line)
        if section.startswith(".tbss") and re.match(r"\s*\.zero\s+\d+", line):
            lines.append(f"\t.zero\t{GAP_BYTES}")
        if _LOCAL.match(line):  # the assembler places these one after the other
            gap = f".Lgap_{len(lines)}"
            lines += [f"\t.local\t{gap}", f"\t.comm\t{gap},{GAP_BYTES},1"]
    return "\n".join(lines) + "\n"


_FUNCTION = re.compile(r"\s*\.type\s+(\S+), @function")
_CALL = re.compile(r"\s*(?:call|jmp)\s+([\w.$]+)")
_SHARED = re.compile(r"(_ZZ[\w.$]+)@(?:dtpoff|tlsgd)")
_SHARED_SIZE = re.compile(r"\s*\.size\s+(_ZZ[\w.$]+), (\d+)")


def table_of_shared_arrays(assembly: str) -> str:
    """Assembly of a table: the functions that use shared arrays, themselves or in callees, and these arrays' bytes.

    libtrifold_cpu compares a kernel's bytes with the limit of a block. Calls through pointers are not followed.
    """
    users: dict[str, set[str]] = {}
    callers: dict[str, set[str]] = {}
    sizes: dict[str, int] = {}
    function = ""
    for line in assembly.splitlines():
        if found := _FUNCTION.match(line):
            function = found[1]
        elif "@" in line and (found := _SHARED.search(line)):
            users.setdefault(found[1], set()).add(function)
        elif found := _CALL.match(line):
            callers.setdefault(found[1], set()).add(function)
        elif found := _SHARED_SIZE.match(line):
            sizes[found[1]] = int(found[2])
    totals: dict[str, int] = {}
    for array, reached in users.items():
        left = list(reached)
        while left:
            new = callers.get(left.pop(), set()) - reached
            reached |= new
            left += new
        for name in reached:
            totals[name] = totals.get(name, 0) + sizes.get(array, 0)
    rows = [f"\t.quad\t{name}, {total}" for name, total in sorted(totals.items())]
    end = ["\t.quad\t0, 0", f"\t.type\t{_TABLE}, @object", f"\t.size\t{_TABLE}, {16 * (len(rows) + 1)}"]
    return "\n".join(['\t.section\t.data.rel.ro.trifold,"aw"', "\t.balign\t8", f"{_TABLE}:", *rows, *end, ""])


def main() -> int:
    request = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    compiler, source, made = request["compiler"], Path(request["source"]), request["library"]
    checked, program = request.get("checked", True), request.get("program", False)
    compiled = source.with_suffix(".s" if checked else ".o")
    flags = [*request["compile_flags"], "-S" if checked else "-c"]
    done = subprocess.run([compiler, *flags, str(source), "-o", str(compiled)])
    if done.returncode != 0:
        return done.returncode
    if checked:
        assembly = compiled.read_text(encoding="utf-8")
        assembly = assembly.replace("\t.hidden\tmain\n", "")  # overrides -fvisibility=hidden for the executable
        compiled.write_text(with_gaps(assembly) + table_of_shared_arrays(assembly), encoding="utf-8")
    exports = source.with_suffix(".map")
    exports.write_text(EXPORTS, encoding="utf-8")
    library = f"{made}.so" if program else made
    shape = ["-shared", f"-Wl,--version-script={exports},-soname,{Path(library).name}"]
    done = subprocess.run([compiler, *shape, str(compiled), *request["link_flags"], "-o", library])
    if done.returncode != 0 or not program:
        return done.returncode
    # The executable consists of the C library's startup code, which calls the library's main.
    return subprocess.run([compiler, library, "-Wl,-rpath,$ORIGIN", "-o", made]).returncode


if __name__ == "__main__":
    sys.exit(main())
