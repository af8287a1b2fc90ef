"""Tokens that open private feeds: made once, shown once, kept only as a hash."""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from urllib.parse import quote

from headwater.errors import InputError, NotFound
from headwater.publish import channels
from headwater.store.store import Store


@dataclass(frozen=True, slots=True)
class NewFeedToken:
    """A token as it is shown this once; `private` is False where the feed is open to everybody all the same."""

    path: str
    token: str
    url: str
    private: bool


def parse_path(where: str) -> str:
    """The path that somebody means by feeds/NAME or tags/TAG."""
    kind, slash, name = where.strip("/").partition("/")
    if kind not in ("feeds", "tags") or not slash or not name:
        raise InputError(f"“{where}” is nothing that is published: give feeds/NAME or tags/TAG.")
    return f"/{kind}/{name}"


async def find_path(store: Store, where: str) -> str:
    """The path of something that is published; NotFound."""
    path = parse_path(where)
    found = await channels.find_channel(store, path)
    if found is None:
        what = "tag" if path.startswith("/tags/") else "query feed"
        raise NotFound(f"Nothing is published at {path}: there is no such {what}.")
    return found.path


async def create_feed_token(store: Store, where: str, label: str, base: str, now: float) -> NewFeedToken:
    """Make a token for a feed."""
    path = await find_path(store, where)
    made = secrets.token_urlsafe(24)
    await store.publishing.add_token(path, hashlib.sha256(made.encode()).digest(), label, now)
    private = path.casefold() in (await store.publishing.access()).private
    return NewFeedToken(path, made, f"{base.rstrip('/')}{quote(path)}.rss?token={made}", private)
