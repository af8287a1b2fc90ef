"""Measures matching for each kind of query, and for a mixture of all kinds, on real items.

`python -m bench.mixture [--small] [--queries N] [--kind KIND] [ARCHIVE]`; the archive is a tar of feed documents, as
for `bench.read`. Items arrive from all feeds in turn, one a minute. The words of the queries are drawn from the items,
common ones more often, without the hundred commonest.

The ratio is that of `bench.match`: matching, which tokenises the item itself, over tokenising alone, on the same items
in turn. Each round starts with a new engine and passes every item once, because windows would recognise repeated items;
of each ten items the fastest round counts. Adding one query beside many is compared with adding one beside ten.
"""

from __future__ import annotations

import argparse
import gc
import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import zip_longest
from pathlib import Path
from random import Random
from time import process_time

from msgspec.structs import replace

from bench.read import default_archive, load_documents
from headwater.errors import NotAFeed
from headwater.formats import read
from headwater.language import parse
from headwater.language.ast import CreateFeed, Field
from headwater.model import Entry, Item
from headwater.novelty.item_identity import content_hash
from headwater.query import Engine
from headwater.query.items.analysed_item import AnalysedItem
from headwater.query.items.origin import Origin
from headwater.query.items.tokens import SEPARATOR

COMMONEST = 100  # words that no query asks for
CHUNK = 10
ADDED = 400  # queries that are added one by one
TAGS = ("news", "science", "tech", "blogs", "local")
Arrival = tuple[Item, Origin]


def load_arrivals(archive: Path, small: bool) -> list[Arrival]:
    """Read the items of all documents; the feeds take turns."""
    feeds: list[list[tuple[Entry, Origin]]] = []
    for number, body in enumerate(load_documents(archive, small)):
        with suppress(NotAFeed, ValueError):
            origin = Origin(f"f{number}", f"https://{number}.example/feed", (TAGS[number % len(TAGS)],))
            feeds.append([(entry, origin) for entry in read(body, url=origin.url).items])
    turns = [arrival for turn in zip_longest(*feeds) for arrival in turn if arrival is not None]
    return [(make_item(number, entry), origin) for number, (entry, origin) in enumerate(turns)]


def make_item(number: int, entry: Entry) -> Item:
    at = 60.0 * number
    fields = (entry.title, entry.link, at, True, entry.updated, at, entry.authors, entry.summary, entry.content)
    return Item(1, str(number), content_hash(entry), *fields, entry.categories, entry.enclosures, entry.language)


class QueryWriter:
    """Writes queries with words, phrases, categories and authors of the items."""

    def __init__(self, arrivals: Sequence[Arrival]) -> None:
        seen = [AnalysedItem(item, origin) for item, origin in arrivals]
        held = Counter(word for each in seen for word in each.distinct_words(Field.ITEM))
        common = {word for word, _ in held.most_common(COMMONEST)} | {SEPARATOR.strip()}
        words = [word for each in seen for word in sorted(each.distinct_words(Field.ITEM) - common)]
        self._words = [word for word in words if len(word) > 2]
        self._titles = [words for each in seen if len(words := each.joined_words(Field.TITLE).split()) > 2]
        self._categories = [one for item, _ in arrivals for one in item.categories if one.isalnum()] or ["news"]
        self._feeds = sorted({origin.name for _, origin in arrivals if origin.name})
        self._random = Random(5)

    def word(self) -> str:
        return self._random.choice(self._words)

    def words(self, least: int, most: int, joined: str = " OR ") -> str:
        return joined.join(f'"{self.word()}"' for _ in range(self._random.randint(least, most)))

    def phrase(self) -> str:
        title = self._random.choice(self._titles)
        at = self._random.randrange(len(title) - 1)
        return f"{title[at]} {title[at + 1]}"

    def category(self) -> str:
        return self._random.choice(self._categories)

    def feeds(self, most: int) -> str:
        count = self._random.randint(1, min(most, len(self._feeds)))
        return " | ".join(self._random.sample(self._feeds, count))

    def tag(self) -> str:
        return self._random.choice(TAGS)

    def write_queries(self, count: int, kind: str = "") -> Iterator[CreateFeed]:
        """Write queries of one kind, or of all kinds by their shares."""
        shares = [share for share, _ in KINDS.values()]
        for number in range(count):
            chosen = kind or self._random.choices(list(KINDS), shares)[0]
            query = KINDS[chosen][1](self)
            if chosen == LAYER and number:
                query = query.replace("ALL", f"q{self._random.randrange(number)}")
            (create,) = parse(f"CREATE FEED q{number} AS RETURN {query};").queries
            yield create


