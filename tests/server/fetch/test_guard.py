"""No request goes to a non-public address unless the operator allowed it (security.md, Addresses)."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from raw_server import RawServer, feed, read_titles, redirect

from headwater.errors import AddressError
from headwater.fetch.client import Fetcher
from headwater.fetch.http.address_guard import REFUSAL, AddressBlocked, AddressGuard, is_public, parse_literal_address
from headwater.model import Ending

PRIVATE = [
    "0.0.0.0",
    "0.1.2.3",
    "10.0.0.1",
    "100.64.0.1",  # carrier-grade NAT
    "127.0.0.1",
    "127.255.255.254",
    "169.254.169.254",  # metadata services
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.1",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.1.1",
    "198.18.0.1",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.250",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::127.0.0.1",  # compatible
    "::ffff:127.0.0.1",  # mapped
    "::ffff:169.254.169.254",
    "64:ff9b::7f00:1",  # NAT64
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::7f00:1",  # NAT64, local use
    "100::1",
    "2001:0:7f00:1::",  # Teredo, by its server
    "2001:0:5db8:d822:0:0:80ff:fffe",  # Teredo, by its client 127.0.0.1
    "2001:db8::1",
    "2001:4860:4860::5efe:7f00:1",  # ISATAP
    "2002:7f00:1::",  # 6to4
    "2002:a00:1::1",
    "3fff::1",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fec0::1",
    "ff02::1",
    "ff0e::1",
]
PUBLIC = ["1.1.1.1", "93.184.216.34", "2606:4700:4700::1111", "64:ff9b::5db8:d822", "2002:5db8:d822::1"]
ODD_LOOPBACK = [
    "2130706433",
    "0x7f000001",
    "0x7F.1",
    "017700000001",
    "127.1",
    "127.0.1",
    "0",
    "127.0.0.1.",
    "0177.0.0.1",
    "①②⑦.⓪.⓪.①",
    "127。0。0。1",
    "１２７.0.0.1",
    "[::1]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[0:0:0:0:0:0:0:1]",
    "[64:ff9b::7f00:1]",
    "[::1%25lo]",
]
SHAPES = [
    "http://user@example.org/",
    "http://user:pw@example.org/",
    "http://example.org@127.0.0.1/",
    "http://example.org\\@127.0.0.1/",
    "http:\\\\example.org/",
    "http://exam\tple.org/",
    "http://example.org/\r\nHost: other",
    "http://example.org/\x00",
    "\nhttp://example.org/",
    "http://example.org/\x85",
    "file:///etc/passwd",
    "ftp://example.org/",
    "gopher://example.org/",
    "javascript:alert(1)",
    "data:text/xml,<rss/>",
    "http:example.org",
    "http:///feed",
    "//example.org/feed",
    "example.org/feed",
    "",
    "http://[::1/",
    "http://example.org:99999/",
    "http://example.org:port/",
]


@pytest.mark.parametrize("address", PRIVATE)
def test_an_address_that_is_not_public_is_seen_as_such(address: str):
    assert not is_public(address)
    with pytest.raises(AddressBlocked):
        AddressGuard().open_socket((socket.AF_INET, socket.SOCK_STREAM, 0, "", (address, 80)))


@pytest.mark.parametrize("address", PUBLIC)
def test_a_public_address_passes_even_where_a_translator_wraps_it(address: str):
    assert is_public(address)
    AddressGuard().check_address(address)


@given(st.ip_addresses(v=4))
def test_no_wrapping_makes_a_private_address_public(address: ipaddress.IPv4Address):
    number = int(address)
    wrapped = [
        ipaddress.IPv6Address(0xFFFF << 32 | number),
        ipaddress.IPv6Address(number),
        ipaddress.IPv6Address(0x64FF9B << 96 | number),
        ipaddress.IPv6Address(0x2002 << 112 | number << 80),
        ipaddress.IPv6Address(0x20010000 << 96 | 0x01010101 << 64 | (number ^ 0xFFFFFFFF)),
    ]
    assert {is_public(form) for form in wrapped} == {is_public(address)}


@given(st.ip_addresses(v=4))
def test_every_spelling_the_system_reads_as_an_address_is_read_as_that_address(address: ipaddress.IPv4Address):
    number = int(address)
    a, b, c, d = address.packed
    spellings = [str(number), hex(number), f"0{number:o}", f"{a}.{number & 0xFFFFFF}", f"{a}.{b}.{c << 8 | d}"]
    for spelling in [*spellings, f"{a:#x}.{b:#o}".replace("0o", "0") + f".{c}.{d}"]:
        assert parse_literal_address(spelling) == ipaddress.IPv4Address(socket.inet_aton(spelling))


@pytest.mark.parametrize("host", [*PRIVATE, *ODD_LOOPBACK])
async def test_a_private_literal_is_blocked_in_every_spelling_on_every_path(host: str):
    host = f"[{host}]" if ":" in host and "[" not in host else host
    url = f"http://{host}/feed"
    async with Fetcher(contact=None, read=read_titles) as fetcher:
        outcome = await fetcher.fetch(url)
        assert (outcome.ending, outcome.message) == (Ending.BLOCKED, REFUSAL)
        with pytest.raises(AddressError, match="does not go to this address"):
            await fetcher.get(url)
        with pytest.raises(AddressError, match="does not go to this address"):
            await fetcher.post(url, b"")


@pytest.mark.parametrize("url", SHAPES)
async def test_an_address_of_a_bad_shape_is_blocked_even_where_private_ones_are_allowed(url: str):
    async with Fetcher(allow_private=True, contact=None, read=read_titles) as fetcher:
        outcome = await fetcher.fetch(url)
    assert (outcome.ending, outcome.message, outcome.url) == (Ending.BLOCKED, REFUSAL, url)


@pytest.mark.parametrize("port", [21, 22, 25, 6379, 3000, 8000])
async def test_ports_other_than_those_of_the_web_are_blocked_unless_allowed(port: int):
    url = f"http://example.org:{port}/"
    with pytest.raises(AddressBlocked):
        AddressGuard().check_url(url)
    assert AddressGuard(ports={port}).check_url(url).port == port
    assert AddressGuard(allow_private=True).check_url(url).port == port


@pytest.mark.parametrize("url", ["http://a.example/", "https://a.example:443/", "http://a.example:8080/x?y=%2F#z"])
def test_web_ports_pass_and_the_address_is_sent_as_it_was_written(url: str):
    assert str(AddressGuard().check_url(url)) == url.replace(":443/", "/")


def names(table: dict[str, list[str]]) -> tuple[Callable[[str, int], list[tuple[object, ...]]], list[str]]:
    """Run a name server; each query gets the next list of the name's answers."""
    asked: list[str] = []

    def lookup(host: str, port: int) -> list[tuple[object, ...]]:
        asked.append(host)
        answers = table[host]
        return [
            (socket.AF_INET6 if ":" in a else socket.AF_INET, socket.SOCK_STREAM, 6, "", (a, port)) for a in answers
        ]

    return lookup, asked


