"""What the launcher leaves alone: the command's words, environment, streams, signals and status."""

import errno
import os
import signal
import time
from pathlib import Path

import pytest

from kernel.harness import SECRET, Arg, Box, Identity, finish, tool, wait_until

pytestmark = pytest.mark.kernel


def test_the_exit_status_is_the_commands(box: Box) -> None:
    """S-47."""
    for status in (0, 1, 7, 125, 126, 127, 255):
        assert box.run("sh", "-c", f"exit {status}").status == status


def test_death_by_a_signal_is_the_commands(box: Box) -> None:
    """S-47."""
    for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV, signal.SIGPIPE):
        assert box.run("sh", "-c", f"kill -{number:d} $$").status == -number


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_to_the_launchers_pid_reaches_the_command(box: Box, number: int) -> None:
    """S-47: it is the same process."""
    with box.start("sh", "-c", 'echo $$ >"$1/up"; exec sleep 60', "sh", box.ok) as process:
        wait_until(lambda: (box.ok / "up").exists() and (box.ok / "up").read_text() != "")
        assert (box.ok / "up").read_text() == f"{process.pid}\n"
        process.send_signal(number)
        assert finish(process).status == -number


@pytest.mark.parametrize("delay_ms", [0, 5, 10, 15, 20, 30, 45])
def test_a_signal_while_starting_ends_it(box: Box, delay_ms: int) -> None:
    """S-47: whoever stops the harness stops the launch, wherever it has got to."""
    with box.start("sleep", "60") as process:
        time.sleep(delay_ms / 1000)
        process.send_signal(signal.SIGTERM)
        assert finish(process).status == -signal.SIGTERM
    with box.start("sleep", "60") as process:
        wait_until(lambda: started_python(process.pid))
        time.sleep(delay_ms / 1000)
        process.send_signal(signal.SIGINT)
        result = finish(process, interrupted=True)
    # 1 is the interpreter's own answer to an interrupt before it has read a line of ours.
    assert result.status in (-signal.SIGINT, 1), result


def started_python(pid: int) -> bool:
    """Whether the process got past exec, so that a signal reaches the launcher and not our fork.

    On a busy machine it may have become the command already.
    """
    line = Path(f"/proc/{pid}/cmdline").read_bytes()
    return b"--hide" in line or line.startswith(b"sleep\0")


@pytest.mark.parametrize(
    ("setup", "command", "status", "number"),
    [
        (None, "nosuchcmd", 127, errno.ENOENT),
        (None, "/no/such/cmd", 127, errno.ENOENT),
        ("plain", "{}/ok/plain", 126, errno.EACCES),
        ("no-magic", "{}/ok/no-magic", 126, errno.ENOEXEC),
        ("no-interpreter", "{}/ok/no-interpreter", 127, errno.ENOENT),
        (None, "{}/ok", 126, errno.EACCES),
        (None, "{}/ok/a/b", 127, errno.ENOTDIR),
    ],
)
def test_a_command_that_cannot_run_gives_126_or_127(
    box: Box, setup: str | None, command: str, status: int, number: int
) -> None:
    """S-46."""
    if setup:
        program = box.ok / setup
        program.write_text({"no-interpreter": "#!/no/such\n"}.get(setup, "no magic\n"))
        program.chmod(0o644 if setup == "plain" else 0o755)

    result = box.run(command.format(box.root))

    assert result.refusal("exec-failed", status=status).errno == number


@pytest.mark.parametrize("identity", [Identity.USER], indirect=True)
def test_a_closed_directory_in_the_search_path_does_not_turn_not_found_into_denied(
    box: Box,
) -> None:
    closed = box.ok / "closed"
    closed.mkdir()
    box.take_ownership()
    closed.chmod(0)
    env = {**box.environment, "PATH": f"{closed}:{box.ok}/a:/nowhere:/usr/bin:/bin"}

    assert box.run("nosuchcmd", env=env).refusal("exec-failed", status=127).errno == errno.ENOENT
    assert box.run("true", env=env).status == 0


def test_the_search_goes_on_after_a_file_that_cannot_run(box: Box) -> None:
    (box.ok / "bin").mkdir()
    (box.ok / "bin" / "true").write_text("not executable")
    env = {**box.environment, "PATH": f"{box.ok}/bin:/usr/bin:/bin"}

    assert box.run("true", env=env).status == 0


def test_without_a_search_path_the_default_one_serves(box: Box) -> None:
    assert box.run("true", env={"HOME": str(box.ok)}).status == 0
    assert box.run("true", env={}).status == 0


def test_the_command_keeps_the_process_id(box: Box) -> None:
    with box.start("sh", "-c", "echo $$") as process:
        assert finish(process).text == f"{process.pid}\n"


def test_the_words_of_the_command_arrive_byte_for_byte(box: Box) -> None:
    words = [b"\xff\xfe", b"", b"a b", b"new\nline", b"--hide", b"-", "ünï".encode(), b"'\"$x`"]

    result = box.works("cat", "/proc/self/cmdline", "--", *(b"/dev/null",))
    assert result.stdout.startswith(b"cat\0/proc/self/cmdline\0")
    script = 'cat "/proc/$$/cmdline"'
    assert box.works("sh", "-c", script, *words).stdout.split(b"\0")[3:-1] == words


