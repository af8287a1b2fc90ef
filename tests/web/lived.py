"""A store as if a server had watched a farm for days: the real decisions, novelty and reports, a virtual clock.

Nothing is fetched: the farm's documents of each moment are read as if they had been.
"""

from __future__ import annotations

import hashlib

import numpy as np

from headwater.formats import read
from headwater.lab.farm.server import Farm
from headwater.model import Ending, Known, Outcome, Validators
from headwater.node import memory
from headwater.node.courtesy import Courtesy
from headwater.node.deciding import Decider
from headwater.node.learning import lesson
from headwater.node.quality import Watch
from headwater.node.refresher import Fetched, Refresher
from headwater.node.setting_up import build_strategy, spending
from headwater.settings import Settings
from headwater.store.store import Store
from headwater.store.values import NewFeed

DAY = 86_400.0
TAGS = ("news", "science", "blogs", "sport")


async def live(
    store: Store,
    given: Settings,
    now: float,
    *,
    feeds: int = 24,
    days: float = 10,
    step: float = 300.0,
    port: int = 8950,
) -> Farm:
    """Fill the store with `days` up to `now`; every tenth feed fails since some days. Answers the farm it watched."""
    clock = [now - days * DAY]
    farm = Farm(feeds, 7, 1.0, port=port, rates=(0.5, 90.0), clock=lambda: clock[0], started=clock[0], hints=True)
    new = [NewFeed(farm.url(k), title=farm.profile(k).title, tags=(TAGS[k % len(TAGS)],)) for k in range(feeds)]
    await store.add_feeds(new, clock[0])
    courtesy = Courtesy(np.random.default_rng(1), least=given.least_interval)
    decider = Decider(store, build_strategy(given), spending(given), courtesy, per_host=64, clock=lambda: clock[0])
    await decider.load()
    watch = Watch(store, decider, given.least_interval)
    refresher = Refresher(store, None)  # type: ignore[arg-type]
    steps = int(days * DAY / step)
    for number in range(steps):
        clock[0] = at = now - days * DAY + (number + 1) * step
        chosen = decider.choose(max(int(given.budget * step / 60), 1), at)
        rows = [row for row, _ in chosen]
        known = await store.known(decider.roster.ids[rows].tolist())
        batch = []
        for row, reason in chosen:
            feed = int(decider.roster.ids[row])
            broken = feed % 10 == 0 and at > now - 2 * DAY
            batch.append(Fetched(known[feed], _outcome(farm, feed, known[feed], at, broken), reason))
        if batch:
            settled = await refresher.settle(
                batch,
                plan=lambda pairs: decider.learn([lesson(f.known, f.outcome, v) for f, v in pairs]),
                believe=decider.believed_rate,
            )
            watch.note((one.verdict.refresh, one.fetched.known.last_success) for one in settled)
        if number % 4 == 0 or number > steps - 10:
            report = await watch.report(at)
            await watch.save(at, report)
    await memory.save(store, decider.roster, decider.strategy, courtesy, now)
    while await store.index():
        pass
    return farm


def _outcome(farm: Farm, feed: int, known: Known, at: float, broken: bool) -> Outcome:
    url = known.url
    if broken:
        ending = Ending.TIMEOUT if feed % 20 == 0 else Ending.MISSING
        said = "The server did not answer within 30 s." if ending is Ending.TIMEOUT else "The address is gone (404)."
        return Outcome(ending, url, url, at, 1.0, 404 if ending is Ending.MISSING else None, message=said)
    body = farm.source(feed - 1).document()
    digest = hashlib.sha256(body).hexdigest()
    if digest == known.body_hash:
        return Outcome(Ending.UNCHANGED, url, url, at, 0.1, 304, bytes=300, validators=Validators(f'"{digest[:8]}"'))
    document = read(body, url=url)
    return Outcome(
        Ending.CHANGED,
        url,
        url,
        at,
        0.2,
        200,
        document=document,
        bytes=len(body),
        body_hash=digest,
        validators=Validators(f'"{digest[:8]}"'),
    )
