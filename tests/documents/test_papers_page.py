"""docs/papers.md leads from the papers' words to modules and pages that exist."""

from __future__ import annotations

import importlib
import re
from collections import Counter
from pathlib import Path

import pytest

from headwater.web.app import find_page_groups

PAGE = (Path(__file__).resolve().parent.parent.parent / "docs" / "papers.md").read_text()
HEADS = ("| term", "| short", "| table", "| symbol", "| element", "| number")
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


# Everything that the documents number, found in their texts; figures and tables by their captions.
NUMBERED = {
    "T": """Def. 1.4.1 1.4.2 1.4.3 1.4.4 1.4.5 1.6.1 2.1.1 2.1.2 2.1.3 2.1.4 2.1.5 2.1.6 2.1.7 2.2.1 2.2.2 2.3.1 2.3.2
        2.3.3; Problem 4.1.1; eq. 4.1 4.2 4.3 4.4 4.5 7.1 7.2 7.3 7.4 7.5; alg. 4.1 4.2 6.1 7.1; Table 4.1;
        Fig. 1 1.1 1.2 1.3 1.4 1.5 1.6 2.1 2.2 2.3 4.1 4.2 4.3 4.4 6.1 6.2 6.3 6.4 6.5 6.6 6.7 7.1 7.2 7.3 7.4 7.5 7.6
        7.7 7.8 7.9 7.10""",
    "P": "eq. 1 2; alg. 1; Table 1 2; Fig. 1 2a 2b",
    "S": """Def. 1 2; Problem 1; Lemma 1; Corollary 1; Theorem 1 2 3; eq. 1 2; Example 1 2; Table 1 2;
        Fig. 1 2 3 4 5 6 7 8 9 10 11 12 13""",
    "A": "eq. 1 2; alg. 1; Fig. 1 2 3 4 5",
    "U": "eq. 1 2 3 4; Table 1; Fig. 1 2 3 4",
}
KINDS = "Def|Problem|Lemma|Corollary|Theorem|eq|Example|alg|Table|Fig"


def list_numbers(row: str) -> set[tuple[str, str, str]]:
    """List document, kind and number of everything that the first cell of a row names, such as “T Fig. 7.7–7.9”."""
    found = set()
    cell = re.sub(r"\([^)]*\)", "", row.split(" | ")[0])
    letter = kind = ""
    for token in re.findall(rf"\b[TPSAU]\b|\b(?:{KINDS})s?\b|\d[\d.]*[ab]?(?:–\d[\d.]*)?", cell.replace("figs", "Fig")):
        if token in DOCUMENTS:
            letter = token
        elif token[0].isalpha():
            kind = next(each for each in KINDS.split("|") if token.startswith(each))
        else:
            first, _, last = token.rstrip(".").partition("–")
            head, _, low = first.rpartition(".")
            numbers = range(int(low), int(last.rpartition(".")[2]) + 1) if last else ()
            found |= {(letter, kind, f"{head}.{number}" if head else str(number)) for number in numbers}
            found.add((letter, kind, first))
    return found


DOCUMENTS = "TPSAU"
PLACES = PAGE[PAGE.index("## Definitions, equations") : PAGE.index("## Every element")].splitlines()


@pytest.mark.parametrize("letter", DOCUMENTS)
def test_everything_that_a_document_numbers_has_a_place(letter: str) -> None:
    placed = set().union(*(list_numbers(row) for row in PLACES if row.startswith("| ")))
    for group in NUMBERED[letter].split(";"):
        kind, *numbers = group.split()
        missing = [each for each in numbers if (letter, kind.rstrip("."), each) not in placed]
        assert missing == [], f"{letter} {kind}"


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
