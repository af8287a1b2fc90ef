"""Random standing queries and streams of items over few words, so that matches are common."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

from headwater.language import Catalogue, parse
from headwater.language.ast import CreateFeed, Query
from headwater.model import Enclosure, Item
from headwater.query.items.origin import Origin
from support.tables import BLOG, FEEDS, LAB, NEWS, NOON

WORDS = ["iceland", "volcano", "volcanoes", "ash", "cloud", "Éruption", "eruption", "lava", "Oslo", "火山", "42", "the"]
LONE = Origin(None, "http://lone.example/rss", registered=False)
TITLES = (("The News", NEWS.url), ("A Blog", BLOG.url))
ORIGINS = [NEWS, BLOG, LAB, LONE]
FIELDS = ["ITEM", "ITEM", "TITLE", "TITLE", "CONTENT", "CATEGORY", "AUTHOR", "DESCRIPTION", "LINK", "LANGUAGE"]
PATTERNS = ["vol", "^ash", "O[a-z]+", "[0-9]{2}", "ICE", "."]
UNITS = ["SECONDS", "MINUTES", "MINUTES", "HOURS"]


def words(random: Random, most: int) -> str:
    return " ".join(random.choice(WORDS) for _ in range(random.randint(1, most)))


def atom(random: Random) -> str:
    text = random.choice(FIELDS)
    one, two = words(random, 2), words(random, 1)
    return random.choice(
        [
            f'{text} CONTAINS "{one}"',
            f'{text} CONTAINS "{two}"',
            f'{text} CONTAINS "{two}"',
            f'{text} CONTAINS "{one}" {random.choice(["OR", "AND"])} "{two}"',
            f'{text} CONTAINS {random.choice(["ANY", "ALL"])} ("{one}", "{two}", "{words(random, 1)}")',
            f'{text} CONTAINS EXACT "{one}"',
            f'{text} CONTAINS {random.choice(["", "EXACT "])}"{random.choice(["vol*", "Volc*", "e*", "ash clou*"])}"',
            f'{text} CONTAINS "{two}" NEAR {random.randint(1, 3)} "{words(random, 2)}"',
            f'{text} {random.choice(["=", "!="])} "{one}"',
            f'{text} IN ("{one}", "{two}")',
            f"{text} MATCHES /{random.choice(PATTERNS)}/{random.choice(['', 'i'])}",
            f'{text} SIMILAR TO "{one} {two}" AT 0.{random.randint(1, 9)}',
            f"PUBLISHED {random.choice(['<', '>=', '!='])} NOW - {random.randint(1, 20)} MINUTES",
            f"{random.choice(['PUBLISHED', 'UPDATED'])} IN LAST {random.randint(1, 20)} MINUTES",
            f"SIZE {random.choice(['<', '>', '='])} {random.randint(0, 40)}",
            f"HAS {random.choice(['TITLE', 'CONTENT', 'UPDATED', 'ENCLOSURE', 'AUTHOR'])}",
            f"SOURCE {random.choice(['=', '!='])} {random.choice(['news', 'blog', chr(34) + LONE.url + chr(34)])}",
            "SOURCE IN (lab, blog)",
            'SOURCE = FEED "The News"',
            f"CHANGED({random.choice(['TITLE', 'CONTENT'])}){random.choice(['', ' BY > 30 %', ' BY >= 60 %'])}",
        ]
    )


def predicate(random: Random, depth: int = 2) -> str:
    kind = random.random()
    if depth == 0 or kind < 0.5:
        return atom(random)
    if kind < 0.6:
        return f"NOT ({predicate(random, depth - 1)})"
    joined = random.choice([" AND ", " AND ", " OR "])
    return "(" + joined.join(predicate(random, depth - 1) for _ in range(random.randint(2, 3))) + ")"


def source(random: Random, others: list[str]) -> str:
    fixed = [
        "news",
        "blog",
        "ALL",
        "ALL",
        "ALL",
        'TAG "science"',
        'TAG "press"',
        f'"{LONE.url}"',
        f'"{NEWS.url}"',
        'FEED "A Blog"',
    ]
    return random.choice(fixed if not others or random.random() < 0.6 else others)


def branch(random: Random, others: list[str]) -> str:
    inline = f"[{predicate(random, 1)}]" if random.random() < 0.4 else ""
    if random.random() < 0.1:
        return f"({source(random, others)} | {source(random, others)}){inline}"
    return source(random, others) + inline


def window(random: Random) -> str:
    unit = "ITEMS" if random.random() < 0.4 else random.choice(UNITS)
    return f"LAST {random.randint(1, 12)} {unit}"


def query(random: Random, others: list[str]) -> str:
    branches = [branch(random, others) for _ in range(random.choice([1, 1, 1, 2, 3]))]
    text = "RETURN " + " | ".join(branches)
    for number in range(random.choice([0, 0, 0, 0, 1, 2])):
        field, at = random.choice(["TITLE", "CONTENT", "LINK", "CATEGORY", "ITEM"]), random.randint(1, 9)
        how = f"SIMILAR TO $j{number}.{field} AT 0.{at}" if random.random() < 0.6 else f"= $j{number}.{field}"
        kind = random.choice(["", "", "LEFT ", "ANTI "])
        text += f" {kind}JOIN {branch(random, others)} AS $j{number} WITHIN {window(random)} ON {field} {how}"
    if random.random() < 0.7:
        text += f" WHERE {predicate(random)}"
    if random.random() < 0.15:
        near = f" AT 0.{random.randint(3, 9)}" if random.random() < 0.5 else ""
        within = f" WITHIN {window(random)}" if random.random() < 0.7 else ""
        text += f" DISTINCT ON {random.choice(['TITLE', 'LINK', 'CATEGORY'])}{near}{within}"
    if random.random() < 0.1:
        text += random.choice([' SET TITLE = "[{source}] {title}"', ' SET CATEGORY += "ash", CONTENT = "Oslo"'])
    return text


def item(random: Random, number: int, at: float) -> Item:
    """Draw a version of one of few identities, so that updates and repetitions occur."""
    title = words(random, 4) if random.random() < 0.9 else None
    content = words(random, 8) if random.random() < 0.8 else None
    identity = f"item-{random.randint(0, 30)}"
    return Item(
        feed_id=1,
        identity=identity,
        content_hash=f"{title} {content}",
        title=title,
        link=f"http://x.example/{random.randint(0, 5)}" if random.random() < 0.8 else None,
        published=at - random.choice([0, 60, 600, 86_400]),
        dated=random.random() < 0.9,
        updated=at - 60 if random.random() < 0.3 else None,
        first_seen=at,
        authors=(words(random, 2),) if random.random() < 0.3 else (),
        summary=words(random, 3) if random.random() < 0.3 else None,
        content=content,
        categories=tuple(words(random, 2) for _ in range(random.randint(0, 2))),
        enclosures=(Enclosure("http://x.example/a.jpg", "image/jpeg"),) if random.random() < 0.2 else (),
        language=random.choice([None, "en", "fr", "en-GB"]),
        id=number,
    )


def arrivals(random: Random, count: int) -> Iterator[tuple[Item, Origin]]:
    at = NOON
    for number in range(count):
        at += random.choice([0, 1, 20, 60, 200])
        yield item(random, number, at), random.choice(ORIGINS)


@dataclass
class Queries:
    """Query feeds that are made one after the other, so that a later one can read an earlier one."""

    made: dict[str, Query] = field(default_factory=dict)

    def create(self, random: Random, name: str, replace: bool = False) -> CreateFeed:
        others = [other for other in self.made if other < name]
        word = "CREATE OR REPLACE" if replace else "CREATE"
        text = f"{word} FEED {name} AS {query(random, others)}"
        (found,) = parse(text, Catalogue(FEEDS.sources, self.made, FEEDS.tags, TITLES)).queries
        self.made[name] = found.query
        return found
