"""Writes headlines and articles from small lists of words, always the same text for the same item.

Authors are desks, not people. The headlines of a topic contain its words, so that queries over a farm have hits.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b

PLACES = (
    "Northern", "Southern", "Coastal", "Highland", "Riverside", "Harbour", "Valley", "Island", "Metropolitan",
    "Lakeside", "Border", "Upland", "Delta", "Forest", "Western", "Eastern",
)  # fmt: skip
KINDS = (
    "Gazette", "Courier", "Herald", "Bulletin", "Review", "Observer", "Chronicle", "Dispatch", "Notebook", "Weekly",
    "Monitor", "Record", "Journal", "Wire", "Letter", "Almanac",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class TopicWords:
    """The parts of a topic's headlines (subject, predicate, addition) and its categories."""

    who: tuple[str, ...]
    does: tuple[str, ...]
    more: tuple[str, ...]
    tags: tuple[str, ...]


TOPICS = {
    "volcano": TopicWords(
        ("Iceland volcano", "Etna", "Stromboli", "Island volcano", "Lava flow", "Ash cloud", "Crater lake",
         "Volcano observatory", "Fissure eruption", "Sleeping volcano"),
        ("erupts again", "calms down", "surprises geologists", "closes airspace", "lights the night sky",
         "grows by a metre", "threatens coastal road", "draws visitors", "sends lava towards the sea"),
        ("after a week of tremors", "for the third time this year", "as alert level rises", "near the harbour",
         "without warning", "while villages wait", "before dawn"),
        ("geology", "Iceland", "hazards", "travel"),
    ),
    "election": TopicWords(
        ("Parliament", "Election commission", "Coalition", "Opposition", "City council", "Ruling party", "Exit poll",
         "Electoral court", "Minority government", "Postal ballot"),
        ("delays the vote", "confirms the election result", "rejects the budget", "demands a recount",
         "agrees on a date", "loses its majority", "opens the polling stations", "debates electoral reform"),
        ("after a long night", "by a narrow margin", "in a surprise move", "despite protests", "for the first time",
         "amid record turnout", "before the deadline"),
        ("politics", "parliament", "polls", "Europe"),
    ),
    "football": TopicWords(
        ("Rovers", "United", "City", "Athletic", "Wanderers", "Champions", "Newly promoted side", "Women’s team",
         "Goalkeeper", "National team"),
        ("win the football derby", "draw away", "lose at home", "sign a striker", "reach the final", "part with coach",
         "score twice in added time", "miss a penalty"),
        ("after extra time", "in heavy rain", "against the leaders", "before a record crowd", "with ten players",
         "on the last day", "thanks to a late goal"),
        ("sport", "league", "cup", "transfers"),
    ),
    "science": TopicWords(
        ("Telescope", "Marine station", "New vaccine", "Fusion reactor", "Genome study", "Mars rover",
         "Quantum experiment", "Deep-sea survey", "Neutrino detector", "Fossil find"),
        ("confirms an old theory", "puzzles researchers", "finds traces of water", "sets a record",
         "passes first trial", "maps unknown region", "questions the standard model", "counts more species"),
        ("in the journal’s latest issue", "after ten years of work", "with open data", "at low cost",
         "far below the ice", "for less than expected", "in a replication by three groups"),
        ("research", "space", "biology", "physics"),
    ),
    "technology": TopicWords(
        ("Browser", "Chip maker", "Open-source project", "Data centre", "Search engine", "Phone network", "R&D lab",
         "Robot", "Battery plant", "Feed reader"),
        ("releases new version", "fixes security hole", "drops support for old devices", "doubles its speed",
         "publishes its code", "goes offline", "adopts open standard", "halves power use"),
        ("after complaints", "ahead of schedule", "for everyone", "in public test", "without fanfare",
         "under a free licence", "following an audit"),
        ("software", "hardware", "internet", "privacy"),
    ),
    "weather": TopicWords(
        ("Storm", "Heat wave", "First snow", "Drought", "Flood warning", "Thick fog", "Spring", "Hail", "Cold front",
         "Rainfall"),
        ("reaches the coast", "breaks records", "stops trains", "arrives early", "worries farmers", "spares the city",
         "keeps schools closed", "turns north"),
        ("overnight", "for a fifth day", "say forecasters", "across the region", "at high tide", "this weekend",
         "after a dry month"),
        ("climate", "forecast", "rivers", "farming"),
    ),
    "music": TopicWords(
        ("Orchestra", "Jazz festival", "Choir", "Opera house", "Lost symphony", "Street band", "Radio ensemble",
         "Record label", "Concert hall", "String quartet"),
        ("opens the season", "plays to a full house", "tours the islands", "returns after renovation",
         "premieres new work", "streams all concerts", "revives a classic", "wins a prize"),
        ("on a summer night", "to long applause", "with a guest soloist", "free of charge", "after two centuries",
         "in the old harbour", "for young listeners"),
        ("culture", "concerts", "festivals", "reviews"),
    ),
    "economy": TopicWords(
        ("Central bank", "Exports", "Inflation", "Rail operator", "Shipyard", "Housing market", "Start-up",
         "Wheat price", "Trade union", "Energy supplier"),
        ("beats expectations", "slows down", "holds its course", "raises wages", "cuts prices", "reports a loss",
         "recovers", "invests in wind power"),
        ("in the third quarter", "for the first time since spring", "despite strikes", "as demand returns",
         "against the trend", "says report", "after talks"),
        ("markets", "business", "labour", "energy"),
    ),
}  # fmt: skip

