"""Who starts the real server of an attempt, starts it anew when the desk is asked to, and stops it."""

import contextlib
from types import TracebackType
from typing import Self

from runner_e2e.cell.attempt import Attempt
from runner_e2e.cell.paperclip_api import PaperclipApi
from runner_e2e.cell.paperclip_database import VARIABLE, own_database
from runner_e2e.cell.paperclip_judgement import PaperclipGathered
from runner_e2e.cell.paperclip_request import PaperclipRequest
from runner_e2e.cell.paperclip_server import RunnersOf, ServerOrder, running_paperclip
from runner_e2e.cell.paperclip_stage import Stage, configure, require_proven
from runner_e2e.cell.process_marks import read_mark
from runner_e2e.cell.processes import ServerProcess
from runner_e2e.cell.reference_server import server_log
from runner_e2e.cell.restarts import RestartDesk
from runner_e2e.launch.command_configuration import FILE_NAME as COMMAND_FILE_NAME
from runner_e2e.launch.configuration import FILE_NAME


class PaperclipOwner:
    """Owns the server starts of one attempt, each of them probed before; `failure` is why one failed."""

    def __init__(
        self,
        attempt: Attempt,
        request: PaperclipRequest,
        stage: Stage,
        gathered: PaperclipGathered,
        desk: RestartDesk,
    ) -> None:
        self.failure: Exception | None = None
        self._attempt = attempt
        self._request = request
        self._stage = stage
        self._gathered = gathered
        self._desk = desk
        self._stack = contextlib.ExitStack()
        self._lasting = contextlib.ExitStack()  # what outlives a restart of the server
        self._database: str | None = None
        self._running: tuple[ServerProcess, PaperclipApi, RunnersOf] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._stack.close()
        finally:
            self._lasting.__exit__(kind, error, trace)

    @property
    def boot(self) -> int:
        """The number of server starts that were probed so far."""
        return len(self._gathered.probes)

    @property
    def running(self) -> tuple[ServerProcess, PaperclipApi]:
        """Return the server and a client of it; raises RuntimeError when there is none."""
        if self._running is None:
            raise RuntimeError("no server runs")
        return self._running[:2]

    def start(self) -> None:
        """Probe the isolation, start the server and wait until it is ready."""
        attempt, stage = self._attempt, self._stage
        attempt.reporter.phase("Probing the isolation")
        number = self.boot + 1
        probe = configure(attempt, self._request, stage, number)
        self._gathered.probes.append(probe)
        settings = [attempt.root.private / name for name in (FILE_NAME, COMMAND_FILE_NAME)]
        attempt.watch.modes.keep([path for path in settings if path.exists()])
        if attempt.request.sandboxed:
            require_proven(probe)
        if self._request.database is not None and self._database is None:
            attempt.reporter.phase(f"Making a database for the attempt, as {VARIABLE} is given")
            made = own_database(self._request.installation, self._request.database, attempt.note_database)
            self._database = self._lasting.enter_context(made)
        attempt.reporter.phase(f"Starting the server{' again' if number > 1 else ''}")
        order = ServerOrder(
            self._request.installation,
            stage.places,
            stage.binary,
            self._gathered.generated,
            attempt.request.environ,
            database=self._database,
        )
        log = server_log(attempt.root, number)
        server, api = self._stack.enter_context(running_paperclip(order, log, attempt.deadline))
        attempt.watch.family.spare()
        self._running = server, api, RunnersOf(server)
        mark = read_mark(server.pid)
        attempt.note_running([mark] if mark else [])

    def serve(self) -> None:
        """Answer a request for a restart, if there is one."""
        request = self._desk.poll()
        if request is None:
            return
        try:
            self.end_runners()
            server, self._running = self.running[0], None
            self._stack.close()
            # Whoever waits for the next server could stand in the way of its database.
            self._gathered.leftovers += self._attempt.watch.family.end_strays(server.pid)
            self.start()
        except Exception as error:  # noqa: BLE001 - whatever it is, who asked is told, and raises it
            self.failure = error
            self._desk.acknowledge(request, "failed", str(error))
        else:
            self._desk.acknowledge(request, "ready")

    def end_runners(self) -> None:
        """End what is left of runs that have ended."""
        if self._running is not None:
            self._gathered.leftovers += self._running[2].end()
