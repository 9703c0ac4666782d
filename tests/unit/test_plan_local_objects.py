"""Objects of a checkout: read from the store at a commit, whatever the work tree says."""

from __future__ import annotations

import os
import shutil
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from dulwich.object_format import DEFAULT_OBJECT_FORMAT
from dulwich.object_store import DiskObjectStore
from dulwich.objects import Blob, Commit, ObjectID, RawObjectID, Tree
from dulwich.pack import REF_DELTA, UnpackedObject, create_delta, write_pack_data, write_pack_index
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runner_e2e.errors import InputError, RunnerE2EError
from runner_e2e.plan.local_objects import open_checkout
from runner_e2e.plan.objects import (
    MAX_FILE_BYTES,
    Entry,
    Kind,
    MissingObjectError,
    find_entry,
    hash_object,
    read_file,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from dulwich.objects import ShaFile

    from runner_e2e.plan.local_objects import LocalObjects
    from runner_e2e.plan.objects import Listing

USER = os.getuid()
LAUNCH = "tests/runner-e2e/launch.ts"
FILE, EXECUTABLE, LINK, DIRECTORY, SUBMODULE = 0o100644, 0o100755, 0o120000, 0o040000, 0o160000


@dataclass
class Store:
    """A repository that is written by hand: no git process, no configuration."""

    path: Path
    objects: list[ShaFile] = field(default_factory=list)

    @property
    def git(self) -> Path:
        return self.path / ".git"

    def blob(self, content: bytes) -> ObjectID:
        return self._keep(Blob.from_string(content))

    def tree(self, *items: tuple[bytes, int, ObjectID]) -> ObjectID:
        tree = Tree()
        for name, mode, sha in items:
            tree.add(name, mode, sha)
        return self._keep(tree)

    def commit(self, tree: ObjectID) -> str:
        commit = Commit()
        commit.tree = tree
        commit.author = commit.committer = b"A <a@example.com>"
        commit.author_time = commit.commit_time = 1_700_000_000
        commit.author_timezone = commit.commit_timezone = 0
        commit.encoding = b"UTF-8"
        commit.message = b"x"
        return self._keep(commit).decode("ascii")

    def _keep(self, one: ShaFile) -> ObjectID:
        self.objects.append(one)
        return one.id

    def write(self, head: str, *, packed: bool = False) -> None:
        (self.git / "objects" / "pack").mkdir(parents=True, exist_ok=True)
        (self.git / "refs" / "heads").mkdir(parents=True, exist_ok=True)
        (self.git / "HEAD").write_text("ref: refs/heads/main\n")
        (self.git / "refs" / "heads" / "main").write_text(f"{head}\n")
        if packed:
            self.pack([whole(one.type_num, one.as_raw_string()) for one in self.objects])
            return
        store = DiskObjectStore(self.git / "objects")
        for one in self.objects:
            store.add_object(one)
        store.close()

    def pack(self, records: list[UnpackedObject]) -> None:
        name = self.git / "objects" / "pack" / "pack-1"
        with name.with_suffix(".pack").open("wb") as file:
            entries, checksum = write_pack_data(
                file.write, iter(records), num_records=len(records), object_format=DEFAULT_OBJECT_FORMAT
            )
        index = sorted((RawObjectID(sha), offset, crc) for sha, (offset, crc) in entries.items())
        with name.with_suffix(".idx").open("wb") as file:
            write_pack_index(file, index, checksum)


def whole(number: int, content: bytes) -> UnpackedObject:
    kind = {1: "commit", 2: "tree", 3: "blob"}[number]
    sha = bytes.fromhex(hash_object(kind, content))
    return UnpackedObject(number, decomp_chunks=[content], decomp_len=len(content), sha=sha)


def difference(base: bytes, content: bytes) -> UnpackedObject:
    chunks = list(create_delta(base, content))
    return UnpackedObject(
        REF_DELTA,
        delta_base=bytes.fromhex(hash_object("blob", base)),
        decomp_chunks=chunks,
        decomp_len=sum(map(len, chunks)),
        sha=bytes.fromhex(hash_object("blob", content)),
    )


def write_as_difference(store: Store, base: bytes, content: bytes, *, by_offset: bool) -> str:
    """Pack a commit whose `launch.ts` is a difference from `base`, which is named by offset or by id."""
    commit = harness(store, content)
    store.write(commit, packed=True)
    records = [whole(one.type_num, one.as_raw_string()) for one in store.objects[1:]]
    pair = [whole(3, base), difference(base, content)]
    store.pack([*records, *(pair if by_offset else reversed(pair))])
    return commit


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "checkout")


