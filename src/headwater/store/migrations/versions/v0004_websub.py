"""WebSub: who follows our feeds by the hub, and which hubs push feeds to us."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    op.create_table(
        "hub_request",
        sa.Column("id", ID, nullable=False),
        sa.Column("key", sa.LargeBinary, nullable=False),
        sa.Column("mode", sa.Text, nullable=False),
        sa.Column("topic", sa.Text, nullable=False),
        sa.Column("callback", sa.Text, nullable=False),
        sa.Column("secret", sa.Text),
        sa.Column("lease", sa.Double),
        sa.Column("reason", sa.Text),
        sa.Column("due", sa.Double, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("id", name="hub_request_pk"),
        sa.UniqueConstraint("key", name="hub_request_key_key"),
        sqlite_autoincrement=True,
    )
    op.create_index("hub_request_due", "hub_request", ["due"])
    op.create_table(
        "subscriber",
        sa.Column("id", ID, nullable=False),
        sa.Column("key", sa.LargeBinary, nullable=False),
        sa.Column("topic", sa.Text, nullable=False),
        sa.Column("callback", sa.Text, nullable=False),
        sa.Column("secret", sa.Text),
        sa.Column("since", sa.Double, nullable=False),
        sa.Column("until", sa.Double, nullable=False),
        sa.Column("sent", sa.Text),
        sa.Column("due", sa.Double),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("message", sa.Text),
        sa.PrimaryKeyConstraint("id", name="subscriber_pk"),
        sa.UniqueConstraint("key", name="subscriber_key_key"),
        sqlite_autoincrement=True,
    )
    op.create_index("subscriber_due", "subscriber", ["due"])
    op.create_table(
        "subscription",
        sa.Column("feed_id", ID, nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("hub", sa.Text, nullable=False),
        sa.Column("topic", sa.Text, nullable=False),
        sa.Column("secret", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("pending", sa.Double),
        sa.Column("since", sa.Double),
        sa.Column("until", sa.Double),
        sa.Column("due", sa.Double, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("pushes", sa.Integer, nullable=False),
        sa.Column("pushed", sa.Double),
        sa.Column("message", sa.Text),
        sa.PrimaryKeyConstraint("feed_id", name="subscription_pk"),
        sa.ForeignKeyConstraint(["feed_id"], ["feed.id"], name="subscription_feed_id_fk", ondelete="CASCADE"),
        sa.UniqueConstraint("key", name="subscription_key_key"),
    )
    op.create_index("subscription_due", "subscription", ["due"])
