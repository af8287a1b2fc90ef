"""A query gives the same items live, filled from the past, previewed, evaluated on an export, and when verified."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random

import msgspec
import pytest
from query_world import QueryWorld

from headwater.cli.console.item_table import read_item_table
from headwater.language import parse
from headwater.node.queries.preview import preview_queries
from headwater.node.queries.verification import verify_query
from headwater.publish.data_export import export_rows
from headwater.query.dry_run import DryRun
from headwater.store.content.feeds import change_feed
from headwater.store.content.items import DataSlice
from headwater.store.queries.document_hits import list_document_hits
from headwater.store.queries.hits import hit as hit_table
from headwater.store.queries.query_feeds import find_query_feed, load_catalogue
from support import random_streams

NAMES = {"news": "guardian", "blog": "iris", "lab": "iris", '"science"': '"science"', '"press"': '"news"'}
ENDS = ("", "", " KEEP LAST 4 ITEMS", " KEEP LAST 4 ITEMS ORDER BY SOURCE", " KEEP LAST 3 ITEMS ORDER BY TITLE ASC")


def write_script(seed: int) -> dict[str, str]:
    """Queries over the sources of the world, the later ones reading the earlier ones, as templates with a prefix."""
    random, made = Random(seed), dict[str, str]()
    while len(made) < 4:
        text = random_streams.query(random, [f"{{}}{name}" for name in made])
        for title, address in random_streams.TITLES:
            text = text.replace(f'FEED "{title}"', f'"{address}"')
        for address in (random_streams.LONE.url, *dict(random_streams.TITLES).values()):
            text = text.replace(address, "https://guardian.example/rss")
        for theirs, ours in NAMES.items():
            text = text.replace(f" {theirs}", f" {ours}").replace(f"({theirs}", f"({ours}")
        text = text.replace("{source}", "{{source}}").replace("{title}", "{{title}}")
        text += " KEEP LAST 200 ITEMS" if random.random() < 0.5 else random.choice(ENDS)
        made[f"q{len(made)}"] = text.replace("[0-9]{2}", "[0-9][0-9]")
    return {name: f"CREATE FEED {{}}{name} AS {text};" for name, text in made.items()}


async def publish_items(world: QueryWorld, seed: int, count: int = 40) -> None:
    random = Random(seed)
    for number in range(count):
        made = random_streams.item(random, number, world.now + 60)
        name = random.choice(["guardian", "iris"])
        item = msgspec.structs.replace(made, feed_id=world.feeds[name].id, identity=f"{number}", id=None)
        await world.publish(name, item)


async def list_shown(world: QueryWorld, name: str) -> list[tuple[int | None, str | None]]:
    query = await world.store.read(find_query_feed, name)
    assert query.problem is None
    hits = await world.store.read(list_document_hits, query, world.now)
    return [(hit.item.id, hit.item.title) for hit in hits]


@pytest.mark.parametrize("seed", range(6))
async def test_a_query_means_the_same_live_in_the_past_in_previews_and_on_an_export(
    world: QueryWorld, seed: int, tmp_path: Path
) -> None:
    store = world.store
    queries = write_script(seed)
    live, late = ("".join(text.format(*[prefix] * 20) for text in queries.values()) for prefix in ("A", "B"))
    await world.run(live)
    await world.process()
    await publish_items(world, seed)
    await world.process()

    creates = list(parse(late, await store.read(load_catalogue)).queries)
    previews = await preview_queries(store, creates, 3_000.0, world.now + 1, latest=1_000)
    file = Path(tmp_path, "items.jsonl")
    await export_rows(store, "items", DataSlice(), str(file), "jsonl")
    table = read_item_table(await asyncio.to_thread(file.read_bytes), file.name)
    run = DryRun(parse(live, table.catalogue), len(table.rows))
    for row in table.rows:
        run.add_arrival(row.item, row.origin, row.arrived)
    await world.run(late)
    await world.process()

    for name, preview in zip(queries, previews, strict=True):
        shown = await list_shown(world, f"A{name}")
        assert await list_shown(world, f"B{name}") == shown, queries[name]
        evaluated = run.select_items(f"A{name}")
        assert [(one.analysed.item.id, one.analysed.item.title) for one in evaluated] == shown, queries[name]
        kept = [(item.id, item.title) for item in preview.latest]
        assert set(shown) <= set(kept), queries[name]
        if "KEEP LAST 200" in queries[name]:
            assert set(shown) == set(kept), queries[name]
        for one in ("A", "B"):
            found = await verify_query(store, f"{one}{name}", world.now)
            assert (found.published, found.differences) == (len(shown), ()), queries[name]


async def test_verify_names_what_was_not_published_and_follows_changed_items(world: QueryWorld) -> None:
    store = world.store
    await world.run('CREATE FEED Ash AS RETURN ALL WHERE TITLE CONTAINS "ash";')
    await world.process()
    await world.publish("iris", "ash one", "ash two", "rain")
    await world.process()
    changed = world.item("iris", "rain", title="ash and rain", content_hash="changed")
    await world.publish("iris", updated=[changed])
    await world.process()
    found = await verify_query(store, "ash", world.now)
    assert (found.published, found.differences) == (3, ())

    removed = (await list_shown(world, "Ash"))[0]
    await store.write(
        lambda connection: connection.execute(hit_table.delete().where(hit_table.c.item_id == removed[0]))
    )
    (difference,) = (await verify_query(store, "ash", world.now)).differences
    assert (difference.kind, difference.item, difference.title) == ("missing", *removed)


async def test_verify_accepts_the_name_that_a_feed_had_when_set_wrote_it(world: QueryWorld) -> None:
    script = 'CREATE FEED Named AS RETURN ALL SET TITLE = "[{source}] {title} ({source})";'
    await world.run(script)
    await world.process()
    await world.publish("iris", "ash one", "rain")
    await world.process()
    await world.store.write(change_feed, world.feeds["iris"].id, name="Iris_2")
    await world.process()
    await world.publish("iris", "ash two")
    await world.process()
    found = await verify_query(world.store, "named", world.now)
    assert (found.published, found.differences) == (3, ())

    changed = hit_table.update().values(changes='{"title": "[iris] ash one (guardian)"}')
    first = (await list_shown(world, "Named"))[-1][0]
    await world.store.write(lambda connection: connection.execute(changed.where(hit_table.c.item_id == first)))
    (difference,) = (await verify_query(world.store, "named", world.now)).differences
    assert (difference.kind, difference.item) == ("changed", first)


async def test_a_join_compares_any_part_of_an_item_with_a_title(world: QueryWorld) -> None:
    await world.run("CREATE FEED Same AS RETURN iris JOIN guardian AS $g WITHIN LAST 1 HOUR ON ITEM = $g.TITLE;")
    await world.process()
    await world.publish("guardian", "Lava by night")
    await world.publish("iris", world.item("iris", "1", title="Other", categories=("lava by night",)))
    await world.publish("iris", world.item("iris", "2", title="Lava"))
    await world.process()
    assert await world.titles("Same") == ["Other"]


def test_a_date_more_than_an_hour_ahead_counts_from_the_arrival_in_a_table_as_on_the_server() -> None:
    line = '{{"id": {}, "feed": "a", "title": "t{}", "published": {}, "arrived": 1700000000}}\n'
    text = line.format(1, 1, 1_700_003_000) + line.format(2, 2, 1_700_004_000)
    first, second = (row.item for row in read_item_table(text.encode(), "t").rows)
    assert (first.published, first.dated) == (1_700_003_000, True)
    assert (second.published, second.dated) == (1_700_000_000, False)


def test_an_item_of_an_export_that_was_changed_has_been_updated() -> None:
    lines = ('{"id": 1, "feed": "a", "version": 2, "arrived": 1700000000}', '{"id": 2, "feed": "a"}')
    table = read_item_table("\n".join(lines).encode(), "t")
    run = DryRun(parse("CREATE FEED u AS RETURN ALL WHERE HAS UPDATED;", table.catalogue), len(table.rows))
    for row in table.rows:
        run.add_arrival(row.item, row.origin, row.arrived)
    assert [one.analysed.item.id for one in run.select_items("u")] == [1]
