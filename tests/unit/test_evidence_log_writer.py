"""A `server.log` written from outputs of any size: the same as of whole texts, from regular files only."""

from __future__ import annotations

import hashlib
import io
import json
import os
import random
import stat
import tempfile
import tracemalloc
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner_e2e.errors import SandboxUnprovenError
from runner_e2e.evidence.log_writer import CUT_NOTE, Boot, mark_claims, redact_blocks, write_log
from runner_e2e.evidence.redaction import Redactor
from runner_e2e.evidence.server_log import parse, parse_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from runner_e2e.evidence.server_log import Record

SECRET = "s3cret-value-of-a-cell"
PROBE: Record = {"schema": "runner-e2e.sandbox-probe/v1", "boot": 1, "checks": [], "failures": []}
LAUNCH: Record = {"schema": "runner-e2e.sandbox-launch/v1", "boot": 1, "run": "r"}
REFUSAL: Record = {"schema": "runner-e2e.sandbox-refusal/v1", "boot": 1, "code": "usage"}
CLAIM = b"runner-e2e sandbox-"
PARTS = [
    CLAIM,
    CLAIM[:9],
    CLAIM[9:],
    b"r",
    b"runner-e2e[claimed] sandbox-",
    SECRET.encode(),
    b"\n",
    b"x" * 40,
]
TEXTS = st.lists(st.one_of(st.sampled_from(PARTS), st.binary(max_size=9)), max_size=12).map(b"".join)


def expect(boots: Sequence[Boot], outputs: Sequence[bytes], redactor: Redactor) -> bytes:
    """Return the log as its definition says it, from whole texts in memory."""

    def line(kind: str, record: Record) -> bytes:
        return f"runner-e2e {kind} {json.dumps(record, separators=(',', ':'))}\n".encode()

    log = b""
    for boot, text in zip(boots, outputs, strict=True):
        log += b"" if boot.probe is None else line("sandbox-probe", boot.probe)
        for record in boot.journal:
            log += line("sandbox-refusal" if "code" in record else "sandbox-launch", record)
        redacted = redactor.redact(text)
        content = redacted.replace(CLAIM, b"runner-e2e[claimed] sandbox-")
        head: Record = {
            "schema": "runner-e2e.server-output/v1",
            "boot": boot.number,
            "bytes": len(content),
            "sha256": hashlib.sha256(content).hexdigest(),
            "claims": redacted.count(CLAIM),
        }
        log += line("server-output", head) + content
        log += b"\n" if content and not content.endswith(b"\n") else b""
    return log


def written(place: Path, boots: Sequence[Boot], redactor: Redactor | None = None) -> bytes:
    target = place / "server.log"
    write_log(target, boots, redactor or Redactor([]))
    return target.read_bytes()


@settings(deadline=None, max_examples=60)
@given(st.lists(TEXTS, max_size=3), st.booleans())
def test_outputs_in_files_give_the_same_log_as_whole_texts(outputs: list[bytes], probed: bool) -> None:
    redactor = Redactor([SECRET])
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        sources = [place / f"output-{number}" for number in range(1, len(outputs) + 1)]
        boots = []
        for number, (source, output) in enumerate(zip(sources, outputs, strict=True), 1):
            source.write_bytes(output)
            boots.append(Boot(number, PROBE if probed else None, [LAUNCH, REFUSAL], source))

        assert written(place, boots, redactor) == expect(boots, outputs, redactor)
        assert sorted(place.iterdir()) == [*sources, place / "server.log"]


@settings(deadline=None)
@given(TEXTS, st.lists(st.integers(0, 400)))
def test_claims_are_marked_and_counted_however_a_text_is_split(text: bytes, cuts: list[int]) -> None:
    edges = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    pieces = [text[start:end] for start, end in pairwise(edges)]

    marked = list(mark_claims(pieces))

    assert b"".join(piece for piece, _ in marked) == text.replace(CLAIM, b"runner-e2e[claimed] sandbox-")
    assert sum(claims for _, claims in marked) == text.count(CLAIM)


@pytest.mark.parametrize("offset", range(-30, 3, 3))
def test_what_lies_across_the_border_of_two_blocks_is_found(tmp_path: Path, offset: int) -> None:
    secret, claim = SECRET.encode(), CLAIM + b"probe {}\n"
    output = b"".join(
        part
        for block in (b"a", b"b", b"c")
        for part in (block * ((256 << 10) - len(secret) - len(claim) + offset), secret, claim)
    )
    source = tmp_path / "output"
    source.write_bytes(output)

    log = written(tmp_path, [Boot(1, PROBE, [], source)], Redactor([SECRET]))

    assert log == expect([Boot(1, PROBE, [], None)], [output], Redactor([SECRET]))
    assert (log.count(secret), log.count(b"[redacted]"), parse_bytes(log).claims) == (0, 3, 3)
    assert parse_bytes(log).problems == []


