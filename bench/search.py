"""Measures searches by conditions and previews beside searches for the same word.

`python -m bench.search [--small] [--postgres]`

A store has 57,000 items of 160 words in 300 feeds. For a rare, a usual and a common word these run in turn: a search
for the word, searches by conditions with it, the page of a query with it, and the whole preview; besides, the first
step and the whole of a preview with any of ten common words. On SQLite the CPU time of all threads counts. A PostgreSQL
server works in other processes, so there wall time counts.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from functools import partial
from statistics import median
from typing import Any
from urllib.parse import quote

import aiohttp
import msgspec
import orjson
from sqlalchemy import text
from tests.support.idle_node import make_idle_node

from bench.api import ApiClient, serving
from bench.support.database import measure_on_database, run_from_command_line
from bench.support.workload import Workload
from headwater.credentials import hash_secret
from headwater.language import parse
from headwater.model import Ending, Known, Refresh, Verdict
from headwater.node.queries.preview import preview_queries, stream_previews
from headwater.store.content.feeds import NewFeed
from headwater.store.content.search import index_queued
from headwater.store.content.verdicts import save_refreshes
from headwater.store.opening import open_store
from headwater.store.queries.query_scripts import run_script
from headwater.store.readers.accounts import add_api_token, find_owner
from headwater.store.readers.subscriptions import add_and_subscribe
from headwater.store.store import Store
from headwater.web.app import create_app

NOW = 1_700_000_000.0
SMALL, LARGE = (10, 100, 3), (300, 190, 9)  # feeds, items of each, rounds
RANKS = {"rare": 45_000, "usual": 3_400, "common": 440}  # of words, by frequency
OTHER_RANK = 460  # of the word beside it
PAGE = 50  # items of a page
Work = Callable[[], Awaitable[Any]]


async def fill(store: Store, feeds: int, each: int) -> None:
    new = [NewFeed(f"https://{number}.example/feed", title=f"Feed {number}") for number in range(feeds)]
    added = [one.feed for one in await store.write(add_and_subscribe, new, NOW)]
    workload = Workload()
    for feed in added:
        items = tuple(
            msgspec.structs.replace(item, feed_id=feed.id, published=NOW - 60 * number, first_seen=NOW)
            for number, item in enumerate(workload.items(each, seed=feed.id))
        )
        window = tuple((item.identity, item.content_hash) for item in items)
        refresh = Refresh(feed.id, NOW, Ending.CHANGED, status=200, bytes=1000, new=each, window=each)
        known = Known(feed.id, feed.url, window=window, last_refresh=NOW, last_success=NOW)
        await save_refreshes(store, [Verdict(refresh, known, items)])
    while await store.write(index_queued, 2000):
        pass
    # A running PostgreSQL gathers statistics within minutes; without them it would read all items for every word.
    await store.write(lambda connection: connection.execute(text("ANALYZE")))


async def count_time(work: Work, clock: Callable[[], float]) -> float:
    start = clock()
    await work()
    return clock() - start


def list_requests(word: str, other: str) -> dict[str, str]:
    """Name the requests for a word, alone and beside another: the search for the word comes first."""
    conditions = {
        "condition": f'ITEM CONTAINS "{word}"',
        "title": f'TITLE CONTAINS "{word}"',
        "AND": f'ITEM CONTAINS "{word}" AND "{other}"',
        "OR": f'ITEM CONTAINS "{word}" OR "{other}"',
        "AND NOT": f'ITEM CONTAINS "{word}" AND NOT ITEM CONTAINS "{other}"',
        "phrase": f'ITEM CONTAINS "{word} {other}"',
        "prefix": f'ITEM CONTAINS "{word}*"',
    }
    pages = {name: f"/read/search?q={quote(condition)}" for name, condition in conditions.items()}
    answers = {f"API, {name}": f"/api/v1/search?q={quote(condition)}" for name, condition in conditions.items()}
    query = {"query page": f"/queries/{word}"}
    return {"word": f"/read/search?q={word}"} | pages | query | {"API, word": f"/api/v1/search?q={word}"} | answers


async def _run(small: bool, url: str, clock: Callable[[], float]) -> dict[str, float]:
    feeds, each, rounds = SMALL if small else LARGE
    async with await open_store(url) as store:
        await fill(store, feeds, each)
        words = {kind: Workload().words[rank] for kind, rank in RANKS.items()}
        script = "\n".join(f'CREATE FEED {word} AS RETURN ALL WHERE ITEM CONTAINS "{word}";' for word in words.values())
        await store.write(run_script, script, NOW)
        user = (await store.read(find_owner)).id
        await store.write(add_api_token, user, hash_secret("bench"), "bench", ["read", "write"], NOW)
        node = make_idle_node(store, clock=lambda: NOW)
        async with serving(create_app(node, clock=lambda: NOW)) as base, aiohttp.ClientSession() as session:
            client = ApiClient(session, base, "bench")
            how = "CPU" if clock is time.process_time else "by the clock"
            print(f"{feeds * each:,} items, medians of {rounds}, {how}")
            return {
                f"{kind}: {name}": ratio
                for kind, word in words.items()
                for name, ratio in (await _compare(store, client, kind, word, rounds, clock)).items()
            }


async def _compare(
    store: Store, client: ApiClient, kind: str, word: str, rounds: int, clock: Callable[[], float]
) -> dict[str, float]:
    """Ask in turn; return the ratios to the search for the word, on pages and in the API."""
    creates = list(parse(f'CREATE FEED Search AS RETURN ALL WHERE ITEM CONTAINS "{word}";').queries)
    (preview,) = await preview_queries(store, creates, 30, NOW)
    requests = list_requests(word, Workload().words[OTHER_RANK])
    answers = [orjson.loads(await client.get(requests[name])) for name in ("API, word", "API, condition")]
    if [len(answer["items"]) for answer in answers] != [min(preview.kept, PAGE)] * 2:
        raise SystemExit(f"the searches for {word} do not find the {preview.kept} items of the preview")
    works: dict[str, Work] = {name: partial(client.get, path) for name, path in requests.items()}
    ten = ", ".join(f'"{Workload().words[rank]}"' for rank in range(OTHER_RANK, OTHER_RANK + 100, 10))
    of_ten = list(parse(f"CREATE FEED Search AS RETURN ALL WHERE ITEM CONTAINS ANY ({ten});").queries)
    works["whole preview"] = lambda: preview_queries(store, creates, 30, NOW)
    works["ANY of ten, first"] = lambda: anext(stream_previews(store, of_ten, 30, NOW))
    works["ANY of ten, whole"] = lambda: preview_queries(store, of_ten, 30, NOW)
    samples = [[await count_time(work, clock) for work in works.values()] for _ in range(rounds + 1)]
    middle = dict(zip(works, map(median, zip(*samples[1:], strict=True)), strict=True))
    print(f"\n{kind} word, {preview.kept:,} items have it")
    ratios = {}
    for name, seconds in middle.items():
        ratios[name] = seconds / middle["API, word" if name.startswith("API") else "word"]
        print(f"  {name:17} {1e3 * seconds:8.1f} ms   {ratios[name]:5.2f} × the search for the word")
    return ratios


def main(small: bool = False, postgres: bool = False) -> dict[str, float]:
    """Run all comparisons; return the ratios by name."""
    return measure_on_database(_run, small, postgres)


if __name__ == "__main__":
    run_from_command_line(main, __doc__)