@pytest.mark.parametrize("address", PRIVATE)
async def test_a_name_with_one_private_answer_is_blocked_before_connecting(server: RawServer, address: str):
    lookup, asked = names({"mixed.example": ["93.184.216.34", address]})
    async with Fetcher(contact=None, read=read_titles, lookup=lookup, ports={server.port}) as fetcher:
        outcome = await fetcher.fetch(f"http://mixed.example:{server.port}/feed")
    assert (outcome.ending, outcome.message) == (Ending.BLOCKED, REFUSAL)
    assert asked == ["mixed.example"]
    assert server.connections == 0


async def test_a_name_that_changes_its_mind_between_check_and_connection_gains_nothing(
    server: RawServer, monkeypatch: pytest.MonkeyPatch
):
    """The fetcher connects to the address it checked, without a second lookup."""
    connected: list[str] = []
    monkeypatch.setattr(AddressGuard, "open_socket", lambda _, info: connected.append(info[4][0]) or refuse())
    calls = iter([["93.184.216.34"], ["127.0.0.1"]])
    asked: list[str] = []

    def rebinding(host: str, port: int) -> list[tuple[object, ...]]:
        asked.append(host)
        return names({host: next(calls)})[0](host, port)

    def refuse() -> socket.socket:
        raise ConnectionRefusedError(111, "Connection refused")

    async with Fetcher(contact=None, read=read_titles, lookup=rebinding, ports={server.port}, gap=0) as fetcher:
        first = await fetcher.fetch(f"http://rebind.example:{server.port}/feed")
        assert (first.ending, asked, connected) == (Ending.CONNECTION, ["rebind.example"], ["93.184.216.34"])
        fetcher._session._session.connector.clear_dns_cache()  # type: ignore[union-attr]
        second = await fetcher.fetch(f"http://rebind.example:{server.port}/feed")
    assert (second.ending, connected) == (Ending.BLOCKED, ["93.184.216.34"])
    assert server.connections == 0


