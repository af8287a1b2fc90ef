"""Conditions as the engine holds them: small trees of features, compact enough to keep a million.

A leaf that is a string is a feature, true of the items that have it. What features cannot say is left to the test
that the reference uses. Every node names the features that an item must have one of to meet it: its access.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from sys import intern
from typing import NamedTuple, TypeAlias

from headwater.language.ast import (
    And,
    Condition,
    Contains,
    Equals,
    Field,
    Matches,
    Near,
    Not,
    Or,
    Similar,
    SourceIs,
)
from headwater.query.index import features
from headwater.query.index.features import ItemFeatures
from headwater.query.index.matchers import Matcher, compile_matcher
from headwater.query.items.analysed_item import to_comparable
from headwater.query.items.similarity import TOLERANCE, WordFrequencies
from headwater.query.items.tokens import search_key, split_words

FeatureCost = Callable[[str], float]
"""The share of items that have a feature."""


class AccessPath(NamedTuple):
    """Features of which an item must have one; `decides`: one is enough."""

    cost: float
    keys: tuple[str, ...]
    decides: bool


@dataclass(frozen=True, slots=True)
class AllOf:
    parts: tuple[ConditionNode, ...]

    def holds(self, view: ItemFeatures) -> bool:
        features = view.features
        for part in self.parts:  # noqa: SIM110 - half the time of all(…), and asked of every candidate
            if not (part in features if type(part) is str else part.holds(view)):  # type: ignore[union-attr]
                return False
        return True


@dataclass(frozen=True, slots=True)
class AnyOf:
    parts: tuple[ConditionNode, ...]

    def holds(self, view: ItemFeatures) -> bool:
        features = view.features
        for part in self.parts:  # noqa: SIM110 - as above
            if part in features if type(part) is str else part.holds(view):  # type: ignore[union-attr]
                return True
        return False


@dataclass(frozen=True, slots=True)
class NoneOf:
    part: ConditionNode

    def holds(self, view: ItemFeatures) -> bool:
        return not condition_holds(self.part, view)


@dataclass(frozen=True, slots=True)
class Phrase:
    """Words in a row, or the start of a word, looked for in the joined words of a field."""

    field: Field
    needle: str
    exact: bool

    def holds(self, view: ItemFeatures) -> bool:
        return self.needle in (view.seen.exact_words(self.field) if self.exact else view.seen.joined_words(self.field))


@dataclass(frozen=True, slots=True)
class Residual:
    """Anything else: the reference's test, made when first needed; `guard` is a weaker condition that has features."""

    pred: Condition
    frequencies: WordFrequencies = field(compare=False, repr=False)
    guard: ConditionNode | None = field(default=None, compare=False)
    _made: list[Matcher] = field(default_factory=list, compare=False, repr=False)

    def holds(self, view: ItemFeatures) -> bool:
        if not self._made:
            self._made.append(compile_matcher(self.pred, self.frequencies))
        return self._made[0](view.seen)


ConditionNode: TypeAlias = str | AllOf | AnyOf | NoneOf | Phrase | Residual

ALWAYS = AllOf(())
NEVER = AnyOf(())


def build_tree(pred: Condition, frequencies: WordFrequencies) -> ConditionNode:
    """The tree of a condition in normal form."""
    match pred:
        case Contains(field, values, every, exact):
            if len(values) == 1:
                return _build_contained(field, values[0], exact)
            found = [_build_contained(field, value, exact) for value in values]
            return _all_of(found) if every else _any_of(found)
        case And(parts):
            return _all_of(build_tree(part, frequencies) for part in parts)
        case Or(parts):
            return _any_of(build_tree(part, frequencies) for part in parts)
        case Not(part):
            return NoneOf(build_tree(part, frequencies))
        case Equals(field, values, every, negated):
            names = [intern(features.value_feature(field, to_comparable(field, value))) for value in values]
            whole = _all_of(names) if every else _any_of(names)
            return NoneOf(whole) if negated else whole
        case SourceIs(sources, negated):
            one = _any_of(features.source_feature(source) for source in sources)
            return NoneOf(one) if negated else one
        case Near(field, left, _, right):
            return Residual(
                pred,
                frequencies,
                _all_of((_build_contained(field, left, False), _build_contained(field, right, False))),
            )
        case Similar(field, text, at):
            frequencies.track_field(field)
            # a cosine above 0 needs a word in common
            shared = _any_of(intern(features.word_feature(field, each)) for each in split_words(text))
            return Residual(pred, frequencies, shared if at > TOLERANCE else None)
        case _:
            return Residual(pred, frequencies)


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


