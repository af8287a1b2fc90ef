"""Finds the query feeds that name a source, follows a source's new name or address, and notes sources that are missing,
private or empty."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from sqlalchemy import Connection, and_, bindparam, func, or_, select, update

from headwater.errors import HeadwaterError, InputError
from headwater.formats.values.links import normalise_url
from headwater.language import reread
from headwater.language.ast import Branch, CreateFeed, FeedAddress, FeedName, Position, SourceIs, TaggedSources
from headwater.language.binary_form import pack_statement
from headwater.language.diagnostics import Diagnostics
from headwater.language.formatter import format_source
from headwater.language.normal_form import list_conditions, walk_branches, walk_condition
from headwater.language.parsing.lexer import TokenKind, tokenize_script
from headwater.model import Feed, QueryFeed
from headwater.store.content import outbox
from headwater.store.queries.query_access import PUBLIC, SHARED
from headwater.store.queries.query_feeds import list_all_query_feeds, read_definition
from headwater.store.saved_state import QUERIES, bump_revision
from headwater.store.schema.feed_tables import FEED_IS_LIVE, feed, feed_tag
from headwater.store.schema.query_tables import PRIVATE_SOURCE, QUERY_IS_LIVE, query_feed
from headwater.store.schema.reader_tables import subscription_tag

SHOWN_USERS = 5  # names of query feeds in a message
_MISSING = "Missing source: "
_Names = tuple[tuple[str, str], ...]  # the sources that a query names: folded, and as written


@dataclass(frozen=True, slots=True)
class BrokenQuery:
    """A query feed that does not work or finds nothing, and why."""

    name: str
    problem: str


def list_references(create: CreateFeed) -> Iterator[FeedName | FeedAddress]:
    """Yield the sources that a query names, in RETURN, JOIN and SOURCE conditions."""
    for branch in walk_branches(create.query):
        if isinstance(branch.source, FeedName | FeedAddress):
            yield branch.source
    for condition in list_conditions(create.query):
        for part in walk_condition(condition):
            if isinstance(part, SourceIs):
                yield from part.sources


def find_users(connection: Connection, source: Feed) -> list[QueryFeed]:
    """Find the query feeds that name a source by its name or its address."""
    # A query that names it has the name, or the host of the address, in its text: few of many are parsed.
    parts = [part.casefold() for part in (source.name, _host(source.url)) if part]
    near = [one for one in list_all_query_feeds(connection) if any(part in one.text.casefold() for part in parts)]
    return [one for one in near if any(_names(reference, source) for reference in _read_references(one))]


def describe_users(users: Sequence[QueryFeed]) -> str:
    """Name query feeds in a sentence, the first few of many.

    >>> from types import SimpleNamespace
    >>> describe_users([SimpleNamespace(name=name) for name in ("A", "B", "C")])
    'the query feeds A, B and C'
    """
    names = [one.name for one in users[:SHOWN_USERS]]
    if len(users) > SHOWN_USERS:
        names.append(f"{len(users) - SHOWN_USERS:,} others")
    if len(names) == 1:
        return f"the query feed {names[0]}"
    return f"the query feeds {', '.join(names[:-1])} and {names[-1]}"


def follow_change(connection: Connection, source: Feed, name: str | None, url: str) -> None:
    """Rewrite the queries that name a source to its new name and address; InputError if they cannot be rewritten."""
    renamed = source.name is not None and name != source.name
    if not renamed and normalise_url(url) == normalise_url(source.url):
        return
    changes: list[tuple[QueryFeed, str]] = []
    for query in find_users(connection, source):
        references = [one for one in list_references(reread(query.text)) if _names(one, source)]  # with positions
        by_name = any(isinstance(one, FeedName) for one in references)
        if by_name and renamed and not _is_name(name):
            raise InputError(
                f"The query feed {query.name} reads this feed as {source.name}. Choose a name that queries can use:"
                " a letter, then letters, digits and _, and no word of the query language.",
                "name",
            )
        wanted = {one.pos: name if isinstance(one, FeedName) else format_source(FeedAddress(url)) for one in references}
        changes.append((query, _replace_tokens(query.text, wanted)))
    if changes:
        _save_texts(connection, changes)


def follow_tag(connection: Connection, reader_id: int | None, old: str, new: str) -> None:
    """Rewrite the queries of a reader, or of the server, that read the feeds with a tag to the tag's new name."""
    written = format_source(TaggedSources(new)).removeprefix("TAG ")
    changes = [
        (query, _replace_tokens(query.text, dict.fromkeys(_find_tag(query.text, old), written)))
        for query in find_tag_users(connection, reader_id, old)
    ]
    if changes:
        _save_texts(connection, changes)


