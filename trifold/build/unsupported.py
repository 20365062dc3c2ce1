"""CUDA C++ features that the CPU lacks: named at their line, with a remedy.

In a port, after g++ has refused the line; in CUDA text (cuda_refusals.py), for features that are ``in_text``, before.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_GUARD = "put it in #ifndef TRIFOLD_CPU, with another way for the CPU in #else"


@dataclass(frozen=True)
class Feature:
    """A feature of CUDA C++.

    Attributes:
        name: as in the message.
        pattern: matches a line that uses it.
        remedy: what the user can do.
        in_text: the pattern is specific: wherever it occurs in CUDA text, it is an error.
    """

    name: str
    pattern: re.Pattern[str]
    remedy: str
    in_text: bool = False

    def __str__(self) -> str:
        return f"{self.name} cannot be compiled for the CPU: {self.remedy}"


# Inline PTX of device code is already C++ when g++ reads it (inline_ptx.py).
ASSEMBLY = Feature(
    "asm outside of device functions",
    re.compile(r"\b(?:asm|__asm__|__asm)\b\s*(?:volatile\b|__volatile__\b)?\s*\("),
    "mark its function __device__, if it is inline PTX",
)
FEATURES = (
    Feature(
        "a tensor-core fragment of less than 8 bits", re.compile(r"\bwmma\s*::\s*experimental\b"), _GUARD, in_text=True
    ),
    Feature(
        "a texture reference",
        re.compile(r"\btexture\s*<|\bcudaBindTexture\w*"),
        "CUDA 12 removed them: make a texture object (cudaCreateTextureObject)",
        in_text=True,
    ),
    Feature(
        "a mipmap, a cubemap or a gather of a texture",
        re.compile(
            r"\b(?:tex|surf)Cubemap\w*|\btex[123]D(?:Layered)?(?:Lod|Grad)\b|\btex2Dgather\b|\bcuda\w*Mipmap\w*Array\w*"
        ),
        _GUARD,
        in_text=True,
    ),
    # Programs have them; ports do not.
    Feature("a texture", re.compile(r"\btex[123]D\w*\b|\bcudaTextureObject_t\b"), _GUARD),
    Feature("a surface", re.compile(r"\bsurf[123]D\w*\b|\bcudaSurfaceObject_t\b"), _GUARD),
    Feature(
        "a cooperative launch on several devices",
        re.compile(r"\bcudaLaunchCooperativeKernelMultiDevice\b"),
        _GUARD,
        in_text=True,
    ),
    Feature(
        "an accessor of a tensor",
        re.compile(r"\b(?:Generic)?(?:Packed)?TensorAccessor(?:32|64|Base)?\b"),
        "pass the kernel a pointer, and sizes and strides as numbers",
    ),
    Feature("a float of less than 8 bits", re.compile(r"\b__nv_fp[46]\w*|<cuda_fp[46]\.h>"), _GUARD),
    Feature(
        "a part of libcu++ (cuda::) that docs/ports-on-the-cpu.md does not list",
        re.compile(
            r"\bcuda::(?!ptx\b|barrier\b|device\b|thread_scope|\w*pipeline|memcpy_async\b|aligned_size_t\b|std::|"
            r"maximum\b|minimum\b|latch\b|\w+_semaphore\b|(?:atomic|memory_order)\w*\b)"
            r"|<cuda/(?!ptx>|barrier>|pipeline>|atomic>|functional>|latch>|semaphore>|std/)"
        ),
        _GUARD,
    ),
    Feature(
        "a part of CUB that docs/cuda-programs.md does not list",
        re.compile(
            r"\bcub::(?:Device(?!Reduce\b|SegmentedReduce\b|Scan\b|Select\b|RadixSort\b|Histogram\b|RunLengthEncode\b)\w+|Grid\w+|"
            r"CachingDeviceAllocator|BlockRadixRank\w*|BlockRunLengthDecode|\w+MergeSort|Warp(?:Load|Store|Exchange))\b"
        ),
        "write it as a kernel, with CUB's collectives of a warp and a block",
        in_text=True,
    ),
    Feature(
        "a part of Thrust that docs/cuda-programs.md does not list",
        re.compile(
            r"\bthrust::(?:(?:async|mr|omp|tbb|system::omp|system::tbb)::\w+|(?:random::)?ranlux\w+|shuffle\w*|set_\w+_by_key|"
            r"(?:random::)?(?:discard_block|subtract_with_carry|xor_combine|linear_feedback_shift)_engine|"
            r"iterator_(?:adaptor|facade)|transform_input_output_iterator|offset_iterator|\w+_unique|"
            r"universal_host_pinned_vector)\b"
        ),
        "write it as a kernel",
        in_text=True,
    ),
    Feature(
        "a tensor map of im2col",
        re.compile(r"\bcuTensorMapEncodeIm2col\w*|\bcuTensorMapReplaceAddress\b"),
        "encode a tiled one (cuTensorMapEncodeTiled)",
        in_text=True,
    ),
    Feature(
        "cuRAND's host API",
        re.compile(r"\bcurand(?:Create|Destroy|Generate|Set|Get)\w*\s*\("),
        "draw in a kernel, with <curand_kernel.h>",
        in_text=True,
    ),
    Feature(
        "a generator of cuRAND's quasi-random numbers or its Mersenne twister",
        re.compile(r"\bcurandState(?:Scrambled)?(?:Sobol|Mtgp)\w+|\bcurandDirectionVectors\w+"),
        "use XORWOW, Philox or MRG32k3a",
        in_text=True,
    ),
    Feature("a launch with <<<...>>>", re.compile(r"<<<"), "launch with trifold::launch<kernel>(...) instead"),
)


def feature_of(line: str) -> Feature | None:
    """The feature used by a source line that the CPU lacks."""
    code = line.split("//")[0]
    return next((feature for feature in FEATURES if feature.pattern.search(code)), None)


def feature_at(file: Path, number: int) -> Feature | None:
    """The same for a file's line; None also if it cannot be read."""
    try:
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    return feature_of(lines[number - 1]) if 0 < number <= len(lines) else None


def assembly_in(sources: Iterable[Path]) -> list[tuple[Path, int]]:
    """Files and lines with inline assembly. g++ does not check it, and the assembler's errors name none of these
    lines."""
    return [
        (path, number)
        for path in sources
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1)
        if ASSEMBLY.pattern.search(line.split("//")[0])
    ]
