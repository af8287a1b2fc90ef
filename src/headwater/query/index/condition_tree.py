"""Holds a condition as a tree of features, compact enough for a million of them, and shares equal ones.

A leaf that is a string is a feature: it holds for the items that have it. Conditions that features cannot express
are leaves with a compiled matcher. The access path of a tree are features of which each matching item has at least one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from sys import intern
from typing import NamedTuple, TypeAlias

from headwater.language.ast import (
    And,
    Condition,
    Contains,
    Equals,
    Field,
    FirstOfStory,
    Matches,
    Near,
    Not,
    Or,
    Similar,
    SourceIs,
    StoryAtom,
    StoryCount,
    StoryGrowing,
)
from headwater.query.index import features
from headwater.query.index.features import ItemFeatures
from headwater.query.index.matchers import Matcher, compile_matcher
from headwater.query.items.analysed_item import to_comparable
from headwater.query.items.similarity import TOLERANCE, WordFrequencies
from headwater.query.items.tokens import compile_symbols, search_key, split_words
from headwater.query.stories.story_views import StoryView

FeatureCost = Callable[[str], float]
"""The share of items that have a feature."""


class AccessPath(NamedTuple):
    """Features of which an item must have at least one. `decides` says that one is also sufficient."""

    cost: float
    keys: tuple[str, ...]
    decides: bool


@dataclass(frozen=True, slots=True)
class AllOf:
    parts: tuple[ConditionNode, ...]

    def holds(self, item_features: ItemFeatures) -> bool:
        features = item_features.features
        for part in self.parts:  # noqa: SIM110 - half the time of all(…), and called for every candidate
            if not (part in features if type(part) is str else part.holds(item_features)):  # type: ignore[union-attr]
                return False
        return True


@dataclass(frozen=True, slots=True)
class AnyOf:
    parts: tuple[ConditionNode, ...]

    def holds(self, item_features: ItemFeatures) -> bool:
        features = item_features.features
        for part in self.parts:  # noqa: SIM110 - as above
            if part in features if type(part) is str else part.holds(item_features):  # type: ignore[union-attr]
                return True
        return False


@dataclass(frozen=True, slots=True)
class NoneOf:
    part: ConditionNode

    def holds(self, item_features: ItemFeatures) -> bool:
        return not condition_holds(self.part, item_features)


@dataclass(frozen=True, slots=True)
class Phrase:
    """Consecutive words, or the start of a word, searched in the joined words of a field."""

    field: Field
    needle: str
    exact: bool

    def holds(self, item_features: ItemFeatures) -> bool:
        analysed = item_features.analysed
        return self.needle in (analysed.exact_words(self.field) if self.exact else analysed.joined_words(self.field))


@dataclass(frozen=True, slots=True)
class Residual:
    """Any other condition, compiled on first use. `guard` is a weaker condition that has features."""

    condition: Condition
    frequencies: WordFrequencies = field(compare=False, repr=False)
    guard: ConditionNode | None = field(default=None, compare=False)
    _compiled: list[Matcher] = field(default_factory=list, compare=False, repr=False)

    def holds(self, item_features: ItemFeatures) -> bool:
        if not self._compiled:
            self._compiled.append(compile_matcher(self.condition, self.frequencies))
        return self._compiled[0](item_features.analysed)


@dataclass(frozen=True, slots=True)
class StoryTest:
    """A condition on the story of the item, as the view of a query counts it."""

    condition: StoryAtom
    view: StoryView

    def holds(self, item_features: ItemFeatures) -> bool:
        facts = None if item_features.stories is None else item_features.stories.find_facts(self.view)
        return facts is not None and facts.holds(self.condition)


ConditionNode: TypeAlias = str | AllOf | AnyOf | NoneOf | Phrase | Residual | StoryTest

ALWAYS = AllOf(())
NEVER = AnyOf(())


def build_tree(condition: Condition, frequencies: WordFrequencies, view: StoryView | None = None) -> ConditionNode:
    """Build the tree of a condition in normal form. Conditions on stories look at the `view` of their query."""
    match condition:
        case Contains(field, values, every, exact):
            if len(values) == 1:
                return _build_contained(field, values[0], exact, frequencies)
            found = [_build_contained(field, value, exact, frequencies) for value in values]
            return _all_of(found) if every else _any_of(found)
        case And(parts):
            return _all_of(build_tree(part, frequencies, view) for part in parts)
        case Or(parts):
            return _any_of(build_tree(part, frequencies, view) for part in parts)
        case Not(part):
            return NoneOf(build_tree(part, frequencies, view))
        case Equals(field, values, every, negated):
            names = [intern(features.value_feature(field, to_comparable(field, value))) for value in values]
            whole = _all_of(names) if every else _any_of(names)
            return NoneOf(whole) if negated else whole
        case SourceIs(sources, negated):
            one = _any_of(features.source_feature(source) for source in sources)
            return NoneOf(one) if negated else one
        case Near(field, left, _, right):
            return Residual(
                condition,
                frequencies,
                _all_of((_build_words(field, left, False), _build_words(field, right, False))),
            )
        case Similar(field, text, at):
            frequencies.track_field(field)
            # a cosine above 0 needs a common word
            shared = _any_of(intern(features.word_feature(field, each)) for each in split_words(text))
            return Residual(condition, frequencies, shared if at > TOLERANCE else None)
        case StoryCount() | FirstOfStory() | StoryGrowing():
            return StoryTest(condition, StoryView("") if view is None else view)
        case _:
            return Residual(condition, frequencies)


def _all_of(parts: Iterable[ConditionNode]) -> ConditionNode:
    flat: dict[ConditionNode, None] = {}
    for part in parts:
        flat.update(dict.fromkeys(part.parts if isinstance(part, AllOf) else (part,)))
    return next(iter(flat)) if len(flat) == 1 else AllOf(tuple(flat))


def _any_of(parts: Iterable[ConditionNode]) -> ConditionNode:
    flat: dict[ConditionNode, None] = {}
    for part in parts:
        flat.update(dict.fromkeys(part.parts if isinstance(part, AnyOf) else (part,)))
    return next(iter(flat)) if len(flat) == 1 else AnyOf(tuple(flat))


def _build_contained(field: Field, value: str, exact: bool, frequencies: WordFrequencies) -> ConditionNode:
    if value.isascii() and value.isalnum():  # a single word, the most common case
        return intern(features.word_feature(field, value if exact else value.lower(), exact))
    words = _build_words(field, value, exact)
    if compile_symbols(value, exact) is None:
        return words
    return Residual(Contains(field, (value,), exact=exact), frequencies, words)


def _build_words(field: Field, value: str, exact: bool) -> ConditionNode:
    wanted = search_key(value, exact)
    if not wanted:  # folding removed everything, so it occurs in no text
        return NEVER
    if wanted.endswith(" ") and wanted.count(" ") == 2:
        return intern(features.word_feature(field, wanted[1:-1], exact))
    return Phrase(field, wanted, exact)


def condition_holds(tree: ConditionNode, item_features: ItemFeatures) -> bool:
    """Return whether the item meets the condition."""
    return tree in item_features.features if isinstance(tree, str) else tree.holds(item_features)


def uses_features_only(tree: ConditionNode) -> bool:
    """Return whether the condition is decided by features and phrases, at next to no cost."""
    match tree:
        case AllOf(parts) | AnyOf(parts):
            return all(map(uses_features_only, parts))
        case NoneOf(part):
            return uses_features_only(part)
        case _:
            return isinstance(tree, str | Phrase)


def find_excluded(tree: ConditionNode) -> ConditionNode | None:
    """Return what a condition that consists of NOT alone excludes; None for any other condition."""
    parts = tree.parts if isinstance(tree, AllOf) else (tree,)
    excluded = [part.part for part in parts if isinstance(part, NoneOf)]
    return _any_of(excluded) if excluded and len(excluded) == len(parts) else None


def find_access_path(tree: ConditionNode, cost: FeatureCost) -> AccessPath | None:
    """Return the cheapest features that find every item meeting the condition; None if all items must be tested."""
    match tree:
        case str():
            return AccessPath(cost(tree), (tree,), True)
        case AllOf(parts):
            paths = [path for part in parts if (path := find_access_path(part, cost)) is not None]
            return min(paths)._replace(decides=False) if paths else None
        case AnyOf(parts):
            return _unite_paths([find_access_path(part, cost) for part in parts])
        case Phrase(field, wanted, exact):
            return _find_phrase_path(field, wanted, exact, cost)
        case Residual(condition, _, guard):
            if isinstance(condition, Matches):
                flags = "(?i)" if condition.ignore_case else ""
                key = f"{features.FIELD_CODES[condition.field]}~{flags}{condition.pattern}"
                return AccessPath(cost(key), (key,), True)
            path = None if guard is None else find_access_path(guard, cost)
            return None if path is None else path._replace(decides=False)
        case NoneOf() | StoryTest():
            return None


def _find_phrase_path(field: Field, wanted: str, exact: bool, cost: FeatureCost) -> AccessPath:
    parts = wanted.split()
    if not wanted.endswith(" "):
        start = parts.pop()
        if not parts:
            key = f"{features.FIELD_CODES[field]}{'^' if exact else '*'}{start}"
            return AccessPath(cost(key), (key,), True)
    keys = [features.word_feature(field, part, exact) for part in parts]
    costs = [(cost(key), key) for key in keys]
    cheapest, key = min(costs)
    return AccessPath(cheapest, (intern(key),), False)


def _unite_paths(paths: list[AccessPath | None]) -> AccessPath | None:
    found = [path for path in paths if path is not None]
    if len(found) < len(paths):
        return None
    keys = tuple(dict.fromkeys(key for path in found for key in path.keys))
    return AccessPath(sum(path.cost for path in found), keys, all(path.decides for path in found))


def list_asked_features(tree: ConditionNode) -> Iterable[str]:
    """Yield the features that `holds` looks up."""
    match tree:
        case str():
            yield tree
        case AllOf(parts) | AnyOf(parts):
            for part in parts:
                yield from list_asked_features(part)
        case NoneOf(part):
            yield from list_asked_features(part)


BranchNumbers = tuple[tuple[int, ...], ...]
"""For each source of a rule, the numbers of the query's branches that it stands for."""


