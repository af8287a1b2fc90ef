"""Shows a parsed feed document on a terminal."""

from __future__ import annotations

from collections import Counter

from rich.markup import escape
from rich.table import Table
from rich.text import Text

from headwater.cli.console.output import format_count, format_local_time, out
from headwater.formats.comparison import ReaderComparison
from headwater.formats.values.text import html_to_text
from headwater.model import Document, Entry
from headwater.times import format_instant

_SHOWN = 300  # characters of a text that is compared


def render_reading(result: Document | ReaderComparison) -> None:
    if isinstance(result, ReaderComparison):
        render_comparison(result)
    else:
        render_document(result)


def render_comparison(result: ReaderComparison) -> None:
    out.print(f"[bold]Headwater[/bold] reads {format_count(result.items, 'item')} ({escape(result.format)}).")
    for reader in result.readers:
        if reader.problem is not None:
            out.print(f"\n[bold]{reader.name}[/bold] reads nothing: {escape(reader.problem)}")
            continue
        count = format_count(len(reader.differences), "difference")
        fields = Counter(f"in {one.field}" if one.field else "of a whole item" for one in reader.differences)
        where = ", ".join(f"{number} {field}" for field, number in fields.most_common())
        reads = f"[bold]{reader.name}[/bold] reads {format_count(reader.items, 'item')}"
        out.print(f"\n{reads}; {count}{f' ({where})' if where else ''}.")
        last = 0
        for one in reader.differences:
            if one.item != last or one.field is None:
                out.print(Text.assemble(f"\n{one.item}. ", (one.title or "(no title)", "bold")))
            last = one.item
            if one.field is None:
                name, address = ("Headwater", one.ours) if one.theirs is None else (reader.name, one.theirs)
                out.print(Text(f"  only {name} reads this item: {address}"))
            else:
                out.print(Text(f"  {one.field}", style="dim"))
                ours, theirs = _write_value(one.ours), _write_value(one.theirs)
                start = _find_difference(ours, theirs) if max(len(ours), len(theirs)) > _SHOWN else 0
                out.print(Text(f"    Headwater: {_shorten(ours, start)}"))
                out.print(Text(f"    {reader.name}: {_shorten(theirs, start)}"))


def _write_value(value: object) -> str:
    if isinstance(value, int):  # the only numbers compared are times
        return format_instant(value)
    return "nothing" if value in (None, [], "") else ", ".join(value) if isinstance(value, list) else str(value)


def _find_difference(ours: str, theirs: str) -> int:
    """Return a place some words before the first difference."""
    pairs = enumerate(zip(ours, theirs, strict=False))
    same = next((place for place, (one, other) in pairs if one != other), min(len(ours), len(theirs)))
    return max(same - 60, 0)


def _shorten(text: str, start: int) -> str:
    shown = text[start : start + _SHOWN]
    return f"{'…' if start else ''}{shown}{'…' if len(text) > start + _SHOWN else ''}"


def render_document(document: Document) -> None:
    out.print(f"[bold]{escape(document.title or 'Untitled')}[/bold]  [dim]{escape(document.format)}[/dim]")
    facts = Table.grid(padding=(0, 2))
    hints = document.hints
    rows = (
        ("subtitle", html_to_text(document.subtitle, 300) if document.subtitle else None),
        ("link", document.link),
        ("self", document.self),
        ("hub", ", ".join(document.hub)),
        ("next", document.next),
        ("id", document.id),
        ("language", document.language),
        ("updated", _format_time(document.updated)),
        ("authors", ", ".join(document.authors)),
        ("categories", ", ".join(document.categories)),
        ("generator", document.generator),
        ("icon", document.icon),
        ("ttl", f"{hints.ttl / 60:g} minutes" if hints.ttl is not None else None),
        ("skip", ", ".join((*(f"{hour} h" for hour in hints.skip_hours), *hints.skip_days))),
        ("updates", " × ".join(str(part) for part in (hints.update_frequency, hints.update_period) if part)),
        ("encoding", document.encoding),
        ("recovered", "; ".join(document.problems)),
    )
    for name, value in rows:
        if value:
            facts.add_row(Text(name, style="dim"), Text(value))
    out.print(facts)
    out.print(f"\n[bold]{format_count(len(document.items), 'item')}[/bold]")
    for entry in document.items:
        _print_entry(entry)


def _print_entry(entry: Entry) -> None:
    out.print(Text.assemble("\n• ", (entry.title or "(no title)", "bold")))
    notes = (
        " · ".join(filter(None, (_format_time(entry.published), ", ".join(entry.authors), entry.language))),
        entry.link,
        f"id {entry.id}" if entry.id and entry.id != entry.link else None,
        ", ".join(f"#{name}" for name in entry.categories),
        *(f"{one.type or 'file'} {one.url}" for one in entry.enclosures),
    )
    for note in notes:
        if note:
            out.print(Text(f"  {note}", style="dim"))
    text = html_to_text(entry.summary or entry.content or "", 2_000)
    if text:
        out.print(Text(f"  {text[:280]}{'…' if len(text) > 280 else ''}"))


def _format_time(seconds: float | None) -> str | None:
    return None if seconds is None else format_local_time(seconds)
