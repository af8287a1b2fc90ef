"""Measures the savings of a protocol that sends only new items (Sia & Cho, section 4.6).

On the farm the real client refreshes every feed once a day, three times over: whole documents, unchanged ones as 304,
and deltas (RFC 3229). Of a published feed document there is one state only. Its dates give the feed's rate, its markup
the size of each item. The bytes of a daily retrieval are then expected ones, for postings without memory.
"""

from __future__ import annotations

import asyncio
import math
import re
import tarfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from headwater import formats
from headwater.arrays import Floats
from headwater.errors import HeadwaterError, InputError
from headwater.farm.farm import Farm
from headwater.farm.farm_history import answer_in_process
from headwater.fetch.client import Fetcher
from headwater.lab.experiment import Check, ExperimentResult, Row
from headwater.model import Validators
from headwater.times import DAY

WINDOW = 12  # items that a document shows on average, in the paper
PAPER = {"items shown": 12.0, "bytes of an item": 560.0, "new after one day": 4.3, "saving": 7.7 / 12}
FEEDS, DAYS = 200, 7
SEEDS = (1, 2, 3)
RARE = 1e-6  # chances below this do not change a figure
STARTED = 1_790_000_000.0  # any moment; the farm's content depends on it
PROTOCOLS = ("whole documents", "304 if unchanged", "304 or new items")
_ITEM = re.compile(rb"<(?:\w+:)?(item|entry)[\s>].*?</(?:\w+:)?\1\s*>", re.DOTALL | re.IGNORECASE)


async def measure_farm(seed: int, feeds: int = FEEDS, days: int = DAYS) -> dict[str, Floats]:
    """Refresh all feeds of a farm daily by each protocol, and return the bytes received of each feed."""
    found = {}
    for protocol in PROTOCOLS:
        farm = Farm(feeds, seed, window=WINDOW, clock=lambda: STARTED, started=STARTED, deltas=True)
        bytes_of = np.zeros(feeds)
        async with Fetcher(allow_private=True, gap=0.0, proxy=partial(answer_in_process, farm)) as fetcher:
            known: list[Validators | None] = [None] * feeds
            for day in range(days + 1):
                for feed in range(feeds):
                    await asyncio.sleep(0)  # answers in this process never wait, and Ctrl-C must get through
                    asked = None if protocol == PROTOCOLS[0] else known[feed]
                    outcome = await fetcher.fetch(farm.url(feed), asked, delta=protocol == PROTOCOLS[2])
                    known[feed] = outcome.validators or known[feed]
                    bytes_of[feed] += outcome.bytes if day else 0  # the first retrieval is whole in any case
                farm.advance(DAY)
        found[protocol] = bytes_of
    return found


def count_farm_items(seed: int, feeds: int = FEEDS, days: int = DAYS) -> tuple[float, float]:
    """Return how many items a farm's document shows, and how many of them are new after a day, on average."""
    farm = Farm(feeds, seed, window=WINDOW, clock=lambda: STARTED, started=STARTED)
    shown, fresh = [], []
    for _ in range(days):
        before = [{posting.number for posting in farm.get_feed(feed).current_state().postings} for feed in range(feeds)]
        farm.advance(DAY)
        for feed in range(feeds):
            now = {posting.number for posting in farm.get_feed(feed).current_state().postings}
            shown.append(len(now))
            fresh.append(len(now - before[feed]))
    return float(np.mean(shown)), float(np.mean(fresh))


@dataclass(frozen=True, slots=True)
class DocumentSaving:
    """A document's items and their mean size, those expected after a day, and expected bytes by protocol."""

    items: int
    item_bytes: float
    new: float
    plain: tuple[float, ...]
    compressed: tuple[float, ...]


def measure_document(body: bytes) -> DocumentSaving | None:
    """Return the daily cost of a document, or None if it has fewer than two dated items or items cannot be told apart.

    >>> item = b"<item><title>%d</title><pubDate>%d Mar 2026 00:00:00 GMT</pubDate></item>"
    >>> items = b"".join(item % (day, day) for day in (5, 3, 1))
    >>> found = measure_document(b"<rss version='2.0'><channel>" + items + b"</channel></rss>")
    >>> found.items, round(found.new, 2), round(found.plain[2] / found.plain[0], 2)
    (3, 0.5, 0.2)
    """
    try:
        entries = formats.read_to_keep(body).items
    except HeadwaterError:
        return None
    spans = [found.span() for found in _ITEM.finditer(body)]
    dates = sorted(entry.published for entry in entries if entry.published is not None)
    if len(spans) != len(entries) or len(dates) < 2 or dates[-1] <= dates[0]:
        return None
    rate = (len(dates) - 1) / (dates[-1] - dates[0]) * DAY
    chances = _poisson(rate, len(spans))
    return DocumentSaving(
        len(spans),
        float(np.mean([end - start for start, end in spans])),
        sum(number * chance for number, chance in enumerate(chances)),
        _expect_bytes(body, spans, chances, compress=False),
        _expect_bytes(body, spans, chances, compress=True),
    )


