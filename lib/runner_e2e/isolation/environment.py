"""The two smallest environments: of a server that spends nothing, and of the target's listing command. Pure.

Children are given what an allow-list names, never the harness's own variables less some: one that is
deleted in a running process stays in `/proc/<pid>/environ`.
"""

from collections.abc import Iterable, Mapping

from runner_e2e.errors import InputError
from runner_e2e.isolation.explain import Built, Draft
from runner_e2e.isolation.passing import (
    ALLOWED,
    ASKED,
    CERTIFICATES,
    DEFAULT_SEARCH,
    NOT_ALLOWED,
    PROXIES,
    find_refusal,
    has_user,
    is_locale,
    show_name,
)
from runner_e2e.isolation.variables import GENERATED_SECRETS, fold

__all__ = (
    "DEFAULT_SEARCH",
    "GENERATED_SECRETS",
    "build_child_environment",
    "build_listing_environment",
    "explain_listing_environment",
)

# What a package manager and the program behind it need to start: who they are, where their caches lie.
_PASSED_TO_LISTING = CERTIFICATES | {
    "CI",
    "COREPACK_HOME",
    "HOME",
    "LOGNAME",
    "PAPERCLIP_E2E_DAYTONA_IMAGE",
    "PATH",
    "PLAYWRIGHT_BROWSERS_PATH",
    "PNPM_HOME",
    "SHELL",
    "TMPDIR",
    "USER",
    "XDG_CACHE_HOME",
    "XDG_DATA_HOME",
    "npm_config_cache",
}


def build_child_environment(source: Mapping[str, str], overrides: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a server: locale, certificates, a plain search path, and the overrides."""
    kept = {name: value for name, value in source.items() if is_locale(name) or name in CERTIFICATES}
    return {"PATH": DEFAULT_SEARCH, **kept, **overrides}


def build_listing_environment(
    source: Mapping[str, str], passed: Iterable[str], overrides: Mapping[str, str]
) -> dict[str, str]:
    """Return the variables of the target's listing command, which needs no credential and gets none.

    `passed` are names that the caller adds (`pass-env`); one that is not set is left out. A name of the
    workflow's own, of the harness's own, or of something that lets somebody in is an `InputError`.
    A proxy that is reached with a password is left out unless it is named: listing needs no network.
    """
    return explain_listing_environment(source, passed, overrides).environment


def explain_listing_environment(
    source: Mapping[str, str], passed: Iterable[str], overrides: Mapping[str, str]
) -> Built:
    """Return what `build_listing_environment` returns, with the rule for each name."""
    names = frozenset(_checked(passed))
    draft = Draft(source)
    for name in draft.names():
        value = source[name]
        if name in names:
            draft.keep(name, ASKED)
        elif has_user(name, value):
            draft.remove([name], "a proxy with a user or a password")
        elif name in _PASSED_TO_LISTING or is_locale(name) or fold(name) in PROXIES:
            draft.keep(name, ALLOWED)
        else:
            draft.remove([name], NOT_ALLOWED)
    if not draft.holds("PATH"):
        draft.set("PATH", DEFAULT_SEARCH, "a plain search path")
    if "TERM" not in overrides:
        draft.set("TERM", "dumb", "no terminal")
    for name, value in overrides.items():
        draft.set(name, value, "given by the plan")
    return draft.build()


def _checked(passed: Iterable[str]) -> Iterable[str]:
    for name in passed:
        # Whoever names NODE_OPTIONS means it: this process holds nothing that could be stolen.
        if reason := find_refusal(name, code=True):
            raise InputError(
                f"The variable {show_name(name)} of pass-env is not for listing cells: {reason}",
                "Leave it out of pass-env; listing needs no credential",
            )
        yield name
