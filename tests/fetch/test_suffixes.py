"""Registered domains are those of the public suffix list, found by a walk instead of its own search."""

from __future__ import annotations

import re
import tarfile
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from publicsuffixlist import PublicSuffixList

from headwater.fetch.hosts import registered_domain
from headwater.fetch.suffixes import private_suffix, rules

LIBRARY = PublicSuffixList()
ENDINGS = sorted(rules())
GOLDEN = {
    "example.org": "example.org",
    "feeds.news.example.co.uk": "example.co.uk",
    "co.uk": "co.uk",
    "blog.github.io": "blog.github.io",
    "a.blog.github.io": "blog.github.io",
    "www.city.kobe.jp": "city.kobe.jp",
    "a.b.c.kobe.jp": "b.c.kobe.jp",
    "kobe.jp": "kobe.jp",
    "www.ck": "www.ck",
    "a.www.ck": "www.ck",
    "a.b.ck": "a.b.ck",
    "xn--mnchen-3ya.de": "xn--mnchen-3ya.de",
    "a.b.xn--fiqs8s": "b.xn--fiqs8s",
    "a.b.中国": "b.中国",
    "a.unknown-ending": "a.unknown-ending",
    "localhost": "localhost",
    "": "",
    "a..org": "a..org",
    ".org": ".org",
}
_labels = st.text("abz0-é中", min_size=0, max_size=3)


def _by_library(name: str) -> str:
    return LIBRARY.privatesuffix(name) or name


@pytest.mark.parametrize(("name", "domain"), GOLDEN.items())
def test_a_name_has_its_registered_domain(name: str, domain: str) -> None:
    assert private_suffix(name) == domain == _by_library(name)


@given(st.lists(_labels, max_size=4), st.sampled_from(ENDINGS))
@example([], "ck")
@example(["www"], "ck")
@example(["a", "city"], "kobe.jp")
def test_every_name_under_every_rule_has_the_domain_that_the_list_says(labels: list[str], ending: str) -> None:
    name = ".".join([*labels, ending]).rstrip(".").lower()
    assert private_suffix(name) == _by_library(name)


def test_every_rule_itself_and_names_below_it_have_the_domain_that_the_list_says() -> None:
    names = [f"{before}{ending}" for ending in ENDINGS for before in ("", "a.", "b.a.", "c.b.a.")]
    assert [private_suffix(name) for name in names] == [_by_library(name) for name in names]


def test_all_hosts_of_real_lists_have_the_domain_that_the_list_says(shared_data: Path) -> None:
    hosts: set[str] = set()
    with tarfile.open(shared_data / "opml.tar.xz") as archive:
        for member in archive:
            file = archive.extractfile(member) if member.isfile() else None
            if file is not None:
                hosts |= {one.decode() for one in re.findall(rb"//([A-Za-z0-9.-]+)", file.read())}
    assert len(hosts) > 1000
    wrong = {
        host for host in hosts if private_suffix(host.rstrip(".").lower()) != _by_library(host.rstrip(".").lower())
    }
    assert not wrong
    assert registered_domain("WWW.Example.CO.UK.") == "example.co.uk"
