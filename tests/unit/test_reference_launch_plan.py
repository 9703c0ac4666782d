"""Arguments and variables of a launched runner."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner_e2e.reference.launch_plan import (
    LaunchIds,
    LaunchTerms,
    RunnerBinary,
    SessionPaths,
    passes_filters,
    plan_process_environment,
    plan_runner_argv,
    plan_runner_environment,
)
from runner_e2e.reference.runnerd import parse_options

IDS = LaunchIds("run-1", "session-1", "runner-1", "lease-1", "turn-1", "item-1")
PATHS = SessionPaths(Path("/i/durable-sessions/abc"), Path("/i/traces/t.ndjson"))
TERMS = LaunchTerms(4321, 12.5, "per_turn", "allow")
ADDED = {
    "PAPERCLIP_OPENCODE_PERMISSION_MODE": "allow",
    "PAPERCLIP_OPENCODE_RUNTIME_DIR": "/i/durable-sessions/abc/opencode",
    "PAPERCLIP_RUNNER_INSTANCE_ID": "runner-1",
    "PAPERCLIP_RUN_ID": "run-1",
    "PAPERCLIP_NORMALIZED_SESSION_ID": "session-1",
    "PAPERCLIP_NATIVE_RUNTIME_CONTEXT_PATH": "/i/durable-sessions/abc/runtime-context.json",
    "PAPERCLIP_PROVIDER_TRACE_PATH": "/i/traces/t.ndjson",
    "PAPERCLIP_PROVIDER_TRACE_MAX_BYTES": "67108864",
    "PAPERCLIP_RUNNER_BOOTSTRAP_TICKET": "ticket",
}


def test_the_command_line_is_the_products_option_by_option() -> None:
    binary = RunnerBinary(Path("/b/runnerd"), "d1g3st", "1.2.3")

    assert plan_runner_argv(IDS, PATHS, TERMS, binary) == (
        "/b/runnerd",
        "--connect-url",
        "ws://127.0.0.1:4321/api/runner/v1/connect/run-1",
        "--state-dir",
        "/i/durable-sessions/abc/runner",
        "--runner-id",
        "runner-1",
        "--environment-lease-id",
        "lease-1",
        "--run-id",
        "run-1",
        "--session-id",
        "session-1",
        "--turn-id",
        "turn-1",
        "--item-id",
        "item-1",
        "--runner-version",
        "1.2.3",
        "--runner-digest",
        "d1g3st",
        "--opencode-proxy-command",
        "/b/runnerd",
        "--opencode-proxy-command-sha256",
        "d1g3st",
        "--opencode-proxy-script",
        "/b/runnerd",
        "--opencode-proxy-script-sha256",
        "d1g3st",
        "--opencode-executable",
        "/b/runnerd",
        "--opencode-executable-sha256",
        "d1g3st",
        "--fake-harness",
        "/b/runnerd",
        "--fake-harness-script",
        "/b/runnerd",
        "--max-outbox-bytes",
        "16777216",
        "--p0-reserve-bytes",
        "1048576",
        "--reconnect-delay-ms",
        "250",
        "--max-runtime-ms",
        "12500",
        "--lifecycle-mode",
        "per_turn",
        "--diagnostics-directory",
        "/i/durable-sessions/abc/diagnostics",
    )


def test_the_runner_reads_back_every_option() -> None:
    argv = plan_runner_argv(IDS, PATHS, TERMS, RunnerBinary(Path("/b"), "d", "1"))

    options = parse_options(argv[1:])

    assert len(options) == (len(argv) - 1) / 2
    assert options["session-id"] == "session-1"
    assert options["diagnostics-directory"] == "/i/durable-sessions/abc/diagnostics"


@pytest.mark.parametrize(
    "name",
    [
        *("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "SSL_CERT_FILE", "SSL_CERT_DIR"),
        *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "RUST_BACKTRACE"),
        *("SystemRoot", "PATHEXT", "WINDIR", "OPENROUTER_API_KEY"),
    ],
)
def test_what_both_filters_admit_arrives(name: str) -> None:
    assert passes_filters(name)


@pytest.mark.parametrize(
    "name",
    [
        # Only the provider's filter admits these.
        *("LANGUAGE", "LC_MESSAGES", "TMPDIR", "TEMP", "TMP", "NODE_EXTRA_CA_CERTS"),
        *("http_proxy", "https_proxy", "no_proxy", "all_proxy", "PAPERCLIP_NATIVE_MCP_TOKEN"),
        # Only the spawn's filter admits these.
        *("HOME", "CODEX_HOME", "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "AWS_ROLE_ARN"),
        *("GH_TOKEN", "GITHUB_TOKEN", "SSH_AUTH_SOCK", "BASH_ENV", "ZDOTDIR"),
        # Neither does.
        *("PAPERCLIP_HOME", "PAPERCLIP_INSTANCE_ID", "PAPERCLIP_AGENT_JWT_SECRET", "PORT"),
        *("PAPERCLIP_RUNNER_E2E_SELECTED_ID", "GITHUB_SHA", "ACTIONS_RUNTIME_TOKEN"),
        *("LD_PRELOAD", "NODE_OPTIONS", "PYTHONPATH", "OPENCODE_CONFIG_CONTENT", "PGPASSWORD"),
        # Spellings that only look like an admitted name.
        *("path", "Path", "PATH ", " PATH", "PATH=x", "PATHX", "lc_all", "LC_", "LC_ALL\n", ""),
    ],
)
def test_what_one_filter_refuses_does_not_arrive(name: str) -> None:
    assert not passes_filters(name)


def test_a_runner_gets_what_passes_and_what_its_launch_adds() -> None:
    inherited = {"PATH": "/bin", "HOME": "/root", "OPENROUTER_API_KEY": "key", "SECRET": "s"}

    environ = plan_runner_environment(inherited, IDS, PATHS, TERMS, "ticket")

    assert environ == {"PATH": "/bin", "OPENROUTER_API_KEY": "key", **ADDED}


def test_nobody_else_can_set_what_the_launch_adds() -> None:
    environ = plan_runner_environment(dict.fromkeys(ADDED, "forged"), IDS, PATHS, TERMS, "ticket")

    assert environ == ADDED


def test_a_process_agent_gets_its_own_settings_and_nothing_of_the_server() -> None:
    environ = plan_process_environment(
        {"PATH": "/bin", "BETTER_AUTH_SECRET": "s", "GITHUB_TOKEN": "t"},
        {"GREETING": "hello", "PAPERCLIP_RUN_ID": "forged"},
        {"PAPERCLIP_RUN_ID": "run-1"},
    )

    assert environ == {"PATH": "/bin", "GREETING": "hello", "PAPERCLIP_RUN_ID": "run-1"}
