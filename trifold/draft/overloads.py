"""Which functions of C++ may have one name."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Signature:
    """The parameters of a function or of a template, as text.

    Attributes:
        types: of the parameters.
        letters: the template's types.
    """

    types: tuple[str, ...]
    letters: frozenset[str] = frozenset()

    @classmethod
    def of(cls, types: tuple[str, ...], template: str) -> Signature:
        """``template`` is the list of the template's parameters: ``"class T, class U"``."""
        return cls(types, frozenset(re.findall(r"class (\w+)", template)))

    def allows(self, other: Signature) -> bool:
        """Whether a function with the other signature can have the same name, so that no call is ambiguous.

        >>> plain = Signature(("double",))
        >>> generic = Signature(("T",), frozenset("T"))
        >>> plain.allows(plain), plain.allows(generic)
        (False, True)
        >>> Signature(("T", "T"), frozenset("T")).allows(Signature(("T", "double"), frozenset("T")))
        False
        """
        if self.types == other.types:
            return False
        if not self.letters or not other.letters or len(self.types) != len(other.types):
            return True  # of a template and a function that fit equally well, C++ takes the function
        if not all(self._meets(a, b, other) for a, b in zip(self.types, other.types, strict=True)):
            return True
        return self._fits(other) or other._fits(self)

    def _meets(self, own: str, theirs: str, other: Signature) -> bool:
        """Whether an argument may have both types."""
        if own.endswith("*") != theirs.endswith("*"):
            return False
        return own == theirs or self._letters_in(own) or other._letters_in(theirs)

    def _letters_in(self, kind: str) -> bool:
        return not self.letters.isdisjoint(re.findall(r"\w+", kind))

    def _fits(self, general: Signature) -> bool:
        """Whether this is a case of the other template, which C++ then prefers."""
        found: dict[str, str] = {}
        for own, theirs in zip(self.types, general.types, strict=True):
            plain = theirs.removeprefix("const ").removesuffix("*")
            if plain in general.letters:
                found.setdefault(plain, own_plain := own.removeprefix("const ").removesuffix("*"))
                if found[plain] != own_plain:
                    return False
            elif not general._letters_in(theirs) and own != theirs:
                return False
        return True
