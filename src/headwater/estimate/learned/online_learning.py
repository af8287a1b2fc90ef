"""Goes on learning on the server: keeps a few bins of each refresh, and trains the network with them once a day.

At a refresh the inputs of six of the next 24 bins are kept. At the next one their items are known; bins that had not
ended, and refreshes whose items are lost or undated, teach nothing. The pass of a day takes that day's samples once,
so its cost follows what has come, and starts from the weights of the day before; the first day's are those of the
package. Few items move the weights little, and each step draws them back a little.

Two rules keep any collection from being served worse for long. The learned weights are used only while they lose less
than the package's weights on the samples of the last days, before learning from them, by more than two standard
deviations. And `trust`, which changes once a day, weighs the correction against the belief by how likely both made it
that items came, or none, in the latest samples. A feed can give at most 24 samples a day; each sample's part in a step
is bounded, and so is its part in the trust.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwater.arrays import Bools, Floats, Rows
from headwater.estimate.feed_columns import Column, FeedColumns
from headwater.estimate.learned.inputs import BIN_INPUTS, REFRESH_INPUTS, Inputs
from headwater.estimate.learned.network import (
    WEIGHTS,
    Adam,
    Samples,
    compute_gradient,
    compute_losses,
    weigh_refreshes,
)
from headwater.times import DAY, WEEK

KEPT, SPREAD = 6, 4  # bins kept of a refresh: one of every four
FINENESS = 12.0  # kept inputs are rounded to twelfths of a deviation
DAILY_SAMPLES = 24  # of a feed
BUFFER = 16_384  # samples of a day
RATE, BATCH, MAX_SLOPE = 4e-4, 512, 20.0
ENOUGH_ITEMS = 1000.0  # items in the samples at which a step has its full rate
PULL = 0.004  # share of the way back to the weights of the package at each step
MAX_EVIDENCE, FIRST_EVIDENCE = 6.0, 4.0  # nats for the correction; few, so that a change of mind takes weeks at most
CAUTION = 0.3  # share of a sample's nats that count, because samples of one feed are alike
MOST_EXPECTED = 3.0  # items in a bin; more are as good as certain to come
SURE = 2.0  # standard deviations by which the learned weights must be ahead before they are used
GAIN_FADE = 1 / 7  # share of the record of gains that a day forgets


class OnlineLearning(FeedColumns):
    """The samples that wait for their counts, the day's samples, the weights and the trust in them."""

    name = "online_learning"
    version = 2  # version 1 kept samples of former days

    def __init__(self, feeds: int = 0, *, weights: NDArray[np.float32] | None = None) -> None:
        self._first = np.zeros(WEIGHTS, np.float32) if weights is None else weights
        super().__init__(feeds)

    def layout(self) -> Mapping[str, Column]:
        return {
            "inputs": Column(0, (REFRESH_INPUTS + KEPT * BIN_INPUTS,), np.int8),
            "bins": Column(255, (KEPT,), np.uint8),  # 255: none
            "believed": Column(0.0, (KEPT,)),
            "correction": Column(0.0, (KEPT,), np.float16),
            "given": Column(0, dtype=np.uint8),  # samples of this day
        }

    def shared(self) -> Mapping[str, Any]:
        return {
            "network": float(
                zlib.crc32(self._first.tobytes())
            ),  # whose inputs the samples are, and whose weights began
            "weights": self._first.copy(),
            "mean": np.zeros(WEIGHTS, np.float32),
            "square": np.zeros(WEIGHTS, np.float32),
            "steps": 0.0,
            "samples": np.zeros((BUFFER, REFRESH_INPUTS + BIN_INPUTS), np.int8),
            "figures": np.zeros((BUFFER, 4), np.float32),  # believed, published, weight, correction
            "came": 0.0,  # samples of this day, those that found no room included
            "ahead": np.zeros(2),  # lead of the learned weights over the package's in loss, and its variance
            "evidence": FIRST_EVIDENCE,
            "gain": np.zeros(2),  # nats per item gained by the correction, and items, over the last week
            "learned": -np.inf,
        }

    @property
    def weights(self) -> NDArray[np.float32]:
        """The weights in use: the learned ones while they are ahead beyond doubt, else those of the package."""
        lead, variance = self._shared["ahead"].tolist()
        return self._shared["weights"] if lead > SURE * math.sqrt(variance) else self._first

    @property
    def trust(self) -> float:
        """The weight of the corrected belief, from 0 to 1."""
        return float(1 / (1 + np.exp(-self._shared["evidence"])))

    @property
    def gain(self) -> tuple[float, float]:
        """Return the nats per item by which the correction was better than the belief over the last week, and items."""
        nats, items = self._shared["gain"].tolist()
        return (nats / items if items > 0 else 0.0), items

    def keep(self, rows: Rows, at: Floats, scaled: tuple[Inputs, Inputs], believed: Floats, correction: Inputs) -> None:
        """Keep some bins of these refreshes; the choice depends on the feed and the time only."""
        bins, line = choose_bins(rows, at), np.arange(len(rows))[:, None]
        both = np.concatenate([scaled[0], scaled[1][line, bins].reshape(len(rows), -1)], axis=1)
        both *= FINENESS
        columns = self._columns
        columns["inputs"][rows] = np.minimum(np.maximum(np.rint(both, out=both), -127), 127)
        columns["bins"][rows] = bins
        columns["believed"][rows] = believed[line, bins]
        columns["correction"][rows] = correction[line, bins]

    def drop(self, rows: Rows) -> None:
        """Forget the kept bins of these feeds."""
        self._columns["bins"][rows] = 255

    def learn(
        self, rows: Rows, since: Floats, end: Floats, step: Floats, usable: Bools, owner: Rows, times: Floats
    ) -> None:
        """Learn from the refreshes at `end`, whose kept bins (of `step` days) began at `since`; run the daily pass."""
        bins = self._columns["bins"][rows].astype(np.int64)
        length = np.where(np.isfinite(step) & (step > 0), step, np.inf) * DAY
        over = usable[:, None] & (bins < 255) & (since[:, None] + (bins + 1) * length[:, None] <= end[:, None])
        if over.any():
            count = np.zeros(bins.shape, np.intp)
            if len(times):
                place = np.floor((times - since[owner]) / length[owner])
                item, slot = np.nonzero(place[:, None] == bins[owner])
                np.add.at(count, (owner[item], slot), 1)
            self._take_samples(rows, over, count)
        self.drop(rows)
        latest = float(end.max(initial=-np.inf))
        if not np.isfinite(self._shared["learned"]):
            self._shared["learned"] = np.array(latest)
        elif latest >= float(self._shared["learned"]) + DAY:
            self._shared["learned"] = np.array(latest)
            self.run_pass()

    def _take_samples(self, rows: Rows, over: Bools, count: Rows) -> None:
        columns, shared = self._columns, self._shared
        given = columns["given"][rows]
        over = over & (given < DAILY_SAMPLES)[:, None]
        columns["given"][rows] = given + over.sum(1, dtype=np.uint8)  # at most 29
        line, slot = np.nonzero(over)
        order = np.argsort(rows[line], kind="stable")  # so that nothing depends on the order within a batch
        line, slot = line[order], slot[order]
        feed = rows[line]
        # Full: a sample replaces another at a place that depends on how many came.
        place = arrived = int(shared["came"]) + np.arange(len(feed))
        if len(feed) and arrived[-1] >= BUFFER:
            place = np.where(arrived < BUFFER, arrived, mix(arrived) % (arrived + 1))
            fits = place < BUFFER
            place, line, slot, feed = place[fits], line[fits], slot[fits], feed[fits]
        inputs = columns["inputs"][feed]
        shared["samples"][place, :REFRESH_INPUTS] = inputs[:, :REFRESH_INPUTS]
        of_bins = inputs[:, REFRESH_INPUTS:].reshape(-1, KEPT, BIN_INPUTS)
        shared["samples"][place, REFRESH_INPUTS:] = of_bins[np.arange(len(feed)), slot]
        believed, figures = columns["believed"][feed], shared["figures"]
        figures[place, 0] = columns["believed"][feed, slot]
        figures[place, 1] = np.minimum(count[line, slot], 100)
        figures[place, 2] = weigh_refreshes(believed.mean(1))
        figures[place, 3] = columns["correction"][feed, slot]
        shared["came"] = np.array(float(shared["came"]) + len(arrived))

    def run_pass(self) -> None:
        """Judge the day, train with its samples, then forget them."""
        shared = self._shared
        count = min(int(shared["came"]), BUFFER)
        self._columns["given"][:] = 0
        self._judge(shared["figures"][:count].astype(np.float64))
        if count >= BATCH // 4:
            samples = self._read_samples(count)
            self._compare(samples)
            adam = Adam(shared["mean"], shared["square"], int(shared["steps"]))
            weights = shared["weights"].copy()
            order = np.argsort(mix(np.arange(count) + int(shared["steps"])), kind="stable")
            rate = RATE * min(1.0, float(samples.published.sum()) / ENOUGH_ITEMS)
            for at in range(0, count, BATCH):
                batch = samples.take(order[at : at + BATCH])
                adam.step(weights, compute_gradient(weights, batch, MAX_SLOPE), rate)
                weights += np.float32(PULL) * (self._first - weights)
            if np.isfinite(weights).all():
                shared["weights"], shared["steps"] = weights, np.array(float(adam.steps))
        shared["came"] = np.array(0.0)

    def _judge(self, figures: Floats) -> None:
        """Compare the corrections of a day with the belief, by the items that came in its samples."""
        shared = self._shared
        shared["gain"] *= 1 - GAIN_FADE
        if not len(figures):
            return
        believed, published, _, correction = figures.T
        scale = float(shared["came"]) / len(figures)  # the samples that found no room were like those that did
        items = np.minimum(published, 10)
        gained = items * correction - believed * np.expm1(correction)
        shared["gain"] += scale * np.array([gained.sum(), items.sum()])
        evidence = CAUTION * scale * weigh_evidence(believed, correction, published > 0).sum()
        shared["evidence"] = np.clip(shared["evidence"] + evidence, -MAX_EVIDENCE, MAX_EVIDENCE)

    def _compare(self, samples: Samples) -> None:
        """Compare learned and packaged weights on samples that neither has learned from."""
        lead = compute_losses(self._first, samples) - compute_losses(self._shared["weights"], samples)
        kept = 1 - GAIN_FADE
        self._shared["ahead"] = self._shared["ahead"] * [kept, kept**2] + [lead.sum(), (lead**2).sum()]

    def _read_samples(self, count: int) -> Samples:
        inputs = self._shared["samples"][:count].astype(np.float32) / np.float32(FINENESS)
        believed, published, weight, _ = self._shared["figures"][:count].T
        return Samples(inputs[:, :REFRESH_INPUTS], inputs[:, REFRESH_INPUTS:], believed, published, weight)


