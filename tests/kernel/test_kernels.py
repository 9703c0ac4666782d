"""Kernels that cannot do it: without Landlock, with too little of it, or at its limits."""

import errno
import json
from pathlib import Path

import pytest

from kernel.harness import SECRET, Arg, Box
from kernel.programs.kernel_calls import (
    LANDLOCK_ADD,
    LANDLOCK_CREATE,
    LANDLOCK_RESTRICT,
    call_number,
)
from kernel.results import Result

pytestmark = pytest.mark.kernel


def on_kernel_of(abi: int, box: Box) -> tuple[Result, list[dict[str, int]]]:
    """Launch on a kernel that claims `abi`; return the result and the rulesets asked for."""
    log = box.ok / "asked"
    kernel: tuple[Arg, ...] = (*box.installation.program("kernel_of_abi.py"), str(abi), log)
    launch: tuple[Arg, ...] = (*box.installation.launch, *box.options, "--")
    script = 'touch "$1/ok/ran"; cat "$1/ok/a" "$1/hid/own/mine" "$1/hid/secret"'
    result = box.run(*kernel, *launch, "sh", "-c", script, "sh", box.root, sandboxed=False)
    asked = log.read_text().splitlines() if log.exists() else []
    return result, [json.loads(line) for line in asked]


@pytest.mark.denies
@pytest.mark.parametrize(("claimed", "rights", "scopes"), [(6, 0xFFFF, 3), (7, 0xFFFF, 3), (8, 0xFFFF, 3)])
def test_each_usable_abi_is_asked_for_all_it_knows(
    box: Box, abi: int, claimed: int, rights: int, scopes: int
) -> None:
    """S-18: a kernel that knows no later right takes the ruleset, and the domain holds."""
    assert abi >= 6, "rulesets of ABI 6 go through to the running kernel"
    result, asked = on_kernel_of(claimed, box)

    assert asked == [{"filesystem": rights, "network": 0, "scopes": scopes, "size": 24}]
    assert result.text == "finemine"
    assert result.complaints.count("Permission denied") == 1
    assert not result.shows(SECRET)


@pytest.mark.denies
def test_only_with_a_port_to_close_the_rights_to_bind_and_connect_are_asked_for(box: Box) -> None:
    result, asked = on_kernel_of(6, box.with_options(*box.options, "--close-port", "1"))

    assert [request["network"] for request in asked] == [3]
    assert result.text == "finemine"


@pytest.mark.denies
@pytest.mark.parametrize("claimed", [1, 2, 3, 4, 5])
def test_a_kernel_whose_abi_is_too_old_is_refused_and_the_version_named(box: Box, claimed: int) -> None:
    """S-18: below ABI 6 an agent could signal its harness."""
    result, asked = on_kernel_of(claimed, box)

    refusal = result.refusal("abi-too-old")
    assert str(claimed) in refusal.message
    assert asked == []
    assert not box.marker.exists()


@pytest.mark.denies
@pytest.mark.parametrize("claimed", [0, -1])
def test_an_abi_below_one_is_no_landlock(box: Box, claimed: int) -> None:
    """S-18."""
    result, _asked = on_kernel_of(claimed, box)

    result.refusal("landlock-unavailable")
    assert not box.marker.exists()


@pytest.mark.denies
@pytest.mark.parametrize("claimed", [9, 10, 99])
def test_an_abi_above_the_table_is_asked_for_the_last_row(box: Box, abi: int, claimed: int) -> None:
    """S-18: where the kernel promised more than it takes, nothing starts."""
    result, asked = on_kernel_of(claimed, box)

    assert asked == [{"filesystem": 0x1FFFF, "network": 0, "scopes": 3, "size": 24}]
    if abi < 9:
        assert result.refusal("landlock-unavailable").errno == errno.EINVAL
        assert not box.marker.exists()
    else:
        assert not result.shows(SECRET)


