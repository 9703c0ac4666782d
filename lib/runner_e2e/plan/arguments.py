"""The command line of the product's harness: its flags, and what each combination means.

Pure. Scanning goes from left to right and the first error wins; the numbers are JavaScript's. The same
words are accepted and refused as by the harness itself, so that a command line works in both places.
"""

import difflib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from runner_e2e.errors import InputError
from runner_e2e.plan.selection import (
    BLANKS,
    Selectors,
    check_combination,
    describe_value,
    take_selected_id,
)

DEFAULT_MAX_PARALLEL = "PAPERCLIP_E2E_MAX_PARALLEL"

_VALUED = frozenset(
    {
        "--antigravity-journey-config",
        "--antigravity-journey-recover",
        "--case",
        "--connection-config",
        "--environment",
        "--github-review-config",
        "--group",
        "--id",
        "--max-automatic-retries",
        "--max-parallel",
        "--profile",
        "--suite",
    }
)
_SWITCHES = frozenset(
    {
        "--all",
        "--antigravity-journey-preflight",
        "--debug",
        "--headed",
        "--installed-startup-only",
        "--list",
        "--matrix-json",
        "--provision-github-repository",
        "--ui",
    }
)
_INTERACTIVE = frozenset({"--debug", "--headed", "--ui"})
_LIST_HINT = "--list shows every cell of the catalog, and costs nothing"

# Possessive, so that no length of text makes matching slow.
_DECIMAL = re.compile(r"[+-]?(?:Infinity|(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?)")
_RADIX = re.compile(r"0(?:[xX](?P<x>[0-9a-fA-F]++)|[oO](?P<o>[0-7]++)|[bB](?P<b>[01]++))")
_BASES = {"x": 16, "o": 8, "b": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """What a command line asks for. Paths and values of the attended journeys are None when not given."""

    selectors: Selectors
    max_parallel: int
    max_automatic_retries: int
    headed: bool
    ui: bool
    debug: bool
    installed_startup_only: bool
    connection_config: str | None
    github_review_config: str | None
    provision_github_repository: bool
    antigravity_journey_config: str | None
    antigravity_journey_preflight: bool
    antigravity_journey_recover: str | None


def parse_arguments(argv: Sequence[str], environ: Mapping[str, str]) -> tuple[Arguments, dict[str, str]]:
    """Return what the words ask for, and the environment without the selected id.

    A selected id counts as `--id` at the end of the words. Whether names exist is the catalog's to say.
    """
    selected, rest = take_selected_id(environ)
    words = [word for word in argv if word != "--"]
    if selected is not None:
        words += ["--id", selected]
    found = _scan(words)
    max_parallel = _choose_max_parallel(found, rest)
    retries = _choose_retries(found)
    selectors = _build_selectors(found)
    check_combination(selectors)
    arguments = Arguments(
        selectors=selectors,
        max_parallel=max_parallel,
        max_automatic_retries=retries,
        headed="--headed" in found,
        ui="--ui" in found,
        debug="--debug" in found,
        installed_startup_only="--installed-startup-only" in found,
        connection_config=_last(found, "--connection-config"),
        github_review_config=_last(found, "--github-review-config"),
        provision_github_repository="--provision-github-repository" in found,
        antigravity_journey_config=_last(found, "--antigravity-journey-config"),
        antigravity_journey_preflight="--antigravity-journey-preflight" in found,
        antigravity_journey_recover=_last(found, "--antigravity-journey-recover"),
    )
    return arguments, rest


def to_number(text: str) -> float:
    """Return what JavaScript's `Number` makes of `text`: NaN for what is no number, 0 for blanks."""
    text = text.strip(BLANKS)
    if not text:
        return 0.0
    if _DECIMAL.fullmatch(text):
        return float(text)
    match = _RADIX.fullmatch(text)
    if match is None or match.lastgroup is None:
        return math.nan
    try:
        return float(int(match[match.lastgroup], _BASES[match.lastgroup]))
    except OverflowError:
        return math.inf


def _scan(words: Sequence[str]) -> dict[str, list[str]]:
    """Return the values of each flag in the order given; a switch has none."""
    found: dict[str, list[str]] = {}
    rest = iter(words)
    for word in rest:
        if word in _SWITCHES:
            found.setdefault(word, [])
        elif word in _VALUED:
            value = next(rest, "")
            if not value or value.startswith("--"):
                raise InputError(
                    f"{word} requires a value",
                    f"Write it as the next word, not empty and not beginning with --; {_LIST_HINT}",
                )
            found.setdefault(word, []).append(value)
        else:
            raise _build_unknown(word)
    return found


def _build_unknown(word: str) -> InputError:
    # What follows `=` may be a secret.
    flag, joined, _ = word.partition("=")
    problem = f"Unknown argument {describe_value(flag)}{'=...' if joined else ''}"
    if joined and flag in _VALUED:
        return InputError(problem, f"Write the value as the word after {flag}; {_LIST_HINT}")
    if joined and flag in _SWITCHES:
        return InputError(problem, f"Write {flag} without a value; {_LIST_HINT}")
    close = difflib.get_close_matches(flag[:80], sorted(_VALUED | _SWITCHES), n=1)
    hint = (
        f"Did you mean {close[0]}? " if close else "Leave it out, or put a flag such as --suite before it; "
    )
    return InputError(problem, f"{hint}{_LIST_HINT}")


def _build_selectors(found: Mapping[str, Sequence[str]]) -> Selectors:
    return Selectors(
        all="--all" in found,
        list="--list" in found,
        matrix_json="--matrix-json" in found,
        ids=tuple(found.get("--id", ())),
        suites=tuple(found.get("--suite", ())),
        groups=tuple(found.get("--group", ())),
        profiles=tuple(found.get("--profile", ())),
        environments=tuple(found.get("--environment", ())),
        cases=tuple(found.get("--case", ())),
    )


def _choose_max_parallel(found: Mapping[str, Sequence[str]], environ: Mapping[str, str]) -> int:
    # The default is checked also when the flag replaces it: the harness refuses every call with a bad one.
    default = _parse_positive(DEFAULT_MAX_PARALLEL, environ.get(DEFAULT_MAX_PARALLEL, "1"))
    given = _last(found, "--max-parallel")
    wanted = default if given is None else _parse_positive("--max-parallel", given)
    return 1 if _INTERACTIVE & found.keys() else wanted


def _parse_positive(name: str, text: str) -> int:
    number = to_number(text)
    if not (number.is_integer() and number >= 1):
        raise InputError(f"{name} must be a positive integer", f"Give a number such as 4; {_LIST_HINT}")
    return int(number)


def _choose_retries(found: Mapping[str, Sequence[str]]) -> int:
    given = _last(found, "--max-automatic-retries")
    number = 1.0 if given is None else to_number(given)
    if number not in (0.0, 1.0):
        raise InputError(
            "--max-automatic-retries must be 0 or 1", f"Give 0 to try each cell once; {_LIST_HINT}"
        )
    return int(number)


def _last(found: Mapping[str, Sequence[str]], flag: str) -> str | None:
    values = found.get(flag)
    return values[-1] if values else None
