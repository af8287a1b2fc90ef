"""Random items and conditions over few words, so that matches are common, for comparing two evaluations."""

from __future__ import annotations

from hypothesis import strategies as st

from headwater.language.ast import (
    And,
    ComparisonOperator,
    Condition,
    Contains,
    DateIn,
    DateIs,
    Equals,
    FeedAddress,
    FeedName,
    Field,
    Has,
    Instant,
    LastWindow,
    Matches,
    Near,
    Not,
    Or,
    RelativeInstant,
    Similar,
    SizeIs,
    SourceIs,
    TimeUnit,
)
from headwater.model import Enclosure, Item
from headwater.query.items.origin import Origin

START = 1_709_294_400.0  # 2024-03-01T12:00Z
WORDS = ("ash", "Ash", "cloud", "lava", "Éruption", "火山", "a1", "the")
ORIGINS = (
    Origin("news", "http://news.example/rss", ("press",)),
    Origin("blog", "http://blog.example/feed", ("press", "science")),
    Origin(None, "http://lab.example/atom", ("science",)),
    Origin(None, "http://only.example/atom", registered=False),
)
TEXT = st.sampled_from([field for field in Field if field.is_text])
FIELD = st.sampled_from([field for field in Field if field is not Field.ARRIVAL])

phrases = st.lists(st.sampled_from(WORDS), min_size=1, max_size=5).map(" ".join)
short = st.lists(st.sampled_from(WORDS), min_size=1, max_size=2).map(" ".join)
searched = short | short.map(lambda text: f"{text}*") | st.sampled_from(["as*", "clou*", "erup*", "ash-cloud"])
markup = phrases.map(lambda text: f"<p>{text.replace(' ', '</p> <b>x</b>', 1)} &amp; more")
times = st.integers(-5, 5).map(lambda hours: START + hours * 3600.0)


@st.composite
def items(draw: st.DrawFn, number: int = 0) -> Item:
    """Draw an item; items of equal identity with different hashes are versions of one."""
    title, content = draw(st.none() | phrases), draw(st.none() | phrases | markup)
    categories = tuple(draw(st.lists(st.sampled_from(WORDS), max_size=2)))
    identity = draw(st.integers(0, 8))
    return Item(
        feed_id=1,
        identity=str(identity),
        content_hash=repr((title, content)),
        title=title,
        link=draw(st.none() | st.sampled_from(["http://x.example/1", "http://X.example:80/1#a", "http://x.example/2"])),
        published=draw(times),
        dated=draw(st.booleans()),
        updated=draw(st.none() | times),
        first_seen=START + number * 600,
        authors=tuple(draw(st.lists(st.sampled_from(["Ann Lee", "ann LEE", "Bob"]), max_size=2))),
        summary=draw(st.none() | phrases),
        content=content,
        categories=categories,
        enclosures=draw(st.sampled_from([(), (Enclosure("http://x.example/a", "audio/mpeg"),)])),
        language=draw(st.none() | st.sampled_from(["en", "en-GB", "fr"])),
        id=number,
    )


@st.composite
def streams(draw: st.DrawFn, most: int = 12) -> list[tuple[Item, Origin]]:
    count = draw(st.integers(1, most))
    return [(draw(items(number)), draw(st.sampled_from(ORIGINS))) for number in range(count)]


values = searched | st.sampled_from(["Ann Lee", "en", "fr", "http://x.example/1?utm_source=y", "audio/mpeg"])
several = st.lists(searched, min_size=1, max_size=3).map(tuple)
several_values = st.lists(values, min_size=1, max_size=3).map(tuple)
instants = st.integers(-5, 5).map(lambda hours: Instant(f"2024-03-01T{12 + hours:02}:00Z", START + hours * 3600.0))
agos = st.builds(RelativeInstant, st.integers(1, 6), st.just(TimeUnit.HOUR)) | st.just(RelativeInstant())
patterns = st.sampled_from(["ash", "^ash", r"\bcl\w+d\b", "É", "a.*d$", "x"])

equalities = st.builds(Equals, TEXT, several_values, st.booleans(), st.booleans())
source_conditions = st.builds(
    SourceIs,
    st.lists(
        st.sampled_from([FeedName("news"), FeedName("BLOG"), FeedAddress("http://lab.example/atom")]),
        min_size=1,
        max_size=2,
    ).map(tuple),
    st.booleans(),
)
atoms: st.SearchStrategy[Condition] = st.one_of(
    st.builds(Contains, TEXT, several, st.booleans(), st.booleans()),
    st.builds(Contains, TEXT, several),
    st.builds(Near, TEXT, searched, st.integers(1, 3), searched),
    equalities,
    st.builds(Matches, TEXT, patterns, st.booleans()),
    st.builds(Similar, TEXT, short, st.sampled_from([0.2, 0.5, 0.7, 1.0])),
    st.builds(
        DateIs, st.sampled_from([Field.PUBLISHED, Field.UPDATED]), st.sampled_from(ComparisonOperator), instants | agos
    ),
    st.builds(
        DateIn,
        st.sampled_from([Field.PUBLISHED, Field.UPDATED]),
        st.builds(LastWindow, st.integers(1, 6), st.just(TimeUnit.HOUR)),
    ),
    st.builds(SizeIs, st.sampled_from(ComparisonOperator), st.sampled_from([0.0, 3.0, 10.0])),
    st.builds(Has, FIELD),
    source_conditions,
)


def _joined(kind: type[And | Or], parts: list[Condition]) -> Condition:
    return kind(tuple(inner for part in parts for inner in (part.parts if isinstance(part, kind) else (part,))))


predicates: st.SearchStrategy[Condition] = st.recursive(
    atoms,
    lambda inner: st.one_of(
        inner.map(Not),
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: _joined(And, parts)),
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: _joined(Or, parts)),
        inner.map(lambda part: _joined(And, [part, Not(part)])),
    ),
    max_leaves=6,
)
