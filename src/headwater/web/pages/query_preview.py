"""Previews a query over the last days, with the matched words marked."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from headwater.errors import NotFound
from headwater.formats.write.addresses import public_address
from headwater.language import EVERY, parse
from headwater.language.ast import CreateFeed
from headwater.model import Feed, Item
from headwater.node.queries.preview import QueryPreview, stream_previews
from headwater.query.items.language_detection import make_language_detector
from headwater.query.items.tokens import strip_markup
from headwater.query.matched_words import SearchedWords, TextPiece, list_searched_words, mark_words
from headwater.store.content.feeds import find_feed, find_feeds
from headwater.store.queries.query_feeds import load_catalogue
from headwater.store.readers.accounts import User
from headwater.store.readers.reader_items import hide_foreign_addresses
from headwater.store.store import Store

PREVIEW_DAYS = 7.0
SHOWN_ITEMS = 12  # items of each query
SHOWN_SOURCES = 8  # feeds with the most matches
SNIPPET_LETTERS = 160  # letters around a match
SEARCHED_LETTERS = 20_000  # letters searched for matches


@dataclass(frozen=True, slots=True)
class PreviewedItem:
    """An item of a preview: its title and a snippet, with the matched words marked."""

    id: int
    feed: str
    published: float
    title: tuple[TextPiece, ...]
    text: tuple[TextPiece, ...]


@dataclass(frozen=True, slots=True)
class ShownPreview:
    """The preview of one query, as far as it is done."""

    name: str
    kept: int
    looked_at: int
    days: float
    stored_days: float
    per_day: float
    done: float
    sources: tuple[tuple[str, int], ...]
    items: tuple[PreviewedItem, ...]


async def preview_script(
    store: Store, text: str, now: float, user: User, *, first_step: bool = False
) -> tuple[ShownPreview, ...]:
    """Preview the queries of a script for a user, or only begin to. Raises QueryError."""
    steps = stream_script_previews(store, text, now, user)
    return await anext(steps) if first_step else [shown async for shown in steps][-1]


async def stream_script_previews(
    store: Store, text: str, now: float, user: User
) -> AsyncIterator[tuple[ShownPreview, ...]]:
    """Yield the previews of the items evaluated so far, until all are. Raises QueryError."""
    reader_id = None if user.is_owner else user.id
    script = parse(text, await store.read(load_catalogue, reader_id), replacing=EVERY)
    creates = [statement for statement in script.statements if isinstance(statement, CreateFeed)]
    wanted = {create.name.name: list_searched_words(create.query) for create in creates}
    detect = make_language_detector()
    async for found in stream_previews(store, creates, PREVIEW_DAYS, now, detect, SHOWN_ITEMS, reader_id):
        yield tuple([await _show_preview(store, one, wanted[one.name], user) for one in found])


async def _show_preview(store: Store, found: QueryPreview, wanted: Sequence[SearchedWords], user: User) -> ShownPreview:
    latest = await store.read(hide_foreign_addresses, user, found.latest)
    feeds = await store.read(find_feeds, {item.feed_id for item in latest})
    most = list(found.sources.items())[:SHOWN_SOURCES]
    return ShownPreview(
        found.name,
        found.kept,
        found.looked_at,
        found.days,
        found.stored_days,
        found.per_day,
        found.done,
        tuple([(await _find_title(store, label), number) for label, number in most]),
        tuple(_mark_item(item, feeds.get(item.feed_id), wanted) for item in latest),
    )


def _mark_item(item: Item, feed: Feed | None, wanted: Sequence[SearchedWords]) -> PreviewedItem:
    text = " ".join(strip_markup(item.content or item.summary or "").split())[:SEARCHED_LETTERS]
    title, pieces = mark_words(item.title or "Untitled", wanted), mark_words(text, wanted)
    if not any(piece.found for piece in (*title, *pieces)):  # then it was for a category or an author
        beside = mark_words(", ".join((*item.categories, *item.authors)), wanted)
        pieces = beside if any(piece.found for piece in beside) else pieces
    return PreviewedItem(
        item.id or 0,
        (feed.title or public_address(feed.url, feed.link)) if feed else "",
        item.published,
        title,
        _cut_snippet(pieces),
    )


async def _find_title(store: Store, label: str) -> str:
    """Find the title of a feed that a query names by name or address."""
    try:
        return (await store.read(find_feed, label)).title or label
    except NotFound:
        return label


def _cut_snippet(pieces: tuple[TextPiece, ...]) -> tuple[TextPiece, ...]:
    """Cut a snippet around the first match, or from the beginning."""
    first = next((k for k, piece in enumerate(pieces) if piece.found), None)
    if first is None:
        start = pieces[0].text[:SNIPPET_LETTERS] if pieces else ""
        return (TextPiece(start + ("…" if pieces and len(pieces[0].text) > SNIPPET_LETTERS else ""), False),)
    before = pieces[first - 1].text if first else ""
    cut = before if len(before) <= SNIPPET_LETTERS // 2 else "…" + before[-SNIPPET_LETTERS // 2 :]
    kept, room = [TextPiece(cut, False)], SNIPPET_LETTERS
    for piece in pieces[first:]:
        if room <= 0:
            break
        short = piece.text if piece.found or len(piece.text) <= room else piece.text[:room] + "…"
        kept.append(TextPiece(short, piece.found))
        room -= len(short)
    return tuple(kept)
