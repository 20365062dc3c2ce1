"""Names of ops and of workspaces: which are usable, and why others are not."""

from __future__ import annotations

import builtins
import keyword
import re

from trifold.errors import TrifoldError

LONGEST = 30

_WORDS_OF_CPP = (
    "alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t char32_t class compl "
    "concept const consteval constexpr constinit const_cast continue co_await co_return co_yield decltype default "
    "delete do double dynamic_cast else enum explicit export extern false float for friend goto if inline int long "
    "mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected public register "
    "reinterpret_cast requires return short signed sizeof static static_assert static_cast struct switch template this "
    "thread_local throw true try typedef typeid typename union unsigned using virtual void volatile wchar_t while xor "
    "xor_eq"
)
CPP_KEYWORDS = frozenset(_WORDS_OF_CPP.split())

# Functions that C's headers declare outside any namespace, and that would conflict with a binding's function of the
# same name. Those shared with PyTorch are most of <math.h>.
_FUNCTIONS_OF_C = (
    "acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp10 exp2 expm1 fabs fdim floor "
    "fma fmax fmin fmod frexp gamma hypot ilogb j0 j1 jn ldexp lgamma llrint llround log log10 log1p log2 logb lrint "
    "lround max min modf nan nearbyint nextafter nexttoward norm pow remainder remquo rint round rsqrt scalbln scalbn "
    "signbit signgam significand sin sincos sincospi sinh sinpi cospi sqrt tan tanh tgamma trunc y0 y1 yn normcdf "
    "normcdfinv erfinv erfcinv erfcx rcbrt rhypot norm3d norm4d rnorm3d rnorm4d roundeven arg conj drem finite imag "
    "isfinite isinf isnan proj real saturate scalb "
    "abort abs access alarm atexit atof atoi atol bcmp bcopy brk bsearch bzero calloc chdir chown clock close confstr "
    "ctime daemon difftime div dup execl execv exit fclose ffs fork free getc getenv gets gmtime index isalpha isatty "
    "kill labs ldiv link localtime lockf lseek main malloc memchr memcmp memcpy memmove memset mktime nice open "
    "pause perror pipe printf putc puts qsort raise rand random read realloc remove rename rewind rindex rmdir scanf "
    "select setenv signal sleep srand srandom stat stime strcat strchr strcmp strcpy strlen strtod swab symlink sync "
    "syscall system time times tolower toupper truncate umask ungetc unlink usleep valloc vfork wait write"
)
_OF_C = frozenset(_FUNCTIONS_OF_C.split())
# Names with another meaning in the generated files, or in a workspace.
_NAMES_OF_OURS = (
    "conftest cuda kernel math numba numpy op port prototype reference register spec std tensor torch trifold wire "
    "alike block_sum check_alike check_floating elementwise elementwise_bad_calls elementwise_output "
    "elementwise_smooth flat launch launch_elementwise normals output philox_normal philox_state shapes tensors "
    "check_rows data dense float64 launch_rows mutable_data row_shapes st "
    "any_size blocks_for check_table launch_for row_output row_smooth row_tensors rows warp_scan"
)
_OF_OURS = frozenset(_NAMES_OF_OURS.split())


class UnusableName(TrifoldError):
    """A name that cannot be used."""


def check_op_name(name: str) -> None:
    """Raise :class:`UnusableName` if an op cannot be called ``name``; the remedy is a usable name."""
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        plain = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")
        suggestion = plain if re.fullmatch(r"[a-z][a-z0-9_]*", plain) else f"op_{plain}".rstrip("_")
        raise UnusableName(
            f"an op cannot be called '{name}': its files, functions and kernels have its name",
            f"use lower-case letters, digits and underscores, and begin with a letter: {suggestion}",
        )
    if len(name) > LONGEST:
        raise UnusableName(f"an op's name has at most {LONGEST} characters, '{name}' has {len(name)}", "shorten it")
    if keyword.iskeyword(name) or keyword.issoftkeyword(name) or name in CPP_KEYWORDS:
        raise UnusableName(f"an op cannot be called '{name}', which is a word of Python or C++", f"call it my_{name}")
    if hasattr(builtins, name):
        raise UnusableName(f"an op cannot be called '{name}', which is a function of Python", f"call it my_{name}")
    if name in _OF_C or (name[-1] in "fl" and name[:-1] in _OF_C):  # also expf and expl for exp
        raise UnusableName(f"an op cannot be called '{name}', which is a function of C's headers", f"call it my_{name}")
    if name in _OF_OURS or name.startswith("test_"):
        raise UnusableName(f"an op cannot be called '{name}', which means something else here", f"call it my_{name}")


def project_name(folder: str) -> str:
    """The name of a workspace's project, derived from its folder's, as PyPI accepts it.

    Raises:
        UnusableName: the folder's name has neither a letter nor a digit.
    """
    name = re.sub(r"[^a-z0-9]+", "-", folder.lower()).strip("-")
    if not name:
        raise UnusableName(f"no project's name can be made of the folder '{folder}'", "use letters or digits in it")
    return name
