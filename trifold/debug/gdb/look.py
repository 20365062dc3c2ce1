"""gdb's view of a port on the CPU: coordinates and half types as values, and only the user's own stack frames.

gdb runs this file with its own Python, where trifold is not installed.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gdb
import gdb.printing

INCLUDE_ROOT = Path(__file__).resolve().parents[2] / "include"
# Functions that kernels call and that are worth stepping through; the other headers are the dialect, the launch, and
# single instructions.
_OTHERS = {"cuda.cuh", "launch.cuh", "packed.cuh", "async_copies.cuh", "cluster.cuh"}
DEVICE_LIBRARY = frozenset(path.name for path in (INCLUDE_ROOT / "trifold").glob("*.cuh")) - _OTHERS


class _Coordinates:
    """uint3 and dim3 in the format of findings: ``(3, 0, 0)``."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def to_string(self) -> str:
        return str(coordinates(self._value))


class _Half:
    """A 16-bit number, shown as a float."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def to_string(self) -> str:
        return f"{self.number(_bits(self._value)):g}"

    def number(self, bits: int) -> float:
        value: float = struct.unpack("<e", struct.pack("<H", bits))[0]
        return value


class _BFloat16(_Half):
    def number(self, bits: int) -> float:
        value: float = struct.unpack("<f", struct.pack("<I", bits << 16))[0]
        return value


def _bits(value: Any) -> int:
    """The first number in a structure, or in its base."""
    while value.type.strip_typedefs().code == gdb.TYPE_CODE_STRUCT:
        value = value[value.type.strip_typedefs().fields()[0]]
    return int(value)


def coordinates(value: Any) -> tuple[int, int, int]:
    return int(value["x"]), int(value["y"]), int(value["z"])


def other_threads() -> list[str]:
    """The state of the other threads of the block, a line for each group.

    Such as ``threads (0..35, 0, 0) waiting in syncthreads() at sigmoid.cuh:61``. Calls a function of the engine.
    """
    gdb.execute("sharedlibrary libtrifold_cpu", to_string=True)
    listed = gdb.parse_and_eval("((const char* (*)()) trifold_cpu_whereabouts)()").string()
    return [_group(*line.split("\t")) for line in listed.splitlines()]


def _group(threads: str, doing: str, place: str) -> str:
    if place == "0":
        return f"{threads} {doing}"
    if place.isdigit():  # the return address of their last call
        where = gdb.find_pc_line(int(place) - 1)
        if where.symtab is None or _is_dialects(Path(where.symtab.fullname())):
            return f"{threads} {doing}"
        place = f"{where.symtab.filename}:{where.line}"
    return f"{threads} {doing} at {Path(place).name}"


def _printers() -> Any:
    printers = gdb.printing.RegexpCollectionPrettyPrinter("trifold")
    printers.add_printer("coordinates", "^(uint3|dim3)$", _Coordinates)
    printers.add_printer("half", "^(__half|c10::Half)$", _Half)
    printers.add_printer("bfloat16", "^(__nv_bfloat16|c10::BFloat16)$", _BFloat16)
    return printers


def _is_port(objfile: Any) -> bool:
    return objfile is not None and objfile.lookup_global_symbol("trifold_manifest") is not None


def is_users(frame: Any) -> bool:
    """Whether a frame is the port's own code or the device library's, rather than the engine's or another library's."""
    where = frame.find_sal().symtab
    if where is None or not _is_port(where.objfile):
        return False
    file = Path(where.fullname())
    return not (_is_dialects(file) or file.is_relative_to("/usr") or "torch" in file.parts)


def _is_dialects(file: Path) -> bool:
    return file.is_relative_to(INCLUDE_ROOT) and file.name not in DEVICE_LIBRARY


class _Filter:
    """Keeps the user's own frames in a backtrace; all frames if there are none."""

    name = "trifold"
    enabled = True
    priority = 100

    def filter(self, frames: Iterator[Any]) -> Iterator[Any]:
        every = list(frames)
        return iter([frame for frame in every if is_users(frame.inferior_frame())] or every)


def install() -> None:
    """Register the printers and the filter, and let steps skip code that is not the user's."""
    gdb.printing.register_pretty_printer(None, _printers(), replace=True)
    hide = _Filter()
    gdb.frame_filters[hide.name] = hide
    headers = [str(path) for path in INCLUDE_ROOT.rglob("*") if path.is_file() and path.name not in DEVICE_LIBRARY]
    for pattern in (*headers, "/usr/include/*", "/usr/lib/*", "*/torch/*"):
        gdb.execute(f"skip -gfile {pattern}", to_string=True)
