"""An attempt that the target's own harness drives: refusals, a probe, the command, what it left.

The target's code runs as this user, in a domain that only keeps it from what others run and believe: to
dispatch a branch is to let it hold the cell's credential. It gets that and nothing else of the job's, and
nothing that it leaves is trusted.
"""

import contextlib
import os
import platform
import sys
from collections.abc import Collection, Mapping
from contextlib import ExitStack
from pathlib import Path

from runner_e2e.cell.attempt import Attempt, Conclusion, read_launches, split_journal
from runner_e2e.cell.command_drive import Driven, Eyes, Order, drive
from runner_e2e.cell.command_environment import (
    Binaries,
    Surroundings,
    build_campaign_id,
    build_environment,
    build_words,
    find_admitted,
    find_binaries,
)
from runner_e2e.cell.command_judgement import CommandGathered, describe_sandbox, judge_command
from runner_e2e.cell.command_log import HarnessLog
from runner_e2e.cell.command_observation import Observation
from runner_e2e.cell.command_probe import (
    Isolation,
    check_codex,
    describe_probe,
    install_isolation,
    probe_command,
)
from runner_e2e.cell.command_request import CommandRequest, Sandbox
from runner_e2e.cell.command_results import TargetResults
from runner_e2e.cell.hidden import (
    check_scratch,
    harness_places,
    refuse_second_names,
    scan_for_aliases,
)
from runner_e2e.cell.limits import Spending
from runner_e2e.cell.programs import find_programs
from runner_e2e.cell.protected import find_protected
from runner_e2e.cell.readiness import Start, check_ready
from runner_e2e.cell.record import write_json
from runner_e2e.cell.spending import FILE_NAME as SPENDING
from runner_e2e.cell.spending import Running, build_budget_error, running_spending
from runner_e2e.errors import InputError, RunnerE2EError
from runner_e2e.evidence import server_log
from runner_e2e.evidence.redaction import Redactor
from runner_e2e.isolation.base import BaseHidden, plan_base_hidden
from runner_e2e.isolation.binaries import Host
from runner_e2e.isolation.gateway import GATEWAY_NAMES
from runner_e2e.isolation.harness import assert_harness_environment
from runner_e2e.isolation.variables import DAYTONA_CREDENTIAL
from runner_e2e.plan.keys import hidden_names
from runner_e2e.sandbox.kernel import forbid_inspection
from runner_e2e.sandbox.protections import is_privileged

_LOG = "harness.log"


