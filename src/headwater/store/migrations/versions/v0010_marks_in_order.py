"""Items marked unread know when they arrived."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    op.add_column("mark", sa.Column("arrived", sa.Double))
    op.execute("UPDATE mark SET arrived = (SELECT i.first_seen FROM item i WHERE i.id = mark.item_id) WHERE state = 0")
    unread = sa.text("state = 0")
    columns = ["user_id", "arrived", "item_id", "feed_id", "state"]
    op.create_index("mark_arrived", "mark", columns, sqlite_where=unread, postgresql_where=unread)
