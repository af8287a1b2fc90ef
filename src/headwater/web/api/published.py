"""Who may read what is published: private feeds and their tokens."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from headwater.publish import tokens
from headwater.store.values import PrivateFeedToken
from headwater.web.api.endpoint import ADMIN, ApiCall, EndpointGroup, Parameters, RequestBody, ResponseBody
from headwater.web.api.values import RemovedView, ShortText, Tag

publication_group = EndpointGroup(
    "published", "Query feeds and tags as others read them: which are private, and the tokens that open them."
)

TokenLabel = Annotated[str, Meta(max_length=200, pattern=r"^[^\u0000-\u001f\u007f]*$")]


class PrivateFeedsView(ResponseBody, frozen=True):
    """Everything is public that is not named here."""

    private: list[str]
    tokens: list[PrivateFeedToken]


@publication_group.get("/published", ADMIN)
async def list_published(call: ApiCall) -> PrivateFeedsView:
    """List what is private, and the tokens there are; a token itself is never shown again."""
    access = await call.store.publishing.access()
    return PrivateFeedsView(private=sorted(access.private), tokens=await call.store.publishing.tokens())


class PublicationParameters(Parameters, frozen=True):
    kind: Literal["feeds", "tags"]
    name: Tag


class PrivacyRequest(RequestBody, frozen=True):
    private: bool


class PrivacyView(ResponseBody, frozen=True):
    path: str
    private: bool


@publication_group.put("/published/{kind}/{name}", ADMIN)
async def set_private(call: ApiCall, asked: PublicationParameters, given: PrivacyRequest) -> PrivacyView:
    """Make a query feed or a tag private, or public again."""
    path = await tokens.find_path(call.store, f"{asked.kind}/{asked.name}")
    await call.store.publishing.set_private(path, given.private)
    return PrivacyView(path=path, private=given.private)


class FeedTokenRequest(RequestBody, frozen=True):
    label: TokenLabel = ""


class CreatedFeedToken(ResponseBody, frozen=True):
    """The token, shown this once, and the address with it."""

    path: str
    token: str
    url: str
    private: bool


@publication_group.post("/published/{kind}/{name}/tokens", ADMIN, status=201)
async def give_token(call: ApiCall, asked: PublicationParameters, given: FeedTokenRequest) -> CreatedFeedToken:
    """Make a token for a private feed."""
    made = await tokens.create_feed_token(
        call.store, f"{asked.kind}/{asked.name}", given.label, call.frame.base_url, call.now
    )
    return CreatedFeedToken(path=made.path, token=made.token, url=made.url, private=made.private)


class FeedTokenParameters(Parameters, frozen=True):
    kind: Literal["feeds", "tags"]
    name: Tag
    label: Annotated[ShortText, Meta(description="only those with this label")] | None = None


class RevokedTokensView(RemovedView, frozen=True):
    revoked: int


@publication_group.delete("/published/{kind}/{name}/tokens", ADMIN)
async def revoke_tokens(call: ApiCall, asked: FeedTokenParameters) -> RevokedTokensView:
    """Make the tokens of a feed worthless."""
    path = f"/{asked.kind}/{asked.name}"
    number, undo = await call.store.publishing.revoke(path, asked.label, by=call.remover)
    return RevokedTokensView(revoked=number, undo=undo)
