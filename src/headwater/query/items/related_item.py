"""Names an item that a join has found, with what a link to it needs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Related:
    """An item that a join has found, with the fields that a related link needs."""

    source: str
    identity: str
    id: int | None
    title: str | None
    link: str | None
    first_seen: float

    @property
    def key(self) -> tuple[str, str]:
        return self.source, self.identity
