"""An attempt on the real product: its server, its agents, what they tried, nothing left behind."""

import contextlib
import json
import secrets
import time
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from runner_e2e.cell.attempt import Attempt, Conclusion, changed_modes, read_launches, split_journal
from runner_e2e.cell.hidden import scan_for_aliases
from runner_e2e.cell.paperclip_agents import find_foreign
from runner_e2e.cell.paperclip_api import PaperclipApi
from runner_e2e.cell.paperclip_canaries import (
    PaperclipObservation,
    find_server_places,
    peer_places,
    plant_case,
    plant_notes,
)
from runner_e2e.cell.paperclip_drift import describe_layout
from runner_e2e.cell.paperclip_evidence import judge_workers, match_workers
from runner_e2e.cell.paperclip_judgement import (
    PaperclipGathered,
    describe_agents,
    describe_contamination,
    judge_paperclip,
)
from runner_e2e.cell.paperclip_layout import look_at_layout
from runner_e2e.cell.paperclip_leads import build_exploration, compute_witness
from runner_e2e.cell.paperclip_owner import PaperclipOwner
from runner_e2e.cell.paperclip_package import Package
from runner_e2e.cell.paperclip_provider import Endpoint, Provider
from runner_e2e.cell.paperclip_request import PaperclipRequest
from runner_e2e.cell.paperclip_server import explain_end, require_ordinary_user
from runner_e2e.cell.paperclip_stage import Stage, prepare
from runner_e2e.cell.paperclip_turns import Turns
from runner_e2e.cell.processes import ServerProcess
from runner_e2e.cell.record import write_json
from runner_e2e.cell.reference_server import changed_files, digest_files, generate_secrets, server_log
from runner_e2e.cell.restarts import RestartDesk
from runner_e2e.cell.spending import FILE_NAME as SPENDING
from runner_e2e.errors import InputError, RunnerE2EError, SandboxUnprovenError, TransientInfrastructureError
from runner_e2e.evidence import server_log as log_of
from runner_e2e.evidence.redaction import Redactor
from runner_e2e.evidence.sanitize_json import sanitize_json
from runner_e2e.isolation.control import plan_control_paths
from runner_e2e.model.server import Model, running_model
from runner_e2e.sandbox.kernel import forbid_inspection

if TYPE_CHECKING:
    from runner_e2e.evidence.attempts import Place

_MODEL_LOG = "model.ndjson"


