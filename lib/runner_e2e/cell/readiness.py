"""Everything for which a command cell does not start, before anything is spent."""

import os
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath

from runner_e2e.cell.git_credentials import check_git_credentials
from runner_e2e.cell.programs import check_programs, check_runner
from runner_e2e.errors import InputError
from runner_e2e.isolation.base import BaseHidden
from runner_e2e.isolation.families import find_id_token_names
from runner_e2e.plan.local_objects import open_checkout
from runner_e2e.plan.objects import is_sha
from runner_e2e.plan.target import check_head

_FRESH = "Start on a fresh checkout: results of an earlier cell must not be taken for this one's"


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """A command cell as it is about to start.

    `results` is where the target packages them, from its checkout on. `runner` is the real runnerd, of a
    local native cell only (`needs_runner`); `hidden` and `programs` count where our wrapper is used.
    `machine` is that of `uname -m`.
    """

    target: Path
    sha: str | None
    user: int
    environ: Mapping[str, str]
    results: str
    privileged: bool
    allow_root: bool
    machine: str
    needs_runner: bool
    runner: Path | None
    programs: Mapping[str, Path]
    hidden: BaseHidden


def check_ready(start: Start) -> None:
    """Raise one InputError that names everything for which this cell must not start.

    In this order: user, identity, owner and commit of the checkout, git credentials, earlier results,
    runnerd, hidden programs.
    """
    checks: list[Callable[[], object]] = [
        partial(check_root, privileged=start.privileged, allow_root=start.allow_root),
        partial(check_identity, start.environ),
        partial(check_owner, start.target, start.user),
        partial(check_commit, start.target, start.sha, start.user),
        partial(check_git_credentials, start.target, start.environ),
        partial(check_results, start.target, start.results),
    ]
    if start.needs_runner:
        checks.append(partial(check_runner, start.runner, start.machine))
    checks.append(partial(check_programs, start.programs, start.hidden))
    problems: list[InputError] = []
    for check in checks:
        try:
            check()
        except InputError as error:
            problems.append(error)
    if problems:
        raise InputError(
            "; ".join(dict.fromkeys(error.problem for error in problems)),
            "; ".join(dict.fromkeys(error.remedy for error in problems)),
        )


def check_commit(target: Path, sha: str | None, user: int) -> None:
    """Refuse a checkout that is not at the planned commit; nothing of it is executed."""
    if sha is None or not is_sha(sha):
        raise InputError(
            "It is not said which commit the cell is to test",
            "Give target-sha: the output of the resolve step, 40 hexadecimal digits",
        )
    with open_checkout(target, user) as checkout:
        check_head(checkout, sha)


def check_identity(environ: Mapping[str, str]) -> None:
    """Refuse a job that can ask for an identity: the target's code would have that too."""
    if names := sorted(find_id_token_names(environ)):
        raise InputError(
            f"The job can ask for its identity ({', '.join(names)}), and so could the target's code",
            "Set permissions: id-token: none on the job that runs cells",
        )


def check_results(target: Path, results: str) -> Path:
    """Return the results directory, which does not exist and to which no symbolic link leads."""
    parts = PurePosixPath(results).parts
    if not parts or results.startswith("/") or ".." in parts or "\0" in results:
        raise InputError(
            "The results path leads out of the target",
            "Give results-path as a path below the target's checkout",
        )
    place = target
    for number, part in enumerate(parts, 1):
        place /= part
        try:
            mode = place.lstat().st_mode
        except FileNotFoundError:
            break
        except OSError as error:
            raise InputError(f"The results path cannot be looked at ({error.strerror})", _FRESH) from error
        if number == len(parts):
            raise InputError(f"The results directory exists already: {place}", _FRESH)
        if not stat.S_ISDIR(mode):
            kind = "a symbolic link" if stat.S_ISLNK(mode) else "no directory"
            raise InputError(f"The results path leads over what is {kind}: {place}", _FRESH)
    return target.joinpath(*parts)


def check_root(*, privileged: bool, allow_root: bool) -> None:
    """Refuse to run agents as root unless the caller says that it has to be."""
    if privileged and not allow_root:
        raise InputError(
            "The cell would run as root, whose agents own the machine's files",
            "Run the job as an ordinary user, or set allow-root to true",
        )


def check_owner(target: Path, user: int) -> None:
    """Refuse a checkout that somebody else owns or can change."""
    try:
        status = target.stat()
    except OSError as error:
        raise InputError(
            f"The target's checkout cannot be looked at: {error.strerror}",
            "Check out the target, and give its directory as target-path",
        ) from error
    if problem := judge_owner(user, status.st_uid, status.st_gid, status.st_mode):
        raise InputError(
            f"{problem}: {os.fspath(target)}",
            "Check it out again as the user of this job, and let nobody else write there (chmod go-w)",
        )


def judge_owner(user: int, owner: int, group: int, mode: int) -> str | None:
    """Return what is wrong with a checkout's owner, group and mode, None when nothing is.

    Writing by the group of the owner's own number is fine: by convention that group is the owner's alone. For
    root any owner is: containers mount what the runner's user checked out.
    """
    if user != 0 and owner not in (0, user):
        return "The checkout belongs to another user"
    by_group = mode & stat.S_IWGRP and group not in (0, owner)
    return "Other users can change the checkout" if mode & stat.S_IWOTH or by_group else None
