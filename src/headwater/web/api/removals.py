"""What was removed, on pages or here, and is kept for a day: the list of it, and taking it back."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from headwater.store.people import TrashEntry
from headwater.web.api.endpoint import ApiCall, EndpointGroup, RequestBody, ResponseBody
from headwater.web.api.values import Id, ListPage, Time

removal_group = EndpointGroup("removals", "What was removed and can be taken back, for a day.")


class TrashEntryView(ResponseBody, frozen=True):
    """Something that was removed; `undo` is the number by which it is taken back until `until`."""

    undo: int
    kind: str
    label: str
    at: Time
    until: Time


def view_removal(one: TrashEntry) -> TrashEntryView:
    return TrashEntryView(undo=one.id, kind=one.kind, label=one.label, at=one.at, until=one.until)


@removal_group.get("/removals")
async def list_removals(call: ApiCall) -> ListPage[TrashEntryView]:
    """List what you can take back, the latest hundred first; owners also what was removed for everybody."""
    found = await call.store.removals.all(call.user.id, call.now, scopes=call.who.scopes)
    return ListPage(items=[view_removal(one) for one in found], next=None)


class RestoreRequest(RequestBody, frozen=True):
    undo: Annotated[Id, Meta(description="the number that the removal answered")]


class RestoredView(ResponseBody, frozen=True):
    """What came back."""

    kind: str
    label: str


@removal_group.post("/removals/undo")
async def undo_removal(call: ApiCall, given: RestoreRequest) -> RestoredView:
    """Take a removal back: what was removed is as it was before.

    Where its name or address has been taken meanwhile, nothing is changed and the answer says by what.
    """
    back = await call.store.removals.undo(given.undo, call.user.id, call.now, scopes=call.who.scopes)
    return RestoredView(kind=back.kind, label=back.label)