def harness(store: Store, launch: bytes = b"launch();\n", mode: int = FILE) -> str:
    """Return a commit with `launch.ts`."""
    inner = store.tree((b"launch.ts", mode, store.blob(launch)))
    tests = store.tree((b"runner-e2e", DIRECTORY, inner))
    return store.commit(store.tree((b"tests", DIRECTORY, tests)))


def read(store: Store, commit: str, path: str = LAUNCH) -> bytes | Kind:
    with open_checkout(store.path, USER) as checkout:
        return read_file(checkout, find_entry(checkout, commit, path))


@pytest.mark.parametrize("packed", [False, True], ids=["loose", "packed"])
@pytest.mark.parametrize("content", [b"", b"x", b"launch();\n" * 5000], ids=["empty", "short", "long"])
def test_a_file_is_read_at_the_commit(store: Store, packed: bool, content: bytes) -> None:
    commit = harness(store, content)
    store.write(commit, packed=packed)

    assert read(store, commit) == content


def test_the_work_tree_is_never_looked_at(store: Store) -> None:
    commit = harness(store)
    store.write(commit)
    changed = store.path / LAUNCH
    changed.parent.mkdir(parents=True)
    changed.write_text("changed")

    assert read(store, commit) == b"launch();\n"


@pytest.mark.parametrize("by_offset", [True, False], ids=["by-offset", "by-id"])
def test_a_file_that_is_stored_as_a_difference_is_read_whole(store: Store, by_offset: bool) -> None:
    base = os.urandom(40_000)
    commit = write_as_difference(store, base, base + b"launch();", by_offset=by_offset)

    assert read(store, commit) == base + b"launch();"


@pytest.mark.parametrize("packed", [False, True], ids=["loose", "packed"])
def test_a_file_at_the_limit_is_read(store: Store, packed: bool) -> None:
    content = b"x" * MAX_FILE_BYTES
    commit = harness(store, content)
    store.write(commit, packed=packed)

    assert read(store, commit) == content


@pytest.mark.parametrize("packed", [False, True], ids=["loose", "packed"])
def test_a_file_above_the_limit_is_known_by_its_header_alone(store: Store, packed: bool) -> None:
    commit = harness(store, os.urandom(MAX_FILE_BYTES + 1))
    store.write(commit, packed=packed)
    spoil_largest_file(store)

    assert read(store, commit) is Kind.TOO_LARGE


@pytest.mark.parametrize("by_offset", [True, False], ids=["by-offset", "by-id"])
def test_a_difference_that_grows_above_the_limit_is_known_by_its_header_alone(
    store: Store, by_offset: bool
) -> None:
    base = os.urandom(MAX_FILE_BYTES - 10)
    commit = write_as_difference(store, base, base + b"x" * 11, by_offset=by_offset)
    spoil_largest_file(store)

    assert read(store, commit) is Kind.TOO_LARGE


@pytest.mark.parametrize("packed", [False, True], ids=["loose", "packed"])
def test_content_that_cannot_be_unpacked_is_damaged(store: Store, packed: bool) -> None:
    commit = harness(store, os.urandom(50_000))
    store.write(commit, packed=packed)
    spoil_largest_file(store)

    with pytest.raises(InputError, match="damaged"):
        read(store, commit)


def spoil_largest_file(store: Store) -> None:
    """Overwrite a stretch in the middle of the largest file of the store."""
    largest = max(store.git.rglob("*"), key=lambda path: path.stat().st_size)
    content = bytearray(largest.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 1000] = bytes(1000)
    largest.chmod(0o644)
    largest.write_bytes(content)


