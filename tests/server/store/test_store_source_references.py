"""Renaming, moving, merging or removing a source keeps the queries that name it valid."""

from __future__ import annotations

import pytest

from headwater.errors import InputError, QueryError
from headwater.store.content.feeds import change_feed, find_feed, merge_feeds
from headwater.store.maintenance.trash import move_feed_to_trash, move_tag_to_trash
from headwater.store.maintenance.trash_entries import Remover
from headwater.store.queries.query_feeds import find_query_feed, list_all_query_feeds
from headwater.store.queries.query_scripts import run_script
from headwater.store.queries.source_references import (
    count_broken_queries,
    list_broken_queries,
    list_queries_with_empty_tags,
    note_missing_sources,
)
from headwater.store.readers.accounts import find_owner
from headwater.store.readers.subscriptions import change_tags, rename_subscription_tag
from headwater.store.schema.feed_tables import feed
from headwater.store.store import Store
from support.store_samples import NOW, one_feed

URL = "https://example.org/feed"
SCRIPT = f"""
CREATE FEED Named AS RETURN guardian[TITLE CONTAINS "guardian"] -- guardian
WHERE SOURCE = Guardian;
CREATE FEED Addressed AS RETURN "{URL}" WHERE LINK = "{URL}";
CREATE FEED Above AS RETURN Named;
CREATE FEED Other AS RETURN ALL WHERE TITLE CONTAINS "guardian";
"""


async def make_world(store: Store) -> int:
    source = await one_feed(store, URL, name="guardian")
    await store.write(run_script, SCRIPT, NOW)
    return source.id


async def text_of(store: Store, name: str) -> str:
    return (await store.read(find_query_feed, name)).text


async def test_a_new_name_is_followed_in_the_queries_that_use_it(store: Store) -> None:
    id = await make_world(store)
    await store.write(change_feed, id, name="TheGuardian")
    assert await text_of(store, "Named") == (
        'CREATE FEED Named AS RETURN TheGuardian[TITLE CONTAINS "guardian"] -- guardian\nWHERE SOURCE = TheGuardian'
    )
    assert "guardian" in await text_of(store, "Other")
    assert await store.write(note_missing_sources) == 0


@pytest.mark.parametrize("name", [None, "The Guardian", "where", "1st"])
async def test_a_name_that_queries_cannot_write_is_refused_while_they_use_it(store: Store, name: str | None) -> None:
    id = await make_world(store)
    with pytest.raises(InputError, match="Named reads this feed as guardian"):
        await store.write(change_feed, id, name=name)
    assert (await store.read(find_feed, id)).name == "guardian"


async def test_a_new_address_is_followed_where_it_names_a_source(store: Store) -> None:
    id = await make_world(store)
    await store.write(change_feed, id, url="https://new.example/rss")
    text = await text_of(store, "Addressed")
    assert text == f'CREATE FEED Addressed AS RETURN "https://new.example/rss" WHERE LINK = "{URL}"'


async def test_removing_a_source_shows_who_uses_it_and_asks_for_cascade(store: Store) -> None:
    id = await make_world(store)
    with pytest.raises(InputError, match=r"source of the query feeds Named and Addressed\. CASCADE removes them too"):
        await store.write(move_feed_to_trash, id, by=Remover(None, NOW))
    await store.write(move_feed_to_trash, id, by=Remover(None, NOW), cascade=True)
    assert [query.name for query in await store.read(list_all_query_feeds)] == ["Other"]


async def test_merging_feeds_keeps_the_name_for_the_queries(store: Store) -> None:
    id = await make_world(store)
    into = await one_feed(store, "https://new.example/rss")
    await store.write(merge_feeds, into.id, id)
    assert (await store.read(find_feed, into.id)).name == "guardian"
    assert "https://new.example/rss" in await text_of(store, "Addressed")
    assert await store.write(note_missing_sources) == 0


async def test_a_source_and_a_query_feed_never_share_a_name(store: Store) -> None:
    id = await make_world(store)
    with pytest.raises(InputError, match="belongs to the query feed Named"):
        await store.write(change_feed, id, name="NAMED")
    with pytest.raises(InputError, match="belongs to the query feed Other"):
        await one_feed(store, "https://new.example/rss", name="other")
    with pytest.raises(QueryError, match="guardian is a registered source"):
        await store.write(run_script, "CREATE FEED GUARDIAN AS RETURN ALL", NOW)


