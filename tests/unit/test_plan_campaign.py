"""From selectors to a campaign, from a catalog and from the target's own list."""

import json
from collections.abc import Mapping, Sequence

import pytest

from runner_e2e.errors import InputError
from runner_e2e.plan.campaign import plan_from_catalog
from runner_e2e.plan.keys import build_key
from runner_e2e.plan.resolution import resolve_cell
from runner_e2e.plan.selection import Selectors
from runner_e2e.plan.target_campaign import plan_from_target
from unit.plan_cells import build_catalog, build_cell

SECRET = "0123456789abcdef0123456789abcdef"
CATALOG = build_catalog(
    build_cell("core.p.local.z"),
    build_cell("core.p.local.a"),
    build_cell("core.p.daytona.a"),
    build_cell("private.p.local.secret", manual_only=True),
)


def test_jobs_are_sorted_and_ids_keep_catalog_order() -> None:
    campaign = plan_from_catalog(CATALOG, Selectors(environments=("local",)))

    assert [job.execution_id for job in campaign.jobs] == ["core.p.local.a", "core.p.local.z"]
    assert list(campaign.execution_ids) == ["core.p.local.z", "core.p.local.a"]
    assert (campaign.keys, campaign.runs) == (None, 2)


def test_keys_are_built_for_the_whole_catalog() -> None:
    campaign = plan_from_catalog(CATALOG, Selectors(suites=("core",)), secret=SECRET)

    assert campaign.keys is not None
    assert set(campaign.keys) == {cell.id for cell in CATALOG.executions}


def test_a_key_names_a_cell_as_its_id_would() -> None:
    key = build_key(SECRET, "private.p.local.secret")

    by_key = plan_from_catalog(CATALOG, Selectors(), named_keys=[key], secret=SECRET)
    by_id = plan_from_catalog(CATALOG, Selectors(ids=("private.p.local.secret",)), secret=SECRET)

    assert by_key == by_id


def test_a_key_of_another_secret_names_nothing() -> None:
    with pytest.raises(InputError) as caught:
        plan_from_catalog(CATALOG, Selectors(), named_keys=["c-0123456789ab"], secret=SECRET)

    assert "secret" not in caught.value.problem.replace("key-secret", "")


def row(execution_id: str) -> dict[str, object]:
    suite, profile, environment, case = execution_id.split(".", 3)
    return {
        "executionId": execution_id,
        "suiteId": suite,
        "profileId": profile,
        "credentialName": "OPENROUTER_API_KEY",
        "environmentId": environment,
        "caseId": case,
        "timeoutMinutes": 25,
        "needsDaytona": environment == "daytona",
    }


class FakeTarget:
    """Lists the same cells whatever it is asked, and remembers the questions."""

    def __init__(self, *ids: str) -> None:
        self.ids = ids
        self.asked: list[tuple[str, ...]] = []

    def __call__(self, argv: Sequence[str], _variables: Mapping[str, str]) -> bytes:
        self.asked.append(tuple(argv))
        rows = [row(name) for name in self.ids]
        return json.dumps({"include": rows, "needsDaytona": False, "executionIds": self.ids}).encode()


def test_the_target_lists_its_own_cells() -> None:
    target = FakeTarget("core.p.local.b", "core.p.local.a")

    campaign = plan_from_target(target, Selectors(suites=("core",)), "env", secret=SECRET)

    assert target.asked == [("--matrix-json", "--suite", "core")]
    assert [job.execution_id for job in campaign.jobs] == ["core.p.local.a", "core.p.local.b"]
    assert campaign.runs is None
    assert campaign.keys == {name: build_key(SECRET, name) for name in target.ids}


@pytest.mark.parametrize("transport", ["env", "argv"])
def test_an_id_never_stands_in_the_question(transport: str) -> None:
    target = FakeTarget("core.p.local.b", "core.p.local.a")

    plan_from_target(target, Selectors(ids=("core.p.local.a",)), "env" if transport == "env" else "argv")

    assert not [word for question in target.asked for word in question if "core.p.local.a" in word]


def test_behind_keys_a_timeout_tells_no_cell_from_another_of_its_kind() -> None:
    catalog = build_catalog(
        build_cell("core.p.local.short", attempt_ms=300_000),
        build_cell("core.p.local.long", attempt_ms=900_000),
        build_cell("core.p.daytona.short", attempt_ms=300_000),
        build_cell("core.paid.local.short", attempt_ms=300_000, credential="OPENAI_API_KEY"),
    )
    selectors = Selectors(cases=("short",))

    plain = plan_from_catalog(catalog, selectors)
    opaque = plan_from_catalog(catalog, selectors, secret=SECRET)

    assert {job.execution_id: job.timeout_minutes for job in plain.jobs} == {
        "core.p.local.short": 25,
        "core.p.daytona.short": 40,
        "core.paid.local.short": 25,
    }
    assert {job.execution_id: job.timeout_minutes for job in opaque.jobs} == {
        "core.p.local.short": 38,
        "core.p.daytona.short": 40,
        "core.paid.local.short": 25,
    }


def test_a_row_behind_a_key_is_resolved_with_its_common_timeout() -> None:
    catalog = build_catalog(
        build_cell("core.p.local.short", attempt_ms=300_000),
        build_cell("core.p.local.long", attempt_ms=900_000),
    )
    key = build_key(SECRET, "core.p.local.short")

    found = resolve_cell(catalog, key=key, key_secret=SECRET, said={"key": key, "timeoutMinutes": 38})

    assert found.id == "core.p.local.short"
    with pytest.raises(InputError, match="timeoutMinutes"):
        resolve_cell(catalog, key=key, key_secret=SECRET, said={"key": key, "timeoutMinutes": 25})