@pytest.mark.parametrize(
    ("mode", "kind"),
    [
        pytest.param(FILE, Kind.FILE, id="file"),
        pytest.param(EXECUTABLE, Kind.FILE, id="executable"),
        pytest.param(0o100664, Kind.FILE, id="group-writable"),
        pytest.param(LINK, Kind.SYMLINK, id="symlink"),
        pytest.param(SUBMODULE, Kind.SUBMODULE, id="submodule"),
        pytest.param(0o020000, Kind.IRREGULAR, id="device"),
    ],
)
def test_only_a_regular_file_is_a_file(store: Store, mode: int, kind: Kind) -> None:
    commit = harness(store, mode=mode)
    store.write(commit)

    with open_checkout(store.path, USER) as checkout:
        assert find_entry(checkout, commit, LAUNCH).kind is kind


@pytest.mark.parametrize("mode", [LINK, SUBMODULE, FILE])
def test_nothing_is_followed_on_the_way_to_a_file(store: Store, mode: int) -> None:
    other = store.tree((b"runner-e2e", DIRECTORY, store.tree((b"launch.ts", FILE, store.blob(b"x")))))
    target = other if mode == SUBMODULE else store.blob(b"elsewhere")
    commit = store.commit(store.tree((b"elsewhere", DIRECTORY, other), (b"tests", mode, target)))
    store.write(commit)

    with open_checkout(store.path, USER) as checkout:
        found = find_entry(checkout, commit, LAUNCH)

    assert (found.kind, found.path) == (
        {LINK: Kind.SYMLINK, SUBMODULE: Kind.SUBMODULE}.get(mode, Kind.FILE),
        "tests",
    )


@pytest.mark.parametrize("path", ["x", "tests/x", "tests/runner-e2e/x", "x/y/z"])
def test_a_name_that_is_not_there_is_missing(store: Store, path: str) -> None:
    commit = harness(store)
    store.write(commit)

    with open_checkout(store.path, USER) as checkout:
        assert find_entry(checkout, commit, path).kind is Kind.MISSING


def test_a_directory_is_no_file(store: Store) -> None:
    commit = harness(store)
    store.write(commit)

    assert read(store, commit, "tests/runner-e2e") is Kind.DIRECTORY


@pytest.mark.parametrize("at", ["detached", "branch", "packed-branch"])
def test_head_is_the_commit_that_is_checked_out(store: Store, at: str) -> None:
    commit = harness(store)
    store.write(commit)
    if at == "detached":
        (store.git / "HEAD").write_text(f"{commit}\n")
    if at == "packed-branch":
        (store.git / "refs" / "heads" / "main").unlink()
        (store.git / "packed-refs").write_text(f"{commit} refs/heads/main\n")

    with open_checkout(store.path, USER) as checkout:
        assert checkout.read_head() == commit


@pytest.mark.parametrize(
    "head",
    [
        pytest.param(b"ref: refs/heads/unborn\n", id="unborn"),
        pytest.param(b"", id="empty"),
        pytest.param(b"\xff\xfe", id="bytes"),
        pytest.param(b"ref: refs/heads/../../../../etc/passwd\n", id="dots"),
        pytest.param(b"ref: HEAD\n", id="loop"),
        pytest.param(b"a" * 64 + b"\n", id="sha-256"),
        pytest.param(b"ref: refs/heads/.invalid\n", id="reference-tables"),
    ],
)
def test_a_head_without_a_commit_is_refused(store: Store, head: bytes) -> None:
    store.write(harness(store))
    (store.git / "HEAD").write_bytes(head)

    with open_checkout(store.path, USER) as checkout, pytest.raises(InputError, match="HEAD"):
        checkout.read_head()


def test_a_second_work_tree_shares_the_objects(store: Store, tmp_path: Path) -> None:
    commit = harness(store)
    store.write("f" * 40)
    inner = store.git / "worktrees" / "two"
    inner.mkdir(parents=True)
    (inner / "HEAD").write_text(f"{commit}\n")
    (inner / "commondir").write_text("../..\n")
    two = tmp_path / "two"
    two.mkdir()
    (two / ".git").write_text(f"gitdir: {inner}\n")

    with open_checkout(two, USER) as checkout:
        assert checkout.read_head() == commit
        assert find_entry(checkout, commit, LAUNCH).kind is Kind.FILE


