"""The deliverer of a node, made from its settings."""

from __future__ import annotations

import time

from headwater.fetch.client import Fetcher
from headwater.publish.deliver import Deliverer, hook_secret
from headwater.publish.sinks import Hook, Mail, Notice
from headwater.settings import Settings
from headwater.store.store import Store


async def delivering(store: Store, fetcher: Fetcher, given: Settings) -> Deliverer:
    secret = await hook_secret(store, time.time())
    sinks = {
        "email": Mail(given.smtp_url, given.mail_from),
        "webhook": Hook(fetcher, secret),
        "notify": Notice(given.allow_private),
    }
    return Deliverer(store, sinks)
