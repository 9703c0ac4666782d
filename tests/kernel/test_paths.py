"""Which paths are hidden, and that what lies beside them stays as it was."""

import os
import socket
import time
from pathlib import Path

import pytest

from kernel.harness import SECRET, Box

pytestmark = pytest.mark.kernel


@pytest.mark.denies
def test_a_hidden_directory_lies_next_to_ordinary_files(box: Box) -> None:
    """S-01."""
    script = 'cat "$1/ok/a"; cat "$1/hid/secret"; mkdir "$1/new"; ls "$1"'
    command = ("sh", "-c", script, "sh", box.root)

    inside = box.run(*command)
    outside = box.control(*command)

    assert inside.stdout == b"fine"
    assert inside.complaints.count("Permission denied") == 3
    assert not inside.shows(SECRET)
    assert outside.text == "fineSECREThid\nnew\nok\n"


def test_the_plan_names_the_parent_of_a_hidden_path_as_an_ancestor(box: Box) -> None:
    """S-01: an ancestor can be neither listed nor given new entries."""
    plan = box.explain()

    assert {Path("/"), box.root.parent, box.root} <= set(plan.ancestors)
    assert box.ok not in plan.ancestors


@pytest.mark.denies
def test_ancestors_cannot_be_listed(box: Box) -> None:
    """S-02."""
    box.denies(("list", box.root), ("list", "/"), ("list", box.root.parent))

    glob = ("sh", "-c", 'echo "$1"/*', "sh", box.root)
    assert box.run(*glob).text == f"{box.root}/*\n"
    assert box.control(*glob).text == f"{box.root}/hid {box.root}/ok\n"


@pytest.mark.denies
def test_listing_tools_say_permission_denied_for_an_ancestor(box: Box) -> None:
    """S-02."""
    for place in (box.root, Path("/")):
        inside = box.run("ls", place)
        assert (inside.status, inside.stdout) == (2, b"")
        assert "Permission denied" in inside.complaints
        assert box.control("ls", place).status == 0


def test_a_granted_directory_can_be_listed(box: Box) -> None:
    """S-02."""
    box.works("ls", box.ok)


@pytest.mark.denies
def test_a_single_file_can_be_hidden(box: Box) -> None:
    """S-03."""
    (box.ok / "a").write_text(SECRET)
    (box.ok / "b").write_text("k")
    hiding = box.hiding(box.ok / "a")

    hiding.denies(("read", box.ok / "a"), ("list", box.ok))
    assert hiding.allows(("read", box.ok / "b")) == ["k"]


@pytest.mark.denies
def test_a_symlink_and_its_target_are_hidden_together(box: Box) -> None:
    """S-05."""
    (box.root / "real").mkdir()
    (box.root / "real" / "s").write_text(SECRET)
    (box.root / "link").symlink_to("real")
    hiding = box.hiding(box.root / "link")

    hiding.denies(("read", box.root / "link" / "s"), ("read", box.root / "real" / "s"))
    plan = hiding.explain()
    assert box.root / "real" in plan.hidden
    assert str(box.root / "link") in plan.text


@pytest.mark.denies
def test_a_chain_of_symlinks_is_hidden_to_its_end(box: Box) -> None:
    for name in ("first", "second"):
        (box.root / name).mkdir()
    (box.root / "first" / "to").symlink_to("../second/to")
    (box.root / "second" / "to").symlink_to(box.hid)

    box.hiding(box.root / "first" / "to").denies(
        ("read", box.root / "first" / "to" / "secret"),
        ("read", box.root / "second" / "to" / "secret"),
        ("read", box.secret),
    )


@pytest.mark.denies
def test_a_symlink_in_the_middle_of_a_hidden_path_hides_only_the_end(box: Box) -> None:
    """S-06."""
    (box.root / "alias").symlink_to("hid")
    (box.hid / "sub").mkdir()
    (box.hid / "sub" / "s").write_text(SECRET)
    (box.hid / "k").write_text("k")
    hiding = box.hiding(box.root / "alias" / "sub")

    hiding.denies(("read", box.hid / "sub" / "s"), ("read", box.root / "alias" / "sub" / "s"))
    assert hiding.allows(("read", box.hid / "k")) == ["k"]


@pytest.mark.denies
def test_a_sibling_symlink_into_the_hidden_directory_grants_nothing(box: Box) -> None:
    (box.ok / "planted").symlink_to(box.secret)
    (box.root / "current").symlink_to("hid")

    box.denies(("read", box.ok / "planted"), ("read", box.root / "current" / "secret"))


@pytest.mark.denies
def test_the_root_directory_cannot_be_hidden(box: Box) -> None:
    """S-16."""
    for spelling in ("/", "//", "/.", "/usr/..", f"{box.hid}/../../../.."):
        box.refuses("hide-root", "--hide", spelling)