async def test_the_socket_itself_refuses_where_everything_before_it_was_fooled(
    server: RawServer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(AddressGuard, "check_url", AddressGuard(allow_private=True).check_url)
    server.routes["/feed"] = feed()
    async with Fetcher(contact=None, read=read_titles) as fetcher:
        outcome = await fetcher.fetch(server.url("/feed"))
    assert (outcome.ending, outcome.message) == (Ending.BLOCKED, REFUSAL)
    assert server.connections == 0


class OneDoor(AddressGuard):
    """Allows the test's own server and no other private address."""

    def __init__(self, port: int) -> None:
        super().__init__(ports={port, 80})

    def check_address(self, address: object) -> None:
        if str(address) != "127.0.0.1":
            super().check_address(address)  # type: ignore[arg-type]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize(
    "place",
    ["http://10.0.0.1/", "http://[::1]/", "http://2852039166/", "http://169.254.169.254/latest/", "//192.168.0.1/"],
)
async def test_a_redirect_to_a_private_address_is_blocked_on_its_hop(
    server: RawServer, monkeypatch: pytest.MonkeyPatch, status: int, place: str
):
    monkeypatch.setattr("headwater.fetch.client.AddressGuard", lambda **_: OneDoor(server.port))
    server.routes["/feed"] = redirect(status, place)
    async with Fetcher(contact=None, read=read_titles) as fetcher:
        outcome = await fetcher.fetch(server.url("/feed"))
        assert (outcome.ending, outcome.message) == (Ending.BLOCKED, REFUSAL)
        with pytest.raises(AddressError):
            await fetcher.get(server.url("/feed"))
    assert server.paths == ["/feed", "/feed"]


async def test_a_post_never_follows_a_redirect(server: RawServer, fetcher: Fetcher):
    server.routes["/hook"] = redirect(307, "/other", body=b"moved")
    page = await fetcher.post(server.url("/hook"), {"hub.mode": "publish"}, {"X-Hub": "1"})
    assert (page.status, page.headers["location"], page.body) == (307, "/other", b"moved")
    assert server.paths == ["/hook"]
    assert server.requests[0].body == b"hub.mode=publish"
    assert server.requests[0]["X-Hub"] == "1"


async def test_where_private_addresses_are_allowed_they_are_fetched(server: RawServer, fetcher: Fetcher):
    server.routes["/feed"] = feed()
    assert (await fetcher.fetch(server.url("/feed"))).ending is Ending.CHANGED
    assert (await fetcher.fetch(server.url("/feed", host="localhost"))).ending is Ending.CHANGED


async def test_a_proxy_of_the_environment_is_not_used(server: RawServer, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("http_proxy", server.url())
    monkeypatch.setenv("HTTP_PROXY", server.url())
    lookup, _ = names({"public.example": ["127.0.0.1"]})
    async with (
        RawServer(routes={"/feed": feed()}) as other,
        Fetcher(allow_private=True, contact=None, read=read_titles, lookup=lookup) as fetcher,
    ):
        outcome = await fetcher.fetch(other.url("/feed", host="public.example"))
    assert outcome.ending is Ending.CHANGED
    assert server.connections == 0
