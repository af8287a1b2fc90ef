"""Writes addresses and identities that validators accept: ASCII, and valid by RFC 3986."""

from __future__ import annotations

import re
import uuid
from collections.abc import Sequence
from functools import lru_cache
from html import escape
from urllib.parse import SplitResult, quote, unquote, urlsplit

from headwater.formats.values.text import replace_forbidden

_UNRESERVED = ";/?:@&=+$.-_!~*'(),#%"
_URI = re.compile(rf"[A-Za-z][A-Za-z0-9+.-]*:[A-Za-z0-9{re.escape(_UNRESERVED)}]+")
_PARTS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*://)([^/?#]*)(.*)", re.DOTALL)
_BARE = re.compile(r"https?://[^/?#]+[?#]", re.IGNORECASE)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9]*")
_TAG = re.compile(r"tag:(?:[a-z0-9._-]+@)?[a-z0-9.-]+,\d{4}(?:-\d\d){0,2}:[^#]*(?:#[^#]*)?")  # RFC 4151 §2.1
_URN = re.compile(r"urn:[a-z0-9][a-z0-9-]{1,31}:(?:[a-z0-9()+,.:=@;$_!*'-]|%[0-9a-f]{2})+", re.IGNORECASE)  # RFC 2141
_UUID = re.compile(r"urn:uuid:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


def to_uri(address: str) -> str:
    """Return an address as a URI: characters that are not allowed are percent-encoded.

    >>> to_uri("https://bücher.example/a b?q=ü&n[]=1")
    'https://xn--bcher-kva.example/a%20b?q=%C3%BC&n%5B%5D=1'
    """
    if _URI.fullmatch(address) and not _BARE.match(address):
        return address
    found = _PARTS.fullmatch(address)
    if found is None:
        return _percent_encode(address)
    scheme, host, rest = found.groups()
    if rest[:1] in ("?", "#") and scheme[:4].lower() == "http":
        rest = f"/{rest}"
    return f"{scheme}{_encode_host(host)}{_percent_encode(rest)}"


def is_uri(address: str) -> bool:
    return _URI.fullmatch(address) is not None


def to_iri(identity: str | None, otherwise: str) -> str:
    """Return an identity as the IRI that Atom requires (RFC 4287 §4.2.6): itself, or a UUID derived from it.

    >>> to_iri("tag:example.org,2026:1", "")
    'tag:example.org,2026:1'
    >>> to_iri("tag:example.org:1", "")[:9]
    'urn:uuid:'
    """
    identity = replace_forbidden(identity or otherwise)
    return identity if _is_valid_iri(identity) else f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, identity)}"


def _is_valid_iri(identity: str) -> bool:
    if not _URI.fullmatch(identity):
        return False
    scheme = identity.partition(":")[0].lower()
    if scheme == "tag":
        return _TAG.fullmatch(identity) is not None
    if scheme == "urn":
        return (_UUID if identity[:9].lower() == "urn:uuid:" else _URN).fullmatch(identity) is not None
    if scheme in ("http", "https", "ftp"):
        return identity[len(scheme) :].startswith("://") and identity[len(scheme) + 3 :][:1] not in ("", "/")
    return _SCHEME.fullmatch(scheme) is not None


def _encode_host(host: str) -> str:
    if host.isascii():
        return host if host.startswith("[") else _percent_encode(host)
    try:
        return host.encode("idna").decode()
    except UnicodeError:
        return _percent_encode(host)


def _percent_encode(text: str) -> str:
    return quote(text, safe=_UNRESERVED, errors="replace")


_GLOBAL = ("http://", "https://", "tag:", "urn:")


