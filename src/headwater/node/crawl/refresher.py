"""One refresh from end to end: fetch, judge, write. The crawler and the command line share it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from headwater.fetch.client import Fetcher
from headwater.model import Known, Outcome, Verdict
from headwater.novelty import find_unknown_identities, judge
from headwater.store.content.feed_state import find_seen_identities
from headwater.store.content.verdicts import SavedRefresh, save_refreshes
from headwater.store.store import Store


class Fetched(msgspec.Struct, frozen=True):
    """A feed's state before, what the fetch brought, and why it was fetched."""

    known: Known
    outcome: Outcome
    reason: str

    @property
    def feed_id(self) -> int:
        return self.known.feed_id

    @property
    def url(self) -> str:
        return self.known.url

    @property
    def was_well(self) -> bool:
        """Whether the last refresh before this one succeeded."""
        return self.known.last_success is not None and not self.known.failures


class StoredRefresh(msgspec.Struct, frozen=True):
    """A refresh as it was written."""

    fetched: Fetched
    verdict: Verdict
    saved: SavedRefresh


def _may_have_lost_items(fetched: Fetched) -> bool:
    """Only of a feed that has been read before, and only a document tells that items passed unread."""
    return fetched.outcome.document is not None and fetched.known.last_success is not None


Planner = Callable[[Sequence[tuple[Fetched, Verdict]]], Sequence[float | None]]
EstimateRate = Callable[[int], float | None]


class Refresher:
    """Fetches feeds and writes what came of it; holds no schedule of its own."""

    def __init__(self, store: Store, fetcher: Fetcher) -> None:
        self._store = store
        self._fetcher = fetcher

    async def fetch_feed(self, known: Known, reason: str) -> Fetched:
        outcome = await self._fetcher.fetch(
            known.url,
            known.validators,
            body_hash=known.body_hash,
            # A delta is merged into the window we keep, so it is only asked for where there is one.
            delta=bool(known.window),
        )
        return Fetched(known, outcome, reason)

    async def save_results(
        self, fetched: Sequence[Fetched], *, plan: Planner | None = None, believe: EstimateRate | None = None
    ) -> list[StoredRefresh]:
        """Judge and write a batch in one transaction; when this returns, what is new is safe.

        `plan` is asked, once for the batch, when each feed should be refreshed next (it may learn from the verdicts);
        `believe` gives the rate of a feed, for the estimate of a loss.
        """
        wanted = {
            one.known.feed_id: find_unknown_identities(one.known, one.outcome)
            for one in fetched
            if one.outcome.document
        }
        seen = await self._store.read(find_seen_identities, wanted) if any(wanted.values()) else {}
        verdicts = [
            judge(
                one.known,
                one.outcome,
                seen.get(one.known.feed_id, {}),
                reason=one.reason,
                rate=believe(one.known.feed_id) if believe and _may_have_lost_items(one) else None,
            )
            for one in fetched
        ]
        if plan is not None:
            due = plan(list(zip(fetched, verdicts, strict=True)))
            verdicts = [
                msgspec.structs.replace(verdict, known=msgspec.structs.replace(verdict.known, next_refresh=at))
                for verdict, at in zip(verdicts, due, strict=True)
            ]
        saved = await save_refreshes(self._store, verdicts)
        return [StoredRefresh(*each) for each in zip(fetched, verdicts, saved, strict=True)]
