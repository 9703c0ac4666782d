"""What of a hostile tree is bundled, under which names, and what of it is recorded instead."""

from __future__ import annotations

import base64
import io
import json
import os
import sqlite3
import stat
import zipfile
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner_e2e.errors import InputError
from runner_e2e.evidence.artifact_names import collision_key, map_path
from runner_e2e.evidence.bundle import Bundle, Limits, stage_tree
from runner_e2e.evidence.contents import Kind, classify, refuse_content
from runner_e2e.evidence.redaction import Redactor
from runner_e2e.evidence.tree import walk_files

if TYPE_CHECKING:
    from pathlib import Path

SECRET = "Wq7-very-secret-value-9"
REDACTOR = Redactor([SECRET])
WHEN = (2026, 1, 2, 3, 4, 6)
PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    source = tmp_path / "tree"
    source.mkdir()
    return source


def stage(tree: Path, limits: Limits | None = None) -> tuple[Bundle, Path]:
    out = tree.parent / "out"
    return stage_tree(tree, out, REDACTOR, limits), out


def reasons(records: list[dict[str, str]]) -> dict[str, str]:
    return {record["file"]: record["reason"] for record in records}


def build_zip(members: list[tuple[str, bytes]], comment: bytes = b"") -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.comment = comment
        for name, content in members:
            info = zipfile.ZipInfo(name, WHEN)
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, content)
    return buffer.getvalue()


def members(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        return {name: archive.read(name) for name in archive.namelist()}


def test_text_and_json_are_redacted_and_the_rest_is_copied(tree: Path) -> None:
    (tree / "logs").mkdir()
    (tree / "logs" / "server.log").write_text(f"token {SECRET}\nend\n")
    (tree / "result.json").write_text(json.dumps({"text": SECRET, "apiKey": "k", "n": 1.50}))
    (tree / "run.ndjson").write_text(f'{{"password":"x"}}\nno json {SECRET}\n{{"a":1}}\n')
    (tree / "final-state.png").write_bytes(PNG)

    bundle, out = stage(tree)

    assert (out / "logs" / "server.log").read_text() == "token [redacted]\nend\n"
    assert json.loads((out / "result.json").read_text()) == {
        "text": "[redacted]",
        "apiKey": "[redacted]",
        "n": 1.5,
    }
    assert (out / "run.ndjson").read_text() == '{"password":"[redacted]"}\nno json [redacted]\n{"a":1}\n'
    assert (out / "final-state.png").read_bytes() == PNG
    assert sorted(bundle.files) == ["final-state.png", "logs/server.log", "result.json", "run.ndjson"]
    assert bundle.describe() == {"files": 4, "leftOut": [], "leaks": [], "unnamed": 0}
    assert all(stat.S_IMODE((out / name).stat().st_mode) == 0o644 for name in bundle.files)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        pytest.param("a.png", PNG + SECRET.encode(), id="image"),
        pytest.param("a.webm", b"\x1a\x45\xdf\xa3" + base64.b64encode(SECRET.encode()), id="video-encoded"),
        pytest.param("a.bin", b"\0" * 700_000 + SECRET.encode() + b"\0" * 700_000, id="deep-inside"),
        pytest.param("a.txt", SECRET.encode("utf-16"), id="utf-16"),
        pytest.param("a.bin", b"\0AKIAIOSFODNN7EXAMPLE\0", id="shape"),
    ],
)
def test_a_secret_in_a_binary_withholds_it_as_a_leak(tree: Path, name: str, content: bytes) -> None:
    (tree / name).write_bytes(content)

    bundle, out = stage(tree)

    assert reasons(bundle.leaks).keys() == {name}
    assert SECRET not in str(bundle.describe())
    assert list(out.iterdir()) == []


def test_what_is_no_regular_file_is_left_out_and_nothing_outside_is_read(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("outside")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "x").write_text("outside")
    (tree / "link").symlink_to("../outside")
    (tree / "directory-link").symlink_to("../elsewhere")
    (tree / "dangling").symlink_to("nothing")
    (tree / "loop").symlink_to("loop")
    (tree / "hard").hardlink_to(tmp_path / "outside")
    os.mkfifo(tree / "pipe")
    closed = tree / "closed"
    closed.mkdir()
    (tree / "kept").write_text("kept")

    bundle, out = stage(tree)

    assert list(bundle.files) == ["kept"]
    assert [path.name for path in out.iterdir()] == ["kept"]
    assert reasons(bundle.left_out) == {
        "link": "symlink",
        "directory-link": "symlink",
        "dangling": "symlink",
        "loop": "symlink",
        "hard": "hard-link",
        "pipe": "pipe",
    }


