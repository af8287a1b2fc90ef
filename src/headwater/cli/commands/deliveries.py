"""`headwater deliveries`: list and resend mails, web hooks and notifications of query feeds."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from headwater.cli.console.command import command, make_group
from headwater.cli.console.inputs import read_text
from headwater.cli.console.output import MAX_INTEGER, out
from headwater.errors import InputError
from headwater.store.publishing import deliveries as stored_deliveries
from headwater.store.publishing.deliveries import (
    count_deliveries,
    list_delivery_templates,
    retry_deliveries,
    set_delivery_template,
)
from headwater.store.queries.query_feeds import find_query_feed
from headwater.times import format_relative

if TYPE_CHECKING:
    from headwater.settings import Settings
    from headwater.store.store import Store

KINDS = ("email", "webhook", "notify")
STATES = ("due", "failed", "sent", "dead")

top = typer.Typer()
deliveries = make_group("List and resend mails, web hooks and notifications of query feeds.")
top.add_typer(deliveries, name="deliveries")


def _render_deliveries(found: dict[str, Any]) -> None:
    out.print(", ".join(f"{found['counts'][state]} {state}" for state in STATES))
    now = time.time()
    for one in found["deliveries"]:
        message = f"  {one.message}" if one.message else ""
        age = format_relative(one.at, now)
        out.print(escape(f"{one.id:6} {one.state:6} {one.query} → {one.kind} {one.address}, {age}{message}"))


@command(deliveries, "list", view=_render_deliveries, example="headwater deliveries list --state dead")
async def list_deliveries(
    store: Store,
    state: Annotated[list[str] | None, typer.Option(help="due, failed, sent or dead; may be repeated.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="At most this many, the latest first.")] = 50,
) -> dict[str, Any]:
    """List deliveries. Dead ones have failed for good and wait for you."""
    if unknown := set(state or ()) - set(STATES):
        raise InputError(f"There is no state “{min(unknown)}”. Use one of {', '.join(STATES)}.")
    counts = await store.read(count_deliveries)
    return {
        "counts": {name: counts.get(name, 0) for name in STATES},
        "deliveries": await store.read(stored_deliveries.list_deliveries, state or (), limit=limit),
    }


@command(
    deliveries,
    "resend",
    view=lambda number: out.print(f"{number} queued."),
    as_json=lambda number: {"due": number},
    example="headwater deliveries resend 12 13  ·  headwater deliveries resend --dead",
)
async def resend_deliveries(
    store: Store,
    ids: Annotated[
        list[int] | None, typer.Argument(max=MAX_INTEGER, help="Numbers of deliveries, as “list” shows them.")
    ] = None,
    dead: Annotated[bool, typer.Option("--dead", help="All dead deliveries.")] = False,
) -> int:
    """Send dead or failed deliveries again; a running server does so at once."""
    if bool(ids) == dead:
        raise InputError("Give the numbers of deliveries, or --dead for all dead ones.")
    number = await store.write(retry_deliveries, ids or (), time.time())
    if ids and not number:
        raise InputError("None of these can be sent again: only dead and failed deliveries can.")
    return number


@command(
    deliveries,
    "test",
    view=lambda sent: out.print("The receiver accepted the test message."),
    example="headwater deliveries test email you@example.org  ·  headwater deliveries test notify ntfy://my-topic",
)
async def send_test_message(
    settings: Settings,
    store: Store,
    kind: Annotated[str, typer.Argument(help="email, webhook or notify.")],
    address: Annotated[str, typer.Argument(help="A mail address, a web hook's URL, or an Apprise address.")],
) -> dict[str, bool]:
    """Send a test message now, by the mail server of the running server."""
    from headwater.cluster.fetcher_setup import make_courier  # loads the HTTP client
    from headwater.node.live_settings import load_effective_settings  # loads the scheduler
    from headwater.publish.delivery.deliverer import make_deliverer

    if kind not in KINDS:
        raise InputError(f"There is no kind “{kind}”. Use one of {', '.join(KINDS)}.")
    given = await load_effective_settings(store, settings)
    async with make_courier(given) as courier:
        deliverer = await make_deliverer(store, courier, lambda: given)
        try:
            await deliverer.send_test(kind, address)
        finally:
            await deliverer.close()
    return {"sent": True}


@command(
    deliveries,
    "secret",
    view=lambda secret: out.print(secret, markup=False),
    as_json=lambda secret: {"secret": secret},
    example="headwater deliveries secret",
)
async def show_hook_secret(store: Store) -> str:
    """Print the secret that signs web hooks: X-Headwater-Signature is its HMAC-SHA256 of the body."""
    from headwater.publish.delivery.deliverer import load_webhook_secret  # loads the HTTP client

    return (await load_webhook_secret(store, time.time())).decode()


def _render_templates(found: dict[str, dict[str, str | None]]) -> None:
    for name, one in found.items():
        out.print(escape(f"{name}: {one['subject'] or 'the default subject'}\n{one['body'] or 'the default text'}"))
    if not found:
        out.print("No templates: messages use the default texts.")


@command(
    deliveries,
    "template",
    view=_render_templates,
    example="headwater deliveries template quakes --subject '{{ items[0].title }}' --body mail.txt"
    "  ·  headwater deliveries template --off",
)
async def set_template(
    store: Store,
    query: Annotated[str | None, typer.Argument(help="A query feed; without it, all that have no template.")] = None,
    subject: Annotated[str | None, typer.Option(help="The subject, in Jinja.")] = None,
    body: Annotated[
        Path | None, typer.Option(help="A file with the text, in Jinja.", exists=True, dir_okay=False)
    ] = None,
    off: Annotated[bool, typer.Option("--off", help="Delete the template.")] = False,
) -> dict[str, dict[str, str | None]]:
    """Show or set the templates of mails and notifications."""
    from headwater.publish.delivery.delivery_templates import DeliveryTemplate, validate_template  # loads Jinja

    if off and (subject is not None or body is not None):
        raise InputError("Give either a template or --off.")
    template = DeliveryTemplate(subject, None if body is None else read_text(str(body)))
    if template != DeliveryTemplate():
        validate_template(template)
    name = None if query is None else (await store.read(find_query_feed, query)).name
    if template != DeliveryTemplate() or off:
        await store.write(set_delivery_template, name, template.subject, template.body)
    found = await store.read(list_delivery_templates)
    return {name or "*": {"subject": one[0], "body": one[1]} for name, one in found.items()}
