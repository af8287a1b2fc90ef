"""The sidebar of the reading page shows the right feeds, however many there are."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as some

from headwater.store.readers.subscriptions import Subscription
from headwater.store.readers.unread_counts import UnreadCount, UnreadCounts
from headwater.web.shared.reader_feeds import ReaderFeeds


def a_subscription(id: int, title: str) -> Subscription:
    return Subscription(id, None, title, f"https://{id}.example/", None, (), 0.0, 0)


@given(some.lists(some.tuples(some.text("aBbé", max_size=3), some.booleans()), max_size=40), some.integers(1, 30))
def test_of_many_feeds_those_with_something_to_read_come_first_and_all_by_title(
    feeds: list[tuple[str, bool]], most: int
) -> None:
    mine = ReaderFeeds([a_subscription(id, title) for id, (title, _) in enumerate(feeds)])
    unread = {id for id, (_, has) in enumerate(feeds) if has}
    counts = UnreadCounts({id: UnreadCount(1, 0.0) for id in unread}, {}, {}, len(unread))
    order = sorted(range(len(feeds)), key=lambda id: feeds[id][0].casefold())
    if len(feeds) > most:
        order.sort(key=lambda id: id not in unread)
    assert [one.feed_id for one in mine.choose_feeds(most, counts)] == order[:most]
