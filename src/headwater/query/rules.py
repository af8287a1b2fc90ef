"""Conditions that an index entry cannot state: a tree to be tried on the items of some sources, shared by all queries
that say the same."""

from __future__ import annotations

from headwater.query.nodes import ConditionNode

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
