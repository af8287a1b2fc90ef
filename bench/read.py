"""How fast documents are read: beside a bare lxml parse of the same bytes, feedparser and fastfeedparser.

CPU time; every document is read several times by everybody in turn and the fastest of each counts, so that what else
the machine does falls out. `python -m bench.read [--small] [ARCHIVE]`; the archive is a tar of feed documents.
"""

from __future__ import annotations

import argparse
import os
import tarfile
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from lxml import etree

from headwater.errors import NotAFeed
from headwater.formats import read

_ROOT = Path(__file__).resolve().parent.parent
Reader = Callable[[bytes], object]


def documents(archive: Path, small: bool) -> list[bytes]:
    """The XML documents of an archive, in memory."""
    with tarfile.open(archive) as opened:
        files = [member for member in opened if member.isfile() and not member.name.endswith((".csv", ".json"))]
        bodies = [opened.extractfile(member).read() for member in files]  # type: ignore[union-attr]
    return sorted(bodies, key=len)[:40] if small else bodies


def made_up() -> list[bytes]:
    """Documents for machines without the archive."""
    item = "<item><title>Item %d</title><link>https://example.org/%d</link><guid>https://example.org/%d</guid>"
    item += "<pubDate>Thu, 01 Jan 2004 19:48:21 GMT</pubDate><description>&lt;p&gt;%s&lt;/p&gt;</description></item>"
    feed = '<rss version="2.0"><channel><title>Feed</title><link>https://example.org/</link>%s</channel></rss>'
    return [
        (feed % "".join(item % (number, number, number, "words and more words " * 50) for number in range(20))).encode()
        for _ in range(10)
    ]


def bare(body: bytes) -> object:
    parser = etree.XMLParser(recover=True, resolve_entities=False, no_network=True, huge_tree=False)
    return etree.fromstring(body, parser)


def ours(body: bytes) -> object:
    return read(body, url="https://example.org/feed")


def ours_uncleaned(body: bytes) -> object:
    return read(body, url="https://example.org/feed", clean=False)


def readers() -> dict[str, tuple[Reader, int]]:
    """Name → reader and how often it reads each document (the slow one less often)."""
    import feedparser

    found: dict[str, tuple[Reader, int]] = {
        "lxml": (bare, 7),
        "headwater, cleaning off": (ours_uncleaned, 7),
        "headwater": (ours, 7),
        "feedparser": (feedparser.parse, 3),
    }
    try:
        import fastfeedparser
    except ImportError:
        print("fastfeedparser is not installed and left out (it is in the bench extra)")
    else:
        found["fastfeedparser"] = (fastfeedparser.parse, 3)
    return found


def measure(bodies: list[bytes]) -> dict[str, float]:
    """CPU seconds of each reader over all documents: the sum of its fastest readings."""
    running = readers()
    seconds = dict.fromkeys(running, 0.0)
    for body in bodies:
        fastest = dict.fromkeys(running, float("inf"))
        for turn in range(max(times for _, times in running.values())):
            for name, (reader, times) in running.items():
                if turn < times:
                    fastest[name] = min(fastest[name], _cpu(reader, body))
        for name, took in fastest.items():
            seconds[name] += took
    return seconds


def _cpu(reader: Reader, body: bytes) -> float:
    start = time.thread_time()
    with suppress(NotAFeed, ValueError, etree.XMLSyntaxError):  # refusing is an answer too; the time counts
        reader(body)
    return time.thread_time() - start


def main(small: bool = False, archive: Path | None = None) -> None:
    warnings.simplefilter("ignore")
    shared = Path(os.environ.get("HEADWATER_SHARED_DATA", _ROOT.parent / "shared" / "data")) / "feeds.tar.xz"
    archive = archive or shared
    bodies = documents(archive, small) if archive.exists() else made_up()
    size = sum(map(len, bodies))
    print(f"{len(bodies)} documents, {size / 1e6:.1f} MB ({archive.name if archive.exists() else 'made up'})")
    seconds = measure(bodies)
    floor, peer = seconds["lxml"], seconds["feedparser"]
    for name, took in seconds.items():
        print(f"{name:26} {took:8.3f} s CPU   {took / floor:6.2f} × lxml   {peer / took:6.1f} × faster than feedparser")
    print(f"cleaning off: {seconds['headwater, cleaning off'] / floor:.2f} × a bare lxml parse (aim: at most 2.5)")
    print(f"cleaning: {peer / seconds['headwater']:.1f} × faster than feedparser (aim: at least 20)")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="a few small documents only")
    parser.add_argument("archive", nargs="?", type=Path)
    given = parser.parse_args()
    main(given.small, given.archive)
