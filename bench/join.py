"""Measures how fast a stream is joined by similarity with a window of 10,000 items, and whether copies are found.

`python -m bench.join [--small]`. The items of the matching benchmark come from two feeds; some items of the main feed
are copies of items in the window with some words changed. The benchmark compares titles (10 words) and contents (150
words): the engine's join, the cosine with every item of the window (brute force, on a few items), and tokenising alone,
which is the limit.
"""

from __future__ import annotations

import argparse
from random import Random
from time import process_time

from msgspec.structs import replace

from bench.support.workload import NEWS, Workload
from headwater.language import parse
from headwater.language.ast import Field
from headwater.model import Item
from headwater.query import Engine
from headwater.query.items.analysed_item import AnalysedItem
from headwater.query.items.origin import Origin
from headwater.query.items.similarity import WordFrequencies, fields_match

BLOG = Origin("blog", "http://blog.example/feed")
CHANGED = 0.2  # of the words of a copy
COPIES = 0.1  # of the main items


def copy(item: Item, workload: Workload, random: Random) -> Item:
    """Copy an item with a fifth of its words replaced by others of the vocabulary."""

    def changed(text: str | None) -> str:
        words = (text or "").split()
        for at in random.sample(range(len(words)), max(1, round(len(words) * CHANGED))):
            words[at] = random.choice(workload.words)
        return " ".join(words)

    return replace(item, title=changed(item.title), content=changed(item.content))


def measure(field: str, window: int, mains: int, workload: Workload) -> None:
    random = Random(3)
    seconds = workload.items(window + mains, seed=11)
    engine = Engine(remember=1_000)
    text = f"RETURN blog JOIN news AS $n WITHIN LAST {window} ITEMS ON {field} SIMILAR TO $n.{field} AT 0.5"
    engine.add_query(parse(f"CREATE FEED alike AS {text}").queries[0])
    for number, item in enumerate(seconds[:window]):
        engine.match(_at(item, number), NEWS)
    stream: list[tuple[Item, Item | None]] = []
    later = [_at(item, window + number) for number, item in enumerate(seconds[window:])]
    originals = workload.items(mains, seed=12)
    for number, item in enumerate(originals):
        twin = random.choice(seconds[number + window // 10 : number + window]) if random.random() < COPIES else None
        made = item if twin is None else copy(twin, workload, random)
        stream.append(
            (_at(replace(made, identity=f"main {number}", content_hash=f"main {number}"), window + number), twin)
        )
    found = planted = others = 0
    answers = []
    began = process_time()
    for number, (main, _) in enumerate(stream):
        answers.append(engine.match(main, BLOG))
        engine.match(later[number], NEWS)  # the window moves with every item
    spent = process_time() - began
    began = process_time()
    for number, (main, _) in enumerate(stream):
        for item in (main, later[number]):
            AnalysedItem(item, NEWS).distinct_words(Field(field))
    cutting = process_time() - began
    for hits, (_, twin) in zip(answers, stream, strict=True):
        related = {other.identity for hit in hits for other in hit.related or ()}
        planted += twin is not None
        found += twin is not None and twin.identity in related
        others += len(related - ({twin.identity} if twin else set()))
    rate = 2 * mains / spent
    print(f"\n{field}, a window of {window:,} items")
    print(f"  joined             {rate:9,.0f} items a second; cutting alone {2 * mains / cutting:,.0f}")
    print(
        f"  recall             {found / max(1, planted):9.3f} of {planted} copies with a fifth of their words changed"
    )
    print(f"  besides            {others:9,} pairs that are alike by chance")
    tried = brute_force(Field(field), seconds[:window], [main for main, _ in stream[:3]])
    print(f"  every pair         {1 / tried:9,.1f} items a second, {tried * rate:,.0f} × slower")


def _at(item: Item, second: float) -> Item:
    return replace(item, first_seen=second, published=second)


def brute_force(field: Field, window: list[Item], mains: list[Item]) -> float:
    frequencies = WordFrequencies()
    frequencies.track_field(field)
    past = [AnalysedItem(item, NEWS) for item in window]
    for seen in past:
        frequencies.count_item(seen)
    began = process_time()
    for main in mains:
        seen = AnalysedItem(main, BLOG)
        weight = frequencies.field_weights(field)
        for other in past:
            fields_match(seen, field, other, field, 0.5, weight)
    return (process_time() - began) / len(mains)


def main(small: bool = False) -> None:
    workload = Workload()
    for field in ("TITLE", "CONTENT"):
        measure(field, 500 if small else 10_000, 200 if small else 2_000, workload)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true")
    main(parser.parse_args().small)
