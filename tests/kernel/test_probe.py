"""The probe: it passes through the production wrapper, and every weakness of that makes it fail."""

import os
import time
from pathlib import Path

import pytest

from kernel.harness import Identity
from kernel.probing import Probe, observed
from runner_e2e.isolation.layout import HIDDEN_IN_INSTANCE, INSTANCE, PLACES
from runner_e2e.probe.checks import CHECKS, TEMPORARY_ROOT_CHECKS, Expected, Layout, checks_for

pytestmark = pytest.mark.kernel

DENIED = [check.id for check in CHECKS if check.expected is Expected.DENIED]
ALLOWED = [check.id for check in CHECKS if check.expected is Expected.ALLOWED]
RECORDED = [check.id for check in CHECKS if check.expected is Expected.RECORDED]
EVERYTHING = [check.id for check in CHECKS]
ENTRY = "entrypoints/sandboxed_runnerd.py"
PATHS = "lib/runner_e2e/isolation/paths.py"
LAYOUT = "lib/runner_e2e/isolation/layout.py"
LAUNCHING = "lib/runner_e2e/launch/launching.py"
OBSERVER = "lib/runner_e2e/probe/observer.py"
CALL = "    return launch(__file__, sys.argv[1:])\n"


def test_the_production_wrapper_passes(probe: Probe) -> None:
    record = probe.run()

    assert record["passed"] is True, record
    assert record["failures"] == []
    assert "problem" not in record
    found = observed(record)
    assert {found[name] for name in DENIED} == {"denied"}
    assert {found[name] for name in ALLOWED} == {"allowed"}
    assert {row["control"] for row in record["checks"]} == {"allowed"}
    assert {entry["outcome"] for entry in record["protections"].values()} == {"enforced"}
    assert record["abi"] >= 6


def test_recorded_checks_have_the_values_known_so_far(probe: Probe) -> None:
    """A change of these is no failure, but somebody has to look at it."""
    found = observed(probe.run())

    known = {check.id: check.known for check in CHECKS if check.expected is Expected.RECORDED}
    assert {name: found[name] for name in RECORDED} == known


def test_a_launch_without_the_wrapper_fails_every_denied_check(probe: Probe) -> None:
    """S-48."""
    record = probe.run(sandboxed=False)

    assert record["failures"] == DENIED
    assert "did not go through the wrapper" in record["problem"]
    assert {observed(record)[name] for name in DENIED} == {"allowed"}


def test_an_inert_wrapper_fails_every_denied_check(probe: Probe) -> None:
    """S-48."""
    probe.edit(
        ENTRY,
        (
            CALL,
            """\
    import json, os
    with open(f"{root}/private/runnerd.json") as file:
        runner = json.load(file)["runner"]
    os.execv(runner, [runner, *sys.argv[1:]])
""",
        ),
    )

    record = probe.run()

    assert record["passed"] is False
    assert record["failures"] == DENIED
    assert "left no line in the journal" in record["problem"]


def test_a_wrapper_that_cannot_run_proves_nothing(probe: Probe) -> None:
    probe.edit(ENTRY, (CALL, "    return 0\n"))

    record = probe.run()

    assert record["failures"] == EVERYTHING
    assert set(observed(record).values()) == {"missing"}


# Where the instance lies in a temporary root of the target's harness.

IN_A_ROOT = {"layout": Layout.TEMPORARY_ROOT}
AROUND = [check.id for check in TEMPORARY_ROOT_CHECKS]
NOT_WITHHELD = ('*((os.fsencode(directory), b"") for directory in scope.withheld),', "")


def test_the_production_wrapper_passes_where_the_instance_lies_in_a_temporary_root(probe: Probe) -> None:
    record = probe.run(**IN_A_ROOT)

    assert record["passed"] is True, record
    found = observed(record)
    assert list(found) == [check.id for check in checks_for(Layout.TEMPORARY_ROOT)]
    assert {found[name] for name in (*DENIED, *AROUND)} == {"denied"}
    assert {found[name] for name in ALLOWED} == {"allowed"}
    assert {row["control"] for row in record["checks"]} == {"allowed"}
    known = {check.id: check.known for check in CHECKS if check.expected is Expected.RECORDED}
    assert {name: found[name] for name in RECORDED} == known


def test_without_the_wrapper_everything_around_a_temporary_root_is_open(probe: Probe) -> None:
    record = probe.run(sandboxed=False, **IN_A_ROOT)

    assert record["failures"] == [*DENIED, *AROUND]
    assert {observed(record)[name] for name in AROUND} == {"allowed"}


def test_a_launcher_that_grants_what_lies_beside_fails_the_checks_of_other_roots(probe: Probe) -> None:
    probe.edit(LAUNCHING, NOT_WITHHELD)

    assert probe.run(**IN_A_ROOT)["failures"] == ["run:otherInstance", "run:otherTemporaryRoot"]