@pytest.mark.parametrize(
    "entries",
    [
        ["LC_ALL=C", "PATH=/usr/bin:/bin"],
        ["LANG=C", "PATH=/usr/bin:/bin"],
        ["PATH=/usr/bin:/bin"],
        ["A=1", "A=2", "PATH=/usr/bin:/bin", "A=3"],
        ["PATH=/usr/bin:/bin", "no-equals-sign", "=odd", "EMPTY="],
        ["PATH=/usr/bin:/bin", "BYTES=\udcff\udcfe", "\udcff=x", "LINE=a\nb"],
        ["PATH=/usr/bin:/bin", "PYTHONUTF8=1", "PYTHONHOME=/nowhere", "PYTHONPATH=/nowhere"],
        ["PATH=/usr/bin:/bin", "LD_LIBRARY_PATH=/nowhere", "BIG=" + "x" * 100_000],
        [],
    ],
    ids=["C", "lang", "none", "repeated", "odd", "bytes", "python", "large", "empty"],
)
def test_the_environment_arrives_byte_for_byte(box: Box, entries: list[str]) -> None:
    stage = [("environment", *entries)]
    expected = b"".join(os.fsencode(entry) + b"\0" for entry in entries)

    result = box.works("/bin/cat", "/proc/self/environ", stage=stage)
    assert result.stdout == expected


def test_limits_masks_and_place_stay_as_they_were(box: Box) -> None:
    stage = [
        ("umask", 0o027),
        ("limit", "RLIMIT_NOFILE", 64, 128),
        ("limit", "RLIMIT_CORE", 0, 0),
        ("limit", "RLIMIT_FSIZE", 1 << 30, 1 << 31),
        ("nice", 3),
        ("block", int(signal.SIGUSR1)),
        ("chdir", str(box.root)),
    ]

    text = box.works(*box.acting(("state",)), stage=stage).text
    assert "(64, 128)" in text
    assert str(box.root) in text


@pytest.mark.parametrize("ignored", [[], [signal.SIGINT], [signal.SIGQUIT, signal.SIGHUP]], ids=str)
def test_signal_dispositions_stay_as_they_were(box: Box, ignored: list[int]) -> None:
    """The interpreter ignores SIGPIPE and SIGXFSZ; the command must not inherit that.

    Whether a caller ignored these two itself is lost when the interpreter starts.
    """
    stage = [("ignore", int(number)) for number in ignored]
    stage.append(("block", int(signal.SIGUSR2)))
    inside = box.run("grep", "^Sig[BIC]", "/proc/self/status", stage=stage)
    outside = box.control("grep", "^Sig[BIC]", "/proc/self/status", stage=stage)

    assert inside.text == outside.text
    assert "SigIgn" in inside.text


def test_a_writer_without_a_reader_dies_of_sigpipe(box: Box) -> None:
    script = 'yes | head -n 1; echo "${PIPESTATUS[0]}"'

    assert box.works(tool("bash"), "-c", script).text == f"y\n{128 + signal.SIGPIPE}\n"


@pytest.mark.parametrize("closed", [[0], [1], [2], [0, 1], [1, 2], [0, 1, 2]], ids=str)
def test_streams_closed_at_the_start_stay_closed(box: Box, closed: list[int]) -> None:
    """None of the launcher's own descriptors may end up as one of them."""
    out = box.ok / "out"
    actor = box.installation.program("actor.py")
    command: tuple[Arg, ...] = (*actor, "--out", out, "standard-descriptors")
    stage = [("close", *closed)]
    texts = []
    for sandboxed in (True, False):
        assert box.run(*command, stage=stage, sandboxed=sandboxed).status == 0
        texts.append(out.read_text())
        out.unlink()

    assert texts[0] == texts[1]
    assert texts[0].count("closed") == len(closed)


def test_input_and_output_pass_through_unbuffered(box: Box) -> None:
    read_end, write_end = os.pipe()
    try:
        with box.start("cat", stdin=read_end) as process:
            os.write(write_end, b"first")
            assert process.stdout is not None
            assert os.read(process.stdout.fileno(), 100) == b"first"
            os.close(write_end)
            os.close(read_end)
            read_end = write_end = -1
            assert finish(process).status == 0
    finally:
        for descriptor in (read_end, write_end):
            if descriptor >= 0:
                os.close(descriptor)


def test_the_launcher_creates_nothing(box: Box) -> None:
    before = sorted(box.root.rglob("*"))
    assert box.run("true").status == 0
    assert sorted(box.root.rglob("*")) == before


def test_ordinary_tools_work_in_a_granted_directory(box: Box) -> None:
    (box.ok / "src").mkdir()
    script = (
        "set -e; cd src; printf 'b\\na\\n' >list; sort list >sorted; cp list copy; sed -i s/a/c/ copy;"
        " tar cf all.tar list copy; mkdir out; tar xf all.tar -C out; cat sorted out/copy;"
        " mktemp >/dev/null; head -c 4 /dev/zero | wc -c; ls"
    )
    assert box.run("sh", "-c", script).text.startswith("a\nb\nb\nc\n4\n")


def test_with_nothing_hidden_everything_else_is_as_outside(box: Box) -> None:
    """The other protections hold; for root system trees stay read-only, and `/` cannot be listed."""
    script = 'cat "$1" && echo x >"$2/new" && grep NoNewPrivs /proc/self/status'
    result = box.hiding().run("sh", "-c", script, "sh", box.secret, box.ok)

    assert result.status == 0, result
    assert SECRET in result.text
    assert "NoNewPrivs:\t1" in result.text
