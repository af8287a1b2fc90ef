"""Reads the certificates that an address of NATS names, and explains TLS errors. Needs the NATS client."""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from nats.aio.client import Client
from nats.errors import Error as NatsError

from headwater.errors import ClusterError

FILES = ("ca", "cert", "key")
NATS_PORT = 4222
REFUSAL_SECONDS = 5.0  # within which a server refuses our certificate


@dataclass(frozen=True, slots=True)
class NatsAddress:
    """`tls://nats.example.org:4222?ca=FILE&cert=FILE&key=FILE`, several with commas between.

    With `tls://`, or if files are named, all servers must speak TLS; otherwise a server that asks for it gets it.
    """

    servers: tuple[str, ...]
    context: ssl.SSLContext | None  # None: TLS is not insisted on


class TlsRefused(NatsError):
    """The server does not speak TLS, and must."""


class StrictTlsClient(Client):
    """The library's client, stricter about TLS.

    The library sends user and password in clear to a server that does not ask for TLS, and after a failed handshake
    waits for ever for the end of its stream.
    """

    def __init__(self, *, insists: bool) -> None:
        super().__init__()
        self._insists = insists

    async def _process_info(self, info: dict[str, Any], initial_connection: bool = False) -> None:
        if self._insists and initial_connection and not info.get("tls_required"):
            if not info.get("tls_available"):
                raise TlsRefused
            info["tls_required"] = True
        await super()._process_info(info, initial_connection)

    async def _process_connect_init(self) -> None:
        try:
            await super()._process_connect_init()
        except OSError:  # of ssl too
            transport: Any = self._transport
            if transport is not None:
                transport.close()
            self._transport = None
            raise


def parse_address(url: str) -> NatsAddress:
    """Read an address. Raises ClusterError for files that cannot be used."""
    parts = [urlsplit(one.strip()) for one in url.split(",")]
    files = {name: value for part in parts for name, value in parse_qsl(part.query)}
    if strange := next((name for name in files if name not in FILES), None):
        raise ClusterError(
            f"Unknown option “{strange}” in the address of NATS. "
            "Use ca=FILE, cert=FILE and key=FILE, files of certificates."
        )
    servers = tuple(part._replace(query="").geturl() for part in parts)
    wanted = files or any(part.scheme == "tls" for part in parts)
    return NatsAddress(servers, _make_context(**files) if wanted else None)


def explain_tls_error(error: BaseException) -> str | None:
    """Explain a TLS error that waiting does not mend, with advice; None for any other."""
    says = str(error)
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"showed a certificate that is not trusted ({error.verify_message.rstrip('.')}). Name the file of who "
            "signed it in the address (?ca=FILE), and the server as its certificate does."
        )
    if isinstance(error, TlsRefused):
        return "does not speak TLS, and the address says tls://. Set TLS up there, or say nats:// to do without."
    if isinstance(error, ssl.SSLError) and "ALERT" in says and any(word in says for word in ("CERTIFICATE", "CA")):
        return (
            "wants a certificate of ours, or another one. Name its files in the address (?cert=FILE&key=FILE), signed "
            "by whom the server trusts."
        )
    return None


async def find_tls_errors(given: NatsAddress) -> list[Exception]:
    """Return the TLS errors of servers to which nothing is sent after the handshake.

    A server refuses a certificate after the handshake. Its alert is lost if we send something at that moment, as the
    library does.
    """
    errors: list[Exception] = []
    if given.context is None:
        return errors
    for server in map(urlsplit, given.servers):
        writer = None
        try:
            async with asyncio.timeout(REFUSAL_SECONDS):
                reader, writer = await asyncio.open_connection(server.hostname, server.port or NATS_PORT)
                await reader.readline()  # the server's INFO, in clear
                await writer.start_tls(given.context, server_hostname=server.hostname)
                await reader.read(1)
        except (OSError, TimeoutError) as error:  # of ssl too
            errors.append(error)
        finally:
            if writer is not None:
                writer.transport.abort()
    return errors


def _make_context(ca: str | None = None, cert: str | None = None, key: str | None = None) -> ssl.SSLContext:
    try:
        made = ssl.create_default_context(cafile=ca)
    except (OSError, ValueError) as error:  # of ssl too
        raise ClusterError(
            f"The file {ca} (ca in the address of NATS) holds no certificate: {_find_reason(error)}."
        ) from error
    if key is not None and cert is None:
        raise ClusterError("A key in the address of NATS needs its certificate: ?cert=FILE&key=FILE.")
    if cert is not None:
        try:
            made.load_cert_chain(cert, key, password=lambda: "")  # or OpenSSL would ask for one on the console
        except (OSError, ValueError) as error:
            files = cert if key is None else f"{cert} and {key}"
            raise ClusterError(
                f"The certificate for NATS and its key cannot be used ({files}): {_find_reason(error)}. Both are PEM "
                "files, the key without a password."
            ) from error
    return made


def _find_reason(error: Exception) -> str:
    reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or str(error)
    return str(reason).rstrip(".")
