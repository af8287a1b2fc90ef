"""The index over all conditions: from the features of an item to the queries it could come out of.

Every condition is posted under few features, of which an item must have one to meet it: the rarest word of a
conjunction, all words of a disjunction, the source where that is rarer. Most need little more than that. A posting
therefore keeps four kinds of owners apart:

    sure     nothing more to ask: one word, from any source
    either   as sure, but posted under several features, so that an item can meet it twice
    paired   one more feature to ask for
    rules    anything else, as a `Rule` with its tree and its sources; equal ones are shared

An owner is a number. Dropping marks it dead and a posting is cleaned when a part of it is, so that a drop never costs
more than a few steps on average.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from sys import intern

from headwater.query import nodes
from headwater.query.features import EVERYTHING, FIELDS, Channels, View, channel
from headwater.query.nodes import AllOf, Node
from headwater.query.patterns import Patterns
from headwater.query.prefixes import Prefixes
from headwater.query.shares import Shares
from headwater.query.text import Analysed

CHEAPER = 4.0  # a posting moves only to a feature so many times rarer: shares are noisy
MOVED_AT_ONCE = 64


Numbers = tuple[tuple[int, ...], ...]
"""Per source of a rule, the leaves of a query that it stands for."""


class Rule:
    """A condition on the items of some sources, and the owners that hear of it.

    `level` is 0 where all sources are source feeds, else one more than the highest query feed it reads. `numbers` is
    beside `owners`.
    """

    __slots__ = ("forced", "keys", "level", "numbers", "owners", "sources", "stamp", "tree")

    def __init__(self, tree: Node, sources: tuple[str, ...], level: int, forced: bool) -> None:
        self.tree = tree
        self.sources = sources
        self.level = level
        self.forced = forced  # found through its sources only, as one of them may change the item
        self.owners: list[int] = []
        self.numbers: list[Numbers] = []
        self.keys: tuple[str, ...] = ()
        self.stamp = -1


class Posting:
    """Who is found through one feature."""

    __slots__ = ("dead", "either", "needs", "paired", "rules", "sure")

    def __init__(self) -> None:
        self.sure: list[int] | tuple[()] = ()
        self.either: list[int] | tuple[()] = ()
        self.paired: list[int] | tuple[()] = ()
        self.needs: list[str] | tuple[()] = ()  # beside `paired`
        self.rules: list[Rule] | tuple[()] = ()
        self.dead = 0

    def __len__(self) -> int:
        return len(self.sure) + len(self.either) + len(self.paired) + len(self.rules)


Place = str | tuple[str, ...] | Rule
"""Where an owner is posted: under one feature, under several, or as a rule."""


class Index:
    def __init__(self, shares: Shares) -> None:
        self.channels = Channels()
        self._shares = shares
        self._postings: dict[str, Posting] = {}
        self._alive = bytearray()
        self._shared: dict[tuple[Node, tuple[str, ...]], Rule] = {}
        self._prefixes: dict[str, Prefixes] = {}
        self._patterns: dict[str, Patterns] = {}

    # adding

    def owner(self, number: int) -> None:
        """Make room for an owner; numbers count up."""
        self._alive.extend(b"\1" * (number + 1 - len(self._alive)))

    def post_simple(self, owner: int, tree: Node, source: str) -> Place | None:
        """Post a condition on the items of one source feed (or of all) if it is of a simple kind; else None."""
        cost = self._shares.cost
        parts: tuple[Node, ...] = tree.parts if isinstance(tree, AllOf) else (tree,)
        if source != EVERYTHING:
            parts = (source, *parts)
        elif any(feature[0] == "@" for feature in nodes.words_asked(tree)):
            return None  # ALL and a source of its own: both must hold, and the postings know one
        if len(parts) == 2:
            one, two = parts
            if not (isinstance(one, str) and isinstance(two, str)):
                return None
            if cost(two) < cost(one):
                one, two = two, one
            self._pair(owner, one, two)
            return one
        if not parts:
            return self._sure(owner, EVERYTHING)
        if len(parts) > 2:
            return None
        way = nodes.access(parts[0], cost)
        if way is None or not way.decides or not way.keys:
            return None
        if len(way.keys) == 1:
            return self._sure(owner, way.keys[0])
        for key in way.keys:
            posting = self._posting(key)
            posting.either = posting.either or []
            posting.either.append(owner)
        return way.keys

    def _sure(self, owner: int, key: str) -> str:
        posting = self._posting(key)
        posting.sure = posting.sure or []
        posting.sure.append(owner)
        return key

    def _pair(self, owner: int, key: str, need: str) -> None:
        posting = self._posting(key)
        if not posting.paired:
            posting.paired, posting.needs = [], []
        posting.paired.append(owner)
        posting.needs.append(intern(need))  # type: ignore[union-attr]
        self.channels.open(need)

    def post_rule(self, owner: int, rule: Rule, numbers: Numbers) -> Rule:
        """Post a condition of any kind; where an equal one on equal sources stands already, that is shared."""
        known = self._shared.setdefault((rule.tree, rule.sources), rule)
        if known is rule:
            for feature in nodes.words_asked(rule.tree):
                self.channels.open(feature)
            self._post(rule)
        known.owners.append(owner)
        known.numbers.append(numbers)
        return known

    def _post(self, rule: Rule) -> None:
        rule.keys = tuple(intern(key) for key in self._chosen(rule))
        for key in rule.keys:
            posting = self._posting(key)
            posting.rules = posting.rules or []
            posting.rules.append(rule)

    def _chosen(self, rule: Rule) -> tuple[str, ...]:
        if rule.forced:
            return rule.sources
        cost = self._shares.cost
        way = nodes.access(rule.tree, cost)
        if way is None or way.cost > sum(map(cost, rule.sources)):
            return rule.sources
        return way.keys

    def _posting(self, key: str) -> Posting:
        found = self._postings.get(key)
        if found is None:
            key = intern(key)
            found = self._postings[key] = Posting()
            head = channel(key)
            if head[1] in "*^":
                self._prefixes.setdefault(head, Prefixes()).add(key[2:])
            elif head[1] == "~":
                self._patterns.setdefault(head, Patterns()).add(key[2:])
            else:
                self.channels.open(key)
        return found

    # dropping

    def drop(self, owner: int, at: Place) -> None:
        """Take an owner away; what was posted for it is cleaned when enough of a posting is dead."""
        if isinstance(at, Rule):
            number = at.owners.index(owner)
            del at.owners[number], at.numbers[number]
            if at.owners:
                return
            del self._shared[at.tree, at.sources]
            keys = at.keys
        else:
            self._alive[owner] = 0
            keys = (at,) if isinstance(at, str) else at
        for key in keys:
            posting = self._postings[key]
            posting.dead += 1
            if posting.dead * 2 > len(posting):
                self._clean(key, posting)

    def _clean(self, key: str, posting: Posting) -> None:
        alive = self._alive
        posting.sure = [owner for owner in posting.sure if alive[owner]]
        posting.either = [owner for owner in posting.either if alive[owner]]
        pairs = [(o, n) for o, n in zip(posting.paired, posting.needs, strict=True) if alive[o]]
        posting.paired, posting.needs = [owner for owner, _ in pairs], [need for _, need in pairs]
        posting.rules = [rule for rule in posting.rules if rule.owners and key in rule.keys]
        posting.dead = 0
        if not len(posting):
            self._forget(key)

    def _forget(self, key: str) -> None:
        del self._postings[key]
        head = channel(key)
        if head[1] in "*^":
            self._prefixes[head].drop(key[2:])
        elif head[1] == "~":
            self._patterns[head].drop(key[2:])

    # matching

    def view(self, seen: Analysed, sources: Iterable[str]) -> View:
        """The item with all features that some posting or rule asks for."""
        found = self.channels.features(seen)
        found.update(sources)
        for head, prefixes in self._prefixes.items():
            if len(prefixes):
                field = FIELDS[head[0]]
                text = seen.joined(field) if head[1] == "*" else seen.exact(field)
                found.update([head + prefix for prefix in prefixes.starting(set(text.split()))])
        for head, patterns in self._patterns.items():
            if len(patterns):
                found.update([head + each for each in patterns.matching(seen.texts(FIELDS[head[0]]))])
        return View(seen, found)

    def candidates(self, view: View) -> tuple[list[int], list[Rule]]:
        """The owners of simple conditions that the item meets, and the rules it could meet."""
        features, postings = view.features, self._postings
        met: list[int] = []
        either: list[int] = []
        rules: list[Rule] = []
        listed = EVERYTHING in features
        for key in postings.keys() & features:
            posting = postings[key]
            if posting.dead:
                self._clean(key, posting)
            if listed or key[0] == "@":
                met += posting.sure
                either += posting.either
                if posting.paired:
                    met += [o for o, need in zip(posting.paired, posting.needs, strict=True) if need in features]
            elif posting.paired:  # from a feed that ALL does not read: only what names its source
                pairs = zip(posting.paired, posting.needs, strict=True)
                met += [owner for owner, need in pairs if need[0] == "@" and need in features]
            rules += posting.rules
        if either:
            met += set(either)
        return met, rules

    def rules_of(self, source: str) -> Sequence[Rule]:
        posting = self._postings.get(source)
        return posting.rules if posting is not None else ()
