"""Definitions of query feeds: their packed form, and when they were given in the count of changes."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    op.add_column("query_feed", sa.Column("form", sa.LargeBinary))
    op.add_column("query_feed", sa.Column("revision", sa.BigInteger, nullable=False, server_default="0"))
    op.create_index("query_feed_revision", "query_feed", ["revision"])
