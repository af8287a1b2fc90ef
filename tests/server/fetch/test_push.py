"""Hubs in Link headers and signatures of pushes are understood."""

from __future__ import annotations

import hashlib
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.fetch.http.headers import add_header_links, has_valid_signature
from headwater.model import Document

OWN = Document("atom", hub=("https://hub.example/own",), self="https://example.org/own")


@pytest.mark.parametrize(
    ("header", "hubs", "own"),
    [
        ([], ("https://hub.example/own",), "https://example.org/own"),
        (['<https://h.example/>; rel="hub"'], ("https://h.example/", "https://hub.example/own"), "https://example.org/own"),
        (["</hub>; rel=hub, </feed>; rel=self"], ("https://e.example/hub", "https://hub.example/own"), "https://e.example/feed"),
        (['<https://e.example/f>; rel="self"'], ("https://hub.example/own",), "https://example.org/own"),
        (['<https://h.example/>; title="x"; rel="self hub"'], ("https://h.example/", "https://hub.example/own"), "https://h.example/"),
        (["<javascript:alert(1)>; rel=hub", "<http://[>; rel=hub"], ("https://hub.example/own",), "https://example.org/own"),
    ],
)  # fmt: skip
def test_link_headers_go_before_the_document(header: list[str], hubs: tuple[str, ...], own: str) -> None:
    found = add_header_links(OWN, header, "https://e.example/x")
    assert (found.hub, found.self) == (hubs, own)


@given(st.text())
def test_no_header_breaks_the_reading(header: str) -> None:
    add_header_links(OWN, [header], "https://e.example/x")


@pytest.mark.parametrize("method", ["sha1", "sha256", "sha384", "sha512"])
def test_a_signature_counts_when_it_is_of_these_bytes_and_this_secret(method: str) -> None:
    good = hmac.new(b"secret", b"body", getattr(hashlib, method)).hexdigest()
    assert has_valid_signature("secret", f"{method}={good}", b"body")
    assert has_valid_signature("secret", f" {method.upper()}={good.upper()}", b"body")
    for other in (f"{method}={good[:-1]}", f"{method}=", good, "", f"md5={good}", f"{method}=é"):
        assert not has_valid_signature("secret", other, b"body")
    assert not has_valid_signature("secret", f"{method}={good}", b"bodx")
    assert not has_valid_signature("other", f"{method}={good}", b"body")
