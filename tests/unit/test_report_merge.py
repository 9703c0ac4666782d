"""A campaign's artifacts become one document, in which nothing hostile counts and nothing old replaces."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import jsonschema_rs
import pytest

from artifact_samples import (
    CELL,
    PNG,
    SHA,
    build_agents,
    build_probe,
    build_record,
    build_result,
    build_spending,
    build_started,
    describe_campaign,
    hash_suite,
    name_artifact,
    plan_cells,
    write_artifact,
)
from runner_e2e.errors import InputError
from runner_e2e.evidence.redaction import Redactor
from runner_e2e.report.merge import merge_campaign
from runner_e2e.report.schemas import read_results_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

Document = dict[str, Any]

SECRET = "Wq7-very-secret-value-9"
REDACTOR = Redactor([SECRET])
VALIDATOR = jsonschema_rs.validator_for(read_results_schema(), validate_formats=True)
OTHER, KEY = "chat.opus.local.turns.six", "c-28b51f552c4c"


def merge(
    downloads: Path,
    *names: str,
    attempt: int = 1,
    latest: Mapping[str, int] | None = None,
    **plan: object,
) -> Document:
    planned = plan_cells(*(names or (CELL,)), **plan)
    document = merge_campaign(downloads, planned, describe_campaign(attempt), latest, REDACTOR)
    assert [error.message for error in VALIDATOR.iter_errors(document)] == []
    written = json.dumps(document, allow_nan=False)
    written.encode()
    assert SECRET not in written
    return document


def cell_of(document: Document) -> Document:
    (cell,) = document["cells"]
    assert isinstance(cell, dict)
    return cell


def problems_of(document: Document) -> list[tuple[str, str]]:
    return [(one["artifact"], one["code"]) for one in document["problems"]]


def test_cells_that_passed_make_a_campaign_that_passed(tmp_path: Path) -> None:
    for name in (CELL, OTHER):
        write_artifact(tmp_path, name)

    document = merge(tmp_path, CELL, OTHER)

    assert document["verdict"] == {"word": "passed", "exitCode": 0, "reasons": []}
    assert [cell["name"] for cell in document["cells"]] == [CELL, OTHER]
    assert document["campaign"] == {
        "run": "7",
        "attempt": 1,
        "repository": "acme/paperclip",
        "url": "https://github.com/acme/paperclip/actions/runs/7",
        "targetSha": SHA,
        "targetRef": "refs/heads/main",
        "matrixSha256": "0" * 64,
        "opaque": False,
    }


def test_a_cell_without_an_artifact_is_an_infrastructure_failure(tmp_path: Path) -> None:
    write_artifact(tmp_path)

    document = merge(tmp_path, CELL, OTHER)

    missing = document["cells"][1]
    assert (missing["source"], missing["status"], missing["exitCode"]) == ("missing", "failed", 3)
    assert (missing["failureClass"], missing["artifact"]) == ("permanent_infrastructure", None)
    assert document["verdict"]["word"] == "infrastructure"


def test_per_cell_the_attempt_counts_in_which_its_job_last_ran(tmp_path: Path) -> None:
    write_artifact(tmp_path, CELL, 1, {"cell.json": build_record(CELL, "candidate_failure")})
    write_artifact(tmp_path, CELL, 2)
    write_artifact(tmp_path, OTHER, 1)

    document = merge(tmp_path, CELL, OTHER, attempt=3, latest={CELL: 2, OTHER: 1})

    first, second = document["cells"]
    assert (first["status"], first["runAttempt"], first["artifact"]) == ("passed", 2, name_artifact(CELL, 2))
    assert first["earlier"] == [
        {
            "runAttempt": 1,
            "artifact": name_artifact(CELL, 1),
            "status": "failed",
            "failureClass": "candidate_failure",
        }
    ]
    assert (second["status"], second["runAttempt"], second["earlier"]) == ("passed", 1, [])
    assert document["verdict"]["word"] == "passed"


@pytest.mark.parametrize(
    "latest",
    [pytest.param({CELL: 2}, id="its-job-ran-again"), pytest.param({}, id="its-job-is-not-known")],
)
def test_an_earlier_pass_never_stands_for_what_is_missing(latest: Mapping[str, int], tmp_path: Path) -> None:
    write_artifact(tmp_path, CELL, 1)

    document = merge(tmp_path, attempt=2, latest=latest)

    cell = cell_of(document)
    assert (cell["source"], cell["status"], cell["runAttempt"]) == ("missing", "failed", 2)
    assert [one["status"] for one in cell["earlier"]] == ["passed"]
    assert document["verdict"]["exitCode"] == 3


def test_an_earlier_pass_never_stands_for_what_is_refused(tmp_path: Path) -> None:
    write_artifact(tmp_path, CELL, 1)
    (write_artifact(tmp_path, CELL, 2) / "extra").touch()

    document = merge(tmp_path, attempt=2, latest={CELL: 2})

    assert cell_of(document)["source"] == "rejected"
    assert problems_of(document) == [(name_artifact(CELL, 2), "manifest")]


def test_an_artifact_of_an_attempt_in_which_no_job_ran_is_told_of(tmp_path: Path) -> None:
    write_artifact(tmp_path, CELL, 1)
    write_artifact(tmp_path, CELL, 2)

    document = merge(tmp_path, attempt=2, latest={CELL: 1})

    assert (cell_of(document)["source"], cell_of(document)["runAttempt"]) == ("artifact", 1)
    assert problems_of(document) == [(name_artifact(CELL, 2), "later-attempt")]
    assert document["verdict"]["word"] == "infrastructure"


def test_what_is_hostile_in_an_earlier_artifact_is_not_read(tmp_path: Path) -> None:
    earlier = write_artifact(tmp_path, CELL, 1, {"cell.json": b"[" * 100_000})
    (earlier / "link").symlink_to("/etc")
    write_artifact(tmp_path, CELL, 2)
    write_artifact(tmp_path, CELL, 3, {"cell.json": build_record(OTHER)})

    document = merge(tmp_path, attempt=4, latest={CELL: 4})

    assert [(one["status"], one["failureClass"]) for one in cell_of(document)["earlier"]] == [
        (None, None),
        ("passed", None),
        (None, None),
    ]


def test_a_job_that_was_killed_failed_and_its_artifact_is_not_refused(tmp_path: Path) -> None:
    write_artifact(
        tmp_path,
        records={"cell.json": build_started()},
        without=["manifest.json", "probe-summary.json", "agents.json"],
    )

    document = merge(tmp_path)

    cell = cell_of(document)
    assert (cell["source"], cell["status"], cell["exitCode"]) == ("artifact", "failed", 3)
    assert cell["failureClass"] == "permanent_infrastructure"
    assert "job ended before" in cell["message"]
    assert cell["log"]["excerpt"] == "server listening\nrun finished\n"
    assert document["problems"] == []


def link_beside(downloads: Path) -> None:
    (downloads / "cache").symlink_to("/etc")


def turn_into_link(downloads: Path) -> None:
    (downloads / name_artifact()).rename(downloads.parent / "elsewhere")
    (downloads / name_artifact()).symlink_to(downloads.parent / "elsewhere")


def turn_into_file(downloads: Path) -> None:
    shutil.rmtree(downloads / name_artifact())
    (downloads / name_artifact()).touch()


def add_twin(downloads: Path) -> None:
    shutil.copytree(downloads / name_artifact(), downloads / name_artifact().upper())


def rewrite(records: Mapping[str, object], without: Sequence[str] = ()) -> Callable[[Path], None]:
    def spoil(downloads: Path) -> None:
        shutil.rmtree(downloads / name_artifact())
        write_artifact(downloads, records=records, without=without)

    return spoil


def record(failure: str | None = None, **changes: object) -> Callable[[Path], None]:
    return rewrite({"cell.json": build_record(CELL, failure, **changes)})


def probe(status: str = "passed", checks: int = 2, **changes: object) -> Callable[[Path], None]:
    return rewrite({"probe-summary.json": build_probe(status, checks, **changes)})


REFUSED: list[tuple[str, Callable[[Path], None], str]] = [
    ("link", turn_into_link, "symlink"),
    ("file", turn_into_file, "file"),
    ("twin", add_twin, "duplicate"),
    ("link-within", lambda one: (one / name_artifact() / "link").symlink_to("/etc"), "symlink"),
    ("no-record", rewrite({}, without=["cell.json"]), "no-record"),
    ("record-without-fields", rewrite({"cell.json": {"schema": "runner-e2e.cell/v1"}}), "record"),
    ("record-of-another-schema", record(schema="runner-e2e.cell/v2"), "record"),
    ("record-is-no-json", rewrite({"cell.json": b"{"}), "no-json"),
    ("record-of-another-cell", rewrite({"cell.json": build_record(OTHER)}), "forged-name"),
    ("record-behind-a-key", rewrite({"cell.json": build_record(KEY)}), "forged-name"),
    ("result-of-another-cell", rewrite({"results/result.json": build_result(OTHER)}), "forged-name"),
    ("another-commit", record(targetSha="0" * 40), "wrong-target"),
    ("a-pass-of-no-commit", record(targetSha=None), "wrong-target"),
    ("another-definition", record(suiteDefinitionHash=hash_suite("other")), "definition-drift"),
    ("no-definition", record(suiteDefinitionHash=None), "definition-drift"),
    ("a-time-that-none-is", record(startedAt="0001-01-01T00:00:00+14:00"), "record"),
    ("a-duration-below-zero", record(durationMs=-1), "record"),
    ("an-endless-duration", record(durationMs=10**30), "record"),
    ("a-pass-with-a-failure", record(failureClass="contaminated"), "record"),
    ("a-pass-with-an-exit-code", record(exitCode=1), "record"),
    ("a-failure-with-another-code", record(failure="contaminated", exitCode=3), "record"),
    ("a-cancelled-one-with-another-code", record(failure="cancelled", exitCode=1), "record"),
    ("started-and-ended", record(status="started"), "record"),
    ("probe-is-none", rewrite({"probe-summary.json": []}), "record"),
    ("probe-with-failures", probe(failures=[{"id": "run:secrets"}]), "record"),
    ("a-pass-without-a-probe", rewrite({}, without=["probe-summary.json"]), "unproven-pass"),
    ("a-pass-without-a-manifest", rewrite({}, without=["manifest.json"]), "unproven-pass"),
    ("a-pass-whose-probe-failed", probe(status="failed"), "unproven-pass"),
    ("a-pass-whose-probe-is-absent", probe(status="absent", checks=0, owner=None), "unproven-pass"),
    ("a-pass-that-is-unproven", record(sandbox="unproven"), "unproven-pass"),
    ("a-pass-without-a-launch", probe(launches=[]), "unproven-pass"),
    ("a-pass-by-the-target's-probe", probe(owner="target"), "unproven-pass"),
    ("a-target's-pass-by-our-probe", record(sandbox="target"), "unproven-pass"),
    ("a-pass-outside-of-domains", record(sandbox="not-applicable", harness="built-in"), "unproven-pass"),
    (
        "a-target's-pass-without-a-launch",
        rewrite(
            {
                "cell.json": build_record(sandbox="target"),
                "probe-summary.json": build_probe(owner="target", target={"launchSeen": False}),
            }
        ),
        "unproven-pass",
    ),
]


@pytest.mark.parametrize(
    ("spoil", "code"), [pytest.param(spoil, code, id=name) for name, spoil, code in REFUSED]
)
def test_an_artifact_that_contradicts_itself_or_the_plan_is_refused(
    spoil: Callable[[Path], None], code: str, tmp_path: Path
) -> None:
    downloads = tmp_path / "downloads"
    write_artifact(downloads)
    write_artifact(downloads, OTHER)
    assert merge(downloads, CELL, OTHER)["verdict"]["word"] == "passed"  # control
    spoil(downloads)

    document = merge(downloads, CELL, OTHER)

    first, second = document["cells"]
    assert (first["source"], first["status"], first["exitCode"]) == ("rejected", "failed", 3)
    assert first["failureClass"] == "permanent_infrastructure"
    assert first["artifact"].casefold() == name_artifact().casefold()
    assert {found for _, found in problems_of(document)} == {code}
    assert (second["source"], second["status"]) == ("artifact", "passed")
    assert document["verdict"] == {
        "word": "infrastructure",
        "exitCode": 3,
        "reasons": document["verdict"]["reasons"],
    }


ACCEPTED: list[tuple[str, Callable[[Path], None], str, str]] = [
    (
        "not-applicable",
        rewrite(
            {"cell.json": build_record(sandbox="not-applicable"), "probe-summary.json": build_probe("absent")}
        ),
        "passed",
        "not-applicable",
    ),
    (
        "target",
        rewrite(
            {
                "cell.json": build_record(sandbox="target"),
                "probe-summary.json": build_probe(owner="target", target={"launchSeen": True}),
            }
        ),
        "passed",
        "target",
    ),
    ("failed", record(failure="candidate_failure"), "failed", "enforced"),
    (
        "failed-and-claims-to-be-proven",
        rewrite(
            {"cell.json": build_record(failure="contaminated"), "probe-summary.json": build_probe("failed")}
        ),
        "failed",
        "unproven",
    ),
    ("refused-without-a-target", record(failure="refused", targetSha=None), "refused", "enforced"),
    ("not-run", record(failure="not_run", targetSha=None), "not_run", "enforced"),
    ("interrupted", record(failure="cancelled", exitCode=130), "cancelled", "enforced"),
    (
        "stopped-before-its-manifest",
        rewrite(
            {"cell.json": build_record(failure="cancelled", sandbox="unproven")},
            without=["manifest.json", "probe-summary.json"],
        ),
        "cancelled",
        "unproven",
    ),
    ("reference-of-no-commit", record(harness="reference", targetSha=None), "passed", "enforced"),
]


@pytest.mark.parametrize(
    ("write", "status", "sandbox"),
    [pytest.param(write, status, sandbox, id=name) for name, write, status, sandbox in ACCEPTED],
)
def test_what_cells_really_leave_is_accepted(
    write: Callable[[Path], None], status: str, sandbox: str, tmp_path: Path
) -> None:
    write_artifact(tmp_path)
    write(tmp_path)

    document = merge(tmp_path)

    assert document["problems"] == []
    assert (cell_of(document)["status"], cell_of(document)["sandbox"]) == (status, sandbox)


@pytest.mark.parametrize(
    ("spoil", "code"),
    [
        pytest.param(link_beside, "symlink", id="link"),
        pytest.param(lambda one: (one / "unknown").mkdir(), "unknown-name", id="unknown"),
        pytest.param(lambda one: (one / name_artifact(CELL, 2)).mkdir(), "later-attempt", id="later"),
        pytest.param(
            lambda one: (one / f"a\x1b[2J{SECRET}\udcff").mkdir(), "unknown-name", id="hostile-name"
        ),
    ],
)
def test_a_stray_entry_fails_the_campaign_and_no_cell(
    spoil: Callable[[Path], None], code: str, tmp_path: Path
) -> None:
    write_artifact(tmp_path)
    spoil(tmp_path)

    document = merge(tmp_path)

    assert cell_of(document)["status"] == "passed"
    assert [found for _, found in problems_of(document)] == [code]
    assert document["verdict"]["exitCode"] == 3
    assert all(one["artifact"].isprintable() for one in document["problems"])


def test_of_many_problems_the_first_are_told_and_the_rest_counted(tmp_path: Path) -> None:
    for number in range(1100):
        (tmp_path / f"unknown-{number:04}").mkdir()

    document = merge(tmp_path)

    assert len(document["problems"]) == 1000
    assert document["problems"][-1] == {
        "artifact": "",
        "code": "more",
        "message": "101 more artifacts were refused.",
    }
    assert document["verdict"]["reasons"][-1].startswith("1,100 problems with artifacts: unknown-0000")
    assert document["verdict"]["reasons"][-1].endswith(" and 1095 more.")


def test_behind_a_key_an_artifact_names_nothing(tmp_path: Path) -> None:
    names = {"suiteId": "chat", "profileId": "opus", "caseId": "turns.two"}
    record = build_record(KEY, suite="chat", suiteDefinitionHash=hash_suite("chat"), profile="opus")
    write_artifact(
        tmp_path,
        KEY,
        records={
            "cell.json": record,
            "results/result.json": build_result(KEY, **names),
            "agents.json": build_agents(),
        },
        files={"results/final-state.png": PNG},
    )

    cell = cell_of(merge(tmp_path, KEY))

    assert (cell["name"], cell["status"]) == (KEY, "passed")
    for field in ("suite", "profile", "case", "suiteDefinitionHash", "model", "provider", "screenshot"):
        assert cell[field] is None, field
    assert [(one["kind"], one["detail"]) for one in cell["matchers"]] == [("issue_status", "")]
    assert "turns.two" not in json.dumps(cell)
    assert cell["usage"]["inputTokens"] == 900


def test_secrets_and_what_acts_are_taken_out_of_every_text(tmp_path: Path) -> None:
    hostile = f"<script>\x1b[31m{SECRET}\u202e\ud800"
    record = build_record(
        message=hostile,
        transport=hostile,
        contamination={"verdict": hostile, "reached": [hostile], "accesses": [{"line": hostile}]},
    )
    record["attempts"][0] |= dict.fromkeys(("rule", "line", "message", "retry"), hostile)
    agents = build_agents()
    agents["agents"][0] |= {
        "agent": hostile,
        "attempts": [{"id": hostile, "reach": hostile, "errno": hostile}],
    }
    write_artifact(
        tmp_path,
        records={"cell.json": record, "agents.json": agents},
        files={
            "server.log": f"{SECRET}\x1b[2J\r\n".encode() * 5000,
            f"results/{SECRET}\u202e.txt": b"",
        },
    )

    cell = cell_of(merge(tmp_path))

    assert cell["message"].startswith(r"<script>\x1b[31m[redacted]\u202e")
    assert cell["agents"][0]["tried"][0]["reach"] == "not-tried"
    assert cell["log"]["cut"]
    assert len(cell["log"]["excerpt"]) <= 8000
    assert "\x1b" not in json.dumps(cell, ensure_ascii=False)
    assert "\u202e" not in json.dumps(cell, ensure_ascii=False)


def test_of_endless_lists_only_the_beginning_is_kept_and_of_attempts_the_end(tmp_path: Path) -> None:
    record = build_record()
    record["attempts"] = [{**record["attempts"][0], "number": number} for number in range(30)]
    record["contamination"] |= {"reached": ["run:secrets"] * 300, "accesses": [{"place": "a"}] * 300}
    agents = build_agents(places=501)
    agents["agents"] *= 33
    result = build_result(matcherResults=[{"kind": "a", "passed": True}] * 600)
    write_artifact(
        tmp_path,
        records={
            "cell.json": record,
            "probe-summary.json": build_probe(checks=600, reasons=["why"] * 60),
            "agents.json": agents,
            "results/result.json": result,
        },
        files={f"results/html-report/{number}": b"" for number in range(250)},
    )

    cell = cell_of(merge(tmp_path))

    assert [row["number"] for row in cell["attempts"]] == [*range(20, 30)]
    assert (len(cell["files"]), len(cell["matchers"])) == (200, 500)
    assert (len(cell["agents"]), len(cell["agents"][0]["tried"])) == (64, 500)
    assert (len(cell["probe"]["checks"]), len(cell["probe"]["reasons"])) == (500, 50)
    assert (len(cell["contamination"]["reached"]), len(cell["contamination"]["accesses"])) == (100, 100)


def test_of_a_cell_without_a_result_the_matchers_are_those_of_its_agents(tmp_path: Path) -> None:
    write_artifact(tmp_path)

    rows = cell_of(merge(tmp_path))["matchers"]

    assert [(row["agent"], row["kind"], row["passed"]) for row in rows] == [
        ("ada", "message_contains", True),
        ("bob", "message_contains", True),
    ]


def test_without_a_server_the_log_is_the_harness_s(tmp_path: Path) -> None:
    write_artifact(tmp_path, files={"server.log": b"", "harness.log": b"no server\n"})

    assert cell_of(merge(tmp_path))["log"] == {"excerpt": "no server\n", "cut": False}


def test_the_model_is_what_the_gateway_was_asked_for_where_no_result_says(tmp_path: Path) -> None:
    write_artifact(tmp_path, CELL, records={"spending.json": build_spending()})
    both = {"models": [{"model": "opus-4"}, {"model": "haiku-4"}]}
    write_artifact(tmp_path, OTHER, records={"spending.json": build_spending(**both)})

    document = merge(tmp_path, CELL, OTHER)

    assert [cell["model"] for cell in document["cells"]] == ["opus-4", None]


@pytest.mark.parametrize(
    ("about", "plan", "latest"),
    [
        pytest.param({"attempt": 2}, {}, None, id="an-attempt-that-nobody-knows-of"),
        pytest.param({"run": "8"}, {}, None, id="another-run"),
        pytest.param({"target_sha": "0" * 40}, {}, None, id="another-commit"),
        pytest.param({"attempt": 0}, {}, None, id="no-attempt"),
        pytest.param({"attempt": 2}, {}, {CELL: 3}, id="a-job-of-a-later-attempt"),
        pytest.param({"attempt": 2}, {}, {CELL: 0}, id="a-job-of-no-attempt"),
    ],
)
def test_a_campaign_that_cannot_be_is_refused(
    about: dict[str, Any], plan: dict[str, Any], latest: Mapping[str, int] | None, tmp_path: Path
) -> None:
    write_artifact(tmp_path)
    assert merge(tmp_path)["verdict"]["word"] == "passed"  # control

    with pytest.raises(InputError):
        merge_campaign(tmp_path, plan_cells(CELL, **plan), describe_campaign(**about), latest, REDACTOR)


def test_a_directory_that_is_none_or_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)

    for name in ("link", "nothing", "a\0b"):
        with pytest.raises(InputError):
            merge(tmp_path / name)