@pytest.mark.denies
def test_three_reasons_for_no_landlock_have_three_remedies(box: Box) -> None:
    """S-19: not built, not enabled at boot, filtered by a container."""
    advice = set()
    for number in (errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM):
        stage = [("fail-calls", [LANDLOCK_CREATE], number)]
        refusal = box.refuses("landlock-unavailable", *box.options, stage=stage)
        assert refusal.errno == number
        advice.add(refusal.remedy)
    assert len(advice) == 3


@pytest.mark.denies
@pytest.mark.parametrize("call", [LANDLOCK_ADD, LANDLOCK_RESTRICT])
@pytest.mark.parametrize("number", [errno.EPERM, errno.ENOSYS, errno.EINVAL, errno.ENOMEM])
def test_a_late_failure_starts_nothing(box: Box, call: int, number: int) -> None:
    """S-20: there is no going on without a sandbox."""
    result = box.run("touch", box.marker, stage=[("fail-calls", [call], number)])

    assert not box.marker.exists()
    assert result.status == 125
    code = json.loads(result.stderr)["code"]
    if call == LANDLOCK_RESTRICT:
        assert result.refusal("landlock-unavailable").errno == number
    else:
        result.refusal(code)
        assert code in ("landlock-unavailable", "ancestor-unlistable", "protection-unavailable")


@pytest.mark.denies
def test_the_sixteenth_layer_works_and_the_seventeenth_is_refused(box: Box) -> None:
    assert box.run("true", stage=[("layers", 15)]).status == 0

    refusal = box.refuses("layer-limit", *box.options, stage=[("layers", 16)])
    assert refusal.errno == errno.E2BIG


@pytest.mark.denies
def test_a_domain_that_grants_everything_does_not_weaken_ours(box: Box) -> None:
    box.denies(("read", box.secret), ("list", box.root), stage=[("layers", 2)])


@pytest.mark.denies
def test_a_launcher_inside_its_own_domain_refuses(box: Box) -> None:
    inner: tuple[Arg, ...] = (*box.installation.launch, "--hide", box.hid, "--", "touch", box.marker)
    result = box.run(*inner)

    refusal = result.refusal("ancestor-unlistable")
    assert Path(str(refusal.path)) in (box.root, *box.root.parents)
    assert not box.marker.exists()
    assert box.control(*inner).status == 0


@pytest.mark.denies
def test_more_than_one_thread_is_refused(box: Box) -> None:
    """A domain covers the calling thread only."""
    code = (
        "import runpy, sys, threading\n"
        "stop = threading.Event()\n"
        "threading.Thread(target=stop.wait, daemon=True).start()\n"
        "sys.argv = sys.argv[1:]\n"
        "runpy.run_path(sys.argv[0], run_name='__main__')\n"
    )
    python, *flags, script = box.installation.launch
    threaded: tuple[Arg, ...] = (python, *flags, "-c", code, script, *box.options, "--", "touch", box.marker)
    result = box.run(*threaded, sandboxed=False)

    result.refusal("threads-running")
    assert not box.marker.exists()


@pytest.mark.denies
@pytest.mark.parametrize("call", ["close_range", "openat2", "prctl", "capget", "capset"])
@pytest.mark.parametrize("number", [errno.EPERM, errno.ENOSYS], ids=["filtered", "missing"])
def test_without_one_of_its_system_calls_the_launcher_starts_nothing(
    box: Box, call: str, number: int
) -> None:
    """Every protection is required unless a caller said otherwise: none degrades silently."""
    result = box.run("touch", box.marker, stage=[("fail-calls", [call_number(call)], number)])

    assert not box.marker.exists()
    code = json.loads(result.stderr)["code"]
    result.refusal(code)
    assert (
        code
        in {
            "close_range": ("protection-unavailable",),
            "openat2": ("ancestor-unlistable", "protection-unavailable"),
            "prctl": ("landlock-unavailable", "protection-unavailable"),
            "capget": ("protection-unavailable",),
            "capset": ("protection-unavailable",),
        }[call]
    )
