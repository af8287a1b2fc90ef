"""Turns driver errors into sentences with advice, and tells which ones pass by waiting."""

from __future__ import annotations

import sqlite3
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy.exc import DBAPIError, IntegrityError, InterfaceError, SQLAlchemyError, StatementError

from headwater.errors import StoreError

_SQLITE_SENTENCES = {
    sqlite3.SQLITE_BUSY: "The database{file} is locked by another program. Wait until it has finished, or stop it.",
    sqlite3.SQLITE_LOCKED: "The database{file} is locked by another program. Wait until it has finished, or stop it.",
    sqlite3.SQLITE_READONLY: "The database{file} cannot be written. Give write permission on the file and its folder.",
    sqlite3.SQLITE_IOERR: "The disk refused to read or write the database{file}{says}. Check its free space and "
    "its health; nothing half written is kept.",
    sqlite3.SQLITE_CORRUPT: "The database{file} is damaged{says}. Restore it from a backup.",
    sqlite3.SQLITE_FULL: "The disk is full: the database{file} cannot grow. Free some space; nothing half written "
    "is kept.",
    sqlite3.SQLITE_CANTOPEN: "The database{file} cannot be opened. Check that its folder exists and may be written.",
    sqlite3.SQLITE_PERM: "The database{file} may not be opened. Give yourself permission, or choose another file.",
    sqlite3.SQLITE_NOTADB: "The file{file} is not a SQLite database. Choose another file; this one was left as it is.",
    sqlite3.SQLITE_TOOBIG: "Something is too large for the database{file}{says}.",
}

_POSTGRES_SENTENCES = {
    "28P01": "PostgreSQL{server} refused the password. Check user and password in the address.",
    "28000": "PostgreSQL{server} does not let this user in{says}. Check the user, or pg_hba.conf on the server.",
    "3D000": "PostgreSQL{server} has no database of that name{says}. Create it, or correct the address.",
    "42501": "This user may not do that in PostgreSQL{server}{says}. Grant it the right to create tables.",
    "25006": "PostgreSQL{server} is read-only, perhaps a standby. Give the address of the primary.",
    "53100": "The disk of PostgreSQL{server} is full. Free some space; nothing half written is kept.",
    "53300": "PostgreSQL{server} has no connection left. Raise max_connections, or stop something.",
    "57P03": "PostgreSQL{server} is starting up or shutting down. Try again in a moment.",
    "55P03": "Something in PostgreSQL{server} is locked by another program. Wait until it has finished.",
}


def describe_sqlite_error(error: BaseException, file: Path) -> StoreError:
    """Describe an error of SQLite in a sentence with advice."""
    code = getattr(error, "sqlite_errorcode", None)
    sentence = _SQLITE_SENTENCES.get(code & 0xFF) if code is not None else None
    return _fill_in(sentence or "The database{file} failed{says}.", str(error), file=f" {file}")


def describe_postgres_error(error: BaseException, server: str) -> StoreError:
    """Describe an error of PostgreSQL in a sentence with advice."""
    says = str(error).rpartition(">: ")[2].splitlines()[0] if str(error) else type(error).__name__
    state = getattr(error, "sqlstate", None) or getattr(error.__cause__, "sqlstate", None)
    if isinstance(error, ssl.SSLCertVerificationError):
        says = error.verify_message
    sentence = _POSTGRES_SENTENCES.get(state or "") or _describe_tls_error(error)
    if sentence is None and (isinstance(error, OSError | TimeoutError) or (state or "").startswith(("08", "57"))):
        sentence = "PostgreSQL{server} cannot be reached{says}. Check that it runs and that the address is right."
    return _fill_in(sentence or "PostgreSQL{server} failed{says}.", says, server=f" at {server}")


def _fill_in(sentence: str, says: str, **place: str) -> StoreError:
    """Make an error whose message has the place and the words of the driver, and whose public sentence has neither."""
    hidden = dict.fromkeys(place, "")
    reason = f" ({says.rstrip('.')})" if says else ""
    return StoreError(sentence.format(says=reason, **place), sentence.format(says="", **hidden))


