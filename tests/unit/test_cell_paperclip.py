"""What the built-in harness decides: which cells it runs, what it starts, what it makes of what it finds."""

from __future__ import annotations

import base64
import json
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner_e2e.cell.agent_run import Coverage
from runner_e2e.cell.matchers import MatcherResult
from runner_e2e.cell.paperclip_agents import Worker
from runner_e2e.cell.paperclip_api import bind_secrets
from runner_e2e.cell.paperclip_drift import LayoutFound
from runner_e2e.cell.paperclip_evidence import judge_workers
from runner_e2e.cell.paperclip_explorer import MARK
from runner_e2e.cell.paperclip_judgement import (
    PaperclipGathered,
    describe_agents,
    describe_contamination,
    judge_paperclip,
)
from runner_e2e.cell.paperclip_leads import build_exploration, compute_witness, read_findings
from runner_e2e.cell.paperclip_opencode import build_open_runner, build_opencode
from runner_e2e.cell.paperclip_places import PaperclipPlaces
from runner_e2e.cell.paperclip_plan import check_script
from runner_e2e.cell.paperclip_server import ServerOrder, build_environment
from runner_e2e.cell.paperclip_task import find_script, plan_task
from runner_e2e.cell.request import CellRequest
from runner_e2e.cell.root import AttemptRoot
from runner_e2e.errors import (
    AttemptTimeoutError,
    CancelledError,
    CandidateFailureError,
    ContaminatedError,
    FailureClass,
    InputError,
    NotRunError,
    RunnerE2EError,
    SandboxUnprovenError,
)
from runner_e2e.evidence.attempts import Attempt, Finding, Place, Reach
from runner_e2e.evidence.server_log import ProbeStatus
from runner_e2e.isolation.environment import GENERATED_SECRETS
from runner_e2e.plan.catalog import find_catalog, read_catalog
from runner_e2e.product.installation import Installation

if TYPE_CHECKING:
    from collections.abc import Mapping

    from runner_e2e.cell.paperclip_task import PaperclipTask
    from runner_e2e.plan.cells import Execution

CATALOG = find_catalog("paperclip")
CELLS = {execution.id: execution for execution in read_catalog(CATALOG).executions}
SCRIPTED = "chat-scripted.runner-opencode-scripted.local."
ONE, BOTH = CELLS[f"{SCRIPTED}chat.single-turn"], CELLS[f"{SCRIPTED}isolation.two-agents"]
TURNS, RESTARTED = CELLS[f"{SCRIPTED}chat.multi-turn"], CELLS[f"{SCRIPTED}chat.restart-server"]


# Which cells it runs.


@pytest.mark.parametrize("name", [name for name in CELLS if name.startswith(SCRIPTED)])
def test_a_cell_with_a_scripted_model_can_be_run_and_has_its_script(name: str) -> None:
    task = plan_task(CELLS[name])

    script = check_script(find_script(CATALOG, task), task)

    assert [agent.id for agent in script.agents] == list(task.names)
    assert "scriptedModel" not in task.config
    assert task.model == CELLS[name].profile.model


@pytest.mark.parametrize(
    ("execution", "expected"),
    [
        pytest.param(ONE, (1, 1, 1, False), id="single_turn"),
        pytest.param(BOTH, (2, 1, 2, False), id="two_agents"),
        pytest.param(TURNS, (1, 3, 3, False), id="multi_turn"),
        pytest.param(RESTARTED, (1, 2, 2, True), id="restart_server"),
    ],
)
def test_a_flow_tells_who_works_and_how_often(
    execution: Execution, expected: tuple[int, int, int, bool]
) -> None:
    task = plan_task(execution)

    assert (task.agents, task.turns, task.least_runs, task.restarts) == expected


def changed(execution: Execution, part: str, **changes: object) -> Execution:
    return replace(execution, **{part: replace(getattr(execution, part), **changes)})


