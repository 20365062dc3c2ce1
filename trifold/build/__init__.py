"""Compiles a port: ``cuda_src/<op>.cu`` by g++ for the CPU, by nvcc for CUDA; once for each state of its sources."""

from trifold.build.compile import build, compile_only
from trifold.build.library import BuiltLibrary, CompiledObject, Manifest
from trifold.build.parallel import BuildRequest, build_all
from trifold.cells import Device

__all__ = [
    "BuildRequest",
    "BuiltLibrary",
    "CompiledObject",
    "Device",
    "Manifest",
    "build",
    "build_all",
    "compile_only",
]
