"""Where items were first published, so that what comes back from another aggregator is recognised."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"

ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    op.add_column("item", sa.Column("source", sa.Text))
    op.create_table(
        "published",
        sa.Column("query_id", ID, nullable=False),
        sa.Column("key", sa.LargeBinary, nullable=False),
        sa.Column("item_id", ID, nullable=False),
        sa.PrimaryKeyConstraint("query_id", "key", name="published_pk"),
        sqlite_with_rowid=False,
    )
