"""CHANGED on both databases: the earlier version is kept, within bounds, and queries compare with it."""

from __future__ import annotations

from query_world import QueryWorld

from headwater.language import parse
from headwater.node.queries.preview import preview_queries
from headwater.store.content.items import MAX_VERSIONS, find_earlier_versions

SCRIPT = """
CREATE FEED {0}Titles AS RETURN ALL WHERE CHANGED(TITLE);
CREATE FEED {0}Texts AS RETURN ALL WHERE CHANGED(CONTENT) BY > 20 %;
"""


async def change(world: QueryWorld, identity: str, number: int, title: str, content: str) -> None:
    made = world.item("guardian", identity, title=title, content=content, content_hash=str(number))
    await world.publish("guardian", updated=[made])
    await world.process()


async def publish_changes(world: QueryWorld) -> None:
    for name in ("Head", "Body", "Same"):
        await world.publish("guardian", world.item("guardian", name, content="one two three four five six"))
    await world.process()
    await change(world, "Head", 1, "Headline corrected", "one two three four five six")
    await change(world, "Head", 2, "Headline corrected", "one two three four five seven")  # 2 of 12 words
    await change(world, "Body", 1, "Body", "all of this text is new")
    await change(world, "Same", 1, "Same", "one  two three <b>four</b> five six")


async def test_live_filled_and_previewed_queries_find_the_same_changes(world: QueryWorld) -> None:
    await world.run(SCRIPT.format("Live"))
    await world.process()
    await publish_changes(world)
    assert await world.titles("LiveTitles") == ["Headline corrected"]
    assert await world.titles("LiveTexts") == ["Body"]
    assert world.fresh() == ["Headline corrected", "Body"]
    await world.run(SCRIPT.format("Past"))
    await world.process()
    for name in ("Titles", "Texts"):
        assert await world.titles(f"Past{name}") == await world.titles(f"Live{name}")
    for create in parse(SCRIPT.format("New")).queries:
        (preview,) = await preview_queries(world.store, [create], 1.0, world.now)
        expected = await world.titles(create.name.name.replace("New", "Live"))
        assert [one.title for one in preview.latest] == expected


async def test_only_the_latest_versions_are_kept(world: QueryWorld) -> None:
    await world.publish("guardian", world.item("guardian", "Often", content="0"))
    for number in range(1, MAX_VERSIONS + 4):
        await change(world, "Often", number, f"Often {number}", "text")
    (versions,) = (await world.store.read(find_earlier_versions, [1])).values()
    assert len(versions) == MAX_VERSIONS
    assert versions[-1].item.title == f"Often {MAX_VERSIONS + 2}"


async def test_an_item_that_matches_since_its_change_arrived_with_the_change(world: QueryWorld) -> None:
    query = 'CREATE FEED {0} AS RETURN ALL WHERE CHANGED(TITLE) OR TITLE CONTAINS "retracted" ORDER BY ARRIVAL;'
    await world.run(query.format("Live"))
    await world.process()
    await world.publish("guardian", world.item("guardian", "First study"))
    await world.publish("guardian", world.item("guardian", "Second study retracted"))
    await world.process()
    await change(world, "First study", 1, "First study retracted", "text")
    assert await world.titles("Live") == ["First study retracted", "Second study retracted"]
    await world.run(query.format("Past"))
    await world.process()
    assert await world.titles("Past") == await world.titles("Live")
