"""Small catalogs for tests, as documents to change and as text to read."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from runner_e2e.errors import InputError
from runner_e2e.plan.catalog import parse_catalog

Document = dict[str, Any]
REMOVED = object()

LOCAL: Document = {
    "id": "local",
    "label": "This machine",
    "groups": ["local"],
    "driver": "local",
    "provider": "local",
    "lifecycle": {
        "setup": "instance_managed",
        "probe": "run_context_via_api",
        "cleanup": "instance_shutdown",
    },
    "expectedExecutionTarget": {"kind": "local"},
}
DAYTONA: Document = {
    "id": "daytona",
    "label": "A sandbox elsewhere",
    "groups": ["daytona"],
    "driver": "sandbox",
    "provider": "daytona",
    "lifecycle": {
        "setup": "create_via_api",
        "probe": "run_context_via_api",
        "cleanup": "delete_via_api_and_destroy_leases",
    },
    "expectedExecutionTarget": {"kind": "remote", "transport": "sandbox"},
    "credential": "DAYTONA_API_KEY",
}


def profile(name: str, **changes: object) -> Document:
    """Return a profile that spends nothing and supports both environments."""
    return {
        "id": name,
        "label": f"Profile {name}",
        "generation": "native",
        "groups": ["native"],
        "adapterType": "paperclip_runner",
        "provider": "opencode",
        "model": "vendor/model",
        "modelQualification": {"source": "adapter_constant", "qualificationId": name},
        "supportedEnvironments": ["local", "daytona"],
        "expectedRuntimeMode": "native",
        "expectedRuntimeMetadata": {"adapterType": "paperclip_runner", "provider": "opencode"},
        **changes,
    }


def task(name: str, **changes: object) -> Document:
    """Return a task of one turn."""
    return {
        "id": name,
        "label": f"Case {name}",
        "flow": "single_turn",
        "expectedRunCount": 1,
        "attemptTimeoutMs": {"local": 300_000, "daytona": 600_000},
        "expectedTerminalState": {"issue": "done", "run": "succeeded"},
        "title": "Say {nonce}",
        "prompt": "Say {nonce} and finish.",
        "matchers": [{"kind": "message_contains", "parameters": {"text": "{nonce}"}}],
        **changes,
    }


def suite(name: str, size: int, **changes: object) -> Document:
    """Return a suite of the profile `one` on `local`, with the task `first.case`."""
    return {
        "id": name,
        "label": f"Suite {name}",
        "description": "What it is for",
        "profiles": ["one"],
        "environments": ["local"],
        "tasks": ["first.case"],
        "expectedMatrixSize": size,
        **changes,
    }


def small_catalog() -> Document:
    """Return two suites, two profiles, both environments and three tasks: nine cells, one excluded."""
    return {
        "schema": "runner-e2e.catalog/v1",
        "groups": ["own"],
        "expectedMatrixSize": 8,
        "suites": [
            suite(
                "wide",
                7,
                groups=["core"],
                profiles=["one", "two"],
                environments=["local", "daytona"],
                tasks=["first.case", "second"],
                excludedExecutionIds=["wide.two.daytona.second"],
            ),
            suite("narrow", 1, tasks=["third"], manualOnly=True),
        ],
        "profiles": [profile("one", credential="OPENROUTER_API_KEY"), profile("two")],
        "environments": [copy.deepcopy(LOCAL), copy.deepcopy(DAYTONA)],
        "tasks": [
            task("first.case", groups=["chat"]),
            task("second"),
            task("third", groups=["slow"], explicitGroup="slow"),
        ],
    }


def as_text(document: object) -> str:
    """Return a document as the text of a catalog: JSON is YAML."""
    return json.dumps(document, ensure_ascii=False, indent=1)


def changed(path: tuple[str | int, ...], value: object) -> Document:
    """Return the small catalog with another value at `path`, or without it for `REMOVED`."""
    document = small_catalog()
    place: Any = document
    for step in path[:-1]:
        place = place[step]
    if value is REMOVED:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return document


def refusal(document: Document | str) -> str:
    """Return what is said to a catalog that is refused."""
    text = document if isinstance(document, str) else as_text(document)
    with pytest.raises(InputError) as caught:
        parse_catalog(text, "my.yaml")
    assert caught.value.exit_code == 2
    return str(caught.value)
