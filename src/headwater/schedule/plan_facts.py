"""The facts that a plan depends on beside the budget: beliefs in feeds, their constraints, measured corrections."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from headwater.arrays import Bools, Floats, Rows
from headwater.schedule.politeness.rules import MIN_INTERVAL, Reason
from headwater.schedule.quality.overflow import POISSON

RESERVE = 6e-6  # item-days that a poll must be expected to save: half an item-second of an item of worth 1


@dataclass(frozen=True, slots=True)
class Beliefs:
    """The beliefs about feeds, one row each.

    `rate` is in items per day and `sure` the items' worth of evidence behind it. `burst` has weights over
    `overflow.DISPERSIONS`. `worth` is the sum of importance × selectivity over queries and readers, `wanted` the share
    of items anybody wants. `cost` is in requests, `heavy` the bytes of a poll relative to those of a 304. `fail` is the
    chance that a single poll fails, `closed` the seconds that an item waits on average because of skipped hours. A row
    stands for `many` feeds.
    """

    rate: Floats
    sure: Floats
    burst: Floats
    window: Floats
    worth: Floats
    wanted: Floats
    cost: Floats
    heavy: Floats
    fail: Floats
    closed: Floats
    many: Floats

    @classmethod
    def of(cls, rate: Floats, window: Floats, worth: Floats | None = None) -> Beliefs:
        """Return beliefs in Poisson feeds that cost one request and never fail."""
        one, none = np.ones(len(rate)), np.zeros(len(rate))
        return cls(
            rate=np.asarray(rate, np.float64),
            sure=np.full(len(rate), 100.0),
            burst=np.tile(POISSON, (len(rate), 1)),
            window=np.asarray(window, np.float64),
            worth=one.copy() if worth is None else np.asarray(worth, np.float64),
            wanted=one.copy(),
            cost=one.copy(),
            heavy=one.copy(),
            fail=none.copy(),
            closed=none.copy(),
            many=one.copy(),
        )

    def __len__(self) -> int:
        return len(self.rate)


@dataclass(frozen=True, slots=True)
class Constraints:
    """The limits of each feed's interval, in seconds.

    `earliest` is the pause that politeness requires and `reason` its rule. `at_most` is a deadline (inf: none), by
    `wanted_by` for some rows. `pushed` feeds get a safety poll, `away` ones have failed three times in a row. `open` is
    the share of the week in which the feed may be asked. `pace` limits the requests per minute of each host. `reserve`
    is our own thrift: the item-days that a poll must be expected to save.
    """

    earliest: Floats
    reason: NDArray[np.int8]
    at_most: Floats
    pushed: Bools
    active: Bools
    away: Bools
    open: Floats
    host: Rows
    pace: Floats
    wanted_by: Mapping[int, str] = field(default_factory=dict)
    reserve: float = RESERVE

    @classmethod
    def of(cls, feeds: int, least: float = MIN_INTERVAL) -> Constraints:
        """Return the constraints of feeds without hints, each on a host of its own."""
        no = np.zeros(feeds, bool)
        return cls(
            earliest=np.full(feeds, least),
            reason=np.full(feeds, int(Reason.LEAST), np.int8),
            at_most=np.full(feeds, np.inf),
            pushed=no.copy(),
            active=~no,
            away=no.copy(),
            open=np.ones(feeds),
            host=np.arange(feeds),
            pace=np.full(feeds, np.inf),
        )


@dataclass(frozen=True, slots=True)
class Calibration:
    """Corrections measured on this server.

    `demand` is planned refreshes ÷ those of the plan, `use` the share of the budget to plan for, `wait` the mean wait
    in the queue and `fetch` the mean time of a fetch, in seconds. `delay` is measured ÷ predicted delay, `delay_items`
    the items behind it; the widths are factors on the stated doubts. `lost` is noticed ÷ predicted loss, per feed
    (None: 1). `gap` and `square` are, per feed, the mean time between two successful polls ÷ its interval, without
    skipped hours, and the mean square; both count with the weight `watched` beside the model's own (None: not
    measured).
    """

    demand: float = 1.0
    use: float = 1.0
    wait: float = 0.0
    fetch: float = 0.0
    delay: float = 1.0
    delay_items: float = 0.0
    delay_width: float = 1.0
    loss_width: float = 1.0
    lost: Floats | None = None
    gap: Floats | None = None
    square: Floats | None = None
    watched: Floats | None = None


UNCALIBRATED = Calibration()
