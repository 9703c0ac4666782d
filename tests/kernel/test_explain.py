"""The plan that `--explain` prints: it says what a launch would do, and does nothing itself."""

import json
import os
from pathlib import Path

import pytest

from kernel.harness import SECRET, Box

pytestmark = pytest.mark.kernel


def test_the_plan_needs_no_command_and_runs_none(box: Box) -> None:
    alone = box.with_options(*box.options, "--explain")

    for result in (
        alone.run(separator=False),
        alone.run(),
        alone.run("touch", box.marker),
        box.with_options("--explain", *box.options).run("touch", box.marker),
    ):
        assert (result.status, result.stderr) == (0, b""), result
        assert json.loads(result.stdout)["schema"] == "runner-e2e.sandbox-plan/v1"
    assert not box.marker.exists()


def test_the_plan_changes_and_restricts_nothing(box: Box) -> None:
    before = sorted((path, path.lstat().st_mtime_ns) for path in box.root.rglob("*"))
    plan = box.explain()

    assert sorted((path, path.lstat().st_mtime_ns) for path in box.root.rglob("*")) == before
    assert plan.hidden == (box.hid,)
    assert plan.exposed == (box.own,)


def test_the_plan_names_the_running_kernels_abi(box: Box, abi: int) -> None:
    assert box.explain().abi == abi


@pytest.mark.denies
def test_what_the_plan_calls_hidden_is_denied(box: Box) -> None:
    (box.root / "real").mkdir()
    (box.root / "real" / "s").write_text(SECRET)
    (box.root / "link").symlink_to("real")
    hiding = box.with_options(
        *box.options, "--hide", box.root / "link", "--hide-optional", box.root / "later"
    )
    plan = hiding.explain()

    assert {box.hid, box.root / "real", box.root / "later"} <= set(plan.hidden)
    existing = [path for path in plan.hidden if path.exists()]
    hiding.denies(*(("list", path) for path in existing))
    hiding.denies(("mkdir", box.root / "later"))


@pytest.mark.denies
def test_what_the_plan_calls_an_ancestor_cannot_be_listed(box: Box) -> None:
    plan = box.explain()

    assert len(plan.ancestors) >= 3
    box.denies(*(("list", path) for path in plan.ancestors))


def test_what_the_plan_grants_can_be_reached(box: Box) -> None:
    (box.root / "file").write_text("f")
    plan = box.explain()

    for path in (box.ok, box.own, box.root / "file", Path("/usr"), Path("/etc")):
        assert path in plan.grants
    assert box.hid not in plan.grants
    assert not set(plan.grants) & set(plan.ancestors)
    readable = [path for path in plan.grants if os.access(path, os.R_OK) and path.is_dir()]
    own = [path for path in readable if path.is_relative_to(box.root)]
    box.allows(*(("list", path) for path in own), ("list", "/usr"), ("list", "/etc"))


def test_no_grant_of_the_plan_holds_a_hidden_path(box: Box) -> None:
    (box.root / "one").mkdir()
    hiding = box.hiding(box.hid, box.root / "one", "/usr/share/doc", expose=[box.own])
    plan = hiding.explain()

    for granted in plan.grants:
        assert not any(path.is_relative_to(granted) for path in plan.hidden), granted
        assert not any(granted == path for path in plan.hidden)


def test_the_plan_spells_names_that_are_not_utf8_in_ascii(box: Box) -> None:
    odd = Path(os.fsdecode(bytes(box.root) + b"/\xff\n"))
    odd.mkdir()

    assert box.hiding(odd).explain().hidden == (odd,)


@pytest.mark.denies
def test_a_plan_that_cannot_be_made_is_refused_as_a_launch_would_be(box: Box) -> None:
    for code, options in {
        "hide-missing": ("--hide", box.root / "nope"),
        "expose-reveals-hidden": ("--hide", box.hid, "--expose", box.root),
        "usage": ("--hide", ""),
    }.items():
        explained = box.with_options(*options, "--explain").run(separator=False)
        assert explained.refusal(code).code == code
        box.refuses(code, *options)


@pytest.mark.denies
def test_each_protection_of_the_plan_shows_in_a_launch(box: Box) -> None:
    """S-34: what is called a protection is one."""
    assert box.explain().protections == (
        "capabilities",
        "descriptors",
        "filesystem",
        "keyrings",
        "limits",
        "noNewPrivileges",
        "ports",
        "scopes",
        "sockets",
    )
    stage = [("open", 3, str(box.ok / "a"), os.O_RDONLY)]
    values = box.act(
        ("own-status", "CapEff"),
        ("read-descriptor", 3),
        ("read", box.secret),
        ("own-status", "NoNewPrivs"),
        ("own-status", "Seccomp"),
        ("kill", os.getpid(), 0),
        ("socket", 1, 1, 0),
        stage=stage,
    )
    assert [outcome.error for outcome in values] == [
        "",
        "EBADF",
        "EACCES",
        "",
        "",
        "EPERM",
        "EACCES",
    ]
    assert (int(values[0].value, 16), values[3].value, values[4].value) == (0, "1", "2")


def test_the_help_text_names_every_option(box: Box) -> None:
    result = box.with_options("--help").run(separator=False)

    assert (result.status, result.stderr) == (0, b"")
    for option in (
        "--hide",
        "--hide-optional",
        "--expose",
        "--close-port",
        "--policy-fd",
        "--scan-aliases",
        "--keep-file-capabilities",
        "--explain",
    ):
        assert option in result.text
