"""Endpoints of deliveries, and of private feeds with their tokens."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, field

from headwater.errors import InputError
from headwater.publish import channels
from headwater.store.publishing import deliveries, private_feeds
from headwater.store.publishing.deliveries import Delivery, retry_deliveries
from headwater.store.publishing.private_feeds import (
    LIST_PATH,
    PrivateFeedToken,
    list_feed_tokens,
    list_restricted_paths,
    load_public_access,
    revoke_feed_tokens,
)
from headwater.store.queries.query_access import PRIVATE, SHARED
from headwater.web.api.api_types import (
    Cursor,
    Id,
    Limit,
    ListPage,
    RemovedView,
    ShortText,
    Tag,
    decode_cursor,
    paginate,
)
from headwater.web.api.endpoint import ADMIN, ApiCall, EndpointGroup, Parameters, RequestBody, ResponseBody
from headwater.web.shared.reader_feeds import find_own_query

delivery_group = EndpointGroup(
    "deliveries", "Mails, webhooks and notifications of query feeds; dead ones have failed for good."
)

DELIVERY_STATES = ("due", "failed", "sent", "dead")


class DeliveryListParameters(Parameters, frozen=True):
    limit: Limit = 100
    cursor: Cursor | None = None
    state: Literal["due", "failed", "sent", "dead"] | None = None


@delivery_group.get("/deliveries", ADMIN)
async def list_deliveries(call: ApiCall, parameters: DeliveryListParameters) -> ListPage[Delivery]:
    """List deliveries, the latest first."""
    before = decode_cursor(parameters.cursor, float, int)
    rows = await call.store.read(
        deliveries.list_deliveries,
        (parameters.state,) if parameters.state else (),
        limit=parameters.limit + 1,
        before=(before[0], before[1]) if before else None,
        of_server=True,
    )
    return paginate(rows, parameters.limit, lambda one: one, lambda one: (one.at, one.id))


class DeliveryCounts(ResponseBody, frozen=True):
    due: int
    failed: int
    sent: int
    dead: int


@delivery_group.get("/deliveries/counts", ADMIN)
async def count_deliveries(call: ApiCall) -> DeliveryCounts:
    """Count deliveries by state."""
    counts = await call.store.read(deliveries.count_deliveries)
    return DeliveryCounts(**{state: counts.get(state, 0) for state in DELIVERY_STATES})


class ResendRequest(RequestBody, frozen=True):
    """Either the given deliveries, or all dead ones."""

    ids: Annotated[list[Id], Meta(max_length=1000)] = field(default_factory=list)
    dead: bool = False


class ResendCount(ResponseBody, frozen=True):
    due: int


@delivery_group.post("/deliveries/resend", ADMIN)
async def resend_deliveries(call: ApiCall, body: ResendRequest) -> ResendCount:
    """Send dead or failed deliveries again now."""
    if bool(body.ids) == body.dead:
        raise InputError("Send either the ids of deliveries, or dead: true for all dead ones.", "ids")
    number = await call.store.write(retry_deliveries, body.ids, call.now)
    if body.ids and not number:
        raise InputError("None of these deliveries can be sent again: only dead and failed ones can.", "ids")
    call.aggregator.wake_deliveries()
    return ResendCount(due=number)


class TestMessageRequest(RequestBody, frozen=True):
    kind: Literal["email", "webhook", "notify"]
    address: Annotated[ShortText, Meta(description="a mail address, a web hook's URL, or an Apprise address")]


@delivery_group.post("/deliveries/test", ADMIN)
async def send_test_message(call: ApiCall, body: TestMessageRequest) -> None:
    """Send a test message now; the error says why it was not accepted."""
    await call.aggregator.send_test_message(body.kind, body.address)


publication_group = EndpointGroup(
    "published", "Published query feeds and tags: which are private, and the tokens that give access to them."
)

TokenLabel = Annotated[str, Meta(max_length=200, pattern=r"^[^\u0000-\u001f\u007f]*$")]


class PublishedFeedsView(ResponseBody, frozen=True):
    """The feeds that were made public, shared with all accounts or private, and their tokens; the rest is private."""

    private: list[str]
    shared: list[str]
    public: list[str]
    tokens: list[PrivateFeedToken]


@publication_group.get("/published", ADMIN)
async def list_published(call: ApiCall) -> PublishedFeedsView:
    """List who may read which feed, and the tokens of private feeds without the secrets."""
    restricted = await call.store.read(list_restricted_paths)
    return PublishedFeedsView(
        private=[path for path, visibility in restricted.items() if visibility == PRIVATE],
        shared=[path for path, visibility in restricted.items() if visibility == SHARED],
        public=sorted((await call.store.read(load_public_access)).public),
        tokens=await call.store.read(list_feed_tokens),
    )


class PublicationParameters(Parameters, frozen=True):
    kind: Literal["feeds", "tags"]
    name: Tag


class PrivacyRequest(RequestBody, frozen=True):
    private: bool


class PrivacyView(ResponseBody, frozen=True):
    path: str
    private: bool


@publication_group.put("/published/{kind}/{name}", ADMIN)
async def set_private(call: ApiCall, parameters: PublicationParameters, body: PrivacyRequest) -> PrivacyView:
    """Make a query feed of the server or a tag public, or private again."""
    path = await _find_own_path(call, parameters)
    await call.store.write(private_feeds.set_private, path, body.private)
    return PrivacyView(path=path, private=body.private)


@publication_group.put("/published/feeds.opml", ADMIN)
async def set_list_private(call: ApiCall, body: PrivacyRequest) -> PrivacyView:
    """Make the subscription list `/feeds.opml` public, or private again."""
    await call.store.write(private_feeds.set_private, LIST_PATH, body.private)
    return PrivacyView(path=LIST_PATH, private=body.private)


async def _find_own_path(call: ApiCall, parameters: PublicationParameters | FeedTokenParameters) -> str:
    """Return the path of a tag or of a query feed that the caller owns. Raises NotFound or Forbidden."""
    if parameters.kind == "feeds":
        return f"/feeds/{(await find_own_query(call.store, call.user, parameters.name)).name}"
    return await channels.find_path(call.store, f"{parameters.kind}/{parameters.name}")


class FeedTokenRequest(RequestBody, frozen=True):
    label: TokenLabel = ""


class CreatedFeedToken(ResponseBody, frozen=True):
    """The new token, which is shown only once, and the address that contains it."""

    path: str
    token: str
    url: str
    private: bool


@publication_group.post("/published/{kind}/{name}/tokens", ADMIN, status=201)
async def give_token(call: ApiCall, parameters: PublicationParameters, body: FeedTokenRequest) -> CreatedFeedToken:
    """Create a token for a private feed."""
    path = await _find_own_path(call, parameters)
    made = await channels.create_feed_token(call.store, path, body.label, call.site.base_url, call.now)
    return CreatedFeedToken(path=made.path, token=made.token, url=made.url, private=made.private)


class FeedTokenParameters(Parameters, frozen=True):
    kind: Literal["feeds", "tags"]
    name: Tag
    label: Annotated[ShortText, Meta(description="only tokens with this label")] | None = None


class RevokedTokensView(RemovedView, frozen=True):
    revoked: int


@publication_group.delete("/published/{kind}/{name}/tokens", ADMIN)
async def revoke_tokens(call: ApiCall, parameters: FeedTokenParameters) -> RevokedTokensView:
    """Revoke the tokens of a private feed."""
    path = f"/{parameters.kind}/{parameters.name}"
    if parameters.kind == "feeds":
        path = await _find_own_path(call, parameters)
    number, undo = await call.store.write(revoke_feed_tokens, path, parameters.label, by=call.remover)
    return RevokedTokensView(revoked=number, undo=undo)
