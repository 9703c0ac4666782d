"""What breaks the shape of a catalog, in plain words, with what to write instead.

Pure. Owns the sentence for each kind of breach that pydantic reports; none of pydantic's own is shown.
"""

import re
from collections.abc import Callable
from dataclasses import fields

from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails

from runner_e2e.plan import definitions
from runner_e2e.plan.catalog_problems import Problem, show
from runner_e2e.plan.definitions import CATALOG_SCHEMA, CatalogFile
from runner_e2e.plan.ids import CASE
from runner_e2e.plan.secret_values import Place

# The mappings of a file, by their path without indexes.
MAPPINGS: dict[tuple[str, ...], type] = {
    (): CatalogFile,
    ("suites",): definitions.Suite,
    ("profiles",): definitions.Profile,
    ("profiles", "modelQualification"): definitions.ModelQualification,
    ("profiles", "expectedRuntimeMetadata"): definitions.RuntimeMetadata,
    ("profiles", "ranking"): definitions.Ranking,
    ("environments",): definitions.Environment,
    ("environments", "lifecycle"): definitions.Lifecycle,
    ("environments", "expectedExecutionTarget"): definitions.ExecutionTarget,
    ("tasks",): definitions.Task,
    ("tasks", "attemptTimeoutMs"): definitions.AttemptTimeout,
    ("tasks", "expectedTerminalState"): definitions.TerminalState,
    ("tasks", "matchers"): definitions.Matcher,
}
_FREE_FIELDS = frozenset({"adapterConfig", "parameters", "definitionMetadata"})

# What a value looks like, for every key that must stand in its mapping and some more.
EXAMPLES = {
    "adapterConfig": "{model: my-model}",
    "adapterType": "paperclip_runner",
    "attemptTimeoutMs": "{local: 300000, daytona: 600000}",
    "canonicalModelId": "vendor/model",
    "capturedAt": "2026-01-31",
    "cleanup": "instance_shutdown",
    "daytona": "600000",
    "definitionMetadata": "{version: 1}",
    "description": "What this suite is for",
    "driver": "local",
    "environments": "[local]",
    "excludedExecutionIds": "[suite.profile.local.case]",
    "expectedExecutionTarget": "{kind: local}",
    "expectedMatrixSize": "12",
    "expectedRunCount": "1",
    "expectedRuntimeMetadata": "{adapterType: paperclip_runner, provider: opencode}",
    "expectedRuntimeMode": "native",
    "expectedTerminalState": "{issue: done, run: succeeded}",
    "flow": "single_turn",
    "generation": "native",
    "groups": "[core]",
    "id": "my-name",
    "issue": "done",
    "kind": "local",
    "label": "A short name for people",
    "lifecycle": ("{setup: instance_managed, probe: run_context_via_api, cleanup: instance_shutdown}"),
    "local": "300000",
    "matchers": "[{kind: message_contains, parameters: {text: '{nonce}'}}]",
    "minimumExpectedRunCount": "1",
    "model": "vendor/model",
    "modelQualification": "{source: adapter_constant, qualificationId: my-name}",
    "parameters": "{text: '{nonce}'}",
    "probe": "run_context_via_api",
    "profiles": "[my-profile]",
    "provider": "local",
    "qualificationId": "my-name",
    "rank": "1",
    "ranking": (
        "{rank: 1, canonicalModelId: vendor/model, snapshotId: my-name, "
        "capturedAt: 2026-01-31, sourceUrl: https://example.com}"
    ),
    "run": "succeeded",
    "schema": CATALOG_SCHEMA,
    "setup": "instance_managed",
    "snapshotId": "my-name",
    "source": "adapter_constant",
    "sourceUrl": "https://example.com",
    "suites": "a list of suites, each with an id",
    "supportedEnvironments": "[local]",
    "tasks": "[my-case]",
    "turnTimeoutMs": "120000",
}
EXAMPLES_IN_PLACE = {
    ("suites",): "a list of suites, each beginning with - id:",
    ("profiles",): "a list of profiles, each beginning with - id:",
    ("environments",): "a list of environments, each beginning with - id:",
    ("tasks",): "a list of tasks, each beginning with - id:",
    ("tasks", "matchers", "kind"): "message_contains",
}

