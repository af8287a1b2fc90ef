"""Who may read what is published: private feeds and their tokens."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from headwater.publish import tokens
from headwater.store.values import Token
from headwater.web.api.endpoint import ADMIN, Answer, Asked, Call, Given, Noun
from headwater.web.api.values import Line, Removed, Tag

noun = Noun("published", "Query feeds and tags as others read them: which are private, and the tokens that open them.")

Label = Annotated[str, Meta(max_length=200, pattern=r"^[^\u0000-\u001f\u007f]*$")]


class PublishedView(Answer, frozen=True):
    """Everything is public that is not named here."""

    private: list[str]
    tokens: list[Token]


@noun.get("/published", ADMIN)
async def list_published(call: Call) -> PublishedView:
    """List what is private, and the tokens there are; a token itself is never shown again."""
    access = await call.store.publishing.access()
    return PublishedView(private=sorted(access.private), tokens=await call.store.publishing.tokens())


class OnePublished(Asked, frozen=True):
    kind: Literal["feeds", "tags"]
    name: Tag


class Privacy(Given, frozen=True):
    private: bool


class PrivacyView(Answer, frozen=True):
    path: str
    private: bool


@noun.put("/published/{kind}/{name}", ADMIN)
async def set_private(call: Call, asked: OnePublished, given: Privacy) -> PrivacyView:
    """Make a query feed or a tag private, or public again."""
    path = await tokens.path_of(call.store, f"{asked.kind}/{asked.name}")
    await call.store.publishing.set_private(path, given.private)
    return PrivacyView(path=path, private=given.private)


class NewToken(Given, frozen=True):
    label: Label = ""


class FeedToken(Answer, frozen=True):
    """The token, shown this once, and the address with it."""

    path: str
    token: str
    url: str
    private: bool


@noun.post("/published/{kind}/{name}/tokens", ADMIN, status=201)
async def give_token(call: Call, asked: OnePublished, given: NewToken) -> FeedToken:
    """Make a token for a private feed."""
    made = await tokens.give(call.store, f"{asked.kind}/{asked.name}", given.label, call.frame.base, call.now)
    return FeedToken(path=made.path, token=made.token, url=made.url, private=made.private)


class TokensAsked(Asked, frozen=True):
    kind: Literal["feeds", "tags"]
    name: Tag
    label: Annotated[Line, Meta(description="only those with this label")] | None = None


class Revoked(Removed, frozen=True):
    revoked: int


@noun.delete("/published/{kind}/{name}/tokens", ADMIN)
async def revoke_tokens(call: Call, asked: TokensAsked) -> Revoked:
    """Make the tokens of a feed worthless."""
    path = f"/{asked.kind}/{asked.name}"
    number, undo = await call.store.publishing.revoke(path, asked.label, by=call.remover)
    return Revoked(revoked=number, undo=undo)