@pytest.mark.parametrize(
    ("execution", "says"),
    [
        pytest.param(changed(ONE, "profile", generation="legacy"), "is not native", id="legacy"),
        pytest.param(changed(ONE, "profile", adapter_type="process"), "is not native", id="adapter"),
        pytest.param(changed(ONE, "profile", adapter_config={}), "no scriptedModel", id="no-script"),
        pytest.param(
            changed(ONE, "profile", adapter_config={"scriptedModel": "../x"}), "no scriptedModel", id="path"
        ),
        pytest.param(
            changed(
                ONE,
                "profile",
                adapter_config={**ONE.profile.adapter_config, "opencodePermissionMode": "ask"},
            ),
            "opencodePermissionMode: allow",
            id="permission",
        ),
        pytest.param(
            changed(ONE, "profile", adapter_config={**ONE.profile.adapter_config, "env": {}}),
            "OPENROUTER_API_KEY",
            id="no-key",
        ),
        pytest.param(changed(ONE, "task", flow="warm_three_turn"), "its flow is not one", id="flow"),
        pytest.param(changed(ONE, "task", expected_run_count=2), "expectedRunCount", id="runs"),
        pytest.param(changed(BOTH, "task", expected_run_count=11), "expectedRunCount", id="agents"),
        pytest.param(changed(TURNS, "task", expected_run_count=1), "expectedRunCount", id="one-turn"),
        pytest.param(changed(TURNS, "task", expected_run_count=11), "expectedRunCount", id="turns"),
        pytest.param(changed(ONE, "task", work_mode="planning"), "workMode", id="work-mode"),
        pytest.param(changed(ONE, "task", tool_review_decision="approve"), "decision on a tool", id="tool"),
        pytest.param(changed(ONE, "task", title="x" * 201), "title", id="title"),
    ],
)
def test_a_cell_that_it_cannot_run_is_refused_with_a_sentence(execution: Execution, says: str) -> None:
    with pytest.raises(InputError, match=says) as caught:
        plan_task(execution)

    assert execution.id not in str(caught.value)


def test_a_cell_that_takes_place_elsewhere_is_not_run() -> None:
    elsewhere = changed(ONE, "environment", id="daytona")

    with pytest.raises(NotRunError, match="daytona") as caught:
        plan_task(elsewhere)

    assert (caught.value.failure_class, caught.value.exit_code) == (FailureClass.NOT_RUN, 4)
    assert elsewhere.id not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        pytest.param(None, "no script beside", id="missing"),
        pytest.param(b"", "no UTF-8 text", id="empty"),
        pytest.param(b"\xff", "no UTF-8 text", id="bytes"),
        pytest.param(b"agents: []\n", "schema", id="no-script"),
        pytest.param(
            b"schema: runner-e2e.scripted-model/v1\nvalues: [other]\n"
            b"agents: [{id: ada, steps: [{text: '{other}'}]}]\n",
            "other",
            id="unknown-value",
        ),
    ],
)
def test_a_script_that_cannot_be_played_is_refused_without_the_name_of_its_case(
    tmp_path: Path, text: bytes | None, says: str
) -> None:
    task = plan_task(ONE)
    script = find_script(tmp_path / "catalog.yaml", task)
    script.parent.mkdir()
    if text is not None:
        script.write_bytes(text)

    with pytest.raises(InputError, match=says) as caught:
        check_script(script, task)

    assert task.case not in str(caught.value)


def test_the_word_of_an_attempt_stands_wherever_the_task_has_its_place() -> None:
    task = plan_task(ONE).with_nonce("abc123")

    assert "{nonce}" not in f"{task.title}{task.prompt}{[dict(one.parameters) for one in task.matchers]}"
    assert "abc123" in task.title


# What it starts.


def test_an_agent_shows_its_model_its_own_key_and_nothing_else() -> None:
    text = build_opencode(Path("/a b/it's/opencode"), "http://127.0.0.1:1/v1", ["openrouter/x/y"])
    first, setting, *rest = text.splitlines()

    assert first == "#!/bin/sh"
    assert rest[-1] == "exec '/a b/it'\"'\"'s/opencode' \"$@\""
    name, _, value = setting.partition("=")
    assert name == "OPENCODE_CONFIG_CONTENT"
    before, after = value.split('"${OPENROUTER_API_KEY}"')
    settings = json.loads(f"{before.strip(chr(39))}key{after.strip(chr(39))}")
    assert settings["autoupdate"] is False
    assert settings["provider"]["openrouter"]["options"] == {
        "baseURL": "http://127.0.0.1:1/v1",
        "apiKey": "key",
    }
    assert list(settings["provider"]["openrouter"]["models"]) == ["x/y"]


def test_the_control_replaces_the_same_program_and_makes_no_domain() -> None:
    text = build_open_runner("/usr/bin/python3", Path("/v/runnerd"), Path("/r/opencode"), "ab")

    compile(text, "runner", "exec")
    assert "'--opencode-executable-sha256': 'sha256:ab'" in text


