"""Why nothing stands in a stream of feeds: what is the case with them, and where to look."""

from __future__ import annotations

from dataclasses import dataclass

from headwater.store.people import Stream
from headwater.store.store import Store
from headwater.web.pages.streams import ReaderFeeds

# One, several. What needs a look comes first.
CAUSE_WORDS = {
    "failing": ("fails", "fail"),
    "gone": ("is gone", "are gone"),
    "paused": ("is paused", "are paused"),
    "new": ("has not been asked yet", "have not been asked yet"),
    "well": ("has answered but shows none", "have answered but show none"),
}


@dataclass(frozen=True, slots=True)
class EmptyCause:
    """What some of the feeds do, and the page that shows them, if there is one."""

    words: str
    path: str | None


@dataclass(frozen=True, slots=True)
class EmptyStream:
    """`waiting`: all feeds are still to be asked for the first time."""

    cases: tuple[EmptyCause, ...]
    waiting: bool


async def explain_empty_stream(store: Store, user_id: int, mine: ReaderFeeds, which: Stream) -> EmptyStream:
    """Of a stream that is empty."""
    states = await store.pages.states(user_id, which) if which.query is None else {}
    every = sum(states.values())
    only = which.feed if which.feed is not None else next(iter(mine.feeds)) if len(mine.feeds) == 1 else None
    cases: list[EmptyCause] = []
    for state, (one, several) in CAUSE_WORDS.items():
        if number := states.get(state, 0):
            who = _name_feeds(number, every, first=not cases)
            path = f"/feed/{only}" if only is not None else f"/feeds?state={state}" if state != "well" else None
            cases.append(EmptyCause(f"{who} {one if number == 1 else several}", path))
    return EmptyStream(tuple(cases), waiting=every > 0 and states.keys() == {"new"})


def _name_feeds(number: int, every: int, *, first: bool) -> str:
    if every == 1:
        return "the feed"
    if number == every:
        return f"all {number:,} feeds"
    return f"{number:,} of {every:,} feeds" if first else f"{number:,}"
