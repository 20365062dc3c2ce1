"""The names of macros of C++'s standard headers, which nothing in C++ can be named."""

from __future__ import annotations

import errno
from itertools import product


def _joined(*parts: str) -> set[str]:
    return {"".join(each) for each in product(*(part.split(" ") for part in parts))}


_INTEGERS = {
    *_joined("CHAR SCHAR SHRT INT LONG LLONG INTMAX INTPTR PTRDIFF SIG_ATOMIC WCHAR WINT", "_MIN _MAX"),
    *_joined("UCHAR USHRT UINT ULONG ULLONG UINTMAX UINTPTR SIZE MB_LEN RAND FILENAME FOPEN TMP PATH NAME", "_MAX"),
    *_joined(" U", "INT", " _LEAST _FAST", "8 16 32 64", "_MIN _MAX _WIDTH _C"),
    *_joined("LONG_LONG ULONG_LONG SSIZE LINE IOV HOST_NAME", "_MAX"),
    *("CHAR_BIT", "LONG_BIT", "WORD_BIT", "PIPE_BUF", "NZERO", "INTMAX_C", "UINTMAX_C"),
}
_FLOATS = {
    *_joined("FLT DBL LDBL", "_MAX _MIN _EPSILON _DIG _MANT_DIG _MAX_EXP _MIN_EXP _MAX_10_EXP _MIN_10_EXP _TRUE_MIN"),
    *_joined("FLT DBL LDBL", "_DECIMAL_DIG _HAS_SUBNORM"),
    *("DECIMAL_DIG", "FLT_RADIX", "FLT_ROUNDS", "FLT_EVAL_METHOD"),
    *_joined("HUGE_VAL", " F L"),
    *_joined("FP_", "NAN INFINITE ZERO SUBNORMAL NORMAL FAST_FMA FAST_FMAF FAST_FMAL ILOGB0 ILOGBNAN"),
    *_joined("M_", "E LOG2E LOG10E LN2 LN10 PI PI_2 PI_4 1_PI 2_PI 2_SQRTPI SQRT2 SQRT1_2"),
    *("INFINITY", "NAN", "MATH_ERRNO", "MATH_ERREXCEPT", "math_errhandling"),
}
_SYSTEM = {
    *(name for name in dir(errno) if name.startswith("E")),
    *("errno", "NULL", "EOF", "BUFSIZ", "SEEK_SET", "SEEK_CUR", "SEEK_END", "L_tmpnam", "stdin", "stdout", "stderr"),
    *("BIG_ENDIAN", "LITTLE_ENDIAN", "BYTE_ORDER", "MAXFLOAT", "linux", "unix"),
    *("EXIT_SUCCESS", "EXIT_FAILURE", "MB_CUR_MAX", "CLOCKS_PER_SEC", "assert", "offsetof", "alloca"),
}

MACROS = frozenset(_INTEGERS | _FLOATS | _SYSTEM)
