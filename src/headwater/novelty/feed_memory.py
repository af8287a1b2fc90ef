"""What is kept of a feed after a refresh: for the next request, and of what failed or moved."""

from __future__ import annotations

import msgspec

from headwater.model import Known, Outcome, Verdict

MOVED_AFTER = 3  # sights of the same permanent redirect before the stored address follows it


def after_success(known: Known, outcome: Outcome, at: float) -> Known:
    return msgspec.structs.replace(
        known,
        validators=known.validators if outcome.validators is None else outcome.validators,
        last_refresh=at,
        last_success=at,
        not_before=None,
        fresh_until=None if outcome.fresh_for is None else at + outcome.fresh_for,
        failures=0,
        failing_since=None,
        last_error=None,
        moved_to=outcome.moved_to,
        moves=_count_redirects(known, outcome),
    )


def after_failure(known: Known, outcome: Outcome, at: float) -> Known:
    after = msgspec.structs.replace(
        known,
        last_refresh=at,
        not_before=known.not_before if outcome.retry_after is None else at + outcome.retry_after,
        failures=known.failures + 1,
        failing_since=at if known.failing_since is None else known.failing_since,
        last_error=outcome.message,
    )
    # A failure on the way says nothing about a move: earlier sights of it still count.
    return (
        msgspec.structs.replace(after, moved_to=outcome.moved_to, moves=_count_redirects(known, outcome))
        if outcome.moved_to
        else after
    )


def _count_redirects(known: Known, outcome: Outcome) -> int:
    """How often in a row the same permanent redirect has been seen."""
    if outcome.moved_to is None:
        return 0
    return known.moves + 1 if outcome.moved_to == known.moved_to else 1


def apply_move(verdict: Verdict) -> Verdict:
    """A permanent redirect seen often enough moves the feed; validators belong to the address they came from."""
    known = verdict.known
    if known.moved_to is None or known.moves < MOVED_AFTER or not verdict.refresh.ending.ok:
        return verdict
    after = msgspec.structs.replace(known, url=known.moved_to, moved_to=None, moves=0)
    return msgspec.structs.replace(verdict, known=after, url=after.url)


def after_push(known: Known, verdict: Verdict) -> Verdict:
    """A push brings items and shows that the feed lives. When the feed is polled next, and what its own server and
    document ask for, is as it was: nobody has asked them."""
    after = msgspec.structs.replace(
        verdict.known,
        last_refresh=known.last_refresh,
        fresh_until=known.fresh_until,
        not_before=known.not_before,
        failures=known.failures,
        failing_since=known.failing_since,
        last_error=known.last_error,
        moved_to=known.moved_to,
        moves=known.moves,
        body_hash=known.body_hash,
        hints=known.hints,
        hub=known.hub,
        topic=known.topic,
    )
    return msgspec.structs.replace(verdict, known=after, url=None)
