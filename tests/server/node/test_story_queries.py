"""Queries about stories work live, filled from the past, in previews and after a restart, on both databases."""

from __future__ import annotations

from query_world import QueryWorld
from test_story_grouping import AGAIN, ALASKA, THIRD

from headwater.language import parse
from headwater.node.queries.preview import preview_queries
from headwater.node.queries.verification import verify_query
from headwater.store.queries.document_hits import list_document_hits
from headwater.store.queries.query_feeds import find_query_feed
from support.store_samples import NOW

RATES = "Bank of England raises interest rates"
SCRIPT = """
CREATE FEED {}Two AS RETURN ALL WHERE STORY SOURCES >= 2 WITHIN LAST 6 HOURS;
CREATE FEED {}Firsts AS RETURN ALL WHERE FIRST OF STORY;
CREATE FEED {}Many AS RETURN ALL WHERE STORY ITEMS >= 3;
CREATE FEED {}Growing AS RETURN ALL WHERE STORY GROWING BY 2 WITHIN LAST 1 HOUR;
CREATE FEED {}Mine AS RETURN iris WHERE STORY ITEMS >= 2;
CREATE FEED {}Each AS RETURN ALL WHERE STORY ITEMS >= 2 EACH STORY
  SET TITLE = "{{title}} ({{story.sources}} sources, {{story.items}} items)";
"""
NAMES = ("Two", "Firsts", "Many", "Growing", "Mine", "Each")


async def publish_story(world: QueryWorld) -> None:
    """Publish one story in four items of two sources, and another story in one item."""
    for feed, title in (("guardian", ALASKA), ("iris", RATES), ("iris", AGAIN), ("guardian", THIRD)):
        link = f"https://{feed}.example/{len(title)}"
        await world.publish(feed, world.item(feed, title, link=link, content=f"The text of {title}"))
    await world.publish("iris", world.item("iris", THIRD, link="https://iris.example/9"))


async def show(world: QueryWorld, name: str) -> list[tuple[object, ...]]:
    """Return the document of a query feed: titles, texts and related items."""
    query = await world.store.read(find_query_feed, name)
    return [
        (hit.item.id, hit.item.title, hit.item.content, [one.id for one in hit.related or ()], hit.arrived)
        for hit in await world.store.read(list_document_hits, query, world.now)
    ]


async def test_queries_count_the_items_that_their_sources_let_through(world: QueryWorld) -> None:
    await world.run(SCRIPT.format(*[""] * 6))
    await publish_story(world)
    await world.process()
    assert set(await world.titles("Two")) == {AGAIN, THIRD}
    assert set(await world.titles("Firsts")) == {ALASKA, RATES}
    assert await world.titles("Many") == [THIRD, THIRD]
    assert await world.titles("Mine") == [THIRD]  # the two items of iris, and none of guardian
    ((id, title, content, related, _),) = await show(world, "Each")
    assert (id, title) == (1, f"{ALASKA} (2 sources, 4 items)")
    assert content == f"The text of {ALASKA}"
    assert related == [3, 4, 5]
    for name in NAMES:
        assert (await verify_query(world.store, name, world.now)).differences == (), name
    fresh = [hit for hit in world.delivered if hit.fresh and hit.item.id == 1 and hit.related is not None]
    assert len(fresh) == 1  # later items change the story in place, without a notice
    assert fresh[0].item.title is not None


async def test_live_and_filled_and_previewed_are_the_same(world: QueryWorld) -> None:
    await world.run(SCRIPT.format(*["Live"] * 6))
    await world.process()
    await publish_story(world)
    await world.process()
    await world.run(SCRIPT.format(*["Past"] * 6))
    await world.process()
    for name in NAMES:
        live = await show(world, f"Live{name}")
        assert live, name
        assert live == await show(world, f"Past{name}"), name
        (create,) = [one for one in parse(SCRIPT.format(*["New"] * 6)).queries if one.name.name == f"New{name}"]
        (preview,) = await preview_queries(world.store, [create], 1.0, world.now)
        assert {one.id for one in preview.latest} == {row[0] for row in live}, name
    await world.publish("guardian", world.item("guardian", f"{THIRD} today", link="https://guardian.example/8"))
    await world.process()
    for name in NAMES:  # both go on counting
        assert await show(world, f"Live{name}") == await show(world, f"Past{name}"), name


async def test_a_restart_counts_on_where_it_stopped(world: QueryWorld) -> None:
    await world.run(SCRIPT.format(*[""] * 6))
    await world.publish("guardian", world.item("guardian", ALASKA, link="https://guardian.example/1"))
    await world.process()
    await world.processor.save()
    await world.publish("iris", world.item("iris", AGAIN, link="https://iris.example/1"))
    await world.process()
    for _ in range(2):  # killed before and after the state was saved again
        world.processor = world.new_processor()
        await world.processor.load()
        await world.publish("guardian", world.item("guardian", f"{THIRD} {world.now - NOW:.0f}", link=None))
        await world.process()
        await world.processor.save()
    assert len(await world.titles("Two")) == 3
    assert await world.titles("Firsts") == [ALASKA]
    ((id, title, _, related, _),) = await show(world, "Each")
    assert (id, title) == (1, f"{ALASKA} (2 sources, 4 items)")
    assert related == [2, 3, 4]
