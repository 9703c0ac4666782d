"""`resolve`, and `plan` with the target's own list, as steps: a real git store, an API on this machine."""

import base64
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import unquote

import pytest

from action.act import commit, git
from action.github_api import answer, serving
from action.runner_model import LogCommand, read_command_file, read_log
from action.workflow_rules import PROJECT
from runner_e2e.actions.github_client import GitHubClient
from runner_e2e.errors import RunnerE2EError, TransientInfrastructureError

TOKEN = "ghs_a-token-for-a-test"
REPOSITORY, REPOSITORY_ID, BRANCH = "octo-org/app", 77, "feature/100%-done"
HARNESS = f"{sys.executable} {PROJECT}/tests/e2e/programs/target_harness.py"
OLD_HARNESS = f"{HARNESS} old"
SELECTORS = """\
// A mention of PAPERCLIP_RUNNER_E2E_SELECTED_ID in a comment is none.
export function takeSelected(environ: NodeJS.ProcessEnv): string[] {
  const id = environ.PAPERCLIP_RUNNER_E2E_SELECTED_ID?.trim();
  delete environ.PAPERCLIP_RUNNER_E2E_SELECTED_ID;
  return id ? ["--id", id] : [];
}
"""
LAUNCH = """\
import { takeSelected } from "./selectors.js";
const words = [...process.argv.slice(2), ...takeSelected(process.env)];
console.log(words.length);
"""
OLD_SELECTORS = "export const flags = ['--id']; // PAPERCLIP_RUNNER_E2E_SELECTED_ID\n"
OLD_LAUNCH = 'import { flags } from "./selectors.js";\nconsole.log(flags);\n'


@dataclass(frozen=True, slots=True)
class Ended:
    """What one step left."""

    status: int
    log: str
    outputs: Mapping[str, str]
    summary: str

    @property
    def commands(self) -> list[LogCommand]:
        return [command for command in read_log(self.log) if command.name in ("error", "warning")]


class Target:
    """A repository under test: a checkout, and the API's answers about it."""

    def __init__(self, directory: Path, files: Mapping[str, str]) -> None:
        self.directory = directory
        directory.mkdir()
        for name, text in files.items():
            path = directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        git(directory, "init", "--quiet", "--initial-branch=main")
        commit(directory)

    @property
    def sha(self) -> str:
        return self.ask("rev-parse", "HEAD").decode().strip()

    def ask(self, *words: str) -> bytes:
        return subprocess.run(
            ["git", "-c", "safe.directory=*", *words], cwd=self.directory, check=True, capture_output=True
        ).stdout

    def reply(self, handler: BaseHTTPRequestHandler) -> None:
        found = self.find(unquote(handler.path.split("?")[0]).removeprefix("/api/v3"))
        respond = answer(404, {"message": "Not Found"}) if found is None else answer(200, found)
        respond(handler)

    def find(self, path: str) -> dict[str, object] | None:
        base = f"/repos/{REPOSITORY}"
        if path == base:
            return {"id": REPOSITORY_ID, "full_name": REPOSITORY, "default_branch": "main"}
        kind, _, name = path.removeprefix(f"{base}/git/").partition("/")
        if path == f"{base}/branches/{BRANCH}":
            return {"name": BRANCH, "commit": {"sha": self.sha}}
        if kind == "commits":
            tree = self.ask("rev-parse", f"{name}^{{tree}}").decode().strip()
            return {"sha": name, "tree": {"sha": tree}}
        if kind == "trees":
            rows = self.ask("ls-tree", "-z", name).decode().split("\0")[:-1]
            return {"sha": name, "tree": [describe(row) for row in rows], "truncated": False}
        if kind == "blobs":
            content = self.ask("cat-file", "blob", name)
            encoded = base64.encodebytes(content).decode()
            return {"sha": name, "content": encoded, "encoding": "base64", "size": len(content)}
        return None


def describe(row: str) -> dict[str, object]:
    fields, _, name = row.partition("\t")
    mode, kind, sha = fields.split()
    return {"path": name, "mode": mode, "type": kind, "sha": sha}


@pytest.fixture
def target(place: Path) -> Target:
    return Target(
        place / "target",
        {"tests/runner-e2e/selectors.ts": SELECTORS, "tests/runner-e2e/launch.ts": LAUNCH},
    )