def test_objects_of_an_alternate_store_are_found(store: Store, tmp_path: Path) -> None:
    commit = harness(store)
    store.write(commit)
    borrowed = Store(tmp_path / "borrowed")
    borrowed.write(commit)
    info = borrowed.git / "objects" / "info"
    info.mkdir()
    (info / "alternates").write_text(f"{store.git / 'objects'}\n")

    assert read(borrowed, commit) == b"launch();\n"


def test_a_file_above_the_limit_is_known_in_an_alternate_store(store: Store, tmp_path: Path) -> None:
    commit = harness(store, os.urandom(MAX_FILE_BYTES + 1))
    store.write(commit)
    spoil_largest_file(store)
    borrowed = Store(tmp_path / "borrowed")
    borrowed.write(commit)
    info = borrowed.git / "objects" / "info"
    info.mkdir()
    (info / "alternates").write_text(f"/nowhere\n{store.git / 'objects'}\n")

    assert read(borrowed, commit) is Kind.TOO_LARGE


def test_the_configuration_is_not_read(store: Store) -> None:
    commit = harness(store)
    store.write(commit)
    (store.git / "config").write_text(
        "[extensions]\n\tpartialClone = origin\n[include]\n\tpath = /dev/zero\n"
    )

    assert read(store, commit) == b"launch();\n"


def test_a_file_that_a_partial_clone_left_out_is_unavailable(store: Store) -> None:
    commit = harness(store)
    store.write(commit)
    sha = hash_object("blob", b"launch();\n")
    (store.git / "objects" / sha[:2] / sha[2:]).unlink()

    assert read(store, commit) is Kind.UNAVAILABLE


def test_a_commit_that_was_not_fetched_is_refused_by_name(store: Store) -> None:
    store.write(harness(store))

    with pytest.raises(MissingObjectError, match="commit " + "e" * 40) as caught:
        read(store, "e" * 40)

    assert isinstance(caught.value, InputError)


def test_an_object_of_another_kind_is_damaged(store: Store) -> None:
    commit = harness(store)
    store.write(commit)
    blob = hash_object("blob", b"launch();\n")

    with open_checkout(store.path, USER) as checkout:
        with pytest.raises(InputError, match="damaged"):
            checkout.tree_of(blob)
        with pytest.raises(InputError, match="damaged"):
            checkout.entries(commit)
        with pytest.raises(InputError, match="damaged"):
            checkout.blob(Entry(FILE, commit))


def test_content_that_does_not_match_its_name_is_damaged(store: Store) -> None:
    commit = harness(store)
    store.write(commit)
    sha = hash_object("blob", b"launch();\n")
    loose = store.git / "objects" / sha[:2] / sha[2:]
    loose.chmod(0o644)
    loose.write_bytes(zlib.compress(b"blob 10\0evil(1,2);"))

    with pytest.raises(InputError, match="damaged"):
        read(store, commit)


@pytest.mark.parametrize("content", [b"", b"parent x\n", b"tree x\n", b"tree " + b"a" * 64 + b"\n"])
def test_a_commit_without_a_tree_is_damaged(store: Store, content: bytes) -> None:
    sha = hash_object("commit", content)
    store.write(sha)
    store.pack([whole(1, content)])

    with pytest.raises(InputError, match="damaged"):
        read(store, sha)


def test_a_tree_with_a_name_twice_is_damaged(store: Store) -> None:
    launch = store.blob(b"x")
    entry = b"100644 launch.ts\0" + bytes.fromhex(launch.decode())
    double = Tree.from_raw_string(2, entry * 2)
    store.objects.append(double)
    commit = store.commit(
        store.tree((b"tests", DIRECTORY, store.tree((b"runner-e2e", DIRECTORY, double.id))))
    )
    store.write(commit)

    with pytest.raises(InputError, match="damaged"):
        read(store, commit)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@given(data=st.data())