def build_published_identity(identity: str, feed_url: str) -> str:
    """Return a globally unique identity: an address or URN stays, “123” becomes a UUID of it and the feed's address.

    Items with an unreliable guid are stored under `link:` and their link. An identity with the feed's secret address
    becomes a UUID too.

    >>> build_published_identity("tag:example.org,2026:1", "https://example.org/feed")
    'tag:example.org,2026:1'
    >>> build_published_identity("123", "https://example.org/feed")[:9]
    'urn:uuid:'
    """
    known = identity.removeprefix("link:")
    secret = find_secret_addresses(feed_url)
    if known.startswith(_GLOBAL) and (secret is None or not secret.are_told_in(known)):
        return to_iri(known, known)  # Atom allows no spaces, and all formats must agree
    return f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, f'{remove_token(feed_url)}#{known}')}"


def public_address(url: str, link: str | None) -> str:
    """Return the address by which others may know a feed: the one it is fetched from, unless that may hold a secret;
    then its site.

    The link of the site loses its query, and its path where that may hold a secret too or is the fetch address.

    >>> public_address("https://example.org/feed.xml", "https://example.org/blog/")
    'https://example.org/feed.xml'
    >>> public_address("https://example.org/feed?key=s3cret", "https://example.org/blog/?ref=rss")
    'https://example.org/blog/'
    >>> public_address("https://example.org/users/ada/feed", "https://example.org/users/ada")
    'https://example.org/'
    """
    url = remove_token(url)
    parts = _split_web_address(url)
    if parts is None or not may_hold_secret(url):
        return url
    site = _split_web_address(link) or parts._replace(path="/")
    if site.path == parts.path or _has_secret_path(site.path):
        site = site._replace(path="/")
    host = site.netloc.rpartition("@")[2]
    return f"{site.scheme}://{host}{site.path or '/'}"


def may_hold_secret(url: str) -> bool:
    """Return whether an address may contain a key or a person's name: in its query or fragment, before its host or in
    its path.

    >>> [may_hold_secret(f"https://a.example/{rest}") for rest in ("feed.xml", "feed?key=1", "f/1f0a9c7be24d11ef/rss")]
    [False, True, True]
    """
    parts = _split_web_address(url)
    return parts is not None and (
        bool(parts.query or parts.fragment) or "@" in parts.netloc or _has_secret_path(parts.path)
    )


def _split_web_address(link: str | None) -> SplitResult | None:
    try:
        parts = urlsplit(link or "")
    except ValueError:
        return None
    return parts if parts.scheme in ("http", "https") and parts.netloc else None


_KEY = re.compile(r"(?=[^0-9]*[0-9])[A-Za-z0-9_~+.-]{16,}")
_MAIL = re.compile(r"[^@]+@[^@]+\.[^@]+")
_WORDS = re.compile(r"(?:[A-Za-z]+|[0-9]+)(?:[-_.](?:[A-Za-z]+|[0-9]+))+")
_PERSONAL = re.compile(
    r"~.*|.*[@;=].*|u|users?|accounts?|members?|private|personal|secret|keys?|tokens?|auth", re.IGNORECASE
)


def _has_secret_path(path: str) -> bool:
    """Return whether a part of a path names a person, has parameters, or is a key."""
    return any(_PERSONAL.fullmatch(part) or _is_key(part) for part in unquote(path).split("/"))


def _is_key(part: str) -> bool:
    """Return whether a part of a path is random (long, with digits, and not words with hyphens between), or a mail
    address."""
    return (_KEY.fullmatch(part) and not _WORDS.fullmatch(part)) or _MAIL.fullmatch(part) is not None


# Names of parameters that hold a key or a person's name.
_SECRET_NAME = re.compile(
    r".*(?:key|token|secret|signature|password|hash|auth)|(?:.*[-_.])?(?:sig|pass|pwd|code|sid|user|login|e?mail)",
    re.IGNORECASE,
)
_PARAMETER_START = r"(?:[?&;]|%3F|%26|%3B)"
_KEY_START = r"(?:[/=@]|%2F|%3D|%40)"
_KEY_END = r"(?![\w~+-]|%(?!2[36F]|3B))"
_ADDRESS_END = rf"(?![./](?=\w)){_KEY_END}"
_FORMAT = re.compile(r"\.(?:rss|atom|xml|rdf|json)", re.IGNORECASE)
_ADDRESS_START = re.compile(r"https?://", re.IGNORECASE)


