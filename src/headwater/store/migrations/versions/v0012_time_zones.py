"""People have a time zone, and query feeds somebody who wrote them."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    op.add_column("user", sa.Column("time_zone", sa.Text))
    op.add_column("query_feed", sa.Column("author_id", sa.BigInteger().with_variant(sa.Integer, "sqlite")))
