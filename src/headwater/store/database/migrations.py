"""Changes the rows of databases of earlier versions, in the order of the versions.

Tables, columns and indexes need no step: `complete_tables` adds those that a database lacks.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import Connection, text


def keep_query_feeds_as_they_were(connection: Connection) -> None:
    """Leave existing query feeds readable by those who read them: others may have subscribed to their addresses.

    Tags and the list of feeds were never chosen to be public, so they are private now.
    """
    read = 'SELECT query_id FROM query_subscription JOIN "user" ON "user".id = user_id WHERE role = \'reader\''
    for statement in (
        "UPDATE query_feed SET visibility = 'public'",
        "UPDATE query_feed SET visibility = 'private' WHERE '/feeds/' || key IN (SELECT path FROM private_feed)",
        f"UPDATE query_feed SET visibility = 'shared' WHERE visibility = 'private' AND id IN ({read})",
        "INSERT INTO published_path (path, public) SELECT path, FALSE FROM private_feed WHERE path LIKE '/tags/%'",
        "DROP TABLE private_feed",
    ):
        connection.execute(text(statement))


# By the version that they lead to; those of 0.2.0 are v0001.
STEPS: dict[str, Callable[[Connection], None]] = {"v0006": keep_query_feeds_as_they_were}
