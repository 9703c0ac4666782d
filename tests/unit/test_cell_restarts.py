"""Restart requests: what a hostile side may write, and that each request has one answer."""

from __future__ import annotations

import json
import os
import stat
import tempfile
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner_e2e.cell.restarts import (
    MOST_BYTES,
    MOST_MESSAGE,
    MOST_REQUESTS,
    Acknowledgement,
    RestartDesk,
    RestartRequest,
    await_acknowledgement,
    parse_acknowledgement,
    parse_request,
    request_restart,
    require_ready,
)
from runner_e2e.errors import AttemptTimeoutError, FailureClass, RunnerE2EError, SandboxUnprovenError
from runner_e2e.evidence.record_rules import CELL_SCHEMA, check_cell
from runner_e2e.isolation.control import ControlPaths, plan_control_paths

if TYPE_CHECKING:
    from collections.abc import Callable

TIME = "2026-11-02T10:11:12.131+00:00"
ID = "turn-2:a.b_c"
# As a request file may stand there: two good ones, a malformed one, two without an id.
REQUESTS = [
    b'{"requestId":"a"}',
    b'{"requestId":"b"}',
    b'{"requestId":"c","x":NaN}',
    b'{"requestId":1}',
    b"{",
]
IDS = st.text("aZ09._:-", min_size=1, max_size=200)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


def ticking() -> Callable[[], str]:
    """A clock that never says the same time twice."""
    seconds = count()
    return lambda: f"2026-11-02T10:11:{next(seconds):02}+00:00"


@pytest.fixture
def paths(tmp_path: Path) -> ControlPaths:
    return plan_control_paths(str(tmp_path))


@pytest.fixture
def desk(paths: ControlPaths) -> RestartDesk:
    return RestartDesk(paths, lambda: TIME)


def read_answer(paths: ControlPaths) -> dict[str, object]:
    content = json.loads(Path(paths.acknowledgement).read_bytes())
    assert isinstance(content, dict)
    return content


def put(paths: ControlPaths, content: bytes) -> None:
    Path(paths.request).write_bytes(content)


# One request and its answer.


def test_a_request_is_taken_once_and_its_answer_found(desk: RestartDesk, paths: ControlPaths) -> None:
    assert desk.poll() is None
    asked = request_restart(paths, ID)

    taken = desk.poll()

    assert taken == asked == RestartRequest(ID)
    assert desk.poll() is None
    assert not Path(paths.acknowledgement).exists()
    answer = desk.acknowledge(asked, "ready")
    assert read_answer(paths) == {"requestId": ID, "status": "ready", "completedAt": TIME}
    assert desk.journal() == [read_answer(paths)]
    assert await_acknowledgement(paths, ID, 0.0, lambda _: False) == answer
    assert desk.poll() is None


def test_what_is_written_is_for_this_user_alone(desk: RestartDesk, paths: ControlPaths) -> None:
    before = os.umask(0)
    try:
        taken = request_restart(paths, ID)
        desk.poll()
        desk.acknowledge(taken, "ready")
    finally:
        os.umask(before)

    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in Path(paths.directory).iterdir()}
    assert modes == {"server-restart.request.json": 0o600, "server-restart.ack.json": 0o600}
    assert stat.S_IMODE(Path(paths.directory).stat().st_mode) == 0o700


def test_a_refusal_says_why_to_who_asked_and_not_in_the_journal(
    desk: RestartDesk, paths: ControlPaths
) -> None:
    request_restart(paths, ID)
    taken = desk.poll()
    assert taken is not None

    desk.acknowledge(taken, "failed", "It ended.\udcff" + "x" * MOST_MESSAGE)

    found = await_acknowledgement(paths, ID, 0.0, lambda _: False)
    assert found.status == "failed"
    assert (found.message or "").startswith("It ended.")
    assert len(found.message or "") == MOST_MESSAGE
    assert desk.journal() == [{"requestId": ID, "status": "failed", "completedAt": TIME}]


@pytest.mark.parametrize("request_id", ["", "a b", "a/b", "ä", "a\n", "a" * 201, "a\0"])
def test_what_is_no_id_cannot_be_asked_with(request_id: str, desk: RestartDesk, paths: ControlPaths) -> None:
    with pytest.raises(ValueError, match="id"):
        request_restart(paths, request_id)

    assert desk.poll() is None
    put(paths, json.dumps({"requestId": request_id}).encode())
    assert desk.poll() is None
    assert not Path(paths.acknowledgement).exists()


def test_the_journal_is_as_a_record_may_hold_it(desk: RestartDesk, paths: ControlPaths) -> None:
    taken = request_restart(paths, ID)
    desk.poll()
    desk.acknowledge(taken, "ready")

    def is_refused(restarts: object) -> bool:
        found = check_cell({"schema": CELL_SCHEMA, "restarts": restarts})
        return any("restarts" in problem for problem in found)

    assert not is_refused(desk.journal())
    assert is_refused([{}])


