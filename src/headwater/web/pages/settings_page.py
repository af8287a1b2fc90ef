"""Health and settings: what is wrong and what helps, the budget, lists in and out, people, tokens, deliveries."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headwater.credentials import hash_password, hash_secret, make_secret
from headwater.errors import HeadwaterError, InputError, NotFound, SettingsError, StoreError
from headwater.formats.opml import Outline
from headwater.formats.write import write_opml
from headwater.node.live_settings import CHANGEABLE
from headwater.schedule.registry import STRATEGIES
from headwater.settings import Settings
from headwater.store.content.feed_overview import FailureGroup
from headwater.store.people import (
    ROLES,
    SCOPES,
    TRASHED_API_TOKEN,
    TRASHED_FEED,
    TRASHED_MERGE,
    TRASHED_QUERY_FEED,
    TRASHED_SUBSCRIPTION,
    TRASHED_USER,
    ApiToken,
    Remover,
    RestoredObject,
    TrashEntry,
    User,
)
from headwater.store.store import Store
from headwater.store.values import ActivitySummary, Delivery
from headwater.web.auth.authentication import require_identity, require_user, user_scopes
from headwater.web.auth.cross_site import RequestRefused
from headwater.web.charts.svg import Chart
from headwater.web.page import FlashMessage, make_field_error, read_flash, redirect_with_flash
from headwater.web.pages.quality_page import draw_delay_curve
from headwater.web.shared.failure_advice import FAILURE_ADVICE
from headwater.web.shared.opml_import import start_import
from headwater.web.site import Site, parse_integer

_FEED_FLASH = {TRASHED_FEED: "back", TRASHED_MERGE: "apart", TRASHED_SUBSCRIPTION: "subscribed"}
MOST_RESTORED = 100  # removals of one script


def restore_routes(frame: Site) -> list[Route]:
    async def undo(request: Request) -> Response:
        """Take back all that the form names, the last first: it may need what went before it."""
        found = await require_identity(request, "write")
        form = await frame.forms.read_form(request)
        numbers = [
            number for part in form.get("undo", "").split(",")[:MOST_RESTORED] if (number := parse_integer(part))
        ]
        back = None
        for number in numbers[::-1]:
            back = await frame.store.removals.undo(number, found.user.id, frame.clock(), scopes=found.scopes)
        if back is None:
            raise InputError("The form does not say what is to be taken back: load the page again.")
        return _redirect_to_restored(back)

    return [Route("/undo", undo, methods=["POST"])]


def _redirect_to_restored(back: RestoredObject) -> Response:
    """Where it can be seen that it is back."""
    if back.kind in _FEED_FLASH and back.ref is not None:
        return redirect_with_flash(f"/feed/{back.ref}", said=_FEED_FLASH[back.kind])
    if back.kind == TRASHED_QUERY_FEED:
        return redirect_with_flash(f"/queries/{back.ref}", said="back")
    return redirect_with_flash(
        "/settings", said={TRASHED_USER: "user-back", TRASHED_API_TOKEN: "token-back"}.get(back.kind, "back")
    )


LARGEST_LIST = 20_000_000
DELIVERY_STATES = ("dead", "failed", "due", "sent")
SHOWN_DELIVERIES = 50
NUMBER_HINTS = {
    "budget": "requests per minute, such as 60",
    "target_completeness": "a share of all items, such as .99, or nothing",
    "target_freshness": "a share of what the feeds show, such as .9, or nothing",
    "target_delay": "seconds, such as 600, or nothing",
    "keep_days": "days, such as 365, or nothing",
    "keep_per_feed": "a number of items, such as 1000, or nothing",
}
OBJECTIVES = ("balanced", "completeness", "freshness", "delay")
FormAction = Callable[[User, dict[str, str]], Awaitable[Response | str]]
FLASH = {
    "changed": "This holds from now on, until the server is restarted; headwater.toml keeps it.",
    "user": "The account is made.",
    "gone": "The account is removed: whoever used it is signed out, and its tokens open nothing.",
    "user-back": "The account is back; its sessions have ended, so its owner signs in again.",
    "token-back": "The token is back and opens what it did.",
    "back": "It is back as it was.",
    "zone": "Digests of your queries come by this time zone from now on.",
    "revoked": "The token no longer opens anything.",
    "resent": "They are sent again at once.",
}


@dataclass(frozen=True, slots=True)
class SettingsPage:
    """What everybody sees, and (None for readers) what only owners do."""

    user: User
    tokens: tuple[ApiToken, ...]
    removals: tuple[TrashEntry, ...]
    health: ServerHealth | None
    server_zone: str


@dataclass(frozen=True, slots=True)
class ServerHealth:
    summary: ActivitySummary
    troubles: tuple[FailureGroup, ...]
    users: tuple[User, ...]
    deliveries: tuple[Delivery, ...]
    counts: dict[str, int]
    state: str
    curve: Chart | None
    budget: float
    settings: Settings
    network_away_since: float | None


async def load_settings_page(frame: Site, user: User, now: float, state: str = "") -> SettingsPage:
    tokens = tuple(await frame.store.accounts.tokens(user.id))
    removals = tuple(await frame.store.removals.all(user.id, now, scopes=user_scopes(user)))
    of_server = await load_server_health(frame, now, state) if user.is_owner else None
    return SettingsPage(user, tokens, removals, of_server, frame.settings.time_zone)


async def load_server_health(frame: Site, now: float, state: str = "") -> ServerHealth:
    store = frame.store
    counts = await store.publishing.delivery_counts()
    chosen = state if state in DELIVERY_STATES else "dead" if counts.get("dead") else ""
    return ServerHealth(
        summary=await store.summary(now),
        troubles=tuple(await store.pages.troubles()),
        users=tuple((await store.accounts.all())[:200]),
        deliveries=tuple(await store.publishing.deliveries([chosen] if chosen else (), limit=SHOWN_DELIVERIES)),
        counts=counts,
        state=chosen,
        curve=await draw_delay_curve(frame, now),
        budget=frame.status().budget_per_minute,
        settings=frame.settings,
        network_away_since=frame.status().network_away_since,
    )


def read_changes(form: Mapping[str, str]) -> dict[str, Any]:
    """What a form asks for; nothing in a field takes a target or a limit away. SettingsError names the field.

    >>> read_changes({"keep_days": "30", "target_delay": "", "strategy": "value", "token": "…"})
    {'strategy': 'value', 'target_delay': None, 'keep_days': 30.0}
    """
    found: dict[str, Any] = {}
    for name in CHANGEABLE:
        if name not in form:
            continue
        given = form[name].strip()
        if name in NUMBER_HINTS:
            found[name] = _parse_number(name, given)
        elif not given:
            raise SettingsError("This cannot be empty.", name)
        else:
            found[name] = given
    return found


def _parse_number(name: str, given: str) -> float | None:
    if not given and name != "budget":
        return None
    try:
        wanted = float(given)
    except ValueError as error:
        raise SettingsError(f"This is no number: give {NUMBER_HINTS[name]}.", name) from error
    if not 0 < wanted <= 1e9:
        raise SettingsError(f"This must be above 0: give {NUMBER_HINTS[name]}.", name)
    return wanted


class SettingsPages:
    """The pages and what their forms do."""

    def __init__(self, frame: Site) -> None:
        self._frame = frame
        self._store: Store = frame.store

    async def show_settings(self, request: Request) -> Response:
        return await self._render_settings(request, read_flash(request, FLASH))

    async def _render_settings(
        self,
        request: Request,
        note: FlashMessage | None,
        status: int = 200,
        *,
        secret: str = "",
    ) -> Response:
        user = await require_user(request)
        page = await load_settings_page(
            self._frame, user, self._frame.clock(), request.query_params.get("deliveries", "")
        )
        values = {
            "causes": FAILURE_ADVICE,
            "scopes": SCOPES,
            "roles": ROLES,
            "states": DELIVERY_STATES,
            "secret": secret,
        }
        values["by_hand"] = sorted(self._frame.node.pinned_settings) if self._frame.node is not None else []
        values |= {"strategies": sorted(STRATEGIES), "dials": OBJECTIVES}
        return self._frame.render_page(request, "settings.html", status, page=page, note=note, **values)

    async def _run_action(self, request: Request, scope: str, work: FormAction) -> Response:
        """Check who asks, carry a form out, and show its page again with what went wrong."""
        user = await require_user(request, scope)
        form = await self._frame.forms.read_form(request)
        try:
            done = await work(user, form)
        except (StoreError, NotFound):
            raise
        except HeadwaterError as error:
            return await self._render_settings(request, make_field_error(error, form), 400)
        return done if isinstance(done, Response) else redirect_with_flash("/settings", said=done)

    async def change_settings(self, request: Request) -> Response:
        """Settings of the running server; what is wrong with one of them is said at its field."""
        await require_user(request, "admin")
        form = await self._frame.forms.read_form(request)
        try:
            if self._frame.node is None:
                raise InputError("This process runs no aggregator: its settings are changed where it runs.")
            await self._frame.node.change_settings(read_changes(form))
        except InputError as error:
            at = error.field if error.field in form else ""
            return await self._render_settings(request, FlashMessage(str(error), problem=True, at=at, typed=form), 400)
        return redirect_with_flash("/settings", said="changed")

    async def import_opml(self, request: Request) -> Response:
        """Import an OPML list behind the scenes."""
        user = await require_user(request, "write")
        try:
            _, body = await self._frame.forms.read_upload(request, "file", LARGEST_LIST)
        except RequestRefused as error:
            if not error.field:
                raise
            return await self._render_settings(request, make_field_error(error, {}), error.status)
        try:
            job = await start_import(self._frame, body, user.id)
        except (InputError, RequestRefused) as error:
            return await self._render_settings(
                request, make_field_error(error, {}, "file"), getattr(error, "status", 400)
            )
        return redirect_with_flash(f"/jobs/{job.id}")

    async def export_opml(self, request: Request) -> Response:
        """What this person reads, as OPML."""
        user = await require_user(request)
        mine = await self._store.reading.subscriptions(user.id)
        outlines = [Outline(one.url, one.title, one.link, one.tags) for one in mine if one.feed_id is not None]
        body = await asyncio.to_thread(write_opml, outlines)
        headers = {"Content-Disposition": 'attachment; filename="headwater.opml"'}
        return Response(body, media_type="text/x-opml", headers=headers)

    async def add_user(self, request: Request) -> Response:
        async def work(user: User, form: dict[str, str]) -> str:
            kept = await asyncio.to_thread(hash_password, form.get("password", ""))
            role = form.get("role", "reader")
            await self._store.accounts.add(form.get("name", "").strip(), kept, self._frame.clock(), role=role)
            return "user"

        return await self._run_action(request, "admin", work)

    async def remove_user(self, request: Request) -> Response:
        async def work(user: User, form: dict[str, str]) -> Response:
            other = parse_integer(form.get("user"))
            if other is None or other == user.id:
                raise InputError("Nobody removes their own account here.")
            undo = await self._store.accounts.remove(other, by=Remover(user.id, self._frame.clock()))
            return redirect_with_flash("/settings", said="gone", undo=undo)

        return await self._run_action(request, "admin", work)

    async def change_time_zone(self, request: Request) -> Response:
        async def work(user: User, form: dict[str, str]) -> str:
            await self._store.accounts.change(user.id, time_zone=form.get("time_zone", "").strip())
            return "zone"

        return await self._run_action(request, "write", work)

    async def add_token(self, request: Request) -> Response:
        """The token is shown this once, in the answer to the form and nowhere else."""

        async def work(user: User, form: dict[str, str]) -> Response:
            secret = make_secret()
            scopes = [scope for scope in SCOPES if form.get(f"scope-{scope}")]
            if "admin" in scopes and not user.is_owner:
                raise InputError("Only an owner's token can have the scope admin.", "scopes")
            label = form.get("label", "").strip()[:100] or "without a name"
            await self._store.accounts.add_token(user.id, hash_secret(secret), label, scopes, self._frame.clock())
            return await self._render_settings(request, None, secret=secret)

        return await self._run_action(request, "write", work)

    async def revoke_token(self, request: Request) -> Response:
        async def work(user: User, form: dict[str, str]) -> Response:
            by = Remover(user.id, self._frame.clock())
            number = parse_integer(form.get("token_id"), 0) or 0
            undo = await self._store.accounts.revoke_token(user.id, number, by=by)
            return redirect_with_flash("/settings", said="revoked", undo=undo)

        return await self._run_action(request, "write", work)

    async def resend_deliveries(self, request: Request) -> Response:
        async def work(user: User, form: dict[str, str]) -> str:
            number = parse_integer(form.get("delivery"))
            if number is None and form.get("which") != "dead":
                raise InputError("The form does not say what is to be sent again: load the page again.")
            await self._store.publishing.resend([number] if number is not None else [], self._frame.clock())
            if self._frame.node is not None:
                self._frame.node.deliverer.wake()
            return "resent"

        return await self._run_action(request, "admin", work)

    def routes(self) -> list[Route]:
        forms = {
            "change": self.change_settings,
            "import": self.import_opml,
            "users": self.add_user,
            "users/remove": self.remove_user,
            "time-zone": self.change_time_zone,
            "tokens": self.add_token,
            "tokens/revoke": self.revoke_token,
            "resend": self.resend_deliveries,
        }
        return [
            Route("/settings", self.show_settings),
            Route("/settings/export.opml", self.export_opml),
            *(Route(f"/settings/{path}", work, methods=["POST"]) for path, work in forms.items()),
        ]


def routes(frame: Site) -> list[Route]:
    return SettingsPages(frame).routes()
