"""An attempt on the real product: its server, its agents, what they tried, nothing left behind."""

import contextlib
import json
import secrets
import time
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from runner_e2e.cell.attempt import Attempt, changed_modes, read_launches, split_journal
from runner_e2e.cell.hidden import scan_for_aliases
from runner_e2e.cell.paperclip_agents import find_foreign, follow_workers, read_workers, start_workers
from runner_e2e.cell.paperclip_api import PaperclipApi
from runner_e2e.cell.paperclip_canaries import (
    PaperclipObservation,
    find_server_places,
    peer_places,
    plant_case,
    plant_notes,
)
from runner_e2e.cell.paperclip_evidence import judge_workers, match_workers
from runner_e2e.cell.paperclip_judgement import (
    PaperclipGathered,
    describe_agents,
    describe_contamination,
    find_problems_of_turn,
    judge_paperclip,
)
from runner_e2e.cell.paperclip_leads import build_exploration, compute_witness
from runner_e2e.cell.paperclip_owner import PaperclipOwner
from runner_e2e.cell.paperclip_request import PaperclipRequest
from runner_e2e.cell.paperclip_server import require_ordinary_user
from runner_e2e.cell.paperclip_stage import Stage, prepare
from runner_e2e.cell.processes import ServerProcess, wait_until
from runner_e2e.cell.record import write_json
from runner_e2e.cell.reference_server import changed_files, digest_files, generate_secrets, server_log
from runner_e2e.cell.restarts import RestartDesk, await_acknowledgement, request_restart, require_ready
from runner_e2e.errors import InputError, RunnerE2EError, SandboxUnprovenError, TransientInfrastructureError
from runner_e2e.evidence import server_log as log_of
from runner_e2e.evidence.redaction import Redactor
from runner_e2e.evidence.sanitize_json import sanitize_json
from runner_e2e.isolation.control import ControlPaths, plan_control_paths
from runner_e2e.model.server import Model, running_model

if TYPE_CHECKING:
    from runner_e2e.evidence.attempts import Place

# The product settles an issue a moment after its last run has ended.
_SETTLE_S = 10.0
_MODEL_LOG = "model.ndjson"


