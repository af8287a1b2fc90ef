"""The page on which an owner sets up mail and chat, each with a test that really sends."""

from __future__ import annotations

from email.utils import parseaddr
from importlib.util import find_spec
from typing import get_args

from starlette.responses import Response

from headwater.errors import InputError
from headwater.publish.delivery.sinks import (
    ENCRYPTIONS,
    Encryption,
    MailServer,
    parse_mail_server,
    write_mail_server,
)
from headwater.store.readers.accounts import ADMIN
from headwater.web.page import PageGroup, Visit
from headwater.web.site import parse_integer

KINDS = ("email", "webhook", "notify")
ENCRYPTION_LABELS = {
    "offered": "STARTTLS if offered",
    "always": "STARTTLS, always",
    "tls": "TLS",
    "never": "none",
}
FLASH = {
    "mail": "Mail server saved. Send a test mail below.",
    "mail-until-restart": "Mail server saved until the next start: then an option, the environment or headwater.toml "
    "sets it again.",
    "mail-off": "Mail server removed. Queries can no longer deliver by mail.",
    "sent": "Test message accepted by the receiver.",
}

pages = PageGroup(FLASH)


def find_mail_server(visit: Visit) -> MailServer | None:
    url = visit.site.settings.smtp_url
    return None if url is None else parse_mail_server(url)


def read_mail_server(visit: Visit) -> MailServer:
    """Read the form. A blank password keeps the saved one for the same host and user. Raises InputError."""
    host, user = visit.field("host").strip("[]"), visit.field("user")
    if not host or any(sign in host for sign in "/?#@ \t"):
        raise InputError("Enter the name of the mail server, such as mail.example.org.", "host")
    port = parse_integer(visit.field("port"), highest=65_535) if visit.field("port") else None
    if visit.field("port") and not port:
        raise InputError("Enter a port between 1 and 65535, or leave it blank.", "port")
    encryption = visit.field("encryption") or "offered"
    if encryption not in get_args(Encryption):
        raise InputError(f"Choose one of {', '.join(ENCRYPTIONS)}.", "encryption")
    password, saved = visit.form.get("password", ""), find_mail_server(visit)
    if not password and saved is not None and (saved.host, saved.user) == (host, user):
        password = saved.password  # never sent to another host
    if password and not user:
        raise InputError("Enter the user name that belongs to the password.", "user")
    return MailServer(host, port, encryption, user, password)  # type: ignore[arg-type]


@pages.get("/settings/alerts", ADMIN)
async def show_alerts(visit: Visit) -> Response:
    """Show the mail server without its password."""
    server = find_mail_server(visit)
    pinned = {"smtp_url", "mail_from"} & visit.site.aggregator.pinned_settings
    return visit.render(
        "alerts_page.html",
        server=server,
        has_password=server is not None and bool(server.password),
        mail_from=visit.site.settings.mail_from or "",
        encryptions=ENCRYPTION_LABELS,
        has_apprise=find_spec("apprise") is not None,
        by_hand=sorted(pinned),
    )


@pages.post("/settings/alerts/mail", ADMIN, error_page=show_alerts, error_field="host")
async def change_mail_server(visit: Visit) -> Response:
    """Save the mail server, or remove it."""
    if visit.field("do") == "remove":
        await visit.site.aggregator.change_settings({"smtp_url": None, "mail_from": None})
        return visit.redirect("/settings/alerts", flash="mail-off")
    sender = visit.field("mail_from")
    if "@" not in parseaddr(sender)[1]:
        raise InputError("Enter the sender's address, such as headwater@example.org.", "mail_from")
    url = write_mail_server(read_mail_server(visit))
    await visit.site.aggregator.change_settings({"smtp_url": url, "mail_from": sender})
    passing = bool({"smtp_url", "mail_from"} & visit.site.aggregator.pinned_settings)
    return visit.redirect("/settings/alerts", flash="mail-until-restart" if passing else "mail")


@pages.post("/settings/alerts/test", ADMIN, error_page=show_alerts, error_field="address")
async def send_test_message(visit: Visit) -> Response:
    """Send a test message now."""
    kind, address = visit.field("kind"), visit.field("address")
    if kind not in KINDS:
        raise InputError(f"`kind` must be {', '.join(KINDS)}, not “{kind[:20]}”.", "address")
    if not address:
        raise InputError("Enter where the test message goes.", f"address-{kind}")
    try:
        await visit.site.aggregator.send_test_message(kind, address)
    except InputError as error:
        error.field = f"address-{kind}"
        raise
    return visit.redirect("/settings/alerts", flash="sent")
