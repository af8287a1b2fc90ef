"""The server groups items into stories once, as they arrive, stores them with the hits, and repeats it after a
restart.
"""

from __future__ import annotations

from typing import Any

from query_world import QueryWorld
from sqlalchemy import Connection, delete, select

from headwater.store.content.stories import find_story_entries, list_story
from headwater.store.maintenance.retention import RetentionPolicy, delete_expired
from headwater.store.schema.item_tables import item_story, saved_state
from headwater.times import DAY, HOUR

ALASKA = "Alaska health worker has severe reaction to vaccine"
AGAIN = "Severe vaccine reaction of a health worker in Alaska"
THIRD = "Health worker in Alaska: severe reaction after vaccine"


def list_stories(connection: Connection) -> list[tuple[int, int, int | None]]:
    rows = connection.execute(select(item_story).order_by(item_story.c.item_id))
    return [(row.item_id, row.story_id, row.joined_id) for row in rows]


def forget_stories(connection: Connection) -> None:
    connection.execute(delete(saved_state).where(saved_state.c.name == "stories"))
    connection.execute(delete(item_story))


async def publish_in_turn(world: QueryWorld, *titles: str) -> None:
    for number, title in enumerate(titles):
        await world.publish("iris" if number % 2 else "guardian", title)


async def test_items_about_one_event_become_a_story_without_any_query(world: QueryWorld) -> None:
    await publish_in_turn(world, ALASKA, AGAIN, "Bank of England raises interest rates")
    await world.process()
    assert await world.store.read(list_stories) == [(1, 1, None), (2, 1, 1), (3, 3, None)]
    first, second = await world.store.read(list_story, 1)
    assert (first.joined_id, first.score, first.words) == (None, None, ())
    assert second.score is not None
    assert second.score > 0.35
    assert set(second.words) == {"alaska", "health", "worker", "severe", "reaction", "vaccine"}
    assert first.publisher == "example.org"  # the host of its link


async def test_a_restart_and_a_replay_give_the_same_stories(world: QueryWorld) -> None:
    await publish_in_turn(world, ALASKA, "Bank of England raises interest rates")
    await world.process()
    await world.processor.save()
    await publish_in_turn(world, AGAIN)
    changed = world.item("guardian", ALASKA, title="Storm floods the coast of Norway", content_hash="2")
    await world.publish("guardian", updated=[changed])
    await world.process()
    before = await world.store.read(list_stories)
    assert before == [(1, 1, None), (2, 2, None), (3, 1, 1)]
    world.processor = world.new_processor()  # killed: entries since the saved state are matched again
    await world.processor.load()
    assert await world.store.read(list_stories) == before
    await publish_in_turn(world, THIRD, "Coast of Norway: storm floods harbours")
    await world.process()
    found = await world.store.read(list_stories)
    assert found[3:] == [(4, 1, 3), (5, 1, 1)]  # an edited item stays in its story and is compared by its new words


async def test_a_store_without_a_state_groups_the_last_two_days(world: QueryWorld) -> None:
    await world.publish("guardian", world.item("guardian", ALASKA))
    await publish_in_turn(world, AGAIN)
    await world.process()
    expected = await world.store.read(list_stories)
    await world.processor.save()
    await world.store.write(forget_stories)
    world.processor = world.new_processor()
    await world.processor.load()
    assert await world.store.read(list_stories) == expected
    await world.store.write(forget_stories)
    world.now += 3 * DAY
    world.processor = world.new_processor()
    await world.processor.load()
    assert await world.store.read(list_stories) == []


async def test_a_late_item_joins_a_story_but_begins_none(world: QueryWorld) -> None:
    def late(title: str, **more: Any) -> Any:
        return world.item("guardian", title, published=world.now - 49 * HOUR, **more)

    await world.publish("guardian", late("Archive: bank raises interest rates"))
    await publish_in_turn(world, ALASKA)
    await world.publish("iris", world.item("iris", AGAIN, published=world.now - 49 * HOUR))
    await world.process()
    assert await world.store.read(list_stories) == [(2, 2, None), (3, 2, 2)]


async def test_retention_deletes_the_story_of_an_item(world: QueryWorld) -> None:
    await publish_in_turn(world, ALASKA, AGAIN)
    await world.process()
    await world.processor.save()
    await world.store.write(delete_expired, RetentionPolicy(days=1), world.now + 3 * DAY)
    assert await world.store.read(list_stories) == []
    assert await world.store.read(find_story_entries, [1, 2]) == {}
