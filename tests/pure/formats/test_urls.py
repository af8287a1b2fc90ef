"""Addresses of the same page are normalised to one form."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.formats.values.links import _NORMAL, _rewrite_url, normalise_url


@pytest.mark.parametrize(
    ("url", "same"),
    [
        ("https://Example.org:443/a", "https://example.org/a"),
        ("http://example.org", "http://example.org/"),
        ("http://example.org./x#y", "http://example.org/x"),
        ("http://example.org/?utm_medium=rss", "http://example.org/"),
        ("http://example.org/?a=%20b&utm_medium=rss", "http://example.org/?a=%20b"),
        ("http://example.org/7?fl&utm_source=rss&q=a,b", "http://example.org/7?fl&q=a,b"),
        ("http://[::1]:8080/", "http://[::1]:8080/"),
        ("http://[bad", "http://[bad"),
        ("tag:example.org,2020:1", "tag:example.org,2020:1"),
    ],
)
def test_addresses_of_the_same_page_have_one_form(url: str, same: str) -> None:
    assert normalise_url(url) == same


def test_a_query_with_nothing_to_remove_is_left_as_it_was_written() -> None:
    assert normalise_url("http://example.org/?q=a%20b&c") == "http://example.org/?q=a%20b&c"


@given(st.text())
def test_normalising_twice_changes_nothing(text: str) -> None:
    once = normalise_url(text)
    assert normalise_url(once) == once or "://" not in text


@given(
    st.sampled_from(
        ["http://example.org", "https://a-b.example.org:8040", "http://127.0.0.1:99999", "https://a..b:443"]
    ),
    st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=8),
)
def test_an_address_in_normal_form_is_as_if_it_were_taken_apart(site: str, path: str) -> None:
    url = f"{site}/{path}"
    assert _rewrite_url(url) == url or not _NORMAL.fullmatch(url)
