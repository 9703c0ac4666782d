"""Measure redaction: 50 secrets in all their forms, against the bare multi-pattern library.

The limit is the same library finding as many patterns in the same blocks and replacing what it finds, with no
shapes, no escapes and no text that arrives in pieces. Both run alternately in one process; medians count.
"""

import argparse
import base64
import json
import random
import resource
import statistics
import time
from collections.abc import Callable

from runner_e2e.evidence.finding import build_automaton
from runner_e2e.evidence.redaction import REPLACEMENT, Redactor
from runner_e2e.evidence.secret_forms import all_parts, build_forms

BLOCK = 256 << 10
SECRETS = 50
SECRET_EVERY_BYTES = 20_000


def build_secrets(source: random.Random) -> list[str]:
    """Return keys of the usual kinds, and some with characters that encodings change."""
    secrets = []
    for number in range(SECRETS):
        raw = source.randbytes(source.choice((24, 32, 48)))
        standard, url_safe = base64.b64encode(raw).decode(), base64.urlsafe_b64encode(raw).decode()
        kinds = (
            f"sk-or-v1-{raw.hex()}",
            standard,
            url_safe.rstrip("="),
            f'p"{standard[:14]}/é&<{standard[14:20]}',
        )
        secrets.append(kinds[number % 4])
    return secrets


def build_log(source: random.Random, secrets: list[str], size: int) -> bytes:
    """Return a server's log with nested JSON, URLs, and a form of a secret in every 20 kB."""
    forms = [sorted(build_forms(part)) for part in all_parts(secrets)]
    lines: list[bytes] = []
    length = since = 0
    while length < size:
        inner = json.dumps({"path": f"/w/{source.randrange(999)}/a.ts", "text": 'it\n\tgoes "on" and on'})
        line = json.dumps(
            {
                "time": f"2026-11-02T10:11:{source.randrange(60):02}.{source.randrange(1000):03}Z",
                "level": source.choice(("info", "debug")),
                "run": f"{source.getrandbits(128):032x}",
                "url": f"http://127.0.0.1:3100/api/issues?q=a%20b&after={source.randrange(99)}",
                "message": source.choice((inner, "request completed", "tokens=4096 of the budget are used")),
            }
        ).encode()
        since += len(line)
        if since > SECRET_EVERY_BYTES:
            since = 0
            line += b" " + source.choice(source.choice(forms))
        lines.append(line)
        length += len(line) + 1
    return b"\n".join(lines)


def replace_bare(patterns: list[bytes]) -> Callable[[bytes], int]:
    """Return the limit: find all patterns and replace each stretch that they cover."""
    automaton = build_automaton(patterns)

    def run(text: bytes) -> int:
        written = 0
        for offset in range(0, len(text), BLOCK):
            block = text[offset : offset + BLOCK]
            out: list[bytes] = []
            position = 0
            for _, start, end in automaton.find_matches_as_indexes(block):
                out += (block[position:start], REPLACEMENT)
                position = end
            out.append(block[position:])
            written += len(b"".join(out))
        return written

    return run


def redact(redactor: Redactor) -> Callable[[bytes], int]:
    """Return our side: a text in pieces through the whole redaction."""

    def run(text: bytes) -> int:
        stream = redactor.stream()
        pieces = (text[offset : offset + BLOCK] for offset in range(0, len(text), BLOCK))
        return sum(len(stream.feed(piece)) for piece in pieces) + len(stream.finish())

    return run


def main() -> int:
    """Print the medians of both sides and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mib", type=int, default=64, help="size of the log in MiB")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    source = random.Random(20261102)
    secrets = build_secrets(source)
    text = build_log(source, secrets, options.mib << 20)
    begun = time.process_time()
    redactor = Redactor(secrets)
    built = time.process_time() - begun
    sides = {"bare": replace_bare(redactor.finder.patterns), "redaction": redact(redactor)}
    times: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(options.runs):
        for name, run in sides.items():
            begun = time.process_time()
            run(text)
            times[name].append(time.process_time() - begun)
    medians = {name: statistics.median(found) for name, found in times.items()}
    result = {
        "patterns": len(redactor.finder.patterns),
        "buildSeconds": round(built, 3),
        "mib": options.mib,
        "bareSeconds": round(medians["bare"], 3),
        "redactionSeconds": round(medians["redaction"], 3),
        "ratio": round(medians["redaction"] / medians["bare"], 2),
        "peakMiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10,
    }
    print(
        json.dumps(result, indent=2) if options.json else "\n".join(f"{k:<18} {v}" for k, v in result.items())
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
