"""Checks the health of the server: items arrive, are stored, and are delivered.

A problem that stops storing makes the server `failing`: a load balancer should ask another one. Any other problem makes
it `degraded`: it answers, but a person should look.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from headwater.cluster.cluster_status import find_missing_roles
from headwater.errors import StoreError
from headwater.node.crawl.crawl_status import CrawlStatus
from headwater.settings import Settings, is_shared_database
from headwater.store.maintenance.probe import WaitingWork, find_waiting_work, probe_tables, probe_writing
from headwater.store.store import Store
from headwater.times import DAY, MINUTE
from headwater.web.shared.failure_advice import report_store_error

OK, DEGRADED, FAILING = "ok", "degraded", "failing"
LATE = 10 * MINUTE  # the longest wait of feeds, items and deliveries for their turn
MIN_FREE_BYTES = 100 << 20
CHECK_SECONDS = 1.0  # anybody may ask, and each check writes
PATIENCE = 10.0  # seconds until a database counts as hung
_HANGS = f"The database has not answered for {PATIENCE:.0f} seconds."


@dataclass(frozen=True, slots=True)
class HealthProblem:
    """A named problem; `stops` is set if nothing can be stored, and `detail` is the sentence for owners."""

    name: str
    message: str
    stops: bool = False
    detail: str | None = None


def summarise_problems(problems: Sequence[HealthProblem]) -> str:
    """Return ok, degraded or failing.

    >>> summarise_problems([]), summarise_problems([HealthProblem("deliveries", "1 delivery fails.")])
    ('ok', 'degraded')
    """
    return FAILING if any(one.stops for one in problems) else DEGRADED if problems else OK


def describe_failure(problems: Sequence[HealthProblem], *, to_owner: bool = False) -> dict[str, object]:
    """Return the body of /health while nothing can be stored; owners also read where the database is."""
    told = [(one.detail if to_owner else None) or one.message for one in problems]
    named = [{"name": one.name, "message": message} for one, message in zip(problems, told, strict=True)]
    return {
        "status": FAILING,
        "message": next(message for one, message in zip(problems, told, strict=True) if one.stops),
        "problems": named,
    }


def find_late_work(work: WaitingWork, status: CrawlStatus, now: float) -> list[HealthProblem]:
    """Name the work that waits too long or fails."""
    found: list[HealthProblem] = []
    if status.network_away_since is not None:
        found.append(HealthProblem("network", "No server can be reached: the network of this machine is down."))
    elif status.moved_at is not None and now - status.moved_at > LATE:
        found.append(
            HealthProblem("refreshes", "For more than ten minutes no feed was chosen, or no result came. See the log.")
        )
    if work.unmatched_since is not None and now - work.unmatched_since > LATE:
        found.append(HealthProblem("queries", "Items have waited for the queries for more than ten minutes."))
    if work.undelivered_since is not None and now - work.undelivered_since > LATE:
        found.append(HealthProblem("deliveries_late", "Deliveries have been due for more than ten minutes."))
    if work.failing_deliveries:
        found.append(
            HealthProblem("deliveries", f"{work.failing_deliveries:,} deliveries fail; the page Settings lists them.")
        )
    return found


class HealthCheck:
    """Checks a store and its disk, at most once a second. A database that hangs is not asked again until it answers."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._check_task: asyncio.Task[list[HealthProblem]] | None = None
        self._checked_at = float("-inf")

    async def find_problems(self, settings: Settings, status: CrawlStatus, now: float) -> list[HealthProblem]:
        """Return everything that is wrong now, or was within the last second."""
        task = self._check_task
        if task is None or (task.done() and time.monotonic() - self._checked_at > CHECK_SECONDS):
            self._checked_at = time.monotonic()
            task = self._check_task = asyncio.create_task(self._check(settings, status, now))
        done, _ = await asyncio.wait({task}, timeout=PATIENCE)
        return task.result() if done else [HealthProblem("database", _HANGS, stops=True)]

    async def _check(self, settings: Settings, status: CrawlStatus, now: float) -> list[HealthProblem]:
        found: list[HealthProblem] = []
        try:
            await self._store.write(probe_writing, now)
        except StoreError as error:
            found.append(HealthProblem("storage", report_store_error(error), stops=True, detail=str(error)))
        try:
            await self._store.read(probe_tables)
            work = await self._store.read(find_waiting_work, now - DAY)
        except StoreError as error:
            return [*found, HealthProblem("database", report_store_error(error), stops=True, detail=str(error))]
        if is_shared_database(settings):
            found += [HealthProblem("cluster", missing) for missing in await find_missing_roles(self._store)]
        elif (free := _free_bytes(settings.data)) < MIN_FREE_BYTES:
            found.append(HealthProblem("disk", f"Only {free >> 20:,} MB are free on the disk of the database."))
        return found + find_late_work(work, status, now)


def _free_bytes(folder: Path) -> int:
    try:
        return shutil.disk_usage(folder).free
    except OSError:  # the database is elsewhere
        return MIN_FREE_BYTES
