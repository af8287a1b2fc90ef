"""docs/decisions/README.md lists every decision record with its status and date."""

from __future__ import annotations

import re
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent.parent / "docs" / "decisions"
INDEX = FOLDER / "README.md"
RECORD = re.compile(r"# (\d{4}): (.+)\n\nStatus: (accepted|superseded by \d{4}) · (\d{4}-\d\d-\d\d)\n")
HEAD = """# Decisions

Each record says on half a page what was decided and why. A decision that no longer holds is deleted, or names its
successor.

| number | decision | status | date |
|---|---|---|---|
"""


def list_records() -> list[tuple[Path, re.Match[str] | None]]:
    paths = sorted(path for path in FOLDER.glob("*.md") if path != INDEX)
    return [(path, RECORD.match(path.read_text())) for path in paths]


def format_index() -> str:
    rows = [(path.name, found) for path, found in list_records() if found is not None]
    return HEAD + "".join(f"| {one[1]} | [{one[2]}]({name}) | {one[3]} | {one[4]} |\n" for name, one in rows)


def test_every_record_has_a_number_a_title_a_status_and_a_date() -> None:
    assert [path.name for path, found in list_records() if found is None or not path.name.startswith(found[1])] == []


def test_a_number_is_used_once() -> None:
    numbers = [found[1] for _, found in list_records() if found is not None]
    assert len(numbers) == len(set(numbers))


def test_the_index_lists_every_record() -> None:
    assert INDEX.read_text() == format_index(), "run python tests/documents/test_decision_index.py"


if __name__ == "__main__":
    INDEX.write_text(format_index())
