"""Articles: fetches the pages behind items, for feeds and query feeds where somebody wants that.

    outbox, hits ─► due ─► robots.txt ─► page (depth 1) ─► main text, in a worker ─► a new version of the item

Its requests are a share of their own (`article_budget`), beside that for feeds. They wait for the host's turn like all
others, and a page that its owner does not want fetched is not fetched.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from importlib.util import find_spec

import structlog
from sqlalchemy import Connection

from headwater.errors import AddressError, HeadwaterError, NotAFeed
from headwater.fetch.article import extractors
from headwater.fetch.client import Fetcher, Page
from headwater.fetch.etiquette import retry_after
from headwater.fetch.journey import next_address
from headwater.fetch.robots import Robots
from headwater.fetch.transport import Failure
from headwater.formats.text import from_html
from headwater.model import Document
from headwater.publish.stepping import Stepping
from headwater.query.tongues import detector
from headwater.store import articles
from headwater.store.store import Store
from headwater.store.values import Article, StoredHit

LOOK = 2.0
LEASE = 300.0
BATCH = 500
AT_ONCE = 4
MOST_REDIRECTS = 5
MOST_BYTES = 3 << 20
MOST_ATTEMPTS = 4
FIRST = 600.0  # seconds until the second attempt, then six times as long each
TYPES = "text/html,application/xhtml+xml;q=0.9"
_REDIRECTS = frozenset({301, 302, 303, 307, 308})

log = structlog.get_logger()


def pages_of_hits(connection: Connection, hits: Sequence[StoredHit]) -> None:
    """A writer of the query processor: the pages behind what query feeds publish are due, where that is wanted."""
    articles.of_hits(connection, hits, time.time())


class Unwanted(Exception):
    """The page is not to be had: `later` says when to try again, None that it is not worth it."""

    def __init__(self, message: str, later: float | None = None) -> None:
        super().__init__(message)
        self.later = later


class Articles(Stepping):
    """Fetches what is due until it is stopped; `per_minute` requests, those for robots.txt among them."""

    def __init__(
        self, store: Store, fetcher: Fetcher, per_minute: float, *, clock: Callable[[], float] = time.time
    ) -> None:
        super().__init__("articles_failed")
        self._store = store
        self._fetcher = fetcher
        self._clock = clock
        self._robots = Robots(fetcher, clock=clock)
        self._workers = extractors()
        self._detect = detector()
        self._rate = per_minute / 60
        self._tokens, self._counted = 1.0, clock()

    @property
    def installed(self) -> bool:
        return all(find_spec(name) is not None for name in ("trafilatura", "protego"))

    async def close(self) -> None:
        await self._workers.close()

    async def step(self) -> bool:
        """Note what is wanted, and fetch as much of it as the budget has; False where nothing was."""
        await self._follow()
        now = self._clock()
        self._tokens = min(self._tokens + (now - self._counted) * self._rate, max(1.0, 10 * self._rate))
        self._counted = now
        number = min(int(self._tokens), AT_ONCE)
        if number < 1:
            return False
        due = await self._store.articles.claim(now, LEASE, number)
        self._tokens -= len(due)
        await asyncio.gather(*map(self._take, due))
        return bool(due)

    async def _follow(self) -> None:
        """The outbox, from where articles were first wanted: what came before is left alone."""
        if not any(await self._store.articles.wishes()):
            return
        at = await self._store.checkpoint(articles.CONSUMER)
        while entries := await self._store.outbox(at, BATCH):
            await self._store.articles.follow(entries, self._clock())
            at = entries[-1].position

    async def _take(self, one: Article) -> None:
        try:
            if not self.installed:
                raise Unwanted("Articles need trafilatura: install headwater[articles].", FIRST)
            page = await self._page(one.url)
            document = await self._workers.read(page.body, page.final_url, {})
            await self._write(one, document)
            said = None
        except NotAFeed as error:
            said = await self._settle(one, str(error), None)
        except Unwanted as error:
            said = await self._settle(one, str(error), error.later)
        log.info("article_fetched" if said is None else "article_not_fetched", item=one.item_id, message=said)

    async def _settle(self, one: Article, said: str, later: float | None) -> str:
        now = self._clock()
        dead = later is None or one.attempts >= MOST_ATTEMPTS
        due = None if later is None or dead else now + max(later, FIRST * 6 ** (one.attempts - 1))
        await self._store.articles.settle(one.item_id, "dead" if dead else "failed", due, said, now)
        return said

    async def _page(self, url: str) -> Page:
        """The page, by as many redirects as a person would follow; each place is asked whether we may."""
        for _ in range(MOST_REDIRECTS):
            page = await self._hop(url)
            if page.status not in _REDIRECTS:
                return _judged(page)
            try:
                url = next_address(url, page.headers.get("Location"))
            except Failure as error:
                raise Unwanted(str(error)) from error
        raise Unwanted("The page redirects too often.")

    async def _hop(self, url: str) -> Page:
        try:
            self._fetcher.check(url)
            self._tokens -= not self._robots.knows(url)
            if not await self._robots.allows(url):
                raise Unwanted("The server's robots.txt does not let us fetch this page.")
            if (wait := await self._robots.pause(url)) > 0:
                raise Unwanted("The server's robots.txt asks for a pause between pages.", wait)
            return await self._fetcher.ask(url, accept=TYPES, max_bytes=MOST_BYTES)
        except AddressError as error:
            raise Unwanted(str(error)) from error
        except HeadwaterError as error:
            raise Unwanted(str(error), FIRST) from error

    async def _write(self, one: Article, document: Document) -> None:
        """The text of the page takes the place of a shorter one of the feed."""
        item = await self._store.item(one.item_id)
        text = document.items[0].content or ""
        words, had = (from_html(html or "", MOST_BYTES, sure=True) or "" for html in (text, item.content))
        language = document.language or self._detect(words[:1000])
        categories = tuple(dict.fromkeys([*item.categories, *document.categories]))
        content = text if len(words) > len(had) else None
        await self._store.articles.write(one.item_id, content, language, categories, self._clock())


def _judged(page: Page) -> Page:
    """The page, if there is one to read."""
    if page.status in (429, 503) or page.status >= 500:
        raise Unwanted(f"The server answered {page.status}.", retry_after(page.headers, time.time()) or FIRST)
    if not page.ok:
        raise Unwanted(f"The server answered {page.status}.")
    kind = page.content_type.partition(";")[0].strip().lower()
    if kind and kind not in ("text/html", "application/xhtml+xml"):
        raise Unwanted(f"The page is no HTML but {kind[:60]}.")
    return page
