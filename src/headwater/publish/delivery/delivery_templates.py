"""Renders users' templates for subject and text of a message, with Jinja in a sandboxed worker process.

    [{{ query }}] {{ items | length }} new
    {% for item in items %}{{ item.title }} – {{ item.link }} ({{ item.source }}, {{ item.published | date("%d %B") }})
    {% endfor %}

A template sees only its variables. It is rendered in a worker process with limits, because nested loops may never end.
Errors name the line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import jinja2
import orjson
from jinja2.sandbox import ImmutableSandboxedEnvironment

from headwater.errors import InputError, NotAFeed
from headwater.fetch.reading.worker_pool import WorkerPool
from headwater.formats.values.text import html_to_text, to_one_line
from headwater.model import Document, Enclosure, Entry, SafeHtml, Source

MAX_TEMPLATE_LENGTH = 100_000  # characters of a template; its result may have ten times as many
MAX_SUBJECT_LENGTH = 200
WORKER_FUNCTION = "headwater.publish.delivery.delivery_templates:read_message"
FIELDS = "title, link, summary, content, authors, categories, published, updated, source, source_url, language, id"


@dataclass(frozen=True, slots=True)
class DeliveryTemplate:
    """A template for subject, body, or both; a missing part keeps its default."""

    subject: str | None = None
    body: str | None = None


def start_renderers() -> WorkerPool:
    """Return the worker pool that renders templates within limits."""
    return WorkerPool(WORKER_FUNCTION, count=1, cpu_seconds=2, wall_seconds=10.0, memory=512 << 20)


def validate_template(template: DeliveryTemplate) -> DeliveryTemplate:
    """Render the template for a sample item, and return it. Raises InputError with the error and its line."""
    sample = Entry(
        id="urn:x:1",
        link="https://example.org/1",
        title="A title",
        published=0.0,
        updated=0.0,
        authors=("Somebody",),
        summary=SafeHtml("<p>Text</p>"),
        content=SafeHtml("<p>Text</p>"),
        categories=("news",),
        enclosures=(Enclosure("https://example.org/a.mp3"),),
        language="en",
        source=Source("https://example.org/feed", "A feed"),
    )
    render_template(template, "name", [sample], 0.0)
    return template


def render_template(
    template: DeliveryTemplate, query: str, items: Sequence[Entry], at: float
) -> tuple[str | None, str | None]:
    """Return subject and text; None for a part without a template."""
    subject = _render_part("subject", template.subject, query, items, at)
    text = _render_part("text", template.body, query, items, at)
    return (to_one_line(subject, MAX_SUBJECT_LENGTH) if subject else None), text


def _render_part(part: str, source: str | None, query: str, items: Sequence[Entry], at: float) -> str | None:
    if source is None:
        return None
    if len(source) > MAX_TEMPLATE_LENGTH:
        raise InputError(f"The template's {part} is too long: at most {MAX_TEMPLATE_LENGTH:,} characters.")
    environment = ImmutableSandboxedEnvironment(undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters["date"] = lambda moment, format="%Y-%m-%d %H:%M": moment.strftime(format) if moment else ""
    try:
        made = environment.from_string(source).generate(
            query=query, items=[_template_item(item) for item in items], at=datetime.fromtimestamp(at, UTC)
        )
        return _join_parts(made, part)
    except jinja2.TemplateSyntaxError as error:
        raise InputError(f"The template's {part} has an error in line {error.lineno}: {error.message}.") from error
    except jinja2.UndefinedError as error:
        raise InputError(
            f"The template's {part} uses an unknown name: {error.message}. Known are query, at and items; "
            f"each item has {FIELDS}."
        ) from error
    except InputError:
        raise
    except Exception as error:  # anything that a template may do with its values
        raise InputError(f"The template's {part} failed: {type(error).__name__}: {error}") from error


def _join_parts(parts: Any, part: str) -> str:
    made: list[str] = []
    size = 0
    for piece in parts:
        made.append(piece)
        size += len(piece)
        if size > 10 * MAX_TEMPLATE_LENGTH:
            raise InputError(f"The template's {part} makes a message without end.")
    return "".join(made)


def _template_item(item: Entry) -> dict[str, Any]:
    """Return an item as templates see it: plain text, except for `content`."""

    def moment(time: float | None) -> datetime | None:
        return None if time is None else datetime.fromtimestamp(time, UTC)

    return {
        "id": item.id or "",
        "title": item.title or "",
        "link": item.link or "",
        "summary": html_to_text(item.summary or item.content or "", 2_000) or "",
        "content": item.content or item.summary or "",
        "authors": list(item.authors),
        "categories": list(item.categories),
        "published": moment(item.published),
        "updated": moment(item.updated),
        "source": (item.source.title or item.source.url) if item.source else "",
        "source_url": item.source.url if item.source else "",
        "language": item.language or "",
    }


async def render_in_worker(
    workers: WorkerPool, template: DeliveryTemplate, query: str, items: Sequence[Entry], at: float
) -> tuple[str | None, str | None]:
    """Render subject and text in a worker. Raises InputError if the template fails."""
    body = orjson.dumps(
        {"subject": template.subject, "body": template.body, "items": [_pack_entry(entry) for entry in items]}
    )
    try:
        made = await workers.read(body, query, {"at": repr(at)})
    except NotAFeed as error:
        problem = "The template takes too long." if error.what == "hostile" else str(error)
        raise InputError(problem) from error
    return made.title, made.subtitle


def _pack_entry(item: Entry) -> dict[str, Any]:
    source = None if item.source is None else [item.source.url, item.source.title]
    plain = {name: getattr(item, name) for name in Entry.__struct_fields__ if name not in ("source", "enclosures")}
    return plain | {"source": source}


def read_message(body: bytes, query: str, headers: Mapping[str, str]) -> Document[str]:
    """Render a message in the worker: a document with the subject as title and the text as subtitle."""
    given = orjson.loads(body)
    items = [
        Entry(
            **entry
            | {"source": Source(*entry["source"]) if entry["source"] else None, "authors": tuple(entry["authors"])}
        )
        for entry in given["items"]
    ]
    try:
        subject, text = render_template(
            DeliveryTemplate(given["subject"], given["body"]), query, items, float(headers["at"])
        )
    except InputError as error:
        raise NotAFeed(str(error), "template") from error
    return Document("message", title=subject, subtitle=text)
