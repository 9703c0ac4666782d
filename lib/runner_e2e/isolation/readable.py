"""What of an instance stays readable for a launch that is not its own, as the table in SECURITY.md. Pure."""

from runner_e2e.isolation.layout import (
    BESIDE,
    CHECKED_AGAINST,
    INSTANCE,
    PLACES,
    READABLE,
    SHARED,
    TEMPORARY_ROOT,
    TMP,
)

BEGIN = "<!-- readable places: begin, made by scripts/render-readable --write -->"
END = "<!-- readable places: end -->"

_WHERE = {
    INSTANCE: "",
    TEMPORARY_ROOT: "beside the instance: ",
    BESIDE: "temporary directory: ",
    TMP: "/tmp/",  # noqa: S108 - to name it
}
_ACCESS = {SHARED: "read and write", READABLE: "read"}


def build_table() -> str:
    """Return the table, with the versions that it was checked against."""
    lines = [
        f"Checked against Paperclip {', '.join(CHECKED_AGAINST)}. Paths are relative to the instance root.",
        "",
        "| place | access of all launches | what it is |",
        "|---|---|---|",
    ]
    lines += [
        f"| {_where(root, pattern)} | {_ACCESS[kind]} | {why} |"
        for root, pattern, kind, why in PLACES
        if kind in _ACCESS
    ]
    return "\n".join(lines) + "\n"


def replace_table(text: str) -> str:
    """Return a page with the table between its two marks; raises ValueError for one that lacks a mark."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"The page has no {BEGIN if not begin else END}")
    return f"{before}{BEGIN}\n\n{build_table()}\n{END}{after}"


def _where(root: str, pattern: str) -> str:
    prefix = _WHERE[root]
    return f"`{prefix}{pattern}`" if prefix.startswith("/") else f"{prefix}`{pattern}`"
