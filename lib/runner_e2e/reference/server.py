"""The reference server's process: from its environment to a clean end by signal."""

import asyncio
import contextlib
import logging
import signal
import socket
import sys
from collections.abc import AsyncIterator, Iterator, Mapping

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException

from runner_e2e.errors import InputError, RunnerE2EError
from runner_e2e.reference.config import ServerConfig, parse_config
from runner_e2e.reference.launches import Launches
from runner_e2e.reference.layout import Instance, create_instance
from runner_e2e.reference.processes import adopt_orphans
from runner_e2e.reference.responses import answer_crash, answer_http_error
from runner_e2e.reference.routes import Api
from runner_e2e.reference.runner_channel import RunnerChannel
from runner_e2e.reference.store import Store, read_clock


def main(environ: Mapping[str, str]) -> int:
    """Serve until SIGTERM or SIGINT; the status tells a usage error from a clean stop."""
    started_at = read_clock()
    try:
        config = parse_config(environ)
        if not config.runner_binary.is_file():
            raise InputError("PAPERCLIP_RUNNER_BINARY is not a file", "Name an existing program")
        listener, database = _listen(config.port), _listen(0)
        instance = _create(config, started_at, database.getsockname()[1])
    except RunnerE2EError as error:
        print(error, file=sys.stderr)  # noqa: T201 - there is no log before there is an instance
        return error.exit_code
    log = _open_log(instance)
    store = Store(instance.database, instance.wal_segment)
    adopt_orphans()
    launches = Launches(config, instance, store, log)
    try:
        asyncio.run(_serve(Api(config, instance, store, launches, started_at), log, listener, database))
    finally:
        store.close()
        instance.postmaster_pid.unlink(missing_ok=True)
    log.info("stopped")
    return 0


def build_app(api: Api) -> Starlette:
    """Return the application over `api`, which answers but is not ready."""
    channel = RunnerChannel(api.config, api.store, api.launches)
    return Starlette(
        routes=[*api.routes(), *channel.routes()],
        exception_handlers={HTTPException: answer_http_error, Exception: answer_crash},
    )


async def _serve(api: Api, log: logging.Logger, listener: socket.socket, database: socket.socket) -> None:
    server = _Server(
        uvicorn.Config(
            build_app(api),
            log_config=None,
            access_log=False,
            lifespan="off",
            timeout_graceful_shutdown=1,
        )
    )
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for signum in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signum, stopping.set)
    log.info("listening on %s, instance %s", api.config.origin, api.config.instance_id)
    async with _running(server, listener), await asyncio.start_server(_greet, sock=database):
        api.launches.open()
        api.readiness.ready = True
        log.info("ready")
        await stopping.wait()
        log.info("stopping")
        # Before the listener closes, so that no agent meets a closed port while it is still alive.
        await api.launches.stop()


class _Server(uvicorn.Server):
    """A server that leaves signals to the process: its launches must end before it does."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextlib.asynccontextmanager
async def _running(server: _Server, listener: socket.socket) -> AsyncIterator[None]:
    """Serve on `listener` while the body runs."""
    task = asyncio.create_task(server.serve(sockets=[listener]))
    while not server.started:
        await asyncio.sleep(0.005)
    try:
        yield
    finally:
        server.should_exit = True
        await task


async def _greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Stand where the product's database listens, which answers everybody on the machine."""
    writer.write(b"The rows of this database are in a file of its instance.\n")
    with contextlib.suppress(ConnectionError):
        await writer.drain()
    writer.close()


def _create(config: ServerConfig, started_at: str, database_port: int) -> Instance:
    try:
        return create_instance(config, started_at, database_port)
    except OSError as error:
        raise InputError(
            f"PAPERCLIP_HOME cannot be used: {error.strerror}", "Give a directory that can be written"
        ) from error


def _listen(port: int) -> socket.socket:
    # With the protocol named, the event loop lets small answers out at once.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", port))
    except OSError as error:
        listener.close()
        raise InputError(f"PORT {port} cannot be used: {error.strerror}", "Choose a free port") from error
    return listener


def _open_log(instance: Instance) -> logging.Logger:
    log = logging.getLogger("runner_e2e.reference")
    log.setLevel(logging.INFO)
    log.propagate = False
    line = logging.Formatter("%(asctime)s %(levelname)s %(message)s")
    for handler in (
        logging.StreamHandler(sys.stdout),
        logging.FileHandler(instance.server_log, encoding="utf-8"),
    ):
        handler.setFormatter(line)
        log.addHandler(handler)
    return log
