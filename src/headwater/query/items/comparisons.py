"""Gives the comparison operators of conditions as functions."""

from __future__ import annotations

import operator
from collections.abc import Callable

from headwater.language.ast import ComparisonOperator

COMPARE_FUNCTIONS: dict[ComparisonOperator, Callable[[float, float], bool]] = {
    ComparisonOperator.EQ: operator.eq,
    ComparisonOperator.NE: operator.ne,
    ComparisonOperator.LT: operator.lt,
    ComparisonOperator.LE: operator.le,
    ComparisonOperator.GT: operator.gt,
    ComparisonOperator.GE: operator.ge,
}