def test_a_root_that_is_a_link_and_a_destination_that_exists_are_refused(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tree)

    with pytest.raises(InputError, match="cannot be read"):
        stage_tree(tmp_path / "link", tmp_path / "out", REDACTOR)
    with pytest.raises(InputError, match="cannot be made"):
        stage_tree(tree, tree, REDACTOR)


def test_what_is_refused_is_left_out_with_the_reason_and_never_entered(tree: Path) -> None:
    for name in ("kept/in.txt", "refused/in.txt", "kept/refused"):
        (tree / name).parent.mkdir(exist_ok=True)
        (tree / name).write_text("x")

    bundle = stage_tree(
        tree, tree.parent / "out", REDACTOR, refuse=lambda parts: "odd" if parts[-1] == "refused" else None
    )

    assert list(bundle.files) == ["kept/in.txt"]
    assert reasons(bundle.left_out) == {"refused": "odd", "kept/refused": "odd"}


def test_a_directory_that_is_held_open_is_bundled_whatever_its_name_stands_for(tree: Path) -> None:
    (tree / "a").write_text("held")
    descriptor = os.open(tree, os.O_RDONLY)
    try:
        tree.rename(tree.with_name("moved"))
        tree.mkdir()
        (tree / "a").write_text("planted")

        for number in range(2):
            stage_tree(descriptor, tree.parent / f"out-{number}", REDACTOR)

            assert (tree.parent / f"out-{number}" / "a").read_text() == "held"
    finally:
        os.close(descriptor)


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        pytest.param("a.svg", b"<svg/>", "svg", id="svg"),
        pytest.param("a.txt", b'<?xml version="1.0"?>\n<!-- x -->\n<svg xmlns="x">', "svg", id="svg-renamed"),
        pytest.param("data", b"SQLite format 3\0rest", "database", id="database"),
        pytest.param("opencode.db", b"", "database", id="database-name"),
        pytest.param("x.db-wal", b"x", "database", id="database-log"),
        pytest.param("server.pem", b"x", "key", id="key-name"),
        pytest.param("notes.txt", b"-----BEGIN OPENSSH PRIVATE KEY-----\nx", "key", id="key"),
        pytest.param("core.123", b"x", "core-dump", id="core-name"),
        pytest.param("x", b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x04\0", "core-dump", id="core"),
        pytest.param("log.gz", b"\x1f\x8b\x08rest", "packed", id="packed"),
        pytest.param(".env", b"A=1", "private-name", id="env"),
        pytest.param(".env.local", b"A=1", "private-name", id="env-local"),
    ],
)
def test_what_is_never_bundled_is_left_out(tree: Path, name: str, content: bytes, reason: str) -> None:
    (tree / name).write_bytes(content)

    bundle, out = stage(tree)

    assert reasons(bundle.left_out) == {name: reason}
    assert list(out.iterdir()) == []


def test_a_git_store_is_never_entered(tree: Path) -> None:
    (tree / "sub" / ".git").mkdir(parents=True)
    (tree / "sub" / ".git" / "config").write_text("x")

    assert reasons(stage(tree)[0].left_out) == {"sub/.git": "private-name"}


def test_a_database_is_known_by_what_it_holds(tree: Path) -> None:
    connection = sqlite3.connect(tree / "named.png")
    connection.execute("create table t (x)")
    connection.commit()
    connection.close()

    assert reasons(stage(tree)[0].left_out) == {"named.png": "database"}


def test_names_are_mapped_for_the_service_and_stay_apart(tree: Path) -> None:
    names = [
        "a:b.log",
        "a_b.log",
        'a"b.log',
        "Case.txt",
        "case.txt",
        ".hidden",
        "new\nline",
        "dot.",
        "ü",
        "x" * 250,
    ]
    for name in names:
        (tree / name).write_text(name)

    bundle, out = stage(tree)

    assert sorted(bundle.files.values()) == sorted(names)
    assert len({collision_key(path) for path in bundle.files}) == len(names)
    for path, name in bundle.files.items():
        assert (out / path).read_text() == name
        assert not set(path) & set('":<>|*?\r\n\\')
        assert not path.startswith(".")
    assert {"a_b.log", "Case.txt", "ü"} <= bundle.files.keys()
    assert [path for path in bundle.files if path.endswith(".log")] != []


def test_a_file_never_takes_the_place_of_a_directory_on_any_system(tree: Path) -> None:
    (tree / "A").write_text("file")
    (tree / "a").mkdir()
    (tree / "a" / "x").write_text("inside")
    (tree / "B").mkdir()
    (tree / "B" / "x").write_text("inside")
    (tree / "b").write_text("file")

    bundle, out = stage(tree)

    assert sorted(bundle.files.values()) == ["A", "B/x", "a/x", "b"]
    assert sorted((out / path).read_text() for path in bundle.files) == ["file", "file", "inside", "inside"]
    parts = [collision_key(path).split("/") for path in bundle.files]
    assert not {one[0] for one in parts if len(one) == 1} & {one[0] for one in parts if len(one) > 1}