def test_a_server_gets_its_own_places_and_no_credential_of_its_caller(tmp_path: Path) -> None:
    places = places_in(tmp_path)
    caller = {
        "PATH": "/usr/bin",
        "OPENROUTER_API_KEY": "paid",
        "GITHUB_TOKEN": "token",
        "DATABASE_URL": "postgres://elsewhere",
        "TMPDIR": "/elsewhere",
        "NODE_OPTIONS": "--require /x",
    }
    generated = {name: f"made-{name}" for name in GENERATED_SECRETS}
    installation = Installation(**{field.name: Path("/x") for field in fields(Installation)})  # type: ignore[arg-type]  # only one is looked at

    found = build_environment(ServerOrder(installation, places, Path("/r/runnerd"), generated, caller), 1234)

    assert found["PAPERCLIP_RUNNER_BINARY"] == "/r/runnerd"
    assert found["PORT"] == "1234"
    for name in ("HOME", "TMPDIR", "XDG_CACHE_HOME", "PAPERCLIP_HOME", "PAPERCLIP_CONFIG"):
        assert found[name].startswith(f"{places.temporary_root}/"), name
    for name in ("OPENROUTER_API_KEY", "GITHUB_TOKEN", "DATABASE_URL", "NODE_OPTIONS"):
        assert name not in found


def test_a_reference_to_a_secret_becomes_its_binding_and_everything_else_stays() -> None:
    config = {"model": "m", "env": {"KEY": {"secretRef": "KEY"}, "OTHER": {"secretRef": "X"}, "A": "b"}}

    bound = bind_secrets(config, {"KEY": "id-1"})

    assert bound == {
        "model": "m",
        "env": {
            "KEY": {"type": "secret_ref", "secretId": "id-1", "version": "latest"},
            "OTHER": {"secretRef": "X"},
            "A": "b",
        },
    }
    assert config["env"] != bound["env"]


# What agents are sent to try.

LEADS = [Place("run:secrets", "read", "/i/secrets/it's", "canary"), Place("base:x", "list", "/y", "z")]


def test_an_exploration_shows_a_shell_nothing_of_what_it_tries() -> None:
    command = build_exploration(LEADS, "seed")

    assert "secrets" not in command
    assert command.endswith("| base64 -d | bash")
    inner = base64.b64decode(command.split()[1]).decode()
    (encoded,) = [line for line in inner.splitlines() if line.startswith("main(")]
    leads = json.loads(base64.b64decode(encoded[len("main('") : -len("', 'seed')")]))
    assert compute_witness("seed") not in inner
    assert leads == [{"id": one.id, "how": one.how, "target": one.target} for one in LEADS]
    assert "canary" not in json.dumps(leads)


def printed(*rows: Mapping[str, object]) -> str:
    return f"before\n{MARK}{json.dumps({'findings': list(rows)})}\nafter"


def test_of_several_findings_about_a_place_the_worst_one_counts() -> None:
    denied = {"id": "a", "outcome": "denied", "errno": "EACCES"}
    obtained = {"id": "a", "outcome": "obtained", "errno": None}

    assert read_findings([printed(denied), printed(obtained), printed(denied)]) == {
        "a": Finding("a", "obtained", None)
    }
    assert read_findings([printed(denied, {"id": "a", "outcome": "odd"})])["a"].outcome == "odd"


@given(st.text())
def test_whatever_a_tool_printed_is_no_reason_to_fail(text: str) -> None:
    assert read_findings([text, f"{MARK}{text}", f'{MARK}{{"findings": [{text!r}, 1, null]}}']) is not None


# What it makes of what agents left.


def places_in(path: Path) -> PaperclipPlaces:
    return PaperclipPlaces(AttemptRoot(path, "i"), path / "t" / "paperclip-runner-e2e-x")


@pytest.mark.parametrize(
    ("outcome", "said", "known_gap", "reach"),
    [
        pytest.param("denied", "nothing", False, Reach.TRIED, id="denied"),
        pytest.param("denied", "canary-1", False, Reach.REACHED, id="denied-and-yet-there"),
        pytest.param("obtained", "nothing", False, Reach.REACHED, id="a-signal-leaves-no-canary"),
        pytest.param("obtained", "nothing", True, Reach.TRIED, id="known-gap"),
        pytest.param("obtained", "canary-1", True, Reach.VISIBLE, id="known-gap-with-its-canary"),
    ],
)
def test_a_place_counts_as_reached_by_its_canary_or_by_the_agents_word(
    tmp_path: Path, outcome: str, said: str, known_gap: bool, reach: Reach
) -> None:
    worker = Worker("ada", "key", "seal", agent="a", messages=[said])

    judge_workers(
        places=places_in(tmp_path),
        company="c",
        workers=[worker],
        asked={"ada": [Place("x", "signal", "1", "canary-1", known_gap=known_gap)]},
        heard={"ada": [printed({"id": "x", "outcome": outcome})]},
        launches=[],
        witness="w",
    )

    assert [row.reach for row in worker.attempts] == [reach]