# The same request again, and another one.


def test_the_same_id_gets_the_same_answer_and_no_other_restart(paths: ControlPaths) -> None:
    desk = RestartDesk(paths, ticking())
    request_restart(paths, ID)
    taken = desk.poll()
    assert taken is not None
    desk.acknowledge(taken, "ready")
    first = Path(paths.acknowledgement).read_bytes()

    Path(paths.acknowledgement).unlink()
    request_restart(paths, ID)

    assert desk.poll() is None
    assert Path(paths.acknowledgement).read_bytes() == first
    assert desk.acknowledge(taken, "failed", "late").status == "ready"
    assert Path(paths.acknowledgement).read_bytes() == first
    assert len(desk.journal()) == 1


def test_an_earlier_id_gets_its_own_answer_after_a_later_one(desk: RestartDesk, paths: ControlPaths) -> None:
    for name, status in (("one", "failed"), ("two", "ready")):
        request_restart(paths, name)
        taken = desk.poll()
        assert taken is not None
        desk.acknowledge(taken, "ready" if status == "ready" else "failed")

    request_restart(paths, "one")

    assert desk.poll() is None
    assert read_answer(paths)["requestId"] == "one"
    assert read_answer(paths)["status"] == "failed"


def test_a_new_request_takes_the_place_of_one_without_an_answer(
    desk: RestartDesk, paths: ControlPaths
) -> None:
    request_restart(paths, "one")
    first = desk.poll()
    request_restart(paths, "two")
    second = desk.poll()
    assert first is not None
    assert second is not None

    late = desk.acknowledge(first, "ready")
    desk.acknowledge(second, "ready")

    assert (late.status, late.message) == ("failed", "Another request took its place")
    assert [(row["requestId"], row["status"]) for row in desk.journal()] == [
        ("one", "failed"),
        ("two", "ready"),
    ]
    assert read_answer(paths)["requestId"] == "two"


def test_only_what_was_taken_can_be_answered(desk: RestartDesk, paths: ControlPaths) -> None:
    request_restart(paths, ID)

    with pytest.raises(ValueError, match="not taken"):
        desk.acknowledge(RestartRequest(ID), "ready")

    assert not Path(paths.acknowledgement).exists()


def test_whoever_asks_without_end_ends_the_cell(desk: RestartDesk, paths: ControlPaths) -> None:
    for number in range(MOST_REQUESTS):
        taken = request_restart(paths, f"{number}")
        assert desk.poll() == taken
        desk.acknowledge(taken, "ready")
    request_restart(paths, "one-more")

    with pytest.raises(RunnerE2EError, match="restarts of the server"):
        desk.poll()

    request_restart(paths, "0")
    assert desk.poll() is None


# What a hostile side writes.


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        pytest.param(b'{"requestId":"a","more":1,"more":2}', "a key stands twice", id="key-twice"),
        pytest.param(b'{"requestId":"a","deep":{"x":1,"x":1}}', "a key stands twice", id="deep-key-twice"),
        pytest.param(b'{"requestId":"a","more":NaN}', "NaN is not JSON", id="nan"),
        pytest.param(b'{"requestId":"a","more":-Infinity}', "-Infinity is not JSON", id="infinity"),
    ],
)
def test_a_malformed_request_is_refused_once_where_its_id_can_be_read(
    content: bytes, problem: str, desk: RestartDesk, paths: ControlPaths
) -> None:
    put(paths, content)

    assert desk.poll() is None
    answer = read_answer(paths)
    assert (answer["requestId"], answer["status"]) == ("a", "failed")
    assert problem in str(answer["message"])
    put(paths, b'{"requestId":"a"}')  # in good order, and too late
    assert desk.poll() is None
    assert len(desk.journal()) == 1


def test_a_malformed_request_does_not_take_the_place_of_a_good_one(
    desk: RestartDesk, paths: ControlPaths
) -> None:
    request_restart(paths, ID)
    taken = desk.poll()
    assert taken is not None
    put(paths, b'{"requestId":"a","more":NaN}')

    assert desk.poll() is None

    assert desk.acknowledge(taken, "ready").status == "ready"


