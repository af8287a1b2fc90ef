"""Templates of deliveries are rendered safely, and notifications reach public addresses only."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest
from failing_receivers import mail_server
from hypothesis import given
from hypothesis import strategies as st
from test_deliveries import arrive, prepared, until_done

from headwater.errors import InputError, NotAFeed
from headwater.model import Entry, Source
from headwater.publish.delivery.deliverer import Deliverer
from headwater.publish.delivery.delivery_templates import (
    DeliveryTemplate,
    render_in_worker,
    render_template,
    start_renderers,
    validate_template,
)
from headwater.publish.delivery.notification_worker import send_notification, start_notifiers
from headwater.publish.delivery.sinks import MailSink
from headwater.store.publishing.deliveries import list_deliveries, set_delivery_template
from headwater.store.store import Store

ITEM = Entry("urn:x:1", "https://example.org/1", "Lava & ash", 1e9, source=Source("https://example.org/f", "Volcanoes"))


def test_a_template_sees_the_query_and_its_items() -> None:
    template = DeliveryTemplate(
        "{{ query }}: {{ items | length }}",
        "{% for item in items %}{{ item.title }} {{ item.link }} {{ item.source }} {{ item.published | date('%Y') }}\n"
        "{% endfor %}",
    )
    subject, text = render_template(validate_template(template), "quakes", [ITEM, ITEM], 0.0)
    assert subject == "quakes: 2"
    assert text == "Lava & ash https://example.org/1 Volcanoes 2001\n" * 2


def test_a_subject_stays_one_line() -> None:
    assert (
        render_template(DeliveryTemplate("a\nBcc: all@example.org\r\n{{ query }}"), "q", [ITEM], 0.0)[0]
        == "a Bcc: all@example.org q"
    )


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ("{{ titel }}", "“titel”|'titel' is undefined"),
        ("line\n{% for %}", "error in line 2"),
        ("{{ items[0].nothing }}", "has no attribute 'nothing'"),
        ("{{ ().__class__.__mro__ }}", "unsafe|unknown name|failed"),
        ("{{ items.clear() }}", "failed"),
        ("{{ 'x' * 100000000 }}", "without end|failed"),
        ("{% for i in range(1000000) %}x{% endfor %}", "failed"),
        ("{{ 1 / 0 }}", "ZeroDivisionError"),
        ("x" * 100_001, "too long"),
        ("{% include '/etc/passwd' %}", "failed"),
    ],
)
def test_a_wrong_template_is_refused_with_a_reason(template: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        validate_template(DeliveryTemplate(body=template))


@given(st.text())
def test_whatever_a_template_holds_nothing_but_words_comes_out(text: str) -> None:
    with contextlib.suppress(InputError):
        subject, _ = render_template(DeliveryTemplate(text, text), "q", [ITEM], 0.0)
        assert subject is None or "\n" not in subject


async def test_a_template_that_never_ends_is_stopped() -> None:
    loops = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
    workers = start_renderers()
    try:
        with pytest.raises(InputError, match="takes too long"):
            await render_in_worker(workers, DeliveryTemplate(body=loops), "q", [ITEM], 0.0)
        assert await render_in_worker(workers, DeliveryTemplate("{{ query }}"), "q", [ITEM], 0.0) == ("q", None)
    finally:
        await workers.close()


async def test_mails_use_the_template_of_the_query_or_of_the_server(store: Store) -> None:
    with mail_server(failure_rate=0.0) as (smtp, mails):
        feed, processor = await prepared(store, 'DELIVER TO EMAIL "me@example.org"')
        await store.write(set_delivery_template, None, "from the server", "{{ items[0].title }}!")
        await store.write(set_delivery_template, "LAVA", "from {{ query }}", None)
        await arrive(store, processor, feed, "a", title="lava a")
        deliverer = Deliverer(store, {"email": MailSink(lambda: (smtp, "hw@example.org"))}, lease=1.0, first_wait=0.01)
        try:
            await until_done(store, deliverer)
            (mail,) = mails.taken[-1:]
            assert (mail["Subject"], mail.is_multipart()) == ("from lava", False)
            assert mail.get_payload(decode=True) == b"lava a!\r\n"
            await store.write(set_delivery_template, "lava", None, "{{ nothing }}")
            await arrive(store, processor, feed, "b")
            await deliverer.step()
            (latest, *_) = await store.read(list_deliveries)
            assert latest.state == "failed"
            assert "'nothing' is undefined" in str(latest.message)
        finally:
            await deliverer.close()


@pytest.fixture
def listening() -> Iterator[tuple[int, list[bytes]]]:
    """Run a service on a private address; yield its port and its received data."""
    got: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            try:
                while True:
                    connection, _ = server.accept()
                    with connection:
                        got.append(connection.recv(65536))
                        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            except OSError:
                return

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1], got
        server.shutdown(socket.SHUT_RDWR)


async def test_a_notification_goes_to_a_private_address_only_where_that_is_allowed(
    listening: tuple[int, list[bytes]],
) -> None:
    port, got = listening
    guarded, free = start_notifiers(allow_private=False), start_notifiers(allow_private=True)
    try:
        for host in ("127.0.0.1", "localhost"):
            with pytest.raises(NotAFeed, match="does not go to this address") as refused:
                await send_notification(guarded, f"json://{host}:{port}/", "title", "text")
            assert refused.value.what == "refused"
        with pytest.raises(NotAFeed, match="does not go to this address"):  # UDP has no connection
            await send_notification(guarded, f"rsyslog://127.0.0.1:{port}", "title", "text")
        assert got == []
        await send_notification(free, f"json://127.0.0.1:{port}/", "title", "text")
        async with asyncio.timeout(10):
            while True:
                if got:
                    break
                await asyncio.sleep(0.01)
        assert b"POST" in got[0]
        with pytest.raises(NotAFeed, match="does not know"):
            await send_notification(free, "no such thing", "title", "text")
    finally:
        await guarded.close()
        await free.close()
