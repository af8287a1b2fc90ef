"""Gives query feeds an owner and a visibility, makes lists private, and ties sessions to the token that made them."""

import sqlalchemy as sa

from headwater.store.database.migrations.table_changes import TableChanges

ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade(tables: TableChanges) -> None:
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
