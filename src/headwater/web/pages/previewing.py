"""What a query would have kept of the last days, with the words that were looked for marked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headwater.errors import NotFound
from headwater.language import EVERY, parse
from headwater.language.ast import Create
from headwater.model import Feed, Item
from headwater.node.query_explaining import preview
from headwater.query.marking import Needle, Piece, marked, needles
from headwater.query.tongues import detector
from headwater.query.words import strip
from headwater.store.store import Store

DAYS = 7.0
LATEST = 12  # items of each query
SOURCES = 8  # feeds that most of it came from
SNIPPET = 160  # letters around what was found
LONGEST = 20_000  # letters that are looked through for it


@dataclass(frozen=True, slots=True)
class Shown:
    """An item of a preview: the title with the words that were looked for, and a stretch of text around the first."""

    id: int
    feed: str
    published: float
    title: tuple[Piece, ...]
    text: tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class Previewed:
    """What one query would have kept of the last days."""

    name: str
    kept: int
    looked_at: int
    days: float
    per_day: float
    sources: tuple[tuple[str, int], ...]
    items: tuple[Shown, ...]


async def previewed(store: Store, text: str, now: float, days: float = DAYS) -> tuple[Previewed, ...]:
    """What the queries of a script would have kept; QueryError if it is not well written."""
    script = parse(text, await store.queries.catalogue(), replacing=EVERY)
    creates = [statement for statement in script.statements if isinstance(statement, Create)]
    wanted = {create.name.name: needles(create.query) for create in creates}
    found = await preview(store, creates, days, now, detector(), LATEST)
    feeds = await store.pages.by_ids({item.feed_id for one in found for item in one.latest})
    shown = []
    for one in found:
        items = tuple(_shown(item, feeds.get(item.feed_id), wanted[one.name]) for item in one.latest)
        sources = tuple([(await _title(store, label), number) for label, number in list(one.sources.items())[:SOURCES]])
        shown.append(Previewed(one.name, one.kept, one.looked_at, one.days, one.per_day, sources, items))
    return tuple(shown)


def _shown(item: Item, feed: Feed | None, wanted: Sequence[Needle]) -> Shown:
    text = " ".join(strip(item.content or item.summary or "").split())[:LONGEST]
    title, pieces = marked(item.title or "Without a title", wanted), marked(text, wanted)
    if not any(piece.found for piece in (*title, *pieces)):  # then it was for a category or an author
        beside = marked(", ".join((*item.categories, *item.authors)), wanted)
        pieces = beside if any(piece.found for piece in beside) else pieces
    return Shown(item.id or 0, (feed.title or feed.url) if feed else "", item.published, title, _around(pieces))


async def _title(store: Store, label: str) -> str:
    """What people call the feed that queries know by its name or address."""
    try:
        return (await store.feed(label)).title or label
    except NotFound:
        return label


def _around(pieces: tuple[Piece, ...]) -> tuple[Piece, ...]:
    """The pieces near the first that was found; the beginning where none was."""
    first = next((k for k, piece in enumerate(pieces) if piece.found), None)
    if first is None:
        start = pieces[0].text[:SNIPPET] if pieces else ""
        return (Piece(start + ("…" if pieces and len(pieces[0].text) > SNIPPET else ""), False),)
    before = pieces[first - 1].text if first else ""
    cut = before if len(before) <= SNIPPET // 2 else "…" + before[-SNIPPET // 2 :]
    kept, room = [Piece(cut, False)], SNIPPET
    for piece in pieces[first:]:
        if room <= 0:
            break
        short = piece.text if piece.found or len(piece.text) <= room else piece.text[:room] + "…"
        kept.append(Piece(short, piece.found))
        room -= len(short)
    return tuple(kept)
