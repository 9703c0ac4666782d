"""Environment of the harness: the process that starts servers, and holds one cell's credential. Pure.

First the product's own rules in their order, then what they do not know, then an allow-list. Nothing else
decides what the target's code can read of the job.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from runner_e2e.errors import InputError, RunnerE2EError
from runner_e2e.isolation.admission import (
    admit_candidates,
    check_installed_lane,
    is_installed_lane,
    write_qualification,
)
from runner_e2e.isolation.explain import Built, Draft
from runner_e2e.isolation.families import find_family
from runner_e2e.isolation.passing import (
    allow_only,
    build_directories,
    check_passed,
    set_search_path,
    show_name,
)
from runner_e2e.isolation.product import CHAT_SUITE, UNCONFIGURED, CellTraits, ProductNames
from runner_e2e.isolation.variables import (
    ALLOW_ALL_MODELS,
    AMBIENT_PAPERCLIP,
    ANNOUNCEMENTS_ENABLED,
    ANNOUNCEMENTS_FEED_URL,
    API_TOOLS_ENABLED,
    CAMPAIGN_ID,
    CANDIDATE_ADMISSION,
    CREDENTIAL_NAMES,
    DATABASE,
    GATEWAY_BASE_URL,
    GATEWAY_PHASE_PATH,
    GATEWAY_TOKEN,
    INSTALLED_CLI,
    INSTALLED_PLUGIN,
    MASTER_KEY,
    MASTER_KEY_FILE,
    POSTGRES_ADMIN_URL,
    QUALIFICATION,
    RELAY_URL,
    REMOTE_GATEWAY_ORIGIN,
    REMOTE_RUNNER_BINARY,
    RUNNER_BINARY,
    SELECTED_ID,
    VAULT_PREFIXES,
    fold,
    is_blank,
    is_provider_authority,
)

# What starts a package manager and a browser; home and temporary directories are the attempt's own.
_PASSED = frozenset(
    {"CI", "COREPACK_HOME", "LOGNAME", "PATH", "PLAYWRIGHT_BROWSERS_PATH", "PNPM_HOME", "SHELL", "USER"}
)
# Settings of the product that its own rules leave as the caller supplied them.
SUPPLIED = frozenset(
    {
        ANNOUNCEMENTS_FEED_URL,
        API_TOOLS_ENABLED,
        GATEWAY_BASE_URL,
        GATEWAY_TOKEN,
        RUNNER_BINARY,
        REMOTE_RUNNER_BINARY,
        "PAPERCLIP_ACPX_BUILTIN_ROOT",
        "PAPERCLIP_ACPX_PROVIDER_PACKAGE_MANIFEST",
        "PAPERCLIP_ACPX_PROVIDER_PACKAGE_ROOT",
        "PAPERCLIP_E2E_DAYTONA_IMAGE",
        "PAPERCLIP_E2E_DAYTONA_NODE_SHA256",
        "PAPERCLIP_E2E_DAYTONA_RUNNERD_SHA256",
        "PAPERCLIP_PLAYWRIGHT_CHANNEL",
        "PAPERCLIP_RUNNER_REMOTE_PROVIDER_PACK_PATH",
        *INSTALLED_CLI,
        *INSTALLED_PLUGIN,
    }
)
_PRIVATE = (
    POSTGRES_ADMIN_URL,
    MASTER_KEY,
    MASTER_KEY_FILE,
    GATEWAY_PHASE_PATH,
    RELAY_URL,
    REMOTE_GATEWAY_ORIGIN,
)
_DECIDED = (ALLOW_ALL_MODELS, QUALIFICATION, CANDIDATE_ADMISSION)
_NOTHING: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class HarnessRequest:
    """What the attempt adds: its cells, their credentials by name, `pass-env`, and variables of its own."""

    cells: Sequence[CellTraits] = ()
    credentials: Mapping[str, str] = field(default_factory=dict, repr=False)
    passed: Collection[str] = ()
    overrides: Mapping[str, str] = field(default_factory=dict, repr=False)
    names: ProductNames = UNCONFIGURED


def build_harness_environment(source: Mapping[str, str], request: HarnessRequest) -> Built:
    """Return the environment of the harness and of the test process below it.

    Raises InputError for an installed command line or a candidate that the cells do not admit, and for a
    name of `pass-env` that no child may have.
    """
    check_passed(request.passed, source, _find_denial)
    installed = is_installed_lane(source)
    if installed:
        check_installed_lane(source, request.cells)
    draft = Draft(source)
    needed = _find_needed_inputs(request.cells, request.names)
    _scrub(draft, request.cells, request.names, needed)
    _decide(draft, request.cells, request.names, installed=installed)
    _remove_authority(draft, needed)
    allow_only(draft, _PASSED | SUPPLIED | needed, request.passed)
    set_search_path(draft)
    for name, value in find_caches(source).items():
        draft.set(name, value, "a cache of the caller's home")
    for name, value in request.credentials.items():
        draft.set(name, value, "the cell's credential")
    for name, value in request.overrides.items():
        draft.set(name, value, "the attempt's own")
    return draft.build()


def assert_harness_environment(environment: Mapping[str, str], admitted: Collection[str]) -> None:
    """Raise unless every credential and every denied name with a value is `admitted`, by exact spelling.

    Admitted are the cell's credentials, the selected id where it travels by variable, the campaign's id,
    and behind a gateway what that sets.
    """
    for name, value in environment.items():
        if value and name not in admitted and name not in SUPPLIED and _find_denial(name):
            raise RunnerE2EError(
                f"The harness was not started: {show_name(name)} must not be in its environment",
                "Report this with the output of runner-e2e env --explain",
            )


def choose_credentials(
    source: Mapping[str, str], required: Sequence[str], given: Mapping[str, str] = _NOTHING
) -> dict[str, str]:
    """Return the credentials that a cell needs, and no other; one InputError names all that are missing."""
    found = find_credentials(source, required, given)
    if missing := [name for name in required if name not in found]:
        raise InputError(
            f"The cell needs a credential that is not there: {', '.join(missing)}",
            "Give credential-name and credential, or set the variable on the step that runs the cell",
        )
    return found


def find_credentials(
    source: Mapping[str, str], required: Sequence[str], given: Mapping[str, str] = _NOTHING
) -> dict[str, str]:
    """Return the `required` credentials that are not blank: `given` ones first, then the caller's."""
    return {
        name: value
        for name in required
        for value in (source.get(name), given.get(name))  # the last one wins
        if value is not None and not is_blank(value)
    }


