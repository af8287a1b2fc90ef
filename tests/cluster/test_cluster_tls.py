"""TLS to NATS and PostgreSQL: all traffic uses it, and problems with certificates are reported at once."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest
import tls_proxy
import trustme
from cluster_in_process import all_matched, roles, settings
from nats.errors import NoServersError
from structlog.testing import capture_logs

from headwater.assembly import ROLES
from headwater.cluster.demo.servers import NatsServer, nats_server
from headwater.cluster.transport.nats_connection import connect_nats, redact_address
from headwater.cluster.transport.nats_tls import StrictTlsClient
from headwater.errors import ClusterError, StoreError
from headwater.store.content.feeds import NewFeed
from headwater.store.opening import open_store
from headwater.store.queries.query_scripts import run_script
from headwater.store.readers.subscriptions import add_and_subscribe
from headwater.store.store import Store


class Papers:
    """The certificates of a test authority, as files."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder, self._name = folder, name
        self.authority = trustme.CA()
        self.ca = folder / f"{name}-ca.pem"
        self.authority.cert_pem.write_to_path(str(self.ca))

    def issue(self, owner: str) -> tuple[Path, Path]:
        issued = self.authority.issue_cert(owner)
        cert, key = (self._folder / f"{self._name}-{owner}.{kind}" for kind in ("pem", "key"))
        issued.private_key_pem.write_to_path(str(key))
        cert.write_bytes(b"".join(one.bytes() for one in issued.cert_chain_pems))
        return cert, key


@pytest.fixture
def papers(tmp_path: Path) -> Papers:
    return Papers(tmp_path, "ours")


@contextmanager
def nats_with_tls(folder: Path, papers: Papers, *, named: str = "127.0.0.1", verify: bool = False) -> Iterator[str]:
    """Run NATS with TLS, a user and a password; yield its `tls://` address."""
    cert, key = papers.issue(named)
    block = f'tls {{ cert_file: "{cert}", key_file: "{key}", ca_file: "{papers.ca}", verify: {str(verify).lower()} }}\n'
    with nats_server(folder, more=block + 'authorization { user: "a", password: "secret" }\n') as server:
        yield server.url.replace("nats://", "tls://a:secret@")


async def test_a_connection_goes_on_when_a_certificate_that_was_wrong_for_a_while_is_right_again(
    tmp_path: Path, papers: Papers, eventually
) -> None:
    cert, key = papers.issue("127.0.0.1")
    block = f'tls {{ cert_file: "{cert}", key_file: "{key}" }}\n'
    right, wrong = [
        (one.read_bytes(), two.read_bytes())
        for one, two in ((cert, key), Papers(tmp_path, "strange").issue("127.0.0.1"))
    ]
    with nats_server(tmp_path, more=block) as server, capture_logs() as said:
        link = await connect_nats(server.url.replace("nats://", "tls://") + f"?ca={papers.ca}", "test")
        for papers_then in (wrong, right):
            server.kill()
            cert.write_bytes(papers_then[0])
            key.write_bytes(papers_then[1])
            await asyncio.to_thread(server.start)
            if papers_then is wrong:
                await eventually(lambda: any("is not trusted" in str(one) for one in said), "it is said")
                assert not link.is_connected
        await eventually(lambda: link.is_connected, "it is connected again")
        await link.flush()
        await link.close()


def server_side(papers: Papers, named: str = "127.0.0.1") -> ssl.SSLContext:
    made = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    made.load_cert_chain(*papers.issue(named))
    return made


def by_tcp(url: str, port: int, more: str = "") -> str:
    """Return the address of a database with a port instead of the socket."""
    return f"postgresql://postgres@127.0.0.1:{port}{urlsplit(url).path}{more}"


def socket_of(url: str) -> str:
    return f"{urlsplit(url).query.partition('host=')[2]}/.s.PGSQL.5432"


