"""Holds the things that all pages share: store, aggregator, settings, sign-in, templates, a timed cache."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit
from zoneinfo import ZoneInfo

import jinja2
import orjson
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from headwater import __version__, times
from headwater.errors import SettingsError
from headwater.node.aggregator import Aggregator
from headwater.node.crawl.crawl_status import CrawlStatus
from headwater.node.feed_pace import format_interval
from headwater.node.new_feed import add_feed_from_address
from headwater.settings import Settings
from headwater.store.content.feeds import AddedFeed
from headwater.store.readers.accounts import find_user
from headwater.web.auth.oidc import OidcProvider
from headwater.web.auth.password_login import PasswordLogin
from headwater.web.shared.article_html import PictureProxy, followable_link
from headwater.web.shared.background_jobs import BackgroundJobs
from headwater.web.shared.health import HealthCheck
from headwater.web.shared.reader_feeds import ReaderFeedsCache
from headwater.web.shared.reader_quota import ReaderQuota
from headwater.web.shared.search_box import UnfinishedSearches

CACHE_SECONDS, MAX_CACHED_VALUES = 60.0, 1000  # of the timed cache
WEB_FOLDER = Path(__file__).parent
THEMES = ("light", "dark")
# The menu: address, word, tooltip.
NAVIGATION = (
    ("/", "Read", "Your items"),
    ("/queries", "Queries", "Standing queries and their feeds"),
    ("/quality", "Quality", "Completeness, freshness, delay, and losing feeds"),
    ("/discover", "Discover", "Find feeds and rising topics"),
    ("/settings", "Settings", "Failures, server settings, users, tokens, import"),
)


class TimedCache:
    """Keeps slowly gathered values for a minute, by name and user; gathers a value once, however many ask."""

    def __init__(self) -> None:
        self._cached: dict[tuple[str, int], asyncio.Task[tuple[float, Any]]] = {}

    async def get_or_gather(self, name: str, user_id: int, gather: Callable[[], Awaitable[Any]]) -> Any:
        """Return the cached value, or await the one that is being gathered, or gather it."""
        key = (name, user_id)
        found = self._cached.get(key)
        if found is None or _is_expired(found):
            self._cached.pop(key, None)
            while len(self._cached) >= MAX_CACHED_VALUES:
                del self._cached[next(iter(self._cached))]
            found = self._cached[key] = asyncio.ensure_future(_gather_with_expiry(gather))
        return (await asyncio.shield(found))[1]


async def _gather_with_expiry(gather: Callable[[], Awaitable[Any]]) -> tuple[float, Any]:
    value = await gather()
    return time.monotonic() + CACHE_SECONDS, value


def _is_expired(cached: asyncio.Task[tuple[float, Any]]) -> bool:
    if not cached.done():
        return False
    return cached.cancelled() or cached.exception() is not None or cached.result()[0] <= time.monotonic()


class Site:
    """Everything that pages and API share. They know the rest of the process as an `Aggregator` only."""

    def __init__(
        self,
        aggregator: Aggregator,
        login: PasswordLogin,
        *,
        base: str,
        oidc: OidcProvider | None = None,
        clock: Callable[[], float],
    ) -> None:
        self.aggregator = aggregator
        self.store = aggregator.store
        self.login = login
        self.authenticator = login.authenticator
        self.oidc = oidc
        self.clock = clock
        self.base_url = base.rstrip("/")
        self.reader_quota = ReaderQuota(self.store, lambda: self.settings)
        self.background_jobs = BackgroundJobs(clock)
        self.health = HealthCheck(self.store)
        self.timed_cache = TimedCache()
        self.unfinished_searches = UnfinishedSearches()
        self.reader_feeds = ReaderFeedsCache(self.store, clock)
        self.pictures = PictureProxy(aggregator.fetcher)
        self._templates = jinja2.Environment(
            loader=jinja2.FileSystemLoader(WEB_FOLDER / "templates"),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.filters.update(
            number=lambda value: f"{value:,.0f}",
            iso=lambda at: datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds"),
            web_address=followable_link,
            share=times.format_share,
            brief=format_brief,
            interval=format_interval,
            path=lambda text: quote(text, safe=""),
            host=lambda url: urlsplit(url).hostname or url,
        )
        self._templates.globals.update(
            relative=times.format_relative,
            due=times.format_due,
            span=times.format_duration,
            version=__version__,
            places=NAVIGATION,
        )

    @property
    def settings(self) -> Settings:
        """The settings in force; they may change while the server runs."""
        return self.aggregator.settings

    def status(self) -> CrawlStatus:
        """Return the state of the crawl now."""
        return self.aggregator.status()

    async def add_feed(self, address: str, user_id: int) -> AddedFeed:
        """Add the feed at a typed address, or the first one of its page, and subscribe the user.

        Raises an InputError that a page can show, also where the user may not add feeds.
        """
        user = await self.store.read(find_user, user_id)
        await self.reader_quota.check_additions(user, [address])
        added = await add_feed_from_address(
            self.store,
            self.aggregator.fetcher,
            address,
            now=self.clock(),
            choose=lambda _, found: found[0],
            subscriber=user_id,
            allowed=self.reader_quota.limit_for(user),
        )
        return AddedFeed(added.feed, added.created)

    def find_reader_zone(self, request: Request | None) -> ZoneInfo:
        """Return the time zone of a reader: that of the account, else the browser's (a cookie), else the server's."""
        identity = None if request is None else request.scope.get("headwater.identity")
        if identity is not None and identity.user.time_zone:
            return times.parse_time_zone(identity.user.time_zone)
        if request is not None and (named := unquote(request.cookies.get("zone", ""))):
            with contextlib.suppress(SettingsError):  # anybody can send a cookie
                return times.parse_time_zone(named)
        return times.parse_time_zone(self.settings.time_zone)

    def render_page(self, request: Request, template: str, status: int = 200, **values: Any) -> HTMLResponse:
        """Render a template for a request: a whole page, or a part that a script asks for."""
        return self.render_part(template, status, request=request, **values)

    def render_part(self, template: str, status: int = 200, **values: Any) -> HTMLResponse:
        """Render a template by itself; an error page needs nothing else."""
        request: Request | None = values.get("request")
        theme = request.cookies.get("theme", "") if request is not None else ""
        common = {
            "now": self.clock(),
            "theme": theme if theme in THEMES else "",
            "path": request.url.path if request is not None else "",
            "is_owner": request is not None and _is_owner(request),
            "note": None,
            "exactly": partial(times.format_time, zone=self.find_reader_zone(request)),
        }
        return HTMLResponse(self._templates.get_template(template).render(common | values), status)


def _is_owner(request: Request) -> bool:
    """Return whether an owner was identified as the sender, who sees more pages than a reader."""
    identity = request.scope.get("headwater.identity")
    return identity is not None and identity.user.is_owner


def format_brief(value: float | None) -> str:
    """Format a number with two significant digits, or as a whole number from 10 on.

    >>> [format_brief(value) for value in (0.01234, 3.14159, 42.3, 12345.6, None, 1e-9)]
    ['0.012', '3.1', '42', '12,346', '–', '< 0.001']
    """
    if value is None:
        return "–"
    if 0 < value < 0.001:
        return "< 0.001"
    if value == 0 or abs(value) >= 10:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 1 else f"{value:.2g}"


def json_response(value: object, status: int = 200) -> Response:
    return Response(orjson.dumps(value), status, media_type="application/json")


def redirect_inside(to: str) -> RedirectResponse:
    """Redirect to a page of this server, never elsewhere: `to` may come from a form.

    A browser reads //host and /\\host as other hosts.
    """
    inside = to.startswith("/") and not to.startswith("//") and "\\" not in to
    return RedirectResponse(to if inside and to.isprintable() else "/", 303)


def parse_integer(text: str | None, otherwise: int | None = None, highest: int = 2**62) -> int | None:
    """Return a whole number from an address; `otherwise` for anything else, so that a mistyped page is no error.

    >>> parse_integer("12"), parse_integer("x", 1), parse_integer("9" * 40)
    (12, 1, None)
    """
    if text is None or not (text.isascii() and text.isdecimal()) or len(text) > 19 or int(text) > highest:
        return otherwise
    return int(text)
