"""The account that runs a cell for root: looked up, or made."""

import contextlib
import grp
import os
import pwd
import secrets
import shutil
import subprocess
import time
from pathlib import Path

import psutil

from runner_e2e.cell.service_user import (
    DEFAULT_ACCOUNT,
    Account,
    Identity,
    check_account,
    check_name,
    choose_mark,
    plan_creation,
)
from runner_e2e.errors import InputError
from runner_e2e.isolation.environment import DEFAULT_SEARCH

_SHELLS = ("/usr/sbin/nologin", "/sbin/nologin", "/bin/false")
_SUDO_RULES = (Path("/etc/sudoers"), Path("/etc/sudoers.d"), Path("/usr/local/etc/sudoers"))
_MOST_BYTES = 1 << 20
_CREATION_S = 30.0
_LOOKS = 20  # for what another cell makes at this moment


def find_account(name: str | None) -> Account | None:
    """Return the account of this name, by default the one kept for cells; None when that has to be made.

    Raises InputError for one that is not there, or has privileges.
    """
    account = _read_account(check_name(name or DEFAULT_ACCOUNT))
    if account is not None:
        check_account(account, _read_sudo_rules())
    elif name is not None:
        raise InputError(
            f"There is no account {name}, which service-user names",
            f"Leave service-user out, and {DEFAULT_ACCOUNT} is made and used, or make the account",
        )
    return account


def create_account() -> Account:
    """Make the account that is kept for cells; it stays. Raises InputError when that fails."""
    search = {
        name: path for name in ("useradd", "adduser") if (path := shutil.which(name, path=DEFAULT_SEARCH))
    }
    shell = next((one for one in _SHELLS if Path(one).exists()), _SHELLS[-1])
    words = plan_creation(DEFAULT_ACCOUNT, search, shell)
    said = ""
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        done = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            env={"PATH": DEFAULT_SEARCH},
            timeout=_CREATION_S,
            check=False,
        )
        said = " ".join(done.stderr.split())[:300]
    for _ in range(_LOOKS):
        account = _read_account(DEFAULT_ACCOUNT)
        if account is not None:
            check_account(account, _read_sudo_rules())
            return account
        time.sleep(0.05)
    raise InputError(
        f"The account {DEFAULT_ACCOUNT} cannot be made{f': {said}' if said else ''}",
        "Name an existing account in service-user, or start the cell as an ordinary user",
    )


def mark_cell(account: Account) -> Identity:
    """Return who the processes of a cell are to be."""
    taken = {group.gr_gid for group in grp.getgrall()}
    gid_map = Path("/proc/self/gid_map").read_text(encoding="ascii")
    return Identity(account.name, account.uid, choose_mark(gid_map, taken, secrets.randbelow))


def count_others(account: Account) -> int:
    """Return how many processes the account has that are no cell's: those have other groups."""
    found = psutil.process_iter(["uids", "gids"])
    return sum(
        (one.info["uids"].real, one.info["gids"].real) == (account.uid, account.gid)
        for one in found
        if one.info["uids"] and one.info["gids"]
    )


def read_own_name() -> str:
    """Return the name of the present user, or its number."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def _read_account(name: str) -> Account | None:
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        return None
    groups = set()
    for gid in os.getgrouplist(name, entry.pw_gid):
        with contextlib.suppress(KeyError):
            groups.add(grp.getgrgid(gid).gr_name)
    return Account(name, entry.pw_uid, entry.pw_gid, frozenset(groups))


def _read_sudo_rules() -> str:
    texts = []
    for place in _SUDO_RULES:
        for path in sorted(place.iterdir()) if place.is_dir() else [place]:
            with contextlib.suppress(OSError), path.open("rb") as file:
                texts.append(file.read(_MOST_BYTES).decode("utf-8", "replace"))
    return "\n".join(texts)
