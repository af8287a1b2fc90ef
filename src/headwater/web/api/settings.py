"""Settings in force, and those that can be changed while the server runs."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from headwater import __version__
from headwater.node.changing import CHANGEABLE
from headwater.web.api.access import require_aggregator
from headwater.web.api.endpoint import ADMIN, ApiCall, EndpointGroup, RequestBody, ResponseBody
from headwater.web.api.values import ShortText

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
    given = call.frame.settings
    return SettingsView(
        version=__version__,
        budget=call.node.crawler.budget.cap.requests if call.node is not None else given.budget,
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
