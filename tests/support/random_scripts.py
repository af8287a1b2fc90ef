"""Random scripts, drawn as syntax trees over the whole grammar."""

from __future__ import annotations

from hypothesis import strategies as st

from headwater.language.ast import (
    AllSources,
    And,
    Assignment,
    Branch,
    Changed,
    ComparisonOperator,
    Condition,
    Contains,
    CreateFeed,
    DateIn,
    DateIs,
    DeliverClause,
    DeliveryFormat,
    DistinctClause,
    DropFeed,
    Duration,
    Equals,
    EveryClause,
    FeedAddress,
    FeedName,
    Field,
    FirstOfStory,
    Has,
    Instant,
    Join,
    JoinKind,
    LastWindow,
    Matches,
    Near,
    Not,
    Or,
    OrderClause,
    Query,
    RegisterFeed,
    RelativeInstant,
    Scoped,
    Similar,
    SizeIs,
    SourceGroup,
    SourceIs,
    Statement,
    StoryCount,
    StoryGrowing,
    StoryMeasure,
    TaggedSources,
    TargetClause,
    TimeUnit,
    Weekday,
)
from headwater.language.parsing.clauses import SETTABLE_FIELDS
from headwater.language.parsing.conditions import CHANGEABLE_FIELDS
from headwater.language.parsing.lexer import KEYWORDS
from headwater.times import parse_instant

TEXT = st.sampled_from([field for field in Field if field.is_text])
CHANGEABLE = st.sampled_from([Field(name) for name in CHANGEABLE_FIELDS])
DATE = st.sampled_from([Field.PUBLISHED, Field.UPDATED])
FIELD = st.sampled_from([field for field in Field if field is not Field.ARRIVAL])

anything = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)
searched = st.builds("{} {}".format, anything, st.sampled_from(["iceland", "ash", "volcan*", "42", "火山"]))
names = st.from_regex(r"[a-zA-Zé][a-z0-9_]{0,5}(-[a-z]{1,3})?", fullmatch=True).filter(
    lambda n: n.upper() not in KEYWORDS
)
variables = st.from_regex(r"[a-z][a-z0-9_]{0,4}", fullmatch=True)
addresses = st.sampled_from(["http://a.example/rss", "HTTPS://b.example/?x=1&y='2'", "http://[::1]:80/é"])
counts = st.integers(1, 10_000)
units = st.sampled_from(TimeUnit)
spans = st.builds(Duration, counts, units)
windows = st.builds(LastWindow, counts, st.none() | units)
shares = st.integers(10, 1000).map(lambda n: n / 1000)
days = st.sampled_from(["2024-03-01", "2024-03-01T08:00Z", "1999-12-31 23:59:59+02:00"])
instants = days.map(lambda text: Instant(text, parse_instant(text) or 0.0))
agos = st.just(RelativeInstant()) | st.builds(RelativeInstant, counts, units)
patterns = st.sampled_from([r"\bCVE-\d+\b", "a/b", r"a\\", r"[/\]]+", "é|ü", "(?i)x*", r"\/"]).map(
    lambda pattern: pattern.replace(r"\/", "/")
)
several = st.lists(anything, min_size=1, max_size=4).map(tuple)
several_searched = st.lists(searched, min_size=1, max_size=4).map(tuple)
named = names.map(FeedName)
addressed = addresses.map(FeedAddress)

atoms: st.SearchStrategy[Condition] = st.one_of(
    st.builds(
        lambda field, values, everyone, exact, listed: Contains(
            field, values, everyone and len(values) > 1, exact, listed=listed
        ),
        TEXT,
        several_searched,
        st.booleans(),
        st.booleans(),
        st.booleans(),
    ),
    st.builds(Near, TEXT, searched, counts, searched),
    st.builds(
        lambda field, values, everyone, negated, listed: Equals(
            field, values, everyone and len(values) > 1, negated, listed=listed
        ),
        TEXT,
        several,
        st.booleans(),
        st.booleans(),
        st.booleans(),
    ),
    st.builds(Matches, TEXT, patterns, st.booleans()),
    st.builds(Similar, TEXT, searched, shares),
    st.builds(DateIs, DATE, st.sampled_from(ComparisonOperator), instants | agos),
    st.builds(DateIn, DATE, st.builds(LastWindow, counts, units)),
    st.builds(SizeIs, st.sampled_from(ComparisonOperator), st.integers(0, 10**6).map(float)),
    st.builds(Has, FIELD),
    st.builds(Changed, CHANGEABLE),
    st.builds(
        Changed,
        CHANGEABLE,
        st.sampled_from([ComparisonOperator.GT, ComparisonOperator.GE]),
        st.integers(0, 1000).map(lambda n: n / 10),
    ),
    st.builds(lambda source, negated: SourceIs((source,), negated), named | addressed, st.booleans()),
    st.builds(
        lambda sources: SourceIs(tuple(sources), listed=True), st.lists(named | addressed, min_size=1, max_size=3)
    ),
)


def _and(parts: list[Condition]) -> Condition:
    return And(tuple(inner for part in parts for inner in (part.parts if isinstance(part, And) else (part,))))


