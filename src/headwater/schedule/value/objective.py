"""Weighs completeness, freshness and delay: the objective for which the budget is spent.

`delay` is the cost of an item-day of waiting, `completeness` the cost of a lost item in item-days, `freshness` the cost
of a day of a wholly missing window.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields

from headwater.errors import SettingsError


@dataclass(frozen=True, slots=True)
class Objective:
    """The three weights; at least one is above 0."""

    completeness: float = 3.0
    freshness: float = 0.0
    delay: float = 1.0

    def __post_init__(self) -> None:
        weights = asdict(self)
        for name, weight in weights.items():
            if not (weight >= 0 and math.isfinite(weight)):
                raise SettingsError(f"The objective's weight of {name} is {weight:g}: give 0 or more.")
        if not any(weights.values()):
            raise SettingsError("All weights of the objective are 0: raise one of them.")

    def strategy_options(self) -> dict[str, float]:
        """Return the weights as options of a strategy."""
        return {"loss": self.completeness, "freshness": self.freshness, "delay": self.delay}

    def __str__(self) -> str:
        return ",".join(f"{name}={weight:g}" for name, weight in asdict(self).items())


NAMED_OBJECTIVES = {
    "balanced": Objective(),
    "completeness": Objective(completeness=30.0, delay=0.3),
    "freshness": Objective(completeness=1.0, freshness=20.0, delay=0.1),
    "delay": Objective(completeness=0.5),
}


def parse_objective(text: str) -> Objective:
    """Parse an objective written as a name or as weights.

    >>> parse_objective("completeness=10, delay=.5")
    Objective(completeness=10.0, freshness=0.0, delay=0.5)
    >>> parse_objective("delay") == NAMED_OBJECTIVES["delay"]
    True
    """
    if text.strip() in NAMED_OBJECTIVES:
        return NAMED_OBJECTIVES[text.strip()]
    names = [field.name for field in fields(Objective)]
    given: dict[str, float] = dict.fromkeys(names, 0.0)
    for part in text.split(","):
        name, equals, weight = (piece.strip() for piece in part.partition("="))
        try:
            if not equals or name not in names:
                raise ValueError
            given[name] = float(weight)
        except ValueError:
            raise SettingsError(
                f"Invalid objective “{text}” at “{part.strip()}”: give {', '.join(NAMED_OBJECTIVES)},"
                " or weights such as completeness=3,freshness=0,delay=1."
            ) from None
    return Objective(**given)