class ConditionRule:
    """A condition on the items of some sources, shared by all queries that contain it.

    `level` is 0 if all sources are source feeds, otherwise one more than the highest level of the query feeds it reads.
    `plain` are owners with no other source that only filter. `owners` are all others, with their branches in
    `numbers`. `number` identifies the rule in the index.
    """

    __slots__ = ("forced", "keys", "level", "number", "numbers", "owners", "plain", "sources", "stamp", "tree")

    def __init__(self, tree: ConditionNode, sources: tuple[str, ...], level: int, forced: bool) -> None:
        self.tree = tree
        self.sources = sources
        self.level = level
        self.forced = forced  # found through its sources only, because one of them may rewrite the item
        self.plain: list[int] = []
        self.owners: list[int] = []
        self.numbers: list[BranchNumbers] = []
        self.keys: tuple[str, ...] = ()
        self.number = -1
        self.stamp = -1


def match_sources(
    rule: ConditionRule, item_features: ItemFeatures, rewritten: Mapping[str, ItemFeatures]
) -> Iterator[tuple[int, ItemFeatures]]:
    """Yield the positions of the rule's sources through which the item meets its condition, with the item of each."""
    features, tree = item_features.features, rule.tree
    holds: bool | None = None  # on the original item, evaluated once
    for position, source in enumerate(rule.sources):
        if source in features:
            if source in rewritten:
                if condition_holds(tree, rewritten[source]):
                    yield position, rewritten[source]
                continue
            if holds is None:
                holds = condition_holds(tree, item_features)
            if holds:
                yield position, item_features
