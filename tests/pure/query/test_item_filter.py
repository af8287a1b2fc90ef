"""A filter keeps the items that the engine finds for the same query."""

from __future__ import annotations

from random import Random

from hypothesis import assume, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from headwater.language import Catalogue, parse
from headwater.language.normal_form import uses_changes
from headwater.query import Engine
from headwater.query.index.narrowing import weighs_words
from headwater.query.item_filter import ItemFilter
from support import random_streams
from support.tables import FEEDS, NOON

NAMES = Catalogue(FEEDS.sources, {}, FEEDS.tags, random_streams.TITLES)
ORIGINS = dict(enumerate(random_streams.ORIGINS))


@settings(max_examples=400, deadline=None)
@given(st.integers(0, 2**32))
def test_a_filter_keeps_what_the_engine_finds(seed: int) -> None:
    random = Random(seed)
    branches = " | ".join(random_streams.branch(random, []) for _ in range(random.choice([1, 1, 2])))
    text = f"CREATE FEED a AS RETURN {branches} WHERE {random_streams.predicate(random)}"
    (create,) = parse(text, NAMES).queries
    assume(not weighs_words(create.query) and not uses_changes(create.query))
    engine, kept = Engine(), ItemFilter(create.query, ORIGINS)
    engine.add_query(create)
    for number in range(20):
        made = random_streams.item(random, number, NOON)
        item = replace(made, feed_id=random.choice(list(ORIGINS)), identity=f"{number}", version=random.choice([1, 2]))
        assert kept.keeps(item) == bool(engine.match(item, ORIGINS[item.feed_id])), text


def test_a_filter_leaves_out_items_of_a_feed_that_is_gone() -> None:
    (create,) = parse("CREATE FEED a AS RETURN ALL").queries
    item = random_streams.item(Random(1), 1, NOON)
    assert [ItemFilter(create.query, {id: random_streams.ORIGINS[0]}).keeps(item) for id in (1, 2)] == [True, False]
