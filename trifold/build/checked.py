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


def with_gaps(assembly: str) -> str:
    """The assembly with a gap behind each zeroed variable of thread storage; symbols keep their sizes."""
    lines = []
    in_thread_storage = False
    for line in assembly.splitlines():
        if section := re.match(r"\s*\.(section\s+)?(\.tbss|tbss|text|data|bss|\.[\w.]+)", line):
            is_section = section[1] is not None or section[2] in ("text", "data", "bss")
            in_thread_storage = section[2] == ".tbss" or (in_thread_storage and not is_section)
        lines.append(line)
        if in_thread_storage and re.match(r"\s*\.zero\s+\d+", line):
            lines.append(f"\t.zero\t{GAP_BYTES}")
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
