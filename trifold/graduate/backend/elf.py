"""The requirements of a shared library: its undefined symbols, with their versions, and the libraries it names.

Reads the dynamic section of 64-bit little-endian ELF (System V ABI, "Dynamic Linking"; symbol versions as in the Linux
Standard Base, "Symbol Versioning").
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

_MAGIC = b"\x7fELF\x02\x01"
_PT_LOAD, _PT_DYNAMIC = 1, 2
_NEEDED, _STRTAB, _SYMTAB, _SONAME, _VERSYM, _VERNEED, _VERNEEDNUM, _GNU_HASH, _HASH = (
    1, 5, 6, 14, 0x6FFFFFF0, 0x6FFFFFFE, 0x6FFFFFFF, 0x6FFFFEF5, 4,
)  # fmt: skip
_WEAK = 2


@dataclass(frozen=True)
class Undefined:
    """A symbol that another library must provide.

    Attributes:
        version: such as ``GLIBC_2.34``; empty: any.
        library: the one that defines the version, such as ``libc.so.6``.
        weak: it may be missing.
    """

    name: str
    version: str
    library: str
    weak: bool


@dataclass(frozen=True)
class SharedLibrary:
    """The dynamic section of a library.

    Attributes:
        needed: the libraries that it names.
        undefined, defined: its symbols.
        versions: (library, version) pairs that the loader requires before it binds a symbol: those of the undefined
            symbols, and marks of the format such as ``GLIBC_ABI_DT_RELR``, which no symbol has.
    """

    needed: tuple[str, ...]
    undefined: tuple[Undefined, ...]
    defined: tuple[str, ...]
    versions: tuple[tuple[str, str], ...]

    @classmethod
    def read(cls, path: Path) -> SharedLibrary:
        """Raises ``ValueError`` if ``path`` is not such a library."""
        return cls.parse(path.read_bytes())

    @classmethod
    def parse(cls, data: bytes) -> SharedLibrary:
        """Raises ``ValueError`` if ``data`` is not such a library."""
        if data[:6] != _MAGIC:
            raise ValueError("not a 64-bit little-endian ELF file")
        try:
            return _Reader(data).library()
        except (struct.error, KeyError, IndexError, StopIteration, UnicodeDecodeError) as error:
            raise ValueError(f"a broken ELF file: {error!r}") from None


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        offset, size, count = struct.unpack_from("<Q", data, 32)[0], *struct.unpack_from("<HH", data, 54)
        segments = [struct.unpack_from("<IIQQQQQQ", data, offset + i * size) for i in range(count)]
        self._loaded = [(at, start, length) for kind, _, start, at, _, length, *_ in segments if kind == _PT_LOAD]
        where = next((start, length) for kind, _, start, _, _, length, *_ in segments if kind == _PT_DYNAMIC)
        entries = [struct.unpack_from("<QQ", data, at) for at in range(where[0], sum(where), 16)]
        self._tags = dict(reversed(entries))
        self._needed = [value for tag, value in entries if tag == _NEEDED]
        self._strings = self._offset(self._tags[_STRTAB])

    def library(self) -> SharedLibrary:
        versions = self._versions()
        undefined, defined = [], []
        table, version_at = self._offset(self._tags[_SYMTAB]), self._offset(self._tags.get(_VERSYM, 0))
        for index in range(1, self._symbol_count()):
            name, info, _, section = struct.unpack_from("<IBBH", self._data, table + 24 * index)
            text = self._string(name)
            if section != 0:
                defined.append(text)
                continue
            number = struct.unpack_from("<H", self._data, version_at + 2 * index)[0] if version_at else 0
            version, library = versions.get(number & 0x7FFF, ("", ""))
            undefined.append(Undefined(text, version, library, info >> 4 == _WEAK))
        needed = tuple(map(self._string, self._needed))
        every = tuple((library, version) for version, library in versions.values())
        return SharedLibrary(needed, tuple(undefined), tuple(defined), every)

    def _offset(self, address: int) -> int:
        return next((start + address - at for at, start, length in self._loaded if at <= address < at + length), 0)

    def _string(self, index: int) -> str:
        begin = self._strings + index
        return self._data[begin : self._data.index(b"\0", begin)].decode()

    def _versions(self) -> dict[int, tuple[str, str]]:
        found: dict[int, tuple[str, str]] = {}
        at = self._offset(self._tags.get(_VERNEED, 0))
        for _ in range(self._tags.get(_VERNEEDNUM, 0)):
            _, count, file, first, following = struct.unpack_from("<HHIII", self._data, at)
            entry = at + first
            for _ in range(count):
                _, _, number, name, next_entry = struct.unpack_from("<IHHII", self._data, entry)
                found[number] = (self._string(name), self._string(file))
                entry += next_entry
                if next_entry == 0:
                    break
            at += following
            if following == 0:
                break
        return found

    def _symbol_count(self) -> int:
        """The number of symbols, which no tag states: from the hash table. GNU's covers the defined symbols, which are
        last."""
        if _HASH in self._tags:
            return int(struct.unpack_from("<I", self._data, self._offset(self._tags[_HASH]) + 4)[0])
        at = self._offset(self._tags[_GNU_HASH])
        buckets, first, bloom, _ = struct.unpack_from("<IIII", self._data, at)
        heads = at + 16 + 8 * bloom
        last = max(struct.unpack_from(f"<{buckets}I", self._data, heads))
        if last < first:
            return int(first)
        chains = heads + 4 * buckets
        while not struct.unpack_from("<I", self._data, chains + 4 * (last - first))[0] & 1:
            last += 1
        return int(last) + 1