class PaperclipHarness:
    """Drives an attempt on an installed Paperclip, with a scripted model."""

    def __init__(self, attempt: Attempt, request: PaperclipRequest) -> None:
        self.gathered = PaperclipGathered(generated=generate_secrets())
        self._attempt = attempt
        self._request = request
        self._task = request.task
        self._observation = PaperclipObservation(attempt, request.task.prompt)
        self._desk: RestartDesk | None = None
        self._asked: dict[str, list[Place]] = {}
        self._heard: dict[str, list[str]] = {}

    @property
    def secrets(self) -> Collection[str]:
        """The secrets of the server, and the keys that agents have for their model."""
        return [*self.gathered.generated.values(), *(worker.key for worker in self.gathered.workers)]

    @property
    def success(self) -> str:
        """Say that the agents did their work."""
        who = "The agent did its" if self._task.agents == 1 else "All agents did their"
        return f"{who} work on the real product and reached nothing that is hidden."

    def run(self) -> None:
        """Run the cell; what comes of it is in `gathered`, also when this raises."""
        attempt, gathered, root = self._attempt, self.gathered, self._attempt.root
        require_ordinary_user()
        attempt.reporter.phase("Preparing the attempt")
        stage = prepare(attempt, self._request)
        self._task, gathered.workers = stage.task, stage.workers
        digests = digest_files(root.bin)
        kept = [root.path, root.private, *root.private.iterdir(), root.bin, *root.bin.iterdir()]
        attempt.watch.modes.keep(kept)
        company = ""
        try:
            with contextlib.ExitStack() as stack:
                stack.enter_context(self._observation.planted())
                stack.callback(self._observe_end)
                company = self._work(stage)
        finally:
            gathered.changed += changed_modes(attempt.watch.modes)
            gathered.changed += [f"{name} was changed" for name in changed_files(digests)]
        match_workers(stage.places, stage.task, stage.workers)
        gathered.coverage = judge_workers(
            places=stage.places,
            company=company,
            workers=stage.workers,
            asked=self._asked,
            heard=self._heard,
            launches=read_launches(root),
            witness=compute_witness(stage.nonce),
        )

    def boots(self) -> list[log_of.Boot]:
        """Return one for each server start that was probed, or one without any."""
        root = self._attempt.root
        probes: list[log_of.Record | None] = [probe.record() for probe in self.gathered.probes] or [None]
        journals = split_journal(read_launches(root), len(probes))
        return [
            log_of.Boot(number, probe, journal, server_log(root, number))
            for number, (probe, journal) in enumerate(zip(probes, journals, strict=True), 1)
        ]

    def stage(self, directory: Path, redactor: Redactor) -> RunnerE2EError | None:
        """Stage `agents.json`, and judge what was followed."""
        self.gathered.contamination = self._observation.judge(
            read_launches(self._attempt.root),
            redactor.redact_name,
            foreign=self.gathered.changed,
            hurried=not self.gathered.ended,
        )
        sanitized = sanitize_json(json.dumps(self.agents()).encode(), redactor)
        withheld = {"withheld": "it holds a secret that cannot be taken out"}
        write_json(directory / "agents.json", withheld if sanitized is None else json.loads(sanitized))
        return None

    def judge(self, summary: Mapping[str, object], failure: RunnerE2EError | None) -> RunnerE2EError | None:
        """Decide what the attempt comes to."""
        return judge_paperclip(self._attempt.request, self._task, self.gathered, summary, failure)

    def describe(self, summary: Mapping[str, object], failure: RunnerE2EError | None) -> dict[str, object]:
        """Return what the agents tried, whether isolation was proven, and what was installed."""
        proven = summary["status"] == log_of.ProbeStatus.PASSED and bool(summary["launches"])
        proven = proven and not isinstance(failure, SandboxUnprovenError)
        installation = self._request.installation
        restarts = [] if self._desk is None else self._desk.journal()
        return {
            "sandbox": "enforced" if proven and self._attempt.request.sandboxed else "unproven",
            "contamination": describe_contamination(self.gathered),
            **({"restarts": restarts} if restarts else {}),
            "product": {
                "paperclip": installation.paperclip_version,
                "opencode": installation.opencode_version,
                "node": installation.node_version,
            },
        }

    def agents(self) -> dict[str, object]:
        """Return the agents with what each tried."""
        return describe_agents(self._task, self.gathered.workers)

    def _work(self, stage: Stage) -> str:
        """Start the server, let the agents work, and read what they left; return their company."""
        attempt, gathered, root = self._attempt, self.gathered, self._attempt.root
        # In a directory that agents cannot see, or they could restart what they are tested with.
        control = plan_control_paths(str(root.private))
        self._desk = RestartDesk(control)
        with PaperclipOwner(attempt, self._request, stage, gathered, self._desk) as owner:
            owner.start()
            self._observation.step()  # finds the instance, and plants into it
            server, api = owner.running
            company = api.create_company(f"Company {secrets.token_hex(4)}")
            self._plant(stage, server, api, company)
            gathered.aliases = scan_for_aliases(root, stage.hidden)
            with contextlib.ExitStack() as stack:
                model = self._start_model(stage, stack)
                self._take_turns(stage, owner, control, company)
                self._take_over(model)
            attempt.reporter.phase("Judging what they wrote")
            owner.end_runners()
            gathered.foreign = find_foreign(owner.running[1], company, stage.workers)
        return company

    def _start_model(self, stage: Stage, stack: contextlib.ExitStack) -> Model:
        """Play the script until the stack ends; it was checked, so that only its port can be in the way."""
        log = self._attempt.root.private / _MODEL_LOG
        playing = running_model(self._request.script, log, self._values(stage), port=stage.model_port)
        try:
            return stack.enter_context(playing)
        except InputError as error:
            raise TransientInfrastructureError(
                f"The scripted model could not be started on port {stage.model_port}",
                "Run the cell again: something else took the port meanwhile",
            ) from error

    def _take_turns(self, stage: Stage, owner: PaperclipOwner, control: ControlPaths, company: str) -> None:
        """Let the agents take their turns, as long as each comes to what it should."""
        task = stage.task
        for turn in range(1, task.turns + 1):
            if turn > 1 and any(find_problems_of_turn(task, worker) for worker in stage.workers):
                break
            if turn > 1 and task.restarts:
                self._ask_for_restart(owner, control, turn)
            self._take_turn(stage, owner, company, turn)
        self.gathered.ended = True

    def _take_turn(self, stage: Stage, owner: PaperclipOwner, company: str, turn: int) -> None:
        attempt, task = self._attempt, stage.task
        who = "One agent works" if task.agents == 1 else f"{task.agents} agents work in one instance"
        attempt.reporter.phase(who if turn == 1 else f"Turn {turn} of {task.turns}")
        server, api = owner.running
        deadline = attempt.deadline
        if task.turn_timeout_s is not None:
            deadline = min(deadline, time.monotonic() + task.turn_timeout_s)
        if turn == 1:
            start_workers(api, company, task, stage.workers)
        else:
            for worker in stage.workers:
                api.reopen(worker.issue, f"Go on with turn {turn}.")
        follow_workers(
            api=api,
            server=server,
            company=company,
            workers=stage.workers,
            least_runs=turn,
            deadline=deadline,
            observe=self._observation.step,
        )
        settled = min(attempt.deadline, time.monotonic() + _SETTLE_S)
        read_workers(api, stage.workers, settled, expected_issue=task.issue)

    def _ask_for_restart(self, owner: PaperclipOwner, control: ControlPaths, turn: int) -> None:
        """Have the server started anew; raises what that failed of."""

        def wait(deadline: float) -> bool:
            owner.serve()
            return wait_until(deadline)

        name = f"before-turn-{turn}:{secrets.token_hex(8)}"
        request_restart(control, name)
        answer = await_acknowledgement(control, name, self._attempt.deadline, wait)
        require_ready(answer, owner.failure)

    def _plant(self, stage: Stage, server: ServerProcess, api: PaperclipApi, company: str) -> None:
        """Plant what a running server makes possible, and decide where each agent is sent."""
        observation, root = self._observation, self._attempt.root
        observation.plant(stage.places)
        own = [plant_case(self._attempt.request.cell_id, root.private), *stage.planted.places]
        own += find_server_places(server, self.gathered.generated["BETTER_AUTH_SECRET"], stage.places)
        own += plant_notes(api, company, stage.places)
        observation.places.extend(own)
        for worker in stage.workers:
            peers = [
                place
                for other in stage.workers
                if other is not worker
                for place in peer_places(stage.places, other.seal)
            ]
            if self._request.explores:
                self._asked[worker.name] = [*observation.places, *peers]

    def _values(self, stage: Stage) -> dict[str, str]:
        """Return what the placeholders of a script stand for."""
        # What one agent tries of another's is the same for all: whatever is not its own.
        tried = {(place.id, place.target): place for asked in self._asked.values() for place in asked}
        keys = {f"{worker.name}_key": worker.key for worker in stage.workers}
        return {"nonce": stage.nonce, "explore": build_exploration(list(tried.values()), stage.nonce), **keys}

    def _take_over(self, model: Model) -> None:
        self.gathered.unmet = model.unmet
        for request in model.requests:
            name, results = request.get("agent"), request.get("toolResults")
            if isinstance(name, str) and isinstance(results, list):
                self._heard.setdefault(name, []).extend(str(one) for one in results)

    def _observe_end(self) -> None:
        """Copy what agents left, before the canaries are taken away."""
        self._observation.finish(hurried=not self.gathered.ended)
