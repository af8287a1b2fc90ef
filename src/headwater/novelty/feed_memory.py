"""Updates the stored state of a feed after a refresh (validators, failures, moves)."""

from __future__ import annotations

import msgspec

from headwater.model import Known, Outcome, Verdict

MOVED_AFTER = 3  # the address follows a permanent redirect seen this many times in a row


def after_success(known: Known, outcome: Outcome, at: float) -> Known:
    """Return the state after a successful refresh."""
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
    """Return the state after a failed refresh."""
    after = msgspec.structs.replace(
        known,
        last_refresh=at,
        not_before=known.not_before if outcome.retry_after is None else at + outcome.retry_after,
        failures=known.failures + 1,
        failing_since=at if known.failing_since is None else known.failing_since,
        last_error=outcome.message,
    )
    # A failure says nothing about a redirect: earlier sightings still count.
    return (
        msgspec.structs.replace(after, moved_to=outcome.moved_to, moves=_count_redirects(known, outcome))
        if outcome.moved_to
        else after
    )


def _count_redirects(known: Known, outcome: Outcome) -> int:
    """Count how often in a row the same permanent redirect has been seen."""
    if outcome.moved_to is None:
        return 0
    return known.moves + 1 if outcome.moved_to == known.moved_to else 1


def apply_move(verdict: Verdict) -> Verdict:
    """Move the feed to the target of a permanent redirect that was seen often enough.

    Validators belong to the address they came from.
    """
    known = verdict.known
    if known.moved_to is None or known.moves < MOVED_AFTER or not verdict.refresh.ending.ok:
        return verdict
    after = msgspec.structs.replace(known, url=known.moved_to, moved_to=None, moves=0)
    return msgspec.structs.replace(verdict, known=after, url=after.url)


def after_push(known: Known, verdict: Verdict) -> Verdict:
    """Return the verdict of a push.

    A push brings items and shows that the feed is alive, but it is not a poll: the next poll and the hints of server
    and document stay as they were.
    """
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
