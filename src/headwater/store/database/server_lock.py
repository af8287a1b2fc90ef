"""One server at a time on a SQLite file: two would ask every feed twice, each with the whole budget."""

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
from headwater.store.database.sqlite import parse_file


@contextmanager
def lock_database_file(database_url: str) -> Iterator[None]:
    """While the block runs no other server may start on this file; StoreError where one runs already.

    It is a lock of the operating system on a file beside the database, so it ends with the process, also by kill −9. It
    is none on the database itself: closing a second handle would let go of SQLite's own locks. PostgreSQL may have any
    number. An address, folder or file system that cannot be locked is left to the store, which reports the problem.
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
                    "Stop it first, or give this one another --data; several servers share a PostgreSQL."
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
        return Path(f"{parse_file(url)}-server").open("a+") if url.get_backend_name() == "sqlite" else None
    except (ArgumentError, ValueError, StoreError, OSError):
        return None
