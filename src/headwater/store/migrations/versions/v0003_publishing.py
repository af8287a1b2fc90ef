"""Publishing: which feeds are private, tokens, deliveries."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    op.create_table(
        "private_feed",
        sa.Column("path", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("path", name="private_feed_pk"),
    )
    op.create_table(
        "token",
        sa.Column("hash", sa.LargeBinary, nullable=False),
        sa.Column("path", sa.Text, nullable=False),
        sa.Column("label", sa.Text, nullable=False),
        sa.Column("created", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("hash", name="token_pk"),
        sqlite_with_rowid=False,
    )
    op.create_index("token_path", "token", ["path"])
    op.create_table(
        "delivery",
        sa.Column("id", ID, nullable=False),
        sa.Column("query_id", ID, nullable=False),
        sa.Column("query", sa.Text, nullable=False),
        sa.Column("hit_id", ID, nullable=False),
        sa.Column("item_id", ID, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("address", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("due", sa.Double),
        sa.Column("slot", sa.Double),
        sa.Column("batch", sa.Text),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("message", sa.Text),
        sa.PrimaryKeyConstraint("id", name="delivery_pk"),
        sa.UniqueConstraint(
            "query_id", "item_id", "kind", "address", name="delivery_query_id_item_id_kind_address_key"
        ),
        sqlite_autoincrement=True,
    )
    op.create_index("delivery_due", "delivery", ["due"])
    op.create_index("delivery_batch", "delivery", ["batch"])
