"""The settings page: failures, settings, users, tokens, deliveries, trash, import and export."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from starlette.responses import Response

from headwater.credentials import hash_password, hash_secret, make_secret
from headwater.errors import InputError, SettingsError
from headwater.formats.write import write_opml
from headwater.node.live_settings import CHANGEABLE
from headwater.publish.published_documents import list_outlines
from headwater.schedule.registry import STRATEGIES
from headwater.settings import Settings
from headwater.store.content.feed_overview import FailureGroup, group_failures
from headwater.store.content.refreshes import ActivitySummary, summarise_activity
from headwater.store.maintenance import trash
from headwater.store.maintenance.trash import list_trash, move_api_token_to_trash, move_user_to_trash
from headwater.store.maintenance.trash_entries import (
    TRASHED_API_TOKEN,
    TRASHED_FEED,
    TRASHED_QUERY_FEED,
    TRASHED_SUBSCRIPTION,
    TRASHED_USER,
    Remover,
    RestoredObject,
    TrashEntry,
)
from headwater.store.publishing.deliveries import Delivery, count_deliveries, list_deliveries, retry_deliveries
from headwater.store.readers import accounts
from headwater.store.readers.accounts import (
    ADMIN,
    READ,
    ROLES,
    SCOPES,
    WRITE,
    ApiToken,
    User,
    add_api_token,
    change_user,
    list_api_tokens,
    list_users,
)
from headwater.web.auth.authentication import explain_missing_scope, user_scopes
from headwater.web.charts import Chart
from headwater.web.page import PageGroup, Visit
from headwater.web.pages.quality_page import draw_delay_curve
from headwater.web.shared.failure_advice import FAILURE_ADVICE
from headwater.web.shared.opml_import import start_import
from headwater.web.site import Site, parse_integer

MAX_OPML_BYTES = 20_000_000
DELIVERY_STATES = ("dead", "failed", "due", "sent")
SHOWN_DELIVERIES = 20
NUMBER_HINTS = {
    "budget": "requests per minute, such as 60",
    "target_completeness": "a share of all items, such as .99, or blank",
    "target_freshness": "a share of the items in the feeds, such as .9, or blank",
    "target_delay": "seconds, such as 600, or blank",
    "alert_hours": "hours, such as 6, or blank",
    "keep_days": "days, such as 365, or blank",
    "keep_per_feed": "a number of items, such as 1000, or blank",
    "reader_queries": "a number of queries, such as 50",
    "reader_deliveries": "a number of alerts, such as 10",
    "reader_share": "a share of the budget, such as .5; 1 sets no limit",
}
COUNTS = ("reader_queries", "reader_deliveries")  # may be 0
NEEDED_NUMBERS = ("budget", "reader_share", *COUNTS)
OBJECTIVES = ("balanced", "completeness", "freshness", "delay")
FLASH = {
    "changed": "Settings saved. They hold after a restart too.",
    "until-restart": "Saved until the next start: then an option, the environment or headwater.toml sets them again.",
    "user": "Account created.",
    "gone": "Account removed. Its sessions and tokens no longer work.",
    "user-back": "Account restored. Its sessions have ended.",
    "token-back": "Token restored.",
    "back": "Restored.",
    "zone": "Time zone saved.",
    "revoked": "Token revoked.",
    "resent": "Deliveries queued.",
}


_RESTORED_FLASH = {TRASHED_FEED: "back", TRASHED_SUBSCRIPTION: "subscribed"}
MAX_RESTORED = 100  # trash entries of one form: a script may have dropped many query feeds

pages = PageGroup(FLASH)


@dataclass(frozen=True, slots=True)
class SettingsPage:
    """The values of the page; `health` is for owners, None for readers."""

    user: User
    tokens: tuple[ApiToken, ...]
    removals: tuple[TrashEntry, ...]
    health: ServerHealth | None
    server_zone: str


@dataclass(frozen=True, slots=True)
class ServerHealth:
    summary: ActivitySummary
    troubles: tuple[FailureGroup, ...]
    users: tuple[User, ...]
    deliveries: tuple[Delivery, ...]
    counts: dict[str, int]
    state: str
    curve: Chart | None
    budget: float
    settings: Settings
    network_away_since: float | None


async def load_settings_page(site: Site, user: User, now: float, state: str = "") -> SettingsPage:
    tokens = tuple(await site.store.read(list_api_tokens, user.id))
    removals = tuple(await site.store.read(list_trash, user.id, now, scopes=user_scopes(user)))
    of_server = await load_server_health(site, now, state) if user.is_owner else None
    return SettingsPage(user, tokens, removals, of_server, site.settings.time_zone)


async def load_server_health(site: Site, now: float, state: str = "") -> ServerHealth:
    store = site.store
    counts = await store.read(count_deliveries)
    chosen = state if state in DELIVERY_STATES else "dead" if counts.get("dead") else ""
    return ServerHealth(
        summary=await store.read(summarise_activity, now),
        troubles=tuple(await store.read(group_failures)),
        users=tuple((await store.read(list_users))[:200]),
        deliveries=tuple(
            await store.read(list_deliveries, [chosen] if chosen else (), limit=SHOWN_DELIVERIES, of_server=True)
        ),
        counts=counts,
        state=chosen,
        curve=await draw_delay_curve(site, now),
        budget=site.status().budget_per_minute,
        settings=site.settings,
        network_away_since=site.status().network_away_since,
    )


def read_changes(form: Mapping[str, str]) -> dict[str, Any]:
    """Read the changes of a form; a blank field removes a target or a limit. Raises SettingsError.

    >>> read_changes({"keep_days": "30", "target_delay": "", "strategy": "value", "token": "…"})
    {'strategy': 'value', 'target_delay': None, 'keep_days': 30.0}
    """
    found: dict[str, Any] = {}
    for name in CHANGEABLE:
        if name not in form:
            continue
        given = form[name].strip()
        if name in NUMBER_HINTS:
            found[name] = _parse_number(name, given)
        elif not given:
            raise SettingsError("Must not be blank.", name)
        else:
            found[name] = given
    return found


def _parse_number(name: str, given: str) -> float | None:
    if not given and name not in NEEDED_NUMBERS:
        return None
    try:
        wanted = float(given)
    except ValueError as error:
        raise SettingsError(f"Not a number: enter {NUMBER_HINTS[name]}.", name) from error
    if not (0 < wanted <= 1e9 or (wanted == 0 and name in COUNTS)):
        raise SettingsError(f"Must be above 0: enter {NUMBER_HINTS[name]}.", name)
    return wanted


@pages.get("/settings", READ)
async def show_settings(visit: Visit) -> Response:
    return await _render_settings(visit)


async def _render_settings(visit: Visit, secret: str = "") -> Response:
    """Render the page; `secret` is a new API token, which is shown this once."""
    page = await load_settings_page(visit.site, visit.user, visit.now, visit.query("deliveries"))
    values = {"causes": FAILURE_ADVICE, "scopes": SCOPES, "roles": ROLES, "states": DELIVERY_STATES, "secret": secret}
    values["by_hand"] = sorted(visit.site.aggregator.pinned_settings)
    return visit.render("settings_page.html", page=page, strategies=sorted(STRATEGIES), dials=OBJECTIVES, **values)


@pages.post("/settings/change", ADMIN, error_page=show_settings)
async def change_settings(visit: Visit) -> Response:
    """Change settings of the running server."""
    changes = read_changes(visit.form)
    before = visit.site.settings
    try:
        await visit.site.aggregator.change_settings(changes)
    except InputError as error:
        error.field = error.field if error.field in visit.form else ""
        raise
    after = visit.site.settings
    pinned = visit.site.aggregator.pinned_settings & changes.keys()
    passing = any(getattr(before, name) != getattr(after, name) for name in pinned)
    return visit.redirect("/settings", flash="until-restart" if passing else "changed")


@pages.post(
    "/settings/import",
    WRITE,
    error_page=show_settings,
    error_field="file",
    upload_field="file",
    form_limit=MAX_OPML_BYTES,
)
async def import_opml(visit: Visit) -> Response:
    """Import an OPML list as a background job."""
    job = await start_import(visit.site, visit.upload, visit.user.id)
    return visit.redirect(f"/jobs/{job.id}")


@pages.get("/settings/export.opml", READ)
async def export_opml(visit: Visit) -> Response:
    """Export the reader's subscriptions as OPML, with query feeds."""
    outlines = await list_outlines(visit.store, visit.user, visit.site.base_url, visit.now)
    body = await asyncio.to_thread(write_opml, outlines)
    headers = {"Content-Disposition": 'attachment; filename="headwater.opml"'}
    return Response(body, media_type="text/x-opml", headers=headers)


