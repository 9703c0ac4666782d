"""An attempt on the embedded reference: its places, its agents' turns, the restarts in between."""

import json
import secrets
import time
from collections.abc import Collection, Mapping
from pathlib import Path

from runner_e2e.cell import canaries
from runner_e2e.cell.agent_evidence import judge_agents, read_reports
from runner_e2e.cell.attempt import Attempt, Conclusion, changed_modes, read_launches, split_journal
from runner_e2e.cell.control_plane import ControlPlane
from runner_e2e.cell.decoy import read_decoy
from runner_e2e.cell.hidden import harness_places, scan_for_aliases
from runner_e2e.cell.judgement import ReferenceGathered, agents_record, contamination, describe_success, judge
from runner_e2e.cell.processes import ServerProcess, wait_until
from runner_e2e.cell.record import write_json
from runner_e2e.cell.reference_flow import find_foreign, follow_turn, go_on, start_agents, turn_deadline
from runner_e2e.cell.reference_server import ServerOwner, generate_secrets, install_reference_runner
from runner_e2e.cell.reference_server import server_log as output_of
from runner_e2e.cell.reference_stage import Stage, configure
from runner_e2e.cell.request import PROJECT
from runner_e2e.cell.restarts import RestartDesk, await_acknowledgement, request_restart, require_ready
from runner_e2e.errors import RunnerE2EError, SandboxUnprovenError
from runner_e2e.evidence import server_log
from runner_e2e.evidence.attempts import Place
from runner_e2e.evidence.redaction import Redactor
from runner_e2e.evidence.sanitize_json import sanitize_json
from runner_e2e.isolation.base import plan_base_hidden
from runner_e2e.isolation.control import ControlPaths, plan_control_paths
from runner_e2e.launch.install import install_wrapper

_NUMBERS = {1: "One agent works", 2: "Two agents work", 3: "Three agents work", 4: "Four agents work"}


class ReferenceHarness:
    """Drives an attempt on the reference."""

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt
        self.gathered = ReferenceGathered()
        self._desk: RestartDesk | None = None

    @property
    def secrets(self) -> Collection[str]:
        """The secrets of the server."""
        return self.gathered.generated.values()

    @property
    def success(self) -> str:
        """Say that the agents did their work."""
        return describe_success(self._attempt.request.flow.agents)

    def run(self) -> None:
        """Run the cell; what comes of it is in `gathered`, also when this raises."""
        root, gathered = self._attempt.root, self.gathered
        # In a directory that agents cannot see, or they could restart what they are tested with.
        control = plan_control_paths(str(root.private))
        self._desk = RestartDesk(control)
        stage = _prepare(self._attempt, gathered, control)
        configure(stage, 1)
        stage.watch.modes.keep(
            [root.path, root.private, *root.private.iterdir(), root.bin, *root.bin.iterdir()]
        )
        company = ""
        with (
            canaries.harness_decoys(root, stage.decoy[1], stage.planted),
            ServerOwner(stage, self._desk) as owner,
        ):
            owner.start()
            canaries.plant_instance(root, stage.planted)
            gathered.aliases = scan_for_aliases(root, stage.hidden)
            for turns in stage.flow.boots:
                if turns[0] > 1:
                    if not _may_go_on(stage):
                        break
                    _ask_for_restart(stage, owner)
                company = _take_turns(stage, owner, turns, company)
        gathered.coverage = judge_agents(root, stage.flow, company, gathered.agents, read_launches(root))

    def boots(self) -> list[server_log.Boot]:
        """Return one for each probe, or one without any."""
        root = self._attempt.root
        probes: list[server_log.Record | None] = [probe.record() for probe in self.gathered.probes]
        probes = probes or [None]
        journals = split_journal(read_launches(root), len(probes))
        return [
            server_log.Boot(number, probe, journal, output_of(root, number))
            for number, (probe, journal) in enumerate(zip(probes, journals, strict=True), 1)
        ]

    def stage(self, directory: Path, redactor: Redactor) -> RunnerE2EError | None:
        """Stage `agents.json`."""
        write_json(directory / "agents.json", _without_secrets(self.agents(), redactor))
        return None

    def judge(self, summary: Mapping[str, object], failure: RunnerE2EError | None) -> RunnerE2EError | None:
        """Decide what the attempt comes to."""
        return judge(self._attempt.request, self.gathered, summary, failure)

    def describe(self, summary: Mapping[str, object], failure: RunnerE2EError | None) -> dict[str, object]:
        """Return what the agents tried, whether isolation was proven, and the restarts."""
        proven = summary["status"] == server_log.ProbeStatus.PASSED and bool(summary["launches"])
        proven = proven and not isinstance(failure, SandboxUnprovenError)
        restarts = [] if self._desk is None else self._desk.journal()
        return {
            "sandbox": "enforced" if proven and self._attempt.request.sandboxed else "unproven",
            "contamination": contamination(self.gathered),
            **({"restarts": restarts} if restarts else {}),
        }

    def agents(self) -> dict[str, object]:
        """Return the agents with what each tried."""
        return agents_record(self._attempt.request.flow, self.gathered.agents)

    def conclude(self, directory: Path, redactor: Redactor, conclusion: Conclusion) -> None:
        """Nothing: a scripted server reports no result."""


