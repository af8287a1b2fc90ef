"""Settings in force, and those that can be changed while the server runs."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from headwater import __version__
from headwater.errors import NotFound
from headwater.node.live_settings import CHANGEABLE
from headwater.store.maintenance.trash_restore import list_trash, restore_from_trash
from headwater.store.maintenance.trash_rows import TrashEntry
from headwater.web.api.api_types import Id, ListPage, ShortText, Time
from headwater.web.api.endpoint import (
    ADMIN,
    ApiCall,
    EndpointGroup,
    Parameters,
    RequestBody,
    ResponseBody,
    require_aggregator,
)
from headwater.web.shared.background_jobs import BackgroundJob
from headwater.web.shared.opml_import import ImportResult
from headwater.web.shared.strategy_comparison import StrategyComparison

job_group = EndpointGroup("jobs", "Long work: imports and comparisons. A job is known until the server is restarted.")


class BackgroundJobView(ResponseBody, frozen=True):
    """`done` of `total` (0: not known yet), then what was imported, or a problem; what was compared grows meanwhile."""

    id: str
    title: str
    running: bool
    done: int
    total: int
    unit: str
    doing: str
    started: Time
    ended: float | None
    imported: ImportResult | None
    compared: StrategyComparison | None
    problem: str | None


def view_job(job: BackgroundJob) -> BackgroundJobView:
    return BackgroundJobView(
        id=job.id,
        title=job.title,
        running=job.running,
        done=job.done,
        total=job.total,
        unit=job.unit,
        doing=job.doing,
        started=job.started,
        ended=job.ended,
        imported=job.result if isinstance(job.result, ImportResult) else None,
        compared=job.result if isinstance(job.result, StrategyComparison) else None,
        problem=job.problem,
    )


class JobParameters(Parameters, frozen=True):
    id: Annotated[str, Meta(min_length=1, max_length=50, pattern=r"^[A-Za-z0-9_-]+$")]


@job_group.get("/jobs/{id}")
async def show_job(call: ApiCall, asked: JobParameters) -> BackgroundJobView:
    """Say how far a job is. Whoever knows its number may ask."""
    job = call.site.background_jobs.find_job(asked.id)
    if job is None:
        raise NotFound("This work is over, or the server was restarted since: look whether its result is there.")
    return view_job(job)


removal_group = EndpointGroup("removals", "What was removed and can be taken back, for a day.")


class TrashEntryView(ResponseBody, frozen=True):
    """Something that was removed; `undo` is the number by which it is taken back until `until`."""

    undo: int
    kind: str
    label: str
    at: Time
    until: Time


def view_removal(one: TrashEntry) -> TrashEntryView:
    return TrashEntryView(undo=one.id, kind=one.kind, label=one.label, at=one.at, until=one.until)


@removal_group.get("/removals")
async def list_removals(call: ApiCall) -> ListPage[TrashEntryView]:
    """List what you can take back, the latest hundred first; owners also what was removed for everybody."""
    found = await call.store.read(list_trash, call.user.id, call.now, scopes=call.who.scopes)
    return ListPage(items=[view_removal(one) for one in found], next=None)


class RestoreRequest(RequestBody, frozen=True):
    undo: Annotated[Id, Meta(description="the number that the removal answered")]


class RestoredView(ResponseBody, frozen=True):
    """What came back."""

    kind: str
    label: str


@removal_group.post("/removals/undo")
async def undo_removal(call: ApiCall, given: RestoreRequest) -> RestoredView:
    """Take a removal back: what was removed is as it was before.

    Where its name or address has been taken meanwhile, nothing is changed and the answer says by what.
    """
    back = await call.store.write(restore_from_trash, given.undo, call.user.id, call.now, scopes=call.who.scopes)
    return RestoredView(kind=back.kind, label=back.label)


settings_group = EndpointGroup(
    "settings",
    "What the server runs with. A change here holds at once, on every node of the database and after a restart; but "
    "what an option, the environment or headwater.toml gives (`by_hand`) wins at the next start.",
)

Budget = Annotated[float, Meta(gt=0, le=1e6, description="requests per minute")]
Share = Annotated[float, Meta(gt=0, lt=1)]
Seconds = Annotated[float, Meta(gt=0, le=1e9, description="the mean delay")]
Days = Annotated[float, Meta(gt=0, le=1e6, description="items first seen longer ago are deleted; null keeps them")]
ItemCount = Annotated[int, Meta(gt=0, le=2**31, description="items beyond the newest so many of a feed are deleted")]
ReaderQuotaText = Annotated[
    str,
    Meta(
        pattern="^(yes|no|[0-9]{1,9})$",
        description="feeds that a reader may bring to the server and nobody else reads: no, yes, or how many",
    ),
]


class SettingsView(ResponseBody, frozen=True):
    """Settings that matter while the server runs; passwords and addresses of servers are not among them."""

    version: str
    budget: float
    budget_bytes: float | None
    host_budget: float | None
    per_host: int
    least_interval: float
    strategy: str
    estimator: str | None
    objective: str
    target_completeness: float | None
    target_freshness: float | None
    target_delay: float | None
    keep_days: float | None
    keep_per_feed: int | None
    only_wanted_by_queries: bool
    allow_private: bool
    public_url: str | None
    time_zone: str
    readers_add: str
    by_hand: Annotated[list[str], Meta(description="which of those that can be changed here are given at every start")]


def view_settings(call: ApiCall) -> SettingsView:
    given = call.site.settings
    return SettingsView(
        version=__version__,
        budget=call.node.status().budget_per_minute if call.node is not None else given.budget,
        budget_bytes=given.budget_bytes,
        host_budget=given.host_budget,
        per_host=given.per_host,
        least_interval=given.least_interval,
        strategy=given.strategy,
        estimator=given.estimator,
        objective=given.objective,
        target_completeness=given.target_completeness,
        target_freshness=given.target_freshness,
        target_delay=given.target_delay,
        keep_days=given.keep_days,
        keep_per_feed=given.keep_per_feed,
        only_wanted_by_queries=given.only_wanted_by_queries,
        allow_private=given.allow_private,
        public_url=given.public_url,
        time_zone=given.time_zone,
        readers_add=given.readers_add,
        by_hand=sorted(call.node.pinned_settings) if call.node is not None else [],
    )


@settings_group.get("/settings", ADMIN)
async def show_settings(call: ApiCall) -> SettingsView:
    """Show the settings in force."""
    return view_settings(call)


class SettingsChange(RequestBody, frozen=True):
    """What is left out stays as it is; null takes a target or a limit away.

    Strategies and estimators go by the names of docs/strategies.md; those of one's own stand in headwater.toml.
    """

    budget: Budget | UnsetType = UNSET
    strategy: ShortText | UnsetType = UNSET
    estimator: ShortText | UnsetType | None = UNSET
    objective: ShortText | UnsetType = UNSET
    target_completeness: Share | UnsetType | None = UNSET
    target_freshness: Share | UnsetType | None = UNSET
    target_delay: Seconds | UnsetType | None = UNSET
    keep_days: Days | UnsetType | None = UNSET
    keep_per_feed: ItemCount | UnsetType | None = UNSET
    readers_add: ReaderQuotaText | UnsetType = UNSET


@settings_group.patch("/settings", ADMIN)
async def change_settings(call: ApiCall, given: SettingsChange) -> SettingsView:
    """Change what can be changed while the server runs."""
    node = require_aggregator(call)
    changes = {name: value for name in CHANGEABLE if (value := getattr(given, name)) is not UNSET}
    if changes:
        await node.change_settings(changes)
    return view_settings(call)
