"""Prove a plan: open what is hidden before and after restricting, and read what is exposed."""

from errno import EACCES, ENOENT
from os import (
    O_CLOEXEC,
    O_DIRECTORY,
    O_NOCTTY,
    O_NOFOLLOW,
    O_NONBLOCK,
    O_RDONLY,
    close,
    fsdecode,
    fstat,
    read,
    scandir,
    strerror,
)
from os import open as open_descriptor

from .plan import Hidden, Plan
from .refusal import Refusal

_PROOF_FLAGS = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC
_KIND, _DIRECTORY = 0o170000, 0o040000

# What a proof found: see `Proof.outcomes`.
LANDLOCK, FILE_MODE, ANCESTOR = "landlock", "file-mode", "ancestor"


class Proof:
    """Opens each hidden path before and after restricting and judges the difference.

    `outcomes` maps each hidden path to `landlock` (open before, EACCES after), `file-mode` (closed by
    file modes already: recorded, never a proof) or `ancestor` (a missing optional path).
    """

    __slots__ = ("_before", "outcomes")

    def __init__(self, plan: Plan) -> None:
        self.outcomes: dict[bytes, str] = {}
        self._before: list[tuple[Hidden, bytes, int, int]] = []
        for hidden in plan.hidden.values():
            follow = 0 if hidden.kind == "link" else O_NOFOLLOW
            self._before.append((hidden, hidden.path, follow, _try_open(hidden.path, follow)))
            self._before += [
                (hidden, spelling, 0, _try_open(spelling, 0))
                for spelling in hidden.spellings
                if hidden.kind == "path"
            ]

    def complete(self, plan: Plan) -> None:
        """Open everything again, inside the domain; refuses whatever is not denied."""
        # With only missing paths hidden, this is all that shows the domain to be real.
        for directory in (b"/",) if b"/" in plan.withheld else ():
            if _try_open(directory, O_DIRECTORY) != EACCES:
                raise Refusal(
                    "hidden-readable",
                    "the root directory can still be listed inside the domain, so nothing is enforced",
                    "report this; something answers in the kernel's place",
                    path=directory,
                )
        for hidden, path, follow, before in self._before:
            after = _try_open(path, follow)
            outcome = _judge(hidden, before, after)
            if outcome is None:
                raise _unproven(plan, hidden, path, after)
            if outcome != LANDLOCK and before == EACCES:
                holder = plan.mounts.holding(hidden.path)
                if holder is not None and not holder.reliable:
                    raise _unreliable(hidden.path, holder.kind)
            known = self.outcomes.get(hidden.path)
            if known is None or outcome == LANDLOCK:
                self.outcomes[hidden.path] = outcome


def check_exposed(plan: Plan) -> None:
    """Open and read each exposed path as the command will, inside the domain and without privileges."""
    for path in plan.exposed:
        try:
            descriptor = open_descriptor(path, _PROOF_FLAGS | O_NOFOLLOW)
            try:
                if fstat(descriptor).st_mode & _KIND == _DIRECTORY:
                    with scandir(descriptor) as entries:
                        next(entries, None)
                else:
                    read(descriptor, 1)
            finally:
                close(descriptor)
        except BlockingIOError:
            continue  # an empty FIFO answers so: it is open
        except OSError as error:
            raise Refusal(
                "expose-unreadable",
                f"a path to expose cannot be read inside the domain: {strerror(error.errno or 0)}",
                "give the agent's user read permission on it",
                path=path,
                errno=error.errno,
            ) from error


def _try_open(path: bytes, follow: int) -> int:
    """Return 0 when the path can be opened for reading, else the errno."""
    try:
        close(open_descriptor(path, _PROOF_FLAGS | follow))
    except OSError as error:
        return error.errno or EACCES
    return 0


def _judge(hidden: Hidden, before: int, after: int) -> str | None:
    if before == EACCES:
        return FILE_MODE if after == EACCES else None
    if hidden.optional and (after == ENOENT or (before == ENOENT and after == EACCES)):
        return ANCESTOR
    # Before, a socket answers ENXIO and a broken link ENOENT: the change to EACCES is the domain's.
    return LANDLOCK if after == EACCES else None


def _unproven(plan: Plan, hidden: Hidden, path: bytes, after: int) -> Refusal:
    holder = plan.mounts.holding(hidden.path)
    if holder is not None and not holder.reliable:
        return _unreliable(hidden.path, holder.kind)
    if after == ENOENT:
        return Refusal(
            "hide-missing",
            "a hidden path vanished while the domain was entered, so its denial is not proven",
            "do not remove hidden paths while a launch starts, or use --hide-optional",
            path=path,
            errno=after,
        )
    return Refusal(
        "hidden-readable",
        "a hidden path can still be opened inside the domain"
        if after == 0
        else f"a hidden path is not denied inside the domain: {strerror(after)}",
        "report this with the output of --explain: the domain does not hold here",
        path=path,
        errno=after or None,
    )


def _unreliable(path: bytes, kind: bytes) -> Refusal:
    return Refusal(
        "unsupported-filesystem",
        f"a hidden path lies on {fsdecode(kind)}, where its denial could not be proven",
        "keep what is to be hidden on a local file system",
        path=path,
    )
