"""Handing a plan on: outputs for the matrix, a summary for people.

With opaque keys nothing here may name a suite, a profile or a case.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from runner_e2e.actions.entry import TITLE
from runner_e2e.actions.plan_inputs import PlanInputs
from runner_e2e.actions.surface import ActionSurface
from runner_e2e.actions.uploads import build_upload_name, make_upload_directory, write_files
from runner_e2e.plan.campaign import Campaign
from runner_e2e.plan.definitions import DAYTONA_CREDENTIAL
from runner_e2e.plan.matrix import Job
from runner_e2e.plan.plan_file import FILE_NAME
from runner_e2e.report.markdown import escape_markdown


def warn_of_names(surface: ActionSurface, inputs: PlanInputs) -> None:
    """Say that inputs name cells although keys are to stand for them: the run's event file holds inputs."""
    if inputs.named_in_inputs:
        surface.warning(
            "Cells are to be named by opaque keys, and the inputs of this run name them in the clear. "
            "Select by suite or group, or give keys as id.",
            TITLE,
        )


def warn_of_daytona(surface: ActionSurface, campaign: Campaign) -> None:
    """Say that the reference's cells on Daytona can be planned and not be run."""
    count = sum(job.needs_daytona for job in campaign.jobs)
    if count:
        surface.warning(
            f"{count} of {len(campaign.jobs)} cells take place on daytona, and the reference harness runs "
            "local ones alone. Set environment to local.",
            TITLE,
        )


def stage_plan(
    content: bytes, prefix: str, run: str, attempt: int, environ: Mapping[str, str]
) -> dict[str, str]:
    """Write `plan.json` where it can be uploaded from; return the outputs that the upload needs."""
    directory = make_upload_directory("plan", environ)
    write_files(directory, {FILE_NAME: content})
    return {
        "artifact-name": build_upload_name("plan", prefix, run, attempt),
        "upload-path": str(directory),
    }


def publish_plan(surface: ActionSurface, campaign: Campaign, outputs: Mapping[str, str]) -> None:
    """Write summary and outputs; the outputs last and together, so that a failed plan leaves none."""
    for note in campaign.notes if campaign.keys is None else ():
        surface.notice(note, TITLE)
    if not surface.for_person:  # who gets it from the summary
        surface.line(describe_plan(campaign, outputs))
    surface.summary(*plan_summary(campaign, outputs))
    surface.outputs(outputs)


def describe_plan(campaign: Campaign, outputs: Mapping[str, str]) -> str:
    """Return the plan in one line."""
    environments = Counter(job.environment_id for job in campaign.jobs)
    parts = [
        _counted(len(campaign.jobs), "cell"),
        " and ".join(f"{number} {name}" for name, number in sorted(environments.items(), reverse=True)),
        _counted(int(outputs["shard-count"]), "matrix", "matrices"),
        f"at most {outputs['max-parallel']} at once",
    ]
    if campaign.runs is not None:
        parts.append(f"at most {_counted(campaign.runs, 'agent run')}")
    return ", ".join(parts)


def plan_summary(campaign: Campaign, outputs: Mapping[str, str]) -> tuple[str, ...]:
    """Return the summary in stages: every cell, counts, one line."""
    head = f"# Plan\n\n{describe_plan(campaign, outputs)}.\n"
    if campaign.keys is not None:
        return (f"{head}\nCells are named by opaque keys.\n\n{_credentials(campaign.jobs)}",)
    counts = f"{head}\n{_suites(campaign.jobs)}\n{_credentials(campaign.jobs)}"
    return f"{counts}\n{_cells(campaign.jobs)}", counts, head


def _suites(jobs: Sequence[Job]) -> str:
    lines = ["| suite | profiles | environments | cells |", "|---|---|---|---|"]
    for suite in dict.fromkeys(job.suite_id for job in jobs):
        own = [job for job in jobs if job.suite_id == suite]
        profiles = dict.fromkeys(job.profile_id for job in own)
        environments = dict.fromkeys(job.environment_id for job in own)
        lines.append(
            f"| {escape_markdown(suite)} | {escape_markdown(', '.join(profiles))} |"
            f" {escape_markdown(', '.join(environments))} | {len(own)} |"
        )
    return "\n".join(lines) + "\n"


def _credentials(jobs: Sequence[Job]) -> str:
    counts = Counter(name for job in jobs for name in _needed(job))
    lines = ["| credential | cells |", "|---|---|"]
    lines += [f"| {escape_markdown(name)} | {number} |" for name, number in sorted(counts.items())]
    return "\n".join(lines) + "\n"


def _needed(job: Job) -> tuple[str, ...]:
    daytona = (DAYTONA_CREDENTIAL,) if job.needs_daytona else ()
    own = () if job.credential_name is None else (job.credential_name,)
    return (*own, *daytona) or ("none",)


def _cells(jobs: Sequence[Job]) -> str:
    lines = ["<details><summary>Cells</summary>\n", "| cell | minutes |", "|---|---|"]
    lines += [f"| {escape_markdown(job.execution_id)} | {job.timeout_minutes} |" for job in jobs]
    return "\n".join([*lines, "\n</details>"]) + "\n"


def _counted(number: int, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or f'{one}s'}"