@pytest.mark.parametrize(
    "output",
    [
        pytest.param(None, id="none"),
        pytest.param(b"", id="empty-text"),
        pytest.param(Path("missing"), id="missing-file"),
        pytest.param(Path("missing/below"), id="missing-directory"),
        pytest.param(Path("file/below"), id="below-a-file"),
    ],
)
def test_an_output_that_is_not_there_is_empty(tmp_path: Path, output: bytes | Path | None) -> None:
    (tmp_path / "file").write_bytes(b"x")
    boot = Boot(1, PROBE, [], tmp_path / output if isinstance(output, Path) else output)

    assert written(tmp_path, [boot]) == expect([boot], [b""], Redactor([]))


@pytest.mark.parametrize(
    "kind", ["symlink", "broken-symlink", "pipe", "directory", "device", "unusable-name"]
)
def test_what_is_no_regular_file_is_refused(tmp_path: Path, kind: str) -> None:
    source, place = tmp_path / "output", tmp_path / "evidence"
    place.mkdir()
    (tmp_path / "other").write_bytes(b"of somebody else")
    match kind:
        case "symlink":
            source.symlink_to(tmp_path / "other")
        case "broken-symlink":
            source.symlink_to(tmp_path / "nothing")
        case "pipe":
            os.mkfifo(source)
        case "directory":
            source.mkdir()
        case "device":
            source = Path("/dev/zero")
        case "unusable-name":
            source = tmp_path / ("x" * 300)

    with pytest.raises(SandboxUnprovenError, match="output of start 1"):
        written(place, [Boot(1, PROBE, [], source)])

    assert list(place.iterdir()) == []


def test_a_log_that_was_there_stays_when_the_writing_fails(tmp_path: Path) -> None:
    (tmp_path / "server.log").write_bytes(b"before")
    (tmp_path / "output").symlink_to(tmp_path / "server.log")

    with pytest.raises(SandboxUnprovenError):
        written(tmp_path, [Boot(1, PROBE, [], b"good"), Boot(2, PROBE, [], tmp_path / "output")])

    assert (tmp_path / "server.log").read_bytes() == b"before"
    assert len(list(tmp_path.iterdir())) == 2


def test_a_link_in_place_of_the_log_is_replaced_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "other").write_bytes(b"before")
    (tmp_path / "server.log").symlink_to(tmp_path / "other")

    written(tmp_path, [Boot(1, PROBE, [], b"x")])

    assert (tmp_path / "other").read_bytes() == b"before"
    assert stat.S_IMODE((tmp_path / "server.log").lstat().st_mode) == 0o644


def test_redacted_copies_go_to_the_directory_that_is_named(tmp_path: Path) -> None:
    source, scratch = tmp_path / "results" / "output", tmp_path / "private"
    source.parent.mkdir()
    scratch.mkdir()
    source.write_bytes(b"text")
    target = tmp_path / "server.log"

    write_log(target, [Boot(1, PROBE, [], source)], Redactor([]), scratch=scratch)

    assert target.read_bytes().endswith(b"text\n")
    with pytest.raises(FileNotFoundError):  # it is used, though nothing stays in it
        write_log(target, [Boot(1, PROBE, [], source)], Redactor([]), scratch=tmp_path / "missing")


def test_an_output_that_is_too_long_is_cut_with_a_note_and_no_part_of_a_secret(tmp_path: Path) -> None:
    start, secret = b"line\n" * 200_000, SECRET.encode()
    source = tmp_path / "output"
    source.write_bytes(start + secret + b"more\n" * 100)
    target = tmp_path / "server.log"

    for part in range(1, len(secret)):
        longest = len(start) + part
        write_log(target, [Boot(1, PROBE, [LAUNCH], source)], Redactor([SECRET]), longest=longest)
        log = target.read_bytes()

        _, _, kept = log.partition(b"}\nline\n")
        assert kept.endswith(CUT_NOTE)
        assert set(kept.removesuffix(CUT_NOTE).split(b"\n")) <= {b"line", b"lin", b"li", b"l", b""}
        assert len(kept) > len(start) // 2
        assert parse_bytes(log).problems == []


def test_an_output_that_just_fits_is_whole() -> None:
    text = b"line\n" * 100

    whole = b"".join(redact_blocks(io.BytesIO(text), Redactor([]), len(text)))
    cut = b"".join(redact_blocks(io.BytesIO(text), Redactor([]), len(text) - 1))

    assert whole == text
    assert cut.endswith(CUT_NOTE)


def test_memory_does_not_grow_with_an_output(tmp_path: Path) -> None:
    source = tmp_path / "output"
    text = random.Random(1).randbytes(1 << 20).hex().encode() + b"\n" + CLAIM
    redactor = Redactor([SECRET])

    def peak(repeated: int) -> int:
        with source.open("wb") as file:
            file.writelines(_repeat(text, repeated))
        tracemalloc.start()
        try:
            write_log(tmp_path / "server.log", [Boot(1, PROBE, [], source)], redactor)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    small, large = peak(2), peak(16)

    assert large < small + (1 << 20)
    with (tmp_path / "server.log").open("rb") as file:
        assert parse(file).claims == 16


def _repeat(text: bytes, times: int) -> Iterator[bytes]:
    for _ in range(times):
        yield text
