"""Sends one message by mail, web hook or notification, and reads the address of a mail server.

It is written `smtp://[user:password@]host[:port][?starttls=never|always]`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import parse_qs, quote, unquote, urlsplit

from headwater.errors import AddressError, HeadwaterError, InputError, NotAFeed, Unreachable
from headwater.fetch.client import Fetcher
from headwater.model import Ending, Entry
from headwater.publish.delivery import delivery_messages
from headwater.publish.delivery.notification_worker import send_notification, start_notifiers

TIMEOUT = 30.0
BATCH_HEADER = "X-Headwater-Batch"  # of a web hook's answer: how many items it takes in one message
MAX_IN_BATCH = 100


@dataclass(frozen=True, slots=True)
class DeliveryMessage:
    """A message to send. `key` is the same for every attempt; `at` is the time when it was due."""

    key: str
    query: str
    address: str
    items: Sequence[Entry]
    at: float
    subject: str | None = None  # from a template
    text: str | None = None


class DeliveryFailed(Exception):
    """The message was not accepted; `may_retry` is False if a retry is pointless."""

    def __init__(self, message: str, may_retry: bool = True) -> None:
        super().__init__(message)
        self.may_retry = may_retry


class Sink(ABC):
    """A kind of destination."""

    @abstractmethod
    async def send(self, message: DeliveryMessage) -> int | None:
        """Send the message; return when the receiver has accepted it. Raises DeliveryFailed.

        A receiver that takes several items in one message says how many.
        """

    async def close(self) -> None:
        """Release resources."""
        return


class MailSink(Sink):
    """Sends mails. `find_server` returns the address of the mail server (`parse_mail_server`) and the sender, for each
    mail anew: an owner may change them."""

    def __init__(self, find_server: Callable[[], tuple[str | None, str | None]]) -> None:
        self._find_server = find_server

    async def send(self, message: DeliveryMessage) -> None:
        import aiosmtplib  # imported on first use

        url, sender = self._find_server()
        if url is None or sender is None:
            raise DeliveryFailed("No mail server is configured. Set smtp_url and mail_from.")
        try:
            server = parse_mail_server(url)
            mail = delivery_messages.write_mail(
                *(message.key, message.query, message.items),
                sender=sender,
                to=message.address,
                at=message.at,
                own_subject=message.subject,
                own_text=message.text,
            )
            await aiosmtplib.send(
                mail,
                hostname=server.host,
                port=server.port,
                username=server.user or None,
                password=server.password or None,
                use_tls=server.encryption == "tls",
                start_tls=server.start_tls,
                timeout=TIMEOUT,
            )
        except InputError as error:
            raise DeliveryFailed(str(error), may_retry=False) from error
        except aiosmtplib.SMTPRecipientsRefused as error:
            codes = [one.code for one in error.recipients]
            raise DeliveryFailed(
                f"The mail server refused the recipient: {error}", may_retry=min(codes) < 500
            ) from error
        except aiosmtplib.SMTPResponseException as error:
            raise DeliveryFailed(f"The mail server answered {error.code} {error.message}", error.code < 500) from error
        except (aiosmtplib.SMTPException, OSError, ValueError) as error:
            raise DeliveryFailed(f"The mail server could not be reached: {error}") from error


class WebhookSink(Sink):
    """Posts signed JSON with an idempotency key through the guarded client; does not follow redirects."""

    def __init__(self, fetcher: Fetcher, secret: bytes) -> None:
        self._fetcher = fetcher
        self._secret = secret

    async def send(self, message: DeliveryMessage) -> int | None:
        body = delivery_messages.write_webhook_body(message.key, message.query, message.items)
        headers = {
            "Content-Type": "application/json",
            "Idempotency-Key": message.key,
            "X-Headwater-Signature": delivery_messages.sign_body(self._secret, body),
        }
        try:
            answer = await self._fetcher.post(message.address, body, headers, read=False, seconds=TIMEOUT)
        except AddressError as error:
            raise DeliveryFailed(str(error), may_retry=False) from error
        except Unreachable as error:
            if error.ending is Ending.TIMEOUT:
                raise DeliveryFailed(f"The web hook did not answer within {TIMEOUT:g} s.") from error
            raise DeliveryFailed(str(error)) from error
        except HeadwaterError as error:
            raise DeliveryFailed(str(error)) from error
        if answer.status == 410:
            raise DeliveryFailed("The web hook answered 410: it is permanently gone.", may_retry=False)
        if not 200 <= answer.status < 300:
            raise DeliveryFailed(f"The web hook answered {answer.status}.")
        return parse_batch_size(answer.headers.get(BATCH_HEADER, ""))


def parse_batch_size(text: str) -> int | None:
    """Return how many items a web hook takes in one message, as its answer says.

    >>> parse_batch_size("50"), parse_batch_size("100000"), parse_batch_size("many"), parse_batch_size("")
    (50, 100, None, None)
    """
    number = text.strip()
    if not (number.isascii() and number.isdecimal() and len(number) < 10):
        return None
    return min(max(int(number), 1), MAX_IN_BATCH)


class NotificationSink(Sink):
    """Sends notifications with Apprise, from a worker whose sockets reach public addresses only."""

    def __init__(self, allow_private: bool) -> None:
        self._workers = start_notifiers(allow_private)

    async def send(self, message: DeliveryMessage) -> None:
        title, text = delivery_messages.write_notification(message.query, message.items)
        try:
            await send_notification(self._workers, message.address, message.subject or title, message.text or text)
        except NotAFeed as error:
            raise DeliveryFailed(str(error), may_retry=error.what != "refused") from error

    async def close(self) -> None:
        await self._workers.close()


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