def find_tag_users(connection: Connection, reader_id: int | None, tag: str) -> list[QueryFeed]:
    """Find the queries of a reader, or of the server, that read the feeds with a tag."""
    queries = list_all_query_feeds(connection)
    return [query for query in queries if query.reader_id == reader_id and _find_tag(query.text, tag)]


def _find_tag(text: str, tag: str) -> list[Position]:
    """Return where a query names a tag as a source."""
    diagnostics = Diagnostics(text)
    return [
        diagnostics.position_at(named.offset)
        for word, named in pairwise(tokenize_script(text, diagnostics))
        if word.keyword and word.value == "TAG" and named.value.casefold() == tag.casefold()
    ]


def note_missing_sources(connection: Connection) -> int:
    """Set and clear the problem of query feeds whose source is missing or private, in the caller's transaction; return
    how many have one.

    A query feed whose owner may not read its source any more publishes nothing new (QUERY_MAY_PUBLISH).
    """
    queries = {query.name.casefold(): query for query in list_all_query_feeds(connection)}
    reads = {key: _read_names(query) for key, query in queries.items()}
    missing, private = _find_missing_sources(connection, queries, reads), _find_private_sources(queries, reads)
    broken = {id: f"{_MISSING}{names}. Register the feed again, or change the query." for id, names in missing.items()}
    broken |= {
        id: f"{PRIVATE_SOURCE}{names}. Its owner does not share it with you, so nothing new is published: "
        "change the query."
        for id, names in private.items()
    }
    noted = or_(*(query_feed.c.problem.like(f"{kind}%") for kind in (_MISSING, PRIVATE_SOURCE)))
    connection.execute(update(query_feed).where(noted, query_feed.c.id.not_in(broken)).values(problem=None))
    for id, problem in broken.items():
        connection.execute(update(query_feed).where(query_feed.c.id == id).values(problem=problem[:1000]))
    return len(broken)


def list_broken_queries(connection: Connection, limit: int = 100) -> list[BrokenQuery]:
    """List the query feeds that cannot run, or whose source is missing, with the reason."""
    broken = select(query_feed.c.name, query_feed.c.problem).where(query_feed.c.problem.is_not(None), QUERY_IS_LIVE)
    return [BrokenQuery(*row) for row in connection.execute(broken.order_by(query_feed.c.key).limit(limit))]


def count_broken_queries(connection: Connection) -> int:
    """Count the query feeds that cannot run, or whose source is missing."""
    broken = select(func.count()).select_from(query_feed).where(query_feed.c.problem.is_not(None), QUERY_IS_LIVE)
    return connection.execute(broken).scalar_one()


def find_empty_tags(connection: Connection, queries: Iterable[QueryFeed]) -> dict[int, str]:
    """Return, by id, a sentence for each of these query feeds that reads a tag which no feed has now."""
    of_reader: dict[int | None, set[str]] = {}
    found: dict[int, str] = {}
    for query in queries:
        tags = [one.source.tag for one in _list_branches(query) if isinstance(one.source, TaggedSources)]
        if tags and query.reader_id not in of_reader:
            of_reader[query.reader_id] = _list_tags_in_use(connection, query.reader_id)
        empty = [tag for tag in dict.fromkeys(tags) if tag.casefold() not in of_reader[query.reader_id]]
        if empty:
            named = " or ".join(f'"{tag}"' for tag in empty)
            found[query.id] = f"No feed has the tag {named} now; the items of one that gets it will appear."
    return found


def list_queries_with_empty_tags(connection: Connection, limit: int = 100) -> list[BrokenQuery]:
    """List the query feeds that read a tag which no feed has now."""
    queries = [one for one in list_all_query_feeds(connection) if "tag" in one.text.casefold()]
    found = find_empty_tags(connection, queries)
    return [BrokenQuery(one.name, found[one.id]) for one in queries if one.id in found][:limit]


