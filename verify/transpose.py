"""transpose: what it must satisfy."""

import math
from collections.abc import Callable

import torch
from hypothesis import strategies as st
from torch import Tensor

from trifold.spec import (
    DTYPES,
    FILLS,
    ROW_LAYOUTS,
    BadCall,
    Benchmark,
    Call,
    Case,
    Limits,
    Property,
    Sample,
    Spec,
    Target,
    TensorCase,
    any_size,
    large,
    tensors,
)
from trifold.spec.case import Layout
from trifold.spec.drawn import matrix

_INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.bool)
_ALL_DTYPES = (*DTYPES, *_INTEGERS, torch.complex64)
#: Of 1, 2, 4 and 8 bytes.
_ONE_OF_EACH_SIZE = (torch.uint8, torch.bfloat16, torch.float32, torch.float64)

_BATCHES = ((), (1,), (3,), (2, 3))
# Around the edge of a tile, of elements and of words of 2 and 4; odd, even and a multiple of 4.
_SIDES = (1, 2, 3, 4, 8, 31, 32, 33, 63, 64, 65, 66, 100, 127, 128, 129, 132, 257, 1000)
_MISALIGNED: tuple[Layout, ...] = ("offset", "padded")
_EMPTY = ((0, 3), (3, 0), (0, 0), (0, 2, 3), (2, 0, 3), (2, 3, 0))


@st.composite
def _shapes(draw: st.DrawFn, limits: Limits) -> tuple[int, ...]:
    if limits.fewest == 0 and draw(st.integers(0, 9)) == 9:
        return draw(st.sampled_from(_EMPTY))
    batch = draw(st.sampled_from([batch for batch in _BATCHES if math.prod(batch) <= limits.largest_factor]))
    matrices = limits.over(math.prod(batch))
    side = draw(st.sampled_from([n for n in _SIDES[:17] if n <= matrices.largest_factor]))
    other = draw(any_size(matrices.over(side), _SIDES))
    return (*batch, *draw(st.permutations((side, other))))


def _calls(limits: Limits) -> st.SearchStrategy[Call]:
    drawn = tensors(_shapes(limits), dtypes=_ALL_DTYPES, layouts=ROW_LAYOUTS, fills=FILLS)
    return drawn.map(lambda x: Call((x,)))


def _call(
    shape: tuple[int, ...], dtype: torch.dtype = torch.float64, layout: Layout = "contiguous", offset: int = 1
) -> Call:
    return Call((TensorCase(shape, dtype, layout, seed=7, offset=offset),))


def _bits(shape: tuple[int, ...], bytes_of_each: int, device: str) -> Tensor:
    """Random bits, as integers with this many bytes."""
    generator = torch.Generator().manual_seed(11)
    random = torch.randint(0, 256, (*shape, bytes_of_each), dtype=torch.uint8, generator=generator)
    integer = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[bytes_of_each]
    return random.view(integer).squeeze(-1).to(device)


def _rarer_dtypes(function: Callable[..., Tensor], device: str) -> None:
    """The dtypes that drawn calls do not have."""
    for dtype in (torch.float8_e4m3fn, torch.float8_e5m2, torch.uint16, torch.uint32, torch.uint64, torch.complex32):
        bits = _bits((33, 68), dtype.itemsize, device)
        got = function(bits.view(dtype)).view(bits.dtype)
        assert torch.equal(got, bits.transpose(-1, -2)), f"bits of {dtype} change"


def _bit_for_bit(function: Callable[..., Tensor], device: str) -> None:
    """Preserves all bits, including those of a nan, which conversion to a wider type and back would change."""
    for shape in ((33, 65), (36, 68), (2, 40, 4)):
        for dtype in _ALL_DTYPES:
            bits = _bits(shape, dtype.itemsize, device)
            if dtype == torch.bool:
                bits = bits % 2  # the only bytes that a bool may have
            got = function(bits.view(dtype)).view(bits.dtype)
            assert torch.equal(got, bits.transpose(-1, -2)), f"bits of {dtype} change in {shape}"


def _twice(function: Callable[..., Tensor], device: str) -> None:
    """The transpose of the transpose has the same numbers in new memory."""
    for dtype in _ONE_OF_EACH_SIZE:
        x = TensorCase((3, 36, 68), dtype, seed=2).make(device)
        y = function(function(x))
        assert torch.equal(y, x), f"two transposes change a tensor of {dtype}"
        assert y.data_ptr() != x.data_ptr(), "the result is the argument's memory"


# Cells of 2 and 4 elements; odd sides; one column; more matrices of a single tile each than 2^26.
_LARGE = ((65_540, 32_772), (65_539, 32_771), (2**31 + 5, 1), (2**26 + 1, 8, 4))


