"""Says in words what a plan had predicted and what was measured; it loads nothing, since any command may show it."""

from __future__ import annotations

from dataclasses import dataclass

from headwater.schedule.quality.promise_record import MIN_ITEMS
from headwater.times import format_duration, format_share


@dataclass(frozen=True, slots=True)
class PlanCheck:
    """Predicted and measured figures of the items of the last day; the predictions include corrections.

    The delay (seconds) is that of `dated` items, completeness that of `published` ones.
    """

    dated: int
    delay_predicted: float | None
    delay_measured: float | None
    published: int
    completeness_predicted: float | None
    completeness_measured: float | None

    def describe(self) -> str:
        """Write both in a sentence; nothing while there are too few items.

        >>> said = PlanCheck(200, 240.0, 300.0, 250, 0.99, 0.984).describe()
        >>> said.replace("of the last day:", "…")
        'For the same 250 items … predicted 4 min of delay, measured 5 min; predicted 99.0 % caught, measured 98.4 %.'
        """
        parts = []
        if self.delay_predicted is not None and self.delay_measured is not None and self.dated >= MIN_ITEMS:
            said, came = format_duration(self.delay_predicted), format_duration(self.delay_measured)
            parts.append(f"predicted {said} of delay, measured {came}")
        predicted, measured = self.completeness_predicted, self.completeness_measured
        if predicted is not None and measured is not None and self.published >= MIN_ITEMS:
            said, came = format_share(predicted, self.published), format_share(measured, self.published)
            parts.append(f"predicted {said} caught, measured {came}")
        if not parts:
            return ""
        return f"For the same {self.published:,} items of the last day: {'; '.join(parts)}."