def test_what_an_agent_wrote_is_searched_wherever_it_could_write(tmp_path: Path) -> None:
    places = places_in(tmp_path)
    own = places.instance / "runtime" / "own"
    for name, path in (
        ("in-work", places.instance / "workspaces/a/note"),
        ("in-log", places.instance / "data/run-logs/c/a/r.ndjson"),
        ("in-own", own / "note"),
        ("elsewhere", places.instance / "workspaces/b/note"),
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"a word: {name}", encoding="utf-8")
    worker = Worker("ada", "key", "seal", agent="a", runs=[{"id": "r"}])
    asked = [Place(name, "read", "", name) for name in ("in-work", "in-log", "in-own", "elsewhere")]

    judge_workers(
        places=places,
        company="c",
        workers=[worker],
        asked={"ada": asked},
        heard={},
        launches=[{"run": "r", "exposed": [str(own)]}, {"run": "other", "exposed": [str(tmp_path)]}],
        witness="a word: in-log",
    )

    found = {row.place.id for row in worker.attempts if row.reach is Reach.REACHED}
    assert found == {"in-work", "in-log", "in-own"}
    assert worker.accounts_in == ("runLog",)


def row(outcome: str | None, reach: Reach, *, known_gap: bool = False) -> Attempt:
    finding = None if outcome is None else Finding("run:x", outcome, None)
    return Attempt(Place("run:x", "read", "/x", "c", known_gap=known_gap), finding, reach)


def done(**changes: object) -> Worker:
    whole: dict[str, object] = {
        "agent": "a",
        "issue": "i",
        "issue_status": "done",
        "runs": [{"id": "r", "status": "succeeded", "runtimeMode": "native"}],
        "attempts": (row("denied", Reach.TRIED), row("obtained", Reach.VISIBLE, known_gap=True)),
        "matchers": (MatcherResult(0, "file_exists", passed=True, detail="there"),),
    }
    return Worker("ada", "key", "seal", **(whole | changes))  # type: ignore[arg-type]  # one of several


TASK: PaperclipTask = plan_task(ONE)
PASSED = {"status": ProbeStatus.PASSED, "launches": [{"run": "r", "closedPorts": [1]}], "reasons": []}
FAILED = {"status": ProbeStatus.FAILED, "launches": [], "reasons": ["a check failed"]}


def judged(
    gathered: PaperclipGathered,
    summary: Mapping[str, object] = PASSED,
    failure: RunnerE2EError | None = None,
    *,
    sandboxed: bool = True,
) -> RunnerE2EError | None:
    request = CellRequest(environ={}, sandboxed=sandboxed)
    return judge_paperclip(request, TASK, gathered, summary, failure)


def test_a_cell_passes_when_everything_holds() -> None:
    assert judged(PaperclipGathered(workers=[done()])) is None
    assert judged(PaperclipGathered(workers=[done()], ended=True, layout=LayoutFound(()))) is None


REFUSED_RUN = {"id": "q", "status": "failed", "errorCode": "native_session_cleanup_quarantined"}


def test_a_run_that_the_product_refused_needs_no_launch_and_is_not_the_candidates_failure() -> None:
    error = judged(PaperclipGathered(workers=[done(runs=[REFUSED_RUN], issue_status="blocked")]))

    assert error is not None
    assert error.failure_class is FailureClass.TRANSIENT_INFRASTRUCTURE
    assert "Only a fresh instance recovers" in str(error)


def test_what_an_agent_reached_counts_more_than_why_its_run_failed() -> None:
    worker = done(runs=[REFUSED_RUN], attempts=(row("obtained", Reach.REACHED),))

    assert isinstance(judged(PaperclipGathered(workers=[worker])), ContaminatedError)


FAILED_MATCHER = MatcherResult(0, "file_exists", passed=False, detail="missing")