@pages.post("/settings/users", ADMIN, error_page=show_settings)
async def add_user(visit: Visit) -> Response:
    hashed = await asyncio.to_thread(hash_password, visit.form.get("password", ""))
    await visit.store.write(
        accounts.add_user, visit.field("name"), hashed, visit.now, role=visit.form.get("role", "reader")
    )
    return visit.redirect("/settings", flash="user")


@pages.post("/settings/users/remove", ADMIN, error_page=show_settings)
async def remove_user(visit: Visit) -> Response:
    other = parse_integer(visit.form.get("user"))
    if other is None or other == visit.user.id:
        raise InputError("You cannot remove your own account here.")
    undo = await visit.store.write(move_user_to_trash, other, by=Remover(visit.user.id, visit.now))
    return visit.redirect("/settings", flash="gone", undo=undo)


@pages.post("/settings/time-zone", WRITE, error_page=show_settings)
async def change_time_zone(visit: Visit) -> Response:
    await visit.store.write(change_user, visit.user.id, time_zone=visit.field("time_zone"))
    return visit.redirect("/settings", flash="zone")


@pages.post("/settings/tokens", WRITE, error_page=show_settings)
async def add_token(visit: Visit) -> Response:
    """Make an API token, which the answer to the form shows this once. It may do no more than who asks for it."""
    secret = make_secret()
    scopes = [scope for scope in SCOPES if visit.form.get(f"scope-{scope}")]
    assert visit.identity is not None
    for scope in set(scopes) - visit.identity.scopes:
        raise InputError(explain_missing_scope(visit.identity, scope), "scopes")
    label = visit.field("label")[:100] or "without a name"
    await visit.store.write(add_api_token, visit.user.id, hash_secret(secret), label, scopes, visit.now)
    return await _render_settings(visit, secret)


