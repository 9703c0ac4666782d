"""Objects of a checkout: read from the store at a commit, whatever the work tree says."""

from __future__ import annotations

import hashlib
import os
import shutil
import struct
import tracemalloc
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from dulwich.object_format import DEFAULT_OBJECT_FORMAT
from dulwich.object_store import DiskObjectStore
from dulwich.objects import Blob, Commit, ObjectID, RawObjectID, Tree
from dulwich.pack import (
    OFS_DELTA,
    REF_DELTA,
    UnpackedObject,
    create_delta,
    pack_object_header,
    write_pack_data,
    write_pack_index,
)
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
        pytest.param(b"ref: refs/heads/" + b"a" * 5000 + b"\n", id="long"),
        pytest.param(b"ref: config\n", id="other-file"),
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


def test_of_the_configuration_nothing_else_is_followed(store: Store) -> None:
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


# What stands in the place of a file of git


def make_pipe(path: Path) -> None:
    os.mkfifo(path)


def make_endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


def make_directory(path: Path) -> None:
    path.mkdir()


def make_huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1024**3 + 1)


SUBSTITUTES = [
    pytest.param(make_pipe, id="pipe"),
    pytest.param(make_endless, id="device"),
    pytest.param(make_directory, id="directory"),
    pytest.param(make_huge, id="huge"),
]
LAUNCH_ID = hash_object("blob", b"launch();\n")


@pytest.mark.parametrize("make", SUBSTITUTES)
@pytest.mark.parametrize(
    ("name", "packed"),
    [
        ("HEAD", False),
        ("packed-refs", False),
        ("config", False),
        ("commondir", False),
        ("objects/info/alternates", False),
        ("objects/pack/pack-1.idx", True),
    ],
)
def test_what_is_no_small_regular_file_is_refused_without_waiting(
    store: Store, make: Callable[[Path], None], name: str, packed: bool
) -> None:
    commit = harness(store)
    store.write(commit, packed=packed)
    if name == "packed-refs":
        (store.git / "refs" / "heads" / "main").unlink()
    path = store.git / name
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    make(path)

    with pytest.raises(InputError, match=f"{path.name} of the checkout"):
        read_at_head(store.path)


@pytest.mark.parametrize("make", SUBSTITUTES[:3])
@pytest.mark.parametrize(
    ("name", "packed"),
    [(f"objects/{LAUNCH_ID[:2]}/{LAUNCH_ID[2:]}", False), ("objects/pack/pack-1.pack", True)],
    ids=["loose", "packed"],
)
def test_an_object_in_no_regular_file_is_refused_without_waiting(
    store: Store, make: Callable[[Path], None], name: str, packed: bool
) -> None:
    store.write(harness(store), packed=packed)
    (store.git / name).unlink()
    make(store.git / name)

    with pytest.raises(InputError, match="not a regular file"):
        read_at_head(store.path)


@pytest.mark.parametrize("make", [SUBSTITUTES[0], SUBSTITUTES[1], SUBSTITUTES[3]])
def test_a_reference_that_is_no_small_regular_file_is_refused(
    store: Store, make: Callable[[Path], None]
) -> None:
    store.write(harness(store))
    reference = store.git / "refs" / "heads" / "main"
    reference.unlink()
    make(reference)

    with pytest.raises(InputError, match="main of the checkout"):
        read_at_head(store.path)