def _large(function: Callable[..., Tensor], device: str) -> None:
    """More than 2³¹ elements of 1 and 2 bytes, all of them compared."""
    for shape in _LARGE:
        for dtype in (torch.uint8, torch.float16):
            x = torch.randint(0, 100, shape, dtype=torch.uint8, device=device).to(dtype)
            y = function(x)
            for part, turned in zip(x.chunk(8, -2), y.chunk(8, -1), strict=True):
                assert torch.equal(part.transpose(-1, -2), turned), f"{dtype} in {shape} is another tensor's transpose"
            del x, y, part, turned


def _bad_call(name: str, x: object, *mentions: str) -> BadCall:
    return BadCall(name, lambda device: ([x.to(device) if isinstance(x, Tensor) else x], {}), ("x", *mentions))


def _eager(x: Tensor) -> Tensor:
    return x.transpose(-1, -2).contiguous()


_BENCHMARK_SIZES = (
    *((1024, 1024), (4096, 4096), (16_384, 16_384), (65_536, 1024), (256, 1024, 512)),
    (8191, 8193),  # no words of two elements
)

spec = Spec(
    calls=_calls,
    smooth=[_call((3, 2)), _call((2, 1, 3)), _call((2, 4))],
    samples=[
        Sample("one row", _call((1, 37), torch.float32), "the result is one column: a copy, but another shape"),
        Sample("a column", _call((37, 1), torch.float32), "all but one lane of each warp have no element"),
        Sample(
            "several tiles", _call((70, 40), torch.float32), "tile (i, j) becomes tile (j, i), of a ragged edge too"
        ),
        Sample("batch", _call((3, 33, 34), torch.float32), "a tile must not go into the next matrix"),
        Sample(
            "many matrices", _call((700, 3, 2), torch.float32), "more than fit in eight bits, or in a block's tiles"
        ),
        Sample("many of words", _call((700, 4, 8), torch.uint8), "the same of elements that are swapped within words"),
        Sample("cells of 2", _call((66, 70), torch.bfloat16), "elements are swapped within words, words within tiles"),
        Sample("cells of 4", _call((132, 140), torch.uint8), "elements are swapped within words, words within tiles"),
        Sample("odd of 1 byte", _call((65, 67), torch.uint8), "a row that is not a whole number of words"),
        Sample("special", Call((TensorCase((5, 7), fill="special"),)), "nan and the sign of 0 are moved as they are"),
    ],
    edges=[
        _call(shape, dtype, layout, offset)
        for dtype in _ONE_OF_EACH_SIZE
        for shape, layout, offset in (
            *(
                ((rows, columns), "contiguous", 1)
                for rows, columns in ((1, 1), (32, 32), (33, 31), (64, 64), (128, 136))
            ),
            *(((4, 40, 12), layout, 1) for layout in ROW_LAYOUTS),
            # Rows that begin at an odd element, at a word of two, and at a word of four.
            *(((36, 40), layout, offset) for layout in _MISALIGNED for offset in (1, 2, 4)),
            ((2, 3, 8, 4), "contiguous", 1),
            ((1, 8, 1), "transposed", 1),
            ((0, 4), "contiguous", 1),
        )
    ]
    + [_call((36, 40), dtype) for dtype in _ALL_DTYPES],
    bad_calls=[
        _bad_call("a row", torch.ones(3), "(3,)", "two dimensions"),
        _bad_call("a number", torch.ones(()), "()", "two dimensions"),
        _bad_call("elements of 16 bytes", torch.ones(2, 2, dtype=torch.complex128), "complex128"),
        _bad_call("not a tensor", "three"),
    ],
    properties=[
        Property("bits", _bit_for_bit, "nothing is computed"),
        Property("rarer dtypes", _rarer_dtypes, "the size of an element is all that counts", implementations=("port",)),
        Property("twice", _twice, "it is its own inverse"),
        large(_large, gpu_memory=28 * 2**30),
    ],
    rounded_once="ports/transpose.py: the result has bit for bit the elements of x",
    gradients_rounded_once="ports/transpose.py: the gradient is the transpose of the upstream gradient",
    rounding_error=lambda reference, x: torch.zeros_like(reference(x)),
    # Integers have no upstream gradient.
    gradient_rounding_error=lambda reference, *grad_and_x: torch.zeros_like(grad_and_x[-1]),
    benchmarks=[
        Benchmark(
            name="forward",
            cases=tuple(Case(" × ".join(map(str, sizes)), sizes) for sizes in _BENCHMARK_SIZES),
            arguments=lambda device, dtype, case: (torch.randn(case.sizes, device=device, dtype=dtype),),
            eager=_eager,
            bytes=lambda case, dtype: 2 * math.prod(case.sizes) * dtype.itemsize,
            draw=matrix,
            host=Case("64 × 256", (64, 256)),
            targets=(
                Target(measure="over eager", at_least=0.9),
                Target(measure="over torch.compile", at_least=0.9),
                Target(measure="over eager", at_least=1 / 1.3, method="host: no grad"),
            ),
        ),
    ],
)