def _without_secrets(record: Mapping[str, object], redactor: Redactor) -> object:
    sanitized = sanitize_json(json.dumps(record).encode(), redactor)
    if sanitized is None:  # a secret across the structure: nothing of it can be kept as JSON
        return {"schema": record["schema"], "withheld": "it holds a secret that cannot be taken out"}
    return json.loads(sanitized)


def _prepare(attempt: Attempt, gathered: ReferenceGathered, control: ControlPaths) -> Stage:
    request, root = attempt.request, attempt.root
    decoy = read_decoy(request.environ)
    attempt.reporter.phase("Preparing the attempt")
    planted = canaries.Planted()
    canaries.plant_target(root, planted)
    canaries.plant_private(root, request.cell_id, planted)
    runner = install_reference_runner(root)
    wrapper = install_wrapper(root.path, PROJECT)
    hidden = plan_base_hidden(harness_places(request, root), request.environ)
    gathered.generated = generate_secrets()
    return Stage(
        request=request,
        root=root,
        gathered=gathered,
        watch=attempt.watch,
        reporter=attempt.reporter,
        flow=request.flow.with_nonce(canaries.nonce()),
        deadline=attempt.deadline,
        note_running=attempt.note_running,
        decoy=decoy,
        hidden=hidden,
        planted=planted,
        runner=runner,
        binary=wrapper if request.sandboxed else runner,
        control=control,
    )


def _ask_for_restart(stage: Stage, owner: ServerOwner) -> None:
    """Have the server started anew; raises what that failed of."""

    def wait(deadline: float) -> bool:
        owner.serve()
        return wait_until(deadline)

    name = f"after-boot-{owner.boot}:{secrets.token_hex(8)}"
    request_restart(stage.control, name)
    require_ready(await_acknowledgement(stage.control, name, stage.deadline, wait), owner.failure)


def _take_turns(stage: Stage, owner: ServerOwner, turns: tuple[int, ...], company: str) -> str:
    """Let the agents take these turns on the server that runs; return the company."""
    gathered, (server, client) = stage.gathered, owner.running
    environ = gathered.generated["BETTER_AUTH_SECRET"]
    places = [*stage.planted.places, Place("run:serverEnviron", "environ", str(server.pid), environ)]
    for turn in turns:
        if turn == 1:
            stage.reporter.phase(f"{_NUMBERS[stage.flow.agents]} in one instance")
            company, gathered.agents = start_agents(client, stage.flow, owner.boot, places)
        elif _may_go_on(stage):
            stage.reporter.phase(f"Turn {turn} of {stage.flow.turns}")
            go_on(client, stage.flow, owner.boot, places, gathered.agents)
        else:
            break
        _take_turn(stage, server, client, company)
    stage.reporter.phase("Judging what they wrote")
    gathered.leftovers += stage.watch.family.end_strays(server.pid)
    gathered.changed += changed_modes(stage.watch.modes)
    gathered.foreign = find_foreign(client, company, gathered.agents)
    return company


def _take_turn(stage: Stage, server: ServerProcess, client: ControlPlane, company: str) -> None:
    agents = stage.gathered.agents
    deadline = turn_deadline(stage.flow, stage.deadline, time.monotonic())
    follow_turn(client, server, company, agents, deadline)
    stage.gathered.foreign = find_foreign(client, company, agents)
    stage.gathered.changed += changed_modes(stage.watch.modes)
    if _may_go_on(stage):
        read_reports(stage.root, agents)


def _may_go_on(stage: Stage) -> bool:
    """Whether another turn makes sense: the last one came to what it should, and to nothing else."""
    gathered = stage.gathered
    return not (gathered.foreign or gathered.changed) and all(
        run.may_go_on(stage.flow) for run in gathered.agents
    )
