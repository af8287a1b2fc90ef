"""Saves the leader's status and a sample of its beliefs for other processes, and loads them."""

from __future__ import annotations

import time

import msgspec

from headwater.node.crawl.crawl_status import CrawlStatus
from headwater.node.crawl.scheduler import Scheduler
from headwater.node.quality.belief_sample import BeliefSample, sample_beliefs
from headwater.store.saved_state import load_state, save_state
from headwater.store.store import Store

STATUS_STATE, BELIEF_STATE = "cluster status", "cluster beliefs"
STATUS_VERSION, BELIEF_VERSION = 2, 2
BELIEF_SECONDS = 60.0  # between two samples

_decode_status = msgspec.json.Decoder(CrawlStatus).decode


async def save_leader_status(store: Store, encoded: bytes) -> None:
    """Save a status, as JSON."""
    await store.write(save_state, STATUS_STATE, STATUS_VERSION, encoded, time.time())


async def load_leader_status(store: Store) -> CrawlStatus | None:
    """Return the leader's last status, or None if there was no leader yet."""
    saved = await store.read(load_state, STATUS_STATE)
    return None if saved is None or saved[0] != STATUS_VERSION else _decode_status(saved[1])


async def save_belief_sample(store: Store, scheduler: Scheduler) -> None:
    """Save a sample of the leader's beliefs, if there are any."""
    now = time.time()
    sample = sample_beliefs(scheduler, now)
    if sample is not None:
        await store.write(save_state, BELIEF_STATE, BELIEF_VERSION, sample.encode(), now)


async def load_belief_sample(store: Store) -> BeliefSample | None:
    """Return the leader's last sample of beliefs, or None."""
    saved = await store.read(load_state, BELIEF_STATE)
    return None if saved is None or saved[0] != BELIEF_VERSION else BeliefSample.decode(saved[1])
