"""Refuses alerts that cannot work, where they are created."""

from __future__ import annotations

from importlib.util import find_spec

from headwater.errors import InputError, QueryError
from headwater.language import EVERY, parse
from headwater.language.ast import DeliveryFormat
from headwater.settings import Settings


def check_deliveries(text: str, settings: Settings) -> None:
    """Raise InputError if a query of the script delivers by mail without a mail server, or by Apprise without Apprise.

    A script with mistakes passes: running it names them.
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
