"""A workflow run that is authorized, for tests that change one thing of it."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

ACTOR_ID = 583231
OTHER_ID = 1024025
ALLOWED = (ACTOR_ID, OTHER_ID)

ENVIRON: Mapping[str, str] = {
    "GITHUB_ACTIONS": "true",
    "GITHUB_ACTOR": "octo-cat",
    "GITHUB_ACTOR_ID": str(ACTOR_ID),
    "GITHUB_API_URL": "https://api.github.com",
    "GITHUB_BASE_REF": "",
    "GITHUB_EVENT_NAME": "workflow_dispatch",
    "GITHUB_HEAD_REF": "",
    "GITHUB_REF": "refs/heads/main",
    "GITHUB_REF_TYPE": "branch",
    "GITHUB_REPOSITORY": "octo-org/paid",
    "GITHUB_REPOSITORY_ID": "77",
    "GITHUB_RUN_ATTEMPT": "1",
    "GITHUB_TRIGGERING_ACTOR": "octo-cat",
}
REPOSITORY = {"full_name": "octo-org/paid", "id": 77, "default_branch": "main", "private": True}
SENDER = {"login": "octo-cat", "id": ACTOR_ID, "type": "User"}
DISPATCH: Mapping[str, object] = {
    "inputs": {"target_branch": "feature"},
    "organization": {"login": "octo-org"},
    "ref": "refs/heads/main",
    "repository": REPOSITORY,
    "sender": SENDER,
    "workflow": ".github/workflows/paid.yml",
}
SCHEDULE: Mapping[str, object] = {"schedule": "47 8 * * 0", "workflow": ".github/workflows/paid.yml"}

ABSENT = object()


def change_payload(payload: Mapping[str, object], path: str, value: object) -> bytes:
    """Return an event file in which the value at a path such as `repository.id` is another, or absent."""
    changed = copy.deepcopy(dict(payload))
    part = changed
    *outer, last = path.split(".")
    for name in outer:
        inner = part[name]
        assert isinstance(inner, dict)
        part = inner
    if value is ABSENT:
        del part[last]
    else:
        part[last] = value
    return json.dumps(changed).encode()
