"""What all pages share: the templates, the navigation, the reader's light or dark, forms, and what the node can do.

A page is a function that gathers values and calls `Frame.page`. `node` is the aggregator running in this process; pages
that need it say so where there is none.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import jinja2
import orjson
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from headwater import __version__, when
from headwater.node.crawler import Status
from headwater.node.node import Node
from headwater.settings import Settings, load_settings
from headwater.store.store import Store
from headwater.store.values import Added, Allowed
from headwater.web.allowance import Allowance
from headwater.web.forms import Forms
from headwater.web.jobs import Jobs
from headwater.web.kept import Kept

Add = Callable[[str, int], Awaitable[Added]]  # what somebody typed, and the id of who subscribes
AddWithin = Callable[[str, int, Allowed | None], Awaitable[Added]]  # the same, and what may refuse it
HERE = Path(__file__).parent
THEMES = ("light", "dark")
# Where the navigation leads: address, word, and the tooltip that says what is there.
PLACES = (
    ("/", "Read", "Your items"),
    ("/queries", "Queries", "Standing queries, and the feeds they make"),
    ("/quality", "Quality", "What the budget buys: caught, lost, how late"),
    ("/discover", "Discover", "Find feeds and rising topics"),
    ("/settings", "Health", "Errors, import, users, tokens, settings"),
)


class Frame:
    """The frame around every page of one application."""

    def __init__(
        self,
        store: Store,
        status: Callable[[], Status],
        *,
        add: AddWithin,
        forms: Forms,
        clock: Callable[[], float],
        base: str,
        node: Node | None = None,
    ) -> None:
        self.store = store
        self.status = status
        self._add = add
        self.forms = forms
        self.clock = clock
        self.base = base.rstrip("/")
        self.node = node
        self._settings = load_settings() if node is None else None
        self.allowance = Allowance(store, lambda: self.settings)
        self.jobs = Jobs(clock)
        self.kept = Kept()
        self._templates = jinja2.Environment(
            loader=jinja2.FileSystemLoader(HERE / "templates"),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.filters.update(
            number=lambda value: f"{value:,.0f}",
            iso=lambda at: datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds"),
            web_address=web_address,
            percent=percent,
            brief=brief,
            path=lambda text: quote(text, safe=""),
            host=lambda url: urlsplit(url).hostname or url,
        )
        self._templates.globals.update(
            relative=when.relative, exactly=when.exactly, span=when.span, version=__version__, places=PLACES
        )

    @property
    def settings(self) -> Settings:
        """Those in force: a running node's may be changed."""
        if self.node is not None:
            return self.node.settings
        assert self._settings is not None
        return self._settings

    async def add(self, address: str, user_id: int) -> Added:
        """Add what somebody typed, and subscribe them; Refused where they may not bring it here."""
        user = await self.store.accounts.find(user_id)
        await self.allowance.check(user, [address])
        return await self._add(address, user_id, self.allowance.of(user))

    def page(self, request: Request, template: str, status: int = 200, **values: Any) -> Response:
        """A whole page. Every page carries a form token: the switch for light and dark is a form already."""
        cookie, token = self.forms.token(request)
        response = self.bare(template, status, request=request, token=token, **values)
        self.forms.remember(response, cookie, secure=request.url.scheme == "https")
        return response

    def bare(self, template: str, status: int = 200, **values: Any) -> HTMLResponse:
        """A template by itself: a part of a page, or an error that must not need anything."""
        request: Request | None = values.get("request")
        theme = request.cookies.get("theme", "") if request is not None else ""
        said = {"now": self.clock(), "theme": theme if theme in THEMES else "", "path": "", "token": "", "note": None}
        if request is not None:
            said["path"] = request.url.path
        html = self._templates.get_template(template).render(said | values)
        return HTMLResponse(html, status)


def web_address(link: str | None) -> str | None:
    """The link if it may be followed from a page: publishers write javascript: and worse.

    >>> web_address("https://a.example/"), web_address("javascript:alert(1)")
    ('https://a.example/', None)
    """
    try:
        return link if link and urlsplit(link).scheme in ("http", "https") else None
    except ValueError:
        return None


def percent(share: float | None, digits: int = 1) -> str:
    """
    >>> percent(0.98123), percent(1.0), percent(None)
    ('98.1 %', '100 %', '–')
    """
    if share is None:
        return "–"
    return "100 %" if share == 1 else f"{100 * share:.{digits}f} %"


def brief(value: float | None) -> str:
    """A number with as many digits as anybody wants to read.

    >>> brief(0.01234), brief(3.14159), brief(42.3), brief(12345.6), brief(None), brief(1e-9)
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


def as_json(value: object, status: int = 200) -> Response:
    return Response(orjson.dumps(value), status, media_type="application/json")


def back(request: Request, to: str) -> RedirectResponse:
    """To a page of ours, never elsewhere: `to` may come from a form.

    A browser reads //host and /\\host as other hosts.
    """
    inside = to.startswith("/") and not to.startswith(("//", "/\\")) and "\\" not in to
    return RedirectResponse(to if inside and to.isprintable() else "/", 303)


def integer(text: str | None, otherwise: int | None = None, most: int = 2**62) -> int | None:
    """A whole number out of an address, or what there is otherwise: nobody gets an error for a mistyped page.

    >>> integer("12"), integer("x", 1), integer("9" * 40)
    (12, 1, None)
    """
    if text is None or not (text.isascii() and text.isdecimal()) or len(text) > 19 or int(text) > most:
        return otherwise
    return int(text)
