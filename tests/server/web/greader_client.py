"""A client of the Google Reader API that checks every field and its type as strictly as any app."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import httpx
import msgspec

Usec = Annotated[str, msgspec.Meta(pattern="^[0-9]{16}$")]
Msec = Annotated[str, msgspec.Meta(pattern="^[0-9]{13}$")]
LongId = Annotated[str, msgspec.Meta(pattern="^tag:google.com,2005:reader/item/[0-9a-f]{16}$")]
Decimal = Annotated[str, msgspec.Meta(pattern="^-?[0-9]+$")]


class Strict(msgspec.Struct, forbid_unknown_fields=True):
    pass


class Category(Strict):
    id: str
    label: str
    type: str


class GreaderSubscription(Strict):
    id: Annotated[str, msgspec.Meta(pattern="^feed/[0-9]+$")]
    title: str
    categories: list[Category]
    url: str
    htmlUrl: str
    iconUrl: str
    sortid: Annotated[str, msgspec.Meta(pattern="^[0-9A-F]{8}$")]
    firstitemmsec: Msec


class GreaderSubscriptions(Strict):
    subscriptions: list[GreaderSubscription]


class Tag(Strict):
    id: str
    type: str | None = None


class Tags(Strict):
    tags: list[Tag]


class GreaderUnreadCount(Strict):
    id: str
    count: int
    newestItemTimestampUsec: Annotated[str, msgspec.Meta(pattern="^(0|[0-9]{16})$")]


class GreaderUnreadCounts(Strict):
    max: int
    unreadcounts: list[GreaderUnreadCount]


class Ref(Strict):
    id: Decimal


class Refs(Strict):
    itemRefs: list[Ref]
    continuation: str | None = None


class Link(Strict):
    href: str
    type: str | None = None


class GreaderEnclosure(Strict):
    href: str
    type: str
    length: int | None = None


class Summary(Strict):
    direction: str
    content: str


class GreaderOrigin(Strict):
    streamId: str
    title: str
    htmlUrl: str


class GreaderItem(Strict):
    id: LongId
    crawlTimeMsec: Msec
    timestampUsec: Usec
    published: int
    updated: int
    title: str
    canonical: Annotated[list[Link], msgspec.Meta(min_length=1)]
    alternate: Annotated[list[Link], msgspec.Meta(min_length=1)]
    summary: Summary
    author: str
    categories: list[str]
    origin: GreaderOrigin
    enclosure: list[GreaderEnclosure] = []

    @property
    def number(self) -> int:
        return int(self.id.rpartition("/")[2], 16)


class Contents(Strict):
    id: str
    updated: int
    items: list[GreaderItem]
    direction: str = "ltr"
    title: str = ""
    continuation: str | None = None


class UserInfo(Strict):
    userId: str
    userName: str
    userProfileId: str
    userEmail: str
    isBloggerUser: bool
    signupTimeSec: int
    isMultiLoginEnabled: bool


class QuickAdd(Strict):
    numResults: int
    query: str
    streamId: str | None = None
    streamName: str | None = None
    error: str | None = None


STATE = "user/-/state/com.google/"
READ, STARRED, READING_LIST = f"{STATE}read", f"{STATE}starred", f"{STATE}reading-list"


@dataclass
class GreaderClient:
    """Signs in and sends requests; `sent` counts them."""

    http: httpx.AsyncClient
    base: str
    auth: str = ""
    calls: int = 0
    received: int = 0
    headers: dict[str, str] = field(default_factory=dict)

    async def login(self, name: str, password: str) -> None:
        form = {"Email": name, "Passwd": password, "accountType": "HOSTED_OR_GOOGLE", "service": "reader"}
        answer = await self.http.post(f"{self.base}/accounts/ClientLogin", data=form)
        assert answer.status_code == 200, answer.text
        lines = dict(line.split("=", 1) for line in answer.text.splitlines())
        assert set(lines) == {"SID", "LSID", "Auth"}
        assert "=" not in lines["Auth"]
        self.auth = lines["Auth"]
        self.headers = {"Authorization": f"GoogleLogin auth={self.auth}"}

    async def ask(self, path: str, method: str = "GET", **options: Any) -> httpx.Response:
        headers = self.headers | options.pop("headers", {})
        answer = await self.http.request(method, f"{self.base}{path}", headers=headers, **options)
        self.calls += 1
        self.received += len(answer.content)
        return answer

    async def get(self, kind: type[Any], path: str, **params: Any) -> Any:
        answer = await self.ask(f"/reader/api/0/{path}", params={"output": "json", **params})
        assert answer.status_code == 200, (path, answer.status_code, answer.text)
        return msgspec.json.decode(answer.content, type=kind)

    async def post(self, path: str, fields: Sequence[tuple[str, str]]) -> str:
        body = httpx.QueryParams(list(fields))
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        answer = await self.ask(f"/reader/api/0/{path}", "POST", content=str(body), headers=headers)
        assert answer.status_code == 200, (path, answer.status_code, answer.text)
        return answer.text

    async def contents(self, numbers: Sequence[str]) -> list[GreaderItem]:
        text = await self.post("stream/items/contents", [("i", number) for number in numbers])
        found: Contents = msgspec.json.decode(text, type=Contents)
        return found.items

    async def all_ids(self, **params: Any) -> list[str]:
        found: list[str] = []
        more: str | None = None
        while True:
            refs = await self.get(Refs, "stream/items/ids", **params, **({"c": more} if more else {}))
            found += [ref.id for ref in refs.itemRefs]
            more = refs.continuation
            if more is None:
                return found

    async def token(self) -> str:
        return (await self.ask("/reader/api/0/token")).text.strip()