async def test_items_go_all_the_way_through_tls_with_certificates_on_both_sides(
    farm, url: str, store: Store, tmp_path: Path, papers: Papers, eventually
) -> None:
    made = await farm(feeds=2, hosts=2, speed=1000, hints=False)
    await store.write(add_and_subscribe, [NewFeed(made.url(k)) for k in range(2)], time.time())
    await store.write(run_script, "CREATE FEED Everything AS RETURN ALL", time.time())
    cert, key = papers.issue("roles.example")
    side = server_side(papers)
    side.load_verify_locations(papers.ca)
    side.verify_mode = ssl.CERT_REQUIRED
    async with tls_proxy.before(socket_of(url), side) as port:
        with nats_with_tls(tmp_path, papers, verify=True) as address:
            given = settings(
                database=by_tcp(url, port, f"?sslmode=verify-full&sslrootcert={papers.ca}&sslcert={cert}&sslkey={key}"),
                nats=f"{address}?ca={papers.ca}&cert={cert}&key={key}",
            )
            async with roles(given, "controller", "terminal", "storer", "processor"):
                await eventually(lambda: all_matched(store), "items go all the way")


async def test_the_client_needs_no_certificate_where_nats_does_not_ask_for_one(tmp_path: Path, papers: Papers) -> None:
    with nats_with_tls(tmp_path, papers) as address:
        link = await connect_nats(f"{address}?ca={quote(str(papers.ca))}", "test")
        await link.flush()
        await link.close()


async def test_a_certificate_of_nats_that_is_not_trusted_is_reported_at_once(tmp_path: Path, papers: Papers) -> None:
    with nats_with_tls(tmp_path, papers) as address, pytest.raises(ClusterError, match="is not trusted") as caught:
        await connect_nats(address, "test")
    assert "?ca=FILE" in str(caught.value)
    assert "secret" not in str(caught.value)


async def test_a_certificate_of_nats_for_another_name_is_not_trusted(tmp_path: Path, papers: Papers) -> None:
    words = r"is not trusted .*not valid for '127\.0\.0\.1'"
    with nats_with_tls(tmp_path, papers, named="nats.example") as url, pytest.raises(ClusterError, match=words):
        await connect_nats(f"{url}?ca={papers.ca}", "test")


@pytest.mark.parametrize("given", ["nothing", "a stranger's"])
async def test_nats_that_wants_another_certificate_is_told(tmp_path: Path, papers: Papers, given: str) -> None:
    cert, key = Papers(tmp_path, "strange").issue("roles.example")
    ours = "" if given == "nothing" else f"&cert={cert}&key={key}"
    words = "wants a certificate of ours"
    with nats_with_tls(tmp_path, papers, verify=True) as url, pytest.raises(ClusterError, match=words):
        await connect_nats(f"{url}?ca={papers.ca}{ours}", "test")


