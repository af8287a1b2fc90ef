"""Which feeds a script may name: those of the store, where there is one."""

from __future__ import annotations

from dataclasses import dataclass

from headwater.errors import StoreError
from headwater.language import Catalogue
from headwater.settings import Settings
from headwater.store.opening import open_store
from headwater.store.queries.query_feeds import load_catalogue


@dataclass(frozen=True, slots=True)
class KnownNames:
    """What names are held against (`by`: store or items), or None and a `note` on why they are taken on trust."""

    by: str | None
    catalogue: Catalogue | None
    note: str | None = None


def load_known_names(given: Settings) -> KnownNames:
    """The feeds of the store of these settings; a script can be checked without one."""
    if given.database is None and not (given.data / "headwater.sqlite").exists():
        return _trust_names(f"There is no store in {given.data} yet")
    from headwater.cli.console.resources import run_async  # the store, which a check without one does not need

    async def look() -> Catalogue:
        async with await open_store(given.database_url, create=False) as store:
            return await store.read(load_catalogue)

    try:
        return KnownNames("store", run_async(look()))
    except StoreError as error:
        return _trust_names(str(error).rstrip("."))


def _trust_names(why: str) -> KnownNames:
    return KnownNames(None, None, f"{why}: the names of feeds were taken on trust.")