def test_a_secret_in_a_name_is_not_shown(tree: Path) -> None:
    (tree / f"a-{SECRET}.log").write_text("x")
    (tree / f"b-{SECRET}.svg").write_text("x")

    bundle, _ = stage(tree)

    assert list(bundle.files) == ["a-[redacted].log"]
    assert reasons(bundle.left_out) == {"b-[redacted].svg": "svg"}


def test_limits_leave_out_the_rest(tree: Path) -> None:
    (tree / "a-large").write_bytes(b"x" * 2000)
    with (tree / "b-sparse").open("wb") as file:
        file.truncate(1 << 40)
    for name in ("c", "d", "e"):
        (tree / name).write_text(name)

    bundle, _ = stage(tree, Limits(files=2, file_bytes=1000, total_bytes=10_000))

    assert list(bundle.files) == ["c", "d"]
    assert reasons(bundle.left_out) == {
        "a-large": "too-large",
        "b-sparse": "too-large",
        "e": "too-many-files",
    }


def test_all_files_together_are_limited(tree: Path) -> None:
    for name in ("a", "b", "c"):
        (tree / name).write_bytes(b"x" * 600)

    bundle, _ = stage(tree, Limits(total_bytes=1000))

    assert list(bundle.files) == ["a"]


def test_a_deep_tree_is_followed_only_so_far(tree: Path) -> None:
    deepest = tree.joinpath(*(["d"] * 40))
    deepest.mkdir(parents=True)
    (deepest / "x").write_text("x")

    bundle, _ = stage(tree)

    assert [one["reason"] for one in bundle.left_out] == ["too-deep"]


def test_a_zip_is_rebuilt_without_secrets(tree: Path) -> None:
    inner = build_zip([("deep.txt", f"x {SECRET}".encode())])
    content = build_zip(
        [
            ("trace.trace", json.dumps({"token": "x", "a": SECRET}).encode() + b"\n"),
            ("sub/a.txt", f"say {SECRET}\n".encode()),
            ("image.png", PNG),
            ("inner.zip", inner),
        ],
        comment=SECRET.encode(),
    )
    (tree / "trace.zip").write_bytes(b"junk before it " + SECRET.encode() + content)
    (tree / "plain.zip").write_bytes(content)

    bundle, out = stage(tree)

    assert list(bundle.files) == ["plain.zip"]
    assert list(reasons(bundle.leaks)) == ["trace.zip"]  # what does not begin as a ZIP is a binary
    found = members(out / "plain.zip")
    assert found["trace.trace"] == b'{"token": "[redacted]", "a": "[redacted]"}\n'
    assert found["sub/a.txt"] == b"say [redacted]\n"
    assert found["image.png"] == PNG
    with zipfile.ZipFile(io.BytesIO(found["inner.zip"])) as archive:
        assert archive.read("deep.txt") == b"x [redacted]"
    assert SECRET.encode() not in (out / "plain.zip").read_bytes()


def test_members_of_a_zip_that_are_not_bundled_are_recorded(tree: Path) -> None:
    with pytest.warns(UserWarning, match="Duplicate"):
        content = build_zip(
            [
                ("../up.txt", b"x"),
                ("/root.txt", b"x"),
                ("a\\b.txt", b"x"),
                ("a.svg", b"<svg/>"),
                (".git/config", b"x"),
                ("bad.png", PNG + SECRET.encode()),
                ("twice.txt", b"1"),
                ("twice.txt", b"2"),
                ("Twice.txt", b"3"),
            ]
        )
    (tree / "a.zip").write_bytes(content)

    bundle, out = stage(tree)

    assert members(out / "a.zip") == {"twice.txt": b"1"}
    assert reasons(bundle.leaks) == {"a.zip!bad.png": "holds a known secret"}
    assert sorted(one["file"] + " " + one["reason"] for one in bundle.left_out) == [
        "a.zip!../up.txt name-outside",
        "a.zip!.git/config private-name",
        "a.zip!/root.txt name-outside",
        "a.zip!Twice.txt duplicate",
        "a.zip!a.svg svg",
        "a.zip!a\\b.txt name-outside",
        "a.zip!twice.txt duplicate",
    ]


def break_checksum(content: bytes) -> bytes:
    return content.replace(b"payload", b"Payload", 1)


