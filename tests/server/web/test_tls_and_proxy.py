"""HTTPS works with given and generated certificates, and behind the real nginx with the site in deploy/."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import trustme
import uvicorn
from cryptography.hazmat.primitives import serialization
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from headwater.errors import SettingsError
from headwater.settings import load_settings
from headwater.web.auth.client_address import TrustedProxyHeaders
from headwater.web.tls import Certificate, list_own_names, load_certificate
from support import ROOT

NGINX = shutil.which("nginx", path="/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin")
SITE = ROOT / "deploy" / "nginx.conf"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def issued(folder: Path, name: str = "localhost") -> tuple[Path, Path, trustme.CA]:
    authority = trustme.CA()
    made = authority.issue_cert(name)
    for pem in made.cert_chain_pems:
        pem.write_to_path(str(folder / "cert.pem"), append=True)
    made.private_key_pem.write_to_path(str(folder / "key.pem"))
    return folder / "cert.pem", folder / "key.pem", authority


def test_a_certificate_is_made_once_for_all_names_and_again_for_a_new_one(tmp_path: Path) -> None:
    names = list_own_names("0.0.0.0", ("feeds.example.org", "bücher.example"))
    assert "0.0.0.0" not in names
    first = load_certificate(None, None, tmp_path, ["localhost", "127.0.0.1", "feeds.example.org"])
    assert first.key.stat().st_mode & 0o777 == 0o600
    kept = first.file.read_bytes()
    assert load_certificate(None, None, tmp_path, ["localhost"]).file.read_bytes() == kept
    more = load_certificate(None, None, tmp_path, ["localhost", "other.example"])
    assert more.file.read_bytes() != kept
    assert len(more.fingerprint().split(":")) == 32


def test_a_certificate_that_cannot_be_used_is_reported(tmp_path: Path) -> None:
    cert, key, _ = issued(tmp_path)
    (tmp_path / "other").mkdir()
    _, other, _ = issued(tmp_path / "other")
    (tmp_path / "text").write_text("no certificate")
    locked = tmp_path / "locked"
    loaded = serialization.load_pem_private_key(key.read_bytes(), None)
    locked.write_bytes(
        loaded.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.BestAvailableEncryption(b"abcd"),
        )
    )
    for file, secret in [(cert, other), (tmp_path / "text", key), (tmp_path / "none", key), (cert, locked)]:
        with pytest.raises(SettingsError, match=r"TLS certificate .*(cannot be used|cannot be read)"):
            Certificate(file, secret)
    with pytest.raises(SettingsError, match="needs its key"):
        load_certificate(cert, None, tmp_path, [])


def test_a_renewed_certificate_is_read_again_and_a_bad_one_is_not(tmp_path: Path) -> None:
    cert, key, _ = issued(tmp_path)
    served = Certificate(cert, key)
    assert not served.reload_if_changed()
    (tmp_path / "new").mkdir()
    new_cert, new_key, _ = issued(tmp_path / "new")
    cert.write_bytes(new_cert.read_bytes())
    touch(cert, 10)
    with pytest.raises(SettingsError, match="belong together"):
        served.reload_if_changed()
    key.write_bytes(new_key.read_bytes())
    touch(key, 20)
    assert served.reload_if_changed()


def touch(file: Path, later: float) -> None:
    at = time.time() + later
    os.utime(file, (at, at))


async def seen(request: Request) -> Response:
    return PlainTextResponse(f"{request.client.host if request.client else ''} {request.url}")


async def served(
    port: int = 0, trusted: tuple[str, ...] = (), **options: Any
) -> tuple[uvicorn.Server, asyncio.Task[None], int]:
    app = TrustedProxyHeaders(Starlette(routes=[Route("/{path:path}", seen)]), trusted)
    listener = socket.create_server(("127.0.0.1", port))
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="off", proxy_headers=False, **options))
    return server, asyncio.create_task(server.serve(sockets=[listener])), listener.getsockname()[1]


async def test_a_browser_that_trusts_it_is_answered_by_https(tmp_path: Path) -> None:
    made = load_certificate(None, None, tmp_path, ["localhost", "127.0.0.1"])
    server, task, port = await served(ssl_context_factory=lambda config, default: made.context)
    trusting = ssl.create_default_context(cafile=str(made.file))
    async with aiohttp.ClientSession() as session:
        async with session.get(f"https://localhost:{port}/x", ssl=trusting) as answer:
            assert await answer.text() == f"127.0.0.1 https://localhost:{port}/x"
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await session.get(f"https://localhost:{port}/x")
    server.should_exit = True
    await task


@pytest.fixture
def nginx(tmp_path: Path) -> Iterator[tuple[int, int, trustme.CA]]:
    """Run nginx with the shipped site, changing only names, ports and files; yield its port, Headwater's port and the
    CA.
    """
    if NGINX is None:
        pytest.skip("nginx is not installed")
    cert, key, authority = issued(tmp_path, "feeds.example.org")
    port, behind = free_port(), free_port()
    site = SITE.read_text()
    for old, new in (
        ("127.0.0.1:8040", f"127.0.0.1:{behind}"),
        ("listen 443 ssl", f"listen 127.0.0.1:{port} ssl"),
        ("/etc/ssl/feeds.example.org.pem", str(cert)),
        ("/etc/ssl/feeds.example.org.key", str(key)),
    ):
        assert old in site
        site = site.replace(old, new)
    folders = "".join(f"{kind}_temp_path {tmp_path}/{kind};\n" for kind in ("proxy", "fastcgi", "uwsgi", "scgi"))
    (tmp_path / "nginx.conf").write_text(
        f"pid {tmp_path}/pid;\nerror_log stderr;\ndaemon off;\nevents {{}}\nhttp {{\naccess_log off;\n"
        f"client_body_temp_path {tmp_path}/body;\n{folders}{site}}}\n"
    )
    with subprocess.Popen([NGINX, "-e", "stderr", "-c", str(tmp_path / "nginx.conf")]) as process:
        for _ in range(200):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        yield port, behind, authority
        process.terminate()


@pytest.mark.parametrize("trusted", [True, False])
async def test_behind_nginx_the_visitor_is_seen_and_only_the_proxy_is_believed(
    nginx: tuple[int, int, trustme.CA], trusted: bool
) -> None:
    port, behind, authority = nginx
    given = load_settings(trusted_proxies=["127.0.0.0/8"] if trusted else ["10.0.0.1"])
    server, task, _ = await served(behind, given.trusted_proxies)
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    headers = {"Host": f"feeds.example.org:{port}", "X-Forwarded-For": "6.6.6.6", "X-Forwarded-Proto": "gopher"}
    async with (
        aiohttp.ClientSession() as session,
        session.get(
            f"https://127.0.0.1:{port}/x", ssl=trusting, server_hostname="feeds.example.org", headers=headers
        ) as answer,
    ):
        said = await answer.text()
    server.should_exit = True
    await task
    scheme = "https" if trusted else "http"
    assert said == f"127.0.0.1 {scheme}://feeds.example.org:{port}/x"


def test_proxies_are_addresses_or_networks() -> None:
    with pytest.raises(SettingsError, match="not an address or network"):
        load_settings(trusted_proxies=["proxy.example"])