def _or(parts: list[Condition]) -> Condition:
    return Or(tuple(inner for part in parts for inner in (part.parts if isinstance(part, Or) else (part,))))


predicates: st.SearchStrategy[Condition] = st.recursive(
    atoms,
    lambda inner: st.one_of(
        inner.map(Not),
        st.lists(inner, min_size=2, max_size=3).map(_and),
        st.lists(inner, min_size=2, max_size=3).map(_or),
    ),
    max_leaves=6,
)

spans_of_stories = st.builds(LastWindow, counts, units)
story_atoms: st.SearchStrategy[Condition] = st.one_of(
    st.builds(
        StoryCount,
        st.sampled_from(StoryMeasure),
        st.sampled_from(ComparisonOperator),
        counts,
        st.none() | spans_of_stories,
    ),
    st.just(FirstOfStory()),
    st.just(StoryGrowing()),
    st.builds(StoryGrowing, counts, spans_of_stories),
)

leaf_sources = st.one_of(addressed, named, anything.map(TaggedSources), st.just(AllSources()))


@st.composite
def branch(draw: st.DrawFn, free: list[str], depth: int = 0) -> Branch:
    """Draw a branch; its variable, if it has one, is taken from the free ones."""
    if depth < 2 and draw(st.integers(0, 4)) == 0:
        inner = draw(st.integers(1, 2))
        source = SourceGroup(tuple(draw(branch(free, depth + 1)) for _ in range(inner)))
        return Branch(source, draw(st.none() | predicates), free.pop() if free and draw(st.booleans()) else None)
    var = free.pop() if free and draw(st.booleans()) else None
    return Branch(draw(leaf_sources), draw(st.none() | predicates), var)


@st.composite
def queries(draw: st.DrawFn) -> Query:
    free = draw(st.lists(variables, min_size=6, max_size=6, unique=True))
    pool = list(free)
    branches = tuple(draw(branch(pool)) for _ in range(draw(st.integers(1, 3))))
    joins = tuple(draw(join(pool.pop())) for _ in range(draw(st.integers(0, min(2, len(pool))))))
    declared = [name for name in free if name not in pool]
    tops: list[Condition] = draw(st.lists(predicates | story_atoms | story_atoms.map(Not), max_size=2))
    if declared:
        scoped = st.builds(Scoped, st.sampled_from(declared), predicates)
        tops += draw(st.lists(scoped, max_size=2))
    where = None if not tops else tops[0] if len(tops) == 1 else _and(tops)
    each_story = not joins and draw(st.booleans())
    return Query(
        branches,
        joins,
        where,
        draw(st.none() | windows),
        None if each_story else draw(st.none() | distincts),
        draw(st.none() | st.builds(OrderClause, st.sampled_from(Field), st.booleans())),
        draw(st.none() | st.integers(0, 1000).map(lambda n: n / 10)),
        draw(st.none() | targets),
        draw(st.lists(deliveries, max_size=3, unique_by=lambda one: one.kind).map(tuple)),
        draw(st.none() | digests),
        draw(st.lists(settings, max_size=3).map(tuple)) if not each_story else (),
        each_story,
    )


@st.composite
def join(draw: st.DrawFn, var: str) -> Join:
    similar = draw(st.booleans())
    field = draw(TEXT if similar else FIELD)
    other = draw(TEXT) if field.is_text else field
    inner = Branch(draw(leaf_sources), draw(st.none() | predicates), var)
    kind = draw(st.sampled_from(JoinKind))
    return Join(kind, inner, draw(windows), field, other, draw(shares) if similar else None)


distincts = st.builds(DistinctClause, FIELD, st.none() | windows) | st.builds(
    DistinctClause, TEXT, st.none() | windows, shares
)
targets = st.builds(TargetClause, st.none() | shares, st.none() | shares, spans)
digests = st.one_of(
    st.builds(EveryClause, spans),
    st.just(EveryClause(Duration(2, TimeUnit.DAY), "07:30")),
    st.sets(st.sampled_from(Weekday), min_size=1).map(
        lambda days: EveryClause(Duration(1, TimeUnit.DAY), "07:30", tuple(day for day in Weekday if day in days))
    ),
)
deliveries = st.builds(
    DeliverClause, st.just(DeliveryFormat.EMAIL), st.just("me@example.org"), digests
) | st.sampled_from(
    [
        DeliverClause(DeliveryFormat.RSS),
        DeliverClause(DeliveryFormat.EMAIL, "me@example.org"),
        DeliverClause(DeliveryFormat.WEBHOOK, "https://example.org/hook?x=\\"),
        DeliverClause(DeliveryFormat.NOTIFY, "tgram://token/chat"),
    ]
)
templates = anything.map(lambda text: text.replace("{", "{{").replace("}", "}}") + "{title} [{source}]")
settings = st.builds(Assignment, st.sampled_from(SETTABLE_FIELDS).map(Field), templates, st.booleans())
statements: st.SearchStrategy[Statement] = st.one_of(
    st.builds(CreateFeed, named, queries(), st.just(True)),
    st.builds(RegisterFeed, addressed, named, st.lists(anything.filter(str.strip), max_size=3).map(tuple)),
    st.builds(DropFeed, named, st.booleans()),
)
