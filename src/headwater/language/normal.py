"""A query in its normal form: for each source, the whole condition its items must meet.

⋃_b σ_{f_b ∧ W_b}(S_b), where f_b are the filters written at branch b and around it, and W_b is WHERE with each $v[p]
replaced by p where v names the branch (or a group around it) and by TRUE elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from headwater.language.ast import (
    Address,
    AllSources,
    And,
    Branch,
    Group,
    Join,
    Name,
    Not,
    Or,
    Pred,
    Query,
    Scoped,
    Tag,
    conjunction,
)


@dataclass(frozen=True, slots=True)
class Leaf:
    """One source of a query and the condition on its items; `vars` are the names that reach it, innermost last."""

    source: Address | Name | Tag | AllSources
    condition: Pred
    vars: tuple[str, ...] = ()


def leaves(query: Query) -> tuple[Leaf, ...]:
    """The sources of the query, in the order in which they are written."""
    return tuple(_leaves(query.branches, (), (), _conjuncts(query.where)))


def join_leaves(query: Query, join: Join) -> tuple[Leaf, ...]:
    """The sources of a join's secondary side; of WHERE only what is scoped to it concerns them."""
    scoped = tuple(part for part in _conjuncts(query.where) if isinstance(part, Scoped))
    return tuple(_leaves((join.branch,), (), (), scoped))


def _conjuncts(where: Pred | None) -> tuple[Pred, ...]:
    if where is None:
        return ()
    return where.parts if isinstance(where, And) else (where,)


def _leaves(
    branches: Iterable[Branch], filters: tuple[Pred, ...], names: tuple[str, ...], where: tuple[Pred, ...]
) -> Iterator[Leaf]:
    for branch in branches:
        inner = filters if branch.filter is None else (*filters, branch.filter)
        reached = names if branch.var is None else (*names, branch.var)
        if isinstance(branch.source, Group):
            yield from _leaves(branch.source.branches, inner, reached, where)
        else:
            meant = (part for part in where if not isinstance(part, Scoped))
            scoped = (part.part for part in where if isinstance(part, Scoped) and part.var in reached)
            yield Leaf(branch.source, conjunction((*inner, *meant, *scoped)), reached)


def walk(pred: Pred) -> Iterator[Pred]:
    """The predicate and everything in it, outermost first."""
    yield pred
    if isinstance(pred, And | Or):
        for part in pred.parts:
            yield from walk(part)
    elif isinstance(pred, Not | Scoped):
        yield from walk(pred.part)


def branches(query: Query) -> Iterator[Branch]:
    """Every branch of the query and of its joins, groups before what they hold."""
    yield from _inside(query.branches)
    yield from _inside(join.branch for join in query.joins)


def _inside(union: Iterable[Branch]) -> Iterator[Branch]:
    for branch in union:
        yield branch
        if isinstance(branch.source, Group):
            yield from _inside(branch.source.branches)


def predicates(query: Query) -> Iterator[Pred]:
    """WHERE and every filter of a source."""
    if query.where is not None:
        yield query.where
    for branch in branches(query):
        if branch.filter is not None:
            yield branch.filter


def reads(query: Query) -> tuple[Name, ...]:
    """The feeds the query names as sources."""
    return tuple(branch.source for branch in branches(query) if isinstance(branch.source, Name))