def _list_tags_in_use(connection: Connection, reader_id: int | None) -> set[str]:
    live = select(feed.c.id).where(FEED_IS_LIVE)
    if reader_id is None:
        tags = select(feed_tag.c.tag).where(feed_tag.c.feed_id.in_(live))
    else:
        mine = and_(subscription_tag.c.user_id == reader_id, subscription_tag.c.feed_id.in_(live))
        tags = select(subscription_tag.c.tag).where(mine)
    return {tag.casefold() for tag in connection.execute(tags.distinct()).scalars()}


def _find_missing_sources(
    connection: Connection, queries: Mapping[str, QueryFeed], reads: Mapping[str, _Names]
) -> dict[int, str]:
    named = connection.execute(select(feed.c.name).where(feed.c.name.is_not(None), FEED_IS_LIVE)).scalars()
    known = {name.casefold() for name in named} | queries.keys()
    missing = {key: [name for read, name in reads[key] if read not in known] for key in queries}
    return {queries[key].id: ", ".join(names) for key, names in missing.items() if names}


def _find_private_sources(queries: Mapping[str, QueryFeed], reads: Mapping[str, _Names]) -> dict[int, str]:
    """Find the query feeds that read a private one of somebody else, also through others."""
    found: dict[str, str] = {}
    while True:
        new: dict[str, str] = {}
        for key, query in queries.items():
            hidden = [
                name
                for read, name in reads[key]
                if read in found or (read in queries and not _may_read(query, queries[read]))
            ]
            if hidden and key not in found:
                new[key] = ", ".join(hidden)
        if not new:
            return {queries[key].id: names for key, names in found.items()}
        found |= new


def _may_read(query: QueryFeed, source: QueryFeed) -> bool:
    return source.reader_id == query.reader_id or source.visibility in (SHARED, PUBLIC)


def _read_names(query: QueryFeed) -> _Names:
    named = ((one.key, one.name) for one in _read_references(query) if isinstance(one, FeedName))
    return tuple(dict.fromkeys(named))


def _read_references(query: QueryFeed) -> list[FeedName | FeedAddress]:
    create = _try_to_read(query)
    return [] if create is None else list(list_references(create))


def _list_branches(query: QueryFeed) -> list[Branch]:
    create = _try_to_read(query)
    return [] if create is None else list(walk_branches(create.query))


def _try_to_read(query: QueryFeed) -> CreateFeed | None:
    try:
        return read_definition(query.text, query.form)
    except (HeadwaterError, ValueError):  # an older text that this version cannot parse names nothing
        return None


def _names(reference: FeedName | FeedAddress, source: Feed) -> bool:
    if isinstance(reference, FeedName):
        return source.name is not None and reference.key == source.name.casefold()
    return normalise_url(reference.url) == normalise_url(source.url)


def _is_name(name: str | None) -> bool:
    """Tell whether a query can write the name."""
    tokens = tokenize_script(name or "", Diagnostics(name or ""))
    return len(tokens) == 2 and tokens[0].kind is TokenKind.WORD and tokens[0].keyword is None


def _host(url: str) -> str:
    return url.partition("://")[2].split("/")[0].rpartition("@")[2].split(":")[0].removeprefix("www.")


def _replace_tokens(text: str, wanted: Mapping[Position, str | None]) -> str:
    """Replace the tokens at these positions."""
    diagnostics = Diagnostics(text)
    for token in reversed(tokenize_script(text, diagnostics)):
        replacement = wanted.get(diagnostics.position_at(token.offset))
        if replacement is not None:
            text = text[: token.offset] + replacement + text[token.end :]
    return text


_SAVE_TEXT = (
    update(query_feed)
    .where(query_feed.c.id == bindparam("of_query"))
    .values({name: bindparam(name) for name in ("text", "form", "position", "revision", "problem")})
)


def _save_texts(connection: Connection, changes: Sequence[tuple[QueryFeed, str]]) -> None:
    """Replace definitions by texts that mean the same; they apply to outbox entries from now on."""
    outbox.lock_outbox(connection)
    position = outbox.find_last_position(connection)
    revision = bump_revision(connection, QUERIES)
    rows = [
        {
            "of_query": query.id,
            "text": text,
            "form": pack_statement(reread(text)),
            "position": position,
            "revision": revision,
            "problem": None,
        }
        for query, text in changes
    ]
    connection.execute(_SAVE_TEXT, rows)
