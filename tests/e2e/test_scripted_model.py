"""The scripted model over real loopback connections: what clients receive, alone and at once."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from runner_e2e.errors import InputError
from runner_e2e.gateway.rates import Rate, RateCard
from runner_e2e.gateway.server import running_gateway
from runner_e2e.gateway.settings import GatewaySettings
from runner_e2e.gateway.upstream import build_upstream
from runner_e2e.model.reading import parse_script
from runner_e2e.model.server import CHAT_PATH, MAX_BODY_BYTES, Model, running_model

from .scripted_provider import await_true

if TYPE_CHECKING:
    from collections.abc import Iterator

KEY = "the-key-of-ada"
CALL = "{tool: {name: bash, arguments: {command: ls}}}"
TOOLS = [{"type": "function", "function": {"name": "bash", "parameters": {}}}]
Message = dict[str, Any]


def script_text(steps: str, match: str = "{key: the-key-of-ada}") -> str:
    return f"schema: runner-e2e.scripted-model/v1\nagents:\n- id: ada\n  match: {match}\n  steps: {steps}\n"


@contextlib.contextmanager
def playing(place: Path, text: str) -> Iterator[tuple[Model, httpx.Client]]:
    with (
        running_model(parse_script(text, "my.yaml"), place / "log.ndjson") as model,
        client_of(model) as http,
    ):
        yield model, http


def client_of(model: Model, key: str = KEY) -> httpx.Client:
    headers = {"authorization": f"Bearer {key}"}
    return httpx.Client(base_url=model.base_url, headers=headers, trust_env=False, timeout=20)


def ask(http: httpx.Client, *messages: Message, **fields: object) -> httpx.Response:
    body = {"model": "ada", "stream": True, "tools": TOOLS, "messages": list(messages), **fields}
    return http.post("/chat/completions", json=body)


def user(text: str = "do it") -> Message:
    return {"role": "user", "content": text}


def events_of(response: httpx.Response) -> list[dict[str, Any]]:
    """Return the chunks of a stream that ends as it should."""
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/event-stream")
    *events, done, rest = response.text.split("\n\n")
    assert (done, rest) == ("data: [DONE]", "")
    return [json.loads(event.removeprefix("data: ")) for event in events]


def answer_of(response: httpx.Response) -> Message:
    """Return the message that a client puts together from a stream."""
    message: Message = {"role": "assistant", "content": ""}
    calls: dict[int, Message] = {}
    for event in events_of(response):
        for choice in event["choices"]:
            message["content"] += choice["delta"].get("content") or ""
            for part in choice["delta"].get("tool_calls", ()):
                call = calls.setdefault(part["index"], {**part, "function": {**part["function"]}})
                if part is not call and "id" not in part:
                    call["function"]["arguments"] += part["function"]["arguments"]
    if calls:
        message["tool_calls"] = [calls[index] for index in sorted(calls)]
    return message


def results_for(answer: Message, text: str) -> list[Message]:
    return [
        {"role": "tool", "tool_call_id": call["id"], "content": text} for call in answer.get("tool_calls", ())
    ]


def test_a_stream_is_what_a_provider_sends(tmp_path: Path) -> None:
    long = "x" * 5000
    tools = f"[{{name: bash, arguments: {{command: {long}}}}}, {{name: read, arguments: {{}}}}]"
    steps = f"[{{text: hä, tools: {tools}}}]"
    with playing(tmp_path, script_text(steps)) as (model, http):
        response = ask(http, user())
        events = events_of(response)

    answer = answer_of(response)
    assert answer["content"] == "hä"
    first, second = answer["tool_calls"]
    assert (first["function"]["name"], second["function"]["name"]) == ("bash", "read")
    assert json.loads(first["function"]["arguments"]) == {"command": long}
    assert first["id"] != second["id"]
    assert len({event["id"] for event in events}) == 1
    assert [choice["finish_reason"] for event in events for choice in event["choices"]][-1] == "tool_calls"
    assert events[-1]["choices"] == []
    usage = events[-1]["usage"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"] > 1000
    assert model.unmet == ()


def test_without_a_stream_it_is_one_document(tmp_path: Path) -> None:
    steps = f"[{CALL}, {{text: done, usage: {{prompt_tokens: 7, completion_tokens: 3}}}}]"
    with playing(tmp_path, script_text(steps)) as (_, http):
        message = ask(http, user(), stream=False).json()["choices"][0]["message"]
        last = ask(http, user(), message, *results_for(message, "a"), stream=False).json()

    assert message["content"] is None
    assert message["tool_calls"][0]["function"] == {"name": "bash", "arguments": '{"command":"ls"}'}
    assert last["choices"][0] == {
        "index": 0,
        "message": {"role": "assistant", "content": "done"},
        "finish_reason": "stop",
    }
    assert last["usage"] == {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}


def test_a_request_without_tools_gets_a_title_and_takes_no_step(tmp_path: Path) -> None:
    with playing(tmp_path, script_text("[{text: one}]")) as (model, http):
        nothing: tuple[list[object] | None, ...] = ([], None)
        for tools in nothing:
            assert answer_of(ask(http, user(), tools=tools))["content"] == "Scripted task"
        assert ask(http, user(), tools=[], stream=False).json()["choices"][0]["message"]["content"]
        assert model.unmet == ("ada: it never asked",)
        assert answer_of(ask(http, user()))["content"] == "one"

    assert [(one["agent"], one["played"]) for one in model.requests] == [("ada", "title")] * 3 + [
        ("ada", "text")
    ]


def test_twenty_conversations_at_once_play_each_their_own_script(tmp_path: Path) -> None:
    steps = f"[{CALL}, {{error: {{status: 503}}}}, {{text: end, expect: {{tool_result_contains: result}}}}]"

    def converse(model: Model, number: int) -> list[object]:
        with client_of(model) as http:
            headers = {"x-session-id": f"session-{number}"}
            http.headers.update(headers)
            messages = [user()]
            first = answer_of(ask(http, *messages))
            messages += [first, *results_for(first, f"result {number}")]
            failed = ask(http, *messages).status_code
            last = answer_of(ask(http, *messages))["content"]
        return [first["tool_calls"][0]["id"], failed, last]

    with playing(tmp_path, script_text(steps)) as (model, _), ThreadPoolExecutor(20) as executor:
        seen = list(executor.map(lambda number: converse(model, number), range(20)))
        requests, unmet = model.requests, model.unmet

    assert [one[1:] for one in seen] == [[503, "end"]] * 20
    assert len({one[0] for one in seen}) == 20
    assert unmet == ()
    assert len(requests) == 60
    assert sorted(str(one["toolResults"]) for one in requests if one["status"] == 503) == sorted(
        f"['result {number}']" for number in range(20)
    )


def test_a_refusal_asks_for_patience_and_then_the_step_follows(tmp_path: Path) -> None:
    steps = (
        "[{rate_limit: {retry_after_s: 0.2}, repeat: 2}, {error: {status: 500, message: boom}}, {text: a}]"
    )
    with playing(tmp_path, script_text(steps)) as (model, http):
        limited = ask(http, user())
        statuses = [ask(http, user()).status_code for _ in range(3)]
        failed = model.requests[2]

    assert limited.status_code == 429
    assert (limited.headers["retry-after"], limited.headers["retry-after-ms"]) == ("1", "200")
    assert limited.json()["error"]["type"] == "rate_limit_error"
    assert statuses == [429, 500, 200]
    assert (failed["played"], failed["step"], failed["attempt"], failed["position"]) == ("error", 2, 3, 0)
    assert model.unmet == ()


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("kind", ["cut", "cut_at_once"])
def test_a_cut_answer_breaks_off_and_the_next_request_is_served(
    tmp_path: Path, kind: str, streamed: bool
) -> None:
    received: list[bytes] = []
    with playing(tmp_path, script_text(f"[{{malformed: {kind}, text: abcdef}}, {{text: a}}]")) as (_, http):
        body = {"model": "ada", "stream": streamed, "tools": TOOLS, "messages": [user()]}
        with (
            http.stream("POST", "/chat/completions", json=body) as response,
            pytest.raises(httpx.RemoteProtocolError),
        ):
            received.extend(response.iter_raw())
        again = ask(http, user())

    assert response.status_code == 200
    assert bool(received) == (kind == "cut")
    assert answer_of(again)["content"] == "a"


@pytest.mark.parametrize(
    ("kind", "holds", "lacks"),
    [
        pytest.param("broken_chunk", b'"del\n\n', None, id="broken-chunk"),
        pytest.param("invalid_json", b"data: this is not JSON\n\n", None, id="invalid-json"),
        pytest.param("missing_done", b'"finish_reason":"stop"', b"[DONE]", id="missing-done"),
        pytest.param("missing_finish", b"[DONE]", b'"finish_reason":"stop"', id="missing-finish"),
        pytest.param("empty", b"[DONE]", b'"delta"', id="empty"),
        pytest.param("html", b"<!DOCTYPE html>", b"data:", id="html"),
    ],
)
def test_a_malformed_stream_ends_whole_but_wrong(
    tmp_path: Path, kind: str, holds: bytes, lacks: bytes | None
) -> None:
    with playing(tmp_path, script_text(f"[{{malformed: {kind}, text: part}}, {{text: a}}]")) as (model, http):
        content = ask(http, user()).content
        assert answer_of(ask(http, user()))["content"] == "a"

    assert holds in content
    assert lacks is None or lacks not in content
    assert model.requests[0]["played"] == f"malformed:{kind}"


@pytest.mark.parametrize("kind", ["broken_chunk", "invalid_json"])
def test_a_malformed_document_is_no_json(tmp_path: Path, kind: str) -> None:
    with playing(tmp_path, script_text(f"[{{malformed: {kind}, text: part}}]")) as (_, http):
        response = ask(http, user(), stream=False)

    assert response.status_code == 200
    with pytest.raises(ValueError, match=r"."):
        response.json()


def test_agents_that_meet_are_answered_together(tmp_path: Path) -> None:
    text = """schema: runner-e2e.scripted-model/v1