LARGEST = b'{"requestId":"a","more":"' + b"x" * (MOST_BYTES - 27) + b'"}'


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"null",
        b"[]",
        b'"a"',
        b"{}",
        b'{"requestId":1}',
        b'{"requestId":null}',
        b'{"requestId":["a"]}',
        b'{"requestId":"a"',
        b'{"requestId":"a"}x',
        b'{"requestId":"a","requestId":"b"}',
        b'{"requestId":"a","requestId":"a"}',
        b'{"requestID":"a"}',
        b'{"requestId":"\xff"}',
        b'{"requestId":"a","n":' + b"9" * 5000 + b"}",
        b"[" * MOST_BYTES,
        b'{"requestId":"a","x":' + b"[" * 40_000,
        b'\xef\xbb\xbf{"requestId":"a"}',
        '{"requestId":"a"}'.encode("utf-16"),
        LARGEST + b" ",
    ],
)
def test_what_holds_no_id_that_can_be_read_is_ignored(
    content: bytes, desk: RestartDesk, paths: ControlPaths
) -> None:
    put(paths, content)

    assert desk.poll() is None
    assert desk.journal() == []
    assert not Path(paths.acknowledgement).exists()


def test_more_keys_and_the_largest_request_are_taken(desk: RestartDesk, paths: ControlPaths) -> None:
    """The control of the above."""
    assert len(LARGEST) == MOST_BYTES
    put(paths, LARGEST)

    assert desk.poll() == RestartRequest("a")


@pytest.mark.parametrize("kind", ["link", "loop", "dangling", "directory", "fifo"])
def test_what_is_no_regular_file_is_not_a_request(
    kind: str, desk: RestartDesk, paths: ControlPaths, tmp_path: Path
) -> None:
    request, real = Path(paths.request), tmp_path / "elsewhere.json"
    real.write_bytes(b'{"requestId":"a"}')
    if kind == "directory":
        request.mkdir()
    elif kind == "fifo":
        os.mkfifo(request)
    else:
        request.symlink_to({"link": real, "loop": request, "dangling": tmp_path / "none"}[kind])

    assert desk.poll() is None
    assert desk.journal() == []


def test_an_answer_replaces_a_link_and_not_what_it_names(
    desk: RestartDesk, paths: ControlPaths, tmp_path: Path
) -> None:
    kept = tmp_path / "kept"
    kept.write_text("kept")
    Path(paths.acknowledgement).symlink_to(kept)
    taken = request_restart(paths, ID)
    desk.poll()

    desk.acknowledge(taken, "ready")

    assert kept.read_text() == "kept"
    assert not Path(paths.acknowledgement).is_symlink()
    assert read_answer(paths)["requestId"] == ID


def test_an_answer_that_cannot_be_written_is_an_error_and_leaves_no_other_file(
    desk: RestartDesk, paths: ControlPaths
) -> None:
    Path(paths.acknowledgement, "inner").mkdir(parents=True)
    taken = request_restart(paths, ID)
    desk.poll()

    with pytest.raises(RunnerE2EError, match="cannot be written"):
        desk.acknowledge(taken, "ready")

    names = {path.name for path in Path(paths.directory).iterdir()}
    assert names == {"server-restart.request.json", "server-restart.ack.json"}


@given(st.binary(max_size=200) | VALUES.map(lambda value: json.dumps(value).encode()))
def test_whatever_a_file_holds_reading_it_raises_nothing(content: bytes) -> None:
    assert parse_request(content) is None or b"requestId" in content
    assert parse_acknowledgement(content) is None or b"completedAt" in content


@given(request_id=IDS, more=st.dictionaries(st.text(max_size=5), VALUES, max_size=3))
def test_every_id_is_read_beside_whatever_else_is_said(request_id: str, more: dict[str, object]) -> None:
    found = parse_request(json.dumps({**more, "requestId": request_id}).encode())

    assert found is not None
    assert found.id == request_id


@settings(deadline=None)  # files are synchronised to the disk, which may be busy
@given(
    st.lists(
        st.tuples(
            st.sampled_from(REQUESTS),
            st.booleans(),
            st.sampled_from(["ready", "failed", None]),
        ),
        max_size=12,
    )
)
def test_in_whatever_order_they_are_asked_each_request_has_one_grant_and_one_answer(
    steps: list[tuple[bytes, bool, str | None]],
) -> None:
    with tempfile.TemporaryDirectory() as place:
        paths = plan_control_paths(place)
        desk = RestartDesk(paths, ticking())
        granted: list[str] = []
        seen: dict[str, bytes] = {}
        for content, gone, status in steps:
            put(paths, content)
            if gone:
                Path(paths.acknowledgement).unlink(missing_ok=True)
            taken = desk.poll()
            if taken is not None:
                granted.append(taken.id)
                if status is not None:
                    desk.acknowledge(taken, "ready" if status == "ready" else "failed")
            if Path(paths.acknowledgement).exists():
                answer = Path(paths.acknowledgement).read_bytes()
                name = json.loads(answer)["requestId"]
                assert seen.setdefault(name, answer) == answer
        assert len(granted) == len(set(granted))
        assert len(desk.journal()) == len({row["requestId"] for row in desk.journal()})


# The directory.


def test_a_directory_that_is_there_is_not_taken_over(paths: ControlPaths) -> None:
    Path(paths.directory).mkdir()

    with pytest.raises(RunnerE2EError, match="cannot be made"):
        RestartDesk(paths)


