"""What each agent of the real product wrote, searched for what it must not have had."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from runner_e2e.cell.agent_run import Coverage
from runner_e2e.cell.matchers import judge_matchers
from runner_e2e.cell.matchers_observed import Message, Observed
from runner_e2e.cell.matchers_reader import DirectoryReader
from runner_e2e.cell.paperclip_agents import Worker
from runner_e2e.cell.paperclip_leads import read_findings
from runner_e2e.cell.paperclip_places import PaperclipPlaces
from runner_e2e.cell.paperclip_task import PaperclipTask
from runner_e2e.evidence.attempts import Attempt, Place, Reach, judge_attempts
from runner_e2e.evidence.search import Search
from runner_e2e.isolation.layout import DURABLE_SESSIONS


def match_workers(places: PaperclipPlaces, task: PaperclipTask, workers: Sequence[Worker]) -> None:
    """Give each worker what the task's matchers say of what it left."""
    for worker in workers:
        observed = Observed(
            agent=worker.agent,
            messages=tuple(Message(worker.agent, text) for text in worker.messages),
            issue_status=worker.issue_status,
            run_statuses=worker.statuses,
            runtime_modes=worker.modes,
            environment=worker.environment,
            files=DirectoryReader(places.instance / "workspaces" / worker.agent),
        )
        worker.matchers = judge_matchers(task.matchers, observed)


def judge_workers(  # noqa: PLR0913 - one table of everything, keyword only
    *,
    places: PaperclipPlaces,
    company: str,
    workers: Sequence[Worker],
    asked: Mapping[str, Sequence[Place]],
    heard: Mapping[str, Sequence[str]],
    launches: Sequence[Mapping[str, object]],
    witness: str,
) -> Coverage:
    """Give each worker its table of attempts: its own account, and what of it stands in what it wrote.

    `asked` are the places that each was sent to, `heard` what its tools answered, as its model saw it, by
    the worker's name. `witness` stands in an account, and in no command that asks for one.
    """
    searches = []
    for worker in workers:
        wanted, texts = asked.get(worker.name, ()), heard.get(worker.name, ())
        search = Search.of({place.canary for place in wanted})
        for text in (*worker.messages, *texts):
            search.search_bytes(text.encode("utf-8", "surrogateescape"))
        for path in find_written(places, company, worker, launches):
            search.search_tree(path)
        rows = judge_attempts(_first_of_each(wanted), read_findings(texts), search.found)
        worker.attempts = tuple(map(_believe, rows))
        worker.accounts_in = find_accounts(places, find_written(places, company, worker, launches), witness)
        searches.append(search)
    return Coverage(
        sum(search.searched_bytes for search in searches),
        [path for search in searches for path in search.unsearched],
    )


def find_written(
    places: PaperclipPlaces, company: str, worker: Worker, launches: Iterable[Mapping[str, object]]
) -> list[Path]:
    """Return where an agent could write that is its own: its workspace, its run log, its launches' own."""
    instance = places.instance
    found = {instance / "workspaces" / worker.agent, instance / "data/run-logs" / company / worker.agent}
    own = {row.get("id") for row in worker.runs}
    for launch in launches:
        exposed = launch.get("exposed")
        if launch.get("run") in own and isinstance(exposed, list):
            found.update(Path(str(path)) for path in exposed)
    return sorted(path for path in found if path.exists())


def find_accounts(places: PaperclipPlaces, written: Iterable[Path], witness: str) -> tuple[str, ...]:
    """Return in what of an agent's own its account stands, `session`, `home` or `runLog`, by its witness.

    The product's run log of a native run holds messages and no output of tools, which is in the session's
    database alone; that of a command holds all that it printed.
    """
    kinds = {
        "session": places.instance / DURABLE_SESSIONS,
        "home": places.root.scratch,
        "runLog": places.instance / "data/run-logs",
    }
    found = set()
    for path in written:
        search = Search.of({witness})
        search.search_tree(path)
        if search.found:
            found |= {kind for kind, top in kinds.items() if path.is_relative_to(top)}
    return tuple(sorted(found))


def _believe(row: Attempt) -> Attempt:
    """Return a row as reached where the agent says so: a signal or a connection leaves no canary behind."""
    obtained = row.finding is not None and row.finding.outcome == "obtained"
    return replace(row, reach=Reach.REACHED) if obtained and not row.place.known_gap else row


def _first_of_each(places: Sequence[Place]) -> list[Place]:
    return list({(place.id, place.canary): place for place in places}.values())