agents:
- {id: ada, match: {key: the-key-of-ada}, steps: [{text: a, meet: {name: here}}]}
- {id: bob, match: {key: the-key-of-bob}, steps: [{text: b, meet: {name: here}}]}
"""
    with playing(tmp_path, text) as (model, ada), client_of(model, "the-key-of-bob") as bob:
        with ThreadPoolExecutor(1) as executor:
            waiting = executor.submit(ask, ada, user())
            await_true(lambda: len(model.requests) == 1)
            time.sleep(0.1)
            assert not waiting.done()
            assert answer_of(ask(bob, user()))["content"] == "b"
            assert answer_of(waiting.result(10))["content"] == "a"
        assert model.unmet == ()


def test_who_waits_in_vain_is_answered_and_it_is_told(tmp_path: Path) -> None:
    text = """schema: runner-e2e.scripted-model/v1
agents:
- {id: ada, match: {key: the-key-of-ada}, steps: [{text: a, meet: {name: here, within_s: 0.05}}]}
- {id: bob, match: {key: the-key-of-bob}, steps: [{text: b, meet: {name: here}}]}
"""
    with playing(tmp_path, text) as (model, http):
        assert answer_of(ask(http, user()))["content"] == "a"

        assert model.unmet == ("ada: not all came to here in time", "bob: it never asked")


def test_an_answer_waits_as_long_as_it_says_and_holds_nobody_up(tmp_path: Path) -> None:
    text = """schema: runner-e2e.scripted-model/v1
