"""When `scripts/prepare` keeps, extends, clears or refuses an environment, and what tools see."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from environment_rules import (
    NOT_DELIVERED,
    Action,
    Found,
    PrepareError,
    choose_action,
    choose_directory,
    clean_environ,
    deal_lock,
    names_own_index,
    read_symptoms,
)

VENV = Path("/project/.venv")
RUNTIME = {"runtime": "r1"}
DEV = {"runtime": "r1", "dev": "d1"}
STAMP = {
    "complete": True,
    "adopted": False,
    "venv": str(VENV),
    "python": "3.11",
    "locks": RUNTIME,
    "packages": ["rich-15.dist-info"],
}
READY = Found(
    empty=False,
    stamp=STAMP,
    python="3.11",
    packages=frozenset({"rich-15.dist-info", "pip-23.dist-info"}),
)
WITH_DEV = replace(READY, stamp={**STAMP, "locks": DEV})
ADOPTED = replace(READY, stamp={**STAMP, "adopted": True})
EMPTY = Found(empty=True)


@pytest.mark.parametrize(
    ("found", "locks", "python", "expected"),
    [
        pytest.param(EMPTY, RUNTIME, None, Action.CREATE, id="nothing-there"),
        pytest.param(READY, RUNTIME, None, Action.REUSE, id="ready"),
        pytest.param(READY, RUNTIME, "3.11", Action.REUSE, id="python-asked-and-there"),
        pytest.param(READY, DEV, None, Action.EXTEND, id="more-packages-wanted"),
        pytest.param(WITH_DEV, DEV, None, Action.REUSE, id="dev-ready"),
        pytest.param(WITH_DEV, RUNTIME, None, Action.REUSE, id="fewer-packages-wanted"),
        pytest.param(READY, {"runtime": "r2"}, None, Action.REBUILD, id="lock-changed"),
        pytest.param(WITH_DEV, {**DEV, "dev": "d2"}, None, Action.REBUILD, id="lock-for-tests-changed"),
        pytest.param(WITH_DEV, {"runtime": "r2"}, None, Action.REBUILD, id="dev-with-old-runtime"),
        pytest.param(READY, RUNTIME, "3.13", Action.REBUILD, id="another-python-asked"),
        pytest.param(replace(READY, python="3.12"), RUNTIME, None, Action.REBUILD, id="system-upgraded"),
        pytest.param(replace(READY, python=None), RUNTIME, None, Action.REBUILD, id="broken"),
        pytest.param(
            replace(READY, packages=frozenset({"pip-23.dist-info"})),
            RUNTIME,
            None,
            Action.REBUILD,
            id="package-removed",
        ),
        pytest.param(
            replace(READY, stamp={**STAMP, "complete": False}),
            RUNTIME,
            None,
            Action.REBUILD,
            id="interrupted",
        ),
        pytest.param(
            replace(READY, stamp={**STAMP, "venv": "/elsewhere/.venv"}),
            RUNTIME,
            None,
            Action.REBUILD,
            id="moved",
        ),
        pytest.param(
            replace(READY, stamp={**STAMP, "packages": None}),
            RUNTIME,
            None,
            Action.REBUILD,
            id="stamp-of-another-format",
        ),
        pytest.param(replace(READY, stamp=None), RUNTIME, None, Action.EXTEND, id="not-ours"),
        pytest.param(ADOPTED, RUNTIME, None, Action.REUSE, id="adopted"),
        pytest.param(ADOPTED, {"runtime": "r2"}, None, Action.EXTEND, id="adopted-never-cleared"),
        pytest.param(
            replace(ADOPTED, stamp={"complete": False, "adopted": True}),
            RUNTIME,
            None,
            Action.EXTEND,
            id="adopted-interrupted",
        ),
    ],
)
def test_an_environment_gets_what_it_lacks(
    found: Found, locks: dict[str, str], python: str | None, expected: Action
) -> None:
    assert choose_action(found, venv=VENV, locks=locks, python=python) is expected


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(Found(empty=False), id="other-files"),
        pytest.param(replace(ADOPTED, python=None), id="adopted-and-broken"),
    ],
)
def test_a_directory_of_someone_else_is_refused_rather_than_cleared(found: Found) -> None:
    with pytest.raises(PrepareError, match="is in use"):
        choose_action(found, venv=VENV, locks=RUNTIME, python=None)


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        pytest.param("PIP_INDEX_URL", True, id="index"),
        pytest.param("PIP_EXTRA_INDEX_URL", True, id="second-index"),
        pytest.param("PIP_FIND_LINKS", True, id="links"),
        pytest.param("PIP_CERT", True, id="certificate"),
        pytest.param("PIP_CONFIG_FILE", True, id="configuration"),
        pytest.param("SSL_CERT_FILE", True, id="system-certificate"),
        pytest.param("HTTPS_PROXY", True, id="proxy"),
        pytest.param("UV_INDEX_URL", True, id="uv-index"),
        pytest.param("UV_DEFAULT_INDEX", True, id="uv-default-index"),
        pytest.param("UV_INDEX_INTERNAL_PASSWORD", True, id="uv-index-password"),
        pytest.param("PATH", True, id="path"),
        pytest.param("PIP_TARGET", False, id="target"),
        pytest.param("PIP_USER", False, id="user"),
        pytest.param("PIP_REQUIRE_VIRTUALENV", False, id="require-virtualenv"),
        pytest.param("PIP_NO_BINARY", False, id="no-binary"),
        pytest.param("PYTHONPATH", False, id="pythonpath"),
        pytest.param("PYTHONHOME", False, id="pythonhome"),
        pytest.param("PYTHONDONTWRITEBYTECODE", False, id="no-bytecode"),
        pytest.param("UV_PYTHON", False, id="uv-python"),
        pytest.param("UV_TARGET", False, id="uv-target"),
        pytest.param("VIRTUAL_ENV", False, id="active-environment"),
        pytest.param("CONDA_PREFIX", False, id="conda"),
    ],
)
def test_where_packages_come_from_is_the_callers_and_how_is_ours(name: str, *, kept: bool) -> None:
    assert (name in clean_environ({name: "value"})) is kept


def test_uv_copies_so_that_its_cache_cannot_change_an_environment() -> None:
    assert clean_environ({"UV_LINK_MODE": "hardlink"})["UV_LINK_MODE"] == "copy"


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        pytest.param({}, r"/project/\.venv", id="by-default"),
        pytest.param({"RUNNER_E2E_VENV": ""}, r"/project/\.venv", id="empty-choice"),
        pytest.param({"RUNNER_E2E_VENV": "/chosen"}, "/chosen", id="chosen"),
        pytest.param(
            {"GITHUB_ACTIONS": "true", "RUNNER_TEMP": "/temp"},
            "/temp/runner-e2e-venv-[0-9a-f]{12}",
            id="on-a-runner",
        ),
        pytest.param({"GITHUB_ACTIONS": "true"}, r"/project/\.venv", id="runner-without-temp"),
        pytest.param({"RUNNER_TEMP": "/temp"}, r"/project/\.venv", id="not-on-a-runner"),
        pytest.param(
            {"GITHUB_ACTIONS": "true", "RUNNER_TEMP": "/temp", "RUNNER_E2E_VENV": "/chosen"},
            "/chosen",
            id="chosen-on-a-runner",
        ),
    ],
)
def test_the_directory_follows_the_caller(environ: dict[str, str], expected: str) -> None:
    chosen = choose_directory(environ, project=Path("/project"), locks=RUNTIME, python="3.11.2")

    assert re.fullmatch(expected, str(chosen))


def test_a_runners_directory_differs_by_lock_and_by_python() -> None:
    runner = {"GITHUB_ACTIONS": "true", "RUNNER_TEMP": "/temp"}

    chosen = {
        choose_directory(runner, project=Path("/project"), locks=locks, python=python)
        for locks in (RUNTIME, DEV, {"runtime": "r2"})
        for python in ("3.11.2", "3.11.3")
    }

    assert len(chosen) == 6


@pytest.mark.parametrize(
    ("environ", "project"),
    [
        pytest.param({"RUNNER_E2E_VENV": "/a\nb"}, Path("/project"), id="environment"),
        pytest.param({"RUNNER_E2E_VENV": "/a"}, Path("/pro\nject"), id="project"),
    ],
)
def test_a_line_break_in_a_path_is_refused(environ: dict[str, str], project: Path) -> None:
    with pytest.raises(PrepareError, match="line break"):
        choose_directory(environ, project=project, locks=RUNTIME, python="3.11.2")


@pytest.mark.parametrize(
    ("output", "problem"),
    [
        pytest.param(
            "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.",
            "not the one that was locked",
            id="pip-hash",
        ),
        pytest.param("cause: Hash mismatch for `h11==0.16.0`", "was locked", id="uv-hash"),
        pytest.param("OSError: [Errno 28] No space left on device", "disk is full", id="disk"),
        pytest.param("[Errno 13] Permission denied: '/x'", "cannot be written", id="permission"),
        pytest.param("Connection refused", "index did not deliver", id="anything-else"),
    ],
)
def test_a_failed_installation_says_what_happened(output: str, problem: str) -> None:
    assert problem in read_symptoms(output, NOT_DELIVERED)[0]


LOCK = """\
# a comment
alpha==1 \\
    --hash=sha256:aa \\
    --hash=sha256:ab