def _build_contained(field: Field, value: str, exact: bool) -> ConditionNode:
    if value.isascii() and value.isalnum():  # one word, the commonest: no need to look for others
        return intern(features.word_feature(field, value if exact else value.lower(), exact))
    wanted = search_key(value, exact)
    if not wanted:  # nothing is left of it: it stands in no text
        return NEVER
    if wanted.endswith(" ") and wanted.count(" ") == 2:
        return intern(features.word_feature(field, wanted[1:-1], exact))
    return Phrase(field, wanted, exact)


def condition_holds(tree: ConditionNode, view: ItemFeatures) -> bool:
    """Whether the item meets the condition."""
    return tree in view.features if isinstance(tree, str) else tree.holds(view)


def find_access_path(tree: ConditionNode, cost: FeatureCost) -> AccessPath | None:
    """The cheapest features through which every item that meets the condition can be found; None: all must be looked
    at."""
    match tree:
        case str():
            return AccessPath(cost(tree), (tree,), True)
        case AllOf(parts):
            ways = [way for part in parts if (way := find_access_path(part, cost)) is not None]
            return min(ways)._replace(decides=False) if ways else None
        case AnyOf(parts):
            return _unite_paths([find_access_path(part, cost) for part in parts])
        case Phrase(field, wanted, exact):
            return _find_phrase_path(field, wanted, exact, cost)
        case Residual(pred, _, guard):
            if isinstance(pred, Matches):
                key = f"{features.FIELD_CODES[pred.field]}~{'(?i)' if pred.ignore_case else ''}{pred.pattern}"
                return AccessPath(cost(key), (key,), True)
            way = None if guard is None else find_access_path(guard, cost)
            return None if way is None else way._replace(decides=False)
        case NoneOf():
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


def _unite_paths(ways: list[AccessPath | None]) -> AccessPath | None:
    found = [way for way in ways if way is not None]
    if len(found) < len(ways):
        return None
    keys = tuple(dict.fromkeys(key for way in found for key in way.keys))
    return AccessPath(sum(way.cost for way in found), keys, all(way.decides for way in found))


def list_asked_features(tree: ConditionNode) -> Iterable[str]:
    """The features that `holds` asks for."""
    match tree:
        case str():
            yield tree
        case AllOf(parts) | AnyOf(parts):
            for part in parts:
                yield from list_asked_features(part)
        case NoneOf(part):
            yield from list_asked_features(part)


BranchNumbers = tuple[tuple[int, ...], ...]
"""Per source of a rule, the leaves of a query that it stands for."""


class ConditionRule:
    """A condition on the items of some sources, and the owners that hear of it.

    `level` is 0 where all sources are source feeds, else one more than the highest query feed it reads. `plain` are
    owners that have no other source and only filter; `numbers` is beside `owners`, who are all others. `number` is the
    rule's own, under which it is posted.
    """

    __slots__ = ("forced", "keys", "level", "number", "numbers", "owners", "plain", "sources", "stamp", "tree")

    def __init__(self, tree: ConditionNode, sources: tuple[str, ...], level: int, forced: bool) -> None:
        self.tree = tree
        self.sources = sources
        self.level = level
        self.forced = forced  # found through its sources only, as one of them may change the item
        self.plain: list[int] = []
        self.owners: list[int] = []
        self.numbers: list[BranchNumbers] = []
        self.keys: tuple[str, ...] = ()
        self.number = -1
        self.stamp = -1