class SecretAddresses:
    """Recognises the addresses that tell the secret of a feed's address: this address, also with more after its query
    or path, and every address with its key."""

    def __init__(self, whole: str, keys: Sequence[str], parameters: Sequence[tuple[str, str]]) -> None:
        starts = [f"{_KEY_START}{_write_forms(key)}" for key in keys]
        starts += [f"{_PARAMETER_START}{re.escape(name)}(?:=|%3D){_write_forms(value)}" for name, value in parameters]
        patterns = [f"{_write_forms(whole)}{_ADDRESS_END}", *(f"{start}{_KEY_END}" for start in starts)]
        self._pattern = re.compile("|".join(patterns), re.IGNORECASE)
        values = (whole, *keys, *(value for _, value in parameters))
        shortest = min(map(len, (whole, *(f"/{key}" for key in keys), *(f"?{'='.join(one)}" for one in parameters))))
        self._long_run = re.compile(rf"[^\s\"'<>\\]{{{shortest},}}")  # of letters in which one of them may stand
        self._needles = {form.lower() for value in values for form in _list_forms(value)}  # found faster than a pattern

    def are_told_in(self, text: str) -> bool:
        folded = text.lower()
        return any(one in folded for one in self._needles) and self._pattern.search(text) is not None

    def replace(self, text: str, site: str) -> str:
        """Return the text with the address of the site in the place of the secret ones."""
        return self._long_run.sub(lambda found: self._replace_in_run(found[0], site), text)

    def _replace_in_run(self, run: str, site: str) -> str:
        if not self.are_told_in(run):
            return run
        start = _ADDRESS_START.search(run)
        before = run[: start.start()] if start else ""
        return site if self.are_told_in(before) else before + site


def _list_forms(value: str) -> set[str]:
    """Return a value as it stands in an address, in markup, and in the parameter of another address."""
    return {value, escape(value), quote(value, safe="")}


def _write_forms(value: str) -> str:
    return f"(?:{'|'.join(re.escape(one) for one in sorted(_list_forms(value)))})"


@lru_cache(10_000)
def find_secret_addresses(url: str) -> SecretAddresses | None:
    """Return what recognises the addresses that tell the secret of a feed's address; None if it holds no secret.

    >>> secret = find_secret_addresses("https://a.example/feed?key=1")
    >>> [secret.are_told_in(f"https://a.example/{rest}") for rest in ("feed?key=1#2", "7.mp3?key=1", "feed?key=12")]
    [True, True, False]
    """
    parts = _split_web_address(url)
    if parts is None or not may_hold_secret(url):
        return None
    host = parts.netloc.rpartition("@")[2]
    given = [(name, value) for name, _, value in (one.partition("=") for one in re.split("[&;]", parts.query)) if value]
    keys = [_FORMAT.sub("", name) for name in parts.path.split("/") if _is_key(unquote(name))]
    keys += [value for _, value in given if _is_key(unquote(value))]
    named = [(name, value) for name, value in given if value not in keys and _SECRET_NAME.fullmatch(unquote(name))]
    return SecretAddresses(f"{host}{parts.path}{'?' if parts.query else ''}{parts.query}", keys, named)


def remove_token(url: str) -> str:
    """Remove the access token from a feed's address before others see it.

    >>> remove_token("https://example.org/feeds/a.atom?page=2&token=s3cret")
    'https://example.org/feeds/a.atom?page=2'
    """
    address, _, query = url.partition("?")
    if "token=" not in query:
        return url
    kept = "&".join(part for part in query.split("&") if not part.startswith("token="))
    return f"{address}?{kept}" if kept else address