beta==2 ; python_version < "3.12" \\
    --hash=sha256:ba

gamma==3 --hash=sha256:ca
"""


@pytest.mark.parametrize("parts", [1, 2, 3, 5])
def test_a_lock_is_dealt_out_without_loss(parts: int) -> None:
    dealt = deal_lock(LOCK, parts)

    assert len(dealt) == parts
    lines = sorted(line for text in dealt for line in text.splitlines())
    assert lines == sorted(line for line in LOCK.splitlines() if line and not line.startswith("#"))
    assert sum(bool(text) for text in dealt) == min(parts, 3)


def test_a_requirement_keeps_its_hashes() -> None:
    first, second = deal_lock(LOCK, 2)

    assert first == "alpha==1 \\\n    --hash=sha256:aa \\\n    --hash=sha256:ab\ngamma==3 --hash=sha256:ca\n"
    assert second == 'beta==2 ; python_version < "3.12" \\\n    --hash=sha256:ba\n'


@pytest.mark.parametrize(
    ("settings", "own"),
    [
        pytest.param("", False, id="none"),
        pytest.param("global.cert='/a/b.pem'\n:env:.default-timeout='180'\n", False, id="no-source"),
        pytest.param("global.index-url='https://mirror.example/simple'\n", True, id="mirror"),
        pytest.param(":env:.no-index='1'\n:env:.find-links='/wheels'\n", True, id="offline"),
        pytest.param("user.timeout='5'\nsite.proxy='http://proxy.example'\n", True, id="proxy"),
        pytest.param("install.trusted-host='a=b.index-url'\n", True, id="trusted-host"),
        pytest.param("global.cert='/a=b/index-url'\n", False, id="the-word-in-a-value"),
    ],
)
def test_pips_own_index_is_noticed(settings: str, own: bool) -> None:
    assert names_own_index(settings) is own
