"""From a branch or checkout to the commit under test, over fakes and over the API's answers."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import pytest
import responses
from hypothesis import given, settings
from hypothesis import strategies as st

from runner_e2e.actions.github_client import GitHubClient
from runner_e2e.actions.github_waiting import Clock
from runner_e2e.errors import InputError
from runner_e2e.plan.branches import is_branch_name
from runner_e2e.plan.objects import (
    MAX_FILE_BYTES,
    Entry,
    Kind,
    LargeObjectError,
    Listing,
    MissingObjectError,
    find_entry,
    hash_object,
)
from runner_e2e.plan.target import (
    Home,
    Repository,
    TargetRequest,
    check_same_repository,
    read_harness,
    resolve_target,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from runner_e2e.plan.objects import ObjectSource

SHA, OTHER = "a" * 40, "b" * 40
ROOT, TESTS, HARNESS = "1" * 40, "2" * 40, "3" * 40
APP = Repository(7, "octo/app", "master")
HOME = Home(7, "octo/app")
FILE, LINK, DIRECTORY, SUBMODULE = 0o100644, 0o120000, 0o040000, 0o160000
SELECTORS = b"export const take = () => process.env.PAPERCLIP_RUNNER_E2E_SELECTED_ID;"
LAUNCH = b'import { take } from "./selectors.js"; take();'
FILES = {"selectors.ts": SELECTORS, "launch.ts": LAUNCH}


def entry(content: bytes, mode: int = FILE, size: int | None = None) -> Entry:
    return Entry(mode, hash_object("blob", content), len(content) if size is None else size)


@dataclass
class FakeObjects:
    """A tree with one harness directory. `calls` counts what would be requests."""

    files: Mapping[str, bytes] = field(default_factory=lambda: FILES)
    changed: Mapping[str, Entry] = field(default_factory=dict)
    trees: Mapping[str, Listing] = field(default_factory=dict)
    head: str = SHA
    gone: frozenset[str] = frozenset()
    calls: int = 0

    def read_head(self) -> str:
        return self.head

    def tree_of(self, commit: str) -> str:
        self.calls += 1
        assert commit == self.head
        return ROOT

    def entries(self, tree: str) -> Listing:
        self.calls += 1
        if tree in self.trees:
            return self.trees[tree]
        entries = {
            ROOT: {"tests": Entry(DIRECTORY, TESTS)},
            TESTS: {"runner-e2e": Entry(DIRECTORY, HARNESS)},
            HARNESS: {name: entry(content) for name, content in self.files.items()} | dict(self.changed),
        }
        return Listing(entries[tree])

    def blob(self, entry: Entry) -> bytes:
        self.calls += 1
        found = next(
            name for name, content in self.files.items() if hash_object("blob", content) == entry.sha
        )
        if found in self.gone:
            raise MissingObjectError("gone", "fetch")
        if len(self.files[found]) > MAX_FILE_BYTES:
            raise LargeObjectError("large", "shrink")
        return self.files[found]


@dataclass
class FakeRepositories:
    """An API with one repository and its branches."""

    found: Repository = APP
    branches: Mapping[str, str] = field(default_factory=lambda: {"main": SHA})
    source: FakeObjects = field(default_factory=FakeObjects)
    asked: list[str] = field(default_factory=list)

    def repository(self, full_name: str) -> Repository:
        self.asked.append(full_name)
        return self.found

    def branch_sha(self, repository: Repository, branch: str) -> str:
        assert repository == self.found
        self.asked.append(branch)
        return self.branches[branch]

    def objects(self, repository: Repository) -> ObjectSource:
        assert repository == self.found
        return self.source


BRANCH = TargetRequest(repository="octo/app", branch="main")


def test_a_branch_leads_to_its_commit_and_everything_decided_from_it() -> None:
    target = resolve_target(BRANCH, HOME, FakeRepositories(), None)

    assert (target.sha, target.ref, target.repository) == (SHA, "refs/heads/main", "octo/app")
    assert (target.transport.value, target.sandbox_owner, target.warnings) == ("env", "action", ())
    assert target.transport.evidence["files"] == [
        {"path": f"tests/runner-e2e/{name}", "blob": hash_object("blob", content), "bytes": len(content)}
        for name, content in FILES.items()
    ]


def test_a_checkout_alone_is_the_commit_it_is_at() -> None:
    target = resolve_target(TargetRequest(), HOME, None, FakeObjects())

    assert (target.sha, target.ref, target.repository) == (SHA, None, None)
    assert target.transport.value == "env"


def test_with_a_checkout_objects_come_from_it_and_not_from_the_api() -> None:
    api, checkout = FakeRepositories(), FakeObjects()

    target = resolve_target(BRANCH, HOME, api, checkout)

    assert target.ref == "refs/heads/main"
    assert (api.source.calls, api.asked) == (0, ["octo/app", "main"])
    assert checkout.calls == 6


@pytest.mark.parametrize(
    ("change", "checkout", "words"),
    [
        pytest.param({"sha": OTHER}, None, "not at target-sha", id="branch-moved"),
        pytest.param({}, FakeObjects(head=OTHER), "checkout is at", id="checkout-elsewhere"),
        pytest.param({"branch": None, "sha": OTHER}, FakeObjects(), "checkout is at", id="sha-elsewhere"),
        pytest.param({"branch": None}, None, "No target", id="nothing-named"),
        pytest.param({"branch": None, "sha": SHA}, None, "No target", id="only-a-commit"),
        pytest.param({"repository": None}, None, "not named", id="no-repository"),
        pytest.param({"sha": SHA.upper()}, None, "no commit id", id="capitals"),
        pytest.param({"sha": "main"}, None, "no commit id", id="a-name-for-a-commit"),
        pytest.param({"branch": "refs/heads/main"}, None, "no branch name", id="whole-reference"),
        pytest.param({"branch": ""}, None, "no branch name", id="empty"),
        pytest.param({"policy": "argv", "require_hidden_id": True}, None, "forbids", id="policies"),
    ],
)
def test_a_request_that_does_not_hold_together_is_refused(
    change: dict[str, object], checkout: FakeObjects | None, words: str
) -> None:
    values = {"repository": "octo/app", "branch": "main", **change}

    with pytest.raises(InputError, match=words):
        resolve_target(TargetRequest(**values), HOME, FakeRepositories(), checkout)  # type: ignore[arg-type]


def test_a_given_commit_that_the_branch_is_at_is_accepted() -> None:
    request = TargetRequest(repository="octo/app", branch="main", sha=SHA)

    assert resolve_target(request, HOME, FakeRepositories(), None).sha == SHA


def test_a_branch_without_an_api_is_refused() -> None:
    with pytest.raises(InputError, match="github-token"):
        resolve_target(BRANCH, HOME, None, FakeObjects())


@pytest.mark.parametrize(
    ("found", "home"),
    [
        pytest.param(APP, Home(7, "octo/app"), id="same"),
        pytest.param(APP, Home(7, "octo/old-name"), id="renamed"),
        pytest.param(APP, Home(7, None), id="id-only"),
        pytest.param(APP, Home(None, "Octo/App"), id="name-in-another-case"),
    ],
)
def test_the_own_repository_is_accepted_under_any_name(found: Repository, home: Home) -> None:
    check_same_repository(found, home)


@pytest.mark.parametrize(
    ("found", "home"),
    [
        pytest.param(Repository(8, "fork/app", "master"), Home(7, "octo/app"), id="fork"),
        pytest.param(Repository(8, "octo/app", "master"), Home(7, "octo/app"), id="name-taken-over"),
        pytest.param(Repository(8, "octo/app2", "master"), Home(None, "octo/app"), id="longer-name"),
        pytest.param(Repository(7, "octo/app", "master"), Home(None, None), id="nobody-knows"),
    ],
)
def test_another_repository_is_refused_before_its_branch_is_asked_for(found: Repository, home: Home) -> None:
    api = FakeRepositories(found)

    with pytest.raises(InputError, match="repository"):
        resolve_target(BRANCH, home, api, None)

    assert api.asked == ["octo/app"]
    assert api.source.calls == 0


# The harness directory


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        pytest.param(FakeObjects({"launch.ts": LAUNCH}), "selectors-missing", id="no-selectors"),
        pytest.param(FakeObjects({"selectors.ts": SELECTORS}), "launch-missing", id="no-launch"),
        pytest.param(
            FakeObjects(changed={"launch.ts": Entry(LINK, OTHER, 3)}), "launch-symlink", id="symlink"
        ),
        pytest.param(
            FakeObjects(changed={"launch.ts": Entry(SUBMODULE, OTHER)}), "launch-submodule", id="submodule"
        ),
        pytest.param(
            FakeObjects(changed={"launch.ts": Entry(DIRECTORY, OTHER)}), "launch-directory", id="directory"
        ),
        pytest.param(
            FakeObjects(changed={"launch.ts": Entry(0o060000, OTHER)}), "launch-irregular", id="device"
        ),
        pytest.param(
            FakeObjects(changed={"launch.ts": entry(LAUNCH, size=MAX_FILE_BYTES + 1)}),
            "launch-too-large",
            id="listed-as-too-large",
        ),
        pytest.param(
            FakeObjects(
                {**FILES, "launch.ts": b"x" * (MAX_FILE_BYTES + 1)},
                changed={"launch.ts": Entry(FILE, hash_object("blob", b"x" * (MAX_FILE_BYTES + 1)))},
            ),
            "launch-too-large",
            id="found-too-large",
        ),
        pytest.param(FakeObjects(gone=frozenset({"launch.ts"})), "launch-unavailable", id="not-fetched"),
        pytest.param(FakeObjects({**FILES, "launch.ts": b"("}), "launch-syntax-error", id="syntax"),
        pytest.param(FakeObjects({**FILES, "launch.ts": b"\xff"}), "launch-not-utf8", id="bytes"),
        pytest.param(FakeObjects(trees={ROOT: Listing({})}), "selectors-missing", id="no-tests"),
        pytest.param(FakeObjects(trees={TESTS: Listing({})}), "selectors-missing", id="no-harness"),
        pytest.param(
            FakeObjects(trees={ROOT: Listing({"tests": Entry(FILE, OTHER, 3)})}),
            "selectors-missing",
            id="tests-is-a-file",
        ),
    ],
)
def test_files_that_cannot_be_read_make_the_scan_unknown(source: FakeObjects, reason: str) -> None:
    found = read_harness(source, SHA)

    assert (found.scan.result, found.scan.reason, found.sandbox_owner) == ("unknown", reason, "action")


def test_what_is_too_large_by_its_listing_is_not_read() -> None:
    source = FakeObjects(changed={"selectors.ts": entry(SELECTORS, size=MAX_FILE_BYTES + 1)})

    read_harness(source, SHA)

    assert source.calls == 4


@pytest.mark.parametrize("mode", [LINK, SUBMODULE])
@pytest.mark.parametrize(("tree", "name"), [(ROOT, "tests"), (TESTS, "runner-e2e")])
def test_a_harness_behind_a_link_is_refused(mode: int, tree: str, name: str) -> None:
    source = FakeObjects(trees={tree: Listing({name: Entry(mode, OTHER)})})

    with pytest.raises(InputError, match=name):
        read_harness(source, SHA)


@pytest.mark.parametrize(
    ("name", "owner"),
    [
        pytest.param("agent-filesystem-sandbox.ts", "target", id="typescript"),
        pytest.param("agent-filesystem-sandbox.mjs", "target", id="javascript"),
        pytest.param("agent-filesystem-sandbox.py", "target", id="python"),
        pytest.param("agent-filesystem-sandbox.test.ts", "action", id="its-test"),
        pytest.param("agent-filesystem-sandbox.d.ts", "action", id="its-types"),
        pytest.param("agent-filesystem-sandbox", "action", id="no-suffix"),
        pytest.param("agent-filesystem-sandbox.", "action", id="empty-suffix"),
        pytest.param("my-agent-filesystem-sandbox.ts", "action", id="longer-name"),
        pytest.param("agent-filesystem-sandboxes.ts", "action", id="other-name"),
        pytest.param("Agent-Filesystem-Sandbox.ts", "action", id="capitals"),
        pytest.param("agent-filesystem-sandbox.t\ns", "action", id="line-end"),
    ],
)
def test_a_target_that_ships_its_sandbox_owns_it(name: str, owner: str) -> None:
    assert read_harness(FakeObjects({**FILES, name: b"x"}), SHA).sandbox_owner == owner


def test_a_large_or_executable_sandbox_is_still_the_targets() -> None:
    for one in (Entry(FILE, OTHER, MAX_FILE_BYTES + 1), Entry(0o100755, OTHER, 1)):
        source = FakeObjects(changed={"agent-filesystem-sandbox.ts": one})

        assert read_harness(source, SHA).sandbox_owner == "target"


def test_a_directory_called_like_the_sandbox_is_none() -> None:
    source = FakeObjects(changed={"agent-filesystem-sandbox.d": Entry(DIRECTORY, OTHER)})

    assert read_harness(source, SHA).sandbox_owner == "action"


@pytest.mark.parametrize("mode", [LINK, SUBMODULE, 0o020000])
@pytest.mark.parametrize(
    "beside", [{}, {"agent-filesystem-sandbox.ts": b"x"}], ids=["alone", "beside-a-file"]
)
def test_a_sandbox_that_is_no_regular_file_is_refused(mode: int, beside: Mapping[str, bytes]) -> None:
    source = FakeObjects({**FILES, **beside}, changed={"agent-filesystem-sandbox.mjs": Entry(mode, OTHER)})

    with pytest.raises(InputError, match=r"agent-filesystem-sandbox\.mjs"):
        read_harness(source, SHA)


@pytest.mark.parametrize("tree", [ROOT, TESTS, HARNESS])
def test_an_incomplete_listing_that_names_no_sandbox_is_refused(tree: str) -> None:
    source = FakeObjects(trees={tree: Listing({}, complete=False)})

    with pytest.raises(InputError, match="target-path"):
        read_harness(source, SHA)


def test_an_incomplete_listing_makes_a_file_it_lacks_unknown() -> None:
    listed = {"selectors.ts": entry(SELECTORS), "agent-filesystem-sandbox.ts": entry(b"x")}
    source = FakeObjects(trees={HARNESS: Listing(listed, complete=False)})

    found = read_harness(source, SHA)

    assert (found.scan.result, found.scan.reason) == ("unknown", "launch-unlisted")
    assert found.sandbox_owner == "target"
    assert find_entry(source, SHA, "tests/runner-e2e/launch.ts").kind is Kind.UNLISTED


def test_an_unknown_scan_stops_a_campaign_that_requires_a_hidden_id() -> None:
    api = FakeRepositories(source=FakeObjects({}))
    request = TargetRequest(repository="octo/app", branch="main", require_hidden_id=True)

    with pytest.raises(InputError, match="require-hidden-id"):
        resolve_target(request, HOME, api, None)
    fallback = resolve_target(BRANCH, HOME, api, None)
    assert (fallback.transport.value, len(fallback.warnings)) == ("argv", 1)


def test_a_probe_can_settle_what_the_scan_cannot() -> None:
    api = FakeRepositories(source=FakeObjects({}))

    assert resolve_target(BRANCH, HOME, api, None, probe=lambda: "supported").transport.value == "env"


# Over the API


def test_a_target_takes_at_most_eight_requests() -> None:
    base = "https://api.github.com:443/repos/octo/app"
    trees = {
        ROOT: [{"path": "tests", "mode": "040000", "type": "tree", "sha": TESTS}],
        TESTS: [{"path": "runner-e2e", "mode": "040000", "type": "tree", "sha": HARNESS}],
        HARNESS: [
            {"path": name, "mode": "100644", "type": "blob", "sha": hash_object("blob", content), "size": 9}
            for name, content in FILES.items()
        ],
    }
    slept: list[float] = []
    clock = Clock(slept.append, monotonic=lambda: 0.0, now=lambda: 0.0, chance=lambda: 0.0)
    with responses.RequestsMock() as api, GitHubClient("https://api.github.com", "ghs_x", clock) as client:
        api.get(base, json={"id": 7, "full_name": "octo/app", "default_branch": "master"})
        api.get(f"{base}/branches/main", json={"name": "main", "commit": {"sha": SHA}})
        api.get(f"{base}/git/commits/{SHA}", json={"sha": SHA, "tree": {"sha": ROOT}})
        for tree, items in trees.items():
            api.get(f"{base}/git/trees/{tree}", json={"sha": tree, "tree": items, "truncated": False})
        for content in FILES.values():
            sha = hash_object("blob", content)
            body = {"sha": sha, "content": base64.b64encode(content).decode(), "encoding": "base64"}
            api.get(f"{base}/git/blobs/{sha}", json=body)

        target = resolve_target(BRANCH, HOME, client, None)

        assert (target.sha, target.transport.value) == (SHA, "env")
        assert client.requests == len(api.calls) == 8
        assert slept == []


# Names of branches


@pytest.mark.parametrize(
    "name",
    [
        "main",
        "a",
        "feature/x-1",
        "fröhlich",
        "日本",
        "👩‍💻",
        "100%",
        "a#b",
        "1.0",
        "x@y",
        "a" * 255,
        "a/refs/b",
        "v1;x&y",
    ],
)
def test_a_name_that_git_allows_is_a_branch(name: str) -> None:
    assert is_branch_name(name)


@pytest.mark.parametrize(
    "name",
    [
        *["", "/", "/a", "a/", "a//b", ".", "..", ".a", "a/.b", "a/./b", "a..b", "a/../b", "a.", "a.lock"],
        *["a.lock/b", "@", "a@{b", "HEAD", "-a", "refs/heads/a", "refs/tags/a", "refs/"],
        *["a b", "a\tb", "a\n", "a\0b", "a\x7f", "a\x85b", "a\u2028b", "a\ud800", "a~b", "a^b", "a:b"],
        *["a?b", "a*b", "a[b", "a\\b", "a" * 256],
    ],
)
def test_a_name_that_git_or_a_log_does_not_survive_is_no_branch(name: str) -> None:
    assert not is_branch_name(name)


@settings(deadline=None)  # a busy machine is no failure
@given(st.text(max_size=300))
def test_a_branch_name_is_one_line_and_no_way_out_of_a_path(name: str) -> None:
    if is_branch_name(name):
        assert len(name.splitlines()) == 1
        assert not {".", "..", ""} & set(name.split("/"))
        assert name.encode()


def test_the_targets_code_is_not_asked_at_another_commit() -> None:
    asked: list[str] = []

    def probe() -> Literal["supported"]:
        asked.append("probe")
        return "supported"

    with pytest.raises(InputError, match="checkout is at"):
        resolve_target(BRANCH, HOME, FakeRepositories(), FakeObjects(head=OTHER), probe)

    assert asked == []