LAYER = "a query feed"
KINDS: dict[str, tuple[int, Callable[[QueryWriter], str]]] = {
    "a word": (22, lambda w: f'ALL WHERE ITEM CONTAINS "{w.word()}"'),
    "two words": (10, lambda w: f"ALL WHERE ITEM CONTAINS {w.words(2, 2, ' AND ')}"),
    "any of many words": (10, lambda w: f"ALL WHERE ITEM CONTAINS {w.words(3, 10)}"),
    "a phrase": (8, lambda w: f'ALL WHERE ITEM CONTAINS "{w.phrase()}"'),
    "a word in the title": (8, lambda w: f'ALL WHERE TITLE CONTAINS "{w.word()}"'),
    "a prefix": (4, lambda w: f'ALL WHERE ITEM CONTAINS "{w.word()[:5]}*"'),
    "words but not others": (
        5,
        lambda w: f"ALL WHERE ITEM CONTAINS {w.words(1, 3)} AND NOT ITEM CONTAINS {w.words(1, 3)}",
    ),
    "a category": (4, lambda w: f'ALL WHERE CATEGORY = "{w.category()}"'),
    "a word in a few feeds": (6, lambda w: f"({w.feeds(5)}) WHERE ITEM CONTAINS {w.words(1, 3)}"),
    "a word in a folder": (4, lambda w: f'TAG "{w.tag()}" WHERE TITLE CONTAINS "{w.word()}"'),
    "a feed without a word": (2, lambda w: f'{w.feeds(1)} WHERE NOT TITLE CONTAINS "{w.word()}"'),
    "only NOT": (1, lambda w: f"ALL WHERE NOT ITEM CONTAINS {w.words(1, 3)}"),
    "a pattern": (2, lambda w: rf"ALL WHERE TITLE MATCHES /\b{w.word()[:4]}\w+ \d+/i"),
    "two words nearby": (2, lambda w: f'ALL WHERE ITEM CONTAINS "{w.word()}" NEAR 5 "{w.word()}"'),
    "a word in a long item": (3, lambda w: f'ALL WHERE ITEM CONTAINS "{w.word()}" AND SIZE > 500 AND HAS AUTHOR'),
    "a similar title": (1, lambda w: f'ALL WHERE TITLE SIMILAR TO "{w.phrase()} {w.phrase()}" AT 0.4'),
    "DISTINCT ON LINK": (2, lambda w: f'ALL WHERE ITEM CONTAINS "{w.word()}" DISTINCT ON LINK'),
    "DISTINCT AT": (2, lambda w: f'ALL WHERE ITEM CONTAINS "{w.word()}" DISTINCT ON TITLE AT 0.7'),
    "a join": (1, lambda w: f'{w.feeds(3)} JOIN TAG "{w.tag()}" AS $t WITHIN LAST 1 DAY ON TITLE SIMILAR TO $t.TITLE'),
    "SET": (1, lambda w: f'ALL WHERE TITLE CONTAINS "{w.word()}" SET TITLE = "[{{source}}] {{title}}"'),
    LAYER: (2, lambda w: f"ALL WHERE NOT TITLE CONTAINS {w.words(1, 2)}"),
}
"""The kinds of queries, each with its share of the mixture, in percent."""


