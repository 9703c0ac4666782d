"""Credentials that a checkout keeps: found wherever git would find them, and never shown."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner_e2e.cell.git_credentials import check_git_credentials, judge_configuration
from runner_e2e.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

SECRET = "s3cr3t"
HEADER = f'[http "https://github.com/"]\n\textraheader = AUTHORIZATION: basic {SECRET}\n'


@dataclass(frozen=True)
class Job:
    """A workspace with a checkout in it, RUNNER_TEMP and a home."""

    place: Path

    @property
    def target(self) -> Path:
        return self.place / "workspace" / "target"

    @property
    def git(self) -> Path:
        return self.target / ".git"

    @property
    def temporary(self) -> Path:
        return self.place / "temp"

    @property
    def environ(self) -> dict[str, str]:
        return {
            "RUNNER_TEMP": str(self.temporary),
            "GITHUB_WORKSPACE": str(self.place / "workspace"),
            "HOME": str(self.place / "home"),
        }

    def write(self, name: str, text: str) -> Path:
        path = self.place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def check(self) -> None:
        check_git_credentials(self.target, self.environ)

    def refusal(self) -> str:
        with pytest.raises(InputError) as caught:
            self.check()
        assert SECRET not in str(caught.value)
        return str(caught.value)


@pytest.fixture
def job(tmp_path: Path) -> Job:
    job = Job(tmp_path)
    for path in (job.git, job.temporary, tmp_path / "home"):
        path.mkdir(parents=True)
    job.write("workspace/target/.git/config", "[core]\n\tbare = false\n")
    return job


@pytest.mark.parametrize(
    ("text", "named"),
    [
        pytest.param(HEADER, "http.*.extraheader", id="header-of-checkout-v5"),
        pytest.param(f"[http]\nextraHeader = {SECRET}\n", "http.extraheader", id="header-for-all"),
        pytest.param(f'[HTTP "x"] EXTRAHEADER = "{SECRET}"', "http.*.extraheader", id="one-line-upper-case"),
        pytest.param(
            f"[http]\nextraheader =\nextraheader = {SECRET}\n", "http.extraheader", id="second-value"
        ),
        pytest.param("[http]\ncookieFile = /c\n", "http.cookiefile", id="cookies"),
        pytest.param("[http]\nsslKey = /k\n", "http.sslkey", id="client-key"),
        pytest.param("[credential]\nhelper = store\n", "credential.helper", id="helper"),
        pytest.param(
            '[credential "https://h"]\nusername = u\n', "credential.*.username", id="helper-of-a-host"
        ),
        pytest.param(f"[core]\nsshCommand = ssh -i /{SECRET}\n", "core.sshcommand", id="ssh"),
        pytest.param("[core]\naskPass = /bin/ask\n", "core.askpass", id="askpass"),
        pytest.param(f'[remote "o"]\nurl = https://x:{SECRET}@github.com/o/r\n', "remote.*.url", id="remote"),
        pytest.param(
            f'[remote "o"]\npushurl = HTTPS://{SECRET}@github.com/o/r\n',
            "remote.*.pushurl",
            id="token-as-the-user",
        ),
        pytest.param(
            f'[url "https://x-access-token:{SECRET}@github.com/"]\ninsteadOf = https://github.com/\n',
            "url.*.insteadof",
            id="instead-of",
        ),
        pytest.param(
            f'[url "https://{SECRET}@github.com/"]\ninsteadOf =\n', "url.*.insteadof", id="instead-of-all"
        ),
        pytest.param(
            f'[submodule "s"]\nurl = https://u:{SECRET}@h/r\n', "submodule.*.url", id="submodule-url"
        ),
        pytest.param(f"[http]\nproxy = http://u:{SECRET}@proxy:3128\n", "http.proxy", id="proxy"),
        pytest.param(f"[lfs]\nurl = ssh://u:{SECRET}@h/r\n", "lfs.url", id="ssh-with-a-password"),
        pytest.param(f"[sendemail]\nsmtpPass = {SECRET}\n", "sendemail.smtppass", id="mail"),
        pytest.param(f"\ufeff{HEADER}", "http.*.extraheader", id="byte-order-mark"),
        pytest.param(HEADER.replace("\n", "\r\n"), "http.*.extraheader", id="line-ends-of-windows"),
        pytest.param(
            "\n".join(f"[credential]\nk{number} = {SECRET}" for number in range(9)),
            "and 6 more",
            id="many",
        ),
    ],
)
def test_a_credential_in_the_configuration_refuses_the_start_by_its_name(
    job: Job, text: str, named: str
) -> None:
    job.write("workspace/target/.git/config", f"{text}")

    said = job.refusal()

    assert named in said
    assert "persist-credentials: false" in said


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("[http]\n\tsslVerify = true\n", id="http-setting"),
        pytest.param('[remote "origin"]\n\turl = https://github.com/o/r\n', id="remote"),
        pytest.param('[remote "origin"]\n\turl = git@github.com:o/r.git\n', id="remote-of-scp-kind"),
        pytest.param('[remote "origin"]\n\turl = ssh://git@github.com/o/r.git\n', id="remote-of-ssh"),
        pytest.param('[remote "origin"]\n\turl = https://h/o/r@v1?x=a@b\n', id="at-sign-in-the-path"),
        pytest.param('[url "https://github.com/"]\n\tinsteadOf = git@github.com:\n', id="instead-of"),
        pytest.param('[http "https://github.com/"]\n\textraheader =\n', id="header-taken-back"),
        pytest.param("[credential]\n\thelper =\n", id="helper-taken-back"),
        pytest.param(f"# [credential]\n# helper = {SECRET}\n", id="comment"),
        pytest.param("[user]\n\textraheader = a\n", id="name-of-another-section"),
        pytest.param("[include]\n\tpath = missing\n", id="include-of-nothing"),
        pytest.param("[include]\n\tpath = ~nobody-of-that-name/x\n", id="include-of-nobody"),
        pytest.param("[include]\n\tpath = config\n", id="include-of-itself"),
        pytest.param("[alias]\n\tx = !echo https://h/ a@b\n", id="alias"),
    ],
)
def test_a_configuration_without_credentials_passes(job: Job, text: str) -> None:
    job.write("workspace/target/.git/config", text)

    job.check()


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("no section", id="no-section"),
        pytest.param("[core\n", id="open-section"),
        pytest.param('[core]\na = "open\n', id="open-quote"),
        pytest.param("[http.https://github.com/]\nextraheader = x\n", id="old-form"),
        pytest.param(f"[user]\nname = x # \\\n{HEADER}", id="comment-that-swallows-a-section"),
        pytest.param(f"[http]\nextraheader = {SECRET} \\", id="continued-at-the-end"),
        pytest.param(f"[http]\nextraheader = {SECRET} \\\r\n", id="continued-with-carriage-return"),
        pytest.param("[include]\npath = a\0b\n", id="nul"),
    ],
)
def test_a_configuration_that_cannot_be_judged_for_certain_is_refused(job: Job, text: str) -> None:
    job.write("workspace/target/.git/config", text)

    assert "cannot be judged" in job.refusal()


@pytest.mark.parametrize(
    ("name", "named"),
    [
        pytest.param("config.worktree", "the target's .git/config.worktree: http", id="work-tree"),
        pytest.param("worktrees/two/config.worktree", ".git/worktrees/*/config.worktree", id="other-tree"),
        pytest.param("modules/one/config", ".git/modules/*/config: http", id="submodule"),
        pytest.param("modules/libs/one/config", ".git/modules/*/config: http", id="name-with-a-slash"),
        pytest.param("modules/one/modules/two/config", ".git/modules/*/config: http", id="nested"),
        pytest.param("../../.git/config", "the workspace's .git/config: http", id="workspace"),
    ],
)
def test_every_configuration_of_the_checkouts_is_read(job: Job, name: str, named: str) -> None:
    job.write(f"workspace/target/.git/{name}", HEADER)

    assert named in job.refusal()


def test_a_second_work_tree_is_read_with_what_it_shares(job: Job, tmp_path: Path) -> None:
    second = tmp_path / "second"
    second.mkdir()
    own = job.git / "worktrees" / "second"
    job.write("workspace/target/.git/worktrees/second/commondir", "../..\n")
    job.write("workspace/target/.git/config", HEADER)
    (second / ".git").write_text(f"gitdir: {own}\n")

    with pytest.raises(InputError, match=r"http\.\*\.extraheader"):
        check_git_credentials(second, {})


@pytest.mark.parametrize("name", ["credentials", ".git-credentials"])
def test_a_store_beside_the_configuration_is_found(job: Job, name: str) -> None:
    job.write(f"workspace/target/.git/{name}", f"https://u:{SECRET}@github.com")

    assert f".git/{name}" in job.refusal()


def test_a_file_kept_for_later_steps_is_found(job: Job) -> None:
    job.write("temp/git-credentials-1234.config", HEADER)
    job.write("temp/other.config", HEADER)

    assert "git-credentials-* in RUNNER_TEMP" in job.refusal()


@pytest.mark.parametrize(
    ("path", "named"),
    [
        pytest.param("{temp}/kept.config", "include of git-credentials-*", id="below-runner-temp"),
        pytest.param("{place}/elsewhere/git-credentials-1", "include of git-credentials-*", id="by-name"),
        pytest.param("{place}/linked", "include of git-credentials-*", id="by-link"),
        pytest.param("../shared.config", "(included): http.*.extraheader", id="relative"),
        pytest.param("~/shared.config", "(included): http.*.extraheader", id="home"),
    ],
)
@pytest.mark.parametrize("condition", ["include", 'includeIf "gitdir:/somewhere/else/"', 'includeIf "odd"'])
def test_an_include_counts_whatever_its_condition_is(job: Job, path: str, named: str, condition: str) -> None:
    for name in (
        "temp/kept.config",
        "elsewhere/git-credentials-1",
        "workspace/target/shared.config",
        "home/shared.config",
    ):
        job.write(name, HEADER)
    (job.place / "linked").symlink_to(job.temporary / "kept.config")
    included = path.format(temp=job.temporary, place=job.place)
    job.write("workspace/target/.git/config", f"[{condition}]\n\tpath = {included}\n")

    assert named in job.refusal()


def test_an_include_of_what_is_gone_from_runner_temp_passes(job: Job) -> None:
    gone = job.temporary / "git-credentials-1.config"
    job.write("workspace/target/.git/config", f'[includeIf "gitdir:/x"]\n\tpath = {gone}\n')

    job.check()


def test_a_harmless_include_passes_and_what_it_includes_is_read(job: Job) -> None:
    job.write("workspace/target/.git/config", "[include]\n\tpath = one\n")
    job.write("workspace/target/.git/one", "[alias]\n\tst = status\n[include]\n\tpath = two\n")
    job.write("workspace/target/.git/two", "[alias]\n\tco = checkout\n")
    job.check()

    job.write("workspace/target/.git/two", HEADER)

    assert "(included): http.*.extraheader" in job.refusal()


def test_a_chain_of_includes_ends(job: Job) -> None:
    job.write("workspace/target/.git/config", "[include]\n\tpath = c0\n")
    for number in range(30):
        job.write(f"workspace/target/.git/c{number}", f"[include]\n\tpath = c{number + 1}\n")

    assert "too deeply" in job.refusal()


def test_an_include_of_a_directory_or_a_pipe_is_refused_without_waiting(job: Job) -> None:
    os.mkfifo(job.git / "pipe")
    for name in ("pipe", "."):
        job.write("workspace/target/.git/config", f"[include]\n\tpath = {name}\n")

        assert "not a regular file" in job.refusal()


def test_modules_that_lead_elsewhere_are_refused(job: Job) -> None:
    (job.place / "elsewhere").mkdir()
    (job.git / "modules").mkdir()
    (job.git / "modules" / "one").symlink_to(job.place / "elsewhere")

    assert "lead elsewhere" in job.refusal()


def test_what_is_no_checkout_keeps_nothing(tmp_path: Path) -> None:
    check_git_credentials(
        tmp_path, {"RUNNER_TEMP": str(tmp_path / "missing"), "GITHUB_WORKSPACE": "relative"}
    )


@given(st.binary(max_size=200))
def test_a_configuration_is_judged_or_refused_whatever_it_holds(content: bytes) -> None:
    try:
        judged = judge_configuration(content)
    except InputError:
        return
    assert all(name.isascii() and name.isprintable() for name in judged.credentials)


@given(
    st.sampled_from(
        ["[a]\n", "[b]b=1\n", "# x\n", "\t\n", '[c "d"]\n', "x\n", "y = z ; w\n", '[e "\\""] f\n']
    )
)
def test_a_header_is_found_after_any_other_lines(before: str) -> None:
    try:
        judged = judge_configuration(f"{before}{HEADER}".encode())
    except InputError:
        return
    assert "http.*.extraheader" in judged.credentials
