"""Where deliveries go: mail, web hooks, notifications. A sink sends one message, or says why not and whether ever."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import parse_qs, unquote, urlsplit

from headwater.errors import AddressError, HeadwaterError, InputError
from headwater.fetch.client import Fetcher
from headwater.model import Entry
from headwater.publish import messages

TIMEOUT = 30.0


@dataclass(frozen=True, slots=True)
class Message:
    """What is to be sent: `key` is the same each time it is tried, `at` the moment it was due."""

    key: str
    query: str
    address: str
    items: Sequence[Entry]
    at: float


class Undelivered(Exception):
    """The message was not taken; with `ever` false it is not tried again."""

    def __init__(self, message: str, ever: bool = True) -> None:
        super().__init__(message)
        self.ever = ever


class Sink(ABC):
    @abstractmethod
    async def send(self, message: Message) -> None:
        """Returns when the other side has taken it; raises Undelivered."""


class Mail(Sink):
    """By the mail server of the settings: `smtp://[user:password@]host[:port]`, `smtps://…`; `?starttls=never`."""

    def __init__(self, url: str | None, sender: str | None) -> None:
        self._url = url
        self._sender = sender

    async def send(self, message: Message) -> None:
        import aiosmtplib  # when somebody wants mail

        if self._url is None or self._sender is None:
            raise Undelivered("No mail server is set: give smtp_url and mail_from in the settings.")
        server = urlsplit(self._url)
        starttls = {"never": False, "always": True}.get(parse_qs(server.query).get("starttls", [""])[0])
        try:
            mail = messages.mail(
                *(message.key, message.query, message.items), sender=self._sender, to=message.address, at=message.at
            )
            await aiosmtplib.send(
                mail,
                hostname=server.hostname,
                port=server.port,
                username=unquote(server.username) if server.username else None,
                password=unquote(server.password) if server.password else None,
                use_tls=server.scheme == "smtps",
                start_tls=starttls,
                timeout=TIMEOUT,
            )
        except InputError as error:
            raise Undelivered(str(error), ever=False) from error
        except aiosmtplib.SMTPRecipientsRefused as error:
            codes = [one.code for one in error.recipients]
            raise Undelivered(f"The mail server refused the recipient: {error}", ever=min(codes) < 500) from error
        except aiosmtplib.SMTPResponseException as error:
            raise Undelivered(f"The mail server answered {error.code} {error.message}", error.code < 500) from error
        except (aiosmtplib.SMTPException, OSError, ValueError) as error:
            raise Undelivered(f"The mail server could not be reached: {error}") from error


class Hook(Sink):
    """POST of JSON, signed, with an idempotency key, through the guarded client; redirects are not followed."""

    def __init__(self, fetcher: Fetcher, secret: bytes) -> None:
        self._fetcher = fetcher
        self._secret = secret

    async def send(self, message: Message) -> None:
        body = messages.hook_body(message.key, message.query, message.items)
        headers = {
            "Content-Type": "application/json",
            "Idempotency-Key": message.key,
            "X-Headwater-Signature": messages.signature(self._secret, body),
        }
        try:
            async with asyncio.timeout(TIMEOUT):
                answer = await self._fetcher.post(message.address, body, headers)
        except AddressError as error:
            raise Undelivered(str(error), ever=False) from error
        except TimeoutError as error:
            raise Undelivered(f"The web hook did not answer within {TIMEOUT:g} s.") from error
        except HeadwaterError as error:
            raise Undelivered(str(error)) from error
        if answer.status == 410:
            raise Undelivered("The web hook answered 410: it is gone for good.", ever=False)
        if not 200 <= answer.status < 300:
            raise Undelivered(f"The web hook answered {answer.status}.")


class Notice(Sink):
    """By Apprise, where it is installed. Services whose address holds a host name are only for those who allow private
    addresses: Apprise opens its own connections, and our guard would not see them."""

    def __init__(self, allow_private: bool) -> None:
        self._allow_private = allow_private

    async def send(self, message: Message) -> None:
        try:
            import apprise
        except ImportError as error:
            raise Undelivered("NOTIFY needs Apprise: install headwater[notify].") from error
        service = apprise.Apprise.instantiate(message.address, suppress_exceptions=True)
        if service is None:
            raise Undelivered("Apprise does not understand this address.", ever=False)
        templates: tuple[str, ...] = service.templates
        own_host = any("{host}" in template for template in templates) and getattr(service, "host", None)
        if own_host and not self._allow_private:
            raise Undelivered("Services on hosts of your own need --allow-private.", ever=False)
        title, text = messages.notice(message.query, message.items)
        async with asyncio.timeout(2 * TIMEOUT):
            taken = await service.async_notify(body=text, title=title)
        if not taken:
            raise Undelivered("The service did not take the notification.")