DESKS = ("News desk", "Night desk", "Field desk", "Data desk", "Weekend desk", "Foreign desk")
OPENINGS = (
    "The news came {when}, and few had expected it.",
    "It had been announced {when}; now it is certain.",
    "What was a rumour {when} is now confirmed.",
    "Observers had waited for this, and {when} it happened.",
)
WHENS = ("early this morning", "late on Tuesday", "over the weekend", "around noon", "in the evening", "last night")
MIDDLES = (
    "Figures seen by this paper show a change of {n} per cent within a year.",
    "About {n} people followed the event on site, many more from afar.",
    "Similar cases have been counted {n} times in the past decade.",
    "Those responsible want to present a report within {n} days.",
)
CLOSINGS = (
    "More is expected tomorrow.",
    "An independent review will follow.",
    "Our coverage continues.",
    "Not everybody agrees, but nobody was surprised.",
)


@dataclass(frozen=True, slots=True)
class SampleText:
    """The text of an item; `summary` and `content` are HTML, `picture` and `episode` are lengths in bytes or 0."""

    title: str
    summary: str
    content: str
    author: str
    categories: tuple[str, ...]
    picture: int
    episode: int


def feed_title(topic: str, place: str, kind: str) -> str:
    return f"{place} {topic.capitalize()} {kind}"


def make_text(seed: int, feed: int, number: int, topic: str) -> SampleText:
    """Return the text of item `number` of a feed.

    >>> make_text(1, 2, 3, "volcano") == make_text(1, 2, 3, "volcano")
    True
    """
    d = blake2b(f"{seed}/{feed}/{number}/text".encode()).digest()
    words = TOPICS[topic]
    title = f"{_pick(words.who, d[0])} {_pick(words.does, d[1])}"
    if d[2] % 4:
        title += f" {_pick(words.more, d[3])}"
    opening = _pick(OPENINGS, d[4]).format(when=_pick(WHENS, d[5]))
    middle = _pick(MIDDLES, d[6]).format(n=2 + d[7])
    other = f"{_pick(words.who, d[8])} {_pick(words.does, d[9])}: that was the other story of the day."
    closing = _pick(CLOSINGS, d[10])
    summary = f"<p>{opening} {middle}</p>"
    content = (
        f"<p><strong>{_escape(title)}.</strong> {opening} {middle}</p>"
        f"<p>{_escape(other)} {_pick(MIDDLES, d[11]).format(n=2 + d[12])} "
        f'Read <a href="/items/{feed}/{number}">the whole story</a>.</p><p>{closing}</p>'
    )
    tags = (topic,) if d[13] < 64 else (topic, _pick(words.tags, d[14]))
    return SampleText(
        title=title,
        summary=summary,
        content=content,
        author=_pick(DESKS, d[15]),
        categories=tags,
        picture=20_000 + 311 * d[16] if d[17] < 40 else 0,
        episode=9_000_000 + 70_001 * d[18] if d[19] < 8 else 0,
    )


def _escape(text: str) -> str:
    return text.replace("&", "&amp;")


def _pick(words: tuple[str, ...], digit: int) -> str:
    return words[digit % len(words)]
