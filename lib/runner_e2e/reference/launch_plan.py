"""What a launched runner is given: arguments and variables. Pure.

The product filters variables twice, once for the provider and once at the spawn; only a name that
both admit arrives. Both lists stand here, so that the gaps between them stay visible; of the second
only the git families are left out, of which the first admits no name.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY")
_PROVIDER_NAMES = _names(
    "PATH LANG LANGUAGE TZ TMPDIR TEMP TMP SSL_CERT_FILE SSL_CERT_DIR NODE_EXTRA_CA_CERTS "
    "SystemRoot PATHEXT WINDIR RUST_BACKTRACE OPENROUTER_API_KEY "
    "PAPERCLIP_NATIVE_MCP_NAME PAPERCLIP_NATIVE_MCP_URL PAPERCLIP_NATIVE_MCP_TOKEN"
).union(_PROXIES, (name.lower() for name in _PROXIES))
_SPAWN_NAMES = _names(
    "PATH HOME CODEX_HOME SystemRoot WINDIR PATHEXT LANG LC_ALL LC_CTYPE TZ "
    "SSL_CERT_FILE SSL_CERT_DIR RUST_BACKTRACE "
    "OPENROUTER_API_KEY ANTHROPIC_API_KEY CLAUDE_CODE_OAUTH_TOKEN OPENAI_API_KEY CODEX_API_KEY "
    "PAPERCLIP_ACPX_CODEX_AUTH_JSON_SECRET PAPERCLIP_RUNNER_EXTERNAL_SANDBOX "
    "AWS_REGION AWS_DEFAULT_REGION AWS_WEB_IDENTITY_TOKEN_FILE AWS_ROLE_ARN AWS_ROLE_SESSION_NAME "
    "AWS_CONTAINER_CREDENTIALS_FULL_URI AWS_CONTAINER_CREDENTIALS_RELATIVE_URI "
    "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE PAPERCLIP_ACPX_PROVIDER_PACKAGE_ROOT "
    "PAPERCLIP_ACPX_PROVIDER_PACKAGE_MANIFEST PAPERCLIP_ACPX_PROVIDER_RECOVERY_POLICY "
    "GH_TOKEN GITHUB_TOKEN SSH_AUTH_SOCK BASH_ENV ZDOTDIR"
).union(_PROXIES)
_PROCESS_NAMES = _names("PATH HOME LANG LC_ALL LC_CTYPE TZ TMPDIR")

_TRACE_MAX_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class LaunchIds:
    """Every id one launch of a runner carries."""

    run: str
    session: str
    runner: str
    lease: str
    turn: str
    item: str


@dataclass(frozen=True, slots=True)
class RunnerBinary:
    """The file a launch starts and its sha256."""

    path: Path
    digest: str
    version: str


@dataclass(frozen=True, slots=True)
class LaunchTerms:
    """How a runner reaches the server, how long it may run, and what its provider may do."""

    port: int
    max_runtime_s: float
    lifecycle_mode: str
    permission_mode: str


@dataclass(frozen=True, slots=True)
class SessionPaths:
    """Where one launch keeps its state."""

    durable: Path
    trace: Path

    @property
    def state_dir(self) -> Path:
        """The runner's own state."""
        return self.durable / "runner"

    @property
    def control_plane_state(self) -> Path:
        """The server's state of this session."""
        return self.durable / "control-plane" / "control-plane-state.json"

    @property
    def runtime_context(self) -> Path:
        """What the server tells the provider about the run."""
        return self.durable / "runtime-context.json"


def passes_filters(name: str) -> bool:
    """Say whether a variable of the server or the run reaches a runner."""
    provider = name in _PROVIDER_NAMES or name.startswith("LC_")
    return provider and name in _SPAWN_NAMES


def plan_runner_environment(
    inherited: Mapping[str, str],
    ids: LaunchIds,
    paths: SessionPaths,
    terms: LaunchTerms,
    ticket: str,
) -> dict[str, str]:
    """Return the whole environment of a runner.

    `inherited` is the server's own environment overlaid with the run's.
    """
    passed = {name: value for name, value in inherited.items() if passes_filters(name)}
    return passed | {
        "PAPERCLIP_OPENCODE_PERMISSION_MODE": terms.permission_mode,
        "PAPERCLIP_OPENCODE_RUNTIME_DIR": str(paths.durable / "opencode"),
        "PAPERCLIP_RUNNER_INSTANCE_ID": ids.runner,
        "PAPERCLIP_RUN_ID": ids.run,
        "PAPERCLIP_NORMALIZED_SESSION_ID": ids.session,
        "PAPERCLIP_NATIVE_RUNTIME_CONTEXT_PATH": str(paths.runtime_context),
        "PAPERCLIP_PROVIDER_TRACE_PATH": str(paths.trace),
        "PAPERCLIP_PROVIDER_TRACE_MAX_BYTES": str(_TRACE_MAX_BYTES),
        "PAPERCLIP_RUNNER_BOOTSTRAP_TICKET": ticket,
    }


def plan_process_environment(
    server: Mapping[str, str], configured: Mapping[str, str], added: Mapping[str, str]
) -> dict[str, str]:
    """Return the environment of a `process` agent; `added` wins over what the agent configures."""
    passed = {name: value for name, value in server.items() if name in _PROCESS_NAMES}
    return {**passed, **configured, **added}


def plan_runner_argv(
    ids: LaunchIds, paths: SessionPaths, terms: LaunchTerms, binary: RunnerBinary
) -> tuple[str, ...]:
    """Return a runner's command line, each option followed by its value.

    The reference runner is proxy, harness and provider in one, so all of these name its file.
    """
    path, digest = str(binary.path), binary.digest
    options = {
        "connect-url": f"ws://127.0.0.1:{terms.port}/api/runner/v1/connect/{ids.run}",
        "state-dir": str(paths.state_dir),
        "runner-id": ids.runner,
        "environment-lease-id": ids.lease,
        "run-id": ids.run,
        "session-id": ids.session,
        "turn-id": ids.turn,
        "item-id": ids.item,
        "runner-version": binary.version,
        "runner-digest": digest,
        "opencode-proxy-command": path,
        "opencode-proxy-command-sha256": digest,
        "opencode-proxy-script": path,
        "opencode-proxy-script-sha256": digest,
        "opencode-executable": path,
        "opencode-executable-sha256": digest,
        "fake-harness": path,
        "fake-harness-script": path,
        "max-outbox-bytes": str(16 * 1024 * 1024),
        "p0-reserve-bytes": str(1024 * 1024),
        "reconnect-delay-ms": "250",
        "max-runtime-ms": str(int(terms.max_runtime_s * 1000)),
        "lifecycle-mode": terms.lifecycle_mode,
        "diagnostics-directory": str(paths.durable / "diagnostics"),
    }
    words = [path]
    for name, value in options.items():
        words += (f"--{name}", value)
    return tuple(words)