async def test_a_query_whose_source_is_missing_says_so_until_it_is_back(store: Store) -> None:
    id = await make_world(store)
    await store.write(lambda connection: connection.execute(feed.update().values(name=None)))  # no command does this
    assert await store.write(note_missing_sources) == 1
    (broken,) = await store.read(list_broken_queries)
    assert broken.name == "Named"
    assert broken.problem.startswith("Missing source: guardian, Guardian.")
    await store.write(change_feed, id, name="guardian")
    assert await store.write(note_missing_sources) == 0
    assert await store.read(count_broken_queries) == 0


async def test_a_query_over_a_tag_that_no_feed_has_says_so(store: Store) -> None:
    tagged = await one_feed(store, URL, tags=("Volcano",))
    script = 'CREATE FEED A AS RETURN TAG "volcano" | TAG "lava"; CREATE FEED B AS RETURN TAG "VOLCANO";'
    await store.write(run_script, script, NOW)
    only = [("A", 'No feed has the tag "lava" now; the items of one that gets it will appear.')]
    assert [(one.name, one.problem) for one in await store.read(list_queries_with_empty_tags)] == only
    await store.write(move_feed_to_trash, tagged.id, by=Remover(None, NOW))
    said = [one.problem for one in await store.read(list_queries_with_empty_tags)]
    assert [one.split(" now;")[0] for one in said] == [
        'No feed has the tag "volcano" or "lava"',
        'No feed has the tag "VOLCANO"',
    ]
    other = await one_feed(store, "https://other.example/feed")
    await store.write(change_feed, other.id, tags=("volcano", "lava"))
    assert await store.read(list_queries_with_empty_tags) == []


async def test_a_title_names_a_feed_and_is_written_as_its_address(store: Store) -> None:
    id = await make_world(store)
    await store.write(change_feed, id, title="The  Guardian")
    text = 'CREATE FEED Titled AS RETURN FEED "the guardian" WHERE SOURCE = FEED "The Guardian"'
    await store.write(run_script, text, NOW)
    assert await text_of(store, "Titled") == f'CREATE FEED Titled AS RETURN "{URL}" WHERE SOURCE = "{URL}"'
    with pytest.raises(QueryError, match=r"did you mean FEED \"The  Guardian\""):
        await store.write(run_script, 'CREATE FEED A AS RETURN FEED "The Gardian"', NOW)
    other = await one_feed(store, "https://new.example/rss")
    await store.write(change_feed, other.id, title="The Guardian")
    with pytest.raises(QueryError, match=r"2 feeds have the title"):
        await store.write(run_script, 'CREATE FEED A AS RETURN FEED "The Guardian"', NOW)


async def test_a_new_name_of_a_tag_is_followed_in_the_queries_that_read_it(store: Store) -> None:
    source = await one_feed(store, URL, name="guardian")
    owner = (await store.read(find_owner)).id
    await store.write(change_tags, owner, feed_id=source.id, add=["News"])
    await store.write(run_script, 'CREATE FEED Tagged AS RETURN TAG "news" WHERE CATEGORY = "news";', NOW)
    await store.write(rename_subscription_tag, owner, "News", 'The "press"')
    assert await text_of(store, "Tagged") == (
        'CREATE FEED Tagged AS RETURN TAG "The \\"press\\"" WHERE CATEGORY = "news"'
    )


async def test_a_tag_is_not_removed_while_queries_read_it(store: Store) -> None:
    source = await one_feed(store, URL, name="guardian")
    owner = (await store.read(find_owner)).id
    await store.write(change_tags, owner, feed_id=source.id, add=["News", "Other"])
    await store.write(run_script, 'CREATE FEED Tagged AS RETURN TAG "news" | TAG "elsewhere";', NOW)
    by = Remover(owner, NOW)
    with pytest.raises(InputError, match=r"The tag “News” is a source of the query feed Tagged\. Change or remove"):
        await store.write(move_tag_to_trash, owner, "News", by=by)
    assert (await store.read(find_feed, source.id)).tags == ("News", "Other")
    await store.write(move_tag_to_trash, owner, "Other", by=by)
    assert (await store.read(find_feed, source.id)).tags == ("News",)
