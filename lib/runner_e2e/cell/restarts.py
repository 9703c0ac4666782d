"""Restart requests of a server: one side asks in a file, the side that owns the server answers in another.

Neither side trusts what the other one wrote. Files are replaced whole, and read only as regular files of
a size that a request can have.
"""

import contextlib
import json
import os
import re
import secrets
import stat
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import Literal

from runner_e2e.cell.record import now
from runner_e2e.errors import AttemptTimeoutError, RunnerE2EError, TransientInfrastructureError
from runner_e2e.isolation.control import ControlPaths

MOST_BYTES = 64 << 10
MOST_MESSAGE = 2_000
# No cell restarts its server nearly as often: whoever asks for more is out of control.
MOST_REQUESTS = 100

Outcome = Literal["ready", "failed"]

_ID = re.compile(r"[A-Za-z0-9._:-]{1,200}")
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class RestartRequest:
    """What was asked for; `problem` says why it cannot be granted although its id can be read."""

    id: str
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """The answer to one request; `completed_at` is ISO 8601 in UTC."""

    request_id: str
    status: Outcome
    completed_at: str
    message: str | None = None


class RestartDesk:
    """Takes the requests and gives each one answer. Makes the control directory, which must not exist."""

    def __init__(self, paths: ControlPaths, clock: Callable[[], str] = now) -> None:
        self._paths = paths
        self._clock = clock
        self._pending: str | None = None
        self._answers: dict[str, Acknowledgement] = {}
        try:
            Path(paths.directory).mkdir(0o700)
        except OSError as error:
            raise _unusable(f"cannot be made: {error.strerror}") from error
        self._identity: tuple[int, int] | None = None
        with self._opened() as directory:
            self._identity = _identify(directory)

    def poll(self) -> RestartRequest | None:
        """Return a request that has to be granted or refused, each only once.

        One that was answered gets its answer again. One that is malformed is refused here, where its id can
        be read, and ignored otherwise. A newer one takes the place of one that has no answer yet.
        """
        with self._opened() as directory:
            request = parse_request(_read(directory, self._paths.request) or b"")
            if request is None or request.id == self._pending:
                return None
            if request.id in self._answers:
                self._repeat(directory, self._answers[request.id])
                return None
            if len(self._answers) >= MOST_REQUESTS:
                raise RunnerE2EError(
                    f"More than {MOST_REQUESTS} restarts of the server were asked for",
                    "Look for what asks for them",
                )
            if request.problem is not None:
                self._answer(directory, request.id, "failed", request.problem)
                return None
            if self._pending is not None:
                self._answer(directory, self._pending, "failed", "Another request took its place")
            self._pending = request.id
            return request

    def acknowledge(
        self, request: RestartRequest, status: Outcome, message: str | None = None
    ) -> Acknowledgement:
        """Answer a request that `poll` returned; one that has an answer keeps that.

        Raises ValueError for any other request.
        """
        answered = self._answers.get(request.id)
        if answered is not None:
            return answered
        if request.id != self._pending:
            raise ValueError("this request was not taken")
        with self._opened() as directory:
            answer = self._answer(directory, request.id, status, message)
        self._pending = None
        return answer

    def journal(self) -> list[dict[str, object]]:
        """Return the answers in their order, as `restarts` of `cell.json`: without messages."""
        return [_describe(answer) for answer in self._answers.values()]

    def _answer(self, directory: int, request: str, status: Outcome, message: str | None) -> Acknowledgement:
        text = None if message is None else message[:MOST_MESSAGE]
        answer = Acknowledgement(request, status, self._clock(), text)
        self._answers[request] = answer
        _write(directory, self._paths.acknowledgement, _encode(answer))
        return answer

    def _repeat(self, directory: int, answer: Acknowledgement) -> None:
        content = _encode(answer)
        if _read(directory, self._paths.acknowledgement) != content:
            _write(directory, self._paths.acknowledgement, content)

    @contextlib.contextmanager
    def _opened(self) -> Iterator[int]:
        with _open_directory(self._paths) as directory:
            if self._identity is not None and _identify(directory) != self._identity:
                raise _unusable("was replaced")
            yield directory


def request_restart(paths: ControlPaths, request_id: str) -> RestartRequest:
    """Ask for a restart, in place of any earlier request; raises ValueError for an id that is none."""
    if not _ID.fullmatch(request_id):
        raise ValueError("not an id of a restart request")
    with _open_directory(paths) as directory:
        _write(directory, paths.request, _to_json({"requestId": request_id}))
    return RestartRequest(request_id)


