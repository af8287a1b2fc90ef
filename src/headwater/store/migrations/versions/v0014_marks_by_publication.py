"""Items marked unread know when they were published, too."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    op.add_column("mark", sa.Column("published", sa.Double))
    op.execute("UPDATE mark SET published = (SELECT i.published FROM item i WHERE i.id = mark.item_id) WHERE state = 0")
    unread = sa.text("state = 0")
    columns = ["user_id", "published", "item_id", "feed_id", "arrived", "state"]
    op.create_index("mark_published", "mark", columns, sqlite_where=unread, postgresql_where=unread)
