"""`runner-e2e verify`: what it says of an artifact, where secrets come from, and how it ends."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from runner_e2e.cli.app import COMMANDS, cli
from runner_e2e.cli.verify import verify
from runner_e2e.errors import InputError
from runner_e2e.evidence.manifest import write_manifest

SECRET = "Wq7-very-secret-value-9"


@pytest.fixture
def artifact(tmp_path: Path) -> Path:
    directory = tmp_path / "artifact"
    directory.mkdir()
    cell: dict[str, object] = {"schema": "runner-e2e.cell/v1", "id": "a.b.c.d", "status": "started"}
    cell |= dict.fromkeys(("failureClass", "exitCode", "message", "finishedAt", "durationMs", "targetSha"))
    cell |= {"harness": "reference", "sandbox": "unproven", "transport": "env", "attempts": []}
    cell["startedAt"] = "2026-11-02T10:11:12.123+00:00"
    probe: dict[str, object] = {"schema": "runner-e2e.probe-summary/v1", "status": "absent", "abi": None}
    probe |= {name: [] for name in ("reasons", "checks", "failures", "launches", "refusals")}
    probe["protections"] = None
    (directory / "cell.json").write_text(json.dumps(cell))
    (directory / "probe-summary.json").write_text(json.dumps(probe))
    (directory / "server.log").write_text("text\n")
    write_manifest(directory)
    return directory


def run(*words: str, given: bytes | None = None, **variables: str) -> tuple[int, Result]:
    """Run the command; its exit status is what it returns, or that of its error."""
    result = CliRunner(env=variables).invoke(verify, words, input=given, standalone_mode=False)
    if isinstance(result.exception, InputError):
        return result.exception.exit_code, result
    assert result.exception is None, result.exception
    assert isinstance(result.return_value, int)
    return result.return_value, result


def test_an_artifact_that_is_well_ends_with_0(artifact: Path) -> None:
    status, result = run(str(artifact))

    assert status == 0
    assert result.stdout == f"{artifact}: 4 files, ok\n"


def test_a_campaigns_report_among_the_artifacts_is_told_as_what_it_is(artifact: Path) -> None:
    report = artifact.parent / "report"
    report.mkdir()
    (report / "results.json").write_text("{}")
    write_manifest(report)

    status, result = run(str(artifact.parent))

    assert status == 0
    assert result.stdout.splitlines() == [
        f"{artifact}: 4 files, ok",
        f"{report}: 2 files, ok, a campaign's report",
    ]


def test_a_problem_ends_with_1_and_is_told(artifact: Path) -> None:
    (artifact / "server.log").write_text("changed\n")

    status, result = run(str(artifact))

    assert status == 1
    assert result.stdout.splitlines()[1:] == [
        "  changed    server.log: size or digest is not what the manifest says"
    ]


def test_json_holds_the_same(artifact: Path) -> None:
    (artifact / "extra").write_text("x")

    status, result = run(str(artifact), "--json")

    assert status == 1
    found = json.loads(result.stdout)
    assert found["schema"] == "runner-e2e.verify/v1"
    assert found["artifacts"] == [
        {
            "directory": str(artifact),
            "ok": False,
            "report": False,
            "files": 5,
            "problems": [
                {"kind": "unexpected", "file": "extra", "reason": "the manifest does not list it"},
            ],
        }
    ]


def test_secrets_come_from_variables_and_standard_input_and_are_never_shown(artifact: Path) -> None:
    (artifact / "server.log").write_text(SECRET)
    write_manifest(artifact)

    for status, result in (
        run(str(artifact), "--secret-variable", "MINE", MINE=SECRET),
        run(str(artifact), "--secrets-stdin", given=f"another-secret\n{SECRET}\n".encode()),
    ):
        assert status == 1
        assert "leak       server.log: a known secret" in result.stdout
        assert SECRET not in result.output
    assert run(str(artifact))[0] == 0


@pytest.mark.parametrize(
    ("words", "given"),
    [
        pytest.param(["--secret-variable", "NOT_SET_ANYWHERE"], None, id="no-variable"),
        pytest.param(["--secret-variable", "SHORT"], None, id="short-variable"),
        pytest.param(["--secrets-stdin"], b"", id="no-input"),
        pytest.param(["--secrets-stdin"], b"long-enough\nx\n", id="short-line"),
        pytest.param(["--secrets-stdin"], b"x" * (2 << 20), id="endless"),
    ],
)
def test_secrets_that_cannot_be_looked_for_end_with_2(
    artifact: Path, words: list[str], given: bytes | None
) -> None:
    assert run(str(artifact), *words, given=given, SHORT="abc")[0] == 2


def test_what_is_no_artifact_ends_with_2(artifact: Path) -> None:
    assert run(str(artifact / "nothing"))[0] == 2


def test_names_of_files_do_nothing_to_a_terminal(artifact: Path) -> None:
    (artifact / "a\x1b[2J\nb\u202e").write_text("x")

    _, result = run(str(artifact))

    assert r"a\x1b[2J\nb\u202e" in result.stdout
    assert len(result.stdout.splitlines()) == 2


def test_the_command_is_one_of_the_command_lines() -> None:
    assert COMMANDS["verify"] == ("runner_e2e.cli.verify", "verify")
    assert "verify" in CliRunner().invoke(cli, ["--help"]).output
