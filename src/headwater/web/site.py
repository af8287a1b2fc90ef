"""What all pages share: the templates, the navigation, the reader's light or dark, forms, and what the node can do.

A page is a function that gathers values and calls `Frame.page`. `node` is the aggregator running in this process; pages
that need it say so where there is none.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import jinja2
import orjson
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from headwater import __version__, times
from headwater.node.crawl.crawler import CrawlStatus
from headwater.node.node import Node
from headwater.settings import Settings, load_settings
from headwater.store.store import Store
from headwater.store.values import AddedFeed, FeedQuotaCheck
from headwater.web.auth.cross_site import SignedForms
from headwater.web.shared.background_jobs import BackgroundJobs
from headwater.web.shared.reader_quota import ReaderQuota

PEOPLE = 1000  # whose answers are kept
TIMES = 100.0
QUICK = 0.2  # seconds
LONGEST = 600.0  # seconds


class TimedCache:
    """Answers by what they are, and for whom."""

    def __init__(self) -> None:
        self._answers: dict[tuple[str, int], asyncio.Future[tuple[float, Any]]] = {}

    async def get_or_gather(self, what: str, user_id: int, gather: Callable[[], Awaitable[Any]]) -> Any:
        """What was gathered lately, or is just being gathered for another request, or anew."""
        key = (what, user_id)
        answer = self._answers.get(key)
        if answer is None or _is_expired(answer):
            self._answers.pop(key, None)
            while len(self._answers) >= PEOPLE:
                del self._answers[next(iter(self._answers))]
            answer = self._answers[key] = asyncio.ensure_future(_measure(gather))
        return (await asyncio.shield(answer))[1]


async def _measure(gather: Callable[[], Awaitable[Any]]) -> tuple[float, Any]:
    start = time.monotonic()
    answer = await gather()
    end = time.monotonic()
    took = end - start
    return end + (0.0 if took < QUICK else min(TIMES * took, LONGEST)), answer


def _is_expired(answer: asyncio.Future[tuple[float, Any]]) -> bool:
    if not answer.done():
        return False
    return answer.cancelled() or answer.exception() is not None or answer.result()[0] <= time.monotonic()


AddFeed = Callable[[str, int], Awaitable[AddedFeed]]  # what somebody typed, and the id of who subscribes
AddFeedWithinQuota = Callable[
    [str, int, FeedQuotaCheck | None], Awaitable[AddedFeed]
]  # the same, and what may refuse it
WEB_FOLDER = Path(__file__).parent
THEMES = ("light", "dark")
# Where the navigation leads: address, word, and the tooltip that says what is there.
NAVIGATION = (
    ("/", "Read", "Your items"),
    ("/queries", "Queries", "Standing queries, and the feeds they make"),
    ("/quality", "Quality", "What the budget buys: caught, lost, how late"),
    ("/discover", "Discover", "Find feeds and rising topics"),
    ("/settings", "Health", "Errors, import, users, tokens, settings"),
)


class Site:
    """The frame around every page of one application."""

    def __init__(
        self,
        store: Store,
        status: Callable[[], CrawlStatus],
        *,
        add: AddFeedWithinQuota,
        forms: SignedForms,
        clock: Callable[[], float],
        base: str,
        node: Node | None = None,
    ) -> None:
        self.store = store
        self.status = status
        self._add_feed = add
        self.forms = forms
        self.clock = clock
        self.base_url = base.rstrip("/")
        self.node = node
        self._settings = load_settings() if node is None else None
        self.reader_quota = ReaderQuota(store, lambda: self.settings)
        self.background_jobs = BackgroundJobs(clock)
        self.timed_cache = TimedCache()
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
            percent=format_percent,
            brief=format_brief,
            path=lambda text: quote(text, safe=""),
            host=lambda url: urlsplit(url).hostname or url,
        )
        self._templates.globals.update(
            relative=times.format_relative,
            exactly=times.format_time,
            span=times.format_duration,
            version=__version__,
            places=NAVIGATION,
        )

    @property
    def settings(self) -> Settings:
        """Those in force: a running node's may be changed."""
        if self.node is not None:
            return self.node.settings
        assert self._settings is not None
        return self._settings

    async def add_feed(self, address: str, user_id: int) -> AddedFeed:
        """Add what somebody typed, and subscribe them; Refused where they may not bring it here."""
        user = await self.store.accounts.find(user_id)
        await self.reader_quota.check_additions(user, [address])
        return await self._add_feed(address, user_id, self.reader_quota.limit_for(user))

    def render_page(self, request: Request, template: str, status: int = 200, **values: Any) -> Response:
        """A whole page. Every page carries a form token: the switch for light and dark is a form already."""
        cookie, token = self.forms.make_token(request)
        response = self.render_part(template, status, request=request, token=token, **values)
        self.forms.set_cookie(response, cookie, secure=request.url.scheme == "https")
        return response

    def render_part(self, template: str, status: int = 200, **values: Any) -> HTMLResponse:
        """A template by itself: a part of a page, or an error that must not need anything."""
        request: Request | None = values.get("request")
        theme = request.cookies.get("theme", "") if request is not None else ""
        said = {"now": self.clock(), "theme": theme if theme in THEMES else "", "path": "", "token": "", "note": None}
        if request is not None:
            said["path"] = request.url.path
        html = self._templates.get_template(template).render(said | values)
        return HTMLResponse(html, status)


def followable_link(link: str | None) -> str | None:
    """The link if it may be followed from a page: publishers write javascript: and worse.

    >>> followable_link("https://a.example/"), followable_link("javascript:alert(1)")
    ('https://a.example/', None)
    """
    try:
        return link if link and urlsplit(link).scheme in ("http", "https") else None
    except ValueError:
        return None


def format_percent(share: float | None, digits: int = 1) -> str:
    """
    >>> format_percent(0.98123), format_percent(1.0), format_percent(None)
    ('98.1 %', '100 %', '–')
    """
    if share is None:
        return "–"
    return "100 %" if share == 1 else f"{100 * share:.{digits}f} %"


def format_brief(value: float | None) -> str:
    """A number with as many digits as anybody wants to read.

    >>> format_brief(0.01234), format_brief(3.14159), format_brief(42.3), format_brief(12345.6), format_brief(None), format_brief(1e-9)
    ('0.012', '3.1', '42', '12,346', '–', '< 0.001')
    """
    if value is None:
        return "–"
    if 0 < value < 0.001:
        return "< 0.001"
    if value == 0 or abs(value) >= 10:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 1 else f"{value:.2g}"


def wants_json(request: Request) -> bool:
    """Whether a script of ours asks, which replaces parts of the page itself."""
    return request.headers.get("accept", "").startswith("application/json")


def json_response(value: object, status: int = 200) -> Response:
    return Response(orjson.dumps(value), status, media_type="application/json")


def redirect_inside(request: Request, to: str) -> RedirectResponse:
    """To a page of ours, never elsewhere: `to` may come from a form.

    A browser reads //host and /\\host as other hosts.
    """
    inside = to.startswith("/") and not to.startswith(("//", "/\\")) and "\\" not in to
    return RedirectResponse(to if inside and to.isprintable() else "/", 303)


def parse_integer(text: str | None, otherwise: int | None = None, most: int = 2**62) -> int | None:
    """A whole number out of an address, or what there is otherwise: nobody gets an error for a mistyped page.

    >>> parse_integer("12"), parse_integer("x", 1), parse_integer("9" * 40)
    (12, 1, None)
    """
    if text is None or not (text.isascii() and text.isdecimal()) or len(text) > 19 or int(text) > most:
        return otherwise
    return int(text)
