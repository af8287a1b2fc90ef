"""Settings in force, and those that can be changed while the server runs."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from headwater import __version__
from headwater.web.api.access import the_node
from headwater.web.api.endpoint import ADMIN, Answer, Call, Given, Noun
from headwater.web.api.values import FieldError

noun = Noun(
    "settings", "What the server runs with. A change here holds until it is restarted; headwater.toml keeps it."
)

Budget = Annotated[float, Meta(gt=0, le=1e6, description="requests per minute")]


class SettingsView(Answer, frozen=True):
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
    keep_days: float | None
    keep_per_feed: int | None
    only_wanted_by_queries: bool
    allow_private: bool
    public_url: str | None
    time_zone: str


def view(call: Call) -> SettingsView:
    given = call.frame.settings
    return SettingsView(
        version=__version__,
        budget=call.node.crawler.spending.cap.requests if call.node is not None else given.budget,
        budget_bytes=given.budget_bytes,
        host_budget=given.host_budget,
        per_host=given.per_host,
        least_interval=given.least_interval,
        strategy=given.strategy,
        estimator=given.estimator,
        objective=given.objective,
        keep_days=given.keep_days,
        keep_per_feed=given.keep_per_feed,
        only_wanted_by_queries=given.only_wanted_by_queries,
        allow_private=given.allow_private,
        public_url=given.public_url,
        time_zone=given.time_zone,
    )


@noun.get("/settings", ADMIN)
async def show_settings(call: Call) -> SettingsView:
    """Show the settings in force."""
    return view(call)


class SettingsChange(Given, frozen=True):
    """What is left out stays as it is."""

    budget: Budget | UnsetType = UNSET


@noun.patch("/settings", ADMIN)
async def change_settings(call: Call, given: SettingsChange) -> SettingsView:
    """Change what can be changed while the server runs."""
    node = the_node(call)
    if not isinstance(given.budget, UnsetType):
        if node.settings.target is not None:
            raise FieldError("The server aims at a quality and finds the budget itself (target mode).", "budget")
        node.crawler.spending.limit(given.budget)
    return view(call)
