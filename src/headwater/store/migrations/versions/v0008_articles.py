"""Articles: for which feeds and queries pages are fetched, and what became of each."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"

ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    for name, of in (("article_feed", "feed"), ("article_query", "query_feed")):
        key = "feed_id" if of == "feed" else "query_id"
        op.create_table(
            name,
            sa.Column(key, ID, nullable=False),
            sa.PrimaryKeyConstraint(key, name=f"{name}_pk"),
            sa.ForeignKeyConstraint([key], [f"{of}.id"], name=f"{name}_{key}_fk", ondelete="CASCADE"),
        )
    op.create_table(
        "article",
        sa.Column("item_id", ID, nullable=False),
        sa.Column("url", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("due", sa.Double),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("written", sa.LargeBinary),
        sa.Column("message", sa.Text),
        sa.PrimaryKeyConstraint("item_id", name="article_pk"),
    )
    op.create_index("article_due", "article", ["due"])
