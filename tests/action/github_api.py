"""A stand-in for GitHub's API on this machine: it answers what a test wants and remembers who asked."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping


class Api(ThreadingHTTPServer):
    """The server, with the path and the headers of every request."""

    daemon_threads = True

    def __init__(self, reply: Callable[[BaseHTTPRequestHandler], None]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.reply = reply
        self.requests: list[tuple[str, Mapping[str, str]]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Api

    def do_GET(self) -> None:
        self.server.requests.append((self.path, dict(self.headers)))
        self.server.reply(self)

    def log_message(self, *_: object) -> None:
        """Stay silent."""


def answer(status: int, body: object = None, **headers: str) -> Callable[[BaseHTTPRequestHandler], None]:
    """Return a reply with a JSON body; underscores in names of headers stand for hyphens."""

    def reply(handler: BaseHTTPRequestHandler) -> None:
        content = json.dumps(body).encode()
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        handler.wfile.write(content)

    return reply


@contextmanager
def serving(reply: Callable[[BaseHTTPRequestHandler], None]) -> Iterator[Api]:
    """Serve on a free port of the loopback address meanwhile."""
    with Api(reply) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        try:
            yield server
        finally:
            server.shutdown()