def test_a_damaged_store_is_one_clear_error_or_still_the_truth(tmp_path: Path, data: st.DataObject) -> None:
    store = Store(tmp_path / "fuzzed")
    shutil.rmtree(store.path, ignore_errors=True)
    commit = harness(store)
    store.write(commit, packed=data.draw(st.booleans()))
    files = sorted(path for path in store.git.rglob("*") if path.is_file())
    victim = data.draw(st.sampled_from(files))
    content = victim.read_bytes()
    start = data.draw(st.integers(0, len(content)))
    new = (
        content[:start]
        + data.draw(st.binary(max_size=8))
        + content[data.draw(st.integers(start, len(content))) :]
    )
    victim.chmod(0o644)
    victim.write_bytes(new)

    try:
        with open_checkout(store.path, USER) as checkout:
            result: bytes | Kind = read_file(checkout, find_entry(checkout, checkout.read_head(), LAUNCH))
    except RunnerE2EError:
        return
    assert result in (b"launch();\n", Kind.UNAVAILABLE)


def replace(git: Path, content: bytes) -> None:
    shutil.rmtree(git)
    git.write_bytes(content)


def replace_by_pipe(git: Path) -> None:
    shutil.rmtree(git)
    os.mkfifo(git)


def replace_by_link(git: Path) -> None:
    shutil.rmtree(git)
    git.symlink_to("/nowhere")


def remove_objects(git: Path) -> None:
    shutil.rmtree(git / "objects")


def misplace_common_directory(git: Path) -> None:
    (git / "commondir").write_text("/nowhere")


def make_common_directory(git: Path) -> None:
    (git / "commondir").mkdir()


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(shutil.rmtree, id="no-git"),
        pytest.param(remove_objects, id="no-objects"),
        pytest.param(lambda git: replace(git, b"gitdir: /nowhere\n"), id="dangling"),
        pytest.param(lambda git: replace(git, b"nonsense"), id="no-link"),
        pytest.param(lambda git: replace(git, b"gitdir: \n"), id="empty-link"),
        pytest.param(lambda git: replace(git, b"gitdir: a\0b"), id="nul-in-link"),
        pytest.param(replace_by_link, id="dangling-symlink"),
        pytest.param(replace_by_pipe, id="pipe"),
        pytest.param(make_common_directory, id="directory-for-a-link"),
        pytest.param(misplace_common_directory, id="dangling-commondir"),
    ],
)
def test_what_is_no_checkout_is_refused(store: Store, damage: Callable[[Path], None]) -> None:
    store.write(harness(store))
    damage(store.git)

    with pytest.raises(InputError, match="checkout"):
        open_checkout(store.path, USER)


@pytest.mark.parametrize("name", ["nowhere", "file"])
def test_a_path_that_is_no_directory_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(InputError, match="target-path"):
        open_checkout(tmp_path / name, USER)


def test_a_checkout_of_another_user_is_refused_except_for_root(store: Store) -> None:
    store.write(harness(store))
    if USER == 0:  # root's own are taken for granted, so they have to be another's here
        os.chown(store.path, 12_345, -1)
    owner = store.path.stat().st_uid

    with pytest.raises(InputError, match="another user"):
        open_checkout(store.path, owner + 1)
    for user in (owner, 0):
        with open_checkout(store.path, user) as checkout:
            assert checkout.read_head()


def test_content_of_another_source_is_checked_against_its_id(store: Store) -> None:
    commit = harness(store)
    store.write(commit)

    with open_checkout(store.path, USER) as checkout:
        found = find_entry(checkout, commit, LAUNCH)
        assert found.entry is not None
        swapped = Liar(checkout, b"evil();")
        with pytest.raises(RunnerE2EError, match="does not match"):
            read_file(swapped, found)


@dataclass
class Liar:
    """A source that gives out other content than it was asked for."""

    inner: LocalObjects
    content: bytes

    def tree_of(self, commit: str) -> str:
        return self.inner.tree_of(commit)

    def entries(self, tree: str) -> Listing:
        return self.inner.entries(tree)

    def blob(self, entry: Entry) -> bytes:
        return self.content + self.inner.blob(entry)
