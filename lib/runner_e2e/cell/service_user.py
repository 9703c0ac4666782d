"""Which account runs a cell of the built-in harness that root called, and what tells its processes. Pure.

The processes and files of one cell carry a group number of their own, its mark: they get it instead of the
account's groups, and nothing without privileges can lay it off or take up another one. So two cells of one
account are told from each other, whatever they do.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from runner_e2e.errors import InputError, UnsupportedHostError
from runner_e2e.isolation.variables import SELECTED_ID

DEFAULT_ACCOUNT = "runner-e2e"
# Their members act as root, or read what is root's or everybody's.
PRIVILEGED_GROUPS = frozenset(
    {
        "adm",
        "admin",
        "disk",
        "docker",
        "incus",
        "incus-admin",
        "kmem",
        "libvirt",
        "lxd",
        "root",
        "shadow",
        "staff",
        "sudo",
        "systemd-journal",
        "wheel",
    }
)
_NAME = re.compile(r"[a-z_][a-z0-9_-]{0,31}")
_LARGEST_ID = (1 << 31) - 1
# Of these the first that the user namespace has: far from what accounts get, then the usual end of a range.
_MARK_RANGES = ((1 << 30, _LARGEST_ID), (61184, 65520), (1000, 61184))
_DRAWS = 64

_PASSED = frozenset(
    {
        "CI",
        "COLORTERM",
        "DATABASE_URL",
        "GITHUB_ACTIONS",
        "GITHUB_REF",
        "GITHUB_REPOSITORY",
        "GITHUB_RUN_ATTEMPT",
        "GITHUB_RUN_ID",
        "GITHUB_SERVER_URL",
        "GITHUB_SHA",
        "GITHUB_WORKSPACE",
        "LANG",
        "NO_COLOR",
        "PATH",
        "PYDANTIC_DISABLE_PLUGINS",
        "RUNNER_DEBUG",
        "TERM",
        "TZ",
        SELECTED_ID,
    }
)
_PASSED_FAMILIES = ("INPUT_", "LC_", "RUNNER_E2E_")
# The decoy stands in root's own block of variables, of the user there is nothing left to decide, and no cell
# asks GitHub anything.
_KEPT_BACK = frozenset({"RUNNER_E2E_DECOY", "INPUT_GITHUB_TOKEN", "INPUT_SERVICE_USER"})


@dataclass(frozen=True, slots=True)
class Account:
    """An account as the user database has it; `groups` are the names of all its groups."""

    name: str
    uid: int
    gid: int
    groups: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Identity:
    """Who the processes of one cell are: the account's user, and the cell's own mark as their only group."""

    user: str
    uid: int
    mark: int


def check_name(name: str) -> str:
    """Return a name that an account may have; raises InputError for any other."""
    if not _NAME.fullmatch(name):
        raise InputError(
            "Input service-user is no name of an account",
            "Use at most 32 lower-case letters, digits, _ and -, a letter or _ first",
        )
    return name


def check_account(account: Account, sudo_rules: str) -> None:
    """Refuse an account that is root or has privileges; `sudo_rules` is the text of sudoers(5) here."""
    problem = find_privilege(account, sudo_rules)
    if problem is not None:
        raise InputError(
            f"The service user {account.name} {problem}, and no agent may have that",
            "Name an account in service-user that exists for this and nothing else, or leave it out",
        )


def find_privilege(account: Account, sudo_rules: str) -> str | None:
    """Return which privilege an account has, None for none that can be seen."""
    if account.uid == 0:
        return "is root"
    if account.gid == 0:
        return "has root's group"
    privileged = sorted(account.groups & PRIVILEGED_GROUPS)
    if privileged:
        return f"is in the group {privileged[0]}"
    if has_passwordless_sudo(account, sudo_rules):
        return "may use sudo without a password"
    return None


def has_passwordless_sudo(account: Account, rules: str) -> bool:
    """Whether a rule lets the account start programs as somebody else without a password."""
    lines = [line for line in _logical_lines(rules) if line]
    names = {
        account.name,
        f"#{account.uid}",
        "ALL",
        f"%#{account.gid}",
        *(f"%{one}" for one in account.groups),
    }
    names |= {name for name, members in _user_aliases(lines) if names & members}
    for line in lines:
        word, _, rest = line.partition(" ")
        is_rule = not word.startswith("Defaults") and not word.endswith("_Alias")
        if is_rule and names & _split(word) and ("NOPASSWD" in rest or _asks_nobody(lines, names)):
            return True
    return False


def _logical_lines(rules: str) -> Iterator[str]:
    for line in rules.replace("\\\n", " ").split("\n"):
        # `#` begins a comment, but for a user's number.
        yield " ".join(re.sub(r"#(?!\d).*", "", line).replace(" ,", ",").replace(", ", ",").split())


def _user_aliases(lines: Iterable[str]) -> Iterator[tuple[str, frozenset[str]]]:
    for line in lines:
        word, _, rest = line.partition(" ")
        if word == "User_Alias":
            for one in rest.split(":"):
                name, _, members = one.partition("=")
                yield name.strip(), _split(members)


def _asks_nobody(lines: Iterable[str], names: Collection[str]) -> bool:
    for line in lines:
        word, _, rest = line.partition(" ")
        everybody = word == "Defaults" or word.removeprefix("Defaults:") in names
        if word.startswith("Defaults") and everybody and "!authenticate" in rest:
            return True
    return False


def _split(text: str) -> frozenset[str]:
    return frozenset(one.strip() for one in text.split(","))


def plan_creation(name: str, programs: Mapping[str, str], shell: str) -> list[str]:
    """Return the command that makes a system account without a home; `programs` are those there, by name."""
    if "useradd" in programs:
        words = [programs["useradd"], "--system", "--no-create-home", "--shell", shell, "--", name]
    elif "adduser" in programs:  # where there is nothing else, it is that of BusyBox
        words = [programs["adduser"], "-S", "-D", "-H", "-s", shell, name]
    else:
        raise InputError(
            "There is no account to run the cell under, and neither useradd nor adduser to make one",
            "Name an existing account in service-user, or install the package that has useradd",
        )
    return words


def choose_mark(gid_map: str, taken: Collection[int], draw: Callable[[int], int]) -> int:
    """Return a group number that belongs to nobody; `draw(n)` is random below n.

    `gid_map` is that of the user namespace (user_namespaces(7)): what it does not have cannot be set.
    Raises UnsupportedHostError when it has too few.
    """
    extents = [
        (int(row[0]), int(row[0]) + int(row[2])) for row in map(str.split, gid_map.splitlines()) if row
    ]
    for low, high in _MARK_RANGES:
        for start, end in extents:
            first, last = max(low, start), min(high, end)
            for _ in range(_DRAWS if first < last else 0):
                mark = first + draw(last - first)
                if mark not in taken:
                    return mark
    raise UnsupportedHostError(
        "This user namespace has no group number left for a cell",
        "Give the container a whole range of ids, or start the cell as an ordinary user",
    )


def build_environ(environ: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of the cell's own process: what it reads, nothing else of root's, and `own`."""
    passed = {
        name: value
        for name, value in environ.items()
        if (name in _PASSED or name.startswith(_PASSED_FAMILIES)) and name not in _KEPT_BACK
    }
    return {**passed, **own}
