"""Runs a search for words, a condition of the query language, or a whole query."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial

from sqlalchemy import Connection

from headwater.errors import InputError, QueryError
from headwater.language import Message, Script, parse
from headwater.language.ast import AllSources, CreateFeed, SourceGroup, SourceIs
from headwater.language.normal_form import list_conditions, walk_branches, walk_condition
from headwater.model import Item
from headwater.node.queries.preview import PastRun, open_run
from headwater.query.items.language_detection import make_language_detector
from headwater.store.queries.hits import sum_past_items
from headwater.store.queries.query_feeds import load_catalogue
from headwater.store.readers.reader_items import ReaderItem, find_reader_items, search_reader_items
from headwater.store.store import Store
from headwater.times import DAY

QUERY_DAYS = 30.0
MAX_MATCHES = 200  # items shown of a query that must see all items
MAX_EVALUATED = 2_000  # items that one page of a search by a condition evaluates
MAX_RUNS = 8  # searches that are kept between the parts of their page
GO_ON = 0  # instead of the id of an item: the next part of a search that must see all items
# A field of the query language followed by one of its operators, which nobody types who searches for words.
_QUERY_SHAPE = re.compile(
    r"\b(ITEM|TITLE|CONTENT|CATEGORY|AUTHOR|LINK|LANGUAGE|ENCLOSURE|SOURCE)\s+(CONTAINS|MATCHES|SIMILAR|IN|NEAR|IS)\b"
    r"|\b(TITLE|CATEGORY|AUTHOR|LINK|LANGUAGE|SOURCE)\s*!?=|\bSIZE\s*[<>=]|\bHAS\s+[A-Z]+|\b(PUBLISHED|UPDATED)\s+(IN|[<>])"
    r"|^\s*(CREATE|RETURN|FROM)\s"
)


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The items found. `query` is the script if the input was run as a query, `problem` the reason if it was not.

    A query kept `kept` of the `looked_at` items that this page covers. `searched` is the share of the items that were
    searched by now, if the page ended before it was full.
    """

    readings: tuple[ReaderItem, ...]
    query: str | None = None
    kept: int = 0
    looked_at: int = 0
    problem: Message | None = None
    refusal: str = ""  # the problem with the search words
    next_id: int | None = None
    waiting: int = 0
    searched: float | None = None


class UnfinishedSearches:
    """Keeps the runs of searches that must see all items, such as SIMILAR, between the parts of their page."""

    def __init__(self) -> None:
        self._runs: dict[tuple[int, str], PastRun] = {}

    def keep(self, user_id: int, script: str, run: PastRun) -> None:
        self._runs[user_id, script] = run
        if len(self._runs) > MAX_RUNS:
            del self._runs[next(iter(self._runs))]

    def take(self, user_id: int, script: str) -> PastRun | None:
        return self._runs.pop((user_id, script), None)


def parse_as_query(text: str) -> str | None:
    """Return the input as a script if it looks like the query language, else None.

    >>> parse_as_query('TITLE CONTAINS "ice"')
    'CREATE FEED Search AS RETURN ALL WHERE TITLE CONTAINS "ice"'
    >>> parse_as_query("what the title contains") is None
    True
    """
    if not _QUERY_SHAPE.search(text):
        return None
    begin = text.lstrip().split(None, 1)[0].upper() if text.strip() else ""
    if begin == "CREATE":
        return text
    return (
        f"CREATE FEED Search AS {text}"
        if begin in ("RETURN", "FROM")
        else f"CREATE FEED Search AS RETURN ALL WHERE {text}"
    )


async def run_search(
    store: Store,
    user_id: int,
    text: str,
    now: float,
    *,
    before_id: int | None,
    limit: int,
    unfinished: UnfinishedSearches | None = None,
) -> SearchResult:
    """Search the items of a user's subscriptions, as a query if the input is a valid one, else by words.

    With `unfinished`, also a query that must see all items comes in parts: none has items but the last one.
    """
    script, problem = parse_as_query(text), None
    if script is not None:
        try:
            found = parse(script)
            if _names_feeds(found):
                found = parse(script, await store.read(load_catalogue, user_id))
            creates = [one for one in found.statements if isinstance(one, CreateFeed)][:1]
            if creates:
                return await _search_by_query(store, user_id, script, creates[0], now, before_id, limit, unfinished)
        except QueryError as error:
            problem = next((one for one in error.messages if isinstance(one, Message)), None)
    try:
        page, readings = await search_reader_items(store, user_id, text, limit=limit, before_id=before_id)
    except InputError as error:
        return SearchResult((), refusal=str(error), problem=problem)
    following = readings[-1].item.id if page.more and readings else None
    return SearchResult(tuple(readings), problem=problem, next_id=following, waiting=page.waiting)


def _names_feeds(script: Script) -> bool:
    """Return whether the script names feeds or tags. Only then the stored names, which take long to read, matter."""
    return any(
        not isinstance(branch.source, AllSources | SourceGroup)
        for create in script.queries
        for branch in walk_branches(create.query)
    ) or any(
        isinstance(part, SourceIs)
        for create in script.queries
        for condition in list_conditions(create.query)
        for part in walk_condition(condition)
    )


async def _search_by_query(
    store: Store,
    user_id: int,
    script: str,
    create: CreateFeed,
    now: float,
    before_id: int | None,
    limit: int,
    unfinished: UnfinishedSearches | None,
) -> SearchResult:
    """Evaluate the latest items first, until a page is full; if the query compares items, all of them."""
    kept = unfinished.take(user_id, script) if unfinished is not None and before_id == GO_ON else None
    before_id = before_id or None
    since, name, detect = now - QUERY_DAYS * DAY, create.name.name, make_language_detector()
    loaded: dict[int, ReaderItem] = {}

    def load(connection: Connection, ids: list[int]) -> list[Item]:
        found = find_reader_items(connection, user_id, ids)
        loaded.update((one.id, one) for one in found)
        return [one.item for one in found]

    def ends(run: PastRun) -> bool:
        found_enough = run.latest_first and (run.count_found(name) > limit or run.evaluated >= MAX_EVALUATED)
        return run.done == 1 or found_enough

    def begin(connection: Connection) -> PastRun | SearchResult:
        """Do all in one change of threads, if the query only filters."""
        run = open_run(connection, [create], since, detect, user_id, before_id, limit + 1, limit + 1, load)
        while run.filters and not ends(run):
            run.filter_more(connection)
        return show(connection, run) if run.filters else run

    def show(connection: Connection, run: PastRun) -> SearchResult:
        found = run.list_found(name)
        full = run.latest_first and len(found) > limit
        shown = found[: limit if run.latest_first else MAX_MATCHES]
        last = shown[-1].id if full else None if run.done == 1 else run.last_id
        count = partial(sum_past_items, connection, since=since, feed_ids=run.name_feeds(name))
        searched = count(from_id=last) / count() if last is not None and not full else None
        looked_at = count(from_id=last, before_id=before_id)
        load(connection, [item.id for item in shown if item.id and item.id not in loaded])
        readings = tuple([loaded[item.id] for item in shown if item.id in loaded])
        matches = len(shown) if run.latest_first else len(found)
        return SearchResult(readings, script, matches, looked_at, next_id=last, searched=searched)

    run = await store.read(begin) if kept is None else kept
    if isinstance(run, SearchResult):
        return run
    enough = run.evaluated + MAX_EVALUATED
    while not ends(run):
        if unfinished is not None and run.evaluated >= enough:
            unfinished.keep(user_id, script, run)
            return SearchResult((), script, next_id=GO_ON, searched=run.done)
        await run.step(store)
    return await store.read(show, run)
