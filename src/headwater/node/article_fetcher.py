"""Articles: fetches the pages behind items, for feeds and query feeds where somebody wants that.

    outbox, hits ─► due ─► robots.txt ─► page (depth 1) ─► main text, in a worker ─► a new version of the item

Its requests have a limit of their own (`article_budget`) within the budget. They wait for the host's turn like all
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
from headwater.fetch.client import Fetcher, Page
from headwater.fetch.http.guarded_session import FetchFailure
from headwater.fetch.http.headers import parse_retry_after
from headwater.fetch.http.redirects import resolve_location
from headwater.fetch.reading.article_text import make_article_workers
from headwater.fetch.robots import Robots
from headwater.formats.values.text import html_to_text
from headwater.loops import StepLoop
from headwater.model import Document
from headwater.query.items.language_detection import make_language_detector
from headwater.store.content import articles
from headwater.store.content.articles import (
    Article,
    ArticlePage,
    claim_due_articles,
    find_next_due_article,
    keep_newest_article_pages,
    list_article_sources,
    queue_articles_from_outbox,
    save_article_page,
    save_article_text,
    settle_article,
)
from headwater.store.content.items import find_item
from headwater.store.content.outbox import list_outbox_entries, read_checkpoint
from headwater.store.queries.hits import StoredHit
from headwater.store.store import Store

LEASE = 300.0
BATCH = 500
MAX_CONCURRENT = 4
MAX_REDIRECTS = 5
MAX_BYTES = 3 << 20
MAX_KEPT_BYTES = 1 << 20  # of a page whose HTML is kept
MAX_ATTEMPTS = 4
FIRST_RETRY = 600.0  # seconds until the second attempt, then six times as long each
ACCEPTED_TYPES = "text/html,application/xhtml+xml;q=0.9"
_REDIRECTS = frozenset({301, 302, 303, 307, 308})

log = structlog.get_logger()


def enqueue_articles_of_hits(connection: Connection, hits: Sequence[StoredHit]) -> None:
    """Queue the pages behind the hits of query feeds that want articles; a writer of the query processor."""
    articles.queue_articles_of_hits(connection, hits, time.time())


class ArticleRefused(Exception):
    """The page cannot be fetched. `later` is the pause before the next attempt, None if there is none."""

    def __init__(self, message: str, later: float | None = None) -> None:
        super().__init__(message)
        self.later = later


class ArticleFetcher(StepLoop):
    """Fetches due articles, with `per_minute` requests including those for robots.txt."""

    def __init__(
        self,
        store: Store,
        fetcher: Fetcher,
        per_minute: float,
        *,
        kept_pages: int = 0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """The HTML of the newest `kept_pages` articles is kept beside their text."""
        super().__init__("articles_failed", store.changes, clock=clock)
        self._store = store
        self._kept_pages = kept_pages
        self._fetcher = fetcher
        self._robots = Robots(fetcher, clock=clock)
        self._workers = make_article_workers()
        self._detect = make_language_detector()
        self._rate = per_minute / 60
        self._tokens, self._tokens_at = 1.0, clock()

    @property
    def is_installed(self) -> bool:
        return all(find_spec(name) is not None for name in ("trafilatura", "protego"))

    async def close(self) -> None:
        await self._workers.close()

    async def step(self) -> bool:
        """Queue new articles, and fetch as many as the budget allows; return whether there were any."""
        await self._follow_outbox()
        now = self._clock()
        self._tokens = min(self._tokens + (now - self._tokens_at) * self._rate, max(1.0, 10 * self._rate))
        self._tokens_at = now
        number = min(int(self._tokens), MAX_CONCURRENT)
        if number < 1:
            return False
        due = await self._store.write(claim_due_articles, now, LEASE, number)
        self._tokens -= len(due)
        await asyncio.gather(*map(self._fetch_article, due))
        if due and self._kept_pages:
            await self._store.write(keep_newest_article_pages, self._kept_pages)
        return bool(due)

    async def find_next_due(self) -> float | None:
        due = await self._store.read(find_next_due_article)
        missing = max(1.0 - self._tokens, 0.0)
        return due if due is None or not missing else max(due, self._tokens_at + missing / self._rate)

    async def _follow_outbox(self) -> None:
        """Queue articles of new items; items from before the first wish for articles are left alone."""
        if not any(await self._store.read(list_article_sources)):
            return
        at = await self._store.read(read_checkpoint, articles.CONSUMER)
        while entries := await self._store.read(list_outbox_entries, at, BATCH):
            await self._store.write(queue_articles_from_outbox, entries, self._clock())
            at = entries[-1].position

    async def _fetch_article(self, one: Article) -> None:
        try:
            if not self.is_installed:
                raise ArticleRefused("Articles need trafilatura: install headwater[articles].", FIRST_RETRY)
            page = await self._fetch_page(one.url)
            document = await self._workers.read(page.body, page.final_url, {})
            await self._store_text(one, document)
            if self._kept_pages and len(page.body) <= MAX_KEPT_BYTES:
                kept = ArticlePage(page.final_url, self._clock(), page.body)
                await self._store.write(save_article_page, one.item_id, kept)
            problem = None
        except NotAFeed as error:
            problem = await self._record_failure(one, str(error), None)
        except ArticleRefused as error:
            problem = await self._record_failure(one, str(error), error.later)
        log.info("article_fetched" if problem is None else "article_not_fetched", item=one.item_id, message=problem)

    async def _record_failure(self, one: Article, problem: str, later: float | None) -> str:
        now = self._clock()
        dead = later is None or one.attempts >= MAX_ATTEMPTS
        due = None if later is None or dead else now + max(later, FIRST_RETRY * 6 ** (one.attempts - 1))
        await self._store.write(settle_article, one.item_id, "dead" if dead else "failed", due, problem, now)
        return problem

    async def _fetch_page(self, url: str) -> Page:
        """Fetch a page and follow its redirects; robots.txt is asked for each address."""
        for _ in range(MAX_REDIRECTS):
            page = await self._fetch_permitted(url)
            if page.status not in _REDIRECTS:
                return _check_page(page)
            try:
                url = resolve_location(url, page.headers.get("Location"))
            except FetchFailure as error:
                raise ArticleRefused(str(error)) from error
        raise ArticleRefused("The page redirects too often.")

    async def _fetch_permitted(self, url: str) -> Page:
        try:
            self._fetcher.check_address(url)
            self._tokens -= not self._robots.has_rules(url)
            if not await self._robots.allows(url):
                raise ArticleRefused("The server's robots.txt does not let us fetch this page.")
            if (wait := await self._robots.reserve_turn(url)) > 0:
                raise ArticleRefused("The server's robots.txt asks for a pause between pages.", wait)
            return await self._fetcher.fetch_once(url, accept=ACCEPTED_TYPES, max_bytes=MAX_BYTES)
        except AddressError as error:
            raise ArticleRefused(str(error)) from error
        except HeadwaterError as error:
            raise ArticleRefused(str(error), FIRST_RETRY) from error

    async def _store_text(self, one: Article, document: Document) -> None:
        """Store the text of the page instead of a shorter one of the feed."""
        item = await self._store.read(find_item, one.item_id)
        text = document.items[0].content or ""
        words, had = (html_to_text(html or "", MAX_BYTES, sure=True) or "" for html in (text, item.content))
        language = document.language or self._detect(words[:1000])
        categories = tuple(dict.fromkeys([*item.categories, *document.categories]))
        content = text if len(words) > len(had) else None
        await self._store.write(save_article_text, one.item_id, content, language, categories, self._clock())


def _check_page(page: Page) -> Page:
    """The page, if there is one to read."""
    if page.status in (429, 503) or page.status >= 500:
        raise ArticleRefused(
            f"The server answered {page.status}.", parse_retry_after(page.headers, time.time()) or FIRST_RETRY
        )
    if not page.ok:
        raise ArticleRefused(f"The server answered {page.status}.")
    kind = page.content_type.partition(";")[0].strip().lower()
    if kind and kind not in ("text/html", "application/xhtml+xml"):
        raise ArticleRefused(f"The page is no HTML but {kind[:60]}.")
    return page
