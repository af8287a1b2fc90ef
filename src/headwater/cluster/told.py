"""What the leader believes of the feeds, for the pages of other processes: enough to say what budgets would buy."""

from __future__ import annotations

import time

import msgspec

from headwater.node.buying import Sample, sampled
from headwater.node.deciding import Decider
from headwater.store.store import Store

NAME, VERSION = "cluster beliefs", 1
EVERY = 60.0  # seconds

_read = msgspec.msgpack.Decoder(Sample).decode


async def tell(store: Store, decider: Decider) -> None:
    """While nothing is believed, nothing is told."""
    now = time.time()
    sample = sampled(decider, now)
    if sample is not None:
        await store.save_state(NAME, VERSION, msgspec.msgpack.encode(sample), now)


async def last_told(store: Store) -> Sample | None:
    saved = await store.load_state(NAME)
    return None if saved is None or saved[0] != VERSION else _read(saved[1])
