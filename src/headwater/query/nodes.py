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
    Contains,
    Equals,
    Field,
    Matches,
    Near,
    Not,
    Or,
    Pred,
    Similar,
    SourceIs,
)
from headwater.query import features
from headwater.query.features import View
from headwater.query.predicate import Test, compile_predicate
from headwater.query.similar import TOLERANCE, Frequencies
from headwater.query.text import compared
from headwater.query.words import needle, words

Cost = Callable[[str], float]
"""The share of items that have a feature."""


class Access(NamedTuple):
    """Features of which an item must have one; `decides`: one is enough."""

    cost: float
    keys: tuple[str, ...]
    decides: bool


@dataclass(frozen=True, slots=True)
class AllOf:
    parts: tuple[Node, ...]

    def holds(self, view: View) -> bool:
        features = view.features
        for part in self.parts:  # noqa: SIM110 - half the time of all(…), and asked of every candidate
            if not (part in features if type(part) is str else part.holds(view)):  # type: ignore[union-attr]
                return False
        return True


@dataclass(frozen=True, slots=True)
class AnyOf:
    parts: tuple[Node, ...]

    def holds(self, view: View) -> bool:
        features = view.features
        for part in self.parts:  # noqa: SIM110 - as above
            if part in features if type(part) is str else part.holds(view):  # type: ignore[union-attr]
                return True
        return False


@dataclass(frozen=True, slots=True)
class Refuse:
    part: Node

    def holds(self, view: View) -> bool:
        return not holds(self.part, view)


@dataclass(frozen=True, slots=True)
class Phrase:
    """Words in a row, or the start of a word, looked for in the joined words of a field."""

    field: Field
    needle: str
    exact: bool

    def holds(self, view: View) -> bool:
        return self.needle in (view.seen.exact(self.field) if self.exact else view.seen.joined(self.field))


@dataclass(frozen=True, slots=True)
class Other:
    """Anything else: the reference's test, made when first needed; `guard` is a weaker condition that has features."""

    pred: Pred
    frequencies: Frequencies = field(compare=False, repr=False)
    guard: Node | None = field(default=None, compare=False)
    _made: list[Test] = field(default_factory=list, compare=False, repr=False)

    def holds(self, view: View) -> bool:
        if not self._made:
            self._made.append(compile_predicate(self.pred, self.frequencies))
        return self._made[0](view.seen)


Node: TypeAlias = str | AllOf | AnyOf | Refuse | Phrase | Other

ALWAYS = AllOf(())
NEVER = AnyOf(())


def node(pred: Pred, frequencies: Frequencies) -> Node:
    """The tree of a condition in normal form."""
    match pred:
        case Contains(field, values, every, exact):
            if len(values) == 1:
                return _contained(field, values[0], exact)
            found = [_contained(field, value, exact) for value in values]
            return _all(found) if every else _any(found)
        case And(parts):
            return _all(node(part, frequencies) for part in parts)
        case Or(parts):
            return _any(node(part, frequencies) for part in parts)
        case Not(part):
            return Refuse(node(part, frequencies))
        case Equals(field, values, every, negated):
            names = [intern(features.whole(field, compared(field, value))) for value in values]
            whole = _all(names) if every else _any(names)
            return Refuse(whole) if negated else whole
        case SourceIs(sources, negated):
            one = _any(features.source(source) for source in sources)
            return Refuse(one) if negated else one
        case Near(field, left, _, right):
            return Other(pred, frequencies, _all((_contained(field, left, False), _contained(field, right, False))))
        case Similar(field, text, at):
            frequencies.track(field)
            # a cosine above 0 needs a word in common
            shared = _any(intern(features.word(field, each)) for each in words(text))
            return Other(pred, frequencies, shared if at > TOLERANCE else None)
        case _:
            return Other(pred, frequencies)


def _all(parts: Iterable[Node]) -> Node:
    flat: dict[Node, None] = {}
    for part in parts:
        flat.update(dict.fromkeys(part.parts if isinstance(part, AllOf) else (part,)))
    return next(iter(flat)) if len(flat) == 1 else AllOf(tuple(flat))


def _any(parts: Iterable[Node]) -> Node:
    flat: dict[Node, None] = {}
    for part in parts:
        flat.update(dict.fromkeys(part.parts if isinstance(part, AnyOf) else (part,)))
    return next(iter(flat)) if len(flat) == 1 else AnyOf(tuple(flat))


def _contained(field: Field, value: str, exact: bool) -> Node:
    if value.isascii() and value.isalnum():  # one word, the commonest: no need to look for others
        return intern(features.word(field, value if exact else value.lower(), exact))
    wanted = needle(value, exact)
    if not wanted:  # nothing is left of it: it stands in no text
        return NEVER
    if wanted.endswith(" ") and wanted.count(" ") == 2:
        return intern(features.word(field, wanted[1:-1], exact))
    return Phrase(field, wanted, exact)


def holds(tree: Node, view: View) -> bool:
    """Whether the item meets the condition."""
    return tree in view.features if isinstance(tree, str) else tree.holds(view)


def access(tree: Node, cost: Cost) -> Access | None:
    """The cheapest features through which every item that meets the condition can be found; None: all must be looked
    at."""
    match tree:
        case str():
            return Access(cost(tree), (tree,), True)
        case AllOf(parts):
            ways = [way for part in parts if (way := access(part, cost)) is not None]
            return min(ways)._replace(decides=False) if ways else None
        case AnyOf(parts):
            return _union([access(part, cost) for part in parts])
        case Phrase(field, wanted, exact):
            return _phrase_access(field, wanted, exact, cost)
        case Other(pred, _, guard):
            if isinstance(pred, Matches):
                key = f"{features.CODES[pred.field]}~{'(?i)' if pred.ignore_case else ''}{pred.pattern}"
                return Access(cost(key), (key,), True)
            way = None if guard is None else access(guard, cost)
            return None if way is None else way._replace(decides=False)
        case Refuse():
            return None


def _phrase_access(field: Field, wanted: str, exact: bool, cost: Cost) -> Access:
    parts = wanted.split()
    if not wanted.endswith(" "):
        start = parts.pop()
        if not parts:
            key = f"{features.CODES[field]}{'^' if exact else '*'}{start}"
            return Access(cost(key), (key,), True)
    keys = [features.word(field, part, exact) for part in parts]
    costs = [(cost(key), key) for key in keys]
    cheapest, key = min(costs)
    return Access(cheapest, (intern(key),), False)


def _union(ways: list[Access | None]) -> Access | None:
    found = [way for way in ways if way is not None]
    if len(found) < len(ways):
        return None
    keys = tuple(dict.fromkeys(key for way in found for key in way.keys))
    return Access(sum(way.cost for way in found), keys, all(way.decides for way in found))


def words_asked(tree: Node) -> Iterable[str]:
    """The features that `holds` asks for."""
    match tree:
        case str():
            yield tree
        case AllOf(parts) | AnyOf(parts):
            for part in parts:
                yield from words_asked(part)
        case Refuse(part):
            yield from words_asked(part)
