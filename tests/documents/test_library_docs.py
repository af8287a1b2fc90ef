"""The examples of docs/library.md run as shown."""

from __future__ import annotations

import doctest

from support import ROOT


def test_the_crawler_of_the_page_runs_as_it_is_shown() -> None:
    page = ROOT / "docs" / "library.md"
    failed, tried = doctest.testfile(str(page), module_relative=False)
    assert tried > 10
    assert failed == 0
