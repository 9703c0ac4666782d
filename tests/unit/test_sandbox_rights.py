"""What each Landlock ABI knows, and which rights an entry of each kind gets."""

from __future__ import annotations

import itertools
import stat

import pytest

from runner_e2e.sandbox import rules
from runner_e2e.sandbox.explain import losses
from runner_e2e.sandbox.launcher import Settings, rights_of
from runner_e2e.sandbox.protections import default_levels
from runner_e2e.sandbox.rules import Rights

SYMLINK = stat.S_IFLNK | 0o777
DIRECTORY = stat.S_IFDIR | 0o755
NOT_DIRECTORIES = [
    pytest.param(kind | 0o644, id=name)
    for name, kind in (
        ("file", stat.S_IFREG),
        ("fifo", stat.S_IFIFO),
        ("socket", stat.S_IFSOCK),
        ("character-device", stat.S_IFCHR),
        ("block-device", stat.S_IFBLK),
    )
]


@pytest.mark.parametrize(
    ("version", "filesystem", "network", "scopes", "size"),
    [
        (-1, 0, 0, 0, 8),
        (0, 0, 0, 0, 8),
        (1, 0x1FFF, 0, 0, 8),
        (2, 0x3FFF, 0, 0, 8),
        (3, 0x7FFF, 0, 0, 8),
        (4, 0x7FFF, 3, 0, 16),
        (5, 0xFFFF, 3, 0, 16),
        (6, 0xFFFF, 3, 3, 24),
        (7, 0xFFFF, 3, 3, 24),
        (8, 0xFFFF, 3, 3, 24),
        (9, 0x1FFFF, 3, 3, 24),
        (10, 0x1FFFF, 3, 3, 24),
        (99, 0x1FFFF, 3, 3, 24),
    ],
)
def test_every_abi_has_its_row(version: int, filesystem: int, network: int, scopes: int, size: int) -> None:
    """S-18."""
    row = (
        rules.filesystem_rights(version),
        rules.network_rights(version),
        rules.scopes(version),
        rules.attribute_size(version),
    )

    assert row == (filesystem, network, scopes, size)


def test_no_abi_takes_a_right_away() -> None:
    masks = [rules.filesystem_rights(version) for version in range(-1, 12)]

    assert all(older & newer == older for older, newer in itertools.pairwise(masks))


def test_the_bounds_are_those_of_the_contract() -> None:
    assert (rules.LATEST, rules.DEFAULT_MINIMUM, rules.LOWEST_USABLE) == (9, 6, 3)


def test_the_names_of_rights_are_the_kernels_bits() -> None:
    assert (rules.EXECUTE, rules.WRITE_FILE, rules.READ_FILE, rules.READ_DIR) == (1, 2, 4, 8)
    assert (rules.REFER, rules.TRUNCATE, rules.IOCTL_DEV) == (0x2000, 0x4000, 0x8000)
    assert rules.RESOLVE_UNIX == 0x10000
    # What the kernel accepts on anything but a directory; one bit more and it answers EINVAL.
    assert rules.FILE_RIGHTS == 0x1 | 0x2 | 0x4 | 0x4000 | 0x8000 | 0x10000


@pytest.mark.parametrize("version", range(1, 11))
def test_a_directory_gets_every_right_and_a_file_only_those_of_files(version: int) -> None:
    handled = rules.filesystem_rights(version)
    rights = Rights(handled, 0)

    assert rights.on(DIRECTORY, read_only=False) == handled
    assert rights.on(stat.S_IFREG | 0o600, read_only=False) == handled & rules.FILE_RIGHTS


@pytest.mark.parametrize("mode", NOT_DIRECTORIES)
@pytest.mark.parametrize("read_only", [False, True])
def test_what_is_no_directory_never_gets_a_right_of_directories(mode: int, *, read_only: bool) -> None:
    allowed = Rights(rules.filesystem_rights(9), 0).on(mode, read_only=read_only)

    assert allowed
    assert allowed & ~rules.FILE_RIGHTS == 0


@pytest.mark.parametrize("read_only", [False, True])
def test_a_symlink_gets_no_rule(*, read_only: bool) -> None:
    assert Rights(rules.filesystem_rights(9), 0).on(SYMLINK, read_only=read_only) == 0


def test_read_only_leaves_reading_listing_and_executing() -> None:
    rights = Rights(rules.filesystem_rights(7), 0)

    assert rights.on(DIRECTORY, read_only=True) == rules.READ_FILE | rules.READ_DIR | rules.EXECUTE
    assert rights.on(stat.S_IFREG, read_only=True) == rules.READ_FILE | rules.EXECUTE


def test_permission_bits_do_not_matter() -> None:
    rights = Rights(rules.filesystem_rights(7), 0)

    assert rights.on(stat.S_IFREG, read_only=False) == rights.on(stat.S_IFREG | 0o7777, read_only=False)


@pytest.mark.parametrize(
    ("mode", "expected"),
    [(DIRECTORY, False), (SYMLINK, False), (stat.S_IFCHR | 0o600, True), (stat.S_IFBLK | 0o600, True)],
)
def test_devices_are_told_from_the_rest(mode: int, *, expected: bool) -> None:
    assert rules.is_device(mode) is expected


def test_socket_files_are_withheld_unless_that_protection_is_off() -> None:
    on = rights_of(9, default_levels())
    off = rights_of(9, default_levels() | {"sockets": "off"})

    assert on.everything & rules.RESOLVE_UNIX == 0
    assert off.everything == on.everything | rules.RESOLVE_UNIX


def test_no_caller_can_ask_for_less_than_the_lowest_usable_abi_or_for_no_domain() -> None:
    settings = Settings(1, {"filesystem": "off", "noNewPrivileges": "preferred", "scopes": "off"})

    assert settings.minimum_abi == 3
    assert settings.levels["filesystem"] == settings.levels["noNewPrivileges"] == "required"
    assert settings.levels["scopes"] == "off"
    assert settings.levels["sockets"] == "required"


@pytest.mark.parametrize(
    ("version", "lost"), [(9, 0), (99, 0), (8, 1), (6, 3), (3, 6), (1, 8), (0, 9), (-5, 9)]
)
def test_explain_names_what_an_older_kernel_loses(version: int, lost: int) -> None:
    assert len(losses(version)) == lost
    assert any("no Landlock" in text for text in losses(version)) is (version < 1)