@pytest.fixture
def old_target(place: Path) -> Target:
    return Target(
        place / "target",
        {
            "tests/runner-e2e/selectors.ts": OLD_SELECTORS,
            "tests/runner-e2e/launch.ts": OLD_LAUNCH,
            "tests/runner-e2e/agent-filesystem-sandbox.mjs": "export {};\n",
        },
    )


@pytest.fixture
def run(clone: Path, place: Path, environment: Path) -> Callable[..., Ended]:
    """Run the step's script with a command, its inputs, and variables of the runner."""
    files = place / "runner-files"

    def run(command: str, inputs: Mapping[str, str], **variables: str) -> Ended:
        files.mkdir(exist_ok=True)
        (files / "output").write_bytes(b"")
        (files / "summary").write_bytes(b"")
        done = subprocess.run(
            ["bash", clone / "scripts" / "action-entry"],
            cwd=place,
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(place),
                "GITHUB_ACTIONS": "true",
                "GITHUB_OUTPUT": str(files / "output"),
                "GITHUB_STEP_SUMMARY": str(files / "summary"),
                "GITHUB_REPOSITORY": REPOSITORY,
                "GITHUB_REPOSITORY_ID": str(REPOSITORY_ID),
                "RUNNER_E2E_VENV": str(environment),
                "RUNNER_TEMP": str(files),
                "INPUT_COMMAND": command,
                **{f"INPUT_{name.upper().replace('-', '_')}": value for name, value in inputs.items()},
                **variables,
            },
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        return Ended(
            done.returncode,
            done.stdout + done.stderr,
            dict(read_command_file((files / "output").read_bytes())),
            (files / "summary").read_text(encoding="utf-8"),
        )

    return run


@pytest.mark.parametrize("prefix", ["", "/api/v3"])
def test_a_branch_is_resolved_over_the_api_in_few_requests(
    run: Callable[..., Ended], target: Target, prefix: str
) -> None:
    inputs = {"target-branch": BRANCH, "github-token": TOKEN}

    with serving(target.reply) as api:
        ended = run("resolve", inputs, GITHUB_API_URL=f"{api.url}{prefix}")

    assert ended.status == 0, ended.log
    evidence = json.loads(ended.outputs["transport-evidence"])
    assert {name: value for name, value in ended.outputs.items() if name != "transport-evidence"} == {
        "target-sha": target.sha,
        "target-ref": f"refs/heads/{BRANCH}",
        "selected-id-transport": "env",
        "sandbox-owner": "action",
    }
    assert (evidence["scan"], evidence["probe"], evidence["decision"]) == ("supported", None, "env")
    assert ended.commands == []
    assert len(api.requests) <= 8
    assert {path.startswith(f"{prefix}/repos/{REPOSITORY}") for path, _ in api.requests} == {True}
    assert {headers["Authorization"] for _, headers in api.requests} <= {f"Bearer {TOKEN}", f"token {TOKEN}"}
    shown = ended.log.replace(f"::add-mask::{TOKEN}", "") + ended.summary + str(ended.outputs)
    assert TOKEN not in shown


def test_an_old_target_falls_back_to_an_argument_with_a_warning(
    run: Callable[..., Ended], old_target: Target
) -> None:
    with serving(old_target.reply) as api:
        ended = run("resolve", {"target-branch": BRANCH}, GITHUB_API_URL=api.url)

    assert ended.status == 0, ended.log
    assert (ended.outputs["selected-id-transport"], ended.outputs["sandbox-owner"]) == ("argv", "target")
    assert [command.name for command in ended.commands] == ["warning"]


def test_an_old_target_is_refused_where_the_id_must_be_hidden(
    run: Callable[..., Ended], old_target: Target
) -> None:
    with serving(old_target.reply) as api:
        ended = run("resolve", {"target-branch": BRANCH, "require-hidden-id": "true"}, GITHUB_API_URL=api.url)

    assert (ended.status, ended.outputs) == (2, {})
    assert [command.name for command in ended.commands] == ["error"]
    assert "require-hidden-id" in ended.summary.replace("&#45;", "-")


