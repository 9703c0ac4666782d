"""The order that JavaScript's `localeCompare` gives to execution ids.

The product sorts matrix rows with it, so that rows made here and there stand in the same order. Only
the characters of ids are covered: ASCII letters and digits, `.`, `_` and `-`.
"""

import string

# `_` before `-` before `.`, these before digits, digits before letters, letters without regard to case.
_WITHOUT_CASE = str.maketrans(f"_-.{string.ascii_uppercase}", f"\x01\x02\x03{string.ascii_lowercase}")


def build_sort_key(text: str) -> tuple[str, str]:
    """Return a key that sorts as `localeCompare` does in the root collation of ICU.

    Case counts only between texts that are otherwise equal: the first difference decides, lower first.
    """
    # Swapped, because ASCII has upper case first.
    return text.translate(_WITHOUT_CASE), text.swapcase()
