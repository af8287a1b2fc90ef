"""Measures the CPU time of reading documents: Headwater beside a bare lxml parse, feedparser and fastfeedparser.

A server sees most documents once, so every process reads each document once: caches are as cold as in a refresh. A
round runs the readers in turn, each in a fresh process; times and ratios are medians over the rounds, and a ratio
compares two readers of one round. `python -m bench.read [--small] [--rounds N] [ARCHIVE]`; the archive is a tar of feed
documents.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import os
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

import msgspec
from lxml import etree

from headwater.errors import NotAFeed
from headwater.formats import read, read_to_keep
from headwater.model import Document, Ending, FetchedEntry, Known, Markup, Outcome, Window
from headwater.novelty import judge
from headwater.novelty.item_identity import clean_entry, content_hash, raw_hash
from headwater.novelty.unchanged_items import ItemSources

_ROOT = Path(__file__).resolve().parent.parent
_WARM_UP = b'<rss version="2.0"><channel><title>Warm-up</title><item><title>One</title></item></channel></rss>'
_ROUNDS = 5
_FLOOR, _UNCLEANED, _OURS, _PEER = "lxml", "headwater, cleaning off", "headwater", "feedparser"
_REFRESH = "headwater, 15 % new"
Reader = Callable[[bytes], object]
Seconds = dict[str, list[float]]
_URL = "https://example.org/feed"


def load_documents(archive: Path, small: bool) -> list[bytes]:
    """Return the archive's XML documents without duplicates, or made-up ones on machines without the archive."""
    if not archive.exists():
        return make_documents()
    with tarfile.open(archive) as opened:
        files = [member for member in opened if member.isfile() and not member.name.endswith((".csv", ".json"))]
        bodies = [opened.extractfile(member).read() for member in files]  # type: ignore[union-attr]
    bodies = list(dict.fromkeys(bodies))
    return sorted(bodies, key=len)[:40] if small else bodies


def make_documents() -> list[bytes]:
    """Make ten different documents of twenty items."""
    item = (
        "<item><title>The item number %d</title><link>https://example.org/%d</link><guid>https://example.org/%d</guid>"
    )
    item += "<pubDate>Thu, 01 Jan 2004 19:48:21 GMT</pubDate><description>&lt;p&gt;%s&lt;/p&gt;</description></item>"
    feed = '<rss version="2.0"><channel><title>Feed</title><link>https://example.org/</link>%s</channel></rss>'
    words = "words and more words " * 50
    numbers = [range(first, first + 20) for first in range(0, 200, 20)]
    return [(feed % "".join(item % (n, n, n, words) for n in each)).encode() for each in numbers]


def list_readers() -> list[str]:
    """Name the readers in the order in which a round runs them."""
    names = [_FLOOR, _UNCLEANED, _REFRESH, _OURS, _PEER]
    if importlib.util.find_spec("fastfeedparser") is None:
        print("fastfeedparser is not installed and left out (it is in the bench extra)")
        return names
    return [*names, "fastfeedparser"]


def load_reader(name: str, windows: Path | None) -> Reader:
    """Import a reader by its name; a process imports only the one it measures."""
    if name == _FLOOR:
        return parse_bare
    if name == _UNCLEANED:
        return lambda body: read(body, url=_URL, clean=False)
    if name == _REFRESH:
        known = {} if windows is None else msgspec.json.decode(windows.read_bytes(), type=dict[str, Window])
        return lambda body: refresh_partly(body, known.get(_hash_body(body), ()))
    if name == _OURS:
        return lambda body: read(body, url=_URL)
    parse: Reader = importlib.import_module(name).parse
    return parse


def parse_bare(body: bytes) -> object:
    """Parse a document into a tree and do nothing with it."""
    parser = etree.XMLParser(recover=True, resolve_entities=False, no_network=True, huge_tree=False)
    return etree.fromstring(body, parser)


def make_windows(bodies: Iterable[bytes]) -> dict[str, Window]:
    """Return what a server remembers of each document if 15 % of all items have arrived since."""
    windows: dict[str, Window] = {}
    number = 0
    for body in bodies:
        with suppress(NotAFeed):
            outcome = Outcome(Ending.CHANGED, _URL, _URL, 1.7e9, 0.0, 200, _read_changed(body, ()))
            window = judge(Known(1, _URL), outcome, {}).known.window
            places = range(number, number := number + len(window))
            windows[_hash_body(body)] = tuple(
                one for place, one in zip(places, window, strict=True) if place * 15 % 100 >= 15
            )
    return windows


