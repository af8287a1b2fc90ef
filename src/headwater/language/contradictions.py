"""Finds conditions that no item can meet: X AND NOT X, two different titles, an empty range."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from headwater.language.ast import (
    And,
    ComparisonOperator,
    Condition,
    DateIs,
    Equals,
    Field,
    Instant,
    Not,
    Or,
    Scoped,
    SizeIs,
    SourceIs,
)

_ONE_VALUE = frozenset({Field.TITLE, Field.CONTENT, Field.DESCRIPTION, Field.LINK})


def is_contradiction(condition: Condition) -> bool:
    """Return whether the form of the condition shows that it is false for every item."""
    match condition:
        case And(parts):
            return any(map(is_contradiction, parts)) or _are_contradictory(parts)
        case Or(parts):
            return all(map(is_contradiction, parts))
        case Not(part):
            return is_tautology(part)
        case Scoped(_, part):
            return is_contradiction(part)
        case SizeIs(cmp, number):
            return number == 0 and cmp is ComparisonOperator.LT
        case _:
            return False


def is_tautology(condition: Condition) -> bool:
    match condition:
        case And(parts):
            return all(map(is_tautology, parts))
        case Or(parts):
            return any(map(is_tautology, parts)) or _are_contradictory([_negate(part) for part in parts])
        case Not(part):
            return is_contradiction(part)
        case SizeIs(cmp, number):
            return number == 0 and cmp is ComparisonOperator.GE
        case _:
            return False


def _negate(condition: Condition) -> Condition:
    return condition.part if isinstance(condition, Not) else Not(condition)


def _split_sign(condition: Condition) -> tuple[bool, Condition]:
    """Return sign and core of a condition: `x != v` and `NOT x = v` are the same."""
    sign = True
    while isinstance(condition, Not):
        sign, condition = not sign, condition.part
    if isinstance(condition, Equals | SourceIs) and condition.negated:
        sign, condition = not sign, replace(condition, negated=False)
    return sign, condition


def _are_contradictory(parts: Iterable[Condition]) -> bool:
    signed = [_split_sign(part) for part in parts]
    seen = set(signed)
    if any((not sign, core) in seen for sign, core in signed):
        return True
    return _require_different_values(signed) or _require_empty_range(signed)


def _require_different_values(signed: list[tuple[bool, Condition]]) -> bool:
    """Return whether a field with a single value would have to equal two values."""
    allowed: dict[Field, set[str]] = {}
    for sign, core in signed:
        if sign and isinstance(core, Equals) and core.field in _ONE_VALUE and not core.all:
            values = {" ".join(value.casefold().split()) for value in core.values}
            allowed[core.field] = allowed.get(core.field, values) & values
    return any(not values for values in allowed.values())


def _require_empty_range(signed: list[tuple[bool, Condition]]) -> bool:
    """Return whether a date or size would have to be above one bound and below a lower one."""
    spans: dict[str, list[tuple[float, bool]]] = {}
    for sign, core in signed:
        if not sign:
            continue
        if isinstance(core, DateIs) and isinstance(core.when, Instant):
            name, bound = str(core.field), core.when.epoch
        elif isinstance(core, SizeIs):
            name, bound = "SIZE", core.number
        else:
            continue
        low, high = spans.setdefault(name, [(float("-inf"), False), (float("inf"), False)])
        if core.cmp in (ComparisonOperator.GT, ComparisonOperator.GE, ComparisonOperator.EQ):
            low = max(low, (bound, core.cmp is ComparisonOperator.GT))
        if core.cmp in (ComparisonOperator.LT, ComparisonOperator.LE, ComparisonOperator.EQ):
            high = min(high, (bound, core.cmp is not ComparisonOperator.LT), key=lambda end: (end[0], end[1]))
        spans[name] = [low, high]
    return any(low[0] > high[0] or (low[0] == high[0] and (low[1] or not high[1])) for low, high in spans.values())
