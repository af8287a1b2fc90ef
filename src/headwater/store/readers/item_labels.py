"""Stores the labels that a reader puts on single items.

A label and a tag of subscriptions may have the same name; its stream then contains the items of both. Labelled items
are kept by retention, and stay visible after their feed is unsubscribed, like starred ones.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from sqlalchemy import Connection, and_, bindparam, delete, func, or_, select, update

from headwater.errors import NotFound
from headwater.store.database.dialect import chunks, insert_or_ignore
from headwater.store.readers.reader_items import find_visible
from headwater.store.readers.subscriptions import rename_subscription_tag, validate_tag
from headwater.store.readers.unread_counts import UnreadCount
from headwater.store.schema.item_tables import item
from headwater.store.schema.reader_tables import item_label, mark, subscription

CHUNK = 1000


def change_item_labels(
    connection: Connection, user_id: int, ids: Collection[int], add: Iterable[str] = (), remove: Iterable[str] = ()
) -> None:
    """Add and remove labels of the items among these that the reader may see."""
    added, removed = [validate_tag(label) for label in add], list(remove)
    if not added and not removed:
        return
    items = sorted({item_id for _, item_id in find_visible(connection, user_id, ids).values()})
    for chunk in chunks(items, CHUNK):
        if removed:
            mine = (item_label.c.user_id == user_id, item_label.c.item_id.in_(chunk))
            connection.execute(delete(item_label).where(*mine, item_label.c.label.in_(removed)))
        rows = [{"user_id": user_id, "item_id": id, "label": label} for id in chunk for label in added]
        if rows:
            connection.execute(insert_or_ignore(connection, item_label), rows)


def find_item_labels(connection: Connection, user_id: int, item_ids: Collection[int]) -> dict[int, list[str]]:
    """Find the labels of these items, sorted; items without labels are left out."""
    found: dict[int, list[str]] = {}
    if connection.execute(_ANY_LABEL, {"user": user_id}).first() is None:
        return found
    for chunk in chunks(item_ids, CHUNK):
        for id, label in connection.execute(_LABELS, {"user": user_id, "ids": chunk}):
            found.setdefault(id, []).append(label)
    return found


_LABELS = (
    select(item_label.c.item_id, item_label.c.label)
    .where(item_label.c.user_id == bindparam("user"), item_label.c.item_id.in_(bindparam("ids", expanding=True)))
    .order_by(item_label.c.label)
)
_ANY_LABEL = select(item_label.c.label).where(item_label.c.user_id == bindparam("user")).limit(1)


def count_item_labels(connection: Connection, user_id: int) -> dict[str, int]:
    """Count the labelled items of a reader by label."""
    query = select(item_label.c.label, func.count()).where(item_label.c.user_id == user_id)
    counted: dict[str, int] = dict(map(tuple, connection.execute(query.group_by(item_label.c.label))))
    return counted


def count_unread_by_label(connection: Connection, user_id: int) -> dict[str, UnreadCount]:
    """Count the unread items of a reader by label."""
    rows = connection.execute(_UNREAD_BY_LABEL, {"user": user_id})
    return {label: UnreadCount(count, newest) for label, count, newest in rows}


_UNREAD_BY_LABEL = (
    select(item_label.c.label, func.count(), func.max(item.c.first_seen))
    .select_from(
        item_label.join(item, item.c.id == item_label.c.item_id)
        .outerjoin(
            subscription, and_(subscription.c.user_id == bindparam("user"), subscription.c.feed_id == item.c.feed_id)
        )
        .outerjoin(
            mark,
            and_(mark.c.user_id == bindparam("user"), mark.c.feed_id == item.c.feed_id, mark.c.item_id == item.c.id),
        )
    )
    .where(
        item_label.c.user_id == bindparam("user"),
        or_(mark.c.state == 0, and_(mark.c.state.is_(None), item.c.id > func.coalesce(subscription.c.read_up_to, 0))),
    )
    .group_by(item_label.c.label)
)


def rename_label(connection: Connection, user_id: int, old: str, new: str) -> None:
    """Rename a label of items and the tag of subscriptions with this name. NotFound if there is neither."""
    new = validate_tag(new)
    mine = (item_label.c.user_id == user_id, item_label.c.label == old)
    if new != old:
        both = select(item_label.c.item_id).where(item_label.c.user_id == user_id, item_label.c.label == new)
        merged = connection.execute(delete(item_label).where(*mine, item_label.c.item_id.in_(both))).rowcount
        renamed = connection.execute(update(item_label).where(*mine).values(label=new)).rowcount + merged
    else:
        renamed = connection.execute(select(func.count()).select_from(item_label).where(*mine)).scalar_one()
    try:
        rename_subscription_tag(connection, user_id, old, new)
    except NotFound:
        if not renamed:
            raise
