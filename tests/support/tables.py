"""Small streams of items for tests of query semantics."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from headwater.language import Catalogue, parse
from headwater.model import Enclosure, Item
from headwater.query.items.analysed_item import AnalysedItem
from headwater.query.items.origin import Origin
from headwater.query.query_document import Emission
from support.reference_evaluator import ReferenceEvaluator

DAY = 86_400.0
NOON = 1_709_294_400.0  # 2024-03-01T12:00Z

NEWS = Origin("news", "http://news.example/rss", ("press",))
BLOG = Origin("blog", "http://blog.example/feed", ("Personal", "science"))
LAB = Origin("lab", "http://lab.example/atom", ("science",))
FEEDS = Catalogue(
    {origin.name or "": origin.url for origin in (NEWS, BLOG, LAB)}, {}, frozenset({"press", "personal", "science"})
)

Arrival = tuple[Item, Origin]


def item(number: int, title: str | None = None, **facts: Any) -> Item:
    """Make an item that arrives `number` minutes after noon and was published five minutes before it arrived."""
    arrived = facts.pop("arrived", NOON + number * 60)
    base: dict[str, Any] = {
        "feed_id": 1,
        "identity": f"item-{number}",
        "content_hash": repr((title, sorted(facts.items(), key=str))),
        "title": title,
        "link": f"http://x.example/{number}",
        "published": arrived - 300,
        "dated": True,
        "updated": None,
        "first_seen": arrived,
        "id": number,
    }
    return Item(**(base | facts))


def analysed(origin: Origin = NEWS, arrived: float | None = None, **facts: Any) -> AnalysedItem:
    return AnalysedItem(item(0, **facts), origin, arrived)


def photo(url: str = "http://x.example/a.jpg") -> Enclosure:
    return Enclosure(url, "image/jpeg")


def meaning(script: str) -> ReferenceEvaluator:
    made = ReferenceEvaluator()
    made.run_script(parse(script, FEEDS))
    return made


def arrive(made: ReferenceEvaluator, arrivals: Iterable[Arrival]) -> None:
    for each, origin in arrivals:
        made.add_arrival(each, origin)


def ids(emissions: Sequence[Emission]) -> list[int | None]:
    return [emission.analysed.item.id for emission in emissions]


def result(query: str, *arrivals: Arrival, before: str = "", now: float | None = None) -> list[int | None]:
    """Return the document of one query over a stream."""
    made = meaning(f"{before} CREATE FEED q AS {query}")
    arrive(made, arrivals)
    return ids(made.select_items("q", now))
