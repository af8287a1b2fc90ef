"""`headwater deliveries`: what was sent, what is waiting, what was given up, and sending it again."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from headwater import times
from headwater.cli.console.command import (
    MAX_INTEGER,
    add_command,
    current_settings,
    make_group,
    out,
    print_json,
    wants_json,
)
from headwater.cli.console.resources import open_store, run_async
from headwater.errors import InputError
from headwater.publish.delivery.deliverer import load_webhook_secret
from headwater.publish.delivery.delivery_templates import DeliveryTemplate, validate_template
from headwater.store.publishing import deliveries as stored_deliveries
from headwater.store.publishing.deliveries import (
    Delivery,
    count_deliveries,
    list_delivery_templates,
    retry_deliveries,
    set_delivery_template,
)
from headwater.store.queries.query_feeds import find_query_feed

STATES = ("due", "failed", "sent", "dead")


def register(app: typer.Typer) -> None:
    deliveries = make_group("Mails, web hooks and notifications of query feeds.")
    add_command(deliveries, "list", epilog="Example:  headwater deliveries list --state dead")(list_deliveries)
    add_command(
        deliveries,
        "resend",
        epilog="Examples:  headwater deliveries resend 12 13  ·  headwater deliveries resend --dead",
    )(resend_deliveries)
    add_command(deliveries, "secret", epilog="Example:  headwater deliveries secret")(show_hook_secret)
    add_command(
        deliveries,
        "template",
        epilog="Examples:  headwater deliveries template quakes --subject '{{ items[0].title }}' --body mail.txt"
        "  ·  headwater deliveries template --off",
    )(set_template)
    app.add_typer(deliveries, name="deliveries")


def list_deliveries(
    state: Annotated[list[str] | None, typer.Option(help="due, failed, sent or dead; may be given twice.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="How many, the latest first.")] = 50,
) -> None:
    """Show deliveries; the dead ones were given up and wait for you."""
    if unknown := set(state or ()) - set(STATES):
        raise InputError(f"There is no state “{min(unknown)}”; there are {', '.join(STATES)}.")

    async def work() -> tuple[list[Delivery], dict[str, int]]:
        async with open_store(current_settings()) as store:
            return await store.read(stored_deliveries.list_deliveries, state or (), limit=limit), await store.read(
                count_deliveries
            )

    found, counts = run_async(work())
    if wants_json():
        print_json({"counts": {name: counts.get(name, 0) for name in STATES}, "deliveries": found})
        return
    out.print(", ".join(f"{counts.get(name, 0)} {name}" for name in STATES))
    now = time.time()
    for one in found:
        said = f"  {one.message}" if one.message else ""
        age = times.format_relative(one.at, now)
        out.print(escape(f"{one.id:6} {one.state:6} {one.query} → {one.kind} {one.address}, {age}{said}"))


def resend_deliveries(
    ids: Annotated[
        list[int] | None, typer.Argument(max=MAX_INTEGER, help="Numbers of deliveries, as “list” shows them.")
    ] = None,
    dead: Annotated[bool, typer.Option("--dead", help="All that were given up.")] = False,
) -> None:
    """Try again what was given up or is waiting to be tried again; a running server does so at once."""
    if bool(ids) == dead:
        raise InputError("Give the numbers of deliveries, or --dead for all that were given up.")

    async def work() -> int:
        async with open_store(current_settings()) as store:
            return await store.write(retry_deliveries, ids or (), time.time())

    number = run_async(work())
    if ids and not number:
        raise InputError("None of these can be sent again: only dead and failed deliveries can.")
    if wants_json():
        print_json({"due": number})
    else:
        out.print(f"{number} due now.")


def show_hook_secret() -> None:
    """Print the secret by which web hooks are signed: X-Headwater-Signature is its HMAC-SHA256 of the body."""

    async def work() -> str:
        async with open_store(current_settings()) as store:
            return (await load_webhook_secret(store, time.time())).decode()

    made = run_async(work())
    if wants_json():
        print_json({"secret": made})
    else:
        out.print(made, markup=False)


def set_template(
    query: Annotated[str | None, typer.Argument(help="A query feed; without it, all that have no template.")] = None,
    subject: Annotated[str | None, typer.Option(help="The subject, in Jinja.")] = None,
    body: Annotated[
        Path | None, typer.Option(help="A file with the text, in Jinja.", exists=True, dir_okay=False)
    ] = None,
    off: Annotated[bool, typer.Option("--off", help="Forget it.")] = False,
) -> None:
    """Show or set in whose words mails and notifications speak."""
    if off and (subject is not None or body is not None):
        raise InputError("Give either a template or --off.")
    given = DeliveryTemplate(subject, _read_template(body))
    setting = given != DeliveryTemplate()
    if setting:
        validate_template(given)

    async def work() -> dict[str, tuple[str | None, str | None]]:
        async with open_store(current_settings()) as store:
            name = None if query is None else (await store.read(find_query_feed, query)).name
            if setting or off:
                await store.write(set_delivery_template, name, given.subject, given.body)
            return await store.read(list_delivery_templates)

    found = run_async(work())
    shown = {name or "*": {"subject": one[0], "body": one[1]} for name, one in found.items()}
    if wants_json():
        print_json(shown)
        return
    for name, one in shown.items():
        out.print(escape(f"{name}: {one['subject'] or 'the usual subject'}\n{one['body'] or 'the usual text'}"))
    if not shown:
        out.print("No templates: messages speak as usual.")


def _read_template(body: Path | None) -> str | None:
    if body is None:
        return None
    try:
        return body.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{body} cannot be read as text in UTF-8: {error}") from error