@pytest.mark.parametrize(
    ("inputs", "variables", "words"),
    [
        pytest.param({"target-branch": "main"}, {}, "main", id="no-such-branch"),
        pytest.param({"target-branch": "refs/heads/main"}, {}, "Input target-branch", id="ref"),
        pytest.param({"target-branch": "a..b"}, {}, "Input target-branch", id="dots"),
        pytest.param({"target-branch": "b" * 300}, {}, "Input target-branch", id="long"),
        pytest.param({"target-branch": BRANCH}, {"GITHUB_REPOSITORY_ID": "78"}, "not the", id="fork"),
        pytest.param(
            {"target-branch": BRANCH, "target-repository": "octo-org/other"}, {}, "other", id="unknown"
        ),
    ],
)
def test_what_is_no_branch_of_this_repository_is_refused(
    run: Callable[..., Ended],
    target: Target,
    inputs: Mapping[str, str],
    variables: Mapping[str, str],
    words: str,
) -> None:
    with serving(target.reply) as api:
        ended = run("resolve", inputs, GITHUB_API_URL=api.url, **variables)

    assert (ended.status, ended.outputs) == (2, {}), ended.log
    (error,) = ended.commands
    assert words in error.message


def test_an_api_that_is_away_is_no_refusal(run: Callable[..., Ended], target: Target) -> None:
    late = {"Retry_After": "3600", "X_RateLimit_Remaining": "0"}
    with serving(answer(403, {"message": "API rate limit exceeded"}, **late)) as api:
        ended = run("resolve", {"target-branch": BRANCH}, GITHUB_API_URL=api.url)

    assert (ended.status, ended.outputs) == (3, {}), ended.log
    assert "limit" in ended.commands[0].message


@pytest.mark.parametrize(
    ("harness", "probe", "decision"),
    [
        pytest.param(HARNESS, "supported", "env", id="reads-it"),
        pytest.param(OLD_HARNESS, "unsupported", "argv", id="ignores-it"),
        pytest.param("false", "unknown", "env", id="does-not-list"),
    ],
)
def test_a_checkout_is_read_and_its_harness_confirms(
    run: Callable[..., Ended], target: Target, harness: str, probe: str, decision: str
) -> None:
    inputs = {"target-path": str(target.directory), "harness": "command", "harness-command": harness}

    ended = run("resolve", inputs)

    assert ended.status == 0, ended.log
    evidence = json.loads(ended.outputs["transport-evidence"])
    assert (ended.outputs["target-sha"], ended.outputs["target-ref"]) == (target.sha, "")
    assert (evidence["scan"], evidence["probe"], evidence["decision"]) == ("supported", probe, decision)
    assert bool(ended.commands) is (decision == "argv")


def test_the_target_lists_its_cells_for_a_plan(run: Callable[..., Ended], target: Target) -> None:
    inputs = {
        "harness": "command",
        "target-path": str(target.directory),
        "target-sha": target.sha,
        "harness-command": HARNESS,
        "selected-id-transport": "env",
        "id": "core.opencode.local.first-task,core.opencode.local.long-haul",
    }

    ended = run("plan", inputs)

    assert ended.status == 0, ended.log
    rows = json.loads(ended.outputs["matrix"])["include"]
    assert [row["executionId"] for row in rows] == inputs["id"].split(",")
    assert [row["credentialName"] for row in rows] == ["OPENROUTER_API_KEY"] * 2


def test_a_checkout_at_another_commit_lists_nothing(run: Callable[..., Ended], target: Target) -> None:
    inputs = {
        "all": "true",
        "harness": "command",
        "target-path": str(target.directory),
        "target-sha": "0" * 40,
        "harness-command": HARNESS,
    }

    ended = run("plan", inputs)

    assert (ended.status, ended.outputs) == (2, {})
    assert "checkout is at" in ended.commands[0].message


def test_behind_opaque_keys_a_refusing_target_is_not_quoted(
    run: Callable[..., Ended], target: Target
) -> None:
    inputs = {
        "suite": "cor",
        "harness": "command",
        "target-path": str(target.directory),
        "harness-command": HARNESS,
        "opaque-keys": "true",
        "key-secret": "0123456789abcdef0123456789abcdef",
    }

    hidden = run("plan", inputs)
    shown = run("plan", {**inputs, "opaque-keys": "false", "key-secret": ""})

    assert (hidden.status, hidden.outputs) == (2, {})
    assert (shown.status, shown.outputs) == (2, {})
    assert "cor" in shown.commands[0].message
    assert "cor" not in hidden.commands[0].message


SPY = 'sh -c \'cat /proc/$PPID/environ >"$0" 2>&1; shift; exec "$@"\''


