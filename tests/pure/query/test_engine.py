"""The engine: adding and dropping queries, memory, restarts, and the caller's memory."""

from __future__ import annotations

from random import Random

import pytest
from msgspec.structs import replace

from headwater.errors import InputError, NotFound, QueryError
from headwater.language import parse
from headwater.query import Arrival, Engine
from headwater.query import engine as engine_module
from headwater.query.items import similarity
from headwater.query.items.origin import Origin
from support.random_streams import Queries, arrivals
from support.tables import BLOG, LAB, NEWS, NOON, item


def named(engine: Engine, *given: object, **facts: object) -> set[str]:
    return {hit.query for hit in engine.match(*given, **facts)}  # type: ignore[arg-type]


def made(*statements: str) -> Engine:
    engine = Engine()
    for statement in statements:
        engine.add_query(statement)
    return engine


# adding and dropping queries


def test_a_query_is_added_as_text_or_as_a_parsed_statement() -> None:
    engine = made('CREATE FEED a AS RETURN ALL WHERE TITLE CONTAINS "ash"')
    engine.add_query(parse('CREATE FEED b AS RETURN news WHERE TITLE CONTAINS "ash"').queries[0])
    assert named(engine, item(1, "Ash"), NEWS) == {"a", "b"}
    assert named(engine, item(2, "Ash"), BLOG) == {"a"}


def test_a_name_is_taken_once_and_replaced_on_demand() -> None:
    engine = made("CREATE FEED a AS RETURN news")
    with pytest.raises(QueryError, match="a exists already"):
        engine.add_query("CREATE FEED A AS RETURN blog")
    engine.add_query("CREATE OR REPLACE FEED a AS RETURN blog")
    assert named(engine, item(1), NEWS) == set()
    assert named(engine, item(2), BLOG) == {"a"}
    assert len(engine) == 1


def test_dropping_takes_a_query_out_of_the_index_and_leaves_the_others() -> None:
    text = 'CREATE FEED {} AS RETURN ALL WHERE TITLE CONTAINS "ash" {}'
    more = ["", 'AND TITLE CONTAINS "cloud"', 'AND NOT TITLE CONTAINS "x"', 'OR TITLE CONTAINS "cloud"', "AND SIZE = 0"]
    engine = made(*(text.format(f"q{n}", rest) for n, rest in enumerate(more * 2)))
    for number in (0, 2, 4, 6, 8):
        assert engine.drop_query(f"Q{number}") == (f"q{number}",)
    assert named(engine, item(1, "ash cloud"), NEWS) == {"q1", "q3", "q5", "q7", "q9"}
    for number in (1, 3, 5, 7, 9):
        engine.drop_query(f"q{number}")
    assert len(engine) == 0
    assert engine.count_candidates(item(2, "ash cloud"), NEWS) == 0
    with pytest.raises(NotFound, match="There is no query feed q1"):
        engine.drop_query("q1")


EXCLUDED = {
    'TITLE CONTAINS "ash"': "Ash",
    'ITEM CONTAINS "ash" OR "lava" OR "rock"': "a rock",
    'TITLE CONTAINS "ash cloud"': "the ash cloud",
    'TITLE CONTAINS "ash" AND "cloud"': "cloud of ash",
    'TITLE CONTAINS "volc*"': "volcano",
    "TITLE MATCHES /as+h/": "assh",
    'TITLE SIMILAR TO "ash cloud rises"': "ash cloud rises",
    'SOURCE = "http://news.example/rss"': "anything from news",
    "SIZE = 0": "no content",
}


def test_queries_of_not_alone_have_every_item_but_those_they_exclude() -> None:
    written = [f"NOT ({one})" for one in EXCLUDED] + ['NOT TITLE CONTAINS "ash" AND NOT TITLE CONTAINS "rock"']
    engine = made(*(f"CREATE FEED q{n} AS RETURN ALL WHERE {each}" for n, each in enumerate(written)))
    everything = {f"q{n}" for n in range(len(written))}
    for n, title in enumerate(EXCLUDED.values()):
        assert f"q{n}" not in named(engine, item(n, title), NEWS)
    assert named(engine, item(20, "Fish", content="A long text"), LAB) == everything
    assert named(engine, item(21, "Cloud over Ash", content="A long text"), LAB) == everything - {
        "q0",
        "q1",
        "q3",
        "q9",
    }
    private = Origin(None, "http://reader.example/rss", registered=False)
    assert named(engine, item(22, "Fish"), private) == set()  # ALL does not read it
    engine.drop_query("q1")
    assert named(engine, item(23, "Rock", content="A long text"), LAB) == everything - {"q1", "q9"}
    for name in everything - {"q1"}:
        engine.drop_query(name)
    assert engine.count_candidates(item(24, "ash cloud"), NEWS) == 0


