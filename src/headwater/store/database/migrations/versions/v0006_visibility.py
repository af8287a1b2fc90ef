"""Gives query feeds an owner and a visibility, makes lists private, and ties sessions to the token that made them."""

import sqlalchemy as sa
from alembic import op

revision = "v0006"
down_revision = "v0005"

ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    op.add_column("query_feed", sa.Column("reader_id", ID))
    op.add_column("query_feed", sa.Column("visibility", sa.Text))
    op.add_column("query_feed", sa.Column("description", sa.Text))
    op.add_column("session", sa.Column("token_id", ID))
    op.create_table(
        "published_path",
        sa.Column("path", sa.Text, nullable=False),
        sa.Column("public", sa.Boolean, nullable=False),
        sa.PrimaryKeyConstraint("path", name="published_path_pk"),
    )
    _keep_query_feeds_as_they_were()
    op.drop_table("private_feed")


def _keep_query_feeds_as_they_were() -> None:
    """Leave existing query feeds readable by those who read them: others may have subscribed to their addresses.

    Tags and the list of feeds were never chosen to be public, so they are private now.
    """
    op.execute("UPDATE query_feed SET visibility = 'public'")
    op.execute("UPDATE query_feed SET visibility = 'private' WHERE '/feeds/' || key IN (SELECT path FROM private_feed)")
    read = 'SELECT query_id FROM query_subscription JOIN "user" ON "user".id = user_id WHERE role = \'reader\''
    op.execute(f"UPDATE query_feed SET visibility = 'shared' WHERE visibility = 'private' AND id IN ({read})")
    op.execute(
        "INSERT INTO published_path (path, public) SELECT path, FALSE FROM private_feed WHERE path LIKE '/tags/%'"
    )