def stored(name: str, content: bytes, flags: int = 0) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(zipfile.ZipInfo(name, WHEN), content)
    raw = bytearray(buffer.getvalue())
    if flags:
        raw[6] |= flags
        raw[raw.index(b"PK\x01\x02") + 8] |= flags
    return bytes(raw)


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"PK\x03\x04 and nothing else", id="cut-off"),
        pytest.param(break_checksum(stored("a.txt", b"payload")), id="checksum"),
        pytest.param(stored("a.txt", b"payload")[:-30], id="no-end"),
    ],
)
def test_a_zip_that_cannot_be_read_counts_as_a_leak(tree: Path, content: bytes) -> None:
    (tree / "a.zip").write_bytes(content)

    bundle, out = stage(tree)

    assert reasons(bundle.leaks) == {"a.zip": "is a ZIP that cannot be searched"}
    assert list(out.iterdir()) == []


def test_an_encrypted_member_counts_as_a_leak(tree: Path) -> None:
    (tree / "a.zip").write_bytes(stored("a.txt", b"payload", flags=1))

    assert list(reasons(stage(tree)[0].leaks)) == ["a.zip!a.txt"]


def test_a_zip_bomb_is_left_out_and_leaves_room_for_others(tree: Path) -> None:
    (tree / "bomb.zip").write_bytes(build_zip([("a", bytes(3_000_000)), ("b", bytes(3_000_000))]))
    (tree / "other.txt").write_text("x")

    bundle, _ = stage(tree, Limits(file_bytes=2_000_000, total_bytes=5_000_000))

    assert "other.txt" in bundle.files
    assert reasons(bundle.left_out)["bomb.zip!a"] == "too-large"


def test_zips_in_zips_are_followed_only_so_far(tree: Path) -> None:
    content = b"x"
    for level in range(6):
        content = build_zip([(f"{level}.zip" if level else "x", content)])
    (tree / "a.zip").write_bytes(content)

    bundle, _ = stage(tree)

    assert [one["reason"] for one in bundle.left_out] == ["zip-too-deep"]


def test_the_data_in_an_html_report_is_searched(tree: Path) -> None:
    data = base64.b64encode(build_zip([("report.json", json.dumps({"a": SECRET}).encode())]))
    (tree / "index.html").write_bytes(b"<p>x</p><script>data:application/zip;base64," + data + b"</script>")
    (tree / "bad.html").write_bytes(b'"data:application/zip;base64,UEsDBAAA"')

    bundle, out = stage(tree)

    page = (out / "index.html").read_bytes()
    encoded = page.removeprefix(b"<p>x</p><script>data:application/zip;base64,").removesuffix(b"</script>")
    with zipfile.ZipFile(io.BytesIO(base64.b64decode(encoded))) as archive:
        assert archive.read("report.json") == b'{"a": "[redacted]"}'
    assert list(reasons(bundle.leaks)) == ["bad.html"]


def test_a_file_that_a_link_replaces_while_it_is_looked_at_is_not_followed(
    tree: Path, tmp_path: Path
) -> None:
    (tmp_path / "outside").write_text("outside")
    for number in range(20):
        (tree / f"f{number:02}").write_text("own")

    left: list[str] = []
    read: list[bytes] = []
    for entry in walk_files(tree, lambda _parts, reason: left.append(reason)):
        for number in range(20):
            path = tree / f"f{number:02}"
            path.unlink()
            path.symlink_to(tmp_path / "outside")
        read.append(os.pread(entry.descriptor, 10, 0))

    assert read == [b"own"]
    assert left == ["symlink"] * 19


@given(
    st.lists(
        st.text(st.characters(exclude_characters="/\0"), min_size=1, max_size=80), min_size=1, max_size=4
    )
)
def test_every_path_is_accepted_by_the_service(parts: list[str]) -> None:
    path = map_path(parts)

    assert path == map_path(parts)
    assert not set(path) & set('":<>|*?\r\n\\')
    assert all(part and part[0] != "." and part[-1] not in ". " for part in path.split("/"))
    assert all(len(part.encode()) <= 200 for part in path.split("/"))


@pytest.mark.parametrize(
    ("name", "head", "kind"),
    [
        ("a.json", b'{"a":1}', Kind.JSON),
        ("a.trace", b'{"a":1}\n{', Kind.LINES),
        ("a.log", b"text \xff", Kind.TEXT),
        ("a.json", b"PK\x03\x04", Kind.ZIP),
        ("a", b"a\0b", Kind.BINARY),
        ("a", b"", Kind.TEXT),
    ],
)
def test_a_file_is_searched_by_what_it_holds(name: str, head: bytes, kind: Kind) -> None:
    assert classify(name, head) is kind
    assert refuse_content(head) is None


def test_a_socket_is_left_out(tree: Path) -> None:
    os.mknod(tree / "sock", stat.S_IFSOCK | 0o600)

    assert reasons(stage(tree)[0].left_out) == {"sock": "socket"}