def test_a_feed_that_is_read_is_dropped_with_its_readers_or_not_at_all() -> None:
    engine = made("CREATE FEED a AS RETURN news", "CREATE FEED b AS RETURN a", "CREATE FEED c AS RETURN b | blog")
    with pytest.raises(InputError, match="a is used by b, c"):
        engine.drop_query("a")
    assert named(engine, item(1), NEWS) == {"a", "b", "c"}
    assert engine.drop_query("a", cascade=True) == ("a", "b", "c")
    assert engine.query_names() == []


def test_a_feed_that_would_read_itself_is_refused_and_the_old_definition_stays() -> None:
    engine = made("CREATE FEED a AS RETURN news", "CREATE FEED b AS RETURN a")
    with pytest.raises(QueryError, match="a would read itself: a → b → a"):
        engine.add_query("CREATE OR REPLACE FEED a AS RETURN b")
    assert named(engine, item(1), NEWS) == {"a", "b"}


def test_a_name_that_becomes_a_query_feed_later_is_read_as_that() -> None:
    engine = made("CREATE FEED b AS RETURN a", 'CREATE FEED a AS RETURN ALL WHERE TITLE CONTAINS "ash"')
    assert named(engine, item(1, "ash"), NEWS) == {"a", "b"}
    assert named(engine, item(2), NEWS) == set()


def test_readers_follow_when_the_feed_below_starts_to_rewrite() -> None:
    engine = made("CREATE FEED a AS RETURN news", 'CREATE FEED b AS RETURN a WHERE TITLE CONTAINS "new"')
    assert named(engine, item(1, "ash"), NEWS) == {"a"}
    engine.add_query('CREATE OR REPLACE FEED a AS RETURN news SET TITLE = "New: {title}"')
    hits = {hit.query: hit for hit in engine.match(item(2, "ash"), NEWS)}
    assert hits["b"].item.title == "New: ash"
    assert hits["b"].rewritten_fields == {"title": "New: ash"}
    assert hits["b"].original.title == "ash"


def test_a_layer_of_filters_is_found_through_the_sources_of_the_lowest() -> None:
    engine = made(
        'CREATE FEED a AS RETURN news | blog WHERE TITLE CONTAINS "ash"',
        'CREATE FEED b AS RETURN a WHERE NOT TITLE CONTAINS "storm"',
        'CREATE FEED c AS RETURN b[TITLE CONTAINS "oslo"] | lab',
    )
    assert all(engine._query_feeds.find_entry(name).derived is None for name in "abc")
    assert named(engine, item(1, "ash over Oslo"), NEWS) == {"a", "b", "c"}
    assert named(engine, item(2, "ash storm over Oslo"), NEWS) == {"a"}
    assert named(engine, item(3, "snow"), LAB) == {"c"}
    engine.add_query('CREATE OR REPLACE FEED a AS RETURN news WHERE TITLE CONTAINS "ash" DISTINCT ON TITLE')
    assert named(engine, item(4, "ash over Oslo"), NEWS) == {"a", "b", "c"}
    assert named(engine, item(5, "ash over Oslo"), NEWS) == set()
    engine.add_query("CREATE OR REPLACE FEED a AS RETURN blog")
    assert named(engine, item(6, "ash over Oslo"), NEWS) == set()
    assert named(engine, item(7, "Oslo"), BLOG) == {"a", "b", "c"}
    assert engine.drop_query("a", cascade=True) == ("a", "b", "c")
    assert len(engine) == 0


