"""Launches whose instance lies in a temporary root that the target's harness made, beside other roots."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kernel.harness import SECRET, Act, Arg, Identity, Installation, finish, wait_until
from kernel.launching import INSTANCES, STATE, Launcher, install, make_workspace, write
from kernel.results import outcomes

pytestmark = pytest.mark.kernel

OWN = "paperclip-runner-e2e-own"
OTHER = "paperclip-runner-e2e-oth.er-1"
# Of the own temporary root.
HARNESS_FILES = (
    "artifacts-private/cases/case/result.json",
    "control/server-restart.request.json",
    "storage/company/attachment",
    "backups/1.sql",
    "xdg-cache/tool/state",
    "left-by-a-tool",
    "paperclip-home/context.json",
)


@pytest.fixture
def launcher(identity: Identity, installation: Installation) -> Iterator[Launcher]:
    place = Path(tempfile.mkdtemp(prefix="roots-", dir="/var/tmp"))
    try:
        made = Launcher(
            place,
            place / "beside",
            identity,
            installation,
            instances=f"t/{OWN}/{INSTANCES}",
            parent=f"t/*/{INSTANCES}",
        )
        install(made)
        write(made.outside / "file", "beside")
        write(made.root / "private" / "home" / "note")
        for file in HARNESS_FILES:
            write(temporary_root(made) / file)
        write(temporary_root(made) / "workspace" / "file", "work")
        fill(made)
        yield made
    finally:
        shutil.rmtree(place)


def temporary_root(launcher: Launcher) -> Path:
    return launcher.instance.parents[2]


def fill(launcher: Launcher) -> list[Path]:
    """Make another run in the instance, and what the server keeps there."""
    return [
        write(launcher.instance / name)
        for name in (
            "runtime/paperclip-runner/durable-sessions/other/runner/state.json",
            "runtime/paperclip-runner/opencode/other/data",
            "data/run-logs/company/agent/other.ndjson",
            "data/provider-traces/other.ndjson",
            "db/pg_wal/0001",
            "secrets/master.key",
            ".env",
        )
    ]


def other_instance(launcher: Launcher, name: str = OTHER) -> Launcher:
    """A second temporary root of the same attempt, made in the same way."""
    found = replace(launcher, instances=f"t/{name}/{INSTANCES}")
    make_workspace(found)
    write(found.workspace / "report")
    write(temporary_root(found) / "workspace" / "file")
    fill(found)
    return found


def refused(launcher: Launcher, code: str) -> dict[str, Any]:
    """Assert that a launch is refused with `code`, and that the runner would have started there."""
    before = len(launcher.journal())
    result = launcher.run("echo", "started")
    assert (result.status, result.stdout, result.stderr) == (125, b"", b""), result
    (record,) = launcher.journal()[before:]
    assert record["code"] == code, record
    assert launcher.run("echo", "started", sandboxed=False).text == "started\n"
    return record


# What is shown.


def test_the_own_instance_and_the_workspace_of_its_root_are_there_to_work_in(launcher: Launcher) -> None:
    root = temporary_root(launcher)

    assert launcher.allows(
        ("read", root / "workspace" / "file"),
        ("write", root / "workspace" / "file", os.O_APPEND, "x"),
        ("create", root / "workspace" / "new"),
        ("list", root / "workspace"),
        ("create", launcher.workspace / "new"),
        ("create", launcher.instance / "companies/company/agents/agent" / "new"),
        ("create", launcher.instance / "projects/company" / "new"),
        ("create", launcher.instance / Path(STATE).parent / "new"),
        ("create", launcher.instance / "runtime/paperclip-runner/opencode/s/new"),
        ("create", launcher.instance / "runtime/paperclip-runner/runner/r/new"),
    )[:1] == ["work"]


@pytest.mark.denies
def test_the_own_trace_is_written_and_another_is_not_read(launcher: Launcher) -> None:
    traces = launcher.instance / "data" / "provider-traces"
    own = write(traces / "own.ndjson", "{}")
    environ = {"PAPERCLIP_PROVIDER_TRACE_PATH": str(own)}

    launcher.allows(("write", own, os.O_APPEND, "{}"), ("read", own), environ=environ)
    launcher.denies(("read", traces / "other.ndjson"), ("list", traces), environ=environ)


# What is not.


@pytest.mark.denies
def test_of_the_directory_of_all_temporary_roots_nothing_else_is_seen(launcher: Launcher) -> None:
    directory = launcher.root / "t"
    beside = [
        write(directory / "paperclip-opencode-config-abc" / "config.json"),
        write(directory / "paperclip-run-PAP-1-another-abc" / "note"),
        write(directory / "playwright-artifacts" / "trace"),
        write(directory / "file"),
    ]
    root = temporary_root(launcher)

    launcher.denies(
        ("list", directory),
        ("list", root),
        ("list", root / "paperclip-home"),
        ("list", launcher.instance.parent),
        *(("read", path) for path in beside),
        *(("read", root / file) for file in HARNESS_FILES),
        *(("list", (root / file).parent) for file in HARNESS_FILES if "/" in file),
        ("read", launcher.root / "private" / "home" / "note"),
        ("create", directory / "new"),
        ("create", root / "new"),
        ("create", root / "control" / "server-restart.ack.json"),
        ("create", root / "paperclip-home" / "new"),
    )
    assert launcher.allows(("read", launcher.outside / "file")) == ["beside"]


@pytest.mark.denies
def test_the_own_instance_is_as_closed_as_anywhere(launcher: Launcher) -> None:
    hidden = fill(launcher)

    launcher.denies(*(("read", path) for path in hidden))
    record = launcher.journal()[0]
    root = temporary_root(launcher)
    named = {str(root / name) for name in ("artifacts-private", "control", "storage", "backups", "xdg-cache")}
    assert named | {str(launcher.instance / "secrets")} < set(record["hidden"])
    assert record["owner"] == str((launcher.instance / STATE).parent)


@pytest.mark.denies
def test_places_that_come_later_in_the_own_root_stay_closed(launcher: Launcher) -> None:
    root = temporary_root(launcher)
    for name in ("control", "artifacts-private"):
        shutil.rmtree(root / name)
    ready, go = launcher.workspace / "ready", launcher.workspace / "go"
    later = [
        root / "control" / "server-restart.request.json",
        root / "artifacts-private" / "result.json",
        root / "new" / "file",
        launcher.root / "t" / "paperclip-runner-e2e-later" / "artifacts-private" / "result.json",
        launcher.root / "t" / "paperclip-runner-e2e-later" / "workspace" / "file",
    ]
    acts: tuple[Act, ...] = (("create", ready), ("wait-for", go), *(("read", path) for path in later))

    with launcher.start(*launcher.acting(*acts)) as process:
        wait_until(ready.exists)
        for path in later:
            write(path)
        go.touch()
        inside = outcomes(finish(process))

    assert [outcome.error for outcome in inside] == ["", "", *["EACCES"] * len(later)]
    control = launcher.act(*(("read", path) for path in later), sandboxed=False)
    assert {outcome.value for outcome in control} == {SECRET}


@pytest.mark.denies
def test_two_launches_at_the_same_time_in_two_roots_do_not_see_each_other(launcher: Launcher) -> None:
    """Nor does either see what the other writes while it runs."""
    pair = [launcher, other_instance(launcher)]
    found = []
    for own, other in (pair, pair[::-1]):
        seen: list[Arg] = [
            other.workspace / "written",
            temporary_root(other) / "workspace" / "written",
            other.instance / "secrets" / "master.key",
            other.instance / Path(STATE).parent / "written",
        ]
        ways = [
            ("create", own.workspace / "written"),
            ("create", own.instance / Path(STATE).parent / "written"),
        ]
        ways += [
            ("create", temporary_root(own) / "workspace" / "written"),
            ("create", own.workspace / "ready"),
        ]
        acts: list[Act] = [*ways, ("wait-for", own.workspace / "go"), *(("read", path) for path in seen)]
        found.append((own, acts, seen))

    commands = [own.acting(*acts) for own, acts, _ in found]
    with pair[0].start(*commands[0]) as one, pair[1].start(*commands[1]) as two:
        wait_until(lambda: all((own.workspace / "ready").exists() for own in pair))
        for own in pair:
            write(own.workspace / "go")
        answers = [outcomes(finish(process)) for process in (one, two)]

    for answer, (own, acts, seen) in zip(answers, found, strict=True):
        expected = [""] * (len(acts) - len(seen)) + ["EACCES"] * len(seen)
        assert [outcome.error for outcome in answer] == expected
        control = own.act(*(("read", path) for path in seen), sandboxed=False)
        assert [outcome.error for outcome in control] == [""] * len(seen)
    assert len({record["owner"] for record in launcher.journal()}) == 2


# Directories of one run beside the temporary root; every launch here is of the run `r`.


@pytest.mark.denies
def test_directories_of_the_own_run_are_shown_and_those_of_others_are_not(launcher: Launcher) -> None:
    directory = launcher.root / "t"
    own = [
        write(directory / name / "file", "own") for name in ("paperclip-run-PAP-1-r-aBc1", "paperclip-run-r")
    ]
    others = [
        write(directory / name / "file")
        for name in (
            "paperclip-run-PAP-1-other-aBc1",
            "paperclip-run-PAP-r-other-aBc1",
            "paperclip-run-PAP-1-rr-aBc1",
            "paperclip-run-PAP-1r-aBc1",
            "paperclip-opencode-config-r",
            "r",
        )
    ]
    link = directory / "paperclip-run-PAP-2-r-link"
    link.symlink_to(directory / "r")

    assert launcher.allows(*(("read", path) for path in own)) == ["own", "own"]
    launcher.allows(*(("create", path.parent / "new") for path in own))
    launcher.denies(
        *(("read", path) for path in (*others, link / "file")),
        *(("create", path.parent / "new") for path in others),
    )


# Names.


@pytest.mark.denies
@pytest.mark.parametrize("name", ["a", "a.b-c_d", "...", "-", "-rf", "re-own", "x" * 200])
def test_any_plain_name_of_a_temporary_root_serves(name: str, launcher: Launcher) -> None:
    named = other_instance(launcher, name)
    note = write(launcher.workspace / "note")

    assert named.allows(("read", named.workspace / "report")) == [SECRET]
    named.denies(("read", note), ("read", named.instance / ".env"))


@pytest.mark.denies
@pytest.mark.parametrize("name", ["*", "a b", "ü", os.fsdecode(b"\xff"), "a\nb", "a*"])
def test_a_temporary_root_with_another_name_is_refused(name: str, launcher: Launcher) -> None:
    """Also one that is really called `*`."""
    assert refused(other_instance(launcher, name), "usage")["path"] is None


@pytest.mark.denies
@pytest.mark.parametrize(
    ("code", "instances"),
    [
        ("usage", f"t/{OWN}/../{OTHER}/{INSTANCES}"),
        ("usage", f"t/../t/{OTHER}/{INSTANCES}"),
        ("expose-outside-hidden", f"t/{OTHER}/deeper/{INSTANCES}"),
        ("expose-outside-hidden", f"t/{INSTANCES}"),
        ("expose-outside-hidden", f"t/{OTHER}/{INSTANCES}/deeper"),
        ("expose-outside-hidden", f"t/{OTHER}/paperclip-homes/instances"),
        ("expose-outside-hidden", f"s/{OTHER}/{INSTANCES}"),
        ("expose-outside-hidden", f"private/t/{OTHER}/{INSTANCES}"),
        ("expose-outside-hidden", INSTANCES),
    ],
)
def test_an_instance_elsewhere_is_refused_and_nothing_is_created_in_it(
    code: str, instances: str, launcher: Launcher
) -> None:
    other_instance(launcher)
    moved = replace(launcher, instances=instances)
    make_workspace(moved)
    before = sorted(moved.instance.rglob("*"))

    refused(moved, code)

    assert sorted(moved.instance.rglob("*")) == before


@pytest.mark.denies
@pytest.mark.parametrize("place", ["star", "paperclip-home", "instances", "instance"])
def test_a_symlink_on_the_way_to_the_instance_is_refused(place: str, launcher: Launcher) -> None:
    """The name would be planned for, and what it leads to be open."""
    real = other_instance(launcher)
    linked = replace(launcher, instances=f"t/linked/{INSTANCES}")
    steps = [(linked.instance, real.instance)]
    steps += zip(linked.instance.parents, real.instance.parents, strict=False)
    link, target = steps[["instance", "instances", "paperclip-home", "star"].index(place)]
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(target)
    before = sorted(real.instance.rglob("*"))

    record = refused(linked, "expose-symlink")

    assert record["path"] == str(link)
    assert sorted(real.instance.rglob("*")) == before


@pytest.mark.denies
@pytest.mark.parametrize("name", ["missing", "file"])
def test_an_instance_that_does_not_exist_is_refused(name: str, launcher: Launcher) -> None:
    write(launcher.root / "t" / "file")
    moved = replace(launcher, instances=f"t/{name}/{INSTANCES}", cwd=launcher.workspace)

    refused(moved, "path-unresolvable")

    assert not (launcher.root / "t" / "missing").exists()


@pytest.mark.denies
def test_an_agent_cannot_change_the_way_to_its_own_instance(launcher: Launcher) -> None:
    """Each step is a directory on the way to something hidden: there nothing is made, renamed or removed."""
    steps = [launcher.instance, *launcher.instance.parents[:3]]
    fresh = launcher.root / "t" / "empty"
    fresh.mkdir()

    for step in steps:
        aside = step.parent / "moved-aside"
        inside = launcher.act(
            ("rename", step, aside), ("symlink", "/tmp", step.parent / "link"), ("rmdir", fresh)
        )
        assert [outcome.error for outcome in inside] == ["EACCES"] * 3, inside
        assert step.is_dir()
        assert not aside.exists()
        control = launcher.act(("rename", step, aside), ("rename", aside, step), sandboxed=False)
        assert [outcome.error for outcome in control] == ["", ""]
    assert launcher.act(("rmdir", fresh), sandboxed=False)[0].error == ""


@pytest.mark.denies
def test_a_call_that_concerns_no_instance_sees_no_temporary_root(launcher: Launcher) -> None:
    asking = replace(launcher, words=("--build-metadata",))
    file = write(launcher.root / "t" / "file")

    asking.denies(
        ("read", file),
        ("read", temporary_root(launcher) / "workspace" / "file"),
        ("read", launcher.instance / ".env"),
        ("list", launcher.root / "t"),
    )
    assert launcher.journal()[0]["owner"] == ""


# Programs that runnerd is told to start.


@pytest.mark.denies
@pytest.mark.parametrize(
    "option",
    [
        "--opencode-executable",
        "--opencode-proxy-command",
        "--opencode-proxy-script",
        "--acpx-sidecar-command",
        "--acpx-sidecar-script",
        "--fake-harness-script",
    ],
)
@pytest.mark.parametrize("form", ["joined", "separate"])
def test_a_program_that_would_be_closed_is_refused_by_its_option(
    option: str, form: str, launcher: Launcher
) -> None:
    hidden = {
        "private": write(launcher.root / "private" / "tool"),
        "control": write(temporary_root(launcher) / "control" / "tool"),
        "beside": write(launcher.root / "t" / "tools" / "tool"),
    }
    link = launcher.outside / "link"
    link.symlink_to(hidden["private"])

    for path in (*hidden.values(), link):
        words = [f"{option}={path}"] if form == "joined" else [option, str(path)]
        record = refused(replace(launcher, words=(*launcher.own_words, *words)), "command-hidden")
        assert option in record["message"]
        assert record["path"] == str(path.resolve())


def test_a_program_that_stays_visible_or_is_no_absolute_path_is_left_to_runnerd(launcher: Launcher) -> None:
    hidden = write(launcher.root / "private" / "tool")
    words: list[Arg] = [
        "--opencode-executable",
        launcher.outside / "file",
        f"--opencode-proxy-command={shutil.which('env')}",
    ]
    words += ["--opencode-proxy-script", os.path.relpath(hidden, launcher.workspace)]
    words += ["--acpx-sidecar-command", "node", "--fake-harness-script", "/no/such/script"]
    words += ["--opencode-proxy-script-sha256", hidden, "--acpx-sidecar-command="]

    asking = replace(launcher, words=(*launcher.own_words, *words))

    assert asking.run("echo", "started").text == "started\n"


# What a launch inherits.


@pytest.mark.denies
def test_a_working_directory_or_stream_beside_what_is_shown_is_refused(launcher: Launcher) -> None:
    """Nothing in it could be opened by name, and an open directory could be listed."""
    directory = launcher.root / "t" / "left-by-a-tool"
    write(directory / "log")
    root = temporary_root(launcher)

    for place, code in (
        (directory, "cwd-hidden"),
        (root / "xdg-cache", "cwd-hidden"),
        (root / "new", "cwd-hidden"),
        (root, "cwd-ancestor"),
        (launcher.root / "t", "cwd-ancestor"),
    ):
        place.mkdir(exist_ok=True)
        assert refused(replace(launcher, cwd=place), code)["path"] == str(place)
    with (directory / "log").open("rb") as log:
        record = refused(replace(launcher, stdin=log.fileno()), "stdio-hidden")
        assert record["path"] == str(directory / "log")
    assert replace(launcher, cwd=root / "workspace").run("pwd").text == f"{root}/workspace\n"
