"""Locks a SQLite file for one server at a time: two would poll every feed twice, each with the whole budget."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError

from headwater.errors import StoreError
from headwater.private_files import touch_private_file
from headwater.store.database.sqlite import parse_file


@contextmanager
def lock_database_file(database_url: str) -> Iterator[None]:
    """Hold the lock of a SQLite file while the block runs. Raises StoreError if another server holds it.

    The operating system locks a file beside the database, so the lock ends with the process, also by kill −9. The
    database file itself stays unlocked: closing a second handle would release SQLite's own locks. PostgreSQL needs no
    lock. If the address, folder or file system cannot be locked, opening the store reports the problem.
    """
    lock = _open_lock_file(database_url)
    if lock is None:
        yield
        return
    with lock:
        if sys.platform != "win32":
            import fcntl

            try:
                fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except (BlockingIOError, PermissionError) as error:
                lock.seek(0)
                raise StoreError(
                    f"A server runs on this database already (process {lock.read(20).strip() or 'unknown'}). "
                    "Stop it first, or give this one another --data. Several servers can share a PostgreSQL database."
                ) from error
            except OSError:
                pass  # a file system without locks
        with suppress(OSError):  # a full disk: the lock holds without the number
            lock.truncate(0)
            lock.write(f"{os.getpid()}\n")
            lock.flush()
        yield


def _open_lock_file(database_url: str) -> IO[str] | None:
    try:
        url = make_url(database_url)
        if url.get_backend_name() != "sqlite":
            return None
        file = Path(f"{parse_file(url)}-server")
        touch_private_file(file)  # who may read it could lock it, and so keep the server from starting
        return file.open("a+")
    except (ArgumentError, ValueError, StoreError, OSError):
        return None
