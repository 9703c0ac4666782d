"""The words and the variables with which a target's harness is started. Pure."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from runner_e2e.cell.command_request import CommandRequest, Sandbox
from runner_e2e.isolation.admission import is_installed_lane
from runner_e2e.isolation.binaries import Host, resolve_local_binary, resolve_remote_binary
from runner_e2e.isolation.explain import Built
from runner_e2e.isolation.harness import (
    HarnessRequest,
    build_attempt_overrides,
    build_harness_environment,
)
from runner_e2e.isolation.variables import (
    CAMPAIGN_ID,
    REMOTE_RUNNER_BINARY,
    RUNNER_BINARY,
    SELECTED_ID,
)

SOURCE_SHA = "PAPERCLIP_RUNNER_E2E_SOURCE_SHA"
SOURCE_REF = "PAPERCLIP_RUNNER_E2E_SOURCE_REF"
# Retries are ours: only here is it known what an attempt left behind.
NO_RETRIES = ("--max-automatic-retries", "0")


@dataclass(frozen=True, slots=True)
class Binaries:
    """Which runnerd a cell starts here, and which one on a remote host; None where there is none."""

    local: str | None
    remote: str | None


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Where an attempt's harness lives; `wrapper` stands in for the local runnerd, if there is one."""

    home: Path
    temporary: Path
    binaries: Binaries
    wrapper: Path | None
    campaign: str


def build_words(command: CommandRequest, execution_id: str) -> tuple[str, ...]:
    """Return the command line; it names the cell only for a target that cannot learn it otherwise."""
    named = ("--id", execution_id) if command.transport == "argv" else ()
    return (*command.words, *NO_RETRIES, *named)


def find_binaries(command: CommandRequest, environ: Mapping[str, str], host: Host) -> Binaries:
    """Return the binaries as the product resolves them, without a wrapper in between."""
    cells = (command.traits,)
    local = resolve_local_binary(environ, cells, str(command.target), host)
    return Binaries(local, resolve_remote_binary(environ, cells, local, host))


def build_environment(
    command: CommandRequest, execution_id: str, environ: Mapping[str, str], places: Surroundings
) -> Built:
    """Return what the target's harness gets, before a gateway stands in for the provider."""
    overrides = build_attempt_overrides(
        str(places.home),
        str(places.temporary),
        places.campaign,
        execution_id if command.transport == "env" else None,
    )
    overrides[SOURCE_SHA] = command.sha
    if command.source_ref is not None:
        overrides[SOURCE_REF] = command.source_ref
    binaries = places.binaries
    if places.wrapper is not None and binaries.local is not None:
        overrides[RUNNER_BINARY] = str(places.wrapper)
        overrides[REMOTE_RUNNER_BINARY] = binaries.local
    elif _may_start_remote(command, environ) and binaries.remote is not None:
        overrides[REMOTE_RUNNER_BINARY] = binaries.remote
    return build_harness_environment(
        environ,
        HarnessRequest(
            cells=(command.traits,),
            credentials=command.credentials,
            passed=command.passed,
            overrides=overrides,
        ),
    )


def _may_start_remote(command: CommandRequest, environ: Mapping[str, str]) -> bool:
    # What is installed brings its own, and refuses to start beside a second one.
    return command.sandbox(environ) is Sandbox.NONE and not is_installed_lane(environ)


def find_admitted(command: CommandRequest) -> frozenset[str]:
    """Return the denied names that this cell's harness is meant to have, beside those of a gateway."""
    own = {CAMPAIGN_ID, SOURCE_SHA, SOURCE_REF, *command.credentials}
    return frozenset(own | ({SELECTED_ID} if command.transport == "env" else set()))


def build_campaign_id() -> str:
    """Return a campaign's id that says nothing: the product's own holds the cell's."""
    return f"c-{secrets.token_hex(8)}"