# What the validators of `definitions` say, and what to do.
_REMEDIES = {
    definitions.ONE_LINE: "keep it to one line; longer text goes into prompt",
    definitions.PLAIN_PROSE: "remove the control characters",
    definitions.EXECUTION_ID_FORM: "write the whole id of the cell to leave out",
}

_NAME_LIKE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._ -]{0,79}")


def word_breach(breach: ErrorDetails, path: Place) -> Problem | None:
    """Return a breach in plain words; None when another one says the same."""
    free = next((index for index, step in enumerate(path) if step in _FREE_FIELDS), len(path))
    if len(path) > free + 1:
        return None  # `find_free_breaches` tells it
    value = breach["input"]
    if isinstance(value, dict) and len(value) == 1 and breach["type"] != "missing":
        tag = next(iter(value))
        if isinstance(tag, str) and tag.startswith("!"):
            return Problem(
                path, f"has the tag {show(tag)}", "remove it; text that begins with ! needs quotes"
            )
    wording = _WORDINGS.get(breach["type"], _word_other)
    return wording(breach, path)


def _word_missing(_: ErrorDetails, path: Place) -> Problem:
    return Problem(path, "is missing", f"add {_example(path)}")


def _word_unknown_key(_: ErrorDetails, path: Place) -> Problem:
    key = str(path[-1])
    if key == "<<":
        return Problem(path, "is a merge key, which is not read", "write the keys of the merged mapping out")
    if key.startswith("!"):
        return Problem(
            path[:-1], f"has the tag {show(key)}", "remove it; text that begins with ! needs quotes"
        )
    known = known_keys(path[:-1])
    return Problem(path, "is no key of this mapping", "use one of its keys", given=key, known=known)


def _word_key(breach: ErrorDetails, path: Place) -> Problem:
    return Problem(
        path[:-1], f"has the key {show(str(breach['input']))}, which is not text", "use the keys of a catalog"
    )


def _word_mapping(_: ErrorDetails, path: Place) -> Problem:
    known = known_keys(path)
    remedy = f"write its keys, such as {', '.join(known[:3])}" if known else f"write {_example(path)}"
    return Problem(path, "must be a mapping of keys to values", remedy)


def _word_list(_: ErrorDetails, path: Place) -> Problem:
    return Problem(path, "must be a list", f"write {_example(path)}")


def _word_empty_list(breach: ErrorDetails, path: Place) -> Problem | None:
    if breach["input"]:
        return None  # its items are wrong, and each says so
    return Problem(path, "must not be empty", f"write {_example(path)}")


def _word_text(breach: ErrorDetails, path: Place) -> Problem:
    value = breach["input"]
    kind, remedy = "", f"write {_example(path)}"
    if isinstance(value, bool):
        kind, remedy = ", not true or false", "put it in quotes"
    elif isinstance(value, int | float):
        kind, remedy = ", not a number", "put it in quotes"
    elif isinstance(value, dict):
        kind, remedy = ", not a mapping", "put text that begins with { in quotes"
    elif isinstance(value, list):
        kind, remedy = ", not a list", "put text that begins with [ in quotes"
    return Problem(path, f"must be text{kind}", remedy)


def _word_short_text(_: ErrorDetails, path: Place) -> Problem:
    return Problem(path, "must not be empty", f"write {_example(path)}")


def _word_long_text(breach: ErrorDetails, path: Place) -> Problem:
    return Problem(path, f"must have at most {breach['ctx']['max_length']} characters", "shorten it")


