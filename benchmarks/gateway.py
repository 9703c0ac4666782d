"""Measure what the gateway adds to a request, and many streams at once, in one interleaved run.

    .venv/bin/python benchmarks/gateway.py [--requests N] [--streams N]

A scripted provider and the client run in processes of their own, as a provider and a cell do; the gateway
runs in this one, as in the harness. Direct and through the gateway alternate; the figures are medians, and
the ratio holds on other machines where the times do not. Nothing here is a test.
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from runner_e2e.gateway.rates import Rate, RateCard
from runner_e2e.gateway.server import running_gateway
from runner_e2e.gateway.settings import GatewaySettings
from runner_e2e.gateway.upstream import build_upstream
from runner_e2e.serving import listening

KEY = "sk-benchmark-0123456789"
CARD = RateCard({"model": Rate(Decimal(1), Decimal(2), max_output_tokens=1000)})
USAGE = {"prompt_tokens": 100, "completion_tokens": 50}
# A first request of an agent: instructions and the descriptions of its tools.
PROMPT = "Write what you find. " * 2500
BODY = {"model": "model", "max_tokens": 100, "messages": [{"role": "user", "content": PROMPT}]}
EVENTS = 50
WARM_UP = 10  # connections are opened and code is loaded
PAUSE_S = 0.02
AIM_MS = 3.0


def main(argv: Sequence[str]) -> int:
    """Run the part that this process is for."""
    parser = argparse.ArgumentParser(description="Measure the gateway.")
    parser.add_argument("--requests", type=int, default=0)
    parser.add_argument("--streams", type=int, default=0)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--call", nargs=3, metavar="TEXT", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.serve:
        serve()
    elif options.call and options.requests:
        print(json.dumps(asyncio.run(measure_requests(options.call, options.requests))))
    elif options.call:
        print(json.dumps(asyncio.run(measure_streams(options.call, options.streams))))
    else:
        report(options.requests or 300, options.streams or 200)
    return 0


def report(runs: int, streams: int) -> None:
    """Start everything, and print a table."""
    with running_provider() as provider:
        settings = GatewaySettings(
            build_upstream("OPENAI_API_KEY", KEY, provider), CARD, max_cost_usd=Decimal(10_000)
        )
        with running_gateway(settings) as gateway:
            places = (provider, f"{gateway.base_url}/v1", gateway.token)
            before = time.process_time()
            latencies = run_client("--requests", runs, places)
            cpu_ms = (time.process_time() - before) * 1000 / (2 * (runs + WARM_UP))
            walls = run_client("--streams", streams, places)
        record = gateway.records()
    print(f"{'what':34} {'direct':>12} {'gateway':>12} {'added':>11} {'ratio':>6}")
    for name, direct, through in [*latencies, *walls]:
        added, ratio = through - direct, through / direct
        print(f"{name:34} {direct:9.2f} ms {through:9.2f} ms {added:8.2f} ms {ratio:6.2f}")
    print(f"aim: at most {AIM_MS} ms added to the median request; load now {os.getloadavg()[0]:.1f}")
    print(f"time of this processor for a request: {cpu_ms:.2f} ms")
    print(f"requests: {record['requests']}, status {record['status']}, in flight {record['inFlight']}")


def run_client(what: str, count: int, places: Sequence[str]) -> list[tuple[str, float, float]]:
    """Measure in another process; rows of a name, and milliseconds direct and through the gateway."""
    command = [sys.executable, __file__, what, str(count), "--call", *places]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return [(name, direct, through) for name, direct, through in json.loads(done.stdout)]


def build_clients(places: Sequence[str]) -> list[httpx.AsyncClient]:
    """Return the client of the provider and that of the gateway."""
    direct, gateway, token = places
    return [
        httpx.AsyncClient(
            base_url=url,
            headers={"authorization": f"Bearer {token}"},
            trust_env=False,
            timeout=120,
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=None),
        )
        for url in (direct, gateway)
    ]


async def measure_requests(places: Sequence[str], runs: int) -> list[tuple[str, float, float]]:
    """Alternate between both ways, one request at a time."""
    clients = build_clients(places)
    whole: tuple[list[float], list[float]] = ([], [])
    first: tuple[list[float], list[float]] = ([], [])
    for run in range(-WARM_UP, runs):
        for place, client in enumerate(clients):
            times = await time_whole(client, BODY), await time_first(client)
            if run >= 0:
                whole[place].append(times[0])
                first[place].append(times[1])
    return [
        ("whole answer", statistics.median(whole[0]), statistics.median(whole[1])),
        ("first event of a stream", statistics.median(first[0]), statistics.median(first[1])),
    ]


async def measure_streams(places: Sequence[str], streams: int) -> list[tuple[str, float, float]]:
    """Read many streams at once, and fail unless each is complete."""
    walls, expected = [], b"".join(build_events())
    for client in build_clients(places):
        started = time.perf_counter()
        body = {**BODY, "stream": True, "pause": True}
        responses = await asyncio.gather(
            *(client.post("/chat/completions", json=body) for _ in range(streams))
        )
        walls.append((time.perf_counter() - started) * 1000)
        assert all(response.content == expected for response in responses)
    return [(f"{streams} streams of {EVENTS} events at once", walls[0], walls[1])]


async def time_whole(client: httpx.AsyncClient, body: object) -> float:
    """Return the milliseconds of a whole request."""
    started = time.perf_counter()
    response = await client.post("/chat/completions", json=body)
    response.raise_for_status()
    return (time.perf_counter() - started) * 1000


async def time_first(client: httpx.AsyncClient) -> float:
    """Return the milliseconds to the first event of a stream, which is then read to its end."""
    started = time.perf_counter()
    async with client.stream("POST", "/chat/completions", json={**BODY, "stream": True}) as response:
        chunks = response.aiter_raw()
        await anext(chunks)
        elapsed = (time.perf_counter() - started) * 1000
        async for _ in chunks:
            pass
    return elapsed


def build_events() -> Iterator[bytes]:
    """Yield the events of one stream."""
    for number in range(EVENTS):
        event = {"choices": [{"index": 0, "delta": {"content": f"word {number}"}, "finish_reason": None}]}
        yield b"data: " + json.dumps(event).encode() + b"\n\n"
    yield b"data: " + json.dumps({"choices": [], "usage": USAGE}).encode() + b"\n\ndata: [DONE]\n\n"


async def answer(request: Request) -> Response:
    """Answer as a provider would, without thinking."""
    asked = await request.json()
    if not asked.get("stream"):
        return JSONResponse({"choices": [], "usage": USAGE})
    pause_s = PAUSE_S if asked.get("pause") else 0

    async def stream() -> AsyncIterator[bytes]:
        for event in build_events():
            yield event
            await asyncio.sleep(pause_s)

    return StreamingResponse(stream(), media_type="text/event-stream")


def serve() -> None:
    """Serve as the provider, after telling the port."""
    app = Starlette(routes=[Route("/v1/chat/completions", answer, methods=["POST"])])
    config = uvicorn.Config(app, log_config=None, lifespan="off", backlog=1024)
    with listening() as listener:
        print(listener.getsockname()[1], flush=True)
        uvicorn.Server(config).run(sockets=[listener])


@contextmanager
def running_provider() -> Iterator[str]:
    """Run the provider in a process of its own, and give its base URL."""
    command = [sys.executable, str(Path(__file__)), "--serve"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
        finally:
            process.kill()


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
