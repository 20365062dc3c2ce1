"""Compiles one port for the CPU with checks: ``python -P checked.py request.json``.

Not imported. g++ compiles to assembly, where each variable of thread storage (a kernel's shared arrays are such) gets
some bytes behind it that belong to nobody, so that an index one too far is no other array's. Then it is assembled and
linked.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

GAP_BYTES = 64

# Not the copies of the standard library's templates, which are instrumented: no other library may use them.
EXPORTS = "{ global: trifold_manifest; local: *; };\n"


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
    compiler, source, library = request["compiler"], Path(request["source"]), request["library"]
    assembly = source.with_suffix(".s")
    flags = request["compile_flags"]
    done = subprocess.run([compiler, *flags, "-S", str(source), "-o", str(assembly)])
    if done.returncode == 0:
        assembly.write_text(with_gaps(assembly.read_text(encoding="utf-8")), encoding="utf-8")
        exports = source.with_suffix(".map")
        exports.write_text(EXPORTS, encoding="utf-8")
        shape = ["-shared", f"-Wl,--version-script={exports}"]
        link = [compiler, *shape, str(assembly), *request["link_flags"], "-o", library]
        done = subprocess.run(link)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