def test_siblings_of_every_file_type_are_no_obstacle(box: Box) -> None:
    """S-17: directory rights on a file are EINVAL, and opening a FIFO would hang."""
    (box.root / "file").touch()
    os.mkfifo(box.root / "fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(box.root / "sock"))
    (box.root / "link").symlink_to("ok")
    (box.root / "broken").symlink_to("nowhere")
    (box.root / "closed").mkdir(mode=0)
    (box.root / "empty").mkdir()

    assert box.works("cat", box.ok / "a").text == "fine"


@pytest.mark.denies
@pytest.mark.parametrize("form", ["fifo", "closed directory"])
def test_hidden_paths_of_every_file_type_are_accepted(box: Box, form: str) -> None:
    """S-17: and each is proven without hanging."""
    odd = box.root / "odd"
    if form == "fifo":
        os.mkfifo(odd)
    else:
        odd.mkdir(mode=0)
    hiding = box.hiding(odd)

    hiding.denies_inside(("open", odd, os.O_RDONLY | os.O_NONBLOCK), ("list", box.root))
    odd.chmod(0o700)
    control = ("open", odd, os.O_RDONLY | os.O_NONBLOCK)
    assert box.act(control, sandboxed=False)[0].worked


@pytest.mark.denies
def test_a_hidden_socket_file_is_accepted(box: Box) -> None:
    """S-17."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(box.root / "odd"))

    box.hiding(box.root / "odd").denies(("list", box.root))


@pytest.mark.denies
def test_a_hidden_symlink_to_nothing_is_missing_or_optional(box: Box) -> None:
    """S-17: what it may point to later is denied with it."""
    odd = box.root / "odd"
    odd.symlink_to("nowhere")
    box.refuses("hide-missing", "--hide", odd)

    hiding = box.with_options("--hide-optional", odd)
    hiding.denies(("write", odd, os.O_CREAT, "x"))
    (box.root / "nowhere").unlink()
    hiding.denies(("create", box.root / "nowhere"))


@pytest.mark.denies
def test_devices_work_beside_a_directory_hidden_in_dev_shm(box: Box) -> None:
    """S-17."""
    with_shared = Path("/dev/shm") / box.root.name
    with_shared.mkdir()
    try:
        (with_shared / "s").write_text(SECRET)
        hiding = box.with_options(*box.options, "--hide", with_shared)
        script = "echo x >/dev/null; head -c1 /dev/urandom | wc -c"

        hiding.denies(("read", with_shared / "s"))
        assert hiding.works("sh", "-c", script).text.strip() == "1"
    finally:
        (with_shared / "s").unlink()
        with_shared.rmdir()


@pytest.mark.denies
@pytest.mark.parametrize("hidden", ["hid", "hid/secret"])
def test_hiding_a_path_twice_is_hiding_it_once(box: Box, hidden: str) -> None:
    twice = box.hiding(box.root / hidden, f"{box.root}/./{hidden}", box.root / hidden)

    twice.denies(("read", box.secret))


@pytest.mark.denies
def test_a_directory_hidden_within_a_hidden_one_adds_nothing_and_harms_nothing(box: Box) -> None:
    nested = box.hiding(box.own, box.hid, box.secret)

    nested.denies(("read", box.secret), ("read", box.own / "mine"), ("list", box.hid))


@pytest.mark.denies
def test_a_path_closed_to_the_user_by_file_modes_may_be_hidden_all_the_same(box: Box) -> None:
    """What file modes deny already is no proof, and no reason to refuse."""
    box.take_ownership()
    box.secret.chmod(0)
    hiding = box.hiding(box.secret)

    hiding.denies_inside(("read", box.secret), own_files=False)
    hiding.denies(("list", box.root), ("list", box.hid), own_files=False)
    box.secret.chmod(0o600)
    assert box.act(("read", box.secret), sandboxed=False)[0].value == SECRET


@pytest.mark.denies
def test_two_thousand_hidden_paths_take_less_than_three_seconds(box: Box) -> None:
    """S-15."""
    many = box.root / "m"
    for number in range(1, 2001):
        (many / str(number)).mkdir(parents=True)
    for number in (1, 1000, 2000):
        (many / str(number) / "s").write_text(SECRET)
    hiding = box.hiding(*(str(number) for number in range(1, 2001)))
    command = ("cat", "1/s", "1000/s", "2000/s", "../ok/a")
    box.take_ownership()

    started = time.monotonic()
    result = hiding.run(*command, cwd=many, own_files=False)
    elapsed_s = time.monotonic() - started

    assert result.complaints.count("Permission denied") == 3
    assert result.text == "fine"
    assert elapsed_s < 3
    assert box.control(*command, cwd=many).text == SECRET * 3 + "fine"
