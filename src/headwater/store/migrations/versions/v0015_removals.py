"""What was removed, and the rows it was made of, until it can no longer be brought back."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"

ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    op.create_table(
        "removal",
        sa.Column("id", ID, nullable=False),
        sa.Column("user_id", ID),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("label", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("id", name="removal_pk"),
        sqlite_autoincrement=True,
    )
    op.create_index("removal_at", "removal", ["at"])
    op.create_table(
        "removed",
        sa.Column("removal_id", ID, nullable=False),
        sa.Column("part", sa.Integer, nullable=False),
        sa.Column("table_name", sa.Text, nullable=False),
        sa.Column("blob", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("removal_id", "part", name="removed_pk"),
        sa.ForeignKeyConstraint(["removal_id"], ["removal.id"], name="removed_removal_id_fk", ondelete="CASCADE"),
    )
