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
        """Describe the record: the expected saving only where the predictions have held.

        >>> ForecastRecord(math.log(1.12), 812, 0.98, 0.08).describe()[:83]
        'The learned forecast is expected to save 8 % of the waiting here, at the same cost.'
        >>> ForecastRecord(math.log(1.12), 812, 0.98).describe()[:80]
        'Over the last week the learned forecast gave the times at which 812 items came a'
        >>> ForecastRecord(math.log(0.85), 83, 0.74, 0.02).describe()[78:]
        'a chance 15 % lower than the plain estimate did. Its corrections count 74 %, less while that lasts.'
        >>> ForecastRecord(0, 3, 0.98).describe()
        'The learned forecast has been checked on 3 items here so far, too few to say how well it predicts.'
        """
        if self.items < ENOUGH_ITEMS:
            items = "1 item" if round(self.items) == 1 else f"{self.items:.0f} items"
            return f"The learned forecast has been checked on {items} here so far, too few to say how well it predicts."
        change = math.expm1(self.gain)
        side = "lower" if change < 0 else "higher"
        checked = (
            f"gave the times at which {self.items:,.0f} items came a chance {100 * abs(change):.0f} % {side} than the "
            "plain estimate did"
        )
        if change < 0:
            weight = f"Its corrections count {100 * self.trust:.0f} %, less while that lasts."
            return f"Over the last week the learned forecast {checked}. {weight}"
        if self.saving is None:
            return f"Over the last week the learned forecast {checked}."
        return (
            f"The learned forecast is expected to save {100 * self.saving:.0f} % of the waiting here, at the same "
            f"cost. Over the last week it {checked}."
        )
