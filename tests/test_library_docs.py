"""What docs/library.md shows is what the library does."""

from __future__ import annotations

import doctest
from pathlib import Path


def test_the_crawler_of_the_page_runs_as_it_is_shown() -> None:
    page = Path(__file__).resolve().parent.parent / "docs" / "library.md"
    failed, tried = doctest.testfile(str(page), module_relative=False)
    assert tried > 10
    assert failed == 0
