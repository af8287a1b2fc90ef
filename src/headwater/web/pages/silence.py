"""Why nothing stands in a stream of feeds: what is the case with them, and where to look."""

from __future__ import annotations

from dataclasses import dataclass

from headwater.store.people import Stream
from headwater.store.store import Store
from headwater.web.pages.streams import Mine

# One, several. What needs a look comes first.
WORDS = {
    "failing": ("fails", "fail"),
    "gone": ("is gone", "are gone"),
    "paused": ("is paused", "are paused"),
    "new": ("has not been asked yet", "have not been asked yet"),
    "well": ("has answered but shows none", "have answered but show none"),
}


@dataclass(frozen=True, slots=True)
class Case:
    """What some of the feeds do, and the page that shows them, if there is one."""

    words: str
    path: str | None


@dataclass(frozen=True, slots=True)
class Silence:
    """`waiting`: all feeds are still to be asked for the first time."""

    cases: tuple[Case, ...]
    waiting: bool


async def silence(store: Store, user_id: int, mine: Mine, which: Stream) -> Silence:
    """Of a stream that is empty."""
    states = await store.pages.states(user_id, which) if which.query is None else {}
    every = sum(states.values())
    only = which.feed if which.feed is not None else next(iter(mine.feeds)) if len(mine.feeds) == 1 else None
    cases: list[Case] = []
    for state, (one, several) in WORDS.items():
        if number := states.get(state, 0):
            who = _who(number, every, first=not cases)
            path = f"/feed/{only}" if only is not None else f"/feeds?state={state}" if state != "well" else None
            cases.append(Case(f"{who} {one if number == 1 else several}", path))
    return Silence(tuple(cases), waiting=every > 0 and states.keys() == {"new"})


def _who(number: int, every: int, *, first: bool) -> str:
    if every == 1:
        return "the feed"
    if number == every:
        return f"all {number:,} feeds"
    return f"{number:,} of {every:,} feeds" if first else f"{number:,}"
