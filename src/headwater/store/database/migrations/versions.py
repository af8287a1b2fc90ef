"""The migrations in order: each is a function that changes the tables from one version to the next.

The tables of 0.2.0 are version v0001. A new database gets the tables of the code and needs no migration.
"""

from __future__ import annotations

from collections.abc import Callable

import sqlalchemy as sa

from headwater.store.database.migrations.table_changes import TableChanges

ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def add_feed_interval(tables: TableChanges) -> None:
    """Add the interval that a person gives a feed."""
    tables.add_column("feed", sa.Column("interval", sa.Double))


def add_item_labels(tables: TableChanges) -> None:
    """Add the labels that readers put on single items."""
    tables.create_table(
        "item_label",
        sa.Column("user_id", ID, sa.ForeignKey("user.id", ondelete="CASCADE"), primary_key=True, autoincrement=False),
        sa.Column("label", sa.Text, primary_key=True),
        sa.Column("item_id", ID, sa.ForeignKey("item.id", ondelete="CASCADE"), primary_key=True, autoincrement=False),
        sqlite_with_rowid=False,
    )
    tables.create_index("item_label_item_id", "item_label", ["item_id"])


def add_duplicate_counts(tables: TableChanges) -> None:
    """Add the number of duplicates to the refresh log."""
    tables.add_column("refresh", sa.Column("duplicates", sa.Integer, nullable=False, server_default="0"))


def add_promises(tables: TableChanges) -> None:
    """Add the hourly records of promises, and alerts among the deliveries."""
    tables.add_column("delivery", sa.Column("alert", sa.Text))
    tables.create_table(
        "promise_hour",
        sa.Column("query_id", ID, nullable=False, autoincrement=False),
        sa.Column("hour", sa.Integer, nullable=False, autoincrement=False),
        sa.Column("promised", sa.Text, nullable=False),
        sa.Column("predicted", sa.Text, nullable=False),
        sa.Column("got", sa.BigInteger, nullable=False),
        sa.Column("lost", sa.Double, nullable=False),
        sa.Column("dated", sa.BigInteger, nullable=False),
        sa.Column("in_time", sa.BigInteger, nullable=False),
        sa.Column("waited", sa.Double, nullable=False),
        sa.Column("missing", sa.Double, nullable=False),
        sa.Column("watched", sa.Double, nullable=False),
        sa.Column("kept", sa.Boolean),
        sa.Column("why", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("query_id", "hour", name="promise_hour_pk"),
        sqlite_with_rowid=False,
    )
    tables.create_index("promise_hour_hour", "promise_hour", ["hour"])


def add_visibility(tables: TableChanges) -> None:
    """Give query feeds an owner and a visibility, make lists private, and tie sessions to the token that made them."""
    tables.add_column("query_feed", sa.Column("reader_id", ID))
    tables.add_column("query_feed", sa.Column("visibility", sa.Text))
    tables.add_column("query_feed", sa.Column("description", sa.Text))
    tables.add_column("session", sa.Column("token_id", ID))
    tables.create_table(
        "published_path",
        sa.Column("path", sa.Text, nullable=False),
        sa.Column("public", sa.Boolean, nullable=False),
        sa.PrimaryKeyConstraint("path", name="published_path_pk"),
    )
    _keep_query_feeds_as_they_were(tables)
    tables.drop_table("private_feed")


def _keep_query_feeds_as_they_were(tables: TableChanges) -> None:
    """Leave existing query feeds readable by those who read them: others may have subscribed to their addresses.

    Tags and the list of feeds were never chosen to be public, so they are private now.
    """
    tables.execute("UPDATE query_feed SET visibility = 'public'")
    tables.execute(
        "UPDATE query_feed SET visibility = 'private' WHERE '/feeds/' || key IN (SELECT path FROM private_feed)"
    )
    read = 'SELECT query_id FROM query_subscription JOIN "user" ON "user".id = user_id WHERE role = \'reader\''
    tables.execute(f"UPDATE query_feed SET visibility = 'shared' WHERE visibility = 'private' AND id IN ({read})")
    tables.execute(
        "INSERT INTO published_path (path, public) SELECT path, FALSE FROM private_feed WHERE path LIKE '/tags/%'"
    )


def add_item_details(tables: TableChanges) -> None:
    """Add the details of items: lead picture, addresses of the authors, episode of a podcast."""
    tables.add_column("item", sa.Column("details", sa.Text))


def add_receiver_queues(tables: TableChanges) -> None:
    """Add the index by which each receiver has a queue of its own, and the sender of a request to the hub."""
    waiting = sa.text("due IS NOT NULL")
    tables.create_index(
        "delivery_address_due", "delivery", ["address", "due"], sqlite_where=waiting, postgresql_where=waiting
    )
    tables.add_column("hub_request", sa.Column("sender", sa.Text))


def add_stories(tables: TableChanges) -> None:
    """Add the story of each item."""
    tables.create_table(
        "item_story",
        sa.Column("item_id", ID, nullable=False, autoincrement=False),
        sa.Column("story_id", ID, nullable=False),
        sa.Column("joined_id", ID),
        sa.Column("score", sa.Double),
        sa.Column("words", sa.Text, nullable=False),
        sa.Column("stems", sa.Text, nullable=False),
        sa.Column("publisher", sa.Text, nullable=False),
        sa.Column("continues_id", ID),
        sa.PrimaryKeyConstraint("item_id", name="item_story_pk"),
    )
    tables.create_index("item_story_story_id", "item_story", ["story_id"])


def add_earlier_versions(tables: TableChanges) -> None:
    """Add the earlier versions of items that have changed."""
    tables.create_table(
        "earlier_version",
        sa.Column("item_id", ID, autoincrement=False, nullable=False),
        sa.Column("version", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("until", sa.Double, nullable=False),
        sa.Column("blob", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("item_id", "version", name="earlier_version_pk"),
    )


def add_request_grants(tables: TableChanges) -> None:
    """Add the wishes of processes to send a request within the leader's budget."""
    tables.create_table(
        "request_grant",
        sa.Column("id", ID, primary_key=True),
        sa.Column("asked", sa.Double, nullable=False),
        sa.Column("granted", sa.Double),
        sa.Column("ended", sa.Double),
        sqlite_autoincrement=True,
    )


def add_document_readers_and_article_pages(tables: TableChanges) -> None:
    """Add the readers of published documents, as keyed hashes that are kept for two weeks, and the HTML of articles."""
    tables.create_table(
        "document_reader",
        sa.Column("path", sa.Text, nullable=False),
        sa.Column("week", sa.Integer, nullable=False, autoincrement=False),
        sa.Column("reader", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("path", "week", "reader", name="document_reader_pk"),
        sqlite_with_rowid=False,
    )
    tables.create_index("document_reader_week", "document_reader", ["week"])
    tables.create_table(
        "article_page",
        sa.Column("item_id", ID, nullable=False, autoincrement=False),
        sa.Column("url", sa.Text, nullable=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("html", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("item_id", name="article_page_pk"),
    )
    tables.create_index("article_page_at", "article_page", ["at"])


MIGRATIONS: dict[str, Callable[[TableChanges], None]] = {
    "v0002": add_feed_interval,
    "v0003": add_item_labels,
    "v0004": add_duplicate_counts,
    "v0005": add_promises,
    "v0006": add_visibility,
    "v0007": add_item_details,
    "v0008": add_receiver_queues,
    "v0009": add_stories,
    "v0010": add_earlier_versions,
    "v0011": add_request_grants,
    "v0012": add_document_readers_and_article_pages,
}
