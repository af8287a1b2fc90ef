"""docs/papers.md leads from the papers' words to modules and pages that exist."""

from __future__ import annotations

import importlib
import re
from collections import Counter
from pathlib import Path

import pytest

from headwater.web.app import find_page_groups

PAGE = (Path(__file__).resolve().parent.parent.parent / "docs" / "papers.md").read_text()
HEADS = ("| term", "| short", "| table", "| symbol", "| element")
ROWS = [line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith(HEADS)]
PLACED = [line for line in ROWS if not re.match(r"\| [TPSAU] \| ", line)]
CODE = re.compile(r"`([^`]+)`")
LINK = re.compile(r"\]\(([\w/-]+\.md)(?:#([\w-]+))?\)")


def test_every_word_has_a_place_or_says_that_it_has_none() -> None:
    without = []
    for row in PLACED:
        place = row.rstrip(" |").rpartition(" | ")[2]
        spots = [code for code in CODE.findall(place) if code.startswith(("headwater", "/"))]
        if not (spots or LINK.search(place) or "not drawn" in place or "not measured" in place):
            without.append(row)
    assert without == []
    assert len(PLACED) > 100


ELEMENT = re.compile(r"\| ([TASU]) (\d+) · [^|]+ \| (there|differs)\b[^|]* \|")


def test_every_element_of_the_documents_says_where_it_stands() -> None:
    found = [match for row in ROWS if (match := ELEMENT.match(row))]
    numbers = {letter: [int(each[2]) for each in found if each[1] == letter] for letter in "TASU"}
    assert numbers == {letter: list(range(1, last + 1)) for letter, last in zip("TASU", (68, 21, 27, 20), strict=True)}
    stand = Counter(each[3] for each in found)
    told = f"{stand['there']} are there and {stand['differs']} differ"
    assert f"{len(found)} in all, of which {told}" in " ".join(PAGE.split())


TERMS = """publication stream; publication window; window divergence; stream divergence; saturation; saturation
coefficient; item loss; ideal stream; feed completeness; window freshness; best effort; 2Steps;
topKUtility; refresh threshold; utility monotonicity; single variable; periodic (daily) publication
model; hybrid model; stability indicator; publication model; publication frequency; publication profile;
maximum likelihood; coefficient of variation; publication shapes; publication habits; aggregation
network; aggregation query; subscription graph; node profile; Jaccard; filtered union; Lagrange; uniform
random; RoSeS; PubSubHubbub; SMS; estimation window; inhomogeneous Poisson; square-root rule; Corollary
1; Example 1; posting patterns; retrieval delay; resource constraint; min delay policy; round-robin; MD5;
pending articles; timeliness; TUDCS; posting rate; individual-based history adaptive; virtual item; polls
per item; autodiscovery; update interval"""


@pytest.mark.parametrize("term", [" ".join(term.split()) for term in TERMS.split(";")])
def test_a_term_of_the_papers_is_named(term: str) -> None:
    assert term.lower() in " ".join(PAGE.split()).lower()


NAMES = sorted({code for code in CODE.findall(PAGE) if re.fullmatch(r"headwater(\.\w+)+", code)})


@pytest.mark.parametrize("name", NAMES)
def test_a_module_or_name_exists(name: str) -> None:
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for part in parts[length:]:
            found = getattr(found, part)
        return
    pytest.fail(name)


def test_pages_are_served() -> None:
    served = {route.path for group in find_page_groups() for route in group.routes}
    assert {code for code in CODE.findall(PAGE) if code.startswith("/")} <= served
