"""The query processor handles query feeds and sources that were removed and restored."""

from __future__ import annotations

from query_world import QueryWorld

from headwater.store.maintenance.trash import move_feed_to_trash, restore_from_trash
from headwater.store.maintenance.trash_entries import Remover
from headwater.store.queries.hits import list_hits_after
from headwater.store.queries.query_feeds import find_query_feed
from headwater.store.queries.query_scripts import drop_query_feed

LAVA = 'CREATE FEED Lava AS RETURN ALL WHERE TITLE CONTAINS "lava" KEEP LAST 2 ITEMS'


async def dropped(world: QueryWorld) -> int:
    gone = await world.store.write(drop_query_feed, "Lava", by=Remover(None, world.now))
    assert gone.undo is not None
    return gone.undo


async def test_a_query_feed_that_is_back_has_its_past_and_what_came_meanwhile_but_delivers_only_what_comes(
    world: QueryWorld,
) -> None:
    await world.run(LAVA)
    for title in ("lava 1", "lava 2", "lava 3"):
        await world.publish("guardian", title)
    await world.process()
    before = await world.store.read(find_query_feed, "Lava")
    hits = await world.store.read(list_hits_after, before.id)
    undo = await dropped(world)
    await world.process()
    await world.publish("iris", "lava meanwhile", "ash")
    await world.process()
    await world.store.write(restore_from_trash, undo, None, world.now)
    await world.process()
    query = await world.store.read(find_query_feed, "Lava")
    assert query.id == before.id
    assert not query.is_pending
    assert (await world.store.read(list_hits_after, query.id))[: len(hits)] == hits  # also beyond its window
    assert await world.titles("Lava") == ["lava meanwhile", "lava 3"]
    await world.publish("guardian", "lava after")
    await world.process()
    assert world.fresh() == ["lava 1", "lava 2", "lava 3", "lava after"]
    assert await world.titles("Lava") == ["lava after", "lava meanwhile"]


async def test_one_that_is_back_before_the_processor_noticed_goes_on_and_delivers_nothing_twice(
    world: QueryWorld,
) -> None:
    await world.run(LAVA)
    await world.publish("guardian", "lava 1")
    await world.process()
    undo = await dropped(world)
    await world.publish("guardian", "lava 2")
    await world.store.write(restore_from_trash, undo, None, world.now)
    await world.publish("guardian", "lava 3")
    await world.process()
    assert not (await world.store.read(find_query_feed, "Lava")).is_pending
    assert await world.titles("Lava") == ["lava 3", "lava 2"]
    assert world.fresh().count("lava 1") == 1
    assert world.fresh()[-1] == "lava 3"
    again = world.new_processor()
    await again.load()
    while await again.step():
        pass
    assert await world.titles("Lava") == ["lava 3", "lava 2"]
    assert world.fresh().count("lava 3") == 1


async def test_one_with_a_memory_remembers_what_it_had_seen(world: QueryWorld) -> None:
    await world.run("CREATE FEED Lava AS RETURN ALL DISTINCT ON TITLE WITHIN LAST 1 DAY")
    await world.process()
    await world.publish("guardian", world.item("guardian", "a", title="lava"))
    await world.process()
    undo = await dropped(world)
    await world.process()
    await world.store.write(restore_from_trash, undo, None, world.now)
    await world.process()
    await world.publish("iris", world.item("iris", "b", title="lava"))
    await world.process()
    assert await world.titles("Lava") == ["lava"]


async def test_items_that_no_query_had_met_when_their_feed_was_removed_meet_them_when_it_is_back(
    world: QueryWorld,
) -> None:
    await world.run(LAVA)
    await world.publish("iris", "lava here")
    await world.process()
    await world.publish("guardian", "lava unread")
    feed = world.feeds["guardian"]
    undo = await world.store.write(move_feed_to_trash, feed.id, by=Remover(None, world.now))
    await world.publish("iris", "lava there")
    await world.process()
    assert world.fresh() == ["lava here", "lava there"]
    assert undo is not None
    await world.store.write(restore_from_trash, undo, None, world.now)
    await world.process()
    assert world.fresh() == ["lava here", "lava there", "lava unread"]
