"""The dial: what the budget is spent for. Weights of completeness, freshness and delay, or a word for usual ones.

The weights are what `value` trades: `delay` is what an item-day of waiting costs, `completeness` what a lost item
costs, in item-days, `freshness` what a day of a wholly missing window costs.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields

from headwater.errors import SettingsError


@dataclass(frozen=True, slots=True)
class Objective:
    """What counts, and how much; at least one weight is above 0."""

    completeness: float = 3.0
    freshness: float = 0.0
    delay: float = 1.0

    def __post_init__(self) -> None:
        weights = asdict(self)
        for name, weight in weights.items():
            if not (weight >= 0 and math.isfinite(weight)):
                raise SettingsError(f"The objective cannot give {name} a weight of {weight:g}: give 0 or more.")
        if not any(weights.values()):
            raise SettingsError("The objective gives every weight as 0, so nothing would count: raise one of them.")

    def strategy_options(self) -> dict[str, float]:
        """The same as options of a strategy with a dial."""
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
    """An objective as a person writes it.

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
                f"The objective “{text}” is not understood at “{part.strip()}”: give {', '.join(NAMED_OBJECTIVES)},"
                " or weights such as completeness=3,freshness=0,delay=1."
            ) from None
    return Objective(**given)