@pages.post("/settings/tokens/revoke", WRITE, error_page=show_settings)
async def revoke_token(visit: Visit) -> Response:
    by = Remover(visit.user.id, visit.now)
    token_id = parse_integer(visit.form.get("token_id"), 0) or 0
    undo = await visit.store.write(move_api_token_to_trash, visit.user.id, token_id, by=by)
    return visit.redirect("/settings", flash="revoked", undo=undo)


@pages.post("/settings/resend", ADMIN, error_page=show_settings)
async def resend_deliveries(visit: Visit) -> Response:
    delivery = parse_integer(visit.form.get("delivery"))
    if delivery is None and visit.form.get("which") != "dead":
        raise InputError("The form does not name a delivery. Load the page again.")
    await visit.store.write(retry_deliveries, [delivery] if delivery is not None else [], visit.now)
    visit.site.aggregator.wake_deliveries()
    return visit.redirect("/settings", flash="resent")


@pages.post("/undo", WRITE)
async def restore_from_trash(visit: Visit) -> Response:
    """Restore the named trash entries, the last first: it may need what went before it."""
    assert visit.identity is not None
    entries = [id for part in visit.form.get("undo", "").split(",")[:MAX_RESTORED] if (id := parse_integer(part))]
    restored = None
    for entry in entries[::-1]:
        restored = await visit.store.write(
            trash.restore_from_trash, entry, visit.user.id, visit.now, scopes=visit.identity.scopes
        )
    if restored is None:
        raise InputError("The form does not name anything to restore. Load the page again.")
    return _redirect_to_restored(visit, restored)


def _redirect_to_restored(visit: Visit, restored: RestoredObject) -> Response:
    """Redirect to the page that shows the restored object."""
    if restored.kind in _RESTORED_FLASH and restored.ref is not None:
        return visit.redirect(f"/feed/{restored.ref}", flash=_RESTORED_FLASH[restored.kind])
    if restored.kind == TRASHED_QUERY_FEED:
        return visit.redirect(f"/queries/{restored.ref}", flash="back")
    flash = {TRASHED_USER: "user-back", TRASHED_API_TOKEN: "token-back"}.get(restored.kind, "back")
    return visit.redirect("/settings", flash=flash)
