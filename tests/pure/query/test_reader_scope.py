"""The query of a reader sees the reader's feeds only, in every representation of the engine."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.language import parse
from headwater.language.formatter import format_script
from headwater.model import Item
from headwater.query import Arrival, Engine
from headwater.query.items.origin import Origin
from headwater.query.reader_scope import limit_to_reader, reader_tag

QUERIES = (
    "RETURN ALL",
    'RETURN ALL WHERE TITLE CONTAINS "a"',
    'RETURN TAG "t"',
    'RETURN (ALL | TAG "t") WHERE TITLE CONTAINS "a"',
    "RETURN ALL DISTINCT ON LINK",
    'RETURN ALL SET TITLE = "{title}!"',
)


def an_item(feed: int, number: int) -> Item:
    return Item(feed, f"{feed}-{number}", "h", title="a b", link=f"https://x.example/{feed}/{number}", published=1.0,
                dated=True, updated=None, first_seen=1.0)  # fmt: skip


@pytest.mark.parametrize("query", QUERIES)
@given(mine=st.sets(st.integers(1, 5)), tagged=st.sets(st.integers(1, 5)))
def test_a_readers_query_sees_what_the_reader_subscribes_to(query: str, mine: set[int], tagged: set[int]) -> None:
    (create,) = parse(f"CREATE FEED q AS {query}").queries
    limited = limit_to_reader(create, 7)
    (again,) = parse(format_script(type(parse(""))((limited,)))).queries
    assert again.query == limited.query
    engine = Engine()
    for feed in range(1, 6):
        tags = [reader_tag(8), reader_tag(8, "t"), "t"]  # tags of another reader, and of the server
        tags += [reader_tag(7)] if feed in mine else []
        tags += [reader_tag(7, "t")] if feed in mine & tagged else []
        engine.set_origin(feed, Origin(None, f"https://f.example/{feed}", tuple(tags)))
    engine.add_query(limited)
    wanted = mine & tagged if query == 'RETURN TAG "t"' else mine
    past = [Arrival(an_item(feed, 0), 1.0) for feed in range(1, 6)]
    assert {arrival.item.feed_id for arrival, _ in engine.backfill("q", past)} == wanted
    assert {feed for feed in range(1, 6) if list(engine.match(an_item(feed, 1)))} == wanted
