"""A cell of the built-in harness that root calls: what its service user needs, and what it is told."""

import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from runner_e2e.actions.artifact import read_run_attempt, read_run_id
from runner_e2e.actions.cell_inputs import RunCell
from runner_e2e.actions.inputs import Harness
from runner_e2e.actions.publication import TITLE
from runner_e2e.actions.supervision import SupervisedCell, make_parent, supervise
from runner_e2e.actions.surface import ActionSurface
from runner_e2e.cell.readable import (
    Needed,
    check_readable,
    choose_nameable,
    list_kept_code,
    list_own_code,
)
from runner_e2e.cell.request import PROJECT, CellRequest
from runner_e2e.cell.root import PARENT
from runner_e2e.cell.service_account import (
    count_others,
    create_account,
    find_account,
    mark_cell,
    read_own_name,
)
from runner_e2e.cell.service_user import Account
from runner_e2e.errors import InputError
from runner_e2e.evidence.artifact_names import build_artifact_name
from runner_e2e.isolation.base import PROJECT_PARTS, HarnessPlaces, plan_base_hidden
from runner_e2e.plan.catalog import SHIPPED_CATALOGS
from runner_e2e.product.places import DIRECTORY_VARIABLE

if TYPE_CHECKING:
    from runner_e2e.cell.paperclip_paid import Paid

