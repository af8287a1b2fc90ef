"""The store's side of articles: `store.articles`. Every method is one transaction of its own."""

from __future__ import annotations

from collections.abc import Sequence

from headwater.store.content import articles
from headwater.store.database.database import Database
from headwater.store.values import Article, OutboxEntry


class ArticleStore:
    """Pages behind items: wanted, due, fetched."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def wish(self, kind: str, id: int, wanted: bool) -> None:
        """`kind` is feed or query: whether the pages of its items are fetched from now on."""
        await self._database.write(articles.want_articles, kind, id, wanted)

    async def wishes(self) -> tuple[frozenset[int], frozenset[int]]:
        """The feeds and the query feeds whose pages are wanted."""
        return await self._database.read(articles.list_article_sources)

    async def follow(self, entries: Sequence[OutboxEntry], now: float) -> int:
        """Make due what these entries of the outbox ask for, and remember how far they went; how many are new."""
        return await self._database.write(articles.queue_articles_from_outbox, entries, now)

    async def claim(self, now: float, lease: float, limit: int) -> list[Article]:
        """Pages to fetch now; nobody else gets them before the lease has passed."""
        return await self._database.write(articles.claim_due_articles, now, lease, limit)

    async def settle(self, item_id: int, state: str, due: float | None, message: str, now: float) -> None:
        """Not found: failed until `due`, or dead."""
        await self._database.write(articles.settle_article, item_id, state, due, message, now)

    async def write(
        self, item_id: int, content: str | None, language: str | None, categories: Sequence[str], now: float
    ) -> bool:
        """Put what the page says into the item, as a new version; False if the item is no more."""
        return await self._database.write(articles.save_article_text, item_id, content, language, categories, now)

    async def find(self, item_id: int) -> Article | None:
        return await self._database.read(articles.find_article, item_id)
