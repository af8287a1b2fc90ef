"""The store's side of removals: `store.removals`. Every method is one transaction of its own."""

from __future__ import annotations

from collections.abc import Collection

from headwater.store import taking_back
from headwater.store.database import Database
from headwater.store.people import SCOPES, Back, Removal


class RemovalStore:
    """What was removed and can be taken back. `who` None is whoever has the data folder: the command line."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def all(self, who: int | None, now: float, *, scopes: Collection[str] = SCOPES) -> list[Removal]:
        """What somebody with these scopes can take back, the latest first."""
        return await self._database.read(taking_back.listed, who, scopes, now)

    async def undo(self, number: int, who: int | None, now: float, *, scopes: Collection[str] = SCOPES) -> Back:
        """Bring it back as it was. NotFound where it is not theirs, was taken back, or is too long ago; InputError
        says what has taken its place."""
        return await self._database.write(taking_back.take_back, number, who, scopes, now)

    async def expire(self, now: float) -> int:
        """Forget what is too old to be taken back. The node does so with retention."""
        return await self._database.write(taking_back.forget, now - taking_back.LASTS)

    async def forget(self, numbers: Collection[int] | None = None) -> int:
        """Do not wait for that: these (all: None) are removed for good; how many there were."""
        return await self._database.write(taking_back.forget, float("inf"), numbers)
