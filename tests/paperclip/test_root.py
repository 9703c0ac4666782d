"""The built-in harness when root calls it: a cell runs under a service user, and its evidence is root's."""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from e2e.checkout import (
    PROJECT,
    Checkout,
    Ended,
    Evidence,
    copy_checkout,
    find_interpreter,
    is_alive,
    private_directory,
    wait_for,
)
from runner_e2e.cell.as_user import start_as
from runner_e2e.cell.handover import (
    NOTE_PREFIX,
    WORKPLACE_PREFIX,
    begin_handover,
    make_workplace,
    write_note,
)
from runner_e2e.cell.marked import end_marked, find_left, find_marked
from runner_e2e.cell.process_marks import ProcessMark, read_boot_id
from runner_e2e.cell.readable import Needed, check_readable, choose_nameable
from runner_e2e.cell.service_account import find_account, mark_cell
from runner_e2e.cell.service_user import DEFAULT_ACCOUNT, Identity
from runner_e2e.errors import InputError
from runner_e2e.evidence.redaction import Redactor
from runner_e2e.evidence.verify import verify_artifact

from .cells import new_account
from .paid_provider import (
    ANSWERING,
    CREDENTIAL,
    LOOKING,
    NAME,
    NOTHING_FOUND,
    assert_absent,
    find_files,
    find_holders,
    provider,
)
from .paid_provider import CELL as PAID

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runner_e2e.product.installation import Installation

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root starts cells as somebody else")

# Of this test process alone, so that what cells leave can be told from what others do.
SERVICE_USER = f"re-root-{os.getpid()}"
CELL = "chat-scripted.runner-opencode-scripted.local.chat.single-turn"
PROOF = "chat-scripted.runner-opencode-scripted.local.isolation.two-agents"
CARD = """
schema: runner-e2e.rates/v1
models:
  - {names: [deepseek/deepseek-v4-flash-0731], input: 1, output: 1, max-output-tokens: 100}
"""
ROOTS_OWN = "a-variable-of-root"
TIMEOUT_S = 240.0


@pytest.fixture(scope="module", autouse=True)
def service_user() -> Iterator[int]:
    with new_account(SERVICE_USER) as uid:
        yield uid


@pytest.fixture(scope="module")
def checkout(installation: Installation, service_user: int) -> Iterator[Checkout]:
    """The project where every user may read it and only root may change it, placed as a runner places it."""
    assert installation.directory.is_dir()
    interpreter = find_interpreter(service_user)
    assert interpreter is not None, f"no Python of this version can be run by the user {SERVICE_USER}"
    with private_directory("root") as place:
        project = place / "_actions" / "runner-e2e"
        shutil.copytree(PROJECT / "catalogs", project / "catalogs")
        yield copy_checkout(project, interpreter)


@pytest.fixture
def place() -> Iterator[Path]:
    """Root's own directory, closed to all others."""
    with private_directory("root-desk") as path:
        path.chmod(0o700)
        yield path


@pytest.fixture
def identity() -> Identity:
    account = find_account(SERVICE_USER)
    assert account is not None
    return mark_cell(account)


def start(
    checkout: Checkout, cwd: Path, program: str = "run_cell.py", **environ: str
) -> subprocess.Popen[str]:
    command = [str(checkout.python), "-I", str(checkout.project / "entrypoints" / program)]
    inputs = {"INPUT_HARNESS": "built-in", "INPUT_ID": CELL, "INPUT_SERVICE_USER": SERVICE_USER}
    if program != "run_cell.py":
        inputs = {}
    return checkout.start(command, cwd, {**inputs, ROOTS_OWN: "secret", **environ})


