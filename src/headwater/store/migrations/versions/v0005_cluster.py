"""Several machines: leases, members, jobs, what is to be learned, and what was put aside."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    op.create_table(
        "lease",
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("holder", sa.Text, nullable=False),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("until", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("name", name="lease_pk"),
    )
    op.create_table(
        "member",
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("role", sa.Text, nullable=False),
        sa.Column("seen", sa.Double, nullable=False),
        sa.Column("info", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("name", name="member_pk"),
    )
    op.create_table(
        "job",
        sa.Column("feed_id", ID, autoincrement=False, nullable=False),
        sa.Column("partition", sa.SmallInteger, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.Column("taken_until", sa.Double, nullable=False),
        sa.Column("tries", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("feed_id", name="job_pk"),
    )
    op.create_index("job_partition", "job", ["partition"])
    op.create_table(
        "settled",
        sa.Column("id", ID, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("id", name="settled_pk"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "quarantine",
        sa.Column("id", ID, nullable=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("subject", sa.Text, nullable=False),
        sa.Column("problem", sa.Text, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("id", name="quarantine_pk"),
        sqlite_autoincrement=True,
    )
