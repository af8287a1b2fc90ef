"""The address guard: which addresses a request may leave for, and the connector that goes nowhere else.

An address is judged three times. As text, before anything parses it, because parsers forgive what servers do
not (`urlsplit` deletes tabs and takes backslashes). As a literal, in every spelling `getaddrinfo` would accept.
And as the very socket address about to be connected to, so that no answer of a name server, cached, changed or
spelled oddly, slips between the check and the connection. Every refusal says the same sentence: whoever asks
learns nothing about the network Headwater stands in.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from headwater.errors import AddressError

WEB_PORTS = frozenset({80, 443, 8080, 8443})
REFUSAL = (
    "Headwater does not go to this address: it takes http and https addresses of public servers on the ports "
    "80, 443, 8080 and 8443, without user names, backslashes or control characters; "
    "an operator can allow private addresses with --allow-private."
)

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address

_FORBIDDEN = re.compile(r"[\x00-\x1f\x7f-\x9f\\]")
_WEB_ADDRESS = re.compile(r"(?i)https?://([^/?#]+)")
_ORDINARY = re.compile(r"https?://[A-Za-z0-9.-]+(?::[0-9]+)?(?:[/?#][!-\[\]-~]*)?")
_PLAIN_ASCII = re.compile(r"[!-~]+")
_ENDS_IN_NUMBER = re.compile(r"(?i)(?:^|\.)(?:\d+|0x[0-9a-f]*)\.?$")

_GLOBAL_V6 = ipaddress.IPv6Network("2000::/3")
_COMPATIBLE = ipaddress.IPv6Network("::/96")
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")  # RFC 6052
_NOT_PUBLIC = (  # what the standard library's registry calls global, or does not know yet
    ipaddress.IPv4Network("192.88.99.0/24"),  # 6to4 relays, RFC 7526
    ipaddress.IPv6Network("3fff::/20"),  # documentation, RFC 9637
)
_ISATAP = (0x00005EFE, 0x02005EFE)  # interface identifiers that carry an IPv4 address, RFC 5214 §6.1


class AddressBlocked(AddressError, OSError):
    """The guard said no. An OSError too, because that is what connectors hand through from below."""

    def __init__(self) -> None:
        super().__init__(REFUSAL)

    def __str__(self) -> str:
        return REFUSAL


def is_public(address: IPAddress | str) -> bool:
    """Whether an address belongs to the public internet, whatever it is wrapped in.

    >>> is_public("93.184.216.34"), is_public("64:ff9b::5db8:d822")
    (True, True)
    >>> is_public("64:ff9b::7f00:1"), is_public("224.0.0.1"), is_public("fec0::1")
    (False, False, False)
    """
    if isinstance(address, str):
        address = ipaddress.ip_address(address.partition("%")[0])
    if any(address in network for network in _NOT_PUBLIC):
        return False
    if isinstance(address, ipaddress.IPv6Address):
        carried = _embedded_ipv4(address)
        if carried:
            return all(is_public(inner) for inner in carried)
        if address not in _GLOBAL_V6:
            return False
    return address.is_global and not address.is_multicast


def _embedded_ipv4(address: ipaddress.IPv6Address) -> tuple[ipaddress.IPv4Address, ...]:
    """The IPv4 addresses an IPv6 address stands for: packets would end up there."""
    if address.ipv4_mapped is not None:
        return (address.ipv4_mapped,)
    if address.sixtofour is not None:
        return (address.sixtofour,)
    if address.teredo is not None:
        return address.teredo
    low = int(address) & 0xFFFFFFFF
    if address in _NAT64 or address in _COMPATIBLE or (int(address) >> 32) & 0xFFFFFFFF in _ISATAP:
        return (ipaddress.IPv4Address(low),)
    return ()


def parse_literal_address(host: str) -> IPAddress | None:
    """The address a host spells out, in any form `getaddrinfo` reads as one: 127.1, 2130706433, 0x7f000001."""
    try:
        return ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        pass
    if _ENDS_IN_NUMBER.search(host):
        try:
            return ipaddress.IPv4Address(socket.inet_aton(host.rstrip(".")))
        except OSError:
            return None
    return None


class AddressGuard:
    """Judges addresses; `allow_private` lifts what concerns networks and ports, never the shape of an address."""

    def __init__(self, *, allow_private: bool = False, ports: Collection[int] = WEB_PORTS) -> None:
        self.allow_private = allow_private
        self._ports = frozenset(ports)

    def check_url(self, url: str) -> URL:
        """The address, ready to request; raises `Blocked` for what we do not go to. Names are resolved later."""
        ordinary = _ORDINARY.fullmatch(url) is not None
        if not ordinary:
            authority = _WEB_ADDRESS.match(url)
            if authority is None or "@" in authority[1] or _FORBIDDEN.search(url):
                raise AddressBlocked
        try:
            # An address in plain ASCII is sent as it was written: requoting would break signed queries.
            target = URL(url, encoded=ordinary or _PLAIN_ASCII.fullmatch(url) is not None)
            host, port = target.raw_host, target.port
        except ValueError as error:
            raise AddressBlocked from error
        if not host or port is None or "%" in host or not host.isascii():
            raise AddressBlocked
        if not self.allow_private:
            if port not in self._ports:
                raise AddressBlocked
            if ":" in host or _ENDS_IN_NUMBER.search(host):
                address = parse_literal_address(host)
                if address is None:
                    raise AddressBlocked
                self.check_address(address)
        return target

    def check_address(self, address: IPAddress | str) -> None:
        """Raises `Blocked` unless the (resolved) address is public or private ones are allowed."""
        if not self.allow_private:
            try:
                public = is_public(address)
            except ValueError:
                public = False
            if not public:
                raise AddressBlocked

    def open_socket(self, info: tuple[Any, ...]) -> socket.socket:
        """The connector's socket factory: the last look at the very address that will be connected to."""
        family, kind, protocol, _, address = info
        self.check_address(address[0])
        return socket.socket(family, kind, protocol)


Lookup = Callable[[str, int], list[tuple[Any, ...]]]


def resolve_host(host: str, port: int) -> list[tuple[Any, ...]]:
    """Ask the system's resolver."""
    return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)


class GuardedResolver(AbstractResolver):
    """Resolves names in threads of its own and refuses a name when one of its answers is not public.

    The event loop's shared threads are few (uvloop has four): some dead name servers would stop every look-up.
    """

    def __init__(self, guard: AddressGuard, *, lookup: Lookup = resolve_host, threads: int = 32) -> None:
        self._guard = guard
        self._lookup = lookup
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="dns")

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        loop = asyncio.get_running_loop()
        try:
            answers = await loop.run_in_executor(self._threads, self._lookup, host, port)
        except UnicodeError as error:  # a label of more than 63 letters
            raise socket.gaierror(socket.EAI_NONAME, "the name cannot exist") from error
        if not answers:
            raise socket.gaierror(socket.EAI_NONAME, "no address")
        for *_, address in answers:
            self._guard.check_address(address[0])
        return [
            cast(
                ResolveResult,
                {
                    "hostname": host,
                    "host": address[0],
                    "port": port,
                    "family": answer_family,
                    "proto": protocol,
                    "flags": socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
                },
            )
            for answer_family, _, protocol, _, address in answers
        ]

    async def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