def _expect_bytes(
    body: bytes, spans: Sequence[tuple[int, int]], chances: Sequence[float], *, compress: bool
) -> tuple[float, ...]:
    """Return the bytes a day of a whole document, of one unless nothing is new, and of its new items."""
    pack = _pack if compress else bytes
    whole = float(len(pack(body)))
    delta = sum(
        chance * len(pack(_keep_items(body, spans, number)))
        for number, chance in enumerate(chances)
        if number and chance > RARE
    )
    return whole, (1 - chances[0]) * whole, delta


def _keep_items(body: bytes, spans: Sequence[tuple[int, int]], number: int) -> bytes:
    """Return the document with its first items only."""
    if number == len(spans):
        return body
    return body[: spans[number][0]] + body[spans[-1][1] :]


def _poisson(rate: float, most: int) -> list[float]:
    """Return the chances of 0 … `most` new items in a day; more than `most` count as `most`."""
    chances = [math.exp(-rate + number * math.log(rate) - math.lgamma(number + 1)) for number in range(most)]
    return [*chances, max(1.0 - sum(chances), 0.0)]


def _pack(body: bytes) -> bytes:
    return zlib.compress(body, 6)


def read_documents(place: Path) -> Iterator[bytes]:
    """Yield the files of a folder or of a tar archive."""
    if place.is_dir():
        yield from (file.read_bytes() for file in sorted(place.iterdir()) if file.is_file())
        return
    try:
        with tarfile.open(place) as archive:
            for member in sorted(archive.getmembers(), key=lambda each: each.name):
                if (file := archive.extractfile(member)) is not None:
                    yield file.read()
    except (OSError, tarfile.TarError) as error:
        raise InputError(f"Cannot read feed documents from {place}: {error}.") from error


async def measure_saving(documents: Path | None, seeds: Sequence[int] = SEEDS) -> ExperimentResult:
    """Measure the farm and, if there are any, published documents; the paper's figures stand beside them."""
    traffic = [await measure_farm(seed) for seed in seeds]
    counts = [count_farm_items(seed) for seed in seeds]
    shown, new = (float(np.mean([count[place] for count in counts])) for place in (0, 1))
    total = {name: float(np.mean([each[name].sum() for each in traffic])) for name in PROTOCOLS}
    rows: list[Row] = [
        {"where": "farm", "protocol": name, "bytes": total[name], "saving": 1 - total[name] / total[PROTOCOLS[0]]}
        for name in PROTOCOLS
    ]
    settings = {"feeds": FEEDS, "days": DAYS, "window": WINDOW, "seeds": len(seeds)}
    figures = {"items shown": shown, "new after one day": new, "saving of items": 1 - new / shown}
    checks = [_check_saving(f"{FEEDS} feeds of the farm", figures | {"saving of bytes": rows[2]["saving"]})]
    result = ExperimentResult("deltas", settings, rows, checks)
    if documents is not None:
        bodies = list(read_documents(documents))
        savings = []
        for body in bodies:
            await asyncio.sleep(0)  # lets Ctrl-C through
            if (saving := measure_document(body)) is not None:
                savings.append(saving)
        _add_documents(result, savings, len(bodies))
        result.settings["documents"] = documents.name
    return result


def describe_deltas(documents: Path | None) -> str:
    """Return the command that repeats a measurement; the documents are named without their folder."""
    return "headwater lab deltas" + (f" --documents {documents.name}" if documents is not None else "")


def _add_documents(result: ExperimentResult, found: Sequence[DocumentSaving], given: int) -> None:
    if not found:
        raise InputError("None of the documents has two dated items.")
    for name in ("plain", "compressed"):
        whole = float(np.mean([getattr(each, name)[0] for each in found]))
        for place, protocol in enumerate(PROTOCOLS):
            mean = float(np.mean([getattr(each, name)[place] for each in found]))
            row = {"where": f"published documents, {name}", "protocol": protocol, "bytes": mean}
            result.rows.append(row | {"saving": 1 - mean / whole})
    shown, new = (float(np.mean([getattr(each, name) for each in found])) for name in ("items", "new"))
    size = float(np.average([each.item_bytes for each in found], weights=[each.items for each in found]))
    deltas = [row for row in result.rows if row["protocol"] == PROTOCOLS[2]]
    bytes_saved = next(row["saving"] for row in deltas if row["where"].endswith("plain"))
    figures = {"items shown": shown, "bytes of an item": size, "new after one day": new}
    figures |= {"saving of items": 1 - new / shown, "saving of bytes": bytes_saved}
    result.checks.append(_check_saving("published documents", figures))
    result.notes.append(
        f"{len(found)} of {given} files are documents with two dated items or more whose markup separates the items."
    )


def _check_saving(where: str, figures: dict[str, float]) -> Check:
    return Check(
        f"{where}: a protocol that sends only new postings saves most of the bytes of a daily retrieval",
        figures["saving of bytes"] >= 0.5,
        "at least half of the bytes of whole documents (paper: 7.7 of 12 postings, 64 %)",
        figures | {f"paper's {name}": value for name, value in PAPER.items() if name in figures or name == "saving"},
        "Sia & Cho, 4.6",
    )