def find_caches(source: Mapping[str, str]) -> dict[str, str]:
    """Return where the caller's home has what a harness with another home would fetch again.

    Places are those that the tools choose by themselves; what the caller sets is not repeated.
    """
    home = source.get("HOME", "")
    cache = source.get("XDG_CACHE_HOME") or f"{home}/.cache"
    data = source.get("XDG_DATA_HOME") or f"{home}/.local/share"
    places = {
        "COREPACK_HOME": f"{cache}/node/corepack",
        "PLAYWRIGHT_BROWSERS_PATH": f"{cache}/ms-playwright",
        "PNPM_HOME": f"{data}/pnpm",
    }
    return {name: place for name, place in places.items() if home.startswith("/") and not source.get(name)}


def build_attempt_overrides(
    home: str, temporary: str, campaign: str, selected_id: str | None = None
) -> dict[str, str]:
    """Return what each attempt sets: its own directories, an opaque campaign id, and the cell's id.

    `selected_id` is None where the id travels by another way.
    """
    chosen = {} if selected_id is None else {SELECTED_ID: selected_id}
    return {**build_directories(home, temporary), CAMPAIGN_ID: campaign, **chosen}


def _find_needed_inputs(cells: Sequence[CellTraits], names: ProductNames) -> frozenset[str]:
    chat = (cell for cell in cells if cell.suite == CHAT_SUITE)
    needed = frozenset().union(*(names.needed_inputs.get(cell.case, frozenset()) for cell in chat))
    return needed & names.private_inputs


def _scrub(draft: Draft, cells: Sequence[CellTraits], names: ProductNames, needed: frozenset[str]) -> None:
    if any(cell.suite == CHAT_SUITE for cell in cells):
        draft.remove_where(lambda name: name.startswith(VAULT_PREFIXES), "chat cells get no vault")
    draft.remove(names.public_origin, "public-origin control and receipt")
    draft.remove(names.private_inputs - needed, "a private input of other chat cases")
    draft.remove(_PRIVATE, "private to the server or the gateway")


def _decide(draft: Draft, cells: Sequence[CellTraits], names: ProductNames, *, installed: bool) -> None:
    _decide_announcements(draft, cells, names)
    draft.remove(_DECIDED, "decided by the selected cells alone")
    candidates = admit_candidates(cells)
    if candidates and not installed:
        draft.set(QUALIFICATION, write_qualification(candidates), "agents that are being qualified")
    with_tools = names.managed_hiring_cases | names.api_tool_cases
    if any(cell.suite == CHAT_SUITE and cell.case in with_tools for cell in cells):
        draft.set(API_TOOLS_ENABLED, "true", "a chat case uses API tools")
    if cells and all(cell.generation == "legacy" and cell.provider == "opencode" for cell in cells):
        draft.set(ALLOW_ALL_MODELS, "true", "every cell is a legacy OpenCode cell")


def _decide_announcements(draft: Draft, cells: Sequence[CellTraits], names: ProductNames) -> None:
    announced = (
        names.announcement_case is not None
        and len(cells) == 1
        and (cells[0].suite, cells[0].case) == (CHAT_SUITE, names.announcement_case)
    )
    rule = "the announcement cell alone has announcements"
    draft.set(ANNOUNCEMENTS_ENABLED, "true" if announced else "false", rule)
    if announced and names.announcement_feed_url is not None:
        draft.set(ANNOUNCEMENTS_FEED_URL, names.announcement_feed_url, rule)


def _remove_authority(draft: Draft, needed: frozenset[str]) -> None:
    """Take out what the product's rules leave, in any spelling; what those rules set is none of it."""
    draft.remove_where(lambda name: fold(name) in DATABASE, "a database of the caller's")
    draft.remove_where(
        lambda name: name not in needed and _is_authority(name), "a credential that is not the cell's"
    )
    for name in draft.names():
        family = find_family(name)
        if family is not None and name not in needed:
            draft.remove([name], family.reason)


def _is_authority(name: str) -> bool:
    folded = fold(name)
    return folded in CREDENTIAL_NAMES or is_provider_authority(folded)


def _find_denial(name: str) -> str | None:
    if _is_authority(name) or fold(name) in (*DATABASE, *AMBIENT_PAPERCLIP):
        return "it is a credential, or leads to one"
    family = find_family(name)
    return None if family is None else family.reason