@pytest.mark.parametrize(
    ("gathered", "kind", "says"),
    [
        pytest.param(
            PaperclipGathered(workers=[done(attempts=(row("obtained", Reach.REACHED),))]),
            ContaminatedError,
            "run:x",
            id="reached",
        ),
        pytest.param(
            PaperclipGathered(workers=[done()], contamination={"reached": ["run:y"]}),
            ContaminatedError,
            "run:y",
            id="reached-in-words",
        ),
        pytest.param(
            PaperclipGathered(workers=[done()], foreign=["agent z (process)"]),
            ContaminatedError,
            "agent z",
            id="foreign",
        ),
        pytest.param(
            PaperclipGathered(workers=[done()], changed=["bin was changed"]),
            ContaminatedError,
            "bin was changed",
            id="changed",
        ),
        pytest.param(
            PaperclipGathered(workers=[done(runs=[{"id": "q", "status": "succeeded"}])]),
            SandboxUnprovenError,
            "without a launch",
            id="no-launch",
        ),
        pytest.param(PaperclipGathered(), SandboxUnprovenError, "no agent worked", id="nobody"),
        pytest.param(
            PaperclipGathered(workers=[done()], coverage=Coverage(1, ["/x"])),
            SandboxUnprovenError,
            "searched in full",
            id="unsearched",
        ),
        pytest.param(
            PaperclipGathered(workers=[done(attempts=(row("absent", Reach.TRIED),))]),
            SandboxUnprovenError,
            "prove nothing: run:x",
            id="absent-proves-nothing",
        ),
        pytest.param(
            PaperclipGathered(workers=[done(attempts=(row(None, Reach.NOT_TRIED),))]),
            SandboxUnprovenError,
            "prove nothing: run:x",
            id="not-tried",
        ),
        pytest.param(
            PaperclipGathered(workers=[done(issue_status="blocked")]),
            CandidateFailureError,
            "is blocked, not done",
            id="issue",
        ),
        pytest.param(
            PaperclipGathered(workers=[done(runs=[{"id": "r", "status": "failed"}])]),
            CandidateFailureError,
            "are failed, not succeeded",
            id="run",
        ),
        pytest.param(
            PaperclipGathered(workers=[done(matchers=(FAILED_MATCHER,))]),
            CandidateFailureError,
            r"matchers\[0\] \(file_exists: missing\)",
            id="matcher",
        ),
        pytest.param(
            PaperclipGathered(workers=[done()], ended=True, layout=LayoutFound(("data/new (directory)",))),
            SandboxUnprovenError,
            r"no rule names: data/new \(directory\)",
            id="unnamed-place",
        ),
        pytest.param(
            PaperclipGathered(workers=[done()], ended=True),
            SandboxUnprovenError,
            "was not looked through",
            id="not-looked-through",
        ),
        pytest.param(
            PaperclipGathered(workers=[done()], unmet=["ada: it never asked"]),
            CandidateFailureError,
            "it never asked",
            id="script",
        ),
    ],
)
def test_what_does_not_hold_is_told(
    gathered: PaperclipGathered, kind: type[RunnerE2EError], says: str
) -> None:
    found = judged(gathered)

    assert isinstance(found, kind)
    with pytest.raises(kind, match=says):
        raise found


def test_what_is_proven_outranks_what_the_product_reports() -> None:
    timeout = AttemptTimeoutError("It took too long", "Allow more time")
    reached = PaperclipGathered(workers=[done(attempts=(row("obtained", Reach.REACHED),))])

    assert isinstance(judged(reached, FAILED, timeout), SandboxUnprovenError)
    assert isinstance(judged(reached, PASSED, timeout), ContaminatedError)
    assert judged(PaperclipGathered(workers=[done()]), PASSED, timeout) is timeout
    stopped = CancelledError(15)
    assert judged(reached, FAILED, stopped) is stopped


def test_a_control_without_a_domain_never_passes() -> None:
    found = judged(PaperclipGathered(workers=[done()]), sandboxed=False)

    assert isinstance(found, SandboxUnprovenError)
    assert "No domain was used" in str(found)


def test_the_table_of_an_agent_tells_what_was_tried_observed_and_expected() -> None:
    agents = describe_agents(TASK, [done()])["agents"]

    assert isinstance(agents, list)
    (agent,) = agents
    assert agent["done"] is True
    assert agent["matcherResults"] == [{"index": 0, "kind": "file_exists", "passed": True, "detail": "there"}]
    assert [(one["expected"], one["outcome"], one["reach"]) for one in agent["attempts"]] == [
        ("denied", "denied", "tried"),
        ("recorded", "obtained", "visible"),
    ]
    gathered = PaperclipGathered(workers=[done()], contamination={"verdict": "tried-and-denied"})
    found = describe_contamination(gathered)
    assert (found["verdict"], found["reached"], found["triedOfThese"]) == ("tried-and-denied", [], 2)


def test_a_worker_never_shows_its_key() -> None:
    assert "the-key" not in repr(Worker("ada", "the-key", "seal"))