def _word_pattern(breach: ErrorDetails, path: Place) -> Problem:
    name = show(str(breach["input"]))
    if breach["ctx"]["pattern"] == f"^{CASE}$":
        says = "must begin with a letter or digit and go on with letters, digits, dots, _ and -"
        return Problem(path, f"{name} is no case: it {says}", "write a name such as agents.change-manager")
    says = "must begin with a lower-case letter or digit and go on with letters, digits, _ and -"
    return Problem(path, f"{name} is no name: it {says}", "write a name such as my-name")


def _word_number(_: ErrorDetails, path: Place) -> Problem:
    unit = " of milliseconds" if any(str(step).endswith("Ms") for step in path) else ""
    return Problem(path, f"must be a whole number{unit}", f"write {_example(path)}, without quotes")


def _word_small(breach: ErrorDetails, path: Place) -> Problem:
    return Problem(path, f"must be at least {breach['ctx']['ge']}", f"write {_example(path)}")


def _word_large(breach: ErrorDetails, path: Place) -> Problem:
    unit = " milliseconds" if any(str(step).endswith("Ms") for step in path) else ""
    return Problem(path, f"must be at most {breach['ctx']['le']}{unit}", f"write {_example(path)}")


def _word_flag(_: ErrorDetails, path: Place) -> Problem:
    return Problem(path, "must be true or false", "write one of them, without quotes")


def _word_choice(breach: ErrorDetails, path: Place) -> Problem:
    known = tuple(re.findall(r"'([^']*)'", breach["ctx"]["expected"]))
    value = breach["input"]
    # Where a credential's name belongs, somebody may have put the credential.
    if path[-1] == "credential":
        return Problem(path, "must be the name of a known credential", f"write one of {', '.join(known)}")
    # What no name looks like may be a secret that stands in the wrong place.
    if not isinstance(value, str) or not _NAME_LIKE.fullmatch(value):
        return Problem(path, "must be one of the known values", f"write one of {', '.join(known)}")
    says = f"{show(value)} is none of the known values"
    return Problem(path, says, "write a known value", given=value, known=known)


def _word_own(breach: ErrorDetails, path: Place) -> Problem:
    says = str(breach["ctx"]["error"])
    return Problem(path, says, _REMEDIES.get(says, f"write {_example(path)}"))


def _word_other(_: ErrorDetails, path: Place) -> Problem:
    return Problem(path, "has a wrong value", f"write {_example(path)}")


_WORDINGS: dict[str, Callable[[ErrorDetails, Place], Problem | None]] = {
    "bool_type": _word_flag,
    "dataclass_type": _word_mapping,
    "dict_type": _word_mapping,
    "greater_than_equal": _word_small,
    "int_type": _word_number,
    "invalid_key": _word_key,
    "less_than_equal": _word_large,
    "literal_error": _word_choice,
    "mapping_type": _word_mapping,
    "missing": _word_missing,
    "string_pattern_mismatch": _word_pattern,
    "string_too_long": _word_long_text,
    "string_too_short": _word_short_text,
    "string_type": _word_text,
    "too_short": _word_empty_list,
    "tuple_type": _word_list,
    "unexpected_keyword_argument": _word_unknown_key,
    "value_error": _word_own,
}


def known_keys(path: Place) -> tuple[str, ...]:
    """Return the keys that the mapping at `path` can have; none where it is free."""
    mapping = MAPPINGS.get(tuple(step for step in path if isinstance(step, str)))
    return tuple(to_camel(field.name) for field in fields(mapping)) if mapping else ()


def _example(path: Place) -> str:
    names = tuple(step for step in path if isinstance(step, str))
    if names in EXAMPLES_IN_PLACE:
        return EXAMPLES_IN_PLACE[names] if len(names) == 1 else f"{names[-1]}: {EXAMPLES_IN_PLACE[names]}"
    example = EXAMPLES.get(names[-1]) if names else None
    return f"{names[-1]}: {example}" if example else "a short text"