def weigh_evidence(believed: Floats, correction: Floats, came: Bools) -> Floats:
    """Return the nats by which the correction gave what happened a better chance: that items came in a bin, or none.

    Whether items came bounds each sample by ±3 nats and favours neither side. Clipped nats of counts do: where items
    are rare, the few large gains are cut and the many small losses are not.

    >>> believed, correction, came = np.array([0.1, 0.1]), np.array([1.5, 1.5]), np.array([True, False])
    >>> weigh_evidence(believed, correction, came).round(2).tolist()
    [1.33, -0.35]
    """
    plain = np.minimum(believed, MOST_EXPECTED)
    ours = np.minimum(believed * np.exp(correction), MOST_EXPECTED)
    gained = np.log(np.maximum(-np.expm1(-ours), 1e-12) / np.maximum(-np.expm1(-plain), 1e-12))
    return np.asarray(np.where(came, gained, plain - ours))


def choose_bins(rows: Rows, at: Floats) -> Rows:
    """Return six bins of each refresh, one of every four; the choice does not depend on the date."""
    seed = mix(rows.astype(np.int64) * 1_000_003 + np.mod(at, WEEK).astype(np.int64))[:, None] >> (2 * np.arange(KEPT))
    return np.asarray(np.arange(KEPT) * SPREAD + (seed % SPREAD), np.intp)


def mix(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return numbers without order, the same for the same input (Knuth's multiplicative hash)."""
    return (((numbers.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(20)).astype(
        np.int64
    )
