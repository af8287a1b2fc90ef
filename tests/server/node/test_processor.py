"""Standing queries give the right results on both databases while they are created, changed and dropped."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
from query_world import GUARDIAN, QueryWorld
from sqlalchemy import Connection, update

from headwater.errors import InputError, QueryError
from headwater.language import parse
from headwater.model import QueryFeed
from headwater.node.queries import definitions
from headwater.node.queries.preview import preview_queries
from headwater.query import Engine
from headwater.query.items.analysed_item import AnalysedItem
from headwater.store.content.feeds import NewFeed, change_feed, find_feed
from headwater.store.content.outbox import OutboxEntry, find_last_position, list_outbox_entries
from headwater.store.maintenance.trash import move_feed_to_trash
from headwater.store.queries.document_hits import list_document_hits
from headwater.store.queries.hits import StoredHit, compute_query_statistics, list_hits_after
from headwater.store.queries.query_feeds import find_query_feed, list_all_query_feeds, list_implicit_feeds
from headwater.store.queries.query_scripts import drop_query_feed
from headwater.store.queries.selectivity import list_selectivity, load_offered_counts
from headwater.store.readers.subscriptions import add_and_subscribe
from headwater.store.schema.query_tables import query_feed
from support.store_samples import NOW, SOMEBODY, intercept_reads


def by_hand(connection: Connection, query_id: int, values: dict[str, object]) -> None:
    connection.execute(update(query_feed).where(query_feed.c.id == query_id).values(values))


async def test_items_that_match_come_out_once_in_the_order_of_publication(world: QueryWorld) -> None:
    await world.run('CREATE FEED Volcano AS RETURN guardian | iris WHERE TITLE CONTAINS "volcano"')
    await world.publish("guardian", "A volcano", "The budget")
    await world.publish("iris", "Another volcano")
    await world.process()
    await world.process()
    assert await world.titles("volcano") == ["Another volcano", "A volcano"]
    assert world.fresh() == ["A volcano", "Another volcano"]
    query = await world.store.read(find_query_feed, "VOLCANO")
    stream = await world.store.read(list_hits_after, query.id)
    assert [hit.item.title for hit in stream] == ["A volcano", "Another volcano"]
    assert await world.store.read(list_hits_after, query.id, after=stream[0].id) == stream[1:]
    statistics = await world.store.read(compute_query_statistics, query.id, world.now)
    assert (statistics.hits, statistics.recent, statistics.last) == (2, 2, stream[1].arrived)


async def test_a_new_query_shows_the_past_and_delivers_only_what_comes_after(world: QueryWorld) -> None:
    await world.publish("guardian", "Old volcano", "Old budget")
    await world.process()
    await world.run('CREATE FEED Volcano AS RETURN ALL WHERE TITLE CONTAINS "volcano"')
    await world.publish("guardian", "New volcano")
    await world.process()
    assert await world.titles("Volcano") == ["New volcano", "Old volcano"]
    assert world.fresh() == ["New volcano"]


async def test_without_queries_items_are_grouped_but_not_matched(
    world: QueryWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    def match(*_: Any, **__: Any) -> None:
        raise AssertionError("an item was matched without queries")

    await world.publish("guardian", "One", "Two")
    with monkeypatch.context() as patched:
        patched.setattr(Engine, "match", match)
        await world.process()
    progress = await world.processor.measure_progress()
    assert (progress.position, progress.behind) == (await world.store.read(find_last_position), 0)
    await world.run("CREATE FEED F AS RETURN ALL")
    await world.publish("guardian", "Three")
    await world.process()
    assert world.fresh() == ["Three"]


async def test_an_item_meets_the_definition_that_held_when_it_arrived(world: QueryWorld) -> None:
    await world.run('CREATE FEED F AS RETURN ALL WHERE TITLE CONTAINS "lava"')
    await world.process()
    await world.publish("guardian", "Lava one", "Ash one")
    await world.run('CREATE OR REPLACE FEED F AS RETURN ALL WHERE TITLE CONTAINS "ash"')
    await world.publish("guardian", "Lava two", "Ash two")
    await world.process()  # only now, behind by both
    assert world.fresh() == ["Lava one", "Ash two"]
    assert await world.titles("F") == ["Ash two", "Ash one"]  # the new definition's window


async def test_replacing_delivers_nothing_again(world: QueryWorld) -> None:
    await world.run('CREATE FEED F AS RETURN ALL WHERE TITLE CONTAINS "lava"')
    await world.publish("guardian", "Lava one")
    await world.process()
    await world.run('CREATE OR REPLACE FEED F AS RETURN ALL WHERE TITLE CONTAINS "ash"')
    await world.process()
    assert await world.titles("F") == []
    await world.run('CREATE OR REPLACE FEED F AS RETURN ALL WHERE TITLE CONTAINS "lava"')
    await world.process()
    again = world.item("guardian", "Lava one", content_hash="changed", published=world.now)
    await world.publish("guardian", updated=[again])
    await world.process()
    assert await world.titles("F") == ["Lava one"]
    assert world.fresh() == ["Lava one"]


async def test_a_version_that_matches_no_longer_leaves_the_one_before_as_it_was_published(world: QueryWorld) -> None:
    await world.run('CREATE FEED F AS RETURN ALL WHERE TITLE CONTAINS "lava"')
    await world.publish("guardian", "Lava", "Rock")
    await world.process()
    changed = [
        world.item("guardian", "Lava", title="Mud", content_hash="2"),
        world.item("guardian", "Rock", title="Rock lava", content_hash="2"),
    ]
    await world.publish("guardian", updated=changed)
    await world.process()
    assert set(await world.titles("F")) == {"Lava", "Rock lava"}
    assert world.fresh() == ["Lava", "Rock lava"]
    better = world.item("guardian", "Rock", title="Rock lava, corrected", content_hash="3")
    await world.publish("guardian", updated=[better])
    await world.process()
    assert set(await world.titles("F")) == {"Lava", "Rock lava, corrected"}
    assert world.fresh() == ["Lava", "Rock lava"]


async def test_query_feeds_read_query_feeds_and_carry_what_set_wrote(world: QueryWorld) -> None:
    await world.run(
        'CREATE FEED Low AS RETURN guardian WHERE TITLE CONTAINS "lava" SET TITLE = "[{source}] {title}";'
        'CREATE FEED High AS RETURN Low | iris WHERE NOT TITLE CONTAINS "dull" KEEP LAST 2 ITEMS'
    )
    await world.publish("guardian", "Lava", "Dull lava", "Ash")
    await world.publish("iris", "Geyser")
    await world.process()
    assert set(await world.titles("Low")) == {"[guardian] Lava", "[guardian] Dull lava"}
    assert await world.titles("High") == ["Geyser", "[guardian] Lava"]


async def test_tags_are_live_sets(world: QueryWorld) -> None:
    await world.run('CREATE FEED S AS RETURN TAG "science"')
    await world.process()
    await world.publish("guardian", "Before")
    await world.process()
    await world.store.write(change_feed, world.feeds["guardian"].id, tags=("news", "science"))
    await world.publish("guardian", "After")
    await world.process()
    assert world.fresh() == ["After"]


async def test_dropping_refuses_while_others_read_and_cascade_takes_them_along(world: QueryWorld) -> None:
    await world.run("CREATE FEED A AS RETURN guardian; CREATE FEED B AS RETURN A; CREATE FEED C AS RETURN B")
    await world.process()
    with pytest.raises(InputError, match="A is used by B, C"):
        await world.store.write(drop_query_feed, "a", by=SOMEBODY)
    await world.publish("guardian", "One")
    await world.process()
    assert set((await world.store.write(drop_query_feed, "b", cascade=True, by=SOMEBODY)).names) == {"B", "C"}
    await world.publish("guardian", "Two")
    await world.process()
    assert [query.name for query in await world.store.read(list_all_query_feeds)] == ["A"]
    assert await world.titles("A") == ["Two", "One"]


async def test_a_feed_made_again_under_the_name_of_a_dropped_one_is_new(world: QueryWorld) -> None:
    await world.run("CREATE FEED A AS RETURN guardian")
    await world.publish("guardian", "One")
    await world.process()
    await world.run("DROP FEED A; CREATE FEED A AS RETURN iris")
    await world.publish("iris", "Two")
    await world.publish("guardian", "Three")
    await world.process()
    assert await world.titles("A") == ["Two"]


async def test_a_lower_feed_may_go_in_the_script_that_replaces_its_reader(world: QueryWorld) -> None:
    await world.run("CREATE FEED A AS RETURN guardian; CREATE FEED B AS RETURN A")
    await world.process()
    await world.run("CREATE OR REPLACE FEED B AS RETURN iris; DROP FEED A")
    await world.publish("guardian", "One")
    await world.publish("iris", "Two")
    await world.process()
    assert await world.titles("B") == ["Two"]


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("CREATE FEED a AS RETURN gardian", "1:25: unknown feed gardian"),
        ("CREATE FEED where AS RETURN guardian", "1:13: expected a feed name"),
        ("CREATE FEED ../../etc/passwd AS RETURN guardian", "expected a feed name"),
        ("CREATE FEED guardian AS RETURN iris", "guardian is a registered source"),
        ("CREATE FEED Here AS RETURN iris", "Here exists already|here exists already"),
        ("CREATE OR REPLACE FEED Here AS RETURN There", "Here would read itself"),
        ("DROP FEED here", "here is used by There"),
        (f'REGISTER FEED "{GUARDIAN}" AS other', "registered already, as guardian"),
    ],
)
async def test_what_cannot_be_is_refused_with_its_place_and_nothing_is_done(
    world: QueryWorld, script: str, message: str
) -> None:
    await world.run("CREATE FEED Here AS RETURN guardian; CREATE FEED There AS RETURN Here")
    before = await world.store.read(list_all_query_feeds)
    with pytest.raises(QueryError, match=message) as caught:
        await world.run(f"CREATE FEED Fine AS RETURN iris;\n{script}" if script.startswith("DROP") else script)
    assert caught.value.messages
    assert await world.store.read(list_all_query_feeds) == before


async def test_addresses_in_queries_become_feeds_that_only_queries_want(world: QueryWorld) -> None:
    address = "https://new.example/feed"
    await world.run(f'CREATE FEED N AS RETURN "{address}" | "{GUARDIAN}"')
    feed = await world.store.read(find_feed, address)
    assert await world.store.read(list_implicit_feeds) == {feed.id}
    assert feed.weight == 0.0
    world.feeds["new"] = feed
    await world.run("CREATE FEED Everything AS RETURN ALL")
    await world.publish("new", "From the new one")
    await world.process()
    assert await world.titles("N") == ["From the new one"]
    assert await world.titles("Everything") == []  # ALL means the registered sources
    await world.store.write(drop_query_feed, "N", by=SOMEBODY)
    assert (await world.store.read(find_feed, address)).paused
    assert not (await world.store.read(find_feed, GUARDIAN)).paused
    await world.run(f'CREATE FEED M AS RETURN "{address}"')
    assert not (await world.store.read(find_feed, address)).paused
    await world.store.write(add_and_subscribe, [NewFeed(address, weight=2.0)], NOW)  # now a person subscribes to it
    await world.store.write(drop_query_feed, "M", by=SOMEBODY)
    feed = await world.store.read(find_feed, address)
    assert (feed.paused, feed.weight, await world.store.read(list_implicit_feeds)) == (False, 2.0, set())


async def test_register_adds_a_feed_with_its_name_and_tags(world: QueryWorld) -> None:
    await world.run(
        'REGISTER FEED "https://blog.example/" AS blog TAGS ("science", "own"); CREATE FEED B AS RETURN blog'
    )
    feed = await world.store.read(find_feed, "blog")
    assert feed.tags == ("own", "science")
    world.feeds["blog"] = feed
    await world.publish("blog", "Hello")
    await world.process()
    assert await world.titles("B") == ["Hello"]


async def test_a_processor_that_begins_anew_goes_on_where_the_last_one_stopped(world: QueryWorld) -> None:
    await world.run('CREATE FEED F AS RETURN ALL WHERE TITLE CONTAINS "lava"; CREATE FEED G AS RETURN F')
    await world.publish("guardian", "Lava one")
    await world.process()
    await world.publish("guardian", "Lava two")
    await world.run('CREATE OR REPLACE FEED F AS RETURN ALL WHERE TITLE CONTAINS "ash"')
    await world.publish("guardian", "Lava three", "Ash three")
    world.processor = world.new_processor()
    await world.processor.load()
    await world.process()
    assert world.fresh() == ["Lava one", "Lava one", "Lava two", "Lava two", "Ash three", "Ash three"]
    assert await world.titles("F") == ["Ash three"]


@pytest.mark.parametrize("saved", [True, False])
async def test_windows_of_distinct_and_joins_survive_a_restart_that_nobody_announced(
    world: QueryWorld, saved: bool
) -> None:
    await world.run(
        "CREATE FEED Once AS RETURN guardian | iris DISTINCT ON TITLE;"
        "CREATE FEED Echo AS RETURN iris JOIN guardian AS $g WITHIN LAST 1 HOUR ON TITLE = $g.TITLE"
    )
    await world.publish("guardian", world.item("guardian", "a", title="Lava"))
    await world.process()
    if saved:
        await world.processor.save()
    world.processor = world.new_processor()
    await world.processor.load()
    await world.publish("iris", world.item("iris", "b", title="Lava"), world.item("iris", "c", title="Ash"))
    await world.process()
    assert await world.titles("Once") == ["Ash", "Lava"]
    query = await world.store.read(find_query_feed, "Echo")
    (echo,) = await world.store.read(list_document_hits, query, world.now)
    assert echo.related is not None
    assert [other.title for other in echo.related] == ["Lava"]


async def test_many_queries_made_at_once_are_filled_in_one_pass_as_one_by_one(world: QueryWorld) -> None:
    await world.publish("guardian", *(f"{word} {number}" for word in ("lava", "ash", "mud") for number in range(4)))
    await world.process()
    words = ("lava", "ash", "mud", "rain")
    await world.run(
        ";".join(f'CREATE FEED F{w} AS RETURN ALL WHERE TITLE CONTAINS "{w}" KEEP LAST 3 ITEMS' for w in words)
    )
    await world.process()
    for word in words:
        await world.run(f'CREATE FEED G{word} AS RETURN ALL WHERE TITLE CONTAINS "{word}" KEEP LAST 3 ITEMS')
        await world.process()
        assert await world.titles(f"F{word}") == await world.titles(f"G{word}")
        assert len(await world.titles(f"F{word}")) == (0 if word == "rain" else 3)
        kept = [
            await world.store.read(list_selectivity, (await world.store.read(find_query_feed, f"{c}{word}")).id)
            for c in "FG"
        ]
        assert [(s.feed_id, s.kept, s.offered) for s in kept[0]] == [(s.feed_id, s.kept, s.offered) for s in kept[1]]


async def test_two_processors_write_every_hit_once(world: QueryWorld) -> None:
    await world.run("CREATE FEED F AS RETURN ALL")
    other = world.new_processor()
    await other.load()
    for number in range(5):
        await world.publish("guardian", f"Item {number}")
        first, second = (world.processor, other) if number % 2 else (other, world.processor)
        while await first.step() or await second.step():
            pass
    assert sorted(filter(None, world.fresh())) == [f"Item {number}" for number in range(5)]


async def test_what_hangs_on_hits_is_written_with_them_or_not_at_all(world: QueryWorld) -> None:
    await world.run("CREATE FEED F AS RETURN ALL")
    await world.process()
    calls: list[int] = []

    def write(connection: Any, hits: Sequence[StoredHit]) -> None:
        calls.append(len(hits))
        if len(calls) == 1:
            raise RuntimeError("no room for deliveries")

    world.processor.writers.append(write)
    await world.publish("guardian", "One")
    with pytest.raises(RuntimeError):
        await world.processor.step()
    assert await world.titles("F") == []
    await world.processor.load()
    await world.process()
    assert await world.titles("F") == ["One"]
    assert calls == [1, 1]


async def test_selectivity_is_learned_from_the_past_and_from_what_arrives(world: QueryWorld) -> None:
    await world.publish("guardian", "Lava a", "b", "c", "d")
    await world.process()
    await world.run('CREATE FEED F AS RETURN ALL WHERE TITLE CONTAINS "lava" KEEP LAST 1 ITEMS')
    await world.process()
    await world.publish("guardian", "Lava e", "f")
    await world.process()
    query = await world.store.read(find_query_feed, "F")
    (source,) = await world.store.read(list_selectivity, query.id)
    assert (source.kept, source.offered) == (2, 6)


async def test_a_feed_of_whose_past_a_query_kept_nothing_is_known_to_bring_it_little(world: QueryWorld) -> None:
    await world.publish("guardian", "Lava a", "b", "c", "d")
    await world.publish("iris", *"ghijkl")
    await world.process()  # not requested yet
    await world.run('CREATE FEED F AS RETURN ALL WHERE TITLE CONTAINS "lava"')
    await world.process()
    await world.publish("iris", "m")
    await world.process()
    await world.run("CREATE FEED G AS RETURN ALL")
    await world.process()
    offers = await world.store.read(load_offered_counts)
    assert offers == {world.feeds["guardian"].id: 4, world.feeds["iris"].id: 7}
    shares = {(one.query_id, one.feed_id): (one.kept, one.offered) for one in await world.store.read(list_selectivity)}
    f, g = [(await world.store.read(find_query_feed, name)).id for name in "FG"]
    guardian, iris = world.feeds["guardian"].id, world.feeds["iris"].id
    assert shares == {(f, guardian): (1, 4), (g, guardian): (4, 4), (g, iris): (7, 7)}


async def test_removing_a_feed_takes_its_items_out_of_query_feeds(world: QueryWorld) -> None:
    await world.run("CREATE FEED F AS RETURN ALL")
    await world.publish("guardian", "One")
    await world.publish("iris", "Two")
    await world.process()
    await world.store.write(move_feed_to_trash, world.feeds["guardian"].id, by=SOMEBODY)
    assert await world.titles("F") == ["Two"]


async def test_a_definition_that_cannot_be_read_any_more_says_so_and_stops_nobody(world: QueryWorld) -> None:
    await world.run("CREATE FEED F AS RETURN ALL; CREATE FEED G AS RETURN ALL")
    query = await world.store.read(find_query_feed, "F")

    await world.store.write(by_hand, query.id, {"text": "CREATE FEED"})
    await world.publish("guardian", "One")
    await world.process()
    assert await world.titles("G") == ["One"]
    assert (await world.store.read(find_query_feed, "F")).problem


@pytest.mark.parametrize("form", [None, b"\xff of another version"])
async def test_a_definition_without_a_form_of_use_is_read_from_its_text_and_gets_one(
    world: QueryWorld, form: bytes | None
) -> None:
    await world.run('CREATE FEED F AS RETURN ALL WHERE TITLE CONTAINS "one"')
    await world.process()
    before = await world.store.read(find_query_feed, "F")
    await world.store.write(by_hand, before.id, {"form": form})
    world.processor = world.new_processor()
    await world.processor.load()
    await world.publish("guardian", "One", "Two")
    await world.process()
    assert await world.titles("F") == ["One"]
    assert (await world.store.read(find_query_feed, "F")).form == before.form != form


async def test_only_definitions_that_changed_are_read_again(world: QueryWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    await world.run("CREATE FEED F AS RETURN ALL; CREATE FEED G AS RETURN ALL; CREATE FEED H AS RETURN ALL")
    await world.process()
    seen: list[tuple[list[str], int]] = []

    follow = definitions.QueryDefinitions.apply_changes

    def watched(self: definitions.QueryDefinitions, changed: list[QueryFeed], gone: set[int], position: int) -> None:
        seen.append(([query.name for query in changed], len(gone)))
        follow(self, changed, gone, position)

    monkeypatch.setattr(definitions.QueryDefinitions, "apply_changes", watched)
    await world.run("CREATE OR REPLACE FEED G AS RETURN guardian")
    await world.process()
    await world.run("DROP FEED F; CREATE FEED F AS RETURN iris")
    await world.process()
    await world.run("DROP FEED H")
    await world.process()
    assert seen == [(["G"], 0), (["F"], 1), ([], 1)]
    await world.publish("guardian", "One")
    await world.publish("iris", "Two")
    await world.process()
    assert [await world.titles(name) for name in "FG"] == [["Two"], ["One"]]


MANY = 120


async def test_matching_goes_on_while_a_large_script_is_taken_up(
    world: QueryWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """New items are matched at once by active queries, and exactly once by those that are activated later."""
    monkeypatch.setattr(definitions, "LATE_SLICE", 10)
    await world.run('CREATE FEED First AS RETURN ALL WHERE TITLE CONTAINS "volcano"')
    await world.publish("guardian", "An old volcano")
    await world.process()
    script = [f'CREATE FEED q{number} AS RETURN ALL WHERE TITLE CONTAINS "volcano"' for number in range(MANY)]
    await world.run(";\n".join(script))
    seen: dict[str, int] = {}
    for number in range(6):
        await world.publish("guardian", f"volcano {number}")
        assert await world.processor.step()
        seen[f"volcano {number}"] = len(world.processor.definitions)
        assert f"volcano {number}" in await world.titles("First")  # before all others are active
    assert max(seen.values()) < MANY
    assert len(set(seen.values())) == len(seen)  # each step activates some
    await world.process()
    assert len(world.processor.definitions) == MANY + 1
    wanted = [f"volcano {number}" for number in range(6)]
    for name in ("q0", "q59", "q119"):
        query = await world.store.read(find_query_feed, name)
        stream = await world.store.read(list_hits_after, query.id, after=0)
        assert [(hit.item.title, hit.fresh) for hit in stream] == [
            ("An old volcano", False),
            *((w, True) for w in wanted),
        ]
    delivered = [(hit.query_id, hit.item.title) for hit in world.delivered if hit.fresh]
    assert len(delivered) == len(set(delivered)) == (MANY + 1) * 6 + 1


async def fresh(world: QueryWorld, name: str) -> list[str | None]:
    query = await world.store.read(find_query_feed, name)
    return [hit.item.title for hit in await world.store.read(list_hits_after, query.id) if hit.fresh]


FEW = "KEEP LAST 1 ITEMS"  # most earlier items are outside the filled window, and would count as new


async def test_a_large_script_is_not_taken_up_before_its_time_because_another_definition_waits(
    world: QueryWorld,
) -> None:
    """The processor is behind: items between the two definitions may only match the first."""
    await world.run("CREATE FEED Everything AS RETURN ALL")
    await world.process()
    await world.publish("guardian", "volcano 0")
    await world.run("CREATE FEED Once AS RETURN ALL DISTINCT ON TITLE")
    await world.publish("guardian", "volcano 1", "volcano 2")
    script = [f'CREATE FEED q{k} AS RETURN ALL WHERE TITLE CONTAINS "volcano" {FEW}' for k in range(MANY)]
    await world.run(";\n".join(script))
    await world.publish("guardian", "volcano 3")
    await world.process()
    assert await fresh(world, "Once") == ["volcano 1", "volcano 2", "volcano 3"]
    assert await fresh(world, "q0") == await fresh(world, "q119") == ["volcano 3"]


@pytest.mark.parametrize("number", [1, MANY])
async def test_what_arrives_just_before_a_definition_while_the_processor_looks_is_not_delivered_by_it(
    world: QueryWorld, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    await world.run("CREATE FEED Everything AS RETURN ALL")
    await world.process()
    came = True
    read = world.store.read

    async def interrupted(after: int, limit: int = 500) -> list[OutboxEntry]:
        nonlocal came
        found = await read(list_outbox_entries, after, limit)
        if not came:
            came = True
            await world.publish("guardian", "volcano 0", "volcano 1")
            await world.run(";".join(f"CREATE FEED q{k} AS RETURN ALL {FEW}" for k in range(number)))
            await world.publish("guardian", "volcano 2", "volcano 3")
            await world.run(f"CREATE FEED q{number} AS RETURN ALL DISTINCT ON TITLE {FEW}")
            await world.publish("guardian", "volcano 4")
        return found

    intercept_reads(monkeypatch, world.store, list_outbox_entries, interrupted)
    world.processor = world.new_processor()
    await world.processor.load()
    came = False
    await world.process()
    assert await fresh(world, "Everything") == [f"volcano {number}" for number in range(5)]
    assert await fresh(world, "q0") == ["volcano 2", "volcano 3", "volcano 4"]
    assert await fresh(world, f"q{number}") == ["volcano 4"]


async def test_a_large_script_half_taken_up_is_finished_after_a_restart(
    world: QueryWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(definitions, "LATE_SLICE", 10)
    script = [f'CREATE FEED q{number} AS RETURN ALL WHERE TITLE CONTAINS "volcano"' for number in range(MANY)]
    script.append("CREATE FEED Joined AS RETURN guardian JOIN iris AS $i WITHIN LAST 1 DAY ON TITLE = $i.TITLE")
    script.append("CREATE FEED Reader AS RETURN q7")
    await world.run(";\n".join(script))
    await world.publish("guardian", "volcano 1")
    for _ in range(4):
        await world.processor.step()
    assert 2 < len(world.processor.definitions) < MANY
    world.processor = world.new_processor()
    await world.processor.load()
    await world.publish("iris", "volcano 2")
    await world.process()
    for name in ("q0", "q7", "q119", "Reader"):
        assert sorted(map(str, await world.titles(name))) == ["volcano 1", "volcano 2"]
    delivered = [(hit.query_id, hit.item.title) for hit in world.delivered if hit.fresh]
    assert len(delivered) == len(set(delivered)) == (MANY + 1) * 2


async def test_a_query_that_cannot_be_tried_says_so_and_keeps_no_item_from_the_others(
    world: QueryWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.run("CREATE FEED Sized AS RETURN ALL WHERE SIZE >= 0")
    await world.run('CREATE FEED Dated AS RETURN ALL WHERE PUBLISHED > "2001-01-01"')
    await world.process()

    def broken(_: AnalysedItem) -> bool:
        raise ArithmeticError("no such number")

    monkeypatch.setattr(AnalysedItem, "size", property(broken))
    await world.publish("guardian", "A volcano")
    await world.process()
    assert await world.titles("Dated") == ["A volcano"]
    assert await world.titles("Sized") == []
    said = (await world.store.read(find_query_feed, "Sized")).problem
    assert said is not None
    assert "no such number" in said
    assert (await world.store.read(find_query_feed, "Dated")).problem is None


async def preview_counts(world: QueryWorld, script: str) -> dict[str, int]:
    previews = await preview_queries(world.store, list(parse(script).queries), 30.0, world.now)
    return {preview.name: preview.kept for preview in previews}


async def filled_counts(world: QueryWorld) -> dict[str, int]:
    feeds = await world.store.read(list_all_query_feeds)
    return {one.name: len(await world.store.read(list_document_hits, one, world.now)) for one in feeds}


async def test_layers_of_one_script_are_filled_from_each_other(world: QueryWorld) -> None:
    await world.publish("guardian", *(f"Volcano {number}" for number in range(12)))
    await world.process()
    script = """
        CREATE FEED P1 AS RETURN ALL SET TITLE = "[seen] {title}";
        CREATE FEED P2 AS RETURN P1 WHERE TITLE CONTAINS "seen";
        CREATE FEED P3 AS RETURN P2 | P1 WHERE TITLE CONTAINS "7" OR TITLE CONTAINS "8";
    """
    wanted = await preview_counts(world, script)
    await world.run(script)
    await world.process()
    assert wanted == {"P1": 12, "P2": 12, "P3": 2}
    assert await filled_counts(world) == wanted
    assert set(await world.titles("P3")) == {"[seen] Volcano 7", "[seen] Volcano 8"}


@pytest.mark.parametrize("seed", range(8))
async def test_a_preview_of_random_layers_is_what_they_are_filled_with(world: QueryWorld, seed: int) -> None:
    draw = Random(seed)
    words = ("ash", "lava", "cloud", "ice")
    for source in ("guardian", "iris"):
        await world.publish(source, *(f"{source} {number} {' '.join(draw.sample(words, 2))}" for number in range(6)))
    await world.process()
    statements: list[str] = []
    for number in range(6):
        sources = draw.sample(["guardian", "iris", *(f"Q{layer}" for layer in range(number))], k=min(2, number + 1))
        kind = draw.choice(["", " DISTINCT ON TITLE", f' WHERE TITLE CONTAINS "{draw.choice(words)}"'])
        statements.append(f"CREATE FEED Q{number} AS RETURN {' | '.join(sources)}{kind};")
    script = "\n".join(statements)
    wanted = await preview_counts(world, script)
    await world.run(script)
    await world.process()
    assert await filled_counts(world) == wanted
