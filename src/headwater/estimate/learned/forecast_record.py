"""Says in words how well the learned forecast has predicted here, beside the plain estimate that it corrects."""

from __future__ import annotations

import math
from dataclasses import dataclass

ENOUGH_ITEMS = 20.0


@dataclass(frozen=True, slots=True)
class ForecastRecord:
    """The predictions of about a week: nats gained per item over the plain estimate, items checked, weight in use.

    `saving` is the share of the waiting that the present forecasts are expected to save (None: not measured).
    """

    gain: float
    items: float
    trust: float
    saving: float | None = None

    def describe(self) -> str:
        """Describe the record in a sentence.

        >>> ForecastRecord(math.log(1.12), 812, 0.98).describe()[:73]
        'Over the last week 812 items came at moments to which the learned forecas'
        >>> ForecastRecord(math.log(1.12), 812, 0.98, 0.08).describe()[:80]
        'The learned forecast saves an expected 8% of the waiting here, at the same cost.'
        >>> ForecastRecord(0, 3, 0.98).describe()
        'The learned forecast has been checked on 3 items here so far, too few to say how well it predicts.'
        """
        if self.items < ENOUGH_ITEMS:
            return (
                f"The learned forecast has been checked on {self.items:.0f} items here so far, too few to say how well "
                "it predicts."
            )
        change = math.expm1(self.gain)
        compared = f"{abs(change):.0%} {'higher' if change >= 0 else 'lower'}"
        saves = (
            ""
            if self.saving is None
            else f"The learned forecast saves an expected {self.saving:.0%} of the waiting here, at the same cost. "
        )
        return (
            f"{saves}Over the last week {self.items:,.0f} items came at moments to which the learned forecast had "
            f"given a chance {compared} than the plain estimate, on average; its corrections count with "
            f"{self.trust:.0%}."
        )
