"""The real OpenCode plays a script: it runs the commands it is told, and comes back with their results."""

from __future__ import annotations

import json
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from runner_e2e.model.server import Model, running_model
from runner_e2e.product.installation import find_installation

if TYPE_CHECKING:
    from pathlib import Path

TEXT = """schema: runner-e2e.scripted-model/v1
values: [nonce, ada_key, bob_key]
agents:
- id: ada
  match: {key: '{ada_key}'}
  steps: ADA
- id: bob
  match: {key: '{bob_key}'}
  steps: BOB
"""
WRITE = """
  - malformed: missing_finish
    text: A part that is lost
  - tool:
      name: bash
      arguments: {command: 'echo {nonce}-$((40 + 2)) | tee made.txt', description: Write a file}
    meet: {name: both-work}
  - malformed: cut
    text: This breaks off
  - rate_limit: {retry_after_s: 1}
  - error: {status: 503}
  - text: All is done
    expect: {tool_result_contains: '{nonce}-42'}
"""
TWO_AT_ONCE = """
  - tools:
    - {name: bash, arguments: {command: 'echo one-$((1 + 1))', description: One}}
    - {name: bash, arguments: {command: 'echo two-$((2 + 2))', description: Two}}
    meet: {name: both-work}
  - tool: {name: bash, arguments: {command: 'echo x >> tries; wc -l < tries', description: Try}}
    expect: {tool_result_contains: two-4, contains: one-2}
    repeat: 10
    until: {tool_result_contains: '3'}
  - text: All is done
"""
KEYS = {"ada": "the-key-of-ada", "bob": "the-key-of-bob"}


@pytest.fixture(scope="module")
def opencode() -> Path:
    installation = find_installation(os.environ)
    assert installation is not None, "run scripts/test --paperclip, which installs the product first"
    return installation.opencode


def run_opencode(program: Path, place: Path, model: Model, key: str) -> subprocess.CompletedProcess[bytes]:
    """Run one task to its end in a home of its own; OpenCode prints a line of JSON for each event."""
    work, home = place / "work", place / "home"
    for directory in (work, home):
        directory.mkdir(parents=True)
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": model.base_url, "apiKey": key},
        "models": {"scripted": {"name": "Scripted"}},
    }
    settings = {
        "autoupdate": False,
        "permission": "allow",
        "model": "fake/scripted",
        "provider": {"fake": provider},
    }
    environment = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(home),
        **{f"XDG_{kind}_HOME": str(home / kind.lower()) for kind in ("CACHE", "CONFIG", "DATA", "STATE")},
        "TMPDIR": str(home),
        "OPENCODE_CONFIG_CONTENT": json.dumps(settings),
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
    }
    return subprocess.run(
        [program, "run", "--format", "json", "Do what is to be done"],
        cwd=work,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=120,
        check=False,
    )


@pytest.mark.extended
def test_two_agents_work_at_once_and_get_over_what_goes_wrong(opencode: Path, tmp_path: Path) -> None:
    script = tmp_path / "script.yaml"
    script.write_text(TEXT.replace("ADA", WRITE).replace("BOB", TWO_AT_ONCE), encoding="utf-8")
    values = {"nonce": "a-word", "ada_key": KEYS["ada"], "bob_key": KEYS["bob"]}

    with running_model(script, tmp_path / "log.ndjson", values) as model:
        with ThreadPoolExecutor(2) as executor:
            running = {
                name: executor.submit(run_opencode, opencode, tmp_path / name, model, key)
                for name, key in KEYS.items()
            }
            ended = {name: one.result() for name, one in running.items()}
        unmet, requests = model.unmet, model.requests

    assert unmet == ()
    assert (tmp_path / "ada" / "work" / "made.txt").read_text(encoding="utf-8") == "a-word-42\n"
    assert (tmp_path / "bob" / "work" / "tries").read_text(encoding="utf-8") == "x\n" * 3
    for one in ended.values():
        assert one.returncode == 0, one.stderr
        assert b"All is done" in one.stdout
    # Both sent the same task: only the keys tell them apart.
    assert {request["lastUserText"] for request in requests if request["played"] != "title"} == {
        '"Do what is to be done"'
    }
    played = [request["played"] for request in requests if request["agent"] == "ada"]
    assert [one for one in played if one != "title"] == [
        "malformed:missing_finish",
        "tool",
        "malformed:cut",
        "rate_limit",
        "error",
        "text",
    ]
    assert played.count("title") == 1
    assert len({request["conversation"] for request in requests}) == 2


@pytest.mark.extended
def test_a_script_that_ends_early_ends_the_agent_with_an_error(opencode: Path, tmp_path: Path) -> None:
    script = tmp_path / "script.yaml"
    script.write_text(
        "schema: runner-e2e.scripted-model/v1\n"
        "agents: [{id: ada, steps: [{tool: {name: bash, arguments: {command: ls, description: Look}}}]}]\n",
        encoding="utf-8",
    )

    with running_model(script, tmp_path / "log.ndjson") as model:
        ended = run_opencode(opencode, tmp_path / "ada", model, KEYS["ada"])
        unmet = model.unmet

    assert unmet == ("ada: it asked on after the last step",)
    assert ended.returncode == 1
    assert b"The script has no more steps" in ended.stdout
    assert [request["played"] for request in model.requests].count("script_ended") == 1