@pytest.mark.parametrize(
    ("command", "inputs", "secret"),
    [
        pytest.param(
            "plan",
            {"opaque-keys": "true", "key-secret": "a-key-secret-of-a-test"},
            "a-key-secret-of-a-test",
            id="key-secret",
        ),
        pytest.param("resolve", {"github-token": TOKEN}, TOKEN, id="token"),
    ],
)
def test_the_targets_code_cannot_read_the_secrets_of_the_job(  # noqa: PLR0917 - a table and fixtures
    run: Callable[..., Ended],
    target: Target,
    place: Path,
    command: str,
    inputs: Mapping[str, str],
    secret: str,
) -> None:
    spied = place / "spied"
    harness = f"{SPY} {spied} -- {HARNESS}"
    ending = {"harness": "command", "target-path": str(target.directory), "harness-command": harness}
    selected = {"all": "true"} if command == "plan" else {}

    ended = run(command, {**ending, **inputs, **selected})

    assert ended.status == 0, ended.log
    assert "Permission denied" in spied.read_text(encoding="utf-8")
    assert secret not in spied.read_text(encoding="utf-8")


def test_the_spy_would_have_read_them(place: Path) -> None:
    spied = place / "spied"
    program = f"import subprocess; subprocess.run({SPY + f' {spied} -- true'!r}, shell=True)"

    # The shell between them has the same environment, as every process of a step has.
    subprocess.run(
        [sys.executable, "-c", program],
        check=True,
        env={"PATH": os.environ["PATH"], "INPUT_KEY_SECRET": "a-key-secret-of-a-test"},
    )

    assert "a-key-secret-of-a-test" in spied.read_text(encoding="utf-8")


def test_what_the_targets_code_writes_for_later_steps_is_undone_and_refused(
    run: Callable[..., Ended], target: Target
) -> None:
    forge = 'sh -c \'echo artifact-name=x >>"$1"; shift 2; exec "$@"\' sh'
    place = target.directory.parent / "runner-files" / "output"
    harness = f"{forge} {place} -- {HARNESS}"

    ended = run(
        "plan",
        {
            "all": "true",
            "harness": "command",
            "target-path": str(target.directory),
            "harness-command": harness,
        },
    )

    assert (ended.status, ended.outputs) == (3, {}), ended.log
    assert "GITHUB_OUTPUT" in ended.commands[0].message


def drip(handler: BaseHTTPRequestHandler, head: bytes) -> None:
    """Send `head`, and then one byte after another, none of which ends the answer."""
    handler.wfile.write(head)
    try:
        for _ in range(600):
            handler.wfile.write(b"a")
            handler.wfile.flush()
            time.sleep(0.1)
    except OSError:
        pass  # nobody listens any more


@pytest.mark.parametrize(
    "head",
    [
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n", id="body"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\nX-Slow: ", id="header"),
        pytest.param(b"HTTP/1.1 ", id="status"),
        pytest.param(b"HTTP/1.1 301 Moved\r\nLocation: /x\r\nContent-Length: 1000\r\n\r\n", id="redirect"),
    ],
)
def test_a_server_that_sends_byte_by_byte_is_left_at_the_deadline(head: bytes) -> None:
    with serving(lambda handler: drip(handler, head)) as api:
        started = time.monotonic()
        with GitHubClient(api.url, TOKEN, deadline_s=1) as client:
            if b"301" in head:
                # A redirect is judged by its headers: out of the API's repositories.
                with pytest.raises(RunnerE2EError, match="redirects"):
                    client.repository(REPOSITORY)
            else:
                with pytest.raises(TransientInfrastructureError, match="within the 1 s"):
                    client.repository(REPOSITORY)
        took = time.monotonic() - started

    assert took < 5


def test_a_server_on_this_machine_is_asked_without_the_proxy(
    run: Callable[..., Ended], target: Target
) -> None:
    inputs = {"target-branch": BRANCH, "github-token": TOKEN}

    with serving(answer(502)) as proxy, serving(target.reply) as api:
        ended = run(
            "resolve",
            inputs,
            GITHUB_API_URL=api.url,
            http_proxy=proxy.url,
            HTTP_PROXY=proxy.url,
            ALL_PROXY=proxy.url,
        )

    assert ended.status == 0, ended.log
    assert proxy.requests == []
    assert api.requests != []
