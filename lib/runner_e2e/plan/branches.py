"""The rule for names of branches."""

import re

MAX_BRANCH = 255

# What git refuses anywhere in a name (git-check-ref-format), and characters that no log survives.
_REFUSED = re.compile(r"[\x00-\x20\x7f-\x9f\u2028\u2029\ud800-\udfff~^:?*\[\\]|\.\.|@\{")


def is_branch_name(text: str) -> bool:
    """Whether `text` is a branch as git allows one: no `refs/` before it, no `..`, at most 255 characters."""
    parts = text.split("/")
    return (
        len(text) <= MAX_BRANCH
        and not text.startswith(("-", "refs/"))
        and not text.endswith(".")
        and text not in {"@", "HEAD"}
        and _REFUSED.search(text) is None
        and all(part and not part.startswith(".") and not part.endswith(".lock") for part in parts)
    )
