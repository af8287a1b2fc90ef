"""Endpoints of the server: background jobs, removals that can be undone, settings."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from headwater import __version__
from headwater.errors import NotFound
from headwater.node.live_settings import CHANGEABLE
from headwater.publish.delivery.sinks import parse_mail_server
from headwater.store.maintenance.trash import list_trash, restore_from_trash
from headwater.store.maintenance.trash_entries import TrashEntry
from headwater.web.api.api_types import Id, ListPage, ShortText, Time
from headwater.web.api.endpoint import (
    ADMIN,
    ApiCall,
    EndpointGroup,
    Parameters,
    RequestBody,
    ResponseBody,
)
from headwater.web.shared.background_jobs import BackgroundJob
from headwater.web.shared.opml_import import ImportResult
from headwater.web.shared.strategy_comparison import StrategyComparison

job_group = EndpointGroup(
    "jobs", "Background jobs: imports and comparisons. Jobs are forgotten when the server restarts."
)


class BackgroundJobView(ResponseBody, frozen=True):
    """The progress of a job, `done` of `total` (0: not known yet), and its result or its problem.

    The result of a comparison grows while the job runs.
    """

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
    return BackgroundJobView.from_row(
        job,
        imported=job.result if isinstance(job.result, ImportResult) else None,
        compared=job.result if isinstance(job.result, StrategyComparison) else None,
    )


class JobParameters(Parameters, frozen=True):
    id: Annotated[str, Meta(min_length=1, max_length=50, pattern=r"^[A-Za-z0-9_-]+$")]


@job_group.get("/jobs/{id}")
async def show_job(call: ApiCall, parameters: JobParameters) -> BackgroundJobView:
    """Show the progress of a job to anybody who knows its id."""
    job = call.site.background_jobs.find_job(parameters.id)
    if job is None:
        raise NotFound("There is no such job. It ended long ago or the server was restarted: check for its result.")
    return view_job(job)


removal_group = EndpointGroup("removals", "Removals, which can be undone for a day.")


class TrashEntryView(ResponseBody, frozen=True):
    """A removal that can be undone until `until`, by the id `undo`."""

    undo: int
    kind: str
    label: str
    at: Time
    until: Time


def view_removal(one: TrashEntry) -> TrashEntryView:
    return TrashEntryView(undo=one.id, kind=one.kind, label=one.label, at=one.at, until=one.until)


@removal_group.get("/removals")
async def list_removals(call: ApiCall) -> ListPage[TrashEntryView]:
    """List the latest hundred removals that you can undo; owners also see those of shared things."""
    found = await call.store.read(list_trash, call.user.id, call.now, scopes=call.who.scopes)
    return ListPage(items=[view_removal(one) for one in found], next=None)


class RestoreRequest(RequestBody, frozen=True):
    undo: Annotated[Id, Meta(description="the id that the removal returned")]


class RestoredView(ResponseBody, frozen=True):
    """The kind and the name of the restored thing."""

    kind: str
    label: str


@removal_group.post("/removals/undo")
async def undo_removal(call: ApiCall, body: RestoreRequest) -> RestoredView:
    """Undo a removal.

    If another thing has taken the name or address meanwhile, nothing changes and the error names it.
    """
    back = await call.store.write(restore_from_trash, body.undo, call.user.id, call.now, scopes=call.who.scopes)
    return RestoredView(kind=back.kind, label=back.label)


settings_group = EndpointGroup(
    "settings",
    "Server settings. Changes apply immediately on all nodes and are kept after a restart, but options, environment "
    "variables and headwater.toml (`by_hand`) override them at the next start.",
)

Budget = Annotated[float, Meta(gt=0, le=1e6, description="requests per minute")]
Share = Annotated[float, Meta(gt=0, lt=1)]
Seconds = Annotated[float, Meta(gt=0, le=1e9, description="mean delay in seconds")]
Days = Annotated[float, Meta(gt=0, le=1e6, description="older items are deleted; null keeps all")]
AlertHours = Annotated[
    float, Meta(gt=0, le=1e6, description="hours after which a missed TARGET is told to the receiver; null: never")
]
ItemCount = Annotated[
    int, Meta(gt=0, le=2**31, description="the number of newest items kept per feed; older items are deleted")
]
ReaderQuotaText = Annotated[
    str,
    Meta(
        pattern="^(yes|no|[0-9]{1,9})$",
        description="new feeds per reader that nobody else reads: no, yes, or how many",
    ),
]

ReaderCount = Annotated[int, Meta(ge=0, le=1_000_000, description="query feeds of one reader, or those with an alert")]
ReaderShare = Annotated[
    float, Meta(gt=0, le=1, description="share of the budget for feeds that only readers subscribe to")
]
MailServerUrl = Annotated[
    str, Meta(max_length=1000, description="smtp://[user:password@]host[:port] or smtps://…; the password is not shown")
]


class SettingsView(ResponseBody, frozen=True):
    """The current settings, without passwords and addresses of servers."""

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
    alert_hours: float | None
    keep_days: float | None
    keep_per_feed: int | None
    only_wanted_by_queries: bool
    allow_private: bool
    public_url: str | None
    time_zone: str
    readers_add: str
    reader_queries: int
    reader_deliveries: int
    reader_share: float
    mail_server: Annotated[str | None, Meta(description="the address in `smtp_url`, without its password")]
    mail_from: str | None
    by_hand: Annotated[
        list[str], Meta(description="changeable settings that an option, variable or file sets at every start")
    ]


def view_settings(call: ApiCall) -> SettingsView:
    return SettingsView.from_row(
        call.site.settings,
        version=__version__,
        mail_server=None if (url := call.site.settings.smtp_url) is None else parse_mail_server(url).describe(),
        budget=call.aggregator.status().budget_per_minute,
        by_hand=sorted(call.aggregator.pinned_settings),
    )


@settings_group.get("/settings", ADMIN)
async def show_settings(call: ApiCall) -> SettingsView:
    """Show the current settings."""
    return view_settings(call)


class SettingsChange(RequestBody, frozen=True):
    """Fields that are left out keep their values; null removes a target or a limit.

    docs/strategies.md lists the strategies and docs/estimators.md the estimators; your own are set in headwater.toml.
    """

    budget: Budget | UnsetType = UNSET
    strategy: ShortText | UnsetType = UNSET
    estimator: ShortText | UnsetType | None = UNSET
    objective: ShortText | UnsetType = UNSET
    target_completeness: Share | UnsetType | None = UNSET
    target_freshness: Share | UnsetType | None = UNSET
    target_delay: Seconds | UnsetType | None = UNSET
    alert_hours: AlertHours | UnsetType | None = UNSET
    keep_days: Days | UnsetType | None = UNSET
    keep_per_feed: ItemCount | UnsetType | None = UNSET
    readers_add: ReaderQuotaText | UnsetType = UNSET
    reader_queries: ReaderCount | UnsetType = UNSET
    reader_deliveries: ReaderCount | UnsetType = UNSET
    reader_share: ReaderShare | UnsetType = UNSET
    smtp_url: MailServerUrl | UnsetType | None = UNSET
    mail_from: ShortText | UnsetType | None = UNSET


@settings_group.patch("/settings", ADMIN)
async def change_settings(call: ApiCall, body: SettingsChange) -> SettingsView:
    """Change settings while the server runs."""
    changes = {name: value for name in CHANGEABLE if (value := getattr(body, name)) is not UNSET}
    if changes:
        await call.aggregator.change_settings(changes)
    return view_settings(call)
