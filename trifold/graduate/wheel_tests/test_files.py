"""The package on the disk is the one that was built."""

from __future__ import annotations

import ctypes
import hashlib
import unittest

from trifold.graduate.wheel_tests import package


class Files(unittest.TestCase):
    def test_each_file_has_the_hash_that_was_recorded(self) -> None:
        for name, digest in package.metadata()["files"].items():
            with self.subTest(name):
                content = (package.FOLDER.parent / name).read_bytes()
                self.assertEqual(hashlib.sha256(content).hexdigest(), digest)

    def test_each_library_implements_what_the_schemas_say(self) -> None:
        for (op, device), kernels in package.module().package.kernels.items():
            if kernels.path is None:
                continue
            with self.subTest(op, device=device):
                manifest = ctypes.CDLL(str(kernels.path)).trifold_manifest
                manifest.restype = ctypes.c_char_p
                lines = [line.split("\t") for line in manifest().decode().splitlines()]
                implemented = {name: types for kind, name, types in lines if kind == "implementation"}
                declared = package.module().package.operators(op).schemas
                self.assertEqual(implemented, {name: schema.types for name, schema in declared.items()})
