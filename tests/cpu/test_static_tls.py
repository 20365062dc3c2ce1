"""The library of the emulated device leaves room in static TLS for other libraries of the process."""

from __future__ import annotations

import struct

from trifold.installed import cpu_library

TLS_SEGMENT = 7  # PT_TLS


def test_the_librarys_thread_local_variables_are_few() -> None:
    """glibc has some 1.6 KB of static TLS for all libraries that are loaded after the program's start, and refuses one
    that finds too little. With 848 bytes this one was refused where torch and a wheel of ports were loaded before."""
    elf = cpu_library().read_bytes()
    headers, size, count = struct.unpack_from("<Q14xHH", elf, 0x20)
    segments = [struct.unpack_from("<I36xQ", elf, headers + size * number) for number in range(count)]
    (in_memory,) = [length for kind, length in segments if kind == TLS_SEGMENT]
    assert 0 < in_memory <= 512