def test_a_launcher_that_hides_nothing_in_the_temporary_root_fails_all_of_them(probe: Probe) -> None:
    probe.edit(LAUNCHING, NOT_WITHHELD)
    probe.append(PATHS, "HIDDEN_IN_TEMPORARY_ROOT = ()")

    assert probe.run(**IN_A_ROOT)["failures"] == ["run:otherInstance", *AROUND]


# A policy that hides too little: exactly what it shows fails.

SHOWN = {
    "runtime/paperclip-runner/control-plane": ["run:controlPlaneState"],
    "data/run-logs": ["run:otherRunLog"],
    "data/workspace-operation-logs": ["run:otherOperationLog"],
    "data/backups": ["run:backups"],
    "db": ["run:databaseWal"],
    "secrets": ["run:secrets"],
    "logs": ["run:serverLogs"],
    ".env": ["run:instanceEnvFile"],
}
# Of these a launch shows its own part, which is refused when the rest is not hidden. What has neither a check
# nor an own part is proven by the launcher alone, as is every hidden path.
WITH_OWN_PART = [
    name
    for name in HIDDEN_IN_INSTANCE
    if any(place == INSTANCE and pattern.startswith(f"{name}/") for place, pattern, _, _ in PLACES)
    and name not in SHOWN
]


@pytest.mark.parametrize("name", SHOWN)
def test_a_part_of_the_instance_that_is_not_hidden_fails_its_check(name: str, probe: Probe) -> None:
    probe.append(PATHS, f"HIDDEN_IN_INSTANCE = tuple(n for n in HIDDEN_IN_INSTANCE if n != {name!r})")

    record = probe.run()

    assert record["failures"] == SHOWN[name]
    assert {observed(record)[check] for check in SHOWN[name]} == {"allowed"}


@pytest.mark.parametrize("name", WITH_OWN_PART)
def test_a_part_that_is_shown_with_the_own_part_in_it_is_refused(name: str, probe: Probe) -> None:
    probe.append(PATHS, f"HIDDEN_IN_INSTANCE = tuple(n for n in HIDDEN_IN_INSTANCE if n != {name!r})")

    record = probe.run()

    assert record["failures"] == EVERYTHING
    assert "expose-outside-hidden" in record["problem"]


@pytest.mark.parametrize(
    ("name", "check"),
    [
        ("private", "base:privateAttempt"),
        ("target/tests", "base:harnessTests"),
        ("target/.git", "base:gitStore"),
        ("runner-temp", "base:runnerTemp"),
    ],
)
def test_a_part_of_the_harness_that_is_not_hidden_fails_its_check(
    name: str, check: str, probe: Probe
) -> None:
    assert probe.run(shown=[name])["failures"] == [check]


@pytest.mark.parametrize(
    ("file", "replacement", "checks"),
    [
        pytest.param(
            LAUNCHING,
            ("os.fsencode(settings.withhold_prefix)", 'b"other-"'),
            ["base:otherAttempt"],
            id="other-attempts",
        ),
        pytest.param(
            LAUNCHING,
            ('*((os.fsencode(directory), b"") for directory in scope.withheld),', ""),
            ["run:otherInstance"],
            id="other-instances",
        ),
        pytest.param(
            LAUNCHING,
            ("read_only = {root}", "read_only: set[bytes] = set()"),
            ["base:wrapperWrite", "base:runnerWrite", "base:outsideWrite"],
            id="writable-root",
        ),
        pytest.param(
            LAYOUT,
            (", *_named(INSTANCE, READABLE))", ")"),
            ["run:sharedAssetsWrite"],
            id="writable-assets",
        ),
        pytest.param(
            LAUNCHING,
            ("ports.find_ports(scope.instance, settings.close_ports)", "()"),
            ["run:databasePort"],
            id="open-port",
        ),
    ],
)
def test_a_launcher_that_grants_too_much_fails_the_check(
    file: str, replacement: tuple[str, str], checks: list[str], probe: Probe
) -> None:
    probe.edit(file, replacement)

    assert probe.run()["failures"] == checks


@pytest.mark.parametrize(
    ("protection", "checks"),
    [
        ("sockets", ["base:dockerSocket", "base:userBus"]),
        ("scopes", ["base:signalHarness"]),
        ("ports", ["run:databasePort"]),
        ("limits", ["run:harnessLimits"]),
    ],
)
def test_a_protection_that_is_off_fails_its_checks(protection: str, checks: list[str], probe: Probe) -> None:
    record = probe.run(levels={protection: "off"})

    assert record["failures"] == checks
    assert record["protections"][protection]["outcome"] == "off"


def test_root_that_keeps_its_capabilities_reads_the_harnesss_environment(probe: Probe) -> None:
    record = probe.run(levels={"capabilities": "off"})

    as_root = probe.identity is Identity.ROOT
    assert ("run:harnessEnviron" in record["failures"]) is as_root
    assert record["passed"] is not as_root


