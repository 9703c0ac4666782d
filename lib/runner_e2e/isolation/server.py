"""Environment of a control plane: no credential, no case, nothing that leads out of the attempt. Pure.

First the product's own rules in their order, then what they do not know, then an allow-list. Overrides
come last and may set a name that was taken out; `assertion` looks at what comes of it.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from runner_e2e.isolation.explain import Built, Draft
from runner_e2e.isolation.families import HARNESS_OWN, find_family
from runner_e2e.isolation.passing import allow_only, build_directories, check_passed, set_search_path
from runner_e2e.isolation.product import UNCONFIGURED, ProductNames
from runner_e2e.isolation.variables import (
    AMBIENT_PAPERCLIP,
    BACKUP_DIRECTORY,
    CREDENTIAL_NAMES,
    DATABASE,
    EXTERNAL_STATE,
    GENERATED_SECRETS,
    INSTALLED_CLI,
    INSTALLED_PLUGIN,
    POSTGRES_ADMIN_URL,
    STORAGE_PROVIDER,
    UPGRADE_ARTIFACTS,
    VAULT_PREFIXES,
    fold,
    is_provider_name,
)

_PASSED = frozenset({"CI", "PATH"})
_OTHER_SPELLING = "another spelling of a name that is taken out"
_LISTED = frozenset(
    {
        *CREDENTIAL_NAMES,
        *DATABASE,
        *AMBIENT_PAPERCLIP,
        *EXTERNAL_STATE,
        *GENERATED_SECRETS,
        *INSTALLED_CLI,
        *INSTALLED_PLUGIN,
        UPGRADE_ARTIFACTS,
    }
)


@dataclass(frozen=True, slots=True)
class ServerPlaces:
    """Where one attempt's server lies; `temporary_root` is above all of it. Absolute paths, and a name."""

    temporary_root: str
    paperclip_home: str
    config_path: str
    instance: str
    home: str
    temporary: str


def build_server_environment(
    source: Mapping[str, str],
    overrides: Mapping[str, str],
    *,
    passed: Collection[str] = (),
    names: ProductNames = UNCONFIGURED,
) -> Built:
    """Return the environment of a server; raise InputError for a name of `passed` that it must not have."""
    check_passed(passed, source, lambda name: find_server_denial(name, names))
    draft = Draft(source)
    _scrub(draft, names)
    _remove_other_spellings(draft, names)
    allow_only(draft, _PASSED, passed)
    set_search_path(draft)
    for name, value in overrides.items():
        draft.set(name, value, "the attempt's own")
    draft.remove(names.private_diagnostics, "private diagnostics")
    return draft.build()


def build_server_overrides(places: ServerPlaces, port: int, generated: Mapping[str, str]) -> dict[str, str]:
    """Return what a normal attempt sets for its server; `generated` holds the secrets of this attempt.

    Beside the product's own settings these are directories of the attempt's own: the caller's do not pass.
    """
    root = places.temporary_root
    return {
        **build_directories(places.home, places.temporary),
        "NODE_ENV": "test",
        "PORT": str(port),
        "XDG_CACHE_HOME": f"{root}/xdg-cache",
        "PAPERCLIP_HOME": places.paperclip_home,
        "PAPERCLIP_INSTANCE_ID": places.instance,
        "PAPERCLIP_CONFIG": places.config_path,
        **{name: generated[name] for name in GENERATED_SECRETS},
        "PAPERCLIP_BIND": "loopback",
        "PAPERCLIP_BIND_HOST": "127.0.0.1",
        "PAPERCLIP_DEPLOYMENT_MODE": "local_trusted",
        "PAPERCLIP_DEPLOYMENT_EXPOSURE": "private",
        "SERVE_UI": "true",
        STORAGE_PROVIDER: "local_disk",
        "PAPERCLIP_STORAGE_LOCAL_DIR": f"{root}/storage",
        "PAPERCLIP_SECRETS_PROVIDER": "local_encrypted",
        "PAPERCLIP_SECRETS_STRICT_MODE": "true",
        "PAPERCLIP_DB_BACKUP_ENABLED": "false",
        BACKUP_DIRECTORY: f"{root}/backups",
        "PAPERCLIP_OPEN_ON_LISTEN": "false",
    }


def find_server_denial(name: str, names: ProductNames = UNCONFIGURED) -> str | None:
    """Return why a server must not have a name, in any spelling; None when nothing speaks against it."""
    folded = fold(name)
    if folded in _LISTED:
        return "it is a credential, a secret or a place outside the attempt"
    if folded in {fold(one) for one in _find_chat_names(names)}:
        return "it is private to chat cases"
    if is_provider_name(folded):
        return "it belongs to a provider or to GitHub"
    if HARNESS_OWN.has(folded):
        return HARNESS_OWN.reason
    family = find_family(name)
    return None if family is None else family.reason


def _scrub(draft: Draft, names: ProductNames) -> None:
    draft.remove(names.private_inputs, "a private input of chat cases")
    draft.remove_where(lambda name: name.startswith(VAULT_PREFIXES), "servers get no vault")
    draft.remove(names.public_origin, "public-origin control and receipt")
    draft.remove(names.private_diagnostics, "private diagnostics")
    draft.remove((POSTGRES_ADMIN_URL,), "a database of the caller's")
    draft.remove_where(is_provider_name, "a provider's or GitHub's")
    draft.remove(CREDENTIAL_NAMES, "a credential; agents hold references")
    draft.remove(DATABASE, "a database of the caller's")
    draft.remove(AMBIENT_PAPERCLIP, "authority in another Paperclip")
    draft.remove(EXTERNAL_STATE, "storage outside the attempt")
    draft.remove(GENERATED_SECRETS, "a secret that each attempt makes itself")
    draft.remove(INSTALLED_CLI, "the harness's own")
    draft.remove(INSTALLED_PLUGIN, "the harness's own")
    draft.remove((UPGRADE_ARTIFACTS,), "the harness's own")


def _remove_other_spellings(draft: Draft, names: ProductNames) -> None:
    for name in draft.names():
        reason = find_server_denial(name, names)
        if reason is not None:
            draft.remove([name], _OTHER_SPELLING if fold(name) in _LISTED else reason)


def _find_chat_names(names: ProductNames) -> frozenset[str]:
    return names.public_origin | names.private_diagnostics | names.private_inputs
