"""A store that several people have used: feeds, tags, marks, stars, tokens, and query feeds with their hits."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, select

from headwater.node.queries.processor import QueryProcessor
from headwater.store.content.articles import want_articles
from headwater.store.content.feeds import NewFeed, change_feed
from headwater.store.content.items import list_items
from headwater.store.content.verdicts import save_refreshes
from headwater.store.maintenance.trash import (
    move_api_token_to_trash,
    move_feed_to_trash,
    move_query_subscription_to_trash,
    move_subscription_to_trash,
    move_tag_to_trash,
    move_user_to_trash,
)
from headwater.store.maintenance.trash_entries import Remover
from headwater.store.publishing.private_feeds import add_feed_token, revoke_feed_tokens, set_visibility
from headwater.store.queries.query_feeds import find_query_feed
from headwater.store.queries.query_scripts import drop_query_feed, run_script
from headwater.store.readers.accounts import ApiToken, User, add_api_token, add_user, claim_ownership
from headwater.store.readers.marks import mark_items, mark_stream_read
from headwater.store.readers.subscriptions import (
    add_and_subscribe,
    change_subscription_title,
    change_tags,
    subscribe_to_feed,
    subscribe_to_query_feed,
)
from headwater.store.schema.all_tables import metadata
from headwater.store.schema.feed_tables import feed_state
from headwater.store.store import Store
from support.store_samples import NOW, a_verdict, an_item

# Counters, index and outbox queues, which are filled again, sessions, and the removals themselves.
NOT_COMPARED = {"saved_state", "index_queue", "outbox", "session", "trash"}
ANEW = ("position", "active", "active_position", "revision")  # columns that restoring a query feed changes
SECRET, PHONE = b"h" * 32, b"p" * 32


@dataclass
class UsedStore:
    store: Store
    owner: User
    ada: User
    bob: User
    feeds: list[int]
    token: ApiToken


async def make_used_store(store: Store, seed: int = 1) -> UsedStore:
    dice = random.Random(seed)
    owner = await store.write(claim_ownership, "owner", "hash of the owner's password")
    assert owner is not None
    ada = await store.write(add_user, "ada", "hash of ada's password", NOW)
    bob = await store.write(add_user, "bob", None, NOW)
    new = [NewFeed("https://named.example/", name="named", tags=("news",), weight=3.0), NewFeed("https://b.example/")]
    feeds = [one.feed for one in await store.write(add_and_subscribe, new, NOW)]
    (only_ada,) = await store.write(
        add_and_subscribe, [NewFeed("https://ada.example/", tags=("own",))], NOW, subscriber=ada.id
    )
    feeds.append(only_ada.feed)
    await store.write(change_feed, only_ada.feed.id, weight=2.5)
    await store.write(subscribe_to_feed, ada.id, feeds[0].id, NOW, tags=("mine", "own"))
    await store.write(subscribe_to_feed, bob.id, feeds[0].id, NOW)
    await store.write(
        run_script,
        'CREATE FEED Lava AS RETURN ALL WHERE TITLE CONTAINS "lava" KEEP LAST 2 ITEMS;'
        'CREATE FEED Red AS RETURN Lava WHERE TITLE CONTAINS "red" DELIVER TO EMAIL "a@b.example";'
        'CREATE FEED Far AS RETURN "https://far.example/" WHERE TITLE CONTAINS "x"',
        NOW,
    )
    lava = await store.read(find_query_feed, "Lava")
    await store.write(subscribe_to_query_feed, ada.id, lava.id, NOW)
    await store.write(change_tags, ada.id, query_id=lava.id, add=("own",))
    await store.write(want_articles, "query", lava.id, True)
    for batch in range(3):
        for feed in feeds:
            words = [dice.choice(("lava", "red lava", "ash")) for _ in range(dice.randrange(1, 5))]
            items = [
                an_item(feed.id, f"{batch}-{n}", title=f"{word} {batch} {n}", published=NOW + dice.randrange(90))
                for n, word in enumerate(words)
            ]
            await save_refreshes(store, [a_verdict(feed, *items, at=NOW + 60 * batch + feed.id)])
    processor = QueryProcessor(store, clock=lambda: NOW + 200)
    await processor.load()
    while await processor.step():
        pass
    every = [one.id or 0 for one in await store.read(list_items, limit=1000)]
    for user in (owner, ada, bob):
        deeds = {id: dice.randrange(4) for id in every}
        for deed, (read, starred) in enumerate([(True, None), (False, None), (None, True)]):
            ids = [id for id in every if deeds[id] == deed]
            await store.write(mark_items, user.id, ids, NOW, read=read, starred=starred)
    await store.write(change_subscription_title, ada.id, "Ada's own title", feed_id=feeds[0].id)
    await store.write(mark_stream_read, bob.id, now=NOW + 300)
    token = await store.write(add_api_token, ada.id, SECRET, "laptop", ["read", "write"], NOW)
    await store.write(add_api_token, bob.id, PHONE, "phone", ["read"], NOW)
    await store.write(set_visibility, "/feeds/Lava", "shared")
    await store.write(add_feed_token, "/feeds/Lava", b"t" * 32, "reader", NOW)
    endless = feed_state.update().where(feed_state.c.feed_id == feeds[0].id).values(next_refresh=float("inf"))
    await store.write(lambda connection: connection.execute(endless))
    return UsedStore(store, owner, ada, bob, [feed.id for feed in feeds], token)


async def everything(store: Store) -> dict[str, list[Any]]:
    """Return every row of every table, in order, without the columns and tables that may change."""
    return await store.read(_everything)


def _everything(connection: Connection) -> dict[str, list[Any]]:
    found = {}
    for table in metadata.sorted_tables:
        if table.name in NOT_COMPARED:
            continue
        columns = [column for column in table.columns if table.name != "query_feed" or column.name not in ANEW]
        rows = [tuple(map(_plain, row)) for row in connection.execute(select(*columns))]
        found[table.name] = sorted(rows, key=repr)
    return found


def _plain(value: Any) -> Any:
    return bytes(value) if isinstance(value, memoryview) else value


Removing = Callable[[UsedStore], Awaitable[int]]


async def _feed(world: UsedStore) -> int:
    return await world.store.write(move_feed_to_trash, world.feeds[0], by=Remover(world.owner.id, NOW + 400))


async def _subscription(world: UsedStore) -> int:
    return await world.store.write(
        move_subscription_to_trash, world.ada.id, world.feeds[0], by=Remover(world.ada.id, NOW + 400)
    )


async def _last_subscription(world: UsedStore) -> int:
    return await world.store.write(
        move_subscription_to_trash, world.ada.id, world.feeds[2], by=Remover(world.ada.id, NOW + 400)
    )


async def _query_subscription(world: UsedStore) -> int:
    lava = await world.store.read(find_query_feed, "Lava")
    return await world.store.write(
        move_query_subscription_to_trash, world.ada.id, lava.id, by=Remover(world.ada.id, NOW + 400)
    )


async def _query(world: UsedStore) -> int:
    return (await world.store.write(drop_query_feed, "Far", by=Remover(world.owner.id, NOW + 400))).undo


async def _queries(world: UsedStore) -> int:
    return (await world.store.write(drop_query_feed, "Lava", cascade=True, by=Remover(world.owner.id, NOW + 400))).undo


async def _by_script(world: UsedStore) -> int:
    done = await world.store.write(run_script, "DROP FEED Red; DROP FEED Lava", NOW + 400, subscriber=world.owner.id)
    (undo,) = done.undo
    return undo


async def _user(world: UsedStore) -> int:
    return await world.store.write(move_user_to_trash, world.ada.id, by=Remover(world.owner.id, NOW + 400))


async def _token(world: UsedStore) -> int:
    return await world.store.write(
        move_api_token_to_trash, world.ada.id, world.token.id, by=Remover(world.ada.id, NOW + 400)
    )


async def _tag(world: UsedStore) -> int:
    return await world.store.write(move_tag_to_trash, world.ada.id, "own", by=Remover(world.ada.id, NOW + 400))


async def _tag_of_owner(world: UsedStore) -> int:
    return await world.store.write(move_tag_to_trash, world.owner.id, "news", by=Remover(world.owner.id, NOW + 400))


async def _published_tokens(world: UsedStore) -> int:
    _, undo = await world.store.write(revoke_feed_tokens, "/feeds/lava", by=Remover(world.owner.id, NOW + 400))
    return undo


REMOVALS: dict[str, Removing] = {
    "a feed": _feed,
    "a subscription": _subscription,
    "the last subscription of a feed": _last_subscription,
    "a subscription to a query feed": _query_subscription,
    "a query feed": _query,
    "a query feed with its readers": _queries,
    "query feeds by a script": _by_script,
    "an account": _user,
    "a token": _token,
    "a tag": _tag,
    "a tag of the owner": _tag_of_owner,
    "tokens of a private feed": _published_tokens,
}
