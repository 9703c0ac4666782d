"""What every launch hides, and which variables a server gets."""

from __future__ import annotations

from pathlib import PurePosixPath

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner_e2e.isolation.base import FILE_VARIABLES, BaseHidden, HarnessPlaces, plan_base_hidden
from runner_e2e.isolation.environment import DEFAULT_SEARCH, GENERATED_SECRETS, build_child_environment

ROOT = "/var/tmp/re-1"
PROJECT = "/srv/action"


def places(**changes: object) -> HarnessPlaces:
    fields: dict[str, object] = {
        "root": ROOT,
        "project": PROJECT,
        "environment": f"{PROJECT}/.venv",
        "target": f"{ROOT}/target",
        "homes": ("/home/runner",),
        "evidence": "/srv/work/runner-e2e-evidence/cell",
        "extra": (),
    }

    def path(value: object) -> object:
        if isinstance(value, tuple):
            return tuple(PurePosixPath(str(item)) for item in value)
        return None if value is None else PurePosixPath(str(value))

    return HarnessPlaces(**{name: path(value) for name, value in (fields | changes).items()})  # type: ignore[arg-type]  # every field is a path or paths


def hidden_by(environ: dict[str, str] | None = None, **changes: object) -> set[str]:
    found = plan_base_hidden(places(**changes), environ or {})
    return {str(path) for path in (*found.required, *found.optional)}


def test_the_attempts_private_part_has_to_exist() -> None:
    found = plan_base_hidden(places(extra=("/srv/answers",)), {})

    assert {str(path) for path in found.required} == {f"{ROOT}/private", "/srv/answers"}


def test_the_harness_and_the_target_are_hidden_part_by_part() -> None:
    """With `uses: ./` an agent may work beneath the project: it is never hidden whole."""
    found = hidden_by()

    assert {f"{PROJECT}/{part}" for part in ("lib", "entrypoints", "tests", ".git", ".venv")} <= found
    assert {f"{ROOT}/target/tests", f"{ROOT}/target/.git", f"{ROOT}/probe"} <= found
    assert not {PROJECT, ROOT, f"{ROOT}/target", f"{ROOT}/bin", f"{ROOT}/paperclip-home"} & found


def test_a_project_that_is_also_workspace_and_target_is_hidden_once() -> None:
    """As under act, where action path, workspace and target are one directory."""
    found = plan_base_hidden(places(target=PROJECT), {})

    names = [str(path) for path in found.optional]
    assert len(names) == len(set(names))
    assert {f"{PROJECT}/tests", f"{PROJECT}/.git"} <= set(names)
    assert PROJECT not in names


def test_without_a_target_or_an_environment_of_its_own_there_is_less() -> None:
    found = hidden_by(target=None, environment=None)

    assert "/usr" not in found
    assert f"{ROOT}/target/tests" not in found


@pytest.mark.parametrize(
    "name", [".docker", ".ssh", ".aws", ".netrc", ".npmrc", ".git-credentials", ".gnupg", ".kube", ".pypirc"]
)
def test_credentials_are_hidden_in_every_home(name: str) -> None:
    found = hidden_by(homes=("/home/runner", "/root"))

    assert {f"/home/runner/{name}", f"/root/{name}"} <= found


@pytest.mark.parametrize("name", FILE_VARIABLES)
def test_a_command_file_hides_its_directory(name: str) -> None:
    assert "/w/_temp/_runner_file_commands" in hidden_by(
        {name: "/w/_temp/_runner_file_commands/set_output_1"}
    )


def test_every_file_the_runner_hands_over_is_known() -> None:
    assert set(FILE_VARIABLES) == {
        f"GITHUB_{name}" for name in ("OUTPUT", "ENV", "PATH", "STATE", "STEP_SUMMARY", "EVENT_PATH")
    }


@pytest.mark.parametrize(
    "directory", ["/", "/tmp", "/var/tmp", "/home", "/var", "/dev/shm", "/home/runner", ROOT, "/var/tmp/"]
)
def test_a_command_file_in_a_shared_directory_is_hidden_alone(directory: str) -> None:
    file = PurePosixPath(directory) / "output.txt"

    found = hidden_by({"GITHUB_OUTPUT": str(file)})

    assert str(file) in found
    assert str(PurePosixPath(directory)) not in found


@pytest.mark.parametrize("value", ["", "output.txt", "./output.txt"])
def test_a_command_file_that_is_not_absolute_is_none(value: str) -> None:
    assert hidden_by({"GITHUB_OUTPUT": value}) == hidden_by()


