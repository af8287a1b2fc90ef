"""A store in which several people have lived: feeds, tags, marks, stars, tokens, query feeds with what they kept."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, select

from headwater.node.queries.processor import QueryProcessor
from headwater.store.people import ApiToken, Remover, User
from headwater.store.schema.all_tables import metadata
from headwater.store.store import Store
from headwater.store.values import NewFeed
from support.store_samples import NOW, a_verdict, an_item

# Counters, what is to be indexed again, what is read again by consumers, and the removals themselves.
NOT_COMPARED = {"state", "unindexed", "outbox", "session", "removal", "removed"}
ANEW = ("position", "active", "active_position", "revision")  # of a query feed that is taken up once more
SECRET, PHONE = b"h" * 32, b"p" * 32


@dataclass
class World:
    store: Store
    owner: User
    ada: User
    bob: User
    feeds: list[int]
    token: ApiToken


async def lived_world(store: Store, seed: int = 1) -> World:
    dice = random.Random(seed)
    owner = await store.accounts.claim("owner", "hash of the owner's password")
    assert owner is not None
    ada = await store.accounts.add("ada", "hash of ada's password", NOW)
    bob = await store.accounts.add("bob", None, NOW)
    new = [NewFeed("https://named.example/", name="named", tags=("news",), weight=3.0), NewFeed("https://b.example/")]
    feeds = [one.feed for one in await store.add_feeds(new, NOW)]
    (only_ada,) = await store.add_feeds([NewFeed("https://ada.example/", tags=("own",))], NOW, subscriber=ada.id)
    feeds.append(only_ada.feed)
    await store.update_feed(only_ada.feed.id, weight=2.5)
    await store.reading.subscribe(ada.id, feeds[0].id, NOW, tags=("mine", "own"))
    await store.reading.subscribe(bob.id, feeds[0].id, NOW)
    await store.queries.execute(
        'CREATE FEED Lava AS RETURN ALL WHERE TITLE CONTAINS "lava" KEEP LAST 2 ITEMS;'
        'CREATE FEED Red AS RETURN Lava WHERE TITLE CONTAINS "red" DELIVER TO EMAIL "a@b.example";'
        'CREATE FEED Far AS RETURN "https://far.example/" WHERE TITLE CONTAINS "x"',
        NOW,
    )
    lava = await store.queries.find("Lava")
    await store.reading.subscribe_query(ada.id, lava.id, NOW)
    await store.reading.retag(ada.id, query_id=lava.id, add=("own",))
    await store.articles.wish("query", lava.id, True)
    for batch in range(3):
        for feed in feeds:
            words = [dice.choice(("lava", "red lava", "ash")) for _ in range(dice.randrange(1, 5))]
            items = [
                an_item(feed.id, f"{batch}-{n}", title=f"{word} {batch} {n}", published=NOW + dice.randrange(90))
                for n, word in enumerate(words)
            ]
            await store.save([a_verdict(feed, *items, at=NOW + 60 * batch + feed.id)])
    processor = QueryProcessor(store, clock=lambda: NOW + 200)
    await processor.load()
    while await processor.step():
        pass
    every = [one.id or 0 for one in await store.items(limit=1000)]
    for user in (owner, ada, bob):
        deeds = {id: dice.randrange(4) for id in every}
        for deed, (read, starred) in enumerate([(True, None), (False, None), (None, True)]):
            ids = [id for id in every if deeds[id] == deed]
            await store.reading.mark(user.id, ids, NOW, read=read, starred=starred)
    await store.reading.retitle(ada.id, "Ada's own title", feed_id=feeds[0].id)
    await store.reading.mark_all_read(bob.id, now=NOW + 300)
    token = await store.accounts.add_token(ada.id, SECRET, "laptop", ["read", "write"], NOW)
    await store.accounts.add_token(bob.id, PHONE, "phone", ["read"], NOW)
    await store.publishing.set_private("/feeds/Lava", True)
    await store.publishing.add_token("/feeds/Lava", b"t" * 32, "reader", NOW)
    return World(store, owner, ada, bob, [feed.id for feed in feeds], token)


async def everything(store: Store) -> dict[str, list[Any]]:
    """Every row of every table, in order, but for what is not meant to be as it was."""
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


Removing = Callable[[World], Awaitable[int]]


async def _feed(world: World) -> int:
    return await world.store.remove_feed(world.feeds[0], by=Remover(world.owner.id, NOW + 400))


async def _merged(world: World) -> int:
    _, undo = await world.store.pages.merge(world.feeds[1], world.feeds[0], by=Remover(world.owner.id, NOW + 400))
    return undo


async def _subscription(world: World) -> int:
    return await world.store.reading.unsubscribe(world.ada.id, world.feeds[0], by=Remover(world.ada.id, NOW + 400))


async def _last_subscription(world: World) -> int:
    return await world.store.reading.unsubscribe(world.ada.id, world.feeds[2], by=Remover(world.ada.id, NOW + 400))


async def _query_subscription(world: World) -> int:
    lava = await world.store.queries.find("Lava")
    return await world.store.reading.unsubscribe_query(world.ada.id, lava.id, by=Remover(world.ada.id, NOW + 400))


async def _query(world: World) -> int:
    return (await world.store.queries.drop("Far", by=Remover(world.owner.id, NOW + 400))).undo


async def _queries(world: World) -> int:
    return (await world.store.queries.drop("Lava", cascade=True, by=Remover(world.owner.id, NOW + 400))).undo


async def _by_script(world: World) -> int:
    done = await world.store.queries.execute("DROP FEED Red; DROP FEED Lava", NOW + 400, subscriber=world.owner.id)
    (undo,) = done.undo
    return undo


async def _user(world: World) -> int:
    return await world.store.accounts.remove(world.ada.id, by=Remover(world.owner.id, NOW + 400))


async def _token(world: World) -> int:
    return await world.store.accounts.revoke_token(world.ada.id, world.token.id, by=Remover(world.ada.id, NOW + 400))


async def _tag(world: World) -> int:
    return await world.store.reading.remove_tag(world.ada.id, "own", by=Remover(world.ada.id, NOW + 400))


async def _tag_of_owner(world: World) -> int:
    return await world.store.reading.remove_tag(world.owner.id, "news", by=Remover(world.owner.id, NOW + 400))


async def _published_tokens(world: World) -> int:
    _, undo = await world.store.publishing.revoke("/feeds/lava", by=Remover(world.owner.id, NOW + 400))
    return undo


REMOVALS: dict[str, Removing] = {
    "a feed": _feed,
    "a feed that was merged into another": _merged,
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
