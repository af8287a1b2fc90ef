"""Reduces a query to one condition per source.

The normal form is ⋃_b σ_{f_b ∧ W_b}(S_b): f_b are the filters of branch b and of its groups. W_b is WHERE with
each $v[p] replaced by p if v names the branch or a group around it, and by TRUE otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from headwater.language.ast import (
    AllSources,
    And,
    Branch,
    Changed,
    Condition,
    FeedAddress,
    FeedName,
    FirstOfStory,
    Join,
    Not,
    Or,
    Query,
    Scoped,
    SourceGroup,
    StoryCount,
    StoryGrowing,
    TaggedSources,
    conjoin_conditions,
)

STORY_VALUES = ("{story.sources}", "{story.items}")  # in the templates of SET
_STORY_KINDS: frozenset[type] = frozenset({StoryCount, FirstOfStory, StoryGrowing})
_CHANGE_KINDS: frozenset[type] = frozenset({Changed})


@dataclass(frozen=True, slots=True)
class QuerySource:
    """One source of a query and the condition on its items. `vars` are its variables, the innermost last."""

    source: FeedAddress | FeedName | TaggedSources | AllSources
    condition: Condition
    vars: tuple[str, ...] = ()


def list_sources(query: Query) -> tuple[QuerySource, ...]:
    """Return the sources of the query in the order of the text."""
    return tuple(_walk_sources(query.branches, (), (), _split_conjuncts(query.where)))


def list_counted_sources(query: Query) -> tuple[QuerySource, ...]:
    """Return the sources with their own conditions alone: the items that the query's stories count."""
    scoped = tuple(part for part in _split_conjuncts(query.where) if isinstance(part, Scoped))
    return tuple(_walk_sources(query.branches, (), (), scoped))


def uses_stories(query: Query) -> bool:
    """Return whether the query asks for the stories of items. Conditions on stories stand in WHERE alone."""
    if query.each_story or any(place in setting.template for setting in query.settings for place in STORY_VALUES):
        return True
    return query.where is not None and _contains_kind(query.where, _STORY_KINDS)


def uses_changes(query: Query) -> bool:
    """Return whether the query compares items with their earlier versions."""
    return any(_contains_kind(condition, _CHANGE_KINDS) for condition in list_conditions(query))


def _contains_kind(condition: Condition, kinds: frozenset[type]) -> bool:
    """Return whether a part is of one of these classes. Every new query is asked, so it is not built on a walk."""
    if type(condition) in kinds:
        return True
    if type(condition) is And or type(condition) is Or:
        return any(_contains_kind(part, kinds) for part in condition.parts)
    if type(condition) is Not or type(condition) is Scoped:
        return _contains_kind(condition.part, kinds)
    return False


def list_join_sources(query: Query, join: Join) -> tuple[QuerySource, ...]:
    """Return the sources of a join's secondary side. Of WHERE, only conditions scoped to the join apply."""
    scoped = tuple(part for part in _split_conjuncts(query.where) if isinstance(part, Scoped))
    return tuple(_walk_sources((join.branch,), (), (), scoped))


def _split_conjuncts(where: Condition | None) -> tuple[Condition, ...]:
    if where is None:
        return ()
    return where.parts if isinstance(where, And) else (where,)


def _walk_sources(
    branches: Iterable[Branch], filters: tuple[Condition, ...], names: tuple[str, ...], where: tuple[Condition, ...]
) -> Iterator[QuerySource]:
    for branch in branches:
        inner = filters if branch.filter is None else (*filters, branch.filter)
        reached = names if branch.var is None else (*names, branch.var)
        if isinstance(branch.source, SourceGroup):
            yield from _walk_sources(branch.source.branches, inner, reached, where)
        else:
            unscoped = (part for part in where if not isinstance(part, Scoped))
            scoped = (part.part for part in where if isinstance(part, Scoped) and part.var in reached)
            yield QuerySource(branch.source, conjoin_conditions((*inner, *unscoped, *scoped)), reached)


def walk_condition(condition: Condition) -> Iterator[Condition]:
    """Yield the condition and all its parts, the outermost first."""
    yield condition
    if isinstance(condition, And | Or):
        for part in condition.parts:
            yield from walk_condition(part)
    elif isinstance(condition, Not | Scoped):
        yield from walk_condition(condition.part)


def walk_branches(query: Query) -> Iterator[Branch]:
    """Yield every branch of the query and of its joins, groups before their members."""
    yield from _walk_union(query.branches)
    yield from _walk_union(join.branch for join in query.joins)


def _walk_union(union: Iterable[Branch]) -> Iterator[Branch]:
    for branch in union:
        yield branch
        if isinstance(branch.source, SourceGroup):
            yield from _walk_union(branch.source.branches)


def list_conditions(query: Query) -> Iterator[Condition]:
    """Yield WHERE and the filters of all sources."""
    if query.where is not None:
        yield query.where
    for branch in walk_branches(query):
        if branch.filter is not None:
            yield branch.filter


def list_read_feeds(query: Query) -> tuple[FeedName, ...]:
    """Return the named feeds that the query reads."""
    return tuple(branch.source for branch in walk_branches(query) if isinstance(branch.source, FeedName))
