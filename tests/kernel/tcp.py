"""A TCP server outside of the sandbox that keeps what arrives. It decides no expectation."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class Server:
    """Keeps what connections to its port say, in their order."""

    def __init__(self) -> None:
        self.said: list[bytes] = []
        dual = socket.has_dualstack_ipv6()
        family, host = (socket.AF_INET6, "::") if dual else (socket.AF_INET, "127.0.0.1")
        self._listener = socket.create_server((host, 0), family=family, dualstack_ipv6=dual)
        self.port = int(self._listener.getsockname()[1])
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection, suppress(OSError):
                said = b""
                while block := connection.recv(100):
                    said += block
                self.said.append(said)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()

    def arrived(self) -> list[bytes]:
        """Return what each connection so far said: those before a call of our own have been served."""
        with socket.create_connection(("127.0.0.1", self.port), 10) as client:
            client.sendall(b"the end")
            client.shutdown(socket.SHUT_WR)
            assert client.recv(1) == b""
        *before, last = self.said
        assert last == b"the end"
        self.said.clear()
        return before


@contextmanager
def serving() -> Iterator[Server]:
    server = Server()
    try:
        yield server
    finally:
        server.close()
