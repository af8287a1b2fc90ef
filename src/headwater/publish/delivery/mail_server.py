"""Reads and writes the address of a mail server, `smtp://[user:password@]host[:port][?starttls=never|always]`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import parse_qs, quote, unquote, urlsplit

from headwater.errors import InputError

Encryption = Literal["offered", "always", "tls", "never"]
ENCRYPTIONS: tuple[Encryption, ...] = ("offered", "always", "tls", "never")


@dataclass(frozen=True, slots=True)
class MailServer:
    """A mail server. `encryption` is STARTTLS if offered, always STARTTLS, TLS from the start, or never."""

    host: str
    port: int | None = None
    encryption: Encryption = "offered"
    user: str = ""
    password: str = field(default="", repr=False)

    @property
    def start_tls(self) -> bool | None:
        """Whether STARTTLS is used; None if it is used where the server offers it."""
        return {"offered": None, "always": True}.get(self.encryption, False)

    def describe(self) -> str:
        """Return the address without the password, to be shown."""
        return write_mail_server(MailServer(self.host, self.port, self.encryption, self.user))


def parse_mail_server(url: str) -> MailServer:
    """Read the address of a mail server. Raises InputError.

    >>> parse_mail_server("smtp://ada%40example.org:s%2Fw@mail.example.org:587?starttls=always")
    MailServer(host='mail.example.org', port=587, encryption='always', user='ada@example.org')
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise InputError("The port must be a number below 65536.", "port") from error
    wanted = parse_qs(parts.query).get("starttls", ["offered"])[0]
    encryption: Encryption = "tls" if parts.scheme == "smtps" else "always" if wanted == "always" else "offered"
    if encryption == "offered" and wanted == "never":
        encryption = "never"
    return MailServer(
        parts.hostname or "", port, encryption, unquote(parts.username or ""), unquote(parts.password or "")
    )


def write_mail_server(server: MailServer) -> str:
    """Write the address of a mail server.

    >>> write_mail_server(MailServer("mail.example.org", 465, "tls", "ada", "s/w"))
    'smtps://ada:s%2Fw@mail.example.org:465'
    """
    person = quote(server.user, safe="") + (f":{quote(server.password, safe='')}" if server.password else "")
    host = f"[{server.host}]" if ":" in server.host else server.host
    port = "" if server.port is None else f":{server.port}"
    scheme = "smtps" if server.encryption == "tls" else "smtp"
    option = f"?starttls={server.encryption}" if server.encryption in ("always", "never") else ""
    return f"{scheme}://{person}{'@' if person else ''}{host}{port}{option}"
