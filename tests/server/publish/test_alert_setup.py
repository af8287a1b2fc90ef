"""An owner sets up mail and chat on a running server; page, API and command send real test messages."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from failing_receivers import hooks, mail_server
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from headwater.assembly import build
from headwater.credentials import hash_password, hash_secret
from headwater.node.node import Node
from headwater.publish.delivery.sinks import ENCRYPTIONS, MailServer, parse_mail_server, write_mail_server
from headwater.settings import load_settings
from headwater.store.readers.accounts import add_api_token, add_user
from headwater.web.app import create_app
from support.commands import run_command

PAGE, MAIL, TEST = "/settings/alerts", "/settings/alerts/mail", "/settings/alerts/test"
SENDER = "headwater@example.org"


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    async with build("node", load_settings(data=tmp_path, allow_private=True)) as running:
        yield running


@pytest.fixture
async def http(node: Node) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(create_app(node), client=("127.0.0.1", 5000))
    headers = {"Origin": "http://localhost"}
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=headers) as client:
        yield client


def mail_form(url: str, **more: str) -> dict[str, str]:
    port = str(urlsplit(url).port)
    return {"host": "127.0.0.1", "port": port, "encryption": "never", "mail_from": SENDER} | more


async def test_a_mail_server_is_saved_and_sends_a_test_mail_at_once(http: httpx.AsyncClient) -> None:
    query = {"text": 'CREATE FEED q AS RETURN ALL DELIVER TO EMAIL "me@example.org"'}
    assert (await http.post("/api/v1/queries", json=query)).status_code == 400
    early = await http.post(TEST, data={"kind": "email", "address": "me@example.org"})
    assert (early.status_code, "No mail server is configured" in early.text) == (400, True)
    with mail_server(failure_rate=0) as (url, receiver):
        saved = await http.post(MAIL, data=mail_form(url), follow_redirects=True)
        assert "Mail server saved." in saved.text
        sent = await http.post(TEST, data={"kind": "email", "address": "me@example.org"}, follow_redirects=True)
        assert "Test message accepted" in sent.text
        [mail] = receiver.taken
        assert (mail["To"], mail["From"], mail["Subject"]) == ("me@example.org", SENDER, "[Headwater] Test message")
    assert (await http.post("/api/v1/queries", json=query)).status_code == 201
    away = await http.post(TEST, data={"kind": "email", "address": "me@example.org"})
    assert (away.status_code, "could not be reached" in away.text) == (400, True)
    await http.post(MAIL, data={"do": "remove"})
    assert (await http.get("/api/v1/settings")).json()["mail_server"] is None


async def test_the_password_is_neither_shown_nor_logged_nor_sent_to_another_host(
    node: Node, http: httpx.AsyncClient
) -> None:
    with capture_logs() as logs:
        await http.post(MAIL, data=mail_form("smtp://127.0.0.1:25", user="ada", password="s3cr/t pw"))
    assert parse_mail_server(node.settings.smtp_url or "").password == "s3cr/t pw"
    answers = [await http.get(path) for path in (PAGE, "/settings", "/api/v1/settings")]
    answers.append(await http.post(MAIL, data=mail_form("smtp://127.0.0.1:0", user="ada", password="s3cr/t pw")))
    assert [answer.status_code for answer in answers] == [200, 200, 200, 400]
    for text in (
        *(answer.text for answer in answers),
        str(logs),
        repr(parse_mail_server(node.settings.smtp_url or "")),
    ):
        assert "s3cr" not in text
    assert "smtp://ada@127.0.0.1:25?starttls=never" in answers[2].text
    await http.post(MAIL, data=mail_form("smtp://127.0.0.1:26", user="ada", password=""))
    assert parse_mail_server(node.settings.smtp_url or "").password == "s3cr/t pw"
    await http.post(MAIL, data=mail_form("smtp://x:26", user="ada", password="", host="mail.example.org"))
    assert parse_mail_server(node.settings.smtp_url or "") == MailServer("mail.example.org", 26, "never", "ada")


async def test_chat_and_web_hooks_are_tested_by_a_real_message(http: httpx.AsyncClient) -> None:
    with hooks(failure_rate=0) as (url, receiver):
        sent = await http.post(TEST, data={"kind": "webhook", "address": url}, follow_redirects=True)
        assert "Test message accepted" in sent.text
        assert len(receiver.taken) == 1
        receiver.status = 503
        failed = await http.post(TEST, data={"kind": "webhook", "address": url})
        assert (failed.status_code, "answered 503" in failed.text) == (400, True)
        receiver.status = 200
        address = f"json://{url.removeprefix('http://')}"
        chat = await http.post("/api/v1/deliveries/test", json={"kind": "notify", "address": address})
        assert chat.status_code == 204
        wrong = await http.post("/api/v1/deliveries/test", json={"kind": "notify", "address": "nothing://"})
        assert (wrong.status_code, wrong.json()["error"]["field"]) == (400, "address")


async def test_readers_neither_see_nor_use_the_page(node: Node, http: httpx.AsyncClient) -> None:
    reader = await node.store.write(add_user, "rita", hash_password("battery staple"), 0.0)
    await node.store.write(add_api_token, reader.id, hash_secret("hers"), "", ["read", "write"], 0.0)
    headers = {"Authorization": "Bearer hers"}
    assert (await http.get(PAGE, headers=headers)).status_code == 403
    for path in (MAIL, TEST):
        assert (await http.post(path, data={}, headers=headers)).status_code == 403
    body = {"kind": "webhook", "address": "https://example.org/"}
    assert (await http.post("/api/v1/deliveries/test", json=body, headers=headers)).status_code == 403


def test_the_command_sends_by_the_saved_mail_server(tmp_path: Path) -> None:
    with mail_server(failure_rate=0) as (url, receiver):
        given = ("--data", str(tmp_path))
        (tmp_path / "headwater.toml").write_text(f'smtp_url = "{url}"\nmail_from = "{SENDER}"\n')
        sent = run_command("deliveries", "test", "email", "me@example.org", *given, "--json")
        assert sent.json == {"sent": True}
        assert [mail["To"] for mail in receiver.taken] == ["me@example.org"]


hosts = st.sampled_from(["mail.example.org", "127.0.0.1", "::1"])


@given(
    hosts,
    st.none() | st.integers(1, 65_535),
    st.sampled_from(ENCRYPTIONS),
    st.text(st.characters(codec="utf-8"), min_size=1),
    st.text(st.characters(codec="utf-8")),
)
def test_a_mail_server_survives_its_address(
    host: str, port: int | None, encryption: str, user: str, password: str
) -> None:
    server = MailServer(host, port, encryption, user, password)  # type: ignore[arg-type]
    assert parse_mail_server(write_mail_server(server)) == server
    assert load_settings(smtp_url=write_mail_server(server)).smtp_url == write_mail_server(server)
