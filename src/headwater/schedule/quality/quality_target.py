"""Defines the wanted quality of a server or a query."""

from __future__ import annotations

from dataclasses import dataclass

from headwater.errors import SettingsError


@dataclass(frozen=True, slots=True)
class QualityTarget:
    """The wanted quality; None: no target. `delay` is the mean in seconds."""

    completeness: float | None = None
    freshness: float | None = None
    delay: float | None = None

    def __post_init__(self) -> None:
        for name in ("completeness", "freshness"):
            share = getattr(self, name)
            if share is not None and not 0 < share < 1:
                raise SettingsError(f"A {name} of {share:g} cannot be a target: give a share between 0 and 1.")
        if self.delay is not None and not self.delay > 0:
            raise SettingsError(f"A mean delay of {self.delay:g} s cannot be a target: give a time above 0.")
        if self.completeness is None and self.freshness is None and self.delay is None:
            raise SettingsError("A target needs a completeness, a freshness or a delay.")

    def measure_shortfall(self, completeness: float | None, freshness: float | None, delay: float | None) -> float:
        """Return how far a quality is from the target, as a share; 0 or less if it is met, as are unknown figures.

        >>> round(QualityTarget(completeness=0.9).measure_shortfall(0.8, None, None), 6)  # twice as much is missing
        1.0
        """
        parts = [-1.0]
        for wanted, got in ((self.completeness, completeness), (self.freshness, freshness)):
            if wanted is not None and got is not None:
                parts.append((wanted - got) / max(1 - wanted, 1e-4))
        if self.delay is not None and delay is not None:
            parts.append(delay / self.delay - 1)
        return max(parts)
