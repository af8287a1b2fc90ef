"""The index over all conditions: from the features of an item to the queries it could come out of.

Every condition is posted under few features, of which an item must have one to meet it: the rarest word of a
conjunction, all words of a disjunction, the source where that is rarer. Most need little more than that. A posting
therefore keeps six kinds of owners apart, so that what is left to ask is asked of all of a kind at once:

    sure     nothing more to ask: one word, from any source
    either   as sure, but posted under several features, so that an item can meet it twice
    paired   one more feature to ask for: two words, or a word and a source
    barred   one feature that must not be there
    phrased  words in a row, to be looked for in the joined words of the field
    rules    anything else, as a `Rule` with its tree and its sources; equal ones are shared

An owner is a number. Dropping marks it dead and a posting is cleaned when a part of it is, so that a drop never costs
more than a few steps on average.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import compress
from operator import not_
from sys import intern

from headwater.query import features, nodes
from headwater.query.features import EVERYTHING, FIELDS, Channels, View, channel
from headwater.query.nodes import ALWAYS, AllOf, AnyOf, Node, Phrase, Refuse
from headwater.query.patterns import Patterns
from headwater.query.prefixes import Prefixes
from headwater.query.shares import Shares
from headwater.query.text import Analysed

CHEAPER = 4.0  # a posting moves only to a feature so many times rarer: shares are noisy


Numbers = tuple[tuple[int, ...], ...]
"""Per source of a rule, the leaves of a query that it stands for."""


class Rule:
    """A condition on the items of some sources, and the owners that hear of it.

    `level` is 0 where all sources are source feeds, else one more than the highest query feed it reads. `plain` are
    owners that have no other source and only filter; `numbers` is beside `owners`, who are all others.
    """

    __slots__ = ("forced", "keys", "level", "numbers", "owners", "plain", "sources", "stamp", "tree")

    def __init__(self, tree: Node, sources: tuple[str, ...], level: int, forced: bool) -> None:
        self.tree = tree
        self.sources = sources
        self.level = level
        self.forced = forced  # found through its sources only, as one of them may change the item
        self.plain: list[int] = []
        self.owners: list[int] = []
        self.numbers: list[Numbers] = []
        self.keys: tuple[str, ...] = ()
        self.stamp = -1


NOBODY = array("I")  # never changed


class Posting:
    """Who is found through one feature. What is not needed is shared and empty: there are many postings.

    Owners are in arrays of numbers: a list would hold a million objects, and taking a copy would touch each.
    """

    __slots__ = (
        "asides",
        "barred",
        "bars",
        "dead",
        "either",
        "needles",
        "needs",
        "paired",
        "phrased",
        "rules",
        "sure",
        "texts",
    )

    def __init__(self) -> None:
        self.sure = NOBODY
        self.either = NOBODY
        self.paired = NOBODY
        self.needs: list[str] | tuple[()] = ()  # beside `paired`
        self.barred = NOBODY
        self.bars: list[str] | tuple[()] = ()  # beside `barred`
        self.phrased = NOBODY
        self.needles: list[str] | tuple[()] = ()  # beside `phrased`
        self.asides: (
            list[str] | tuple[()]
        ) = ()  # beside `needles`: a feature of another word of the phrase, asked first
        self.texts = ""  # the channel whose joined words the needles are looked for in
        self.rules: list[Rule] | tuple[()] = ()
        self.dead = 0

    def __len__(self) -> int:
        owners = len(self.sure) + len(self.either) + len(self.paired) + len(self.barred) + len(self.phrased)
        return owners + len(self.rules)

    def work(self) -> int:
        """How many questions are left to ask of an item that has the feature."""
        return len(self.paired) + len(self.phrased) + 4 * len(self.rules)

    def add(self, kind: str, owner: int) -> None:
        found = getattr(self, kind)
        if found:
            found.append(owner)
        else:
            setattr(self, kind, array("I", (owner,)))

    def add_with(self, kind: str, owner: int, beside: str, what: str) -> None:
        found = getattr(self, kind)
        if found:
            found.append(owner)
            getattr(self, beside).append(what)
        else:
            setattr(self, kind, array("I", (owner,)))
            setattr(self, beside, [what])

    def clean(self, key: str, alive: bytearray) -> None:
        """Let go what was dropped or has moved away."""
        self.sure = array("I", [owner for owner in self.sure if alive[owner]])
        self.either = array("I", [owner for owner in self.either if alive[owner]])
        self.paired, self.needs = _living(self.paired, self.needs, alive)
        self.barred, self.bars = _living(self.barred, self.bars, alive)
        self.asides = [aside for owner, aside in zip(self.phrased, self.asides, strict=True) if alive[owner]]
        self.phrased, self.needles = _living(self.phrased, self.needles, alive)
        self.rules = [rule for rule in self.rules if (rule.owners or rule.plain) and key in rule.keys]
        self.dead = 0


def _living(owners: array[int], beside: Sequence[str], alive: bytearray) -> tuple[array[int], list[str]]:
    left = [(owner, what) for owner, what in zip(owners, beside, strict=True) if alive[owner]]
    return array("I", [owner for owner, _ in left]), [what for _, what in left]


@dataclass(frozen=True, slots=True)
class Several:
    """The features under which an owner is posted, where they are several."""

    keys: tuple[str, ...]


Place = str | Several | Rule
"""Where an owner of a simple or plain condition is posted."""


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
        if source != EVERYTHING:
            if tree == ALWAYS:
                return self._post_one("sure", owner, source)
            return self._post_pair(owner, source, tree) if isinstance(tree, str) else None
        if isinstance(tree, str):
            return self._post_one("sure", owner, tree) if tree[0] != "@" else None
        if isinstance(tree, AllOf):
            return self._post_conjunction(owner, tree.parts)
        if isinstance(tree, AnyOf):
            return self._post_either(owner, tree.parts)
        if isinstance(tree, Phrase):
            way = nodes.access(tree, self._shares.cost)
            if way is not None and not way.decides:
                (key,) = way.keys
                self._post_phrase(owner, key, tree.needle)
                return key
        way = nodes.access(tree, self._shares.cost)
        return self._post_one("sure", owner, way.keys[0]) if way and way.decides and len(way.keys) == 1 else None

    def _post_conjunction(self, owner: int, parts: tuple[Node, ...]) -> Place | None:
        if not parts:
            return self._post_one("sure", owner, EVERYTHING)
        if len(parts) != 2:
            return None
        one, two = parts
        if isinstance(one, Refuse):
            one, two = two, one
        if not isinstance(one, str) or one[0] == "@":  # ALL and a source: both must hold, and postings know one
            return None
        if isinstance(two, str):
            return self._post_pair(owner, one, two) if two[0] != "@" else None
        if isinstance(two, Refuse) and isinstance(two.part, str):
            self._posting(one).add_with("barred", owner, "bars", two.part)
            self.channels.open(two.part)
            return one
        return None

    def _post_pair(self, owner: int, one: str, two: str) -> str:
        cost = self._shares.cost
        if cost(two) < cost(one):
            one, two = two, one
        self._posting(one).add_with("paired", owner, "needs", two)
        self.channels.open(two)
        return one

    def _post_phrase(self, owner: int, key: str, needle: str) -> None:
        head = channel(key)
        parts = needle.split() if needle.endswith(" ") else needle.split()[:-1]
        found = (intern(features.word(FIELDS[head[0]], part, head[1] == "!")) for part in parts)
        posting = self._posting(key)
        posting.add_with("phrased", owner, "needles", needle)
        posting.texts = intern(head)
        posting.asides = posting.asides or []
        posting.asides.append(next((each for each in found if each != key), key))

    def _post_either(self, owner: int, parts: tuple[Node, ...]) -> Place | None:
        keys = tuple(part for part in parts if isinstance(part, str) and part[0] != "@")
        if len(keys) < len(parts) or not keys:
            return None
        for key in keys:
            self._posting(key).add("either", owner)
        return Several(keys)

    def _post_one(self, kind: str, owner: int, key: str) -> str:
        self._posting(key).add(kind, owner)
        return key

    def post_rule(self, owner: int, rule: Rule, numbers: Numbers | None) -> Rule:
        """Post a condition of any kind; where an equal one on equal sources stands already, that is shared."""
        known = self._shared.setdefault((rule.tree, rule.sources), rule)
        if known is rule:
            for feature in nodes.words_asked(rule.tree):
                self.channels.open(feature)
            self._post(rule)
        if numbers is None:
            known.plain.append(owner)
        else:
            known.owners.append(owner)
            known.numbers.append(numbers)
        return known

    def _post(self, rule: Rule) -> None:
        rule.keys = tuple(intern(key) for key in self._chosen(rule))
        for key in rule.keys:
            posting = self._posting(key)
            if posting.rules:
                posting.rules.append(rule)
            else:
                posting.rules = [rule]

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
            at.plain.remove(owner)
            if not at.plain and not at.owners:
                self._drop_unowned(at)
            return
        self._alive[owner] = 0
        self._bury((at,) if isinstance(at, str) else at.keys)

    def drop_rule(self, owner: int, rule: Rule) -> None:
        """Take away an owner that is more than plain."""
        number = rule.owners.index(owner)
        del rule.owners[number], rule.numbers[number]
        if not rule.plain and not rule.owners:
            self._drop_unowned(rule)

    def _drop_unowned(self, rule: Rule) -> None:
        del self._shared[rule.tree, rule.sources]
        self._bury(rule.keys)

    def _bury(self, keys: tuple[str, ...]) -> None:
        for key in keys:
            posting = self._postings[key]
            posting.dead += 1
            if posting.dead * 2 > len(posting):
                self._clean(key, posting)

    def _clean(self, key: str, posting: Posting) -> None:
        posting.clean(key, self._alive)
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

    def candidates(self, view: View) -> tuple[array[int], list[Rule]]:
        """The owners of simple conditions that the item meets, and the rules it could meet."""
        facts, postings = view.features, self._postings
        met, either, paired, barred = array("I"), array("I"), array("I"), array("I")
        needs: list[str] = []
        bars: list[str] = []
        phrased: dict[str, tuple[array[int], list[str], list[str]]] = {}
        rules: list[Rule] = []
        for key in postings.keys() & facts:
            posting = postings[key]
            if posting.dead:
                self._clean(key, posting)
            if posting.sure:
                met += posting.sure
            if posting.either:
                either += posting.either
            if posting.paired:
                paired += posting.paired
                needs += posting.needs
            if posting.barred:
                barred += posting.barred
                bars += posting.bars
            if posting.phrased:
                asked = phrased.get(posting.texts)
                if asked is None:
                    asked = phrased[posting.texts] = array("I"), [], []
                asked[0].extend(posting.phrased)
                asked[1].extend(posting.needles)
                asked[2].extend(posting.asides)
            if posting.rules:
                rules += posting.rules
        if EVERYTHING not in facts:
            return self._named_only(facts), rules
        has = facts.__contains__
        met.fromlist(list(compress(paired, map(has, needs))))
        if barred:
            met.fromlist(list(compress(barred, map(not_, map(has, bars)))))
        for head, (owners, needles, asides) in phrased.items():
            text = self._text(head, view.seen)
            possible = compress(zip(owners, needles, strict=True), map(has, asides))
            met.fromlist([owner for owner, needle in possible if needle in text])
        if either:
            met.fromlist(list(set(either)))
        return met, rules

    def _named_only(self, facts: set[str]) -> array[int]:
        """Of an item from a feed that ALL does not read: the owners that name its source."""
        met = array("I")
        for key in self._postings.keys() & facts:
            posting = self._postings[key]
            if key[0] == "@":
                met += posting.sure
            for owner, need in zip(posting.paired, posting.needs, strict=True):
                if need in facts and (key[0] == "@" or need[0] == "@"):
                    met.append(owner)
        return met

    @staticmethod
    def _text(head: str, seen: Analysed) -> str:
        field = FIELDS[head[0]]
        return seen.exact(field) if head[1] == "!" else seen.joined(field)

    # choosing again

    def retune(self, view: View) -> list[tuple[int, str]]:
        """Look again at the feature of the item under which most is left to ask: what has a feature by now many times
        rarer moves there. The owners of simple conditions that moved, with their new places."""
        met = [key for key in self._postings.keys() & view.features if key[0] != "@"]
        if not met:
            return []
        key = max(met, key=lambda each: self._postings[each].work())
        posting, here = self._postings[key], self._shares.cost(key) / CHEAPER
        for rule in posting.rules:
            self._move_rule(rule, here)
        return [*self._move_pairs(key, posting, here), *self._move_phrases(key, posting, here)]

    def _move_rule(self, rule: Rule, here: float) -> None:
        cost = self._shares.cost
        chosen = self._chosen(rule)
        if chosen != rule.keys and sum(map(cost, chosen)) < here:
            left = rule.keys
            self._post(rule)
            self._bury(tuple(key for key in left if key not in rule.keys))

    def _move_pairs(self, key: str, posting: Posting, here: float) -> Iterator[tuple[int, str]]:
        cost = self._shares.cost
        pairs = list(zip(posting.paired, posting.needs, strict=True))
        moved = [(owner, need) for owner, need in pairs if cost(need) < here]
        if moved:
            kept = [(owner, need) for owner, need in pairs if cost(need) >= here]
            posting.paired, posting.needs = array("I", [owner for owner, _ in kept]), [need for _, need in kept]
            for owner, need in moved:
                self._posting(need).add_with("paired", owner, "needs", key)
        yield from moved

    def _move_phrases(self, key: str, posting: Posting, here: float) -> Iterator[tuple[int, str]]:
        head = channel(key)
        field, exact = FIELDS[head[0]], head[1] == "!"
        phrases = [Phrase(field, needle, exact) for needle in posting.needles]
        ways = [nodes.access(phrase, self._shares.cost) for phrase in phrases]
        moving = [way is not None and way.cost < here for way in ways]
        if any(moving):
            left, stay = list(zip(posting.phrased, posting.needles, ways, strict=True)), list(map(not_, moving))
            posting.phrased = array("I", compress(posting.phrased, stay))
            posting.needles = list(compress(posting.needles, stay))
            posting.asides = list(compress(posting.asides, stay))
            for owner, needle, way in compress(left, moving):
                assert way is not None
                self._post_phrase(owner, way.keys[0], needle)
                yield owner, way.keys[0]

    def looked_at(self, view: View) -> int:
        """How many owners and rules stand under the item's features."""
        return sum(len(self._postings[key]) for key in self._postings.keys() & view.features)

    def rules_of(self, source: str) -> Sequence[Rule]:
        posting = self._postings.get(source)
        return posting.rules if posting is not None else ()