agents:
- {id: ada, match: {key: the-key-of-ada}, steps: [{text: a, delay_s: 30}]}
- {id: bob, match: {key: the-key-of-bob}, steps: [{text: b, delay_s: 0.2}]}
"""
    started = time.monotonic()
    with (
        playing(tmp_path, text) as (model, ada),
        client_of(model, "the-key-of-bob") as bob,
        ThreadPoolExecutor(1) as executor,
    ):
        ada.timeout = httpx.Timeout(2)
        waiting = executor.submit(ask, ada, user())
        await_true(lambda: len(model.requests) == 1)
        asked = time.monotonic()
        assert answer_of(ask(bob, user()))["content"] == "b"
        assert time.monotonic() - asked >= 0.2
        with pytest.raises(httpx.ReadTimeout):
            waiting.result(10)

    assert time.monotonic() - started < 25  # the end cancels what waits


def test_the_log_is_private_bounded_and_without_the_key(tmp_path: Path) -> None:
    steps = f"[{CALL}, {{text: done}}]"
    with playing(tmp_path, script_text(steps)) as (model, http):
        first = answer_of(ask(http, user(f"my key is {KEY}")))
        results = results_for(first, f"{KEY} {'y' * 65_521}{KEY}{'z' * 2_000_000}")
        ask(http, user(f"my key is {KEY}"), first, *results)
        (_, record) = model.requests

    content = (tmp_path / "log.ndjson").read_bytes()
    assert KEY.encode() not in content
    assert KEY[:8].encode() not in content
    assert len(content) < 100_000
    assert (tmp_path / "log.ndjson").stat().st_mode & 0o777 == 0o600
    assert record["schema"] == "runner-e2e.model-request/v1"
    assert record["lastUserText"] == "my key is [redacted]"
    assert (record["position"], record["messages"], record["tools"]) == (1, 3, ["bash"])
    assert (record["step"], record["played"], record["model"]) == (2, "text", "ada")
    assert len(content.splitlines()) == 2


def test_what_is_no_request_of_the_script_is_refused_and_told(tmp_path: Path) -> None:
    with (
        playing(tmp_path, script_text("[{text: a}]")) as (model, http),
        client_of(model, "another-key") as other,
    ):
        assert ask(other, user()).json()["error"]["code"] == "unknown_agent"
        assert http.get("/models").status_code == 404
        assert http.post("/chat/completions", content=b"{").json()["error"]["code"] == "invalid_request"
        assert http.post("/chat/completions", content=b" " * (MAX_BODY_BYTES + 1)).status_code == 413
        assert answer_of(ask(http, user()))["content"] == "a"

        assert model.unmet == ("a request was of no agent of the script", "a request could not be read")


@pytest.mark.parametrize("streamed", [True, False])
def test_the_spending_gateway_can_stand_in_front(tmp_path: Path, streamed: bool) -> None:
    card = RateCard({"ada": Rate(Decimal(1), Decimal(1000), max_output_tokens=100)})
    usage = "usage: {prompt_tokens: 1000, completion_tokens: 100}"
    call = f"{{tool: {{name: bash, arguments: {{}}}}, {usage}}}"
    steps = f"[{call}, {{error: {{status: 500}}}}, {{text: end, {usage}}}]"
    with playing(tmp_path, script_text(steps, "{key: the-key-of-ada, model: ada}")) as (model, _):
        settings = GatewaySettings(build_upstream("OPENAI_API_KEY", KEY, model.base_url), card)
        with (
            running_gateway(settings) as gateway,
            httpx.Client(
                base_url=f"{gateway.base_url}/v1",
                headers={"authorization": f"Bearer {gateway.token}"},
                trust_env=False,
                timeout=20,
            ) as http,
        ):
            limits: dict[str, object] = {"stream": streamed, "max_tokens": 100}
            read = answer_of if streamed else lambda response: response.json()["choices"][0]["message"]
            first = read(ask(http, user(), **limits))
            messages = [user(), first, *results_for(first, "r")]
            failed = ask(http, *messages, **limits)
            last = read(ask(http, *messages, **limits))
            await_true(lambda: gateway.records()["inFlight"] == 0)
            record: dict[str, Any] = gateway.records()
        assert model.unmet == ()

    assert failed.status_code == 500
    assert last["content"] == "end"
    assert record["tokens"]["output"] == 200
    assert record["costUsd"] == pytest.approx(0.202)


def test_a_cut_answer_is_cut_behind_the_gateway_too(tmp_path: Path) -> None:
    card = RateCard({"ada": Rate(Decimal(1), Decimal(1), max_output_tokens=100)})
    with playing(tmp_path, script_text("[{malformed: cut, text: abcdef}]")) as (model, _):
        settings = GatewaySettings(build_upstream("OPENAI_API_KEY", KEY, model.base_url), card)
        with running_gateway(settings) as gateway, pytest.raises(httpx.RemoteProtocolError):
            httpx.post(
                f"{gateway.base_url}{CHAT_PATH}",
                headers={"authorization": f"Bearer {gateway.token}"},
                json={"model": "ada", "stream": True, "tools": TOOLS, "messages": [user()]},
                trust_env=False,
            )


def test_a_port_or_log_that_cannot_be_had_is_refused(tmp_path: Path) -> None:
    script = parse_script(script_text("[{text: a}]"), "my.yaml")
    with running_model(script, tmp_path / "log.ndjson") as model:
        taken = int(model.base_url.rsplit(":", 1)[1].removesuffix("/v1"))
        with (
            pytest.raises(InputError, match="cannot be used"),
            running_model(script, tmp_path / "other.ndjson", port=taken),
        ):
            pass
    with pytest.raises(InputError, match="not a regular file"), running_model(script, Path("/dev/null")):
        pass
    for place in (tmp_path / "absent" / "log", tmp_path):
        with pytest.raises(InputError, match="The log cannot be opened"), running_model(script, place):
            pass


def start(place: Path, *arguments: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "runner_e2e.cli", "scripted-model", *arguments]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.Popen(
        command,
        cwd=place,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


@pytest.mark.parametrize(("signum", "asks"), [(signal.SIGINT, True), (signal.SIGTERM, False)])
def test_the_command_plays_until_it_is_stopped_and_says_what_was_unmet(
    tmp_path: Path, signum: signal.Signals, asks: bool
) -> None:
    text = script_text("[{text: '{word}'}]", "{key: '{ada_key}'}").replace(
        "agents:", "values: [word, ada_key]\nagents:"
    )
    (tmp_path / "my.yaml").write_text(text, encoding="utf-8")

    with start(tmp_path, "my.yaml", "--value", "word=hello", "--values-stdin") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"ada_key={KEY}\n".encode())
        process.stdin.close()
        process.stdin = None
        url = process.stdout.readline().decode().strip()
        if asks:
            with httpx.Client(
                base_url=url, headers={"authorization": f"Bearer {KEY}"}, trust_env=False
            ) as http:
                assert answer_of(ask(http, user()))["content"] == "hello"
        process.send_signal(signum)
        _, errors = process.communicate(timeout=20)

    assert errors.decode() == ("" if asks else "runner-e2e: ada: it never asked\n")
    assert process.returncode == (0 if asks else 1)
    assert (tmp_path / "scripted-model.ndjson").exists()


def test_a_full_disk_costs_lines_of_the_log_and_no_answer(tmp_path: Path) -> None:
    (tmp_path / "my.yaml").write_text(script_text("[{text: a}]"), encoding="utf-8")

    with start(tmp_path, "my.yaml") as process:
        assert process.stdout is not None
        url = process.stdout.readline().decode().strip()
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (100, 100))
        with httpx.Client(base_url=url, headers={"authorization": f"Bearer {KEY}"}, trust_env=False) as http:
            assert [answer_of(ask(http, user()))["content"] for _ in range(2)] == ["a", "a"]
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=20)

    assert errors.decode() == "runner-e2e: the log is not whole: File too large\n"
    assert process.returncode == 1


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        pytest.param(("my.yaml", "--check"), 0, "1 agents, 1 steps", id="check"),
        pytest.param(("absent.yaml",), 2, "There is no file absent.yaml", id="absent"),
        pytest.param(("my.yaml", "--value", "x"), 2, "Value 1 has no name", id="value"),
        pytest.param(("my.yaml", "--port", "70000"), 2, "70000", id="port"),
    ],
)
def test_the_command_refuses_what_it_cannot_use(
    tmp_path: Path, arguments: tuple[str, ...], status: int, says: str
) -> None:
    (tmp_path / "my.yaml").write_text(script_text("[{text: a}]"), encoding="utf-8")

    with start(tmp_path, *arguments) as process:
        out, errors = process.communicate(timeout=20)

    assert process.returncode == status
    assert says in (out + errors).decode()
    assert b"Traceback" not in errors
