"""What the leader believes of the feeds, for the pages of other processes: enough to say what budgets would buy."""

from __future__ import annotations

import time

import msgspec

from headwater.node.crawl.scheduler import Scheduler
from headwater.node.quality.belief_sample import BeliefSample, sample_beliefs
from headwater.store.saved_state import load_state, save_state
from headwater.store.store import Store

STATE_NAME, VERSION = "cluster beliefs", 1
BELIEF_SECONDS = 60.0  # seconds

_decode_sample = msgspec.msgpack.Decoder(BeliefSample).decode


async def save_belief_sample(store: Store, decider: Scheduler) -> None:
    """While nothing is believed, nothing is told."""
    now = time.time()
    sample = sample_beliefs(decider, now)
    if sample is not None:
        await store.write(save_state, STATE_NAME, VERSION, msgspec.msgpack.encode(sample), now)


async def load_belief_sample(store: Store) -> BeliefSample | None:
    saved = await store.read(load_state, STATE_NAME)
    return None if saved is None or saved[0] != VERSION else _decode_sample(saved[1])
