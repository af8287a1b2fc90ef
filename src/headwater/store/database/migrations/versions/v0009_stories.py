"""Adds the story of each item."""

import sqlalchemy as sa

from headwater.store.database.migrations.table_changes import TableChanges


def upgrade(tables: TableChanges) -> None:
    id_type = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    tables.create_table(
        "item_story",
        sa.Column("item_id", id_type, nullable=False, autoincrement=False),
        sa.Column("story_id", id_type, nullable=False),
        sa.Column("joined_id", id_type),
        sa.Column("score", sa.Double),
        sa.Column("words", sa.Text, nullable=False),
        sa.Column("stems", sa.Text, nullable=False),
        sa.Column("publisher", sa.Text, nullable=False),
        sa.Column("continues_id", id_type),
        sa.PrimaryKeyConstraint("item_id", name="item_story_pk"),
    )
    tables.create_index("item_story_story_id", "item_story", ["story_id"])
