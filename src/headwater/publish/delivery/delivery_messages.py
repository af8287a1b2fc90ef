"""Writes mails, web hook bodies and notifications.

A repeated message must be identical, so nothing in it depends on the time of sending.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import formatdate, parseaddr
from html import escape

import orjson

from headwater.errors import InputError
from headwater.formats.values.links import is_web_url
from headwater.formats.values.text import html_to_text, to_one_line, truncate_utf8
from headwater.formats.write.json_feed import build_json_item
from headwater.model import Entry

SUMMARY_LETTERS = 600  # characters of an item's text in a mail
_SUBJECT_LETTERS = 200


def write_subject(query: str, items: Sequence[Entry]) -> str:
    """Return a subject on one line, so that a title cannot inject headers."""
    if len(items) == 1:
        return to_one_line(f"[{query}] {items[0].title or items[0].link or 'new item'}", _SUBJECT_LETTERS) or query
    return to_one_line(f"[{query}] {len(items)} new items", _SUBJECT_LETTERS) or query


def write_mail(
    key: str,
    query: str,
    items: Sequence[Entry],
    *,
    sender: str,
    to: str,
    at: float,
    own_subject: str | None = None,
    own_text: str | None = None,
) -> EmailMessage:
    """Write a mail as text and HTML, or as text only if `own_text` is given.

    The Message-ID contains the key, so that a mail server can recognise a repeated mail.
    """
    domain = parseaddr(sender)[1].partition("@")[2] or "localhost"
    message = EmailMessage(policy=SMTP)
    try:
        message["Subject"] = own_subject or write_subject(query, items)
        message["From"] = sender
        message["To"] = to
        message["Message-ID"] = f"<{key}@{domain}>"
        message["Date"] = formatdate(at)
    except (ValueError, IndexError) as error:
        raise InputError(f"Cannot write a mail from “{sender}” to “{to}”: invalid address.") from error
    message["Auto-Submitted"] = "auto-generated"  # RFC 3834: prevents automatic replies
    if own_text is not None:
        message.set_content(own_text if own_text.endswith("\n") else own_text + "\n")
        return message
    message.set_content("\n\n".join(_mail_text(item) for item in items) + "\n")
    message.add_alternative("".join(_mail_html(item) for item in items), subtype="html")
    return message


def _mail_text(item: Entry) -> str:
    parts = (item.title, item.link, _item_summary(item))
    return "\n".join(part for part in parts if part)


def _mail_html(item: Entry) -> str:
    name = escape(item.title or item.link or "Untitled")
    linked = f'<a href="{escape(item.link)}">{name}</a>' if item.link and is_web_url(item.link) else name
    source = f"<p>{escape(item.source.title or item.source.url)}</p>" if item.source else ""
    return f"<h3>{linked}</h3>{source}<p>{escape(_item_summary(item))}</p>\n"


def _item_summary(item: Entry) -> str:
    return truncate_utf8(html_to_text(item.summary or item.content or "", 4 * SUMMARY_LETTERS) or "", SUMMARY_LETTERS)


def write_webhook_body(key: str, query: str, items: Sequence[Entry]) -> bytes:
    """Return JSON with the key, the query feed, and its items as in JSON Feed."""
    return orjson.dumps({"key": key, "query": query, "items": [build_json_item(item) for item in items]})


def sign_body(secret: bytes, body: bytes) -> str:
    """Sign a body with HMAC-SHA256, so that the receiver can verify the sender.

    >>> sign_body(b"secret", b"{}")[:15]
    'sha256=77325902'
    """
    return "sha256=" + hmac.new(secret, body, hashlib.sha256).hexdigest()


def write_notification(query: str, items: Sequence[Entry]) -> tuple[str, str]:
    """Return title and text of a notification, short enough for a chat."""
    lines = [" ".join(part for part in (item.title, item.link) if part) for item in items[:10]]
    if len(items) > 10:
        lines.append(f"and {len(items) - 10} more")
    return write_subject(query, items), "\n".join(lines)
