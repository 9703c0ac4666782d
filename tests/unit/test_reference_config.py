"""What the server accepts as its environment, and what it creates from it."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from runner_e2e.errors import InputError
from runner_e2e.isolation.environment import GENERATED_SECRETS
from runner_e2e.launch.ports import find_ports
from runner_e2e.reference.config import parse_config
from runner_e2e.reference.layout import Instance, create_instance

COMPLETE = {
    "PAPERCLIP_HOME": "/h",
    "PAPERCLIP_INSTANCE_ID": "main",
    "PORT": "3100",
    "PAPERCLIP_RUNNER_BINARY": "/b/runnerd",
    **{name: f"value-of-{name}" for name in GENERATED_SECRETS},
}


def test_a_complete_environment_is_understood() -> None:
    config = parse_config({**COMPLETE, "PAPERCLIP_RUNNER_E2E_REFERENCE_MAX_RUNTIME_S": "1.5"})

    assert config.instance_root == Path("/h/instances/main")
    assert config.origin == "http://127.0.0.1:3100"
    assert config.max_runtime_s == 1.5
    assert "value-of-" not in repr(config)


@pytest.mark.parametrize("name", COMPLETE)
@pytest.mark.parametrize("empty", [True, False])
def test_each_required_variable_is_missed_by_name(name: str, *, empty: bool) -> None:
    environ = {key: value for key, value in COMPLETE.items() if key != name}
    if empty:
        environ[name] = ""

    with pytest.raises(InputError, match=name) as caught:
        parse_config(environ)

    assert "value-of-" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PORT", "0"),
        ("PORT", "65536"),
        ("PORT", "80x"),
        ("PORT", "٨٠"),
        ("PAPERCLIP_INSTANCE_ID", ".."),
        ("PAPERCLIP_INSTANCE_ID", "a/b"),
        ("PAPERCLIP_HOME", "relative"),
        ("PAPERCLIP_HOME", "/not-utf8-\udcff"),
        ("PAPERCLIP_RUNNER_BINARY", "runnerd"),
        ("PAPERCLIP_RUNNER_E2E_REFERENCE_MAX_RUNTIME_S", "0"),
        ("PAPERCLIP_RUNNER_E2E_REFERENCE_MAX_RUNTIME_S", "soon"),
        ("PAPERCLIP_RUNNER_E2E_REFERENCE_MAX_RUNTIME_S", "nan"),
    ],
)
def test_an_unusable_value_is_refused(name: str, value: str) -> None:
    with pytest.raises(InputError, match=name):
        parse_config({**COMPLETE, name: value})


def create(home: Path, **changes: str) -> Instance:
    config = parse_config({**COMPLETE, "PAPERCLIP_HOME": str(home), **changes})
    return create_instance(config, "2026-01-02T03:04:05.678Z", 54329)


def test_a_first_start_creates_the_products_files_with_its_modes(tmp_path: Path) -> None:
    root = create(tmp_path).root

    modes = {str(path.relative_to(root)): stat.S_IMODE(path.stat().st_mode) for path in root.rglob("*")}
    assert {name for name, mode in modes.items() if mode == 0o700} == {
        "db",
        "db/base",
        "db/pg_wal",
        "secrets",
    }
    assert {name for name, mode in modes.items() if mode == 0o600} == {
        "config.json",
        ".env",
        "runtime-info.json",
        "db/pg_wal/000000010000000000000001",
        "db/postmaster.pid",
        "secrets/master.key",
        "secrets/decision-signing.key",
    }
    assert modes.keys() >= {"logs", "data/storage", "data/backups"}
    for name in GENERATED_SECRETS:
        assert f"{name}=value-of-{name}\n" in (root / ".env").read_text(encoding="utf-8")


def test_the_databases_lock_file_names_its_port_as_launchers_read_it(tmp_path: Path) -> None:
    """The port of the API in its place would be closed to agents."""
    root = create(tmp_path).root

    assert find_ports(str(root), []) == (54329,)


def test_a_later_start_keeps_keys_and_settings(tmp_path: Path) -> None:
    root = create(tmp_path).root
    kept = (".env", "config.json", "secrets/master.key", "secrets/decision-signing.key")
    before = {name: (root / name).read_bytes() for name in kept}

    create(tmp_path, PORT="3999", BETTER_AUTH_SECRET="another")

    assert {name: (root / name).read_bytes() for name in kept} == before
    assert '"port": 3999' in (root / "runtime-info.json").read_text(encoding="utf-8")
    assert not list(root.rglob(".*.*"))  # drafts of replaced files
