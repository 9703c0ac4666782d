"""An application on loopback, served by a thread with its own event loop while a body of code runs."""

import contextlib
import socket
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait

import anyio
import uvicorn
from starlette.types import ASGIApp

from runner_e2e.errors import InputError, RunnerE2EError, TransientInfrastructureError

ADDRESS = "127.0.0.1"

_START_S = 10
_STOP_S = 15
_BACKLOG = 1024
_IDLE_S = 75  # clients keep connections: one that we close first costs them a failed request


@contextlib.contextmanager
def listening(port: int = 0) -> Iterator[socket.socket]:
    """Listen on a loopback port, 0 for a free one. A port that cannot be had is an `InputError`.

    What is accepted sends at once: small pieces would wait 40 ms else.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, int(port != 0))
        try:
            listener.bind((ADDRESS, port))
            listener.listen(_BACKLOG)
        except (OSError, OverflowError) as error:
            if not port:
                raise
            reason = (error.strerror if isinstance(error, OSError) else None) or "it is no port"
            raise InputError(f"Port {port} cannot be used: {reason}", "Choose another, or 0") from error
        yield listener


@contextlib.contextmanager
def serving(
    listener: socket.socket,
    app: ASGIApp,
    name: str,
    alongside: contextlib.AbstractAsyncContextManager[object] | None = None,
) -> Iterator[None]:
    """Serve `app` while the body runs; what is in flight at the end is cancelled.

    `alongside` is entered and left in the server's event loop; `name` is told when the server fails.
    """
    with ThreadPoolExecutor(1, name.replace(" ", "-")) as executor:
        server = uvicorn.Server(_configure(app))
        running = executor.submit(anyio.run, _serve, server, listener, alongside or contextlib.nullcontext())
        try:
            _await_start(server, running, name)
            yield
        finally:
            server.should_exit = True
            wait([running], _STOP_S)
        if running.done() and running.exception():
            raise TransientInfrastructureError(
                f"The {name} stopped by itself", "Start the cell again"
            ) from running.exception()


async def _serve(
    server: uvicorn.Server,
    listener: socket.socket,
    alongside: contextlib.AbstractAsyncContextManager[object],
) -> None:
    async with alongside:
        await server.serve(sockets=[listener])


def _configure(app: ASGIApp) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        log_config=None,
        log_level="critical",  # what it logs of a broken exchange holds the exchange
        access_log=False,
        lifespan="off",
        ws="none",
        interface="asgi3",
        proxy_headers=False,
        server_header=False,
        date_header=False,
        backlog=_BACKLOG,
        timeout_keep_alive=_IDLE_S,
        timeout_graceful_shutdown=0,
    )


def _await_start(server: uvicorn.Server, running: "Future[None]", name: str) -> None:
    deadline = time.monotonic() + _START_S
    while not server.started:
        if running.done() or time.monotonic() > deadline:
            cause = running.exception() if running.done() else None
            raise RunnerE2EError(f"The {name} did not start", "Start the cell again") from cause
        time.sleep(0.005)