@pytest.mark.parametrize("make", [SUBSTITUTES[0], SUBSTITUTES[1], SUBSTITUTES[3]])
def test_a_git_file_that_is_no_small_regular_file_is_refused(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    make(tmp_path / ".git")

    with pytest.raises(InputError, match=r"\.git of the checkout"):
        open_checkout(tmp_path, USER)


def test_a_directory_that_git_left_behind_hides_no_packed_branch(store: Store) -> None:
    commit = harness(store)
    store.write(commit)
    reference = store.git / "refs" / "heads" / "main"
    reference.unlink()
    reference.mkdir()
    (store.git / "packed-refs").write_text(
        f"# pack-refs with: peeled\n{commit} refs/heads/main\n^{'e' * 40}\n"
    )

    assert read_at_head(store.path) == b"launch();\n"


def test_an_empty_reference_is_not_replaced_by_an_older_packed_one(store: Store) -> None:
    commit = harness(store)
    store.write(commit)
    (store.git / "refs" / "heads" / "main").write_text("")
    (store.git / "packed-refs").write_text(f"{commit} refs/heads/main\n")

    with pytest.raises(InputError, match="names no commit"):
        read_at_head(store.path)


def read_at_head(path: Path) -> bytes | Kind:
    with open_checkout(path, USER) as checkout:
        return read_file(checkout, find_entry(checkout, checkout.read_head(), LAUNCH))


def test_stores_that_borrow_from_each_other_come_to_an_end(store: Store, tmp_path: Path) -> None:
    commit = harness(store)
    store.write(commit)
    other = Store(tmp_path / "other")
    other.write(commit)
    for one, borrowed in ((store, other), (other, store)):
        (one.git / "objects" / "info").mkdir()
        (one.git / "objects" / "info" / "alternates").write_text(f"{borrowed.git / 'objects'}\n.\n")

    assert read(other, commit) == b"launch();\n"
    with pytest.raises(MissingObjectError):
        read(store, "e" * 40)


# Object formats


@pytest.mark.parametrize(
    "config",
    [
        pytest.param("[extensions]\n\tobjectformat = sha256\n", id="as-git-writes-it"),
        pytest.param("[Extensions]\r\n ObjectFormat=sha256 ; x\r\n", id="capitals"),
        pytest.param('[extensions] objectFormat = "sha256"', id="one-line"),
        pytest.param("[extensions]\nobjectformat=sha1\nobjectformat=sha256", id="last-counts"),
    ],
)
def test_a_repository_with_sha_256_ids_is_refused_as_such(store: Store, config: str) -> None:
    store.write(harness(store))
    (store.git / "config").write_text(config)

    with pytest.raises(InputError, match="SHA-256"):
        open_checkout(store.path, USER)


@pytest.mark.parametrize(
    "config", ["[extensions]\nobjectformat = md5", "[extensions]\nobjectformat = \\\nsha256"]
)
def test_an_unknown_object_format_is_refused(store: Store, config: str) -> None:
    store.write(harness(store))
    (store.git / "config").write_text(config)

    with pytest.raises(InputError, match="object format"):
        open_checkout(store.path, USER)


@pytest.mark.parametrize(
    "config",
    [
        "",
        "[extensions]\nobjectformat = sha1",
        "[extensions]\n# objectformat = sha256",
        '[extensions "x"]\nobjectformat = sha256',
        "[core]\nobjectformat = sha256",
        "[extensions]\n[core]\nobjectformat = sha256",
        "objectformat = sha256",
        "\0\ufffd[[[",
    ],
)
def test_a_repository_with_sha_1_ids_is_read(store: Store, config: str) -> None:
    store.write(harness(store))
    (store.git / "config").write_text(config)

    assert read_at_head(store.path) == b"launch();\n"


def test_a_sha_256_id_in_head_is_refused_as_such(store: Store) -> None:
    store.write("a" * 64)

    with pytest.raises(InputError, match="SHA-256"):
        read_at_head(store.path)


# Objects that unpack to more than they say

BOMB = zlib.compress(bytes(100 * MAX_FILE_BYTES))


def replace_loose(store: Store, stream: bytes) -> None:
    """Put a compressed stream in the place of `launch.ts`."""
    loose = store.git / "objects" / LAUNCH_ID[:2] / LAUNCH_ID[2:]
    loose.unlink()
    loose.write_bytes(stream)


def replace_by_raw_pack(store: Store, records: list[tuple[str, bytes]]) -> None:
    """Move `launch.ts` into a pack of records, each an id and the bytes as they are to stand there."""
    (store.git / "objects" / LAUNCH_ID[:2] / LAUNCH_ID[2:]).unlink()
    content = b"PACK" + struct.pack(">LL", 2, len(records))
    entries = []
    for sha, record in records:
        entries.append((RawObjectID(bytes.fromhex(sha)), len(content), zlib.crc32(record)))
        content += record
    checksum = hashlib.sha1(content, usedforsecurity=False).digest()
    name = store.git / "objects" / "pack" / "pack-2"
    name.with_suffix(".pack").write_bytes(content + checksum)
    with name.with_suffix(".idx").open("wb") as file:
        write_pack_index(file, sorted(entries), checksum)


def record(number: int, size: int, stream: bytes, base: int | bytes | None = None) -> bytes:
    return bytes(pack_object_header(number, base, size, DEFAULT_OBJECT_FORMAT)) + stream


def delta(base_size: int, size: int, *commands: bytes) -> bytes:
    return number(base_size) + number(size) + b"".join(commands)


def number(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def read_in_little_memory(store: Store) -> bytes | Kind:
    tracemalloc.start()
    try:
        return read_at_head(store.path)
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 8 * MAX_FILE_BYTES


@pytest.mark.parametrize("size", [10, MAX_FILE_BYTES])
def test_a_loose_object_that_explodes_is_damaged_and_not_unpacked(store: Store, size: int) -> None:
    store.write(harness(store))
    replace_loose(store, zlib.compress(b"blob %d\0" % size + bytes(100 * MAX_FILE_BYTES)))

    with pytest.raises(InputError, match="damaged"):
        read_in_little_memory(store)


def test_a_stream_that_is_long_and_comes_to_nothing_is_not_read_to_its_end(store: Store) -> None:
    store.write(harness(store))
    packer = zlib.compressobj()
    start = packer.compress(b"blob 10\0launch();\n") + packer.flush(zlib.Z_FULL_FLUSH)
    empty = b"\0\0\0\xff\xff"  # a block without content
    end = packer.flush()
    replace_loose(store, start + empty * 10 + end)
    assert read_at_head(store.path) == b"launch();\n"

    replace_loose(store, start + empty * 200_000 + end)
    with pytest.raises(InputError, match="damaged"):
        read_at_head(store.path)


@pytest.mark.parametrize(
    "header", [b"blob 10", b"blob -1\0", b"blob 1e3\0", b"blob 010\0", b"10\0", b"", b"x" * 99]
)
def test_a_loose_object_without_a_proper_header_is_damaged(store: Store, header: bytes) -> None:
    store.write(harness(store))
    replace_loose(store, zlib.compress(header + b"launch();\n"))

    with pytest.raises(InputError, match="damaged"):
        read_at_head(store.path)


@pytest.mark.parametrize("size", [10, MAX_FILE_BYTES])
def test_a_packed_object_that_explodes_is_damaged_and_not_unpacked(store: Store, size: int) -> None:
    store.write(harness(store))
    replace_by_raw_pack(store, [(LAUNCH_ID, record(3, size, BOMB))])

    with pytest.raises(InputError, match="damaged"):
        read_in_little_memory(store)


@pytest.mark.parametrize(
    "stream",
    [
        pytest.param(delta(65_536, 10, *[b"\x80"] * 100_000), id="copies-more-than-it-says"),
        pytest.param(delta(65_536, 10, b"\x0blaunch();\n1"), id="inserts-more-than-it-says"),
        pytest.param(delta(65_535, 10, b"\x0alaunch();\n"), id="another-base"),
        pytest.param(delta(65_536, 10), id="comes-to-nothing"),
        pytest.param(b"\xff" * 100, id="size-without-end"),
        pytest.param(b"", id="empty"),
    ],
)
def test_a_difference_that_lies_is_damaged_and_not_applied(store: Store, stream: bytes) -> None:
    store.write(harness(store))
    base = record(3, 65_536, zlib.compress(bytes(65_536)))
    replace_by_raw_pack(
        store,
        [
            ("1" * 40, base),
            (LAUNCH_ID, record(OFS_DELTA, len(stream), zlib.compress(stream), len(base))),
        ],
    )

    with pytest.raises(InputError, match="damaged"):
        read_in_little_memory(store)


def test_a_difference_from_something_enormous_is_not_unpacked(store: Store) -> None:
    store.write(harness(store))
    base = record(3, 100 * MAX_FILE_BYTES, BOMB)
    stream = delta(100 * MAX_FILE_BYTES, 10, b"\x0alaunch();\n")
    replace_by_raw_pack(
        store,
        [
            ("1" * 40, base),
            (LAUNCH_ID, record(OFS_DELTA, len(stream), zlib.compress(stream), len(base))),
        ],
    )

    assert read_in_little_memory(store) is Kind.TOO_LARGE


@pytest.mark.parametrize("base", [LAUNCH_ID, "1" * 40, "2" * 40], ids=["itself", "each-other", "nowhere"])
def test_differences_that_start_from_nothing_come_to_an_end(store: Store, base: str) -> None:
    store.write(harness(store))
    stream = delta(10, 10, b"\x0alaunch();\n")
    packed = zlib.compress(stream)
    replace_by_raw_pack(
        store,
        [
            ("1" * 40, record(REF_DELTA, len(stream), packed, bytes.fromhex(LAUNCH_ID))),
            (LAUNCH_ID, record(REF_DELTA, len(stream), packed, bytes.fromhex(base))),
        ],
    )

    with pytest.raises(InputError, match="damaged"):
        read_in_little_memory(store)