def test_a_condition_that_takes_long_is_evaluated_once_for_all_readers(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    similar = similarity.WeighedBag.is_similar
    monkeypatch.setattr(
        similarity.WeighedBag, "is_similar", lambda bag, other, at: asked.append("") or similar(bag, other, at)
    )
    engine = made('CREATE FEED a AS RETURN ALL WHERE TITLE SIMILAR TO "ash cloud" AT 0.1')
    for number in range(20):
        engine.add_query(f'CREATE FEED b{number} AS RETURN a WHERE TITLE CONTAINS "ash"')
    assert len(named(engine, item(1, "ash"), NEWS)) == 21
    assert len(asked) == 1


# feeds


def test_a_feed_matches_its_tags_from_the_moment_it_has_them() -> None:
    engine = made('CREATE FEED t AS RETURN TAG "Hot"', "CREATE FEED n AS RETURN wire", "CREATE FEED all_ AS RETURN ALL")
    assert named(engine, item(1, feed_id=7)) == {"all_"}
    engine.set_origin(7, Origin("wire", "http://wire.example/rss", ("hot",)))
    assert named(engine, item(2, feed_id=7)) == {"t", "n", "all_"}
    engine.set_origin(7, Origin("wire", "http://wire.example/rss", (), registered=False))
    assert named(engine, item(3, feed_id=7)) == {"n"}
    engine.remove_origin(7)
    assert named(engine, item(4, feed_id=7)) == {"all_"}


def test_registered_names_and_tags_belong_to_an_address_until_dropped() -> None:
    lone = Origin(None, "http://lone.example/rss", registered=False)
    engine = made('REGISTER FEED "http://LONE.example/rss" AS lone TAGS ("press"); CREATE FEED a AS RETURN lone')
    assert named(engine, item(1), lone) == {"a"}
    engine.add_query("DROP FEED lone")
    assert named(engine, item(2), lone) == set()


# earlier emissions


def test_what_the_caller_says_was_emitted_is_an_update_and_what_was_delivered_is_not_fresh() -> None:
    engine = made(*(f"CREATE FEED {name} AS RETURN news" for name in "abc"), "CREATE FEED d AS RETURN a")
    hits = engine.match(item(1, version=2), NEWS, emitted=["A", "d"], delivered=["a", "d", "b"])
    assert {hit.query: (hit.update, hit.fresh) for hit in hits} == {
        "a": (True, False),
        "b": (False, False),
        "c": (False, True),
        "d": (True, False),
    }


def test_an_item_matched_again_after_a_failure_has_the_same_hits() -> None:
    engine = made(
        "CREATE FEED a AS RETURN news DISTINCT ON TITLE",
        "CREATE FEED b AS RETURN news JOIN ALL AS $x WITHIN LAST 5 ITEMS ON TITLE = $x.TITLE",
        "CREATE FEED c AS RETURN ALL",
    )
    engine.match(item(1, "ash"), BLOG, emitted=())
    first = list(engine.match(item(2, "ash"), NEWS, emitted=()))
    assert {hit.query for hit in first} == {"a", "b", "c"}
    assert list(engine.match(item(2, "ash"), NEWS, emitted=())) == first


def test_a_replaced_query_does_not_deliver_again() -> None:
    engine = made('CREATE FEED a AS RETURN news WHERE TITLE CONTAINS "ash"')
    assert [hit.fresh for hit in engine.match(item(1, "ash"), NEWS)] == [True]
    engine.add_query('CREATE OR REPLACE FEED a AS RETURN news WHERE TITLE CONTAINS "cloud"')
    assert [(hit.update, hit.fresh) for hit in engine.match(item(1, "cloud"), NEWS)] == [(False, False)]


def test_a_back_fill_delivers_nothing_and_makes_later_versions_updates() -> None:
    engine = made()
    past = [Arrival(item(1, "ash"), origin=NEWS), Arrival(item(2, "cloud"), origin=NEWS)]
    engine.add_query('CREATE FEED a AS RETURN news WHERE TITLE CONTAINS "ash"')
    ((arrival, hit),) = engine.backfill("a", past)
    assert (arrival.item.id, hit.fresh, hit.update) == (1, False, False)
    assert [(hit.update, hit.fresh) for hit in engine.match(item(1, "ash again"), NEWS)] == [(True, False)]
    with pytest.raises(NotFound):
        engine.backfill("b", past)


def test_hits_of_a_query_dropped_before_they_are_read_vanish() -> None:
    engine = made("CREATE FEED a AS RETURN news", "CREATE FEED b AS RETURN news")
    hits = engine.match(item(1), NEWS)
    engine.drop_query("a")
    assert [hit.query for hit in hits] == ["b"]
    assert len(hits) == 1


# memory and restarts


def test_a_restart_in_the_middle_of_a_stream_changes_no_answer() -> None:
    for seed in range(12):
        random, queries = Random(seed), Queries()
        statements = [queries.create(random, f"q{number:02}") for number in range(10)]
        stream = list(arrivals(random, 60))
        steady, before = Engine(), Engine()
        for statement in statements:
            steady.add_query(statement)
            before.add_query(statement)
        for each, origin in stream[:30]:
            assert list(steady.match(each, origin)) == list(before.match(each, origin))
        after = Engine()
        for statement in statements:
            after.add_query(statement)
        after.load(before.save())
        for each, origin in stream[30:]:
            expected = {hit.query: hit for hit in steady.match(each, origin)}
            assert {hit.query: hit for hit in after.match(each, origin)} == expected


def test_what_was_delivered_before_a_replacement_stays_delivered_after_a_restart() -> None:
    engine = made('CREATE FEED a AS RETURN news WHERE TITLE CONTAINS "ash"')
    engine.match(item(1, "ash"), NEWS)
    replacement = 'CREATE OR REPLACE FEED a AS RETURN news WHERE TITLE CONTAINS "cloud"'
    engine.add_query(replacement)
    after = made(replacement)
    after.load(engine.save())
    assert [hit.fresh for hit in after.match(item(1, "cloud"), NEWS)] == [False]


def test_a_query_that_changed_since_its_state_was_saved_starts_with_an_empty_window() -> None:
    text = "CREATE FEED a AS RETURN ALL DISTINCT ON {}"
    engine = made(text.format("TITLE"))
    engine.match(item(1, "ash"), NEWS)
    same, other = made(text.format("TITLE")), made(text.format("LINK"))
    same.load(engine.save())
    other.load(engine.save())
    assert named(same, item(2, "ash"), NEWS) == set()
    assert named(other, item(2, "ash"), NEWS) == {"a"}


def test_a_damaged_saved_state_is_refused() -> None:
    with pytest.raises(InputError, match="damaged"):
        Engine().load(b"nonsense")


def test_memory_of_a_long_stream_is_bounded() -> None:
    engine = Engine(remember=50)
    for statement in (
        "CREATE FEED a AS RETURN ALL DISTINCT ON TITLE AT 0.9 WITHIN LAST 10 MINUTES",
        "CREATE FEED b AS RETURN blog JOIN news AS $n WITHIN LAST 20 ITEMS ON TITLE SIMILAR TO $n.TITLE",
    ):
        engine.add_query(statement)
    sizes = []
    for number in range(3_000):
        title = f"word{number % 97} word{number % 89} again"
        engine.match(item(number, title), NEWS if number % 2 else BLOG)
        if number in (500, 2_999):
            sizes.append(len(engine.save()))
    # only the identities of items that left a window may still grow, up to ten thousand short strings
    assert sizes[1] < sizes[0] + 2_500 * 3 * 60
    assert len(engine._recent) == 50
    (a, b) = (engine._query_feeds.find_entry(name).derived for name in "ab")
    assert a is not None
    assert b is not None
    assert a.firsts is not None
    assert len(a.firsts) <= 11
    assert len(b.secondaries[0]) == 20


def test_conditions_move_to_the_words_that_turn_out_to_be_rare(monkeypatch: pytest.MonkeyPatch) -> None:
    """Word frequencies are unknown when the queries are added; then one word of each occurs in every item."""
    monkeypatch.setattr(engine_module, "RETUNE_INTERVAL", 8)
    engine = Engine()
    for number in range(40):
        rare = f"r{number}"
        engine.add_query(f'CREATE FEED pair{number} AS RETURN ALL WHERE TITLE CONTAINS "{rare}" AND "everywhere"')
        engine.add_query(f'CREATE FEED phrase{number} AS RETURN ALL WHERE TITLE CONTAINS "everywhere {rare}"')
        more = f'TITLE CONTAINS "{rare}" AND TITLE CONTAINS "everywhere" AND SIZE = 0'
        engine.add_query(f"CREATE FEED rule{number} AS RETURN ALL WHERE {more}")
    before = engine.count_candidates(item(0, "everywhere"), NEWS)
    assert before > 40
    for number in range(1, 200):
        engine.match(item(number, f"everywhere x{number}"), NEWS)
    assert engine.count_candidates(item(0, "everywhere"), NEWS) < before / 4
    assert named(engine, item(1000, "everywhere r7"), LAB) == {"pair7", "phrase7", "rule7"}
    for name in ("pair7", "phrase7", "rule7"):
        engine.drop_query(name)
    assert named(engine, item(1001, "everywhere r7 now"), LAB) == set()


def test_a_repeated_version_has_no_hits() -> None:
    engine = made("CREATE FEED a AS RETURN news")
    assert len(engine.match(item(1), NEWS)) == 1
    assert engine.match(item(1), NEWS) == []
    changed = replace(item(1), content_hash="other")
    assert [hit.item.version for hit in engine.match(changed, NEWS, NOON)] == [2]