class PaperclipHarness:
    """Drives an attempt on an installed Paperclip, with a scripted model or behind the cell's gateway."""

    def __init__(self, attempt: Attempt, request: PaperclipRequest) -> None:
        self.gathered = PaperclipGathered(generated=generate_secrets())
        self._attempt = attempt
        self._request = request
        self._task = request.task
        self._observation = PaperclipObservation(attempt, request.task.prompt, request.task.agents)
        self._provider = Provider(attempt, request)
        self._desk: RestartDesk | None = None
        self._asked: dict[str, list[Place]] = {}
        self._heard: dict[str, list[str]] = {}
        self._started = time.time()
        self._package = Package(attempt, lambda: self.secrets)
        self._instance: Path | None = None

    @property
    def secrets(self) -> Collection[str]:
        """The secrets of the server and its database, what pays, and the keys of agents for their model."""
        keys = (worker.key for worker in self.gathered.workers)
        own = [*self.gathered.generated.values(), *keys, *self._provider.secrets]
        return [*own, *self._request.secrets]

    @property
    def success(self) -> str:
        """Say that the agents did their work."""
        who = "The agent did its" if self._task.agents == 1 else "All agents did their"
        return f"{who} work on the real product and reached nothing that is hidden."

    def run(self) -> None:
        """Run the cell; what comes of it is in `gathered`, also when this raises."""
        require_ordinary_user()
        if self._request.is_closed(sandboxed=self._attempt.request.sandboxed):
            # Nothing but domains keeps other processes of this user out, and the server's runs in none.
            forbid_inspection()
        try:
            with self._provider.running() as endpoint:
                self._run(endpoint)
        finally:
            self.gathered.spending = self._provider.record()

    def _run(self, endpoint: Endpoint | None) -> None:
        attempt, gathered, root = self._attempt, self.gathered, self._attempt.root
        attempt.reporter.phase("Preparing the attempt")
        stage = prepare(attempt, self._request, endpoint)
        self._task, gathered.workers = stage.task, stage.workers
        self._instance = stage.places.instance
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
        """Stage `agents.json`, what was spent, the package without its result; judge what was followed."""
        try:
            if self.gathered.spending is not None:
                write_json(directory / SPENDING, self.gathered.spending)
        finally:
            # Judging may take long, and a disk without room must not keep anybody from it.
            self.gathered.contamination = self._observation.judge(
                read_launches(self._attempt.root),
                redactor.redact_name,
                foreign=self.gathered.changed,
                hurried=not self.gathered.ended,
            )
        if self.gathered.layout is not None:
            self.gathered.layout = self.gathered.layout.redacted(redactor.redact_name)
        sanitized = sanitize_json(json.dumps(self.agents()).encode(), redactor)
        withheld = {"withheld": "it holds a secret that cannot be taken out"}
        write_json(directory / "agents.json", withheld if sanitized is None else json.loads(sanitized))
        return self._package.stage(directory, self._redactor(), self._instance, self.gathered.workers)

    def judge(self, summary: Mapping[str, object], failure: RunnerE2EError | None) -> RunnerE2EError | None:
        """Decide what the attempt comes to."""
        verdict = judge_paperclip(self._attempt.request, self._task, self.gathered, summary, failure)
        boots, launched = len(self.gathered.probes), bool(summary.get("launches"))
        return explain_end(verdict, self._attempt.root, boots, launched=launched)

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
            "layout": describe_layout(installation.paperclip_version, self.gathered.layout),
            "product": {
                "paperclip": installation.paperclip_version,
                "opencode": installation.opencode_version,
                "node": installation.node_version,
            },
            **self._package.describe(),
        }

    def agents(self) -> dict[str, object]:
        """Return the agents with what each tried."""
        return describe_agents(self._task, self.gathered.workers)

    def conclude(self, directory: Path, redactor: Redactor, conclusion: Conclusion) -> None:  # noqa: ARG002 - one that knows less
        """Stage the cell's `result.json`, without canaries too."""
        workers = self.gathered.workers
        self._package.conclude(directory, self._redactor(), conclusion, self._task, workers)

    def _redactor(self) -> Redactor:
        """Return one for what agents wrote: also what they may have read of canaries goes."""
        request = self._attempt.request
        canaries = {place.canary for place in self._observation.places}
        if not request.hides_names:  # the cell's name is one of them
            canaries -= {request.cell_id}
        return Redactor([*self.secrets, *canaries, *(worker.seal for worker in self.gathered.workers)])

    def _work(self, stage: Stage) -> str:
        """Start the server, let the agents work, and read what they left; return their company."""
        attempt, gathered, root = self._attempt, self.gathered, self._attempt.root
        # In a directory that agents cannot see, or they could restart what they are tested with.
        control = plan_control_paths(str(root.private))
        self._desk = RestartDesk(control)
        with (
            PaperclipOwner(attempt, self._request, stage, gathered, self._desk) as owner,
            self._package.photographing(owner, stage.workers),
        ):
            owner.start()
            self._observation.step()  # finds the instance, and plants into it
            server, api = owner.running
            company = api.create_company(f"Company {secrets.token_hex(4)}")
            self._plant(stage, server, api, company)
            gathered.aliases = scan_for_aliases(root, stage.hidden)
            with contextlib.ExitStack() as stack:
                model = self._start_model(stage, stack)
                with self._provider.within_limits():
                    Turns(
                        attempt=attempt,
                        stage=stage,
                        owner=owner,
                        control=control,
                        company=company,
                        observe=self._observe,
                        is_up=lambda worker: model is None or worker.name in model.asked,
                    ).take()
                gathered.ended = True
                if model is not None:
                    self._take_over(model)
            attempt.reporter.phase("Judging what they wrote")
            owner.end_runners()
            gathered.layout = look_at_layout(stage.places.instance, self._started)
            gathered.foreign = find_foreign(owner.running[1], company, stage.task, stage.workers)
        return company

    def _start_model(self, stage: Stage, stack: contextlib.ExitStack) -> Model | None:
        """Play the script, if there is one, until the stack ends.

        It was checked, so that only its port can be in the way.
        """
        if self._request.script is None:
            return None
        log = self._attempt.root.private / _MODEL_LOG
        playing = running_model(self._request.script, log, self._values(stage), port=stage.model_port)
        try:
            return stack.enter_context(playing)
        except InputError as error:
            raise TransientInfrastructureError(
                f"The scripted model could not be started on port {stage.model_port}",
                "Run the cell again: something else took the port meanwhile",
            ) from error

    def _plant(self, stage: Stage, server: ServerProcess, api: PaperclipApi, company: str) -> None:
        """Plant what a running server makes possible, and decide where each agent is sent."""
        observation, root = self._observation, self._attempt.root
        observation.plant(stage.places, company)
        own = [plant_case(self._attempt.request.cell_id, root.private), *stage.planted.places]
        own += find_server_places(server, self.gathered.generated["BETTER_AUTH_SECRET"], stage.places)
        own += plant_notes(api, company, stage.places)
        observation.places.extend(own)
        for worker in stage.workers:
            peers = [
                place
                for other in stage.workers
                if other is not worker
                for place in peer_places(stage.places, other.seal, stage.task.adapter)
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

    def _observe(self) -> None:
        """Look at what agents write and spend; raise what ends them."""
        self._observation.step()
        self._provider.check_limits()

    def _observe_end(self) -> None:
        """Copy what agents left, before the canaries are taken away."""
        self._observation.finish(hurried=not self.gathered.ended)