def test_the_runners_own_places_are_hidden() -> None:
    found = hidden_by({"RUNNER_TEMP": "/opt/runner/_work/_temp"})

    assert {"/opt/runner/_work/_temp", "/opt/runner/_work/_actions"} <= found
    for top in ("/opt/runner", "/opt/runner/_work"):
        assert {
            f"{top}/_diag",
            f"{top}/.credentials",
            f"{top}/.credentials_rsaparams",
            f"{top}/.runner",
        } <= found
    assert not {"/opt/runner", "/opt/runner/_work"} & found


def test_a_runners_temporary_directory_is_hidden_with_the_home_in_it() -> None:
    """An agent's home is another one."""
    assert "/w/_temp" in hidden_by({"RUNNER_TEMP": "/w/_temp"}, homes=("/w/_temp/_github_home",))


@pytest.mark.parametrize("value", ["/tmp", "/var/tmp", ROOT, "/"])
def test_a_temporary_directory_that_holds_the_attempt_stays(value: str) -> None:
    found = hidden_by({"RUNNER_TEMP": value})

    assert str(PurePosixPath(value)) not in found


def test_results_of_other_cells_are_hidden_with_ones_own() -> None:
    assert "/srv/work/runner-e2e-evidence" in hidden_by()
    assert "/tmp/cell" in hidden_by(evidence="/tmp/cell")
    assert "/tmp" not in hidden_by(evidence="/tmp/cell")
    assert "/home/runner" not in hidden_by(evidence="/home/runner/cell")
    assert "/home/runner/cell" in hidden_by(evidence="/home/runner/cell")


ABSOLUTE = st.lists(st.sampled_from(["tmp", "var", "home", "re-1", "runner", "x"]), max_size=4).map(
    lambda names: "/" + "/".join(names)
)
ENVIRONS = st.dictionaries(st.sampled_from([*FILE_VARIABLES, "RUNNER_TEMP"]), ABSOLUTE)


@settings(deadline=None)
@given(ENVIRONS, ABSOLUTE)
def test_no_variable_hides_the_attempt_or_a_shared_directory(environ: dict[str, str], evidence: str) -> None:
    found: BaseHidden = plan_base_hidden(places(evidence=evidence), environ)

    for path in found.optional:
        assert path.is_absolute()
        assert not PurePosixPath(ROOT).is_relative_to(path), path
        assert str(path) not in {"/", "/tmp", "/var/tmp", "/home", "/var", "/dev/shm"}


def test_a_server_gets_an_environment_from_a_list() -> None:
    source = {
        "PATH": "/root/.local/bin:/usr/bin",
        "LANG": "C.UTF-8",
        "LC_ALL": "C",
        "LC_CTYPE": "de_DE",
        "TZ": "UTC",
        "SSL_CERT_FILE": "/etc/ca.pem",
        "NODE_EXTRA_CA_CERTS": "/etc/more.pem",
        "GITHUB_TOKEN": "secret",
        "ACTIONS_RUNTIME_TOKEN": "secret",
        "ANTHROPIC_API_KEY": "secret",
        "RUNNER_E2E_DECOY": "secret",
        "PAPERCLIP_RUNNER_E2E_SELECTED_ID": "suite.profile.environment.case",
        "HTTP_PROXY": "http://user:secret@proxy",
        "PYTHONPATH": "/x",
        "LD_PRELOAD": "/x.so",
        "NODE_OPTIONS": "--require /x.js",
        "HOME": "/root",
        "XLC_ALL": "x",
        "CI": "true",
    }

    found = build_child_environment(source, {"PORT": "1", "LANG": "C"})

    assert found == {
        "PATH": DEFAULT_SEARCH,
        "LANG": "C",
        "LC_ALL": "C",
        "LC_CTYPE": "de_DE",
        "TZ": "UTC",
        "SSL_CERT_FILE": "/etc/ca.pem",
        "NODE_EXTRA_CA_CERTS": "/etc/more.pem",
        "PORT": "1",
    }


def test_a_search_path_holds_no_relative_or_personal_directory() -> None:
    for directory in DEFAULT_SEARCH.split(":"):
        assert directory.startswith(("/usr/", "/sbin", "/bin"))


def test_the_generated_secrets_are_those_of_the_product() -> None:
    assert set(GENERATED_SECRETS) == {
        "PAPERCLIP_AGENT_JWT_SECRET",
        "PAPERCLIP_DECISION_SIGNING_SECRET",
        "PAPERCLIP_TOOL_ACTION_SIGNING_SECRET",
        "BETTER_AUTH_SECRET",
    }
