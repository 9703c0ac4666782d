"""Find files of hidden trees that have a second name outside of them: hard links.

Run once by the harness before its first launch, or by the launcher with `--scan-aliases`: package
stores and local clones make hard links on purpose, and one `ln` by an agent would stop later launches.
"""

from os import scandir, strerror

from .plan import Plan
from .refusal import Refusal

_KIND, _DIRECTORY = 0o170000, 0o040000


class Alias:
    """A file that is hidden under `path` and has `outside` more names elsewhere."""

    __slots__ = ("outside", "path")

    def __init__(self, path: bytes, outside: int) -> None:
        self.path = path
        self.outside = outside


def scan_aliases(tops: list[bytes], exposed: set[bytes]) -> list[Alias]:
    """Return the files beneath `tops` with names outside; names beneath an exposure are outside.

    Raises OSError for a directory that cannot be read. A `top` that is missing or no directory is
    passed over. About 3 µs a file.
    """
    paths: dict[tuple[int, int], bytes] = {}
    outside: dict[tuple[int, int], int] = {}
    pending = list(tops)
    while pending:
        directory = pending.pop()
        try:
            entries = scandir(directory)
        except (FileNotFoundError, NotADirectoryError):
            continue
        with entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    if entry.path not in exposed:
                        pending.append(entry.path)
                    continue
                if entry.is_symlink():
                    continue
                status = entry.stat(follow_symlinks=False)
                if status.st_nlink > 1 and entry.path not in exposed:
                    key = (status.st_dev, status.st_ino)
                    paths.setdefault(key, entry.path)
                    outside[key] = outside.get(key, status.st_nlink) - 1
    return [Alias(paths[key], count) for key, count in outside.items() if count > 0]


def refuse_aliases(plan: Plan) -> None:
    """Refuse a plan when a hidden file can be read by another name."""
    tops = [path for path in plan.hidden if not _inside_another(path, plan)]
    try:
        aliases = scan_aliases(tops, plan.exposed)
    except OSError as error:
        raise Refusal(
            "hard-link-alias",
            f"a hidden tree cannot be searched for hard links: {strerror(error.errno or 0)}",
            "make it readable for the launcher, or leave --scan-aliases out",
            path=error.filename if isinstance(error.filename, bytes) else None,
            errno=error.errno,
        ) from error
    if aliases:
        first = min(aliases, key=lambda alias: alias.path)
        raise Refusal(
            "hard-link-alias",
            f"{len(aliases)} hidden file(s) can be read by another name; the first has"
            f" {first.outside} outside",
            "remove the other names (find -samefile lists them), or copy instead of linking",
            path=first.path,
        )


def _inside_another(path: bytes, plan: Plan) -> bool:
    from .names import parents

    return any(parent in plan.hidden for parent in parents(path))