async def test_a_refusal_is_told_though_the_library_lost_it_with_the_connection(
    tmp_path: Path, papers: Papers, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def connect(self: object, *given: object, **named: object) -> None:
        raise NoServersError

    monkeypatch.setattr(StrictTlsClient, "connect", connect)
    words = "wants a certificate of ours"
    with nats_with_tls(tmp_path, papers, verify=True) as url, pytest.raises(ClusterError, match=words):
        await connect_nats(f"{url}?ca={papers.ca}", "test", patience=0.1)


async def test_nothing_is_sent_in_clear_to_a_nats_without_tls(nats: NatsServer) -> None:
    with pytest.raises(ClusterError, match=r"does not speak TLS.*nats://"):
        await connect_nats(nats.url.replace("nats://", "tls://a:secret@"), "test")


async def test_tls_is_spoken_where_nats_only_offers_it(tmp_path: Path, papers: Papers) -> None:
    cert, key = papers.issue("127.0.0.1")
    block = f'tls {{ cert_file: "{cert}", key_file: "{key}" }}\nallow_non_tls: true\n'
    with nats_server(tmp_path, more=block) as server:
        with pytest.raises(ClusterError, match="is not trusted"):  # so its certificate was checked
            await connect_nats(server.url.replace("nats://", "tls://"), "test")
        link = await connect_nats(server.url.replace("nats://", "tls://") + f"?ca={papers.ca}", "test")
        await link.close()


async def test_files_that_are_none_are_named(tmp_path: Path, papers: Papers) -> None:
    cert, key = papers.issue("roles.example")
    garbage = tmp_path / "garbage.pem"
    garbage.write_text("no certificate\n")
    for query, words in {
        "ca=/nowhere/ca.pem": "/nowhere/ca.pem .*No such file",
        f"ca={garbage}": f"{garbage} .*holds no certificate",
        f"cert={cert}&key={garbage}": "cannot be used",
        f"cert={papers.ca}&key={key}": "cannot be used",
        f"key={key}": "needs its certificate",
        "cacert=x": "“cacert” in the address",
    }.items():
        with pytest.raises(ClusterError, match=words):
            await connect_nats(f"tls://127.0.0.1:1?{query}", "test", patience=0.1)
    assert redact_address(f"tls://u:p@one:4222?ca={papers.ca}") == "tls://one:4222"


async def test_a_certificate_of_postgresql_is_checked_as_the_address_says(url: str, papers: Papers) -> None:
    strange = f"&sslrootcert={Papers(papers.ca.parent, 'strange').ca}"
    ours = f"&sslrootcert={papers.ca}"
    async with tls_proxy.before(socket_of(url), server_side(papers, "db.example")) as port:
        for good in ("?sslmode=require", f"?sslmode=verify-ca{ours}", f"?sslmode=require{ours}"):
            await (await open_store(by_tcp(url, port, good))).close()
        for bad in (f"?sslmode=verify-ca{strange}", f"?sslmode=verify-full{ours}"):
            with pytest.raises(StoreError, match=r"certificate that is not trusted.*sslrootcert"):
                await open_store(by_tcp(url, port, bad))


async def test_a_key_that_is_none_is_reported_of_postgresql_too(url: str, papers: Papers) -> None:
    cert, _ = papers.issue("roles.example")
    async with tls_proxy.before(socket_of(url), server_side(papers)) as port:
        with pytest.raises(StoreError, match=r"TLS with PostgreSQL .*sslkey"):
            await open_store(by_tcp(url, port, f"?sslmode=require&sslcert={cert}&sslkey={papers.ca}"))


async def test_a_postgresql_without_tls_is_not_spoken_to_in_clear(url: str) -> None:
    async with tls_proxy.before(socket_of(url), None) as port:
        with pytest.raises(StoreError, match=r"does not speak TLS.*sslmode"):
            await open_store(by_tcp(url, port, "?sslmode=require"))
        await (await open_store(by_tcp(url, port, "?sslmode=prefer"))).close()


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("?sslmode=verify-full&sslrootcert=/nowhere/ca.pem", "no file /nowhere/ca.pem, which sslrootcert"),
        ("?sslmode=perhaps", "perhaps|sslmode"),
        ("?sslmod=require", "“sslmod”"),
    ],
)
async def test_an_address_of_postgresql_that_makes_no_sense_is_refused(query: str, words: str) -> None:
    with pytest.raises(StoreError, match=words):
        await open_store(f"postgresql://nobody@127.0.0.1:1/x{query}")


@pytest.mark.parametrize("role", ["storer", "terminal"])
async def test_a_role_does_not_wait_for_a_certificate_to_become_trusted(
    role: str, url: str, nats: NatsServer, prefix: str, tmp_path: Path, papers: Papers
) -> None:
    async with tls_proxy.before(socket_of(url), server_side(papers)) as port:
        with nats_with_tls(tmp_path, papers) as address:
            given = settings(
                database=by_tcp(url, port, f"?sslmode=verify-full&sslrootcert={Papers(tmp_path, 'strange').ca}"),
                nats=address if role == "terminal" else nats.url,
                nats_prefix=prefix,
            )
            with pytest.raises((ClusterError, StoreError), match="is not trusted"):
                await asyncio.wait_for(ROLES[role](given, asyncio.Event()), 30)
