"""Read who this process is, and for root who would run cells of the built-in harness."""

import grp
import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from runner_e2e.cell.service_account import find_account, read_own_name
from runner_e2e.cell.service_user import DEFAULT_ACCOUNT, PRIVILEGED_GROUPS, Account
from runner_e2e.doctor.findings import Unreadable
from runner_e2e.doctor.reading import attempt, parse_status
from runner_e2e.doctor.request import DoctorRequest, HarnessName
from runner_e2e.errors import InputError
from runner_e2e.isolation.environment import DEFAULT_SEARCH


@dataclass(frozen=True, slots=True)
class ServiceAccount:
    """The account that would run cells for root: there, to be made, or neither, for a reason."""

    name: str
    exists: bool
    can_be_made: bool
    problem: str = ""
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class AccountFacts:
    """This process's user. `groups` are those of its groups that act as root; `service` only root needs."""

    name: str
    uid: int
    harness: HarnessName
    hosted: bool
    capabilities: int | Unreadable
    groups: tuple[str, ...] | Unreadable
    service: ServiceAccount | Unreadable | None


def observe_account(request: DoctorRequest) -> AccountFacts:
    """Return the facts of this process."""
    uid = os.geteuid()
    return AccountFacts(
        name=read_own_name(),
        uid=uid,
        harness=request.harness,
        hosted=request.environ.get("RUNNER_ENVIRONMENT") == "github-hosted",
        capabilities=attempt(_read_capabilities),
        groups=attempt(_read_groups),
        service=attempt(lambda: find_service(request.service_user)) if uid == 0 else None,
    )


def find_service(name: str | None) -> ServiceAccount:
    """Return what is known of the service user, without making it."""
    shown = name or DEFAULT_ACCOUNT
    try:
        account: Account | None = find_account(name)
    except InputError as error:
        return ServiceAccount(
            shown, exists=False, can_be_made=False, problem=error.problem, remedy=error.remedy
        )
    makers = (shutil.which(one, path=DEFAULT_SEARCH) for one in ("useradd", "adduser"))
    return ServiceAccount(shown, exists=account is not None, can_be_made=any(makers))


def _read_capabilities() -> int:
    if sys.platform != "linux":
        return 0
    text = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    return int(parse_status(text)["CapEff"], 16)


def _read_groups() -> tuple[str, ...]:
    names = set()
    for gid in os.getgroups():
        try:
            names.add(grp.getgrgid(gid).gr_name)
        except KeyError:
            continue
    return tuple(sorted(names & PRIVILEGED_GROUPS))
