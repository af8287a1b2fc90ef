"""The deliverer of a node, made from its settings."""

from __future__ import annotations

import time

from headwater.fetch.client import Fetcher
from headwater.publish.delivery.deliverer import Deliverer, load_webhook_secret
from headwater.publish.delivery.sinks import MailSink, NotificationSink, WebhookSink
from headwater.settings import Settings
from headwater.store.store import Store


async def make_deliverer(store: Store, fetcher: Fetcher, given: Settings) -> Deliverer:
    secret = await load_webhook_secret(store, time.time())
    sinks = {
        "email": MailSink(given.smtp_url, given.mail_from),
        "webhook": WebhookSink(fetcher, secret),
        "notify": NotificationSink(given.allow_private),
    }
    return Deliverer(store, sinks)
