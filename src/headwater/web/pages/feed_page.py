"""The page of a feed: its pattern, refreshes, schedule and settings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, tzinfo

from starlette.responses import Response

from headwater.errors import InputError, NotFound, RefreshHeld
from headwater.model import Ending, Feed, Refresh
from headwater.node.feed_pace import parse_interval, parse_weight
from headwater.node.quality.feed_explanation import ScheduleExplanation, explain_feed_schedule, load_weekly_pattern
from headwater.settings import Settings
from headwater.store.content import feeds
from headwater.store.content.feed_overview import find_similar_feeds
from headwater.store.content.items import count_items
from headwater.store.content.refreshes import list_refreshes
from headwater.store.maintenance.trash import move_feed_to_trash, move_subscription_to_trash
from headwater.store.maintenance.trash_entries import Remover
from headwater.store.queries.query_access import may_read_query
from headwater.store.queries.query_feeds import find_query_feeds
from headwater.store.queries.selectivity import list_selectivity
from headwater.store.queries.source_references import describe_users, find_users
from headwater.store.readers.accounts import ADMIN, READ, WRITE, User
from headwater.store.readers.subscriptions import find_subscription
from headwater.store.store import Store
from headwater.times import WEEK, format_relative, format_time, name_zone
from headwater.web.charts import DAYS, Chart, draw_heat_map, draw_refresh_strip
from headwater.web.page import PageGroup, Visit
from headwater.web.shared.schedule_sentences import explain_schedule
from headwater.web.site import format_brief, parse_integer, redirect_inside

SHOWN_REFRESHES = 300  # refreshes in the strip
FLASH = {
    "added": "Feed added, with its first items.",
    "known": "The feed was there already.",
    "paused": "Feed paused.",
    "resumed": "Feed resumed.",
    "weighed": "Weight saved.",
    "paced": "Interval saved.",
    "renamed": "Title saved.",
    "tagged": "Tags saved.",
    "moved": "Address changed. The next refresh uses it.",
    "refreshed": "Feed refreshed.",
    "merged": "Feeds merged.",
    "held": "The feed's server asked for a pause; the feed was not refreshed.",
    "subscribed": "Subscription restored.",
    "back": "Feed restored, with its items.",
}


pages = PageGroup(FLASH)


@dataclass(frozen=True, slots=True)
class FeedPage:
    """The values of the page; charts are None while there is nothing to draw."""

    explanation: ScheduleExplanation
    sentences: tuple[str, ...]
    pattern: Chart | None
    strip: Chart | None
    refreshes: tuple[Refresh, ...]
    items: int
    alike: tuple[Feed, ...]
    queries: tuple[str, ...]  # query feeds with items of this feed

    @property
    def feed(self) -> Feed:
        return self.explanation.feed


async def load_feed_page(
    store: Store, settings: Settings, user: User, feed_id: int, now: float, zone: tzinfo = UTC
) -> FeedPage:
    """Load the values of the page. Raises NotFound."""
    explanation = await explain_feed_schedule(store, settings, feed_id, now, zone)
    refreshes = await store.read(list_refreshes, feed_id, since=now - WEEK, limit=SHOWN_REFRESHES)
    sources = [one.query_id for one in await store.read(list_selectivity) if one.feed_id == feed_id and one.kept]
    queries = [query for query in await store.read(find_query_feeds, sources) if may_read_query(user, query)]
    return FeedPage(
        explanation=explanation,
        sentences=explain_schedule(explanation, refreshes, now, zone),
        pattern=await _draw_pattern(store, explanation, now, zone),
        strip=_draw_refreshes(refreshes[::-1], now, zone),
        refreshes=tuple(refreshes[:20]),
        items=await store.read(count_items, feed_id),
        alike=tuple(await store.read(find_similar_feeds, feed_id)),
        queries=tuple(query.name for query in queries),
    )


async def _draw_pattern(store: Store, explanation: ScheduleExplanation, now: float, zone: tzinfo) -> Chart | None:
    found = await load_weekly_pattern(store, explanation, now, zone)
    if found.believed is None:
        return None
    name = name_zone(now, zone)
    return draw_heat_map(_describe_pattern(found.believed, name), found.believed, found.counted, found.weeks, name)


def _describe_pattern(believed: tuple[float, ...], zone: str) -> str:
    """Describe the weekly pattern in a sentence."""
    total = sum(believed)
    if total <= 0:
        return "This feed is expected to publish nothing"
    hours = [sum(believed[h::24]) for h in range(24)]
    busiest = max(range(24), key=lambda h: sum(hours[(h + k) % 24] for k in range(6)))
    share = sum(hours[(busiest + k) % 24] for k in range(6)) / total
    days = [sum(believed[24 * d : 24 * d + 24]) for d in range(7)]
    if share < 0.35 and max(days) < 1.6 * total / 7:
        return f"About {format_brief(total)} items a week, at any hour"
    if share < 0.35:
        return f"About {format_brief(total)} items a week, most on {DAYS[days.index(max(days))]}"
    period = f"{busiest}:00 and {(busiest + 6) % 24}:00 {zone}"
    return f"About {format_brief(total)} items a week, {100 * share:.0f} % of them between {period}"


def _draw_refreshes(refreshes: list[Refresh], now: float, zone: tzinfo) -> Chart | None:
    if not refreshes:
        return None
    new, lost = sum(one.new for one in refreshes), sum(one.lost for one in refreshes)
    failed = sum(not one.ending.ok for one in refreshes)
    same = sum(one.ending is Ending.UNCHANGED for one in refreshes)
    title = f"{_format_count(len(refreshes), 'refresh', 'refreshes')} brought {_format_count(new, 'item', 'items')}"
    last = next((one.message for one in reversed(refreshes) if one.ending is Ending.CHANGED), "")
    unread = "could be read" in last  # of a damaged document
    title += f", about {lost:.0f} were lost" if lost >= 0.5 else "" if unread else ", none was lost"
    if unread:
        title += f"; {last}"
    if failed:
        title += f", {failed} failed"
    elif same > len(refreshes) / 2:
        title += f"; {same} found nothing changed"
    return draw_refresh_strip(title, refreshes, refreshes[0].at, max(now, refreshes[-1].at), zone)


def _format_count(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"


READER_ACTIONS = ("refresh", "unsubscribe")  # for every subscriber of the feed
# The field of each action's form, for errors.
ACTION_FIELDS = {
    "weigh": "weight",
    "pace": "interval",
    "tag": "tags",
    "rename": "title",
    "move": "url",
    "merge": "other",
}


@pages.get("/feed/{feed_id}", READ)
async def show_feed(visit: Visit) -> Response:
    feed_id = parse_integer(visit.path("feed_id"))
    if feed_id is None:
        raise NotFound("There is no such feed: the address does not end with a number.")
    await _require_visible(visit, feed_id)
    return await _render_feed(visit, feed_id)


async def _render_feed(visit: Visit, feed_id: int, merging: Feed | None = None) -> Response:
    """Render the page; with `merging`, it asks whether to merge that feed into this one."""
    page = await load_feed_page(visit.store, visit.site.settings, visit.user, feed_id, visit.now, visit.zone)
    mine = await visit.store.read(find_subscription, visit.user.id, feed_id=feed_id)
    owner = visit.user.is_owner
    tags = page.feed.tags if owner else mine.tags if mine else ()
    users = await visit.store.read(find_users, page.feed) if owner else []
    return visit.render(
        "feed_page.html",
        page=page,
        subscribed=mine is not None,
        tags=tags,
        may_change=owner,
        merging=merging,
        users=describe_users(users) if users else "",
    )


@pages.post("/feed/{feed_id}", WRITE, error_page=show_feed)
async def submit_feed_form(visit: Visit) -> Response:
    feed_id, action = parse_integer(visit.path("feed_id"), 0) or 0, visit.form.get("do", "")
    if action not in READER_ACTIONS:
        visit.require(ADMIN)
    await _require_visible(visit, feed_id)
    by = Remover(visit.user.id, visit.now)
    if action == "remove":
        undo = await visit.store.write(move_feed_to_trash, feed_id, by=by, cascade=bool(visit.form.get("cascade")))
        return visit.redirect("/feeds", flash="removed", undo=undo)
    if action == "unsubscribe":
        undo = await visit.store.write(move_subscription_to_trash, visit.user.id, feed_id, by=by)
        return visit.redirect("/feeds", flash="unsubscribed", undo=undo)
    try:
        if action == "merge":
            return await _merge_feeds(visit, feed_id)
        done = await change_feed(visit, feed_id, action)
    except InputError as error:
        error.field = error.field or ACTION_FIELDS.get(action, "")
        raise
    if visit.form.get("to"):
        return redirect_inside(visit.form["to"])
    return visit.redirect(f"/feed/{feed_id}", flash=done)


async def _require_visible(visit: Visit, feed_id: int) -> None:
    """Raise NotFound for a feed that a reader does not subscribe to, as if it did not exist; owners see all feeds."""
    if not visit.user.is_owner and await visit.store.read(find_subscription, visit.user.id, feed_id=feed_id) is None:
        raise NotFound(f"There is no feed {feed_id}.")


async def change_feed(visit: Visit, feed_id: int, action: str) -> str:
    """Carry out an action of the page; return the key of its flash message."""
    if action == "refresh":
        return await _refresh_feed(visit, feed_id)
    if action not in CHANGES:
        raise InputError("The form does not name an action. Load the page again.")
    flash, read = CHANGES[action]
    await visit.store.write(feeds.change_feed, feed_id, **read(dict(visit.form), visit.site.settings))
    return flash


async def _merge_feeds(visit: Visit, feed_id: int) -> Response:
    """Merge the chosen feed into this one, after asking: it cannot be undone."""
    other = parse_integer(visit.form.get("other"))
    if other is None:
        raise InputError("Choose the feed to merge into this one.")
    if not visit.form.get("confirmed"):
        return await _render_feed(visit, feed_id, await visit.store.read(feeds.check_merge, feed_id, other))
    await visit.store.write(feeds.merge_feeds, feed_id, other)
    return visit.redirect(f"/feed/{feed_id}", flash="merged")


async def _refresh_feed(visit: Visit, feed_id: int) -> str:
    try:
        await visit.site.aggregator.crawl.request_refresh(feed_id)
    except RefreshHeld as held:
        until = f"{format_time(held.until, visit.zone)}, {format_relative(held.until, visit.now)}"
        raise InputError(f"{held} Until {until}.") from held
    return "refreshed"


def _parse_weight(form: dict[str, str], _: Settings) -> dict[str, object]:
    return {"weight": parse_weight(form.get("weight", ""))}


def _parse_tags(form: dict[str, str], _: Settings) -> dict[str, object]:
    tags = tuple(dict.fromkeys(tag.strip() for tag in form.get("tags", "").split(",") if tag.strip()))
    if len(tags) > 20 or any(len(tag) > 100 for tag in tags):
        raise InputError("A feed can have at most 20 tags of 100 letters.")
    return {"tags": tags}


def _parse_url(form: dict[str, str], _: Settings) -> dict[str, object]:
    url = form.get("url", "").strip()
    if not url.lower().startswith(("http://", "https://")):
        raise InputError(f"“{url[:200]}” is not a web address: it must begin with https:// or http://.")
    return {"url": url}


def _parse_title(form: dict[str, str], _: Settings) -> dict[str, object]:
    return {"title": form.get("title", "").strip()[:500] or None}


def _parse_interval(form: dict[str, str], settings: Settings) -> dict[str, object]:
    return {"interval": parse_interval(form.get("interval", ""), settings.least_interval)}


CHANGES: dict[str, tuple[str, Callable[[dict[str, str], Settings], dict[str, object]]]] = {
    "pause": ("paused", lambda *_: {"paused": True}),
    "resume": ("resumed", lambda *_: {"paused": False}),
    "weigh": ("weighed", _parse_weight),
    "pace": ("paced", _parse_interval),
    "tag": ("tagged", _parse_tags),
    "move": ("moved", _parse_url),
    "rename": ("renamed", _parse_title),
}
