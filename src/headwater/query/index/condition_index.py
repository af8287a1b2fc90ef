"""Posts conditions under their rarest features, and finds the queries that an item may match.

A condition is posted under a few features; an item that meets it has at least one of them: the rarest word of a
conjunction, all words of a disjunction, or the source if that is rarer. Most conditions need little more than that, and
an entry can express it (`postings`). A condition of NOT alone is met by all items except those with the features of
what it excludes, and so is one of words and NOT by the items with the words. Any other condition is a rule with a tree
and sources; equal rules are shared.

An owner is a number. Dropping marks it as dead. The entries of a feature are cleaned when half of them are dead or when
an item has the feature, so a drop takes only a few steps on average.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count
from sys import intern

import numpy as np

from headwater.query.index import condition_tree, features
from headwater.query.index.access_path import FeatureShares
from headwater.query.index.condition_tree import (
    ALWAYS,
    AccessPath,
    AllOf,
    AnyOf,
    BranchNumbers,
    ConditionNode,
    ConditionRule,
    NoneOf,
    Phrase,
)
from headwater.query.index.features import ALL_SOURCES, FIELDS_BY_CODE, FeatureChannels, ItemFeatures, find_channel
from headwater.query.index.pattern_set import PatternSet, PrefixSet
from headwater.query.index.postings import ABSENT, EITHER, EXCEPT, FEATURE, NAMED, PHRASE, RULE, Postings
from headwater.query.items.analysed_item import AnalysedItem

CHEAPER_FACTOR = 4.0  # an entry moves only to a feature this many times rarer, because shares are noisy
MAX_GUARDED_ENTRIES = 16  # entries of a rule: each of its keys with each of the further features


@dataclass(frozen=True, slots=True)
class SeveralKeys:
    """The features under which an owner is posted, if there are several."""

    keys: tuple[str, ...]


PostingPlace = str | SeveralKeys | ConditionRule
"""The place where an owner of a simple or plain condition is posted."""


class ConditionIndex:
    """Maps features to the owners and rules posted under them."""

    def __init__(self, shares: FeatureShares) -> None:
        self.channels = FeatureChannels()
        self._shares = shares
        self._postings = Postings(self._open_feature, self._close_feature)
        self._alive = bytearray()
        self._phrases: dict[int, Phrase] = {}
        self._exclusions: dict[int, ConditionNode] = {}  # conditions of NOT alone that features do not decide
        self._rules: dict[int, ConditionRule] = {}
        self._rule_numbers = count()
        self._shared_rules: dict[tuple[ConditionNode, tuple[str, ...]], ConditionRule] = {}
        self._prefixes: dict[str, PrefixSet] = {}
        self._patterns: dict[str, PatternSet] = {}

    def _open_feature(self, key: str) -> None:
        head = find_channel(key)
        if head[1] in "*^":
            self._prefixes.setdefault(head, PrefixSet()).add(key[2:])
        elif head[1] == "~":
            self._patterns.setdefault(head, PatternSet()).add(key[2:])
        else:
            self.channels.open_channel(key)

    def _close_feature(self, key: str) -> None:
        head = find_channel(key)
        if head[1] in "*^":
            self._prefixes[head].drop(key[2:])
        elif head[1] == "~":
            self._patterns[head].drop(key[2:])

    # adding

    def add_owner(self) -> int:
        """Return the number of a new owner."""
        self._alive.append(1)
        return len(self._alive) - 1

    def post_simple(self, owner: int, tree: ConditionNode, source: str) -> PostingPlace | None:
        """Post a simple condition on the items of one source feed or of all. Return None if it is not simple."""
        if source != ALL_SOURCES:
            if tree == ALWAYS:
                return self._post_entry(owner, source, NAMED)
            return self._post_pair(owner, source, tree, NAMED) if isinstance(tree, str) else None
        if isinstance(tree, str):
            return self._post_entry(owner, tree) if tree[0] != "@" else None
        excluded = condition_tree.find_excluded(tree)
        if excluded is not None:
            return self._post_exclusion(owner, excluded)
        if isinstance(tree, AllOf):
            return self._post_conjunction(owner, tree.parts)
        if isinstance(tree, AnyOf):
            return self._post_disjunction(owner, tree.parts)
        path = condition_tree.find_access_path(tree, self._shares.estimate_share)
        if path is None:
            return None
        if isinstance(tree, Phrase) and not path.decides:
            return self._post_phrase(owner, path.keys[0], tree)
        return self._post_entry(owner, path.keys[0]) if path.decides and len(path.keys) == 1 else None

    def _post_conjunction(self, owner: int, parts: tuple[ConditionNode, ...]) -> PostingPlace | None:
        if not parts:
            return self._post_entry(owner, ALL_SOURCES)
        if len(parts) != 2:
            return self._post_words_without(owner, parts)
        one, two = parts
        if isinstance(one, NoneOf):
            one, two = two, one
        if not isinstance(one, str):
            return self._post_words_without(owner, parts)
        if one[0] == "@":  # an entry cannot require both ALL and another source
            return None
        if isinstance(two, str):
            return self._post_pair(owner, one, two) if two[0] != "@" else None
        if isinstance(two, NoneOf) and isinstance(two.part, str):
            return self._post_entry(owner, one, self._postings.feature_number(two.part) | ABSENT)
        return self._post_words_without(owner, parts)

    def _post_words_without(self, owner: int, parts: tuple[ConditionNode, ...]) -> PostingPlace | None:
        """Post a word, or any of several, with conditions that must not hold."""
        wanted, *more = [part for part in parts if not isinstance(part, NoneOf)] or [ALWAYS]
        excluded = condition_tree.find_excluded(AllOf(tuple(part for part in parts if isinstance(part, NoneOf))))
        if more or excluded is None:
            return None
        path = condition_tree.find_access_path(excluded, self._shares.estimate_share)
        if path is None:
            return None
        place: PostingPlace | None = None
        if isinstance(wanted, str) and wanted[0] != "@":
            place = self._post_entry(owner, wanted)
        elif isinstance(wanted, AnyOf):
            place = self._post_disjunction(owner, wanted.parts)
        if place is None:
            return None
        keys = (place,) if isinstance(place, str) else place.keys
        return SeveralKeys((*keys, *self._except_features(owner, excluded, path)))

    def _post_pair(self, owner: int, one: str, two: str, flag: int = 0) -> str:
        cost = self._shares.estimate_share
        if cost(two) < cost(one):
            one, two = two, one
        return self._post_entry(owner, one, self._postings.feature_number(two) | flag)

    def _post_phrase(self, owner: int, key: str, phrase: Phrase) -> str:
        """Post a phrase under one of its words. Require another of its words, if any, before the text is searched."""
        needle = phrase.needle
        parts = needle.split() if needle.endswith(" ") else needle.split()[:-1]
        found = (features.word_feature(phrase.field, part, phrase.exact) for part in parts)
        other = next((feature for feature in found if feature != key), key)
        self._phrases[owner] = phrase
        return self._post_entry(owner, key, self._postings.feature_number(other) | PHRASE)

    def _post_disjunction(self, owner: int, parts: tuple[ConditionNode, ...]) -> PostingPlace | None:
        keys = tuple(part for part in parts if isinstance(part, str) and part[0] != "@")
        if len(keys) < len(parts) or not keys:
            return None
        if len(keys) == 2:  # the second entry requires the absence of the first word, so an item matches once
            self._postings.add_entry(keys[0], owner)
            self._postings.add_entry(keys[1], owner, self._postings.feature_number(keys[0]) | ABSENT)
        else:
            for key in keys:
                self._postings.add_entry(key, owner, EITHER)
        return SeveralKeys(keys)

    def _post_exclusion(self, owner: int, excluded: ConditionNode) -> PostingPlace | None:
        """Post a condition that all items meet but those with a feature of what it excludes."""
        path = condition_tree.find_access_path(excluded, self._shares.estimate_share)
        if path is None:
            return None
        self._postings.add_entry(ALL_SOURCES, owner)
        return SeveralKeys((ALL_SOURCES, *self._except_features(owner, excluded, path)))

    def _except_features(self, owner: int, excluded: ConditionNode, path: AccessPath) -> tuple[str, ...]:
        """Post what a condition excludes, and return its features."""
        if not path.decides:
            self.open_features(excluded)
            self._exclusions[owner] = excluded
        for key in path.keys:
            self._postings.add_entry(key, owner, EXCEPT)
        return path.keys

    def _post_entry(self, owner: int, key: str, requirement: int = 0) -> str:
        self._postings.add_entry(key, owner, requirement)
        return key

    def post_rule(self, owner: int, rule: ConditionRule, numbers: BranchNumbers | None) -> ConditionRule:
        """Post a condition of any kind. An equal rule on equal sources is shared."""
        known = self._shared_rules.setdefault((rule.tree, rule.sources), rule)
        if known is rule:
            self.open_features(rule.tree)
            rule.number = next(self._rule_numbers)
            self._rules[rule.number] = rule
            self._post_rule_keys(rule, self._choose_keys(rule))
        if numbers is None:
            known.plain.append(owner)
        else:
            known.owners.append(owner)
            known.numbers.append(numbers)
        return known

    def open_features(self, tree: ConditionNode) -> None:
        """Extract the features that the tree looks up from every item."""
        for feature in condition_tree.list_asked_features(tree):
            self.channels.open_channel(feature)

    def _post_rule_keys(self, rule: ConditionRule, chosen: tuple[str, ...]) -> None:
        before, rule.keys = rule.keys, tuple(map(intern, chosen))
        for guard in self._choose_guards(rule):
            for key in rule.keys:
                if key not in before:
                    self._postings.add_entry(key, rule.number, guard | RULE)

    def _choose_keys(self, rule: ConditionRule) -> tuple[str, ...]:
        if rule.forced:
            return rule.sources
        cost = self._shares.estimate_share
        path = condition_tree.find_access_path(rule.tree, cost)
        if path is None or path.cost > sum(map(cost, rule.sources)):
            return rule.sources
        return path.keys

    def _choose_guards(self, rule: ConditionRule) -> list[int]:
        """Return the numbers of the rarest further features of which every item of the rule must have one, or 0."""
        if rule.forced:
            return [0]
        parts: tuple[ConditionNode, ...] = rule.tree.parts if isinstance(rule.tree, AllOf) else (rule.tree,)
        required = [part.parts if isinstance(part, AnyOf) else (part,) for part in parts]
        required.append(() if ALL_SOURCES in rule.sources else rule.sources)
        most = MAX_GUARDED_ENTRIES // len(rule.keys)
        guards = [guard for each in required if 0 < len(each) <= most and (guard := self._list_guards(rule, each))]
        if not guards:
            return [0]
        cost = self._shares.estimate_share
        return list(map(self._postings.feature_number, min(guards, key=lambda guard: sum(map(cost, guard)))))

    def _list_guards(self, rule: ConditionRule, parts: tuple[ConditionNode, ...]) -> tuple[str, ...]:
        """Return the parts if they are features that an item has from the beginning, and not the keys of the rule."""
        guards = tuple(part for part in parts if isinstance(part, str) and not part.startswith("@q"))
        return guards if len(guards) == len(parts) and not set(guards) & set(rule.keys) else ()

    # dropping

    def drop_owner(self, owner: int, at: PostingPlace) -> None:
        """Drop an owner. Its entries are removed when enough entries next to them are dead."""
        if isinstance(at, ConditionRule):
            at.plain.remove(owner)
            if not at.plain and not at.owners:
                self._drop_unowned_rule(at)
            return
        self._alive[owner] = 0
        self._phrases.pop(owner, None)
        self._exclusions.pop(owner, None)
        self._mark_dead((at,) if isinstance(at, str) else at.keys)

    def drop_rule_owner(self, owner: int, rule: ConditionRule) -> None:
        """Drop an owner of a rule that does more than filter."""
        number = rule.owners.index(owner)
        del rule.owners[number], rule.numbers[number]
        if not rule.plain and not rule.owners:
            self._drop_unowned_rule(rule)

    def _drop_unowned_rule(self, rule: ConditionRule) -> None:
        del self._shared_rules[rule.tree, rule.sources]
        del self._rules[rule.number]
        self._mark_dead(rule.keys)

    def _mark_dead(self, keys: Iterable[str]) -> None:
        for key in keys:
            if self._postings.mark_dead(key):
                self._remove_dead(key)

    def _remove_dead(self, key: str) -> None:
        self._postings.keep_entries(
            key, [entry for entry in self._postings.list_entries(key) if self._is_alive(key, *entry)]
        )

    def _is_alive(self, key: str, owner: int, requirement: int) -> bool:
        if requirement & RULE:
            rule = self._rules.get(owner)
            return rule is not None and key in rule.keys
        return bool(self._alive[owner])

    # matching

    def make_item_features(self, analysed: AnalysedItem, sources: Iterable[str]) -> ItemFeatures:
        """Return the item with all features that some entry or rule uses."""
        found = self.channels.extract_features(analysed)
        found.update(sources)
        for head, prefixes in self._prefixes.items():
            if len(prefixes):
                field = FIELDS_BY_CODE[head[0]]
                words = analysed.distinct_words(field) if head[1] == "*" else set(analysed.exact_words(field).split())
                found.update([head + prefix for prefix in prefixes.find_prefixes(words)])
        for head, patterns in self._patterns.items():
            if len(patterns):
                found.update(
                    [head + each for each in patterns.find_matching(analysed.field_texts(FIELDS_BY_CODE[head[0]]))]
                )
        return ItemFeatures(analysed, found)

    def use_compiled(self, wanted: bool) -> None:
        self._postings.compile = wanted

    def find_candidates(self, item_features: ItemFeatures) -> tuple[array[int], list[ConditionRule]]:
        """Return the owners of simple conditions that the item meets, and the rules that it may meet."""
        facts = item_features.features
        for key in self._postings.find_dead(facts):
            self._remove_dead(key)
        met, later = self._postings.find_matches(facts, named=ALL_SOURCES not in facts)
        rules: list[ConditionRule] = []
        either: set[int] = set()
        excluded: set[int] = set()
        for owner, requirement in zip(later[::2], later[1::2], strict=True):
            if requirement & EITHER:  # most of them
                either.add(owner)
            elif requirement & RULE:
                rules.append(self._rules[owner])
            elif requirement & EXCEPT:
                excluded.add(owner)
            elif self._phrases[owner].holds(item_features):
                met.append(owner)
        met.extend(either)
        return self._remove_excluded(met, excluded, item_features) if excluded else met, rules

    def _remove_excluded(self, met: array[int], excluded: set[int], item_features: ItemFeatures) -> array[int]:
        """Return the owners without those of a NOT whose excluded condition the item meets."""
        undecided = self._exclusions
        gone = [
            owner
            for owner in excluded
            if owner not in undecided or condition_tree.condition_holds(undecided[owner], item_features)
        ]
        owners = np.frombuffer(met, np.uint32)
        kept = np.ones(len(self._alive), np.bool_)
        kept[gone] = False
        return array("I", owners[kept[owners]].tobytes())

    def count_candidates(self, item_features: ItemFeatures) -> int:
        """Count the owners and rules under the item's features."""
        return sum(map(self._postings.count_entries, item_features.features))

    def list_rules(self, source: str) -> list[ConditionRule]:
        """Return the rules posted under a source."""
        asked = (
            (owner, requirement) for owner, requirement in self._postings.list_entries(source) if requirement & RULE
        )
        return [self._rules[owner] for owner, requirement in asked if self._is_alive(source, owner, requirement)]

    # re-posting

    def retune(self, item_features: ItemFeatures) -> list[tuple[int, str]]:
        """Move entries from the item's busiest feature to features that are now much rarer.

        Return the owners of moved simple conditions with their new features.
        """
        met = [key for key in item_features.features if key[0] != "@" and self._postings.count_entries(key)]
        if not met:
            return []
        key = max(met, key=self._postings.count_open_questions)
        self._remove_dead(key)
        below = self._shares.estimate_share(key) / CHEAPER_FACTOR
        paths = [(entry, self._find_cheaper_keys(key, *entry, below)) for entry in self._postings.list_entries(key)]
        moved = [place for entry, path in paths if path for place in self._move_entry(key, *entry, path)]
        if key in self._postings and any(path for _, path in paths):
            self._postings.keep_entries(key, [entry for entry, path in paths if not path])
        return moved

    def _find_cheaper_keys(self, key: str, owner: int, requirement: int, below: float) -> tuple[str, ...]:
        """Return rarer features for the entry if they cost less than `below`, otherwise nothing."""
        cost = self._shares.estimate_share
        chosen: tuple[str, ...] = ()
        if requirement & RULE:
            chosen = self._choose_keys(self._rules[owner])
        elif requirement & PHRASE:
            path = condition_tree.find_access_path(self._phrases[owner], cost)
            chosen = path.keys if path is not None else ()
        elif requirement & FEATURE and not requirement & ABSENT:
            chosen = (self._postings.feature_name(requirement),)
        return chosen if key not in chosen and sum(map(cost, chosen)) < below else ()

    def _move_entry(self, key: str, owner: int, requirement: int, path: tuple[str, ...]) -> Iterator[tuple[int, str]]:
        if requirement & RULE:
            rule = self._rules[owner]
            left = [each for each in rule.keys if each != key and each not in path]
            self._post_rule_keys(rule, path)
            self._mark_dead(left)
        elif requirement & PHRASE:
            yield owner, self._post_phrase(owner, path[0], self._phrases[owner])
        else:
            yield owner, self._post_entry(owner, path[0], self._postings.feature_number(key) | requirement & NAMED)
