"""Imports an OPML list as a background job, for the pages and the API."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from headwater.formats.opml import read_opml
from headwater.store.content.feeds import NewFeed, sort_added
from headwater.store.readers.accounts import find_user
from headwater.store.readers.subscriptions import add_and_subscribe
from headwater.web.shared.background_jobs import BackgroundJob
from headwater.web.site import Site

SHOWN_REASONS = 100  # refused addresses that the result names


@dataclass(frozen=True, slots=True)
class ImportResult:
    """The result of an import: how many feeds are new, known, duplicate or refused, and the reasons of the latter."""

    added: int
    already_there: int
    duplicates: int
    refused: int
    reasons: tuple[str, ...]
    problems: tuple[str, ...]


async def start_import(site: Site, body: bytes, user_id: int, tags: tuple[str, ...] = ()) -> BackgroundJob:
    """Parse an OPML list and start a job that subscribes a user to its feeds.

    Raise InputError if it is not OPML, and RequestRefused if the user may not add so many feeds.
    """
    lists = await asyncio.to_thread(read_opml, body)  # a list of 36,515 feeds takes a second or two
    user = await site.store.read(find_user, user_id)
    await site.reader_quota.check_additions(user, [one.url for one in lists.feeds])
    new = [NewFeed(one.url, one.title, link=one.link, tags=(*one.tags, *tags)) for one in lists.feeds]

    async def work(job: BackgroundJob) -> ImportResult:
        added = await site.store.write(
            add_and_subscribe,
            new,
            site.clock(),
            progress=job.report_progress,
            subscriber=user_id,
            allowed=site.reader_quota.limit_for(user),
        )
        created, before, twice = sort_added(added)
        return ImportResult(
            added=len(created),
            already_there=len(before),
            duplicates=len(lists.duplicates) + len(twice),
            refused=len(lists.refused),
            reasons=tuple(f"{url[:200]}: {reason}" for url, reason in lists.refused[:SHOWN_REASONS]),
            problems=lists.problems,
        )

    return site.background_jobs.start("Importing subscriptions", work, page="import", unit="feeds", total=len(new))