class CommandHarness:
    """Drives an attempt by the target's own command."""

    def __init__(self, attempt: Attempt, command: CommandRequest, spending: Spending) -> None:
        self.gathered = CommandGathered()
        self._attempt = attempt
        self._command = command
        self._spending = spending
        self._sandbox = command.sandbox(attempt.request.environ)
        self._secrets = {*command.credentials.values(), *command.secrets}
        self._results = TargetResults(attempt, command)
        self._observation = Observation(attempt, command.task)
        self._campaign = build_campaign_id()
        self._driven = Driven()
        self._gateway: Running | None = None
        self._log: HarnessLog | None = None

    @property
    def success(self) -> str:
        """Say what is known of a pass; without a domain nothing is known of what agents reached."""
        if self._sandbox is Sandbox.NONE:
            return "The target's harness reports success. Isolation does not apply to this cell."
        return "The target's harness reports success, and nothing hidden was reached."

    @property
    def secrets(self) -> Collection[str]:
        """The cell's credentials and tokens; behind a key its names too."""
        request = self._attempt.request
        return {*self._secrets, *(names_of(request.cell_id) if request.hides_names else ())}

    def run(self) -> None:
        """Check, probe, start the command, and follow it to its end."""
        # The target's code gets its credential, and nothing else that this process knows: not through
        # /proc either, where a process of the same user can otherwise read environment and memory.
        forbid_inspection()
        attempt, environ = self._attempt, self._attempt.request.environ
        attempt.reporter.phase("Checking the target")
        binaries = find_binaries(self._command, environ, Host(sys.platform, platform.machine()))
        runner = None if binaries.local is None else Path(binaries.local)
        hidden = plan_base_hidden(harness_places(attempt.request, attempt.root), environ)
        self._check(hidden, runner)
        wrapper = self._isolate(hidden, runner)
        try:
            with ExitStack() as stack:
                stack.enter_context(self._observation.planted())
                order = self._order(stack, binaries, wrapper)
                place = attempt.root.private / _LOG
                self._log = HarnessLog(Redactor(self.secrets), place, attempt.reporter.show)
                stack.callback(self._observe_end)
                drive(attempt, order, self._eyes(), self._log, self._driven)
        finally:
            self._take_over()

    def boots(self) -> list[server_log.Boot]:
        """Return the one start that is known here, with the log that the target packaged."""
        if self.gathered.started:
            self._results.hold(self._campaign)
        probes = [probe.record() for probe in self.gathered.probes]
        probe = probes[0] if probes else None
        (journal,) = split_journal(read_launches(self._attempt.root), 1)
        return [server_log.Boot(1, probe, journal, self._results.server_log)]

    def stage(self, directory: Path, redactor: Redactor) -> RunnerE2EError | None:
        """Stage the target's results, what its harness printed, and what was spent; then judge the agents.

        Judging may take long, and what is staged by then is not lost if there is no time for it.
        """
        left = None
        try:
            if self._log is not None:
                (directory / _LOG).write_bytes(redactor.redact(self._log.content()))
            if self.gathered.spending is not None:
                write_json(directory / SPENDING, self.gathered.spending)
            if self.gathered.started and self._log is not None:
                self.gathered.bundle = self._results.stage(directory / "results", redactor)
                tail = self._log.tail.content()
                status = None if self._driven.outlived else self._driven.status
                self.gathered.result = self._results.judge(status, tail, redactor)
                self.gathered.runs = self._results.run_ids
        finally:
            # What was there before is somebody else's, and why the cell was refused.
            if self.gathered.started:
                left = self._results.remove()
            if self._log is not None:
                self._log.close()
        self.gathered.contamination = self._observation.judge(
            read_launches(self._attempt.root),
            redactor.redact_name,
            foreign=self.gathered.changed,
            hurried=self._driven.hurried,
        )
        return left

    def judge(self, summary: Mapping[str, object], failure: RunnerE2EError | None) -> RunnerE2EError | None:
        """Decide what the attempt comes to."""
        return judge_command(self._sandbox, self.gathered, summary, failure, str(self._attempt.root.path))

    def describe(self, summary: Mapping[str, object], failure: RunnerE2EError | None) -> dict[str, object]:
        """Return isolation, contamination, evidence, and how the harness itself was confined and ended."""
        gathered = self.gathered
        fields: dict[str, object] = {
            "sandbox": describe_sandbox(self._sandbox, summary, failure),
            "contamination": gathered.contamination,
            "harnessStatus": self._driven.status,
        }
        if self._driven.domain:
            fields["harnessDomain"] = dict(self._driven.domain)
        if gathered.bundle is not None:
            fields["evidence"] = gathered.bundle.describe()
        return fields

    def agents(self) -> dict[str, object]:
        """Nothing is known of them here but what they left."""
        return {}

    def conclude(self, directory: Path, redactor: Redactor, conclusion: Conclusion) -> None:
        """Nothing: the result is the target's own."""

    def _check(self, hidden: BaseHidden, runner: Path | None) -> None:
        command, environ = self._command, self._attempt.request.environ
        ours = self._sandbox is Sandbox.ACTION
        if ours:
            check_scratch(hidden)
        check_ready(
            Start(
                target=command.target,
                sha=command.sha,
                user=os.geteuid(),
                environ=environ,
                results=str(command.results),
                privileged=is_privileged(),
                allow_root=command.allow_root,
                machine=platform.machine(),
                needs_runner=ours,
                runner=runner,
                programs=find_programs(command.target, environ, runner) if ours else {},
                hidden=hidden,
            )
        )

    def _isolate(self, hidden: BaseHidden, runner: Path | None) -> Path | None:
        """Install and prove the wrapper, for the one kind of cell whose launches go through it."""
        if self._sandbox is not Sandbox.ACTION or runner is None:
            return None
        attempt = self._attempt
        refuse_second_names(attempt.request)
        self.gathered.aliases = scan_for_aliases(attempt.root, hidden)
        attempt.reporter.phase("Probing the isolation")
        check_codex(attempt, self._command, hidden)
        probe = probe_command(attempt, self._command, hidden)
        self.gathered.probes.append(probe)
        if (error := describe_probe(probe)) is not None:
            raise error
        return install_isolation(attempt, Isolation(runner, hidden))

    def _order(self, stack: ExitStack, binaries: Binaries, wrapper: Path | None) -> Order:
        """Return what is started; a gateway lives as long as the stack."""
        attempt, command = self._attempt, self._command
        request, root = attempt.request, attempt.root
        places = Surroundings(
            home=root.harness_home,
            temporary=root.temporary,
            binaries=binaries,
            wrapper=wrapper,
            campaign=self._campaign,
        )
        with hidden_names(active=request.hides_names):  # a refusal may name suite, profile or model
            built = build_environment(command, request.cell_id, request.environ, places)
            self._gateway = stack.enter_context(self._open_gateway())
        admitted = find_admitted(command)
        if self._gateway is not None:
            self._secrets.update(self._gateway.secrets)
            built = self._gateway.environment(built)
            admitted |= GATEWAY_NAMES
        environment = dict(built.environment)
        if DAYTONA_CREDENTIAL in command.credentials:
            environment[DAYTONA_CREDENTIAL] = command.credentials[DAYTONA_CREDENTIAL]
        assert_harness_environment(environment, admitted)
        return Order(
            words=build_words(command, request.cell_id),
            environment=environment,
            directory=command.target,
            protected=self._find_protected(),
        )

    def _find_protected(self) -> list[Path]:
        """Return what the harness must not change; nothing where Codex has to make mounts in its sandbox."""
        attempt, command = self._attempt, self._command
        if command.traits.provider == "codex" and self._sandbox is not Sandbox.ACTION:
            return []
        return find_protected(attempt.request.environ, [command.target, attempt.root.path])

    def _open_gateway(self) -> contextlib.AbstractContextManager[Running | None]:
        command = self._command
        name = command.credential_name
        if name is None:
            if self._spending.is_limited:
                raise InputError(
                    "The cell needs no credential, so there is nothing whose spending could be limited",
                    "Leave max-cost-usd and max-requests out for this cell",
                )
            return contextlib.nullcontext(None)
        return running_spending(
            self._spending,
            name,
            command.credentials[name],
            command.traits.model or None,
            self._attempt.root.private,
        )

    def _eyes(self) -> Eyes:
        return Eyes(
            observe=self._observation.step,
            has_results=self._results.exist,
            check_limits=self._check_limits,
            results_grace_s=self._command.results_grace_s,
        )

    def _check_limits(self) -> None:
        if self._gateway is not None and self._gateway.exceeded:
            raise build_budget_error(self._gateway.limit or "a limit")

    def _observe_end(self) -> None:
        """Copy what agents left, before the canaries are taken away."""
        if self._driven.started:
            self._observation.finish(hurried=self._driven.hurried)

    def _take_over(self) -> None:
        """Take what the run came to; the gateway has stopped by now, and its record is final."""
        self.gathered.started = self._driven.started
        self.gathered.leftovers += self._driven.leftovers
        self.gathered.changed += self._driven.changed
        if self._gateway is not None:
            self.gathered.spending = self._gateway.record()


def names_of(execution_id: str) -> tuple[str, ...]:
    """Return the names that must not stand in what others can read, of a cell that a key hides."""
    case = execution_id.split(".", 3)[-1]
    # Shorter words stand everywhere, and a text without them would be none.
    return (execution_id, case) if len(case) >= 6 else (execution_id,)
