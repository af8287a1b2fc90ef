"""Refuses alerts that cannot work, where they are created."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.util import find_spec

from headwater.errors import AddressError, InputError, QueryError
from headwater.fetch.http.address_guard import AddressGuard
from headwater.language import EVERY, parse
from headwater.language.ast import DeliveryFormat
from headwater.publish.delivery.notification_worker import is_known_service
from headwater.settings import Settings


def check_deliveries(text: str, settings: Settings, *, by_command: bool = False) -> None:
    """Raise InputError if a query of the script delivers by mail without a mail server, by Apprise without Apprise or
    to an address that it does not know, or to a web hook that the address guard refuses.

    A script with mistakes passes: running it names them. A command does not know whether the server allows private
    addresses.
    """
    try:
        creates = parse(text, replacing=EVERY).queries
    except QueryError:
        return
    for create in creates:
        kinds = {delivery.kind for delivery in create.query.deliveries}
        if DeliveryFormat.EMAIL in kinds and (settings.smtp_url is None or settings.mail_from is None):
            raise InputError(
                f"{create.name.name} cannot deliver by mail: this server has no mail server. An owner sets it "
                "up under Settings, Mail and chat (`smtp_url`, `mail_from`); or deliver by WEBHOOK or NOTIFY.",
                "text",
            )
        if DeliveryFormat.NOTIFY in kinds and find_spec("apprise") is None:
            raise InputError(
                f"{create.name.name} cannot send notifications: install headwater[notify], or deliver by WEBHOOK.",
                "text",
            )
        for delivery in create.query.deliveries:
            if delivery.kind is DeliveryFormat.NOTIFY and not is_known_service(delivery.address or ""):
                scheme = (delivery.address or "").partition(":")[0][:40]
                raise InputError(
                    f"{create.name.name} cannot notify {scheme}://…: Apprise does not know this service, or its "
                    "address lacks a part. Try an address with `headwater deliveries test notify ADDRESS`.",
                    "text",
                )
        if not by_command:
            hooks = [one.address or "" for one in create.query.deliveries if one.kind is DeliveryFormat.WEBHOOK]
            _check_web_hooks(create.name.name, hooks, settings)


def _check_web_hooks(query: str, addresses: Iterable[str], settings: Settings) -> None:
    guard = AddressGuard(allow_private=settings.allow_private)
    for address in addresses:
        try:
            guard.check_url(address)
        except AddressError as error:
            raise InputError(f"{query} cannot deliver to {address[:200]}. {error}", "text") from error