def _describe_tls_error(error: BaseException | None) -> str | None:
    """Describe a TLS problem that does not pass by waiting."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            "PostgreSQL{server} showed a certificate that is not trusted{says}. "
            "Name the file of who signed it in the address (sslrootcert=FILE), and the server as its certificate does."
        )
    if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
        return (
            "TLS with PostgreSQL{server} cannot begin{says}. Check the files that the address names: "
            "sslrootcert, and sslcert and sslkey where it wants a certificate of ours; the key without a password."
        )
    if isinstance(error, ConnectionError) and "rejected SSL" in str(error):
        return (
            "PostgreSQL{server} does not speak TLS, and the address wants it. Set it up there (ssl = on), or say "
            "sslmode=disable to do without."
        )
    return None


@contextmanager
def translate_sqlite_errors(file: Path) -> Iterator[None]:
    """Raise errors of SQLite that leave the block as StoreError."""
    try:
        yield
    except DBAPIError as error:
        raise describe_sqlite_error(error.orig or error, file) from error
    except sqlite3.Error as error:
        raise describe_sqlite_error(error, file) from error
    except OSError as error:
        raise _fill_in(
            "The database{file} cannot be opened{says}.", error.strerror or str(error), file=f" {file}"
        ) from error
    except SQLAlchemyError as error:
        raise describe_sqlite_error(error, file) from error


@contextmanager
def translate_postgres_errors(server: str) -> Iterator[None]:
    """Raise errors of PostgreSQL, its driver and the network that leave the block as StoreError."""
    from asyncpg import InterfaceError as DriverError
    from asyncpg import PostgresError

    try:
        yield
    except DBAPIError as error:
        raise describe_postgres_error(error.orig or error, server) from error
    except (PostgresError, DriverError, OSError, TimeoutError, SQLAlchemyError) as error:
        raise describe_postgres_error(error, server) from error


def concerns_values(error: Exception) -> bool:
    """Tell whether the database refuses the values of one row, so that other rows may succeed."""
    if isinstance(error, UnicodeError | OverflowError | ValueError | TypeError | IntegrityError):
        return True
    if isinstance(error, sqlite3.Error):  # of a statement that went past SQLAlchemy
        return isinstance(error, sqlite3.IntegrityError | sqlite3.DataError | sqlite3.InterfaceError)
    if isinstance(error, DBAPIError):
        state = getattr(error.orig, "sqlstate", None) or ""
        code = getattr(error.orig, "sqlite_errorcode", 0) & 0xFF
        # 22: data, 23: constraints, 54: limits; InterfaceError is the driver refusing an argument
        about = state[:2] in ("22", "23", "54") or code in (sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_MISMATCH)
        return (
            about
            or (isinstance(error, InterfaceError) and not error.connection_invalidated)
            or _is_encoding_error(error.orig)
        )
    if isinstance(error, StatementError):
        return isinstance(error.orig, UnicodeError | OverflowError | ValueError | TypeError)
    return False


def _is_encoding_error(error: BaseException | None) -> bool:
    """Tell whether asyncpg could not encode an argument: its own DataError has no SQLSTATE."""
    return error is not None and type(error.__cause__).__name__ == "DataError"


def may_pass(error: BaseException | None) -> bool:
    """Tell whether waiting may help: the connection failed, or the server is starting, full or shutting down."""
    while error is not None:
        state = getattr(error, "sqlstate", None) or getattr(getattr(error, "orig", None), "sqlstate", None)
        if state is not None:
            return state.startswith(("08", "57")) or state in ("53300", "53100", "55000")
        if isinstance(error, OSError | TimeoutError):
            return _describe_tls_error(error) is None
        error = error.__cause__
    return False


def was_disconnected(error: BaseException) -> bool:
    """Tell whether the connection was lost, so that the server has rolled back the open transaction."""
    return isinstance(error, DBAPIError) and error.connection_invalidated


def may_retry(error: BaseException) -> bool:
    """Tell whether a retry of the transaction will help: after a deadlock or a serialisation failure."""
    return isinstance(error, DBAPIError) and getattr(error.orig, "sqlstate", None) in ("40001", "40P01")
