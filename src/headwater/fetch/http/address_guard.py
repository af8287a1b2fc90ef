"""Refuses addresses that are not public, so that nobody can reach the operator's network through Headwater.

An address is checked three times: as text, because parsers are lenient (`urlsplit` deletes tabs and accepts
backslashes); as a literal, in every spelling that `getaddrinfo` accepts; and as the socket address that is about to be
connected, so that a DNS answer cannot change between check and connection. Every refusal has the same sentence, which
tells an attacker nothing about the network.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any, cast

from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from headwater.errors import AddressError

WEB_PORTS = frozenset({80, 443, 8080, 8443})
REFUSAL = (
    "Headwater does not go to this address. It accepts http and https addresses of public servers on the ports "
    "80, 443, 8080 and 8443, without user names, backslashes or control characters; "
    "the operator can allow private addresses with --allow-private."
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
_NOT_PUBLIC = (  # networks that the standard library considers global
    ipaddress.IPv4Network("192.88.99.0/24"),  # 6to4 relays, RFC 7526
    ipaddress.IPv6Network("3fff::/20"),  # documentation, RFC 9637
)
_ISATAP = (0x00005EFE, 0x02005EFE)  # interface identifiers that carry an IPv4 address, RFC 5214 §6.1


class AddressBlocked(AddressError, OSError):
    """The guard refused an address. Also an OSError, because aiohttp's connector passes only those on."""

    def __init__(self) -> None:
        super().__init__(REFUSAL)

    def __str__(self) -> str:
        return REFUSAL


def is_public(address: IPAddress | str) -> bool:
    """Return whether an address is public, also when an IPv6 address embeds an IPv4 address.

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
    """Return the IPv4 addresses to which packets for an IPv6 address would be sent."""
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
    """Return the address that a host name spells out, in any form of `getaddrinfo`: 127.1, 2130706433, 0x7f000001."""
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


@lru_cache(maxsize=1024)
def is_local_domain(domain: str) -> bool:
    """Return whether a domain is on the local network, where requests need no pause."""
    address = parse_literal_address(domain)
    return not is_public(address) if address is not None else "." not in domain


class AddressGuard:
    """Checks addresses. `allow_private` permits all networks and ports, but no malformed addresses."""

    def __init__(self, *, allow_private: bool = False, ports: Collection[int] = WEB_PORTS) -> None:
        self.allow_private = allow_private
        self._ports = frozenset(ports)

    def check_url(self, url: str) -> URL:
        """Return the parsed address. Raises AddressBlocked; names are resolved and checked later."""
        ordinary = _ORDINARY.fullmatch(url) is not None
        if not ordinary:
            authority = _WEB_ADDRESS.match(url)
            if authority is None or "@" in authority[1] or _FORBIDDEN.search(url):
                raise AddressBlocked
        try:
            # An address in plain ASCII is sent as written: requoting would break signed queries.
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
        """Raise AddressBlocked unless a resolved address is public or private ones are allowed."""
        if not self.allow_private:
            try:
                public = is_public(address)
            except ValueError:
                public = False
            if not public:
                raise AddressBlocked

    def open_socket(self, info: tuple[Any, ...]) -> socket.socket:
        """Create a socket for the connector, after checking the address that it will connect to."""
        family, kind, protocol, _, address = info
        self.check_address(address[0])
        return socket.socket(family, kind, protocol)


Lookup = Callable[[str, int], list[tuple[Any, ...]]]


def resolve_host(host: str, port: int) -> list[tuple[Any, ...]]:
    """Resolve a host with the operating system."""
    return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)


class GuardedResolver(AbstractResolver):
    """Resolves names in its own threads, and refuses a name if one of its addresses is not public.

    The event loop has few shared threads (four in uvloop), so a few dead name servers would block every lookup.
    """

    def __init__(self, guard: AddressGuard, *, lookup: Lookup = resolve_host) -> None:
        self._guard = guard
        self._lookup = lookup
        self._threads = ThreadPoolExecutor(32, thread_name_prefix="dns")

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
