"""Measures matching beside tokenising the same item, at 1,000 to 1,000,000 standing queries.

`python -m bench.match [--small] [--queries N …]`. The ratio is the time of `Engine.match`, which tokenises the item
itself, over the time of tokenising alone, on the same items in turn; process time, the fastest of several rounds;
without compiled code, and with it if numba is installed. The peers are brute force (every query on every item) and
SQLite's FTS5 in reverse (a table of one row, the item, and one full-text query per standing query).
"""

from __future__ import annotations

import argparse
import gc
import sqlite3
import statistics
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from random import Random
from time import perf_counter, process_time
from typing import Any

from msgspec.structs import replace

from bench.support.workload import NEWS, Workload, format_condition
from headwater.language import parse
from headwater.language.ast import CreateFeed, Field
from headwater.language.normal_form import list_sources
from headwater.model import Item
from headwater.numba_support import NUMBA_AVAILABLE
from headwater.query import Engine
from headwater.query.index.matchers import compile_matcher
from headwater.query.items.analysed_item import AnalysedItem
from headwater.query.items.similarity import WordFrequencies

CHUNK = 10
TRIED = 2_000  # adds and drops to time


def memory() -> int:
    """Return the bytes of resident memory."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


def tokenise(item: Item) -> None:
    set(AnalysedItem(item, NEWS).joined_words(Field.ITEM).split())


def ratio(
    engine: Engine, items: list[Item], rounds: int, act: Callable[[Engine, Item], object], label: str = ""
) -> tuple[float, float]:
    """Return seconds per item of tokenising alone and of the action, each the fastest of the rounds of every chunk.

    The engine does not match an item again that it knows, so another measurement of the same items needs a `label`.
    """
    alone, whole = 0.0, 0.0
    for start in range(0, len(items), CHUNK):
        cut, done = [], []
        for number in range(rounds):
            fresh = [
                replace(item, identity=f"{item.identity}-{number}{label}") for item in items[start : start + CHUNK]
            ]
            began = process_time()
            for item in fresh:
                tokenise(item)
            between = process_time()
            for item in fresh:
                act(engine, item)
            cut.append(between - began)
            done.append(process_time() - between)
        alone += min(cut)
        whole += min(done)
    return alone / len(items), whole / len(items)


def _match(engine: Engine, item: Item) -> object:
    return engine.match(item, NEWS)


def _match_and_read(engine: Engine, item: Item) -> object:
    return list(engine.match(item, NEWS))


def measure(size: int, workload: Workload, small: bool) -> None:
    items = workload.items(40 if small else 200)
    warm = workload.items(300, seed=2)
    engine = Engine(remember=1_000)
    engine.use_compiled(False)
    for item in warm:
        engine.match(item, NEWS)  # word frequencies are known before the queries, as after a restart
    before = memory()
    started = perf_counter()
    for query in workload.queries(size):
        engine.add_query(query)
    loading = perf_counter() - started
    used = memory() - before
    for item in warm:
        engine.match(replace(item, identity=f"again {item.identity}"), NEWS)
    rounds = 3 if small else 5
    alone, whole = ratio(engine, items, rounds, _match)
    if NUMBA_AVAILABLE:
        engine.use_compiled(True)
        engine.match(warm[0], NEWS)  # compiles
        alone_again, compiled = ratio(engine, items, rounds, _match, " compiled")
    _, read = ratio(engine, workload.items(len(items), seed=3), rounds, _match_and_read)
    hits = [len(engine.match(item, NEWS)) for item in workload.items(50, seed=4)]
    tried = statistics.mean(engine.count_candidates(item, NEWS) for item in workload.items(50, seed=5))
    print(f"\n{size:,} queries, {statistics.mean(hits):.0f} hits an item")
    print(f"  cutting into words      {alone * 1e6:9.0f} µs an item")
    print(f"  and matching            {whole * 1e6:9.0f} µs an item   ratio {whole / alone:6.2f}")
    if NUMBA_AVAILABLE:
        print(f"  and matching, compiled  {compiled * 1e6:9.0f} µs an item   ratio {compiled / alone_again:6.2f}")
    print(f"  and reading every hit   {read * 1e6:9.0f} µs an item   ratio {read / alone:6.2f}")
    print(f"  candidates per hit      {tried / max(1, statistics.mean(hits)):9.2f}")
    print(f"  memory                  {used / size:9.0f} bytes a query ({used / 2**20:.0f} MiB)")
    print(f"  adding all              {loading:9.2f} s, the making of {size:,} statements in it")
    adds_and_drops(engine, workload, size)
    peers(workload, size, alone, whole, small)


def adds_and_drops(engine: Engine, workload: Workload, size: int) -> None:
    more = list(workload.queries(min(TRIED, size), start=size))
    names = [f"q{number}" for number in Random(1).sample(range(size), len(more))]
    gc.disable()  # a garbage collection visits every query; the server freezes them, see docs/engine.md
    added = _time_in_tens(engine.add_query, more)
    dropped = _time_in_tens(engine.drop_query, names)
    gc.enable()
    parsed = _time_in_tens(parse, [query.text for query in islice(more, 500)])
    for what, times in (("add", added), ("drop", dropped), ("parse", parsed)):
        middle, worst = statistics.median(times), statistics.quantiles(times, n=100)[98]
        print(f"  {what:<24}{middle * 1e6:9.1f} µs in the middle, {worst * 1e6:.1f} µs for the slowest of a hundred")


def _time_in_tens(act: Callable[[Any], object], things: Sequence[Any]) -> list[float]:
    """Time calls in tens, because reading the clock costs about as much as an add."""
    times = []
    for start in range(0, len(things), 10):
        began = process_time()
        for thing in things[start : start + 10]:
            act(thing)
        times.append((process_time() - began) / 10)
    return times


def peers(workload: Workload, size: int, alone: float, whole: float, small: bool) -> None:
    """Measure both peers on a part of the queries; they cost the same for every query."""
    sample = list(workload.queries(min(size, 1_000 if small else 5_000)))
    items = workload.items(3, seed=6)
    brute = brute_force(sample, items) * size / len(sample)
    reverse = fts5(sample, items) * size / len(sample)
    print(f"  brute force             {brute * 1e6:9.0f} µs an item   {brute / (whole - alone):6.0f} × the matching")
    print(
        f"  SQLite FTS5 in reverse  {reverse * 1e6:9.0f} µs an item   {reverse / (whole - alone):6.0f} × the matching"
    )


def brute_force(queries: list[CreateFeed], items: list[Item]) -> float:
    tests = [compile_matcher(list_sources(query.query)[0].condition, WordFrequencies()) for query in queries]
    seen = [AnalysedItem(item, NEWS) for item in items]
    for each in seen:
        each.joined_words(Field.ITEM)
    began = process_time()
    for each in seen:
        for test in tests:
            test(each)
    return (process_time() - began) / len(items)


def fts5(queries: list[CreateFeed], items: list[Item]) -> float:
    database = sqlite3.connect(":memory:")
    database.execute("CREATE VIRTUAL TABLE item USING fts5(title, content)")
    asked = [_fts5_query(query) for query in queries]
    spent = 0.0
    for item in items:
        database.execute("DELETE FROM item")
        database.execute("INSERT INTO item VALUES (?, ?)", (item.title, item.content))
        began = process_time()
        for text in asked:
            database.execute("SELECT 1 FROM item WHERE item MATCH ?", (text,)).fetchone()
        spent += process_time() - began
    database.close()
    return spent / len(items)


def _fts5_query(query: CreateFeed) -> str:
    where = query.query.where
    assert where is not None
    return format_condition(where).replace("ITEM CONTAINS ", "").replace("AND NOT", "NOT")


def main(small: bool = False, sizes: list[int] | None = None) -> None:
    workload = Workload()
    for size in sizes or ([1_000, 5_000] if small else [1_000, 10_000, 100_000, 1_000_000]):
        measure(size, workload, small)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--queries", type=int, nargs="*", metavar="N")
    given = parser.parse_args()
    main(given.small, given.queries)
