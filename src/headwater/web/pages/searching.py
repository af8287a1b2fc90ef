"""The search box: words, or a condition of the query language, or a whole query."""

from __future__ import annotations

import re
from dataclasses import dataclass

from headwater.errors import InputError, QueryError
from headwater.language import Message, parse
from headwater.language.ast import Create
from headwater.node.query_explaining import preview
from headwater.query.tongues import detector
from headwater.store.people import Reading
from headwater.store.store import Store

DAYS = 30.0
MOST = 200
# What nobody types who looks for words: a field of the language and what can stand behind it.
_LOOKS = re.compile(
    r"\b(ITEM|TITLE|CONTENT|CATEGORY|AUTHOR|LINK|LANGUAGE|ENCLOSURE|SOURCE)\s+(CONTAINS|MATCHES|SIMILAR|IN|NEAR|IS)\b"
    r"|\b(TITLE|CATEGORY|AUTHOR|LINK|LANGUAGE|SOURCE)\s*!?=|\bSIZE\s*[<>=]|\bHAS\s+[A-Z]+|\b(PUBLISHED|UPDATED)\s+(IN|[<>])"
    r"|^\s*(CREATE|RETURN|FROM)\s"
)


@dataclass(frozen=True, slots=True)
class Search:
    """What was found. `query` is the text of the query that the words were read as, `problem` why they were not."""

    readings: tuple[Reading, ...]
    query: str | None = None
    kept: int = 0
    looked_at: int = 0
    problem: Message | None = None
    said: str = ""  # a sentence about the words themselves
    next_id: int | None = None
    waiting: int = 0


def as_query(said: str) -> str | None:
    """The words as a script, if they look like the language.

    >>> as_query('TITLE CONTAINS "ice"')
    'CREATE FEED Search AS RETURN ALL WHERE TITLE CONTAINS "ice"'
    >>> as_query("what the title contains") is None
    True
    """
    if not _LOOKS.search(said):
        return None
    begin = said.lstrip().split(None, 1)[0].upper() if said.strip() else ""
    if begin == "CREATE":
        return said
    return (
        f"CREATE FEED Search AS {said}"
        if begin in ("RETURN", "FROM")
        else f"CREATE FEED Search AS RETURN ALL WHERE {said}"
    )


async def search(store: Store, user_id: int, said: str, now: float, *, before_id: int | None, limit: int) -> Search:
    """Over what the person reads."""
    script, problem = as_query(said), None
    if script is not None:
        try:
            found = parse(script, await store.queries.catalogue())
            creates = [one for one in found.statements if isinstance(one, Create)][:1]
            if creates:
                return await _by_query(store, user_id, script, creates, now)
        except QueryError as error:
            problem = next((one for one in error.messages if isinstance(one, Message)), None)
    try:
        page, readings = await store.reading.search(user_id, said, limit=limit, before_id=before_id)
    except InputError as error:
        return Search((), said=str(error), problem=problem)
    following = readings[-1].item.id if page.more and readings else None
    return Search(tuple(readings), problem=problem, next_id=following, waiting=page.waiting)


async def _by_query(store: Store, user_id: int, script: str, creates: list[Create], now: float) -> Search:
    (found,) = await preview(store, creates, DAYS, now, detector(), MOST)
    # A query sees all feeds of the server; a person only what they read.
    ids = [item.id for item in found.latest if item.id is not None]
    readings = await store.reading.items(user_id, ids)
    return Search(tuple(readings), script, found.kept, found.looked_at)
