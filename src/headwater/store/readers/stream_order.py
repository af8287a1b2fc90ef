"""Builds the SQL that orders and bounds a part of a stream, for items and hits alike."""

from __future__ import annotations

from typing import Any

from headwater.store.readers.stream_values import StreamQuery


class StreamOrder:
    """The order of a part by `key`, then `id`, and its conditions, with their values. Ids are stored less by `shift`
    than a part has them."""

    def __init__(self, part: StreamQuery, key: str, id: str, arrived: str, shift: int = 0) -> None:
        way, sign = ("ASC", ">") if part.oldest_first else ("DESC", "<")
        self.by = f"ORDER BY {key} {way}, {id} {way}"
        self.outer = f"ORDER BY k {way}, id {way}"
        self.values: dict[str, Any] = {"wanted": part.limit + 1}
        self.after = self.where_after = ""
        conditions = []
        if part.before is not None:
            at, last = part.before
            self.values |= {"at": float(at), "last": min(max(last - shift, -1), 2**63 - 1)}
            self.after = f"({key}, {id}) {sign} (:at, :last)"
            self.where_after = f" WHERE {self.after}"
            conditions.append(self.after)
        if part.since is not None:
            self.values["since"] = part.since
            conditions.append(f"{arrived} >= :since")
        if part.until is not None:
            self.values["until"] = part.until
            conditions.append(f"{arrived} < :until")
        self.conditions = "".join(f" AND {each}" for each in conditions)


def state_condition(part: StreamQuery, state: str) -> str:
    """The condition that something is read or unread, by what tells its `state`."""
    return "" if part.unread is None else f" AND {state} = {0 if part.unread else 1}"
