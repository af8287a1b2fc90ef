"""Grants single requests within the budget: for feeds that people add, discovery and articles.

    async with grants.hold():   # waits for its turn, before all refreshes that the scheduler chooses
        …                       # one request

In one process the budget is asked directly (`LocalGrants`). In a cluster the leader has the budget: a wish is a row
(`RemoteGrants`), which the leader grants (`GrantDesk`). The grant says until when its request may begin, because
a terminal sends it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import NamedTuple

from headwater.errors import BudgetExhausted
from headwater.node.crawl.job_ledger import GrantLedger
from headwater.node.crawl.spending import BudgetAccount, SpendingLog
from headwater.store.request_grants import (
    ask_for_grant,
    end_grant,
    find_grant_time,
    give_grants,
    list_grants,
    remove_grants,
)
from headwater.store.store import Store

PATIENCE = 20.0  # seconds that a person waits for the budget
POLL_SECONDS = 0.1
BEGIN_SECONDS = 10.0  # at most, within which a granted request begins, or not at all


class RemoteGrant(NamedTuple):
    """Permission for one request that begins by `begin_by`, by the database's clock."""

    id: int
    begin_by: float


class LocalGrants:
    """Grants requests of this process."""

    def __init__(
        self,
        budget: BudgetAccount,
        spending_log: SpendingLog,
        *,
        patience: float = PATIENCE,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._budget = budget
        self._spending_log = spending_log
        self.patience = patience
        self._clock = clock
        self.is_ready = asyncio.Event()  # once the budget counts the spending before the start

    @asynccontextmanager
    async def hold(self) -> AsyncIterator[None]:
        """Wait until the budget allows a request, and count it while the block runs. Raises BudgetExhausted."""
        reserved = await self._wait_for_turn()
        try:
            await self._spending_log.save_record(lambda: self._budget.make_record(self._clock()))
            yield
        finally:
            self._budget.charge_without_document(self._clock(), reserved, reserved)

    async def _wait_for_turn(self) -> float:
        deadline = time.monotonic() + self.patience
        await self.is_ready.wait()
        self._budget.people_waiting += 1
        try:
            while not self._budget.count_for_people(now := self._clock()):
                wait = self._budget.find_refill(now) - now
                if time.monotonic() > deadline:
                    raise BudgetExhausted(wait)
                await asyncio.sleep(min(max(wait, 0.01), POLL_SECONDS))
            return self._budget.reserve_for_person(now)
        finally:
            self._budget.people_waiting -= 1


class RemoteGrants:
    """Asks the leader of a cluster."""

    def __init__(self, store: Store, *, begin_seconds: float = BEGIN_SECONDS, patience: float = PATIENCE) -> None:
        self._store = store
        self._begin_seconds = min(begin_seconds, BEGIN_SECONDS)
        self.patience = patience

    async def ask(self) -> RemoteGrant:
        """Wait until the leader allows a request. Raises BudgetExhausted."""
        id = await self._store.write(ask_for_grant)
        try:
            return RemoteGrant(id, await self._wait_for_grant(id) + self._begin_seconds)
        except BaseException:
            await self.end(id)
            raise

    async def end(self, id: int) -> None:
        """Note that a request has ended. Without that it counts for GRANT_SECONDS, because it may still begin."""
        await self._store.write(end_grant, id)

    async def _wait_for_grant(self, id: int) -> float:
        deadline = time.monotonic() + self.patience
        while (granted := await self._store.read(find_grant_time, id)) is None:
            if time.monotonic() > deadline:
                raise BudgetExhausted(None)
            await asyncio.sleep(POLL_SECONDS)
        return granted


class GrantDesk:
    """Grants the wishes of other processes, where the budget is: at the leader. `store` is fenced by its lease."""

    def __init__(self, store: Store, budget: BudgetAccount, spending_log: SpendingLog) -> None:
        self._store = store
        self._budget = budget
        self._spending_log = spending_log
        self._ledger = GrantLedger(budget)

    async def step(self) -> None:
        """Count requests that have ended, and grant as many wishes as the budget allows, oldest first."""
        rows = await self._store.read(list_grants)
        over = [row.id for row in rows if row.is_over]
        if over:
            await self._store.write(remove_grants, over)
        now = time.time()
        self._ledger.end_grants(rows, now)
        given = self._ledger.choose_wishes(rows, now)
        if given:  # the record first, so that the next leader knows of them
            await self._spending_log.save_record(lambda: self._budget.make_record(time.time()))
            await self._store.write(give_grants, given)