def fill_engine(arrivals: Sequence[Arrival], creates: Sequence[CreateFeed]) -> Engine:
    """Add the queries to an engine that knows how common words are, as after a restart."""
    engine = Engine(remember=1_000)
    engine.use_compiled(False)
    for item, origin in arrivals:
        engine.match(replace(item, identity=f"before {item.identity}"), origin)
    for create in creates:
        engine.add_query(create)
    gc.freeze()  # as a server with many queries does
    return engine


def measure_ratio(arrivals: Sequence[Arrival], creates: Sequence[CreateFeed], rounds: int) -> tuple[float, float, int]:
    """Return seconds per item of tokenising alone and of matching, and the hits per item. Half of the items warm up."""
    half = len(arrivals) // 2
    alone: dict[int, list[float]] = {}
    whole: dict[int, list[float]] = {}
    hits = 0
    for _ in range(rounds):
        engine = fill_engine(arrivals[:half], creates)
        for item, origin in arrivals[:half]:
            engine.match(item, origin)
        found = []
        for start in range(half, len(arrivals), CHUNK):
            chunk = arrivals[start : start + CHUNK]
            began = process_time()
            for item, origin in chunk:
                set(AnalysedItem(item, origin).joined_words(Field.ITEM).split())
            between = process_time()
            found += [engine.match(item, origin) for item, origin in chunk]
            whole.setdefault(start, []).append(process_time() - between)
            alone.setdefault(start, []).append(between - began)
        hits = sum(map(len, found))
    count = len(arrivals) - half
    return sum(map(min, alone.values())) / count, sum(map(min, whole.values())) / count, hits // count


def time_adding(arrivals: Sequence[Arrival], creates: Sequence[CreateFeed], more: Sequence[CreateFeed]) -> float:
    """Return the median seconds of adding one query to an engine that holds the given ones."""
    engine = fill_engine(arrivals, creates)
    times = []
    gc.disable()
    for create in more:
        began = process_time()
        engine.add_query(create)
        times.append(process_time() - began)
        engine.drop_query(create.name.name)
    gc.enable()
    return statistics.median(times)


def main(
    small: bool = False, size: int | None = None, kinds: Sequence[str] = (), archive: Path | None = None
) -> dict[str, float]:
    """Run the comparisons; return the ratios by kind."""
    archive = archive or default_archive()
    arrivals = load_arrivals(archive, small)[: 100 if small else 2_000]
    size = size or (200 if small else 10_000)
    rounds = 1 if small else 3
    print(f"{len(arrivals):,} items ({archive.name if archive.exists() else 'made up'}), {size:,} queries of each kind")
    ratios = {}
    for kind in kinds or ("", *KINDS):
        creates = list(QueryWriter(arrivals).write_queries(size, kind))
        alone, whole, hits = measure_ratio(arrivals, creates, rounds)
        name = kind or "mixture"
        ratios[name] = whole / alone
        print(
            f"  {name:24}{1e6 * alone:7.0f} µs to tokenise {1e6 * whole:9.0f} µs to match {hits:7,} hits"
            f"   ratio {ratios[name]:7.2f}",
            flush=True,
        )
    writer = QueryWriter(arrivals)
    creates = list(writer.write_queries(size))
    more = [
        replace_name(create, f"more{number}") for number, create in enumerate(writer.write_queries(min(ADDED, size)))
    ]
    few, many = (time_adding(arrivals[:300], held, more) for held in (creates[:10], creates))
    ratios["adding"] = many / few
    print(f"  adding one: {1e6 * few:.1f} µs beside ten, {1e6 * many:.1f} µs beside {size:,}, ratio {many / few:.2f}")
    return ratios


def replace_name(create: CreateFeed, name: str) -> CreateFeed:
    return replace(create, name=replace(create.name, name=name), text=create.text.replace(create.name.name, name, 1))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="a size that finishes in seconds")
    parser.add_argument("--queries", type=int, metavar="N", help="queries of each kind (default: 10,000)")
    parser.add_argument(
        "--kind", action="append", default=[], choices=["", *KINDS], help="this kind only; '' is the mixture"
    )
    parser.add_argument("archive", nargs="?", type=Path)
    given = parser.parse_args()
    main(given.small, given.queries, given.kind, given.archive)
