"""Requests as clients send them, for the tests of the scripted model."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from runner_e2e.model.conversation import Request, parse_request
from runner_e2e.model.reading import parse_script

if TYPE_CHECKING:
    from collections.abc import Mapping

    from runner_e2e.model.script import Script

KEY = "key-of-ada"
Message = dict[str, Any]


def user(text: object = "do it") -> Message:
    return {"role": "user", "content": text}


def assistant(*ids: str, text: str | None = "") -> Message:
    calls = [
        {"id": name, "type": "function", "function": {"name": "bash", "arguments": "{}"}} for name in ids
    ]
    return {"role": "assistant", "content": text, **({"tool_calls": calls} if calls else {})}


def tool(text: str = "done", name: str = "call_1") -> Message:
    return {"role": "tool", "tool_call_id": name, "content": text}


def ask(*messages: Message, headers: Mapping[str, str] | None = None, **fields: object) -> Request:
    body = {
        "model": "ada",
        "stream": True,
        "tools": [{"type": "function", "function": {"name": "bash"}}],
        "messages": [{"role": "system", "content": "You are Ada"}, *messages],
        **fields,
    }
    return parse_request(json.dumps(body).encode(), {"authorization": f"Bearer {KEY}", **(headers or {})})


def script_of(steps: str, otherwise: str = "") -> Script:
    return parse_script(
        f"schema: runner-e2e.scripted-model/v1\nagents:\n- id: ada\n  steps: {steps}\n{otherwise}", "my.yaml"
    )