# By these a client of the provider finds its way out of this machine.
_WAYS_OUT = ("ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "SSL_CERT_DIR", "SSL_CERT_FILE")
_PROGRAM = PROJECT / "entrypoints" / "run_cell.py"


@dataclass(frozen=True, slots=True)
class ServiceUser:
    """Somebody else is to run the cell; `account` is None when it has yet to be made."""

    account: Account | None


def choose_service_user(cell: RunCell) -> ServiceUser | None:
    """Return who is to run the cell, None for the user of this process.

    Raises InputError for a service user that cannot be used.
    """
    if cell.harness is not Harness.BUILT_IN:
        return None
    if os.geteuid() == 0:
        return ServiceUser(find_account(cell.service_user))
    if cell.service_user not in (None, read_own_name()):
        raise InputError(
            "A service-user is given, and only root can start a cell as somebody else",
            "Leave service-user out, or start the cell as root or as that user",
        )
    return None


def run_under(
    user: ServiceUser,
    cell: RunCell,
    request: CellRequest,
    environ: Mapping[str, str],
    surface: ActionSurface,
) -> int:
    """Run a planned cell as the service user; return the exit status, which is the cell's own.

    Raises RunnerE2EError, InputError above all, when nothing was started.
    """
    account = user.account
    if account is None:
        account = create_account()
        surface.line(f"== Made the account {account.name}, which runs cells for root; it stays")
    identity = mark_cell(account)
    check_readable(identity, _list_needed(request))
    make_parent(request.evidence_parent)
    # Whether the user can get to something is told by where it lies, not by a link to it.
    asked = (Path(os.path.realpath(path)) for path in request.hide)
    places = tuple(dict.fromkeys((*asked, *list_roots_own(request, environ))))
    hidden = choose_nameable(identity, places)
    surface.line(f"== The cell runs as the service user {account.name}")
    others = count_others(account)
    if others:
        surface.warning(
            f"{others} other processes of {account.name} run here; they and the cell may reach each other",
            TITLE,
        )
    name = build_artifact_name(
        cell.artifact_prefix, read_run_id(environ), read_run_attempt(environ), request.key
    )
    supervised = SupervisedCell(
        command=(sys.executable, "-I", str(_PROGRAM)),
        inputs=_build_inputs(cell, request, hidden, environ),
        artifact=name,
        parent=request.evidence_parent,
        directory=request.directory,
    )
    if len(hidden) < len(places):
        surface.line(f"== {len(places) - len(hidden)} hidden places are closed to that user anyway")
    return supervise(supervised, identity, environ, surface)


def _list_needed(request: CellRequest) -> Needed:
    built_in = request.built_in
    if built_in is None or request.catalog is None:
        raise ValueError("only a cell of the built-in harness is run for root")
    product = built_in.installation
    parent = request.evidence_parent.absolute()
    programs = (product.node, product.server, product.runnerd, product.opencode, product.postgres)
    spending = request.spending
    card = None if spending is None or spending.rate_card is None else spending.rate_card.absolute()
    described = (request.catalog.absolute(), built_in.script, built_in.command, card)
    return Needed(
        trees=(PROJECT / "lib", PROJECT / "entrypoints"),
        files=tuple(path for path in described if path is not None),
        roots=(next(one for one in (parent, *parent.parents) if one.exists()),),
        code=(*list_own_code(), product.directory / "installation.json", *programs),
        kept=(*list_kept_code(), product.directory),
    )


def list_roots_own(request: CellRequest, environ: Mapping[str, str]) -> Iterator[Path]:
    """Yield what root's own run of the cell would hide: the user's process does not hear of these places.

    Links are replaced by what they lead to, and what is not there is left out. Raises InputError for a place
    that cannot be hidden.
    """
    homes = {environ.get("HOME", ""), str(Path("~root").expanduser())}
    places = HarnessPlaces(
        root=PurePosixPath(PARENT) / "no-attempt",
        project=PurePosixPath(PROJECT),
        environment=None,
        target=None,
        homes=tuple(PurePosixPath(home) for home in sorted(homes) if len(home) > 1 and home.startswith("/")),
        evidence=PurePosixPath(request.evidence_parent / request.directory),
    )
    interpreter = Path(sys.executable).resolve()
    hidden_anyway = tuple(PROJECT / part for part in PROJECT_PARTS)
    parent = request.evidence_parent.absolute()
    for named in (parent, *map(Path, plan_base_hidden(places, environ).optional)):
        path = Path(os.path.realpath(named))
        # A shell's history is a link to /dev/null at times.
        if not path.exists() or path.is_char_device() or any(map(path.is_relative_to, hidden_anyway)):
            continue
        if interpreter.is_relative_to(path):
            raise InputError(
                f"{named} has to be hidden from agents, and the interpreter that runs the cell lies in it",
                "Use an interpreter that lies elsewhere, for example below /opt",
            )
        if "\n" in str(path):
            raise InputError(
                "A place that has to be hidden from agents has a line break in its name",
                "Rename the directories of HOME, RUNNER_TEMP and the workspace",
            )
        yield path


def _build_inputs(
    cell: RunCell, request: CellRequest, hidden: tuple[Path, ...], environ: Mapping[str, str]
) -> dict[str, str]:
    """Return the variables by which the user's process finds what root has found."""
    if request.built_in is None or request.catalog is None:
        raise ValueError("only a cell of the built-in harness is run for root")
    missing = [path for path in request.hide if not path.exists()]  # to be refused as ever
    return {
        "INPUT_CATALOG": cell.catalog if cell.catalog in SHIPPED_CATALOGS else str(request.catalog.resolve()),
        "INPUT_HIDE": "\n".join(map(str, (*hidden, *missing))),
        DIRECTORY_VARIABLE: str(request.built_in.installation.directory.parent),
        **_build_payment(request.built_in.paid, environ),
    }


def _build_payment(paid: "Paid | None", environ: Mapping[str, str]) -> dict[str, str]:
    """Return what the gateway of a paid cell needs: the credential, wherever root has it, and a way out."""
    if paid is None:
        return {}
    ways = {name: environ[name] for one in _WAYS_OUT for name in (one, one.lower()) if name in environ}
    card = paid.spending.rate_card
    return {
        **ways,
        "INPUT_CREDENTIAL_NAME": paid.credential_name,
        "INPUT_CREDENTIAL": paid.credential,
        **({} if card is None else {"INPUT_RATE_CARD": str(card.absolute())}),
    }
