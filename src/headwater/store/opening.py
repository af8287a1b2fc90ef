"""Opens a database by its address, migrates it and rebuilds a stale search index."""

from __future__ import annotations

import re

from sqlalchemy import Connection, make_url
from sqlalchemy.exc import ArgumentError

from headwater.errors import StoreError
from headwater.store.content.search import rebuild_if_stale
from headwater.store.database.database import Database
from headwater.store.database.migrate import migrate
from headwater.store.database.sqlite import Sqlite
from headwater.store.store import Store

_SECRET = re.compile("//.*@")
_WRONG_ADDRESS = "“{url}” is not the address of a database. Give sqlite:///FILE or postgresql://USER@HOST/NAME."


async def open_store(url: str, *, create: bool = True) -> Store:
    """Open `sqlite:///FILE` or `postgresql://…` and bring its tables up to date.

    With `create` false a missing SQLite file is an error. `sqlite:///FILE?synchronous=full` makes every commit survive
    a power cut too. Raises StoreError with advice.
    """
    database = await _open_database(url, create=create)
    try:
        await database.write(_prepare)
    except BaseException:
        await database.close()
        raise
    return Store(database)


async def _open_database(url: str, *, create: bool) -> Database:
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError) as error:
        raise StoreError(_WRONG_ADDRESS.format(url=_SECRET.sub("//…@", url))) from error
    backend = parsed.get_backend_name()
    if backend == "sqlite":
        return await Sqlite.open(parsed, create=create)
    if backend in ("postgresql", "postgres"):
        try:
            import asyncpg  # noqa: F401  only to see whether it is installed

            from headwater.store.database.postgres import (
                Postgres,  # loads a half of SQLAlchemy that SQLite does not need
            )
        except ImportError as error:
            raise StoreError("PostgreSQL needs more packages: install headwater[postgres].") from error
        return await Postgres.open(parsed)
    raise StoreError(_WRONG_ADDRESS.format(url=parsed.render_as_string(hide_password=True)))


def _prepare(connection: Connection) -> None:
    migrate(connection)
    rebuild_if_stale(connection)