def await_acknowledgement(
    paths: ControlPaths, request_id: str, deadline: float, wait: Callable[[float], bool]
) -> Acknowledgement:
    """Return the answer to a request, whatever it says.

    `wait` passes some time, and tells whether there is any left until the monotonic deadline; the answer
    is looked for once more after that. Raises AttemptTimeoutError when there is none.
    """
    waiting = True
    while True:
        with _open_directory(paths) as directory:
            answer = parse_acknowledgement(_read(directory, paths.acknowledgement) or b"")
        if answer is not None and answer.request_id == request_id:
            return answer
        if not waiting:
            raise AttemptTimeoutError(
                "The server was not started again before the deadline", "Read server.log, or allow more time"
            )
        waiting = wait(deadline)


def require_ready(answer: Acknowledgement, reason: Exception | None = None) -> None:
    """Raise for an answer that is a refusal: `reason` where it is known, else what the answer says."""
    if answer.status == "ready":
        return
    raise reason or TransientInfrastructureError(
        f"The server was not started again: {answer.message or 'no reason was given'}", "Read server.log"
    )


def parse_request(content: bytes) -> RestartRequest | None:
    """Return what a request file asks for, None when no id can be read from it."""
    problems: list[str] = []

    def build(pairs: list[tuple[str, object]]) -> dict[str, object]:
        counts = Counter(key for key, _ in pairs)
        if len(counts) != len(pairs):
            problems.append("a key stands twice")
        return {key: value for key, value in pairs if counts[key] == 1}

    def note(name: str) -> None:
        problems.append(f"{name} is not JSON")

    try:
        parsed = json.loads(content.decode(), object_pairs_hook=build, parse_constant=note)
    except (ValueError, RecursionError):
        return None
    request = parsed.get("requestId") if isinstance(parsed, dict) else None
    if not isinstance(request, str) or not _ID.fullmatch(request):
        return None
    return RestartRequest(request, f"The request is malformed: {problems[0]}" if problems else None)


def parse_acknowledgement(content: bytes) -> Acknowledgement | None:
    """Return the answer that a file holds, None when it is none."""
    try:
        parsed = json.loads(content.decode())
        if not isinstance(parsed, dict):
            return None
        request, status, completed = (parsed.get(name) for name in ("requestId", "status", "completedAt"))
        if not isinstance(completed, str) or datetime.fromisoformat(completed).tzinfo is None:
            return None
    except (ValueError, RecursionError):
        return None
    message = parsed.get("message")
    if not isinstance(request, str) or not _ID.fullmatch(request):
        return None
    if status not in ("ready", "failed") or not isinstance(message, str | None):
        return None
    return Acknowledgement(request, "ready" if status == "ready" else "failed", completed, message)


def _describe(answer: Acknowledgement) -> dict[str, object]:
    return {"requestId": answer.request_id, "status": answer.status, "completedAt": answer.completed_at}


def _encode(answer: Acknowledgement) -> bytes:
    message = {} if answer.message is None else {"message": answer.message}
    return _to_json({**_describe(answer), **message})


def _to_json(content: Mapping[str, object]) -> bytes:
    return json.dumps(content).encode("ascii") + b"\n"


@contextlib.contextmanager
def _open_directory(paths: ControlPaths) -> Iterator[int]:
    """Open the control directory if it is one, and this user's alone."""
    try:
        directory = os.open(paths.directory, _DIRECTORY)
    except OSError as error:
        raise _unusable(f"cannot be opened: {error.strerror}") from error
    try:
        status = os.fstat(directory)
        if status.st_uid != os.geteuid() or status.st_mode & 0o077:
            raise _unusable("is open to others")
        yield directory
    finally:
        os.close(directory)


def _identify(directory: int) -> tuple[int, int]:
    status = os.fstat(directory)
    return status.st_dev, status.st_ino


def _read(directory: int, path: str) -> bytes | None:
    """Return a file of the control directory, None when there is none that can be taken."""
    try:
        descriptor = os.open(PurePosixPath(path).name, _READ, dir_fd=directory)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return None
            content = file.read(MOST_BYTES + 1)
    except OSError:
        return None
    return content if len(content) <= MOST_BYTES else None


def _write(directory: int, path: str, content: bytes) -> None:
    """Replace a file of the control directory so that a reader sees the old one or the new one, whole."""
    temporary = f"new-{secrets.token_hex(8)}"
    try:
        descriptor = os.open(temporary, _WRITE, 0o600, dir_fd=directory)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fchmod(descriptor, 0o600)
                os.fsync(descriptor)
            os.rename(temporary, PurePosixPath(path).name, src_dir_fd=directory, dst_dir_fd=directory)
            os.fsync(directory)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=directory)
            raise
    except OSError as error:
        raise _unusable(f"cannot be written: {error.strerror}") from error


def _unusable(problem: str) -> RunnerE2EError:
    return RunnerE2EError(
        f"The control directory {problem}", "Look for what else works in the attempt's private directory"
    )