@pytest.mark.parametrize("kind", ["link", "directory", "file", "gone"])
def test_a_directory_that_was_replaced_is_an_error(
    kind: str, desk: RestartDesk, paths: ControlPaths, tmp_path: Path
) -> None:
    """Also where the other one holds a request in good order."""
    taken = request_restart(paths, ID)
    desk.poll()
    place, aside = Path(paths.directory), tmp_path / "aside"
    place.rename(aside)
    if kind == "link":
        place.symlink_to(aside)
    elif kind == "directory":
        place.mkdir(mode=0o700)
        put(paths, b'{"requestId":"other"}')
    elif kind == "file":
        place.touch()

    for act in (desk.poll, lambda: desk.acknowledge(taken, "ready")):
        with pytest.raises(RunnerE2EError, match="control directory"):
            act()

    assert not (aside / "server-restart.ack.json").exists()
    assert not Path(paths.acknowledgement).exists()


@pytest.mark.parametrize("mode", [0o701, 0o710, 0o777])
def test_a_directory_that_is_open_to_others_is_an_error(
    mode: int, desk: RestartDesk, paths: ControlPaths
) -> None:
    request_restart(paths, ID)
    Path(paths.directory).chmod(mode)

    with pytest.raises(RunnerE2EError, match="open to others"):
        desk.poll()
    with pytest.raises(RunnerE2EError, match="open to others"):
        request_restart(paths, ID)
    with pytest.raises(RunnerE2EError, match="open to others"):
        await_acknowledgement(paths, ID, 0.0, lambda _: False)


def test_without_a_directory_nothing_can_be_asked(paths: ControlPaths) -> None:
    with pytest.raises(RunnerE2EError, match="cannot be opened"):
        request_restart(paths, ID)


# The side that waits.


def answer_file(**changes: object) -> bytes:
    return json.dumps({"requestId": ID, "status": "ready", "completedAt": TIME, **changes}).encode()


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(answer_file(requestId="other"), id="of-another-request"),
        pytest.param(answer_file(requestId=1), id="id-no-text"),
        pytest.param(answer_file(requestId="a b"), id="no-id"),
        pytest.param(answer_file(status="done"), id="unknown-status"),
        pytest.param(answer_file(status=["ready"]), id="status-no-text"),
        pytest.param(answer_file(completedAt="soon"), id="no-time"),
        pytest.param(answer_file(completedAt="2026-11-02T10:11:12"), id="time-without-zone"),
        pytest.param(answer_file(completedAt=1), id="time-no-text"),
        pytest.param(answer_file(message=1), id="message-no-text"),
        pytest.param(answer_file()[:-1], id="half"),
        pytest.param(b"[]", id="list"),
        pytest.param(b"[" * 60_000, id="deep"),
        pytest.param(b"", id="empty"),
    ],
)
def test_what_is_no_answer_to_the_request_is_none(
    content: bytes, desk: RestartDesk, paths: ControlPaths
) -> None:
    Path(paths.acknowledgement).write_bytes(content)

    with pytest.raises(AttemptTimeoutError) as caught:
        await_acknowledgement(paths, ID, 0.0, lambda _: False)

    assert caught.value.failure_class is FailureClass.TRANSIENT_INFRASTRUCTURE
    Path(paths.acknowledgement).write_bytes(answer_file(message="so", more=1))  # the control
    found = await_acknowledgement(paths, ID, 0.0, lambda _: False)
    assert found == Acknowledgement(ID, "ready", TIME, "so")
    assert desk.journal() == []


def test_who_waits_lets_the_other_side_work_and_looks_once_more_when_time_is_over(
    desk: RestartDesk, paths: ControlPaths
) -> None:
    waits: list[float] = []
    asked = request_restart(paths, ID)

    def wait(deadline: float) -> bool:
        waits.append(deadline)
        if len(waits) == 3:
            desk.poll()
            desk.acknowledge(asked, "failed", "Too slow")
        return len(waits) < 3

    found = await_acknowledgement(paths, ID, 17.5, wait)

    assert (found.status, found.message) == ("failed", "Too slow")
    assert waits == [17.5] * 3


def test_a_refusal_ends_the_cell_with_its_reason() -> None:
    refusal = Acknowledgement(ID, "failed", TIME, "It ended")
    reason = SandboxUnprovenError("The isolation is not proven", "Read the probe table")

    require_ready(Acknowledgement(ID, "ready", TIME), reason)
    with pytest.raises(SandboxUnprovenError) as known:
        require_ready(refusal, reason)
    with pytest.raises(RunnerE2EError, match="not started again: It ended") as unknown:
        require_ready(refusal)

    assert known.value is reason
    assert unknown.value.failure_class is FailureClass.TRANSIENT_INFRASTRUCTURE
