"""Sizes drawn at random, for ``trifold bench --shapes random:80 --seed 1``: shapes that no kernel was tuned for.

Only ``Random.random`` is used: Python guarantees its numbers for a seed in all versions, but not those of ``choice``
and ``randrange``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from random import Random
from typing import TypeVar

T = TypeVar("T")

# Sizes of a case: ``draw(random, least, most)`` returns them for a tensor of ``least`` to ``most`` elements.
Draw = Callable[[Random, int, int], tuple[int, ...]]

LEAST_COLUMNS, MOST_COLUMNS = 64, 262_144

# Widths of rows in published models: hidden sizes, of their feed-forward layers, and of their vocabularies.
MODEL_COLUMNS = (
    *(768, 1024, 1280, 1600, 50_257),  # GPT-2
    *(4096, 5120, 8192, 11_008, 13_824, 28_672, 32_000),  # Llama 2
    *(2048, 3072, 16_384, 14_336, 53_248, 128_256),  # Llama 3
    *(896, 1536, 3584, 18_944, 29_568, 151_936, 152_064),  # Qwen 2.5
    *(1152, 2304, 2560, 3840, 4608, 5376, 21_504, 256_000, 262_144),  # Gemma 2 and 3
    *(7168, 18_432, 129_280),  # DeepSeek-V3
    *(2880, 201_088),  # gpt-oss
    *(6144, 12_288, 32_768),  # Mixtral 8x22B, Mistral Large 2
)


def between(random: Random, least: int, most: int) -> int:
    """A number from ``least`` to ``most``, uniform in its logarithm: as many in 64 to 128 as in 1,024 to 2,048."""
    drawn = math.exp(math.log(least) + random.random() * math.log((most + 1) / least))
    return min(max(int(drawn), least), most)


def one_of(random: Random, values: Sequence[T]) -> T:
    return values[int(random.random() * len(values))]


def vector(random: Random, least: int, most: int) -> tuple[int]:
    """A number of elements; half of them are multiples of 8."""
    elements = between(random, least, most)
    return ((elements if random.random() < 0.5 else max(elements - elements % 8, least)),)


def columns(random: Random) -> int:
    """From 64 to 262,144, of four kinds with equal chances: multiples of 8, powers of two, of a published model, odd.

    Those of models are drawn with equal chances; the others are uniform in their logarithm.
    """
    kind = int(random.random() * 4)
    if kind == 0:
        return 8 * between(random, LEAST_COLUMNS // 8, MOST_COLUMNS // 8)
    if kind == 1:
        return 1 << int(6 + random.random() * 13)
    if kind == 2:
        return one_of(random, MODEL_COLUMNS)
    return between(random, LEAST_COLUMNS, MOST_COLUMNS - 1) | 1


def matrix(random: Random, least: int, most: int) -> tuple[int, int]:
    """Rows and columns of a matrix; its elements are uniform in their logarithm, up to a part of a row."""
    width = columns(random)
    elements = between(random, least, most)
    return min(max(round(elements / width), -(-least // width)), max(most // width, 1)), width
