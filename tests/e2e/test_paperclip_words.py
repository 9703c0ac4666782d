"""What agents of the real product say at the end of a run: it is written down after the run has ended."""

from __future__ import annotations

import time

import httpx
import pytest

from runner_e2e.cell.paperclip_agents import Worker, read_workers
from runner_e2e.cell.paperclip_api import PaperclipApi


class Server:
    """A server whose issue is done, and whose comments are those of one look after the other."""

    def __init__(self, *looks: list[dict[str, object]]) -> None:
        self.looks = list(looks)

    def answer(self, request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/comments"):
            return httpx.Response(200, json=self.looks.pop(0) if len(self.looks) > 1 else self.looks[0])
        return httpx.Response(200, json={"status": "done"})


def says(text: str, run: str) -> dict[str, object]:
    return {"body": text, "authorAgentId": "a", "createdByRunId": run, "createdAt": text}


EARLIER, LATER = says("1", "r1"), says("2", "r2")


@pytest.mark.parametrize(
    ("status", "speaks", "heard"),
    [
        pytest.param("succeeded", True, ["1", "2"], id="awaited"),
        pytest.param("failed", True, ["1"], id="a-failed-run-says-nothing"),
        pytest.param("succeeded", False, ["1"], id="a-run-that-asked-says-nothing"),
    ],
)
def test_the_words_of_the_last_run_are_waited_for(status: str, speaks: bool, heard: list[str]) -> None:
    server = Server([EARLIER], [EARLIER], [EARLIER, LATER])
    worker = Worker("ada", "key", "seal", agent="a", issue="i", runs=[{"id": "r2", "status": status}])

    with PaperclipApi(1, httpx.MockTransport(server.answer)) as api:
        read_workers(api, [worker], time.monotonic() + 20, expected_issue="done", speaks=speaks)

    assert (worker.issue_status, worker.messages) == ("done", heard)


def test_an_agent_that_never_speaks_is_not_waited_for_without_end() -> None:
    worker = Worker("ada", "key", "seal", agent="a", issue="i", runs=[{"id": "r", "status": "succeeded"}])

    with PaperclipApi(1, httpx.MockTransport(Server([]).answer)) as api:
        read_workers(api, [worker], time.monotonic() + 0.5, expected_issue="done")

    assert worker.messages == []
