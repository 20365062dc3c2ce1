"""Compiles one source for the CPU by calling g++: ``python -P checked.py request.json``.

Not imported. Where it is to be checked, g++ compiles to assembly, where each variable of thread storage (a kernel's
shared arrays are such) gets some bytes behind it that belong to nobody, so that an index one too far is no other
array's. Then it is assembled and linked.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

GAP_BYTES = 64

# Not the copies of the standard library's templates, which are instrumented: no other library may use them.
EXPORTS = "{ global: trifold_*; local: *; };\n"


_SECTION = re.compile(r"\s*\.(?:section\s+)?(\.[\w.]+|text|data|bss)\b")
_OBJECT = re.compile(r"\s*\.type\s+\S+, @object")
_LOCAL = re.compile(r"\s*\.comm\s")


def with_gaps(assembly: str) -> str:
    """The assembly with gaps between its variables; symbols keep their sizes.

    One lies behind each zeroed variable of thread storage, and one in front of each variable of the library.
    """
    lines: list[str] = []
    section, alignment = "", ""
    for line in assembly.splitlines():
        if found := _SECTION.match(line):
            section, alignment = "." + found[1].lstrip("."), ""
        elif re.match(r"\s*\.align\s", line):
            alignment = line
        kept = section.startswith((".data", ".bss", ".trifold_constant"))
        of_the_library = kept and not section.startswith(".data.rel.ro")
        if of_the_library and _OBJECT.match(line):
            lines += [f"\t.zero\t{GAP_BYTES}", *([alignment] if alignment else [])]
        lines.append(line)
        if section.startswith(".tbss") and re.match(r"\s*\.zero\s+\d+", line):
            lines.append(f"\t.zero\t{GAP_BYTES}")
        if _LOCAL.match(line):  # the assembler sets these aside one after the other
            gap = f".Lgap_{len(lines)}"
            lines += [f"\t.local\t{gap}", f"\t.comm\t{gap},{GAP_BYTES},1"]
    return "\n".join(lines) + "\n"


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
        compiled.write_text(with_gaps(compiled.read_text(encoding="utf-8")), encoding="utf-8")
    exports = source.with_suffix(".map")
    exports.write_text(EXPORTS, encoding="utf-8")
    shape = ["-pie" if program else "-shared", f"-Wl,--version-script={exports}"]
    return subprocess.run([compiler, *shape, str(compiled), *request["link_flags"], "-o", made]).returncode


if __name__ == "__main__":
    sys.exit(main())
