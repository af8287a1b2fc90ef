"""Learns the counted rate, bursts, failures and noticed losses of each feed, which the plan needs beside a forecast.

A forecast says when to refresh; the plan asks how much a feed publishes, how it is spread, and how sure that is. Rates
are counted with a week's memory. The law of bursts is believed as weights over those of `overflow`: each refresh adds
the logarithm of the chance of its count under each of them, a window without a known item that of an
overflow, and the first dated document those of its parts. Feeds of similar rate share a prior, learned from all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from headwater.arrays import Bools, Floats, Rows
from headwater.estimate.feed_columns import Column, FeedColumns
from headwater.schedule.quality.overflow import (
    DISPERSIONS,
    GEOMETRIC,
    find_loss_chances,
    find_losses,
    find_waits,
    log_geometric_chances,
)
from headwater.schedule.strategy import Observed
from headwater.times import DAY, HOUR

RATE_MEMORY, BURST_MEMORY, LOSS_MEMORY = 7.0, 30.0, 7.0  # days
FORECAST_ITEMS = 2.0  # items' worth of the forecast's slow rate beside the counted items
LOSS_DOUBT = 10.0  # losses by which the ratio of noticed to predicted ones is drawn to 1; a lost batch is one loss
SETTLED_POLLS = 6  # polls after which a feed's losses count: at first its rate is a guess
FAILURE_WEIGHT = 0.05  # of the latest poll in the chance that a poll fails
AWAY_FAILURES = 3  # failures in a row that make an outage
RATE_CLASSES = np.array([1.0, 10.0, 100.0])  # items per day between the classes that share a prior of bursts
PARTS = 16  # parts of a first document whose counts are compared
LONGEST_BATCH = 100  # items of a refresh up to which the laws of batches are told apart
PRIOR_FEEDS = 20.0  # feeds' worth of the first prior of bursts
_FIRST_PRIOR = 1 / DISPERSIONS / (1 / DISPERSIONS).sum()


class FeedHabits(FeedColumns):
    """The habits of feeds.

    >>> habits, one = FeedHabits(1), np.ones(1)
    >>> for day in range(30):
    ...     seen = Observed(np.array([0]), day * DAY * one, (day + 1) * DAY * one, 5 * one, 20 * one, one > 1)
    ...     habits.observe(seen, one)
    >>> habits.rate(np.array([0])).round(1).tolist()
    [4.1]
    >>> float((habits.burst(np.array([0])) @ DISPERSIONS)[0]) < 1.6  # always five: no bursts
    True
    """

    name = "habits"
    version = 3

    def layout(self) -> Mapping[str, Column]:
        return {
            "items": Column(0.0),
            "days": Column(0.0),
            "slow": Column(1.0),
            "polls": Column(0.0),
            "fail": Column(0.0),
            "streak": Column(0.0),
            "burst": Column(0.0, (len(DISPERSIONS),)),
            "noticed": Column(0.0),
            "foretold": Column(0.0),
        }

    def shared(self) -> Mapping[str, Any]:
        return {"prior": np.tile(_FIRST_PRIOR, (len(RATE_CLASSES) + 1, 1)), "learned": -np.inf}

    def observe(self, seen: Observed, slow: Floats, own: Floats | None = None) -> None:
        """Learn from successful refreshes; `slow` is the slow rate of the forecast after them.

        `own` are the days since the refresh before on each feed's own clock (None: as on the wall). By the clock on the
        wall busy and quiet hours would look like bursts.
        """
        rows, columns = seen.rows, self._columns
        first = ~np.isfinite(seen.start)
        elapsed = np.where(first, 0.0, np.maximum(seen.end - seen.start, 0.0)) / DAY
        self._learn_losses(seen, first, elapsed)
        self._learn_bursts(seen, first, elapsed, elapsed if own is None else own)
        dated = np.zeros(len(rows), bool) if seen.published is None else seen.published.counts > 0
        # Behind an overflow only the time that the document shows was observed.
        shown = elapsed.copy()
        short = seen.saturated & dated & ~first
        if seen.published is not None and short.any():
            oldest = seen.published.times[seen.published.offsets[:-1][short]]
            shown[short] = np.minimum(elapsed[short], np.maximum(seen.end[short] - oldest, 0.0) / DAY)
        blind = seen.saturated & ~dated & ~first
        new = np.where(first, 0.0, seen.new)
        new[short] += self._expect_rest_of_batch(rows[short])
        if blind.any():
            new[blind] += self._expect_lost(rows[blind], seen.window[blind], elapsed[blind])
        keep = np.exp(-elapsed / RATE_MEMORY)
        columns["items"][rows] = columns["items"][rows] * keep + new
        columns["days"][rows] = columns["days"][rows] * keep + shown
        columns["slow"][rows] = np.maximum(slow, 1e-6)
        columns["polls"][rows] = np.minimum(columns["polls"][rows] + 1, 1000)
        columns["fail"][rows] *= 1 - FAILURE_WEIGHT
        columns["streak"][rows] = 0
        self._learn_prior(float(seen.end.max()) if len(rows) else -np.inf)

    def observe_failures(self, rows: Rows, failures: Rows) -> None:
        """Learn from polls that have failed for the `failures`-th time in a row."""
        columns = self._columns
        single = rows[failures < AWAY_FAILURES]  # an outage says nothing of single failures
        columns["fail"][single] = columns["fail"][single] * (1 - FAILURE_WEIGHT) + FAILURE_WEIGHT
        columns["streak"][rows] = failures

    def rate(self, rows: Rows) -> Floats:
        """Return the items per day: counted, with the forecast as a few items of prior."""
        columns = self._columns
        items, days = columns["items"][rows].astype(np.float64), columns["days"][rows].astype(np.float64)
        return np.asarray((items + FORECAST_ITEMS) / (days + FORECAST_ITEMS / columns["slow"][rows]))

    def evidence(self, rows: Rows) -> Floats:
        """Return the items' worth of evidence behind each rate."""
        return np.asarray(self._columns["items"][rows].astype(np.float64) + 0.5)

    def burst(self, rows: Rows) -> Floats:
        """Return each feed's weights over the dispersions."""
        prior = self._shared["prior"][np.searchsorted(RATE_CLASSES, self.rate(rows))]
        return _weigh(self._columns["burst"][rows].astype(np.float64), prior)

    def fail(self, rows: Rows) -> Floats:
        """Return the chance that a single poll fails."""
        return self._columns["fail"][rows].astype(np.float64)

    def is_away(self, rows: Rows) -> Bools:
        return np.asarray(self._columns["streak"][rows] >= AWAY_FAILURES)

    def polls(self, rows: Rows) -> Floats:
        return self._columns["polls"][rows].astype(np.float64)

    def lost_factor(self, rows: Rows) -> Floats:
        """Return noticed ÷ predicted lost items, drawn to 1 by a few losses of the size that its batches have.

        The size must not be the noticed one: a feed that has lost nothing yet would be drawn to 1 by less than one that
        has, and predicted losses would be too small on average.
        """
        noticed = self._columns["noticed"][rows].astype(np.float64)
        doubt = LOSS_DOUBT * (self.burst(rows) @ DISPERSIONS + 1) / 2
        return np.asarray((noticed + doubt) / (self._columns["foretold"][rows] + doubt))

    def expect_waits(self, seen: Observed) -> Floats:
        """Return the mean wait in seconds of the items that refreshes have found, given the gaps before them.

        It is infinite at a first refresh.
        """
        gap = np.maximum(seen.end - seen.start, 0.0)
        waits = gap.copy()
        some = np.flatnonzero((seen.new > 0) & np.isfinite(gap))
        rows = seen.rows[some]
        items = np.maximum(self.rate(rows) * gap[some] / DAY, 1e-9)
        waits[some] *= find_waits(seen.window[some], items, self.burst(rows))
        return waits

    def _expect_rest_of_batch(self, rows: Rows) -> Floats:
        """Return the mean number of items of a batch that came before those that a full window shows.

        Without them a feed of batches larger than its window is believed slower than it is, and its batches smaller.
        """
        return np.asarray((self.burst(rows) @ DISPERSIONS - 1) / 2)

    def _expect_lost(self, rows: Rows, window: Floats, elapsed: Floats) -> Floats:
        """Return the mean number of items lost in some days after which a window had no known item."""
        items, burst = self.rate(rows) * elapsed, self.burst(rows)
        full = (burst * _find_full_chances(window, items)).sum(1)
        return np.asarray(find_losses(window, items, burst)[0] / np.maximum(full, 1e-12))

    def _learn_losses(self, seen: Observed, first: Bools, elapsed: Floats) -> None:
        """Compare noticed losses with those that the law of batches expects of a gap as long as it was.

        How long gaps are is learned elsewhere. Losses of a night without polls would else count against all its day.
        """
        told = ~first & (elapsed > 0) & (self._columns["polls"][seen.rows] >= SETTLED_POLLS)
        if seen.lost is None or not told.any():
            return
        rows = seen.rows[told]
        expected = np.maximum(self.rate(rows) * elapsed[told], 1e-9)
        share = np.minimum(find_losses(seen.window[told], expected, self.burst(rows))[0] / expected, 0.95)
        keep = np.exp(-elapsed[told] / LOSS_MEMORY)
        columns = self._columns
        columns["noticed"][rows] = columns["noticed"][rows] * keep + seen.lost[told]
        columns["foretold"][rows] = columns["foretold"][rows] * keep + seen.new[told] * share / (1 - share)

    def _learn_bursts(self, seen: Observed, first: Bools, elapsed: Floats, own: Floats) -> None:
        rows = seen.rows
        gain = np.zeros((len(rows), len(DISPERSIONS)))
        settled = np.flatnonzero(~first & (own > 0))
        if len(settled):
            known = rows[settled]
            mean = self.rate(known) * own[settled]
            # An uncertain rate spreads the counts as well; that is not a burst.
            spread = DISPERSIONS + (mean / np.maximum(self.evidence(known), 0.5))[:, None]
            gain[settled] = log_chances(seen.new[settled, None], mean[:, None], spread)
            over = seen.saturated[settled]
            if over.any():
                chance = _find_full_chances(seen.window[settled][over], mean[over])
                gain[settled[over]] = np.log(np.maximum(chance, 1e-12))
        if seen.published is not None and first.any():
            gain[first] += _judge_first_documents(seen)[first]
        keep = np.exp(-elapsed / BURST_MEMORY)[:, None]
        belief = self._columns["burst"][rows] * keep + gain
        self._columns["burst"][rows] = belief - belief.max(axis=1, keepdims=True)

    def _learn_prior(self, now: float) -> None:
        """Renew the priors once an hour from the beliefs in all feeds: a step of expectation and maximisation."""
        if now < float(self._shared["learned"]) + HOUR:
            return
        self._shared["learned"] = np.array(now)
        rows = np.flatnonzero(self._columns["polls"] >= 3)
        if len(rows) > 5000:
            rows = rows[:: len(rows) // 5000]
        if not len(rows):
            return
        of_class = np.searchsorted(RATE_CLASSES, self.rate(rows))
        weights = self.burst(rows)
        for place in np.unique(of_class):
            mine = weights[of_class == place].sum(0) + PRIOR_FEEDS * _FIRST_PRIOR
            self._shared["prior"][place] = mine / mine.sum()


def log_chances(count: Floats, mean: Floats, dispersion: Floats) -> Floats:
    """Return ln P(N = count) under each law of batches, along the last axis.

    Counts above `LONGEST_BATCH` are too rare to tell the laws apart: the negative binomial one stands for both.
    """
    count, mean, dispersion = np.broadcast_arrays(count, mean, dispersion)
    found = log_chance(count, mean, dispersion)
    some = count[..., GEOMETRIC]
    means, dispersions = np.maximum(mean[..., GEOMETRIC], 1e-9), dispersion[..., GEOMETRIC]
    geometric = found[..., GEOMETRIC]
    most = int(some.max(where=some <= LONGEST_BATCH, initial=0))
    for k, chance in enumerate(log_geometric_chances(means, dispersions, most)):
        np.copyto(geometric, chance, where=some == k)
    found[..., GEOMETRIC] = geometric
    return found


def log_chance(count: Floats, mean: Floats, dispersion: Floats) -> Floats:
    """Return ln P(N = count) for N negative binomial with this mean and variance dispersion × mean.

    >>> round(float(np.exp(log_chance(np.array(2.0), np.array(3.0), np.array(1.0)))), 3)  # Poisson: 9/2·e⁻³
    0.224
    """
    extra = np.maximum(dispersion - 1, 1e-5)
    mean = np.maximum(mean, 1e-9)
    size = mean / extra
    return np.asarray(
        log_gamma(count + size)
        - log_gamma(size)
        - log_gamma(count + 1)
        - size * np.log1p(extra)
        + count * (np.log(extra) - np.log1p(extra))
    )


def log_gamma(x: Floats) -> Floats:
    """Return ln Γ(x) for x > 0, by Stirling's series beyond 8.

    >>> round(float(log_gamma(np.array(5.0))), 6)  # ln 24
    3.178054
    """
    shifted = x + 8
    product = x * (x + 1) * (x + 2) * (x + 3) * (x + 4) * (x + 5) * (x + 6) * (x + 7)
    series = 1 / (12 * shifted) - 1 / (360 * shifted**3) + 1 / (1260 * shifted**5)
    return np.asarray((shifted - 0.5) * np.log(shifted) - shifted + 0.5 * np.log(2 * np.pi) + series - np.log(product))


def _find_full_chances(window: Floats, mean: Floats) -> Floats:
    """Return P(N ≥ W) under each law of batches (columns): that a window has no known item.

    >>> round(float(_find_full_chances(np.array([1.0]), np.array([1.0]))[0, 0]), 2)  # Poisson: 1 − 1/e
    0.63
    """
    just = np.exp(log_chances(np.floor(window)[:, None], mean[:, None], DISPERSIONS))
    return np.minimum(find_loss_chances(window, mean) + just, 1.0)


def _judge_first_documents(seen: Observed) -> Floats:
    """Return the gains from how each document's dates are spread over its time, cut into equal parts."""
    dates = seen.published
    assert dates is not None
    counts = dates.counts
    parts = np.clip(counts // 2, 1, PARTS)
    owner = dates.owner()
    oldest = np.zeros(len(counts))
    some = counts > 0
    oldest[some] = dates.times[dates.offsets[:-1][some]]
    span = np.maximum(seen.end - oldest, 1.0)
    place = ((np.minimum(dates.times, seen.end[owner]) - oldest[owner]) / span[owner] * parts[owner]).astype(np.intp)
    place = np.clip(place, 0, parts[owner] - 1)
    table = np.bincount(owner * PARTS + place, minlength=len(counts) * PARTS).reshape(-1, PARTS).astype(np.float64)
    mean = counts / parts
    chance = log_chances(table[:, :, None], mean[:, None, None], DISPERSIONS)
    used = np.arange(PARTS) < parts[:, None]
    # Half weight: days and nights make the parts differ, too.
    return np.asarray(0.5 * np.where((used & (parts[:, None] > 1))[:, :, None], chance, 0.0).sum(1))


def _weigh(gains: Floats, prior: Floats) -> Floats:
    weights = prior * np.exp(gains - gains.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))
