"""Prints the path of gdb's script for ports: ``python -m trifold.debug.gdb_script``, for ``source`` in gdb."""

from __future__ import annotations

from pathlib import Path

GDB_SCRIPT = Path(__file__).with_name("gdb") / "session.py"

if __name__ == "__main__":
    print(GDB_SCRIPT)
