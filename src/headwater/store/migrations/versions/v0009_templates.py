"""Templates of deliveries, of a query feed or of the whole server."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    op.create_table(
        "delivery_template",
        sa.Column("query", sa.Text, nullable=False),
        sa.Column("subject", sa.Text),
        sa.Column("body", sa.Text),
        sa.PrimaryKeyConstraint("query", name="delivery_template_pk"),
    )
