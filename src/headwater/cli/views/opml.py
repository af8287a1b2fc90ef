"""Shows the result of an import on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.markup import escape

from headwater.cli.console.output import format_count, out
from headwater.store.content.feeds import AddedFeed, sort_added

if TYPE_CHECKING:
    from headwater.formats.opml import FeedList

MAX_LINES = 10  # of one kind in a report


def import_as_json(result: tuple[FeedList, list[AddedFeed]]) -> dict[str, object]:
    lists, added = result
    created, before, repeated = sort_added(added)
    return {
        "added": len(created),
        "already_there": [added[place].feed.url for place in before],
        "duplicates": [*lists.duplicates, *(lists.feeds[place].url for place in repeated)],
        "refused": [{"url": url, "reason": reason} for url, reason in lists.refused],
        "problems": lists.problems,
    }


def render_import(result: tuple[FeedList, list[AddedFeed]]) -> None:
    lists, added = result
    created, before, repeated = sort_added(added)
    duplicates = [*lists.duplicates, *(lists.feeds[place].url for place in repeated)]
    refused = [f"{url}: {reason}" for url, reason in lists.refused]
    out.print(
        f"{format_count(len(created), 'feed')} added, {len(before):,} {'was' if len(before) == 1 else 'were'} there "
        "already."
    )
    for heading, lines in (
        (f"{format_count(len(duplicates), 'duplicate')} in the list:", duplicates),
        (f"{len(refused):,} {'was' if len(refused) == 1 else 'were'} refused:", refused),
        (f"{format_count(len(lists.problems), 'note')}:", lists.problems),
    ):
        if lines:
            out.print(heading)
            for line in lines[:MAX_LINES]:
                out.print(f"  {escape(line)}")
            if len(lines) > MAX_LINES:
                out.print(f"  … and {len(lines) - MAX_LINES:,} more (--json shows all)")
