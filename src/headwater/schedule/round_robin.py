"""A queue: a feed comes again after all others have been."""

from __future__ import annotations

from headwater.schedule.uniform import Uniform


class RoundRobin(Uniform):
    """First in, first out (advaRSS's first comparator, section 5); the same rule as `uniform`: value = age.

    >>> from headwater.schedule.base import Budget, Table
    >>> table = Table.of(2)
    >>> table.last[:] = [5.0, 4.0]
    >>> RoundRobin(2).choose(table, 6.0, Budget(1)).rows.tolist()
    [1]
    """

    name = "round_robin"