def finish(process: subprocess.Popen[str]) -> Ended:
    try:
        stdout, stderr = process.communicate(timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    return Ended(process.returncode, stdout, stderr)


def run(checkout: Checkout, cwd: Path, program: str = "run_cell.py", **environ: str) -> Ended:
    with start(checkout, cwd, program, **environ) as process:
        return finish(process)


def read_until(process: subprocess.Popen[str], text: str) -> str:
    """Return what a process says up to a line that holds the text."""
    assert process.stdout is not None
    said = ""
    while text not in said:
        line = process.stdout.readline()
        assert line, said
        said += line
    return said


def traces(user: str) -> set[str]:
    """Return what lies in everybody's directories that a user owns, its workplaces, and its processes."""
    uid = pwd.getpwnam(user).pw_uid
    found = set()
    for top in ("/var/tmp", "/tmp", "/dev/shm"):
        for path in Path(top).iterdir():
            with contextlib.suppress(FileNotFoundError):
                if path.lstat().st_uid == uid:
                    found.add(str(path))
    for path in Path("/var/tmp").glob(f"{WORKPLACE_PREFIX}*/home"):
        with contextlib.suppress(FileNotFoundError):
            if path.lstat().st_uid == uid:
                found.add(str(path))
    for process in psutil.process_iter(["uids", "pid", "name"]):
        if process.info["uids"].real == uid and is_alive(process):
            found.add(f"{process.info['name']} {process.info['pid']}")
    return found


@contextlib.contextmanager
def leaving_nothing(cwd: Path, user: str = SERVICE_USER) -> Iterator[None]:
    """Nothing may be left of the user, and no note in the directory of evidence."""
    before = traces(user) if _is_known(user) else set()
    yield
    assert traces(user) - before == set()
    assert list(cwd.rglob(f"{NOTE_PREFIX}*")) == []
    assert [path for path in cwd.rglob("*") if path.lstat().st_uid != 0] == []


def _is_known(user: str) -> bool:
    try:
        pwd.getpwnam(user)
    except KeyError:
        return False
    return True


def evidence_of(cwd: Path, name: str = CELL) -> Evidence:
    return Evidence(cwd / "runner-e2e-evidence" / name)


def read_outputs(path: Path) -> dict[str, str]:
    blocks = re.findall(r"([a-z-]+)<<(\S+)\n(.*)\n\2\n", path.read_text(encoding="utf-8"))
    return {name: value for name, _, value in blocks}


def read_status(pid: int) -> dict[str, str]:
    text = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return {name: value.strip() for name, _, value in (line.partition(":") for line in text.splitlines())}


def test_a_cell_that_root_calls_on_actions_passes_and_nothing_of_it_is_root(
    checkout: Checkout, place: Path, service_user: int
) -> None:
    # As in a container job: everybody may read what the runner keeps, so that agents have to be kept out.
    temporary = checkout.project.parents[1] / "_temp"
    commands = temporary / "_runner_file_commands"
    commands.mkdir(parents=True)
    names = ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY", "GITHUB_ENV", "GITHUB_PATH", "GITHUB_STATE")
    for name in names:
        (commands / name).touch()
    files = {name: str(commands / name) for name in names}
    with leaving_nothing(temporary):
        with start(
            checkout, place, INPUT_ID=PROOF, RUNNER_TEMP=str(temporary), GITHUB_ACTIONS="true", **files
        ) as process:
            said = read_until(process, "agents work")
            below = psutil.Process(process.pid).children(recursive=True)
            seen = []
            for one in below:
                with contextlib.suppress(psutil.Error, OSError):
                    seen.append((one.name(), read_status(one.pid), one.environ()))
                    if "INPUT_HIDE" in seen[-1][2]:
                        owner = Path(f"/proc/{one.pid}/environ").stat().st_uid
            ended = finish(process)
        said += ended.stdout

        assert ended.status == 0, said + ended.stderr
        outputs = read_outputs(commands / "GITHUB_OUTPUT")

    evidence = evidence_of(temporary, PROOF)
    assert len(seen) >= 4  # the cell itself, the server, its database, runners
    marks = {status["Gid"] for _, status, _ in seen}
    assert len(marks) == 1
    for name, status, environ in seen:
        assert set(status["Uid"].split()) == {str(service_user)}, name
        assert {*status["Gid"].split(), *status["Groups"].split()} == {status["Gid"].split()[0]}, name
        assert int(status["CapEff"], 16) == int(status["CapPrm"], 16) == 0, name
        assert status["NoNewPrivs"] == "1", name
        assert ROOTS_OWN not in environ, name
        told = {value for key, value in environ.items() if key != "INPUT_HIDE"}
        assert not any(str(place) in value or str(temporary) in value for value in told), name
    (hidden,) = {environ["INPUT_HIDE"] for _, _, environ in seen if "INPUT_HIDE" in environ}
    # The kernel gives root the variables of a process that its own user may not look into.
    assert owner == 0
    assert {str(temporary), str(temporary.parent / "_actions")} <= set(hidden.split("\n"))
    assert (evidence.cell["status"], evidence.cell["sandbox"]) == ("passed", "enforced")
    assert evidence.cell["leftovers"] == []
    assert {row["reach"] for agent in evidence.agents().values() for row in agent.values()} >= {"tried"}
    assert verify_artifact(evidence.directory, Redactor(())).problems == ()
    assert outputs == {
        "artifact-name": f"runner-e2e-local-1-{PROOF}",
        "evidence-path": str(evidence.directory),
        "status": "passed",
        "failure-class": "",
        "probe-status": "passed",
        "summary-path": str(evidence.directory / "probe-summary.md"),
    }
    assert "passed" in (commands / "GITHUB_STEP_SUMMARY").read_text(encoding="utf-8")
    for name in ("GITHUB_ENV", "GITHUB_PATH", "GITHUB_STATE"):
        assert (commands / name).read_bytes() == b"", name


@pytest.mark.extended
def test_without_a_name_an_account_is_made_for_cells_and_stays(checkout: Checkout, place: Path) -> None:
    was_there = _is_known(DEFAULT_ACCOUNT)
    try:
        with leaving_nothing(place, DEFAULT_ACCOUNT):
            ended = run(checkout, place, INPUT_SERVICE_USER="")

            assert ended.status == 0, ended.stdout + ended.stderr
            assert ("Made the account runner-e2e" in ended.stdout) is not was_there
            assert "The cell runs as the service user runner-e2e" in ended.stdout
            assert f"evidence-path: {place}/runner-e2e-evidence/{CELL}" in ended.stdout
            assert evidence_of(place).cell["status"] == "passed"
            entry = pwd.getpwnam(DEFAULT_ACCOUNT)
            assert 0 < entry.pw_uid < 1000
            assert entry.pw_shell.endswith(("nologin", "false"))
    finally:
        if not was_there:
            subprocess.run(["userdel", DEFAULT_ACCOUNT], check=False)


@pytest.mark.extended
def test_a_cell_that_is_cancelled_leaves_nothing_and_its_record_is_roots(
    checkout: Checkout, place: Path
) -> None:
    with leaving_nothing(place):
        with start(checkout, place) as process:
            read_until(process, "One agent works")
            process.send_signal(signal.SIGTERM)
            ended = finish(process)

        assert ended.status == 143, ended.stdout + ended.stderr
        assert evidence_of(place).cell["status"] == "cancelled"
        assert "status: cancelled" in ended.stdout


def kill(process: subprocess.Popen[str], *, cell_too: bool) -> None:
    """Kill root's process, and the user's that runs the cell, in one moment."""
    (cell,) = psutil.Process(process.pid).children()
    process.send_signal(signal.SIGSTOP)
    if cell_too:
        cell.kill()
    process.kill()
    process.wait()


@pytest.mark.extended
def test_a_cell_whose_processes_were_killed_is_swept_by_root(checkout: Checkout, place: Path) -> None:
    with leaving_nothing(place):
        with start(checkout, place) as process:
            read_until(process, "One agent works")
            kill(process, cell_too=True)
        left = traces(SERVICE_USER)
        assert any(one.endswith("/home") for one in left), "a workplace is there"
        assert any(not one.startswith("/") for one in left), "the server runs on"
        assert not evidence_of(place).directory.exists()

        swept = run(checkout, place, "sweep_cell.py")

        assert swept.status == 3, swept.stdout + swept.stderr
        cell = evidence_of(place).cell
        assert (cell["status"], cell["failureClass"]) == ("failed", "permanent_infrastructure")
        assert cell["running"] is None
        assert cell["sweep"]["processes"] >= 2
        assert cell["sweep"]["rootRemoved"] is True
        assert verify_artifact(evidence_of(place).directory, Redactor(())).problems == ()
    assert run(checkout, place, "sweep_cell.py").stdout == "Nothing was left to sweep\n"


@pytest.mark.extended
def test_a_cell_whose_supervisor_was_killed_ends_by_itself_and_is_taken_over(
    checkout: Checkout, place: Path
) -> None:
    with leaving_nothing(place):
        with start(checkout, place) as process:
            read_until(process, "One agent works")
            kill(process, cell_too=False)

        swept = run(
            checkout,
            place,
            "sweep_cell.py",
            RUNNER_E2E_RUN_OUTCOME="failure",
            RUNNER_E2E_RUN_EVIDENCE=str(evidence_of(place).directory),
        )

        assert swept.status == 143, swept.stdout + swept.stderr
        assert evidence_of(place).cell["status"] == "cancelled"
        assert f"evidence-path: {evidence_of(place).directory}" in swept.stdout


@pytest.mark.parametrize(
    ("name", "says"),
    [
        pytest.param("root", "is root", id="root"),
        pytest.param("no-such-account", "There is no account no-such-account", id="absent"),
        pytest.param("-o", "no name of an account", id="no-name"),
    ],
)
def test_a_service_user_that_cannot_be_used_is_refused(
    checkout: Checkout, place: Path, name: str, says: str
) -> None:
    ended = run(checkout, place, INPUT_SERVICE_USER=name)

    assert ended.status == 2
    assert says in ended.stdout
    assert list(place.iterdir()) == []


def test_somebody_else_than_root_cannot_name_another_user(ordinary: Checkout, desk: Path) -> None:
    command = [str(ordinary.python), "-I", str(ordinary.project / "entrypoints" / "run_cell.py")]
    inputs = {"INPUT_HARNESS": "built-in", "INPUT_ID": "a.b.local.c"}

    other = ordinary.run(command, desk, {**inputs, "INPUT_SERVICE_USER": "daemon"})
    name = pwd.getpwuid(os.geteuid() if ordinary.uid is None else ordinary.uid).pw_name
    own = ordinary.run(command, desk, {**inputs, "INPUT_SERVICE_USER": name})

    assert (other.status, own.status) == (2, 2)
    assert "only root can start a cell as somebody else" in other.stdout
    assert "only root" not in own.stdout  # it is refused later, for its cell


def test_a_checkout_that_the_user_cannot_read_is_named_before_anything_is_made(
    checkout: Checkout, place: Path
) -> None:
    (checkout.project / "entrypoints").chmod(0o700)
    try:
        with leaving_nothing(place):
            ended = run(checkout, place)
    finally:
        (checkout.project / "entrypoints").chmod(0o755)

    assert ended.status == 2
    assert f"the directory {checkout.project}/entrypoints has mode 0700 and belongs to root" in ended.stdout
    assert list(place.iterdir()) == []


def test_code_that_the_user_may_change_is_not_run_by_root(identity: Identity) -> None:
    with private_directory("changeable") as tree:
        file = tree / "code.py"
        file.touch()
        needed = Needed((tree,), ())
        check_readable(identity, needed)
        assert choose_nameable(identity, [tree, Path("/nothing-here")]) == (tree,)

        compiled = tree / "__pycache__" / "code.pyc"
        compiled.parent.mkdir(mode=0o700)
        compiled.touch(mode=0o600)
        check_readable(identity, needed)  # nobody needs to read it
        compiled.parent.chmod(0o755)
        for changed in (file, compiled):
            changed.chmod(0o666)
            for one in (needed, Needed((), (), kept=(tree,)), Needed((), (), code=(changed,))):
                with pytest.raises(InputError, match=f"may change {changed}"):
                    check_readable(identity, one)
            changed.chmod(0o644)
        os.chown(file, identity.uid, -1)
        with pytest.raises(InputError, match=f"may change {file}"):
            check_readable(identity, needed)
        os.chown(file, 0, -1)
        (tree / "open").mkdir()
        (tree / "open" / "code.py").touch()
        (tree / "open").chmod(0o777)
        (tree / "link.py").symlink_to(tree / "open" / "code.py")
        with pytest.raises(InputError, match=f"may change what lies in {tree}/open"):
            check_readable(identity, Needed((), (), code=(tree / "link.py",)))
        (tree / "below").mkdir()
        tree.chmod(0o777)
        with pytest.raises(InputError, match=f"may change what lies in {tree}"):
            check_readable(identity, Needed((tree / "below",), ()))
        with pytest.raises(InputError, match="where root keeps evidence"):
            check_readable(identity, Needed((), (), (tree,)))
        with pytest.raises(InputError, match="root keeps evidence in"):
            check_readable(identity, Needed((), (), (tree / "below",)))


# Leaves what a daemon leaves: another session, another parent, no variables, another directory.
DAEMON = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.chdir("/")
        os.execve("/bin/sleep", ["sleep", "600"], {})
    os._exit(0)
for refused in (
    lambda: os.setgroups([]),
    lambda: os.setgid(int(sys.argv[1])),
    lambda: os.setregid(-1, 0),
    lambda: os.chown(sys.argv[2], -1, int(sys.argv[1])),
):
    try:
        refused()
    except PermissionError:
        continue
    raise SystemExit("not refused")
open(sys.argv[2] + "/ready", "w").close()
time.sleep(600)
"""


def start_daemon(identity: Identity, place: Path) -> subprocess.Popen[bytes]:
    words = ["/usr/bin/python3", "-I", "-c", DAEMON, str(pwd.getpwnam(identity.user).pw_gid), str(place)]
    process = start_as(identity, words, {}, Path("/"), ())
    wait_for((place / "ready").exists, "the program was not ready")
    wait_for(lambda: any(name.startswith("sleep ") for name in find_marked(identity).values()), "no daemon")
    return process


def test_whatever_the_user_starts_is_found_by_its_mark_and_another_cells_is_not(identity: Identity) -> None:
    other = Identity(identity.user, identity.uid, identity.mark + 1)
    with private_directory("marked") as tree:
        started = []
        for one in (identity, other):
            place = tree / str(one.mark)
            place.mkdir()
            os.chown(place, one.uid, one.mark)
            started.append(start_daemon(one, place))
        kept = find_marked(other)

        ended = end_marked(identity)

        assert ended.left == ()
        assert {name.split()[0] for name in ended.ended} >= {"sleep"}
        assert find_marked(identity) == {}
        assert find_marked(other).keys() == kept.keys()
        assert len(kept) >= 2
        assert find_left(identity, [tree]) == [tree / str(identity.mark)]
        end_marked(other)
        assert [process.wait() for process in started] == [-signal.SIGKILL] * 2


def test_what_cannot_be_ended_is_named(identity: Identity) -> None:
    nobody = ProcessMark((1 << 22) - 1, 1)

    ended = end_marked(identity, 0.05, find=lambda _: {nobody: "stuck (1)"})

    assert (ended.ended, ended.left) == ((), ("stuck (1)",))


@pytest.mark.parametrize("forged", [False, True], ids=["no-note", "another-users"])
def test_a_note_that_root_did_not_write_is_told_and_nothing_is_done_for_it(
    checkout: Checkout, place: Path, identity: Identity, *, forged: bool
) -> None:
    parent = place / "runner-e2e-evidence"
    parent.mkdir()
    handover = begin_handover(identity, "a.b.local.c", read_boot_id(), ProcessMark(os.getpid(), 1))
    write_note(handover, parent)
    make_workplace(handover)
    note = handover.note(parent)
    try:
        if forged:
            os.chown(note, identity.uid, identity.mark)
        else:
            note.write_text("{}", encoding="utf-8")

        swept = run(checkout, place, "sweep_cell.py")

        assert swept.status == 3
        assert f"The note {note.name} of a cell under a service user cannot be used" in swept.stdout
        assert handover.home.is_dir()
    finally:
        shutil.rmtree(handover.workplace)


def test_a_program_of_the_user_does_not_outlive_the_process_that_started_it(identity: Identity) -> None:
    program = (
        "import sys, json, pathlib; sys.path.insert(0, sys.argv[1]);"
        "from runner_e2e.cell.as_user import start_as; from runner_e2e.cell.service_user import Identity;"
        "i = Identity(*json.loads(sys.argv[2]));"
        "start_as(i, ['/bin/sleep', '600'], {}, pathlib.Path('/'), ());"
        "print('up', flush=True); sys.stdin.read()"
    )
    words = json.dumps([identity.user, identity.uid, identity.mark])
    with subprocess.Popen(
        [sys.executable, "-I", "-c", program, str(PROJECT / "lib"), words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        assert len(find_marked(identity)) == 1
        process.kill()
        process.wait()

    deadline = time.monotonic() + 5
    while find_marked(identity) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert find_marked(identity) == {}


@pytest.mark.extended
def test_the_credential_in_roots_variables_reaches_the_gateway_and_nobody_else(
    checkout: Checkout, place: Path
) -> None:
    """A rate card that is named from here has to be found by the user's process, and read."""
    place.chmod(0o755)
    (place / "rates.yaml").write_text(CARD, encoding="ascii")
    with private_directory("paid-provider") as aside, provider(aside, LOOKING, ANSWERING) as model:
        paying = {
            NAME: CREDENTIAL,
            "INPUT_PROVIDER_BASE_URL": model.base_url,
            "INPUT_MAX_COST_USD": "10",
            "INPUT_RATE_CARD": "rates.yaml",
        }
        with leaving_nothing(place):
            with start(checkout, place, INPUT_ID=PAID, **paying) as process:
                said = read_until(process, "One agent works")
                holders, files = find_holders(process.pid), find_files(process.pid)
                ended = finish(process)

            assert ended.status == 0, said + ended.stdout + ended.stderr
        found = str(model.requests[-1]["toolResults"])
    assert NOTHING_FOUND in found
    assert [re.sub("[0-9.]+", "", one) for one in sorted(holders)] == ["cell", "python ()"]
    assert files == []
    evidence = evidence_of(place, PAID)
    spending = evidence.cell["spending"]
    assert (spending["status"], spending["requests"]) == ("priced", 2)
    assert spending["costUsd"] > 0
    assert_absent(evidence)
    assert CREDENTIAL not in said + ended.stdout + ended.stderr