def refresh_partly(body: bytes, window: Window) -> object:
    """Read a document as a server does that knows 85 % of its items, and clean those that it does not know."""
    document = _read_changed(body, window)
    read_items = [item for item in document.items if not (isinstance(item, FetchedEntry) and item.stored is not None)]
    kept = {stored[16:24] for _, stored in window}
    return [content_hash(clean_entry(item)) for item in read_items if raw_hash(item) not in kept]


def _read_changed(body: bytes, window: Window) -> Document[Markup]:
    sources = ItemSources(body)
    unchanged = sources.leave_out(window)
    if unchanged is not None:
        with suppress(NotAFeed):
            document = unchanged.put_back(read_to_keep(unchanged.body, _URL))
            if document is not None:
                return document
    return sources.note_sources(read_to_keep(body, _URL))


def _hash_body(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def time_reading(reader: Reader, bodies: Iterable[bytes]) -> float:
    """Return the CPU seconds of reading each document once, after a first document that triggers late imports."""
    _read_or_refuse(reader, _WARM_UP)
    start = time.process_time()
    for body in bodies:
        _read_or_refuse(reader, body)
    return time.process_time() - start


def _read_or_refuse(reader: Reader, body: bytes) -> None:
    with suppress(NotAFeed, ValueError, etree.XMLSyntaxError):  # a refusal is an answer too; its time counts
        reader(body)


def time_in_process(name: str, archive: Path, small: bool, windows: Path) -> float:
    """Let a fresh process read all documents with one reader; return its CPU seconds."""
    command = [sys.executable, "-m", "bench.read", "--reader", name, "--windows", str(windows)]
    command += [*(["--small"] if small else []), str(archive)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=_ROOT)
    return float(done.stdout)


def measure(names: list[str], rounds: int, time_reader: Callable[[str], float]) -> Seconds:
    """Time the readers in turn, round after round, so that a change in the machine's speed meets all of them."""
    seconds: Seconds = {name: [] for name in names}
    for _ in range(rounds):
        for name in names:
            seconds[name].append(time_reader(name))
    return seconds


def compare(seconds: Seconds, name: str, other: str) -> float:
    """Return how many times the CPU of `other` a reader takes: the median over the rounds."""
    return statistics.median(ours / theirs for ours, theirs in zip(seconds[name], seconds[other], strict=True))


def main(small: bool = False, archive: Path | None = None, rounds: int | None = None) -> Seconds:
    archive = archive or default_archive()
    bodies = load_documents(archive, small)
    size = sum(map(len, bodies))
    print(f"{len(bodies)} documents, {size / 1e6:.1f} MB ({archive.name if archive.exists() else 'made up'})")
    rounds = rounds or (1 if small else _ROUNDS)
    with tempfile.TemporaryDirectory() as folder:
        windows = Path(folder) / "windows.json"
        windows.write_bytes(msgspec.json.encode(make_windows(bodies)))
        seconds = measure(list_readers(), rounds, lambda name: time_in_process(name, archive, small, windows))
    for name, took in seconds.items():
        print(
            f"{name:26} {statistics.median(took):8.3f} s CPU   {compare(seconds, name, _FLOOR):6.2f} × lxml   "
            f"{compare(seconds, _PEER, name):6.1f} × faster than feedparser"
        )
    print(f"cleaning off: {compare(seconds, _UNCLEANED, _FLOOR):.2f} × a bare lxml parse (aim: at most 2.8)")
    print(f"15 % of the items new: {compare(seconds, _REFRESH, _OURS):.2f} of reading with cleaning")
    print(f"cleaning: {compare(seconds, _PEER, _OURS):.1f} × faster than feedparser (aim: at least 11)")
    return seconds


def default_archive() -> Path:
    """Return the archive of feed documents beside the checkout."""
    return Path(os.environ.get("HEADWATER_SHARED_DATA", _ROOT.parent / "shared" / "data")) / "feeds.tar.xz"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="a few small documents only")
    parser.add_argument("--rounds", type=int, help=f"how often each reader reads all documents (default: {_ROUNDS})")
    parser.add_argument("--reader", help=argparse.SUPPRESS)  # the process of one reader: prints its CPU seconds
    parser.add_argument("--windows", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("archive", nargs="?", type=Path)
    given = parser.parse_args()
    if given.reader:
        warnings.simplefilter("ignore")
        print(time_reading(load_reader(given.reader, given.windows), load_documents(given.archive, given.small)))
    else:
        main(given.small, given.archive, given.rounds)