# An observer that does not do its work inside the domain. Outside it does, so that the controls hold.

STUB = """
def whole_answer():
    import contextlib, io
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        main()
    return json.loads(out.getvalue())


def say(answer):
    print(json.dumps(answer))


with open("/proc/self/status") as file:
    inside = "NoNewPrivs:\\t1" in file.read()
if not inside:
    sys.exit(main())
"""

NO_ANSWER = {
    "nothing": "sys.exit(0)",
    "failure": "sys.exit(1)",
    "killed": "os.kill(os.getpid(), 9)",
    "garbage": 'print("{")',
    "not-text": r'os.write(1, b"\xff\xfe\x00")',
    "noise-before": 'print("warning"); say(whole_answer())',
    "noise-after": 'say(whole_answer()); print("warning")',
    "twice": "say(whole_answer()); say(json.loads('{}'))",
    "another-nonce": 'say(whole_answer() | {"nonce": "0"})',
    "another-end": 'say(whole_answer() | {"end": "0"})',
    "no-end": 'a = whole_answer(); del a["end"]; say(a)',
    "cut-off": "a = json.dumps(whole_answer()); print(a[:-20])",
    "double-rows": 'a = whole_answer(); a["observations"] += a["observations"][:1]; say(a)',
    "broken-row": 'a = whole_answer(); a["observations"][0]["data"] = "="; say(a)',
    "no-rows": 'say(whole_answer() | {"observations": None})',
}


def stub(probe: Probe, action: str, prelude: str = STUB) -> str:
    text = (probe.place / "project" / OBSERVER).read_text()
    head, separator, _ = text.partition('if __name__ == "__main__":')
    assert separator
    path = probe.place / "observer.py"
    path.write_text(f"{head}{prelude}{action}\n")
    return str(path)


def test_the_stubs_themselves_answer_well(probe: Probe) -> None:
    """Control of the tests below: the same stub with an honest answer passes."""
    assert probe.run(observer=stub(probe, "say(whole_answer())"))["passed"] is True


@pytest.mark.parametrize("action", NO_ANSWER.values(), ids=NO_ANSWER.keys())
def test_an_observer_without_a_usable_answer_proves_nothing(action: str, probe: Probe) -> None:
    record = probe.run(observer=stub(probe, action))

    assert record["passed"] is False
    assert record["failures"] == EVERYTHING
    assert set(observed(record).values()) == {"missing"}
    assert "gave no usable answer" in record["problem"]


def test_an_observer_that_hangs_is_ended_and_proves_nothing(probe: Probe) -> None:
    started = time.monotonic()

    record = probe.run(observer=stub(probe, "import time; time.sleep(600)"), timeout_s=2.0)

    assert time.monotonic() - started < 20
    assert record["failures"] == EVERYTHING
    assert "within 2 s" in record["problem"]
    assert processes_of(probe.root) == []


def test_without_a_control_nothing_is_proven(probe: Probe) -> None:
    """The observer works inside the domain only."""
    prelude = STUB.replace("if not inside:\n    sys.exit(main())\n", "if not inside:\n    sys.exit(0)\n")

    record = probe.run(observer=stub(probe, "say(whole_answer())", prelude))

    assert record["failures"] == EVERYTHING
    assert {row["control"] for row in record["checks"]} == {"missing"}
    assert all("control" in row["problem"] for row in record["checks"])


@pytest.mark.parametrize("number", [2, 5, 20, 110, -1])
def test_only_permission_denied_is_a_denial(number: int, probe: Probe) -> None:
    action = f"""
answer = whole_answer()
for row in answer["observations"]:
    row["errno"] = {number} if row["errno"] else 0
say(answer)"""

    record = probe.run(observer=stub(probe, action))

    assert set(DENIED) <= set(record["failures"])
    assert not set(record["failures"]) & set(ALLOWED)
    assert not {observed(record)[name] for name in DENIED} & {"allowed", "denied"}


def test_an_observer_that_calls_everything_denied_fails_what_has_to_work(probe: Probe) -> None:
    action = """
answer = whole_answer()
for row in answer["observations"]:
    row |= {"errno": 13, "data": ""}
say(answer)"""

    assert probe.run(observer=stub(probe, action))["failures"] == ALLOWED


def test_checks_that_are_left_out_fail_and_no_others(probe: Probe) -> None:
    action = 'a = whole_answer(); a["observations"] = a["observations"][::2]; say(a)'

    record = probe.run(observer=stub(probe, action))

    assert record["failures"] == EVERYTHING[1::2]


def processes_of(root: Path) -> list[str]:
    """Return the command lines that still name an attempt."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes()
        except OSError:
            continue
        if os.fsencode(root) in words:
            found.append(words.decode())
    return found
