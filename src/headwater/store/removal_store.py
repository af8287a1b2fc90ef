"""The store's side of removals: `store.removals`. Every method is one transaction of its own."""

from __future__ import annotations

from collections.abc import Collection

from headwater.store.database.database import Database
from headwater.store.maintenance import trash_restore
from headwater.store.people import SCOPES, RestoredObject, TrashEntry


class RemovalStore:
    """What was removed and can be taken back. `who` None is whoever has the data folder: the command line."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def all(self, who: int | None, now: float, *, scopes: Collection[str] = SCOPES) -> list[TrashEntry]:
        """What somebody with these scopes can take back, the latest first."""
        return await self._database.read(trash_restore.list_trash, who, scopes, now)

    async def undo(
        self, number: int, who: int | None, now: float, *, scopes: Collection[str] = SCOPES
    ) -> RestoredObject:
        """Bring it back as it was. NotFound where it is not theirs, was taken back, or is too long ago; InputError
        says what has taken its place."""
        return await self._database.write(trash_restore.restore_from_trash, number, who, scopes, now)

    async def expire(self, now: float) -> int:
        """Forget what is too old to be taken back. The node does so with retention."""
        return await self._database.write(trash_restore.empty_trash, now - trash_restore.TRASH_SECONDS)

    async def forget(self, numbers: Collection[int] | None = None) -> int:
        """Do not wait for that: these (all: None) are removed for good; how many there were."""
        return await self._database.write(trash_restore.empty_trash, float("inf"), numbers)
